//! A directory by its name, on systems without handles of directories.
//!
//! Must not know: the purpose of the files.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::{Access, NotOpened, kind_of};
use crate::store::warning::StoreWarning;

#[derive(Debug)]
pub(super) struct Handle(PathBuf);

impl Handle {
    #[expect(clippy::unnecessary_wraps, reason = "as elsewhere")]
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(path.to_owned()))
    }

    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "as elsewhere")]
    pub(super) fn judge(&self, _: &Path, _: &mut Vec<StoreWarning>) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn open_regular(&self, _: &str, access: Access, path: &Path) -> Result<File, NotOpened> {
        if let Ok(found) = fs::symlink_metadata(path)
            && !found.is_file()
        {
            return Err(NotOpened::NotAFile { found: kind_of(found.file_type()) });
        }
        let is_lock = access == Access::Lock;
        Ok(File::options().read(true).write(is_lock).create(is_lock).truncate(false).open(path)?)
    }

    pub(super) fn create(&self, name: &str) -> io::Result<File> {
        File::create_new(self.0.join(name))
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    /// Does nothing: a directory cannot be synced here; renaming is journalled.
    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "as elsewhere")]
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    /// Returns true: a directory that holds an open file cannot be removed here.
    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "as elsewhere")]
    pub(super) fn is_at(&self, _: &Path, _: &File) -> io::Result<bool> {
        Ok(true)
    }
}
