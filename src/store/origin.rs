//! The origin of a state file, by which it is told from a copy of it, and from an older one.
//!
//! A voter that is given an old state forgets the votes that it gave since, under its own identity, and may vote twice
//! in one term (Raft, section 5.2, rests on `votedFor` never being lost). So a state file contains its own time of
//! creation, and its place in the sequence of states. Two signs show that it is not the one that the voter wrote
//! last:
//!
//! - Its time of creation differs from the one in it: `cp`, `rsync`, `tar` and backup programs create new files. One
//!   from a file system that does not know this was created after it was modified, if its times were kept.
//! - The note in the lock file beside it names a later one (see `directory::note`).
//!
//! Neither needs clocks that only go forward: times are compared for being the same, or for being of one file.
//!
//! Not recognised: a snapshot of the whole file system or machine; if the file system has no times of creation, a copy
//! in a directory whose lock file names no later state; a copy from such a file system that did not keep its times, or
//! was made within [`SKEW`] of its last write; and a hard link to an older state, away from its lock file.
//!
//! Must not know: the rest of the file, or the response to a copy.

use std::fs::File;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// The resolutions, in nanoseconds, to which file systems round times down, some of them only on the disk.
const GRAINS: [u64; 6] = [100, 1_000, 1_000_000, 10_000_000, 1_000_000_000, 2_000_000_000];

/// The longest time, rounding aside, by which the creation of a file that is no copy may seem to be later than its
/// modification, if one time comes from a server and the other from its client. Longer than two ticks of any kernel's
/// clock, and shorter than an agent takes to end and a copy to begin.
const SKEW: Duration = Duration::from_millis(20);

/// A time that a file system keeps of a file, in nanoseconds of Unix time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct FileTime(u64);

impl FileTime {
    /// Returns the time of creation, if the system has it.
    pub(super) fn created(file: &File) -> Option<Self> {
        // Windows gives a file the time of the one whose name it takes.
        if cfg!(not(unix)) {
            return None;
        }
        Self::of(file.metadata().and_then(|metadata| metadata.created()).ok()?)
    }

    /// Returns the time of the last change of the contents, if the system has it. Any program may have set it.
    pub(super) fn modified(file: &File) -> Option<Self> {
        Self::of(file.metadata().and_then(|metadata| metadata.modified()).ok()?)
    }

    fn of(time: SystemTime) -> Option<Self> {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        u64::try_from(since.as_nanos()).ok().filter(|nanos| *nanos > 0).map(Self)
    }

    /// Returns true if this may be the other time as a file system rounded it.
    fn is_rounded(self, exact: Self) -> bool {
        self == exact || GRAINS.iter().any(|grain| self.0 == exact.0 - exact.0 % grain)
    }

    /// Returns true if a file that was created then may have been modified at this time.
    fn may_follow(self, created: Self) -> bool {
        Duration::from_nanos(created.0.saturating_sub(self.0)) <= SKEW || self.is_rounded(created)
    }
}

/// The origin of a state file, as the file itself contains it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Origin {
    /// Time of creation. `None` if the file system does not know it.
    pub(super) created: Option<FileTime>,
    /// The sequence number, higher than that of every state written in the directory before.
    pub(super) sequence: u64,
}

/// The visible properties of a state file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FileFacts {
    pub(super) created: Option<FileTime>,
    pub(super) modified: Option<FileTime>,
    /// The highest sequence that its directory knows of.
    pub(super) newest: u64,
}

impl Origin {
    /// Returns true if a file with these visible properties is the original of this origin, and the last one of its
    /// directory.
    pub(super) fn fits(self, facts: &FileFacts) -> bool {
        let is_itself = match (self.created, facts.created) {
            (Some(noted), Some(created)) => created.is_rounded(noted),
            (None, Some(created)) => facts.modified.is_none_or(|modified| modified.may_follow(created)),
            (_, None) => true,
        };
        is_itself && self.sequence >= facts.newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[expect(clippy::unnecessary_wraps, reason = "as the fields have it")]
    fn at(nanos: u64) -> Option<FileTime> {
        Some(FileTime(nanos))
    }

    #[test]
    fn a_file_created_at_another_time_than_it_says_is_another_file_unless_rounding_explains_it() {
        let noted = 1_234_567_891;
        let rounded = [1_234_567_800, 1_234_567_000, 1_234_000_000, 1_230_000_000, SECOND];
        for created in rounded.into_iter().chain([noted]) {
            let facts = FileFacts { created: at(created), ..FileFacts::default() };
            assert!(Origin { created: at(noted), sequence: 0 }.fits(&facts), "{created}");
        }
        // The states of an election are a millisecond apart.
        for created in [noted + 1, noted - 1, noted + 1_000_000, noted - 1_000_000, noted + SECOND, SECOND - 1] {
            let facts = FileFacts { created: at(created), ..FileFacts::default() };
            assert!(!Origin { created: at(noted), sequence: 0 }.fits(&facts), "{created}");
        }
        assert!(Origin { created: at(noted), sequence: 0 }.fits(&FileFacts::default()), "nothing is known");
    }

    #[test]
    fn a_file_that_says_nothing_of_its_creation_was_not_created_after_it_was_modified_unless_rounding_explains_it() {
        for (created, modified, is_itself) in [
            (at(9_500_000_000), at(9_500_000_000), true),
            (at(9_500_000_000), at(99_000_000_000), true),
            (at(9_500_000_000), at(9_000_000_000), true),
            (at(9_500_000_000), at(8_000_000_000), true),
            (at(9_500_000_000), at(7_000_000_000), false),
            (at(9_500_000_000), at(8_999_999_999), false),
            (at(9_500_000_000), at(9_480_000_000), true),
            (at(9_500_000_000), at(9_479_999_999), false),
            (at(9_500_000_000), None, true),
            (None, at(SECOND), true),
        ] {
            assert_eq!(
                Origin::default().fits(&FileFacts { created, modified, newest: 0 }),
                is_itself,
                "{created:?} {modified:?}"
            );
        }
    }

    #[test]
    fn a_file_before_the_newest_that_its_directory_knows_of_is_an_older_one() {
        for (sequence, newest, is_newest) in [(0, 0, true), (5, 5, true), (6, 5, true), (4, 5, false), (0, 1, false)] {
            let facts = FileFacts { newest, ..FileFacts::default() };
            assert_eq!(Origin { created: None, sequence }.fits(&facts), is_newest, "{sequence} {newest}");
        }
    }
}
