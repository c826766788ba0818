//! Replacing the state file, step by step.
//!
//! Invariants:
//! - At every instant, through every crash, there is the old state or the new one, and it is one that the next start
//!   accepts: the old one is not touched before the new one is on the disk in its place.
//! - A write that is reported as successful has marked the former file as superseded, if another hard link led to it.
//! - The note in the lock file never runs ahead of the state.
//!
//! The marks cost nothing without hard links: a file without a name needs none.
//!
//! Must not know: the contents of the files.

use std::fs::File;
use std::io::{self, Write};
use std::sync::{MutexGuard, PoisonError};

use super::{Access, Directory, FileTime, MOVED_FILE, NEXT_FILE, Origin, STATE_FILE, lock_or_is_taken, note};
use crate::store::StoreError;
use crate::store::origin::Mark;

/// The state that the next write follows.
#[derive(Debug)]
pub(super) struct Predecessor {
    /// The highest sequence that is known to have been used.
    sequence: u64,
    /// The state file that this process wrote last, open for writing, and locked.
    file: Option<File>,
    /// The state file that this process found and has not replaced yet, locked while it is open.
    found: Option<File>,
}

impl Predecessor {
    pub(super) fn following(sequence: u64) -> Self {
        Self { sequence, file: None, found: None }
    }
}

/// The steps, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Creates the next file.
    Create,
    /// Writes the next file.
    Write,
    /// Waits until its contents are on the disk.
    Sync,
    /// Gives it the state file's name.
    Rename,
    /// Waits until the new name is on the disk.
    SyncName,
    /// Marks the former state file, if another hard link leads to it, and waits until the mark is on the disk.
    Mark,
    /// Writes the note of the new sequence into the lock file.
    Note,
    /// Removes the operator's word, which was about the former file.
    Forget,
}

impl Step {
    pub(super) const ALL: [Step; 8] =
        [Step::Create, Step::Write, Step::Sync, Step::Rename, Step::SyncName, Step::Mark, Step::Note, Step::Forget];
}

/// A write that is under way.
pub(super) struct Replacement<'a, F> {
    directory: &'a Directory,
    /// Makes the contents, once the origin of the file is known.
    contents: Option<F>,
    mark: Mark,
    origin: Origin,
    /// The file that is being written.
    next: Option<File>,
    /// The former state file, if it can be changed.
    before: Option<File>,
}

impl Directory {
    /// Takes note of the sequence of a state that was found.
    pub(crate) fn note_sequence(&self, sequence: u64) {
        let mut last = self.last();
        last.sequence = last.sequence.max(sequence);
    }

    /// Keeps the state file that was found, and is locked, until another one has taken its place.
    pub(super) fn claim(&self, found: File) {
        // On other systems an open file is in the way of others.
        self.last().found = Some(found).filter(|_| cfg!(unix));
    }

    /// Replaces the state file as a whole: at every instant there is the old or the new one. Blocks until it is on the
    /// disk.
    pub(crate) fn replace(
        &self,
        mark: Mark,
        contents: impl FnOnce(Origin) -> io::Result<Vec<u8>>,
    ) -> Result<(), StoreError> {
        self.check_held()?;
        let mut replacement = Replacement::new(self, mark, contents);
        for step in Step::ALL {
            if let Err(error) = replacement.take(step) {
                let _ = self.handle.remove(NEXT_FILE);
                replacement.give_up();
                // Another process may have locked a new lock file meanwhile; then the directory is lost, which is the
                // error to report.
                self.check_held()?;
                return Err(error);
            }
        }
        Ok(())
    }

    fn last(&self) -> MutexGuard<'_, Predecessor> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cannot_write(&self, source: io::Error) -> StoreError {
        StoreError::Write { path: self.path_of(STATE_FILE), error: source }
    }
}

impl<'a, F: FnOnce(Origin) -> io::Result<Vec<u8>>> Replacement<'a, F> {
    pub(super) fn new(directory: &'a Directory, mark: Mark, contents: F) -> Self {
        Self { directory, contents: Some(contents), mark, origin: Origin::default(), next: None, before: None }
    }

