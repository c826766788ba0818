//! Replacing the state file, step by step.
//!
//! Invariants:
//! - At every instant, through every crash, there is the old state or the new one, and it is one that the next start
//!   accepts: the old one is not touched before the new one is on the disk in its place.
//! - The note in the lock file never runs ahead of the state.
//!
//! Must not know: the contents of the files.

use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::Ordering;

use super::{Directory, FileTime, NEXT_FILE, Origin, STATE_FILE, note};
use crate::store::StoreError;

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
    /// Writes the note of the new sequence into the lock file.
    Note,
}

impl Step {
    pub(super) const ALL: [Step; 6] = [Step::Create, Step::Write, Step::Sync, Step::Rename, Step::SyncName, Step::Note];
}

/// A write that is under way.
pub(super) struct Replacement<'a, F> {
    directory: &'a Directory,
    /// Makes the contents, once the origin of the file is known.
    contents: Option<F>,
    origin: Origin,
    /// The file that is being written.
    next: Option<File>,
}

impl Directory {
    /// Takes note of the sequence of a state that was found.
    pub(crate) fn note_sequence(&self, sequence: u64) {
        self.sequence.fetch_max(sequence, Ordering::Relaxed);
    }

    /// Replaces the state file as a whole: at every instant there is the old or the new one. Blocks until it is on the
    /// disk.
    pub(crate) fn replace(&self, contents: impl FnOnce(Origin) -> io::Result<Vec<u8>>) -> Result<(), StoreError> {
        self.check_held()?;
        let mut replacement = Replacement::new(self, contents);
        for step in Step::ALL {
            if let Err(error) = replacement.take(step) {
                let _ = self.handle.remove(NEXT_FILE);
                // Another process may have locked a new lock file meanwhile; then the directory is lost, which is the
                // error to report.
                self.check_held()?;
                return Err(error);
            }
        }
        Ok(())
    }

    fn cannot_write(&self, source: io::Error) -> StoreError {
        StoreError::Write { path: self.path_of(STATE_FILE), error: source }
    }
}

impl<'a, F: FnOnce(Origin) -> io::Result<Vec<u8>>> Replacement<'a, F> {
    pub(super) fn new(directory: &'a Directory, contents: F) -> Self {
        Self { directory, contents: Some(contents), origin: Origin::default(), next: None }
    }

    /// Takes a step. Each step is to be taken once, in their order.
    pub(super) fn take(&mut self, step: Step) -> Result<(), StoreError> {
        let directory = self.directory;
        match step {
            Step::Create => self.create(),
            Step::Write => self.write().map_err(|source| directory.cannot_write(source)),
            Step::Sync => {
                let synced = self.next.take().map_or(Ok(()), |file| file.sync_all());
                synced.map_err(|source| directory.cannot_write(source))
            }
            Step::Rename => {
                // Checked once more, at the last moment.
                directory.check_held()?;
                directory.handle.rename(NEXT_FILE, STATE_FILE).map_err(|source| directory.cannot_write(source))
            }
            Step::SyncName => directory.handle.sync().map_err(|source| directory.cannot_write(source)),
            Step::Note => {
                note::write(&directory.lock, self.origin.sequence);
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
        // Used up even if this one is never written: no two files have the same sequence.
        let sequence = directory.sequence.fetch_add(1, Ordering::Relaxed) + 1;
        self.origin = Origin { created: FileTime::created(&file), sequence };
        self.next = Some(file);
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        let (Some(contents), Some(file)) = (self.contents.take(), &mut self.next) else { return Ok(()) };
        file.write_all(&contents(self.origin)?)
    }
}
