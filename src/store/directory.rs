//! The data directory as this process holds it: by its handle, not by its name.
//!
//! Invariants, where the system has handles of directories (everywhere but on Windows):
//! - What is written goes into the very directory whose lock this process holds, whatever stands at its path by then. A
//!   directory that was removed, moved or replaced, or whose lock file was, is an error and is never made anew: somebody
//!   else may hold the lock of what is there now, and would lose what it remembers.
//! - What is opened is a regular file. A pipe, a device, a socket or a link under a file's name is an error, and nothing is
//!   waited for; whoever may write to the directory turns no other file into the lock. The directory's own path may be a
//!   link.
//! - What this process creates is readable by its owner alone.
//! - Each file can be told from a copy of it: whoever makes its contents is told when the file was created, and whoever reads
//!   it when the file that is there was.
//!
//! Permissions are judged, and never a reason not to start: in containers volumes belong to others, and to groups. Whoever
//! may write to the directory can take this node's memory away; the operator is warned.
//!
//! Must not know: what is in the files.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::StoreError;
use super::birth::Birth;
use super::warning::StoreWarning;

pub(super) const LOCK_FILE: &str = "headcount.lock";
pub(super) const STATE_FILE: &str = "headcount.state";
/// What an operator puts there to say that the directory was moved, and is no backup.
pub(super) const MOVED_FILE: &str = "headcount.moved";
/// What is being written, before it takes the state file's place. Under the lock it is this process's alone.
const NEXT_FILE: &str = "headcount.state-next";
/// The beginning of the names that files had before they took the state file's place.
pub(super) const TEMPORARY_PREFIX: &str = "headcount.state-";

#[cfg(all(test, unix))]
mod tests;

/// What is in a file.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) bytes: Vec<u8>,
    /// When the file was created.
    pub(super) birth: Option<Birth>,
}

/// A directory whose lock this process holds.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    handle: Handle,
    /// Locked while it is open. The file stays when the lock goes: deleting it would let two processes lock two files
    /// of one name.
    lock: File,
}

