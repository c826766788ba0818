//! A directory by its handle, on systems that have such: everything is done in this very directory.
//!
//! Must not know: the purpose of the files.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, stat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use super::{Access, LOCK_FILE, NotOpened, kind_of};
use crate::store::warning::StoreWarning;

/// An open directory.
#[derive(Debug)]
pub(super) struct Handle(File);

impl Handle {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_NONBLOCK;
        File::options().read(true).custom_flags(flags.bits()).open(path).map(Self)
    }

    /// Adds warnings about the directory's owner and about write permissions for others.
    pub(super) fn judge(&self, path: &Path, warnings: &mut Vec<StoreWarning>) -> io::Result<()> {
        let metadata = self.0.metadata()?;
        let (mode, owner, me) = (metadata.permissions().mode() & 0o7777, metadata.uid(), geteuid().as_raw());
        let path = path.to_owned();
        // The administrator may do anything anyway.
        if owner != me && owner != 0 {
            warnings.push(StoreWarning::ForeignOwner { path: path.clone(), owner, me });
        }
        if mode & 0o002 != 0 {
            warnings.push(StoreWarning::OthersMayWrite { path, mode });
        } else if mode & 0o020 != 0 {
            warnings.push(StoreWarning::GroupMayWrite { path, mode });
        }
        Ok(())
    }

    /// Opens a regular file, without waiting for anything.
    pub(super) fn open_regular(&self, name: &str, access: Access, _: &Path) -> Result<File, NotOpened> {
        // Checked before it is opened, since opening a device may have effects; and after, since only that check is
        // certain.
        match fstatat(&self.0, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) if kind(&found) == SFlag::S_IFREG => {}
            Ok(found) => return Err(NotOpened::NotAFile { found: name_of(kind(&found)) }),
            Err(Errno::ENOENT) => {}
            Err(error) => return Err(NotOpened::Error(error.into())),
        }
        let flags = match access {
            Access::Read => OFlag::O_RDONLY,
            Access::Lock => OFlag::O_RDWR | OFlag::O_CREAT,
        };
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let file = match openat(&self.0, name, flags, owner_only()) {
            Ok(file) => File::from(file),
            Err(Errno::ELOOP) => return Err(NotOpened::NotAFile { found: name_of(SFlag::S_IFLNK) }),
            Err(error) => return Err(NotOpened::Error(error.into())),
        };
        let found = file.metadata()?.file_type();
        if found.is_file() { Ok(file) } else { Err(NotOpened::NotAFile { found: kind_of(found) }) }
    }

    /// Creates a file, which must not exist.
    pub(super) fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(openat(&self.0, name, flags, owner_only())?.into())
    }

    /// Renames a file, which replaces any file of the new name.
    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.0, from, &self.0, to)?)
    }

    /// Waits until the names in the directory are on the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, UnlinkatFlags::NoRemoveDir)?)
    }

    /// Returns true if the path leads to this directory, and the directory holds this lock file.
    pub(super) fn is_at(&self, path: &Path, lock: &File) -> io::Result<bool> {
        Ok(is_same(found(stat(path))?, fstat(&self.0)?)
            && is_same(found(fstatat(&self.0, LOCK_FILE, AtFlags::AT_SYMLINK_NOFOLLOW))?, fstat(lock)?))
    }
}

fn found(stat: nix::Result<FileStat>) -> io::Result<Option<FileStat>> {
    match stat {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn is_same(there: Option<FileStat>, held: FileStat) -> bool {
    there.is_some_and(|there| (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino))
}

fn owner_only() -> Mode {
    Mode::S_IRUSR | Mode::S_IWUSR
}

fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

fn name_of(kind: SFlag) -> &'static str {
    match kind {
        SFlag::S_IFIFO => "a named pipe",
        SFlag::S_IFSOCK => "a socket",
        SFlag::S_IFBLK | SFlag::S_IFCHR => "a device",
        SFlag::S_IFDIR => "a directory",
        SFlag::S_IFLNK => "a symbolic link",
        _ => "something else",
    }
}