    /// Takes a step. Each step is to be taken once, in their order.
    pub(super) fn take(&mut self, step: Step) -> Result<(), StoreError> {
        let directory = self.directory;
        match step {
            Step::Create => self.create(),
            Step::Write => self.write().map_err(|source| directory.cannot_write(source)),
            Step::Sync => {
                let synced = self.next.as_ref().map_or(Ok(()), File::sync_all);
                // On other systems an open file is in the way of others.
                self.next = self.next.take().filter(|_| cfg!(unix));
                synced.map_err(|source| directory.cannot_write(source))
            }
            Step::Rename => {
                self.before = self.before();
                // Checked once more, at the last moment.
                directory.check_held()?;
                directory.handle.rename(NEXT_FILE, STATE_FILE).map_err(|source| directory.cannot_write(source))
            }
            Step::SyncName => {
                directory.handle.sync().map_err(|source| directory.cannot_write(source))?;
                directory.last().file = self.next.take();
                Ok(())
            }
            Step::Mark => {
                self.mark_before();
                // Released only now: a process that finds the file under another name finds the mark as well.
                directory.last().found = None;
                Ok(())
            }
            Step::Note => {
                note::write(&directory.lock, self.origin.sequence);
                Ok(())
            }
            Step::Forget => {
                let _ = directory.handle.remove(MOVED_FILE);
                Ok(())
            }
        }
    }

    fn create(&mut self) -> Result<(), StoreError> {
        let directory = self.directory;
        let _ = directory.handle.remove(NEXT_FILE);
        let file = directory.handle.create(NEXT_FILE).map_err(|source| match source.kind() {
            // The only thing that the removal above leaves in place.
            io::ErrorKind::AlreadyExists => {
                StoreError::NotAFile { path: directory.path_of(NEXT_FILE), found: "a directory" }
            }
            _ => directory.cannot_write(source),
        })?;
        // The file has no other user yet: this lock succeeds, unless files cannot be locked here.
        let _ = lock_or_is_taken(&file);
        let mut last = directory.last();
        // Used up even if this one is never written: no two files have the same sequence.
        last.sequence = last.sequence.saturating_add(1);
        self.origin = Origin { created: FileTime::created(&file), sequence: last.sequence };
        self.next = Some(file);
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        let (Some(contents), Some(file)) = (self.contents.take(), &mut self.next) else { return Ok(()) };
        file.write_all(&contents(self.origin)?)
    }

    /// Leaves the former file to the next write, which is to mark it.
    fn give_up(self) {
        if let Some(before) = self.before {
            self.directory.last().file = Some(before);
        }
    }

    /// Returns the former state file, open for writing, if it may have to be marked.
    ///
    /// A file that this process wrote is open already. One that an earlier run wrote is opened only if it has another
    /// name, since opening a file for writing makes a copy of it on some layered file systems.
    fn before(&self) -> Option<File> {
        let own = self.directory.last().file.take();
        own.or_else(|| {
            let (handle, path) = (&self.directory.handle, self.directory.path_of(STATE_FILE));
            let found = handle.open_regular(STATE_FILE, Access::Read, &path).ok()?;
            if links_to(&found) < 2 {
                return None;
            }
            let opened = handle.open_regular(STATE_FILE, Access::Change, &path);
            // The owner may have made it read-only; it must be recognised under its other name all the same.
            let opened = opened.or_else(|error| {
                make_writable(&found).map_err(|_| error)?;
                handle.open_regular(STATE_FILE, Access::Change, &path)
            });
            opened.ok()
        })
    }

    /// Marks the former file. A failure is no error: it only means that a link to the file is not recognised away from
    /// its lock file.
    fn mark_before(&mut self) {
        let Some(before) = self.before.take() else { return };
        if links_to(&before) > 0 {
            let Mark { offset, byte } = self.mark;
            let _ = write_at(&before, &[byte], offset).and_then(|()| before.sync_data());
        }
    }
}

/// Returns the number of names that a file has.
#[cfg(unix)]
fn links_to(file: &File) -> u64 {
    file.metadata().map_or(0, |metadata| std::os::unix::fs::MetadataExt::nlink(&metadata))
}

/// Gives the owner write permission to a file.
#[cfg(unix)]
fn make_writable(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;

    let mut permissions = file.metadata()?.permissions();
    permissions.set_mode(permissions.mode() | 0o200);
    file.set_permissions(permissions)
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

/// Does nothing: without a count of links, no file has to be marked.
#[cfg(not(unix))]
fn make_writable(_: &File) -> io::Result<()> {
    Ok(())
}

/// Returns 0: the number of links is unknown here.
#[cfg(not(unix))]
fn links_to(_: &File) -> u64 {
    0
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "as elsewhere")]
fn write_at(_: &File, _: &[u8], _: u64) -> io::Result<()> {
    Ok(())
}