impl Directory {
    /// Creates the directory if need be, and locks it. Blocks on the disk.
    pub(super) fn open(path: &Path) -> Result<(Self, Vec<StoreWarning>), StoreError> {
        let failed = |source| StoreError::Create { path: path.to_owned(), source };
        create_private(path).map_err(failed)?;
        let handle = Handle::open(path).map_err(failed)?;
        let mut warnings = Vec::new();
        handle.judge(path, &mut warnings).map_err(failed)?;
        let lock = lock(&handle, path)?;
        tighten(&lock, &path.join(LOCK_FILE), &mut warnings);
        let directory = Self { path: path.to_owned(), handle, lock };
        directory.remove_leftovers();
        Ok((directory, warnings))
    }

    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// What is in a file, up to so many bytes, and when the file was created; `None` if there is no such file.
    pub(super) fn read(
        &self,
        name: &str,
        most: usize,
        warnings: &mut Vec<StoreWarning>,
    ) -> Result<Option<Contents>, StoreError> {
        let path = self.path_of(name);
        let file = match self.handle.open_regular(name, Access::Read, &path) {
            Ok(file) => file,
            Err(Unopened::Error(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(Unopened::Error(source)) => return Err(StoreError::Read { path, source }),
            Err(Unopened::NotAFile { found }) => return Err(StoreError::NotAFile { path, found }),
        };
        warn_if_others_may_write(&file, &path, warnings);
        let birth = Birth::of(&file);
        let mut bytes = Vec::new();
        match file.take(most as u64).read_to_end(&mut bytes) {
            Ok(_) => Ok(Some(Contents { bytes, birth })),
            Err(source) => Err(StoreError::Read { path, source }),
        }
    }

    /// Replaces a file as a whole: at every instant the old or the new one is there. Its contents are made once it is known
    /// when it was created. Blocks until it is on the disk.
    pub(super) fn replace(
        &self,
        name: &str,
        contents: impl FnOnce(Option<Birth>) -> io::Result<Vec<u8>>,
    ) -> Result<(), StoreError> {
        self.check_held()?;
        let mut newest = None;
        let written = self.write_next(contents).map(|birth| newest = birth);
        // Looked at again at the last moment: whoever locked a new lock file meanwhile owns what is here.
        let outcome = self.check_held().and_then(|()| {
            let replaced = written.and_then(|()| self.handle.rename(NEXT_FILE, name));
            replaced.map_err(|source| match source.kind() {
                // All that is not removed before it is created.
                io::ErrorKind::AlreadyExists => {
                    StoreError::NotAFile { path: self.path_of(NEXT_FILE), found: "a directory" }
                }
                _ => StoreError::Write { path: self.path_of(name), source },
            })
        });
        if outcome.is_ok() {
            self.note_newest(newest);
        } else {
            let _ = self.handle.remove(NEXT_FILE);
        }
        outcome
    }

    fn write_next(&self, contents: impl FnOnce(Option<Birth>) -> io::Result<Vec<u8>>) -> io::Result<Option<Birth>> {
        let _ = self.handle.remove(NEXT_FILE);
        let mut file = self.handle.create(NEXT_FILE)?;
        let birth = Birth::of(&file);
        file.write_all(&contents(birth)?)?;
        file.sync_all()?;
        Ok(birth)
    }

    /// Notes in the lock file, in place, when the newest file was created: a hard link to an older one is that very file, and
    /// so is one to the lock file. Not synced, and no error if it fails: what is lost is that an old file is recognised.
    fn note_newest(&self, birth: Option<Birth>) {
        #[cfg(unix)]
        if let Some(birth) = birth {
            let _ = std::os::unix::fs::FileExt::write_all_at(&self.lock, &birth.to_bytes(), 0);
        }
        #[cfg(not(unix))]
        let _ = birth;
    }

    /// When the newest file was created, as far as is known.
    pub(super) fn newest(&self) -> Option<Birth> {
        #[cfg(unix)]
        {
            let mut bytes = [0; Birth::BYTES];
            std::os::unix::fs::FileExt::read_exact_at(&self.lock, &mut bytes, 0).ok()?;
            Some(Birth::from_bytes(bytes))
        }
        #[cfg(not(unix))]
        None
    }

    /// Removes a file; says whether there was one.
    pub(super) fn remove(&self, name: &str) -> Result<bool, StoreError> {
        match self.handle.remove(name) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(StoreError::Write { path: self.path_of(name), source }),
        }
    }

    /// Says whether something other than a directory is under this name.
    pub(super) fn has(&self, name: &str) -> bool {
        fs::symlink_metadata(self.path_of(name)).is_ok_and(|found| !found.is_dir())
    }

    /// Whether the directory at the path is the one that this process holds, and its lock file the one it locked.
    fn check_held(&self) -> Result<(), StoreError> {
        match self.handle.is_at(&self.path, &self.lock) {
            Ok(true) => Ok(()),
            Ok(false) => Err(StoreError::Lost { path: self.path.clone() }),
            Err(source) => Err(StoreError::Write { path: self.path_of(STATE_FILE), source }),
        }
    }

    /// Temporary files of a run that died between writing and renaming. Under the lock they are nobody's.
    fn remove_leftovers(&self) {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            if let Some(name) = entry.file_name().to_str().filter(|name| name.starts_with(TEMPORARY_PREFIX)) {
                let _ = self.handle.remove(name);
            }
        }
    }
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    /// Created if it is not there.
    Lock,
}

/// Why a file was not opened.
enum Unopened {
    NotAFile { found: &'static str },
    Error(io::Error),
}

impl From<io::Error> for Unopened {
    fn from(error: io::Error) -> Self {
        Unopened::Error(error)
    }
}

/// The kind of something that is no regular file, in words.
fn kind_of(kind: fs::FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            return "a named pipe";
        } else if kind.is_socket() {
            return "a socket";
        } else if kind.is_block_device() || kind.is_char_device() {
            return "a device";
        }
    }
    if kind.is_symlink() {
        "a symbolic link"
    } else if kind.is_dir() {
        "a directory"
    } else {
        "something else"
    }
}

fn create_private(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

fn lock(handle: &Handle, directory: &Path) -> Result<File, StoreError> {
    let path = directory.join(LOCK_FILE);
    let file = match handle.open_regular(LOCK_FILE, Access::Lock, &path) {
        Ok(file) => file,
        Err(Unopened::Error(source)) => return Err(StoreError::Lock { path, source }),
        Err(Unopened::NotAFile { found }) => return Err(StoreError::NotAFile { path, found }),
    };
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse { path: directory.to_owned() }),
        Err(TryLockError::Error(source)) => Err(StoreError::Lock { path, source }),
    }
}

/// A lock file that others may open is a lock that others may hold: whoever holds it keeps this node from starting. One
/// that an earlier version created is made the owner's own.
#[cfg(unix)]
fn tighten(lock: &File, path: &Path, warnings: &mut Vec<StoreWarning>) {
    use std::os::unix::fs::PermissionsExt;
    let is_open = lock.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0);
    if is_open && lock.set_permissions(fs::Permissions::from_mode(0o600)).is_err() {
        // It is somebody else's, who let this process in on purpose.
        warn_if_others_may_write(lock, path, warnings);
    }
}

