//! The data directory as this process holds it: by its handle, not by its name.
//!
//! Invariants, where the system has handles of directories (everywhere but on Windows):
//! - Writes go into the very directory whose lock this process holds, whatever is at its path by then. A directory that
//!   was removed, moved or replaced, or whose lock file was, is an error and is never made anew: another process may
//!   hold the lock of the directory that is there now, and would lose its state.
//! - Only regular files are opened. A pipe, a device, a socket or a link under a file's name is an error, and is never
//!   waited for; nor can a user who may write to the directory turn another file into the lock. The directory's own
//!   path may be a link.
//! - Files and directories created by this process are accessible to their owner alone.
//! - The state file can be told from a copy of it, and from an older one: the code that makes its contents is given its
//!   origin, and the code that reads it is given the file's visible properties.
//!
//! Permissions are judged, and never a reason not to start: in containers volumes belong to other users, and to groups.
//! Any user who may write to the directory can destroy this node's state; the operator is warned.
//!
//! Must not know: the contents of the files.
//!
//! | idea | file |
//! |---|---|
//! | access by the handle; by the path, where the system has no handles | `by_handle`, `by_path` |
//! | replacing the state file, step by step | `replace` |
//! | the note in the lock file | `note` |

use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::StoreError;
use super::origin::{FileFacts, FileTime, Origin};
use super::warning::StoreWarning;
use crate::files::lock_within;

#[cfg(unix)]
mod by_handle;
#[cfg(not(unix))]
mod by_path;
mod note;
mod replace;

#[cfg(unix)]
use by_handle::Handle;
#[cfg(not(unix))]
use by_path::Handle;

pub(super) const LOCK_FILE: &str = "headcount.lock";
pub(super) const STATE_FILE: &str = "headcount.state";
/// The file that is being written, before it takes the state file's place. Under the lock only this process uses it.
const NEXT_FILE: &str = "headcount.state-next";
/// Prefix of the names of files that are yet to take the state file's place, in this version and in earlier ones.
pub(super) const TEMPORARY_PREFIX: &str = "headcount.state-";

/// The longest wait for a lock. An agent that was killed while it started a handler leaves its locks, for a moment, to the
/// child that does not run the handler yet.
const LOCK_WAIT: Duration = Duration::from_millis(100);

#[cfg(all(test, unix))]
mod tests;
#[cfg(all(test, target_os = "linux"))]
mod tests_copies;
#[cfg(all(test, target_os = "linux"))]
mod tests_crashes;

/// The contents of the state file.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) bytes: Vec<u8>,
    /// The visible properties of the file.
    pub(super) facts: FileFacts,
}

/// A directory whose lock this process holds.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    handle: Handle,
    /// The lock file, locked while it is open. The file stays when the lock is released: deleting it would let two
    /// processes lock two files of one name.
    lock: File,
    /// The highest sequence of a state that is known to have been used.
    sequence: AtomicU64,
}

impl Directory {
    /// Creates the directory if need be, and locks it. Blocks on the disk.
    pub(super) fn open(path: &Path) -> Result<(Self, Vec<StoreWarning>), StoreError> {
        let failed = |source| StoreError::Create { path: path.to_owned(), error: source };
        create_private(path).map_err(failed)?;
        let handle = Handle::open(path).map_err(failed)?;
        let mut warnings = Vec::new();
        handle.judge(path, &mut warnings).map_err(failed)?;
        let lock = lock(&handle, path)?;
        tighten(&lock, &path.join(LOCK_FILE), &mut warnings);
        let sequence = AtomicU64::new(note::read(&lock).unwrap_or(0));
        let directory = Self { path: path.to_owned(), handle, lock, sequence };
        directory.remove_leftovers();
        Ok((directory, warnings))
    }

    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns the contents of the state file, up to `most` bytes, and its visible properties; `None` if there is no
    /// such file.
    pub(super) fn read(&self, most: usize, warnings: &mut Vec<StoreWarning>) -> Result<Option<Contents>, StoreError> {
        let path = self.path_of(STATE_FILE);
        let Some(file) = open_state(&self.handle, &path)? else { return Ok(None) };
        warn_if_others_may_write(&file, &path, warnings);
        let newest = note::read(&self.lock).unwrap_or(0);
        let facts = FileFacts { created: FileTime::created(&file), modified: FileTime::modified(&file), newest };
        let mut bytes = Vec::new();
        match (&file).take(most as u64).read_to_end(&mut bytes) {
            Ok(_) => Ok(Some(Contents { bytes, facts })),
            Err(source) => Err(StoreError::Read { path, error: source }),
        }
    }