#[cfg(not(unix))]
fn tighten(_: &File, _: &Path, _: &mut Vec<StoreWarning>) {}

#[cfg(unix)]
fn warn_if_others_may_write(file: &File, path: &Path, warnings: &mut Vec<StoreWarning>) {
    use std::os::unix::fs::PermissionsExt;
    let mode = file.metadata().map_or(0, |metadata| metadata.permissions().mode() & 0o7777);
    if mode & 0o002 != 0 {
        warnings.push(StoreWarning::OthersMayWrite { path: path.to_owned(), mode });
    }
}

#[cfg(not(unix))]
fn warn_if_others_may_write(_: &File, _: &Path, _: &mut Vec<StoreWarning>) {}

#[cfg(unix)]
use held::Handle;

#[cfg(unix)]
mod held {
    use std::fs::File;
    use std::io;
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
    use std::path::Path;

    use nix::errno::Errno;
    use nix::fcntl::{AtFlags, OFlag, openat, renameat};
    use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, stat};
    use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

    use super::{Access, LOCK_FILE, Unopened, kind_of};
    use crate::store::warning::StoreWarning;

    /// An open directory.
    #[derive(Debug)]
    pub(super) struct Handle(File);

    impl Handle {
        pub(super) fn open(path: &Path) -> io::Result<Self> {
            let flags = OFlag::O_DIRECTORY | OFlag::O_NONBLOCK;
            File::options().read(true).custom_flags(flags.bits()).open(path).map(Self)
        }

        /// Who may write into it, and whose it is.
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

        /// Opens a regular file, and waits for nothing.
        pub(super) fn open_regular(&self, name: &str, access: Access, _: &Path) -> Result<File, Unopened> {
            // Looked at before it is opened, since opening a device may do something; and after, since only that is sure.
            match fstatat(&self.0, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
                Ok(found) if kind(&found) == SFlag::S_IFREG => {}
                Ok(found) => return Err(Unopened::NotAFile { found: name_of(kind(&found)) }),
                Err(Errno::ENOENT) => {}
                Err(error) => return Err(Unopened::Error(error.into())),
            }
            let flags = match access {
                Access::Read => OFlag::O_RDONLY,
                Access::Lock => OFlag::O_RDWR | OFlag::O_CREAT,
            };
            let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
            let file = match openat(&self.0, name, flags, owner_only()) {
                Ok(file) => File::from(file),
                Err(Errno::ELOOP) => return Err(Unopened::NotAFile { found: name_of(SFlag::S_IFLNK) }),
                Err(error) => return Err(Unopened::Error(error.into())),
            };
            let found = file.metadata()?.file_type();
            if found.is_file() { Ok(file) } else { Err(Unopened::NotAFile { found: kind_of(found) }) }
        }

        /// Creates a file that is not there.
        pub(super) fn create(&self, name: &str) -> io::Result<File> {
            let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            Ok(openat(&self.0, name, flags, owner_only())?.into())
        }

        /// Puts one file in the place of another, durably.
        pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            renameat(&self.0, from, &self.0, to)?;
            self.0.sync_all()
        }

        pub(super) fn remove(&self, name: &str) -> io::Result<()> {
            Ok(unlinkat(&self.0, name, UnlinkatFlags::NoRemoveDir)?)
        }

        /// Whether this directory is what the path leads to, and holds this lock file.
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
}

#[cfg(not(unix))]
use named::Handle;

/// Where directories have no handles, names must do.
#[cfg(not(unix))]
mod named {
    use std::fs::{self, File};
    use std::io;
    use std::path::{Path, PathBuf};

    use super::{Access, Unopened, kind_of};
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

        pub(super) fn open_regular(&self, _: &str, access: Access, path: &Path) -> Result<File, Unopened> {
            if let Ok(found) = fs::symlink_metadata(path)
                && !found.is_file()
            {
                return Err(Unopened::NotAFile { found: kind_of(found.file_type()) });
            }
            let is_lock = access == Access::Lock;
            Ok(File::options().read(true).write(is_lock).create(is_lock).truncate(false).open(path)?)
        }

        pub(super) fn create(&self, name: &str) -> io::Result<File> {
            File::create_new(self.0.join(name))
        }

        /// A directory cannot be synced here; the rename itself is journalled.
        pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            fs::rename(self.0.join(from), self.0.join(to))
        }

        pub(super) fn remove(&self, name: &str) -> io::Result<()> {
            fs::remove_file(self.0.join(name))
        }

        /// A directory that holds an open file cannot be removed here.
        #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "as elsewhere")]
        pub(super) fn is_at(&self, _: &Path, _: &File) -> io::Result<bool> {
            Ok(true)
        }
    }
}