    /// Checks that the directory at the path is the one that this process holds, and its lock file the one it locked.
    pub(super) fn check_held(&self) -> Result<(), StoreError> {
        match self.handle.is_at(&self.path, &self.lock) {
            Ok(true) => Ok(()),
            Ok(false) => Err(StoreError::Lost { path: self.path.clone() }),
            Err(source) => Err(StoreError::Write { path: self.path_of(STATE_FILE), error: source }),
        }
    }

    /// Removes temporary files of a run that died between writing and renaming. Under the lock no other process uses
    /// them.
    fn remove_leftovers(&self) {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            if let Some(name) = entry.file_name().to_str().filter(|name| name.starts_with(TEMPORARY_PREFIX)) {
                let _ = self.handle.remove(name);
            }
        }
    }
}

/// Returns up to `most` bytes of the state file in a directory, which another process may hold; `None` if there is no such
/// file, or no such directory.
#[cfg(feature = "agent")]
pub(super) fn glance_at(directory: &Path, most: usize) -> Result<Option<Vec<u8>>, StoreError> {
    let path = directory.join(STATE_FILE);
    let handle = match Handle::open(directory) {
        Ok(handle) => handle,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(StoreError::Read { path, error: source }),
    };
    let Some(file) = open_state(&handle, &path)? else { return Ok(None) };
    let mut bytes = Vec::new();
    match file.take(most as u64).read_to_end(&mut bytes) {
        Ok(_) => Ok(Some(bytes)),
        Err(source) => Err(StoreError::Read { path, error: source }),
    }
}

fn open_state(handle: &Handle, path: &Path) -> Result<Option<File>, StoreError> {
    let path = path.to_owned();
    match handle.open_regular(STATE_FILE, Access::Read, &path) {
        Ok(file) => Ok(Some(file)),
        Err(NotOpened::Error(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(NotOpened::Error(source)) => Err(StoreError::Read { path, error: source }),
        Err(NotOpened::NotAFile { found }) => Err(StoreError::NotAFile { path, found }),
    }
}

/// The purpose for which a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    /// The lock file, created if it does not exist.
    Lock,
}

/// The reason why a file was not opened.
enum NotOpened {
    NotAFile { found: &'static str },
    Error(io::Error),
}

impl From<io::Error> for NotOpened {
    fn from(error: io::Error) -> Self {
        NotOpened::Error(error)
    }
}

/// Returns the kind of a thing that is no regular file, in words.
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
        Err(NotOpened::Error(source)) => return Err(StoreError::Lock { path, error: source }),
        Err(NotOpened::NotAFile { found }) => return Err(StoreError::NotAFile { path, found }),
    };
    match lock_within(&file, LOCK_WAIT) {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse { path: directory.to_owned() }),
        Err(TryLockError::Error(source)) => Err(StoreError::Lock { path, error: source }),
    }
}

/// Restricts the lock file to its owner: any user who may open it may lock it, and so keep this node from starting. A
/// file that an earlier version created is restricted, too.
#[cfg(unix)]
fn tighten(lock: &File, path: &Path, warnings: &mut Vec<StoreWarning>) {
    use std::os::unix::fs::PermissionsExt;
    let is_open = lock.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0);
    if is_open && lock.set_permissions(fs::Permissions::from_mode(0o600)).is_err() {
        // The file belongs to another user, who let this process in on purpose.
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
