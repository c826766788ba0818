//! When a file was created: how a state file is told from a copy of it.
//!
//! A voter that is given an old state forgets what it voted since, under its own identity, and may vote twice in one term
//! (Raft, section 5.2, rests on `votedFor` never being lost). So a state file says when it was itself created. Whatever a
//! backup program, `cp`, `rsync` or `tar` puts in its place is another file, created later. A hard link to an older one is
//! that file itself: the lock file says when the newest one was created, and it is written in place, so that a link to it
//! says so, too. Where the file system knows no such time nothing is noticed; nor is a snapshot of the whole file system, or
//! of the machine.
//!
//! Must not know: what is in the file, or what is done about a copy.

use std::fs::File;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// File systems round, some of them only when the file is read from the disk again. No copy is made as soon as this.
const ROUNDING: Duration = Duration::from_millis(10);

/// When a file was created, in nanoseconds of Unix time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Birth(u64);

impl Birth {
    /// When this file was created, if the system says so.
    pub(super) fn of(file: &File) -> Option<Self> {
        // Windows gives a file the time of the one whose name it takes.
        if cfg!(not(unix)) {
            return None;
        }
        let created = file.metadata().and_then(|metadata| metadata.created()).ok()?;
        let since = created.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        u64::try_from(since.as_nanos()).ok().filter(|nanos| *nanos > 0).map(Self)
    }

    /// How many bytes it takes.
    pub(super) const BYTES: usize = 8;

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0.to_le_bytes()
    }

    pub(super) fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(u64::from_le_bytes(bytes))
    }

    /// Whether a file that was created then is older than one that is known of.
    pub(super) fn is_before(born: Option<Self>, newest: Option<Self>) -> bool {
        Self::differ(born, newest) && born.is_some_and(|born| newest.is_some_and(|newest| born.0 < newest.0))
    }

    /// Whether both are known, and not the same.
    pub(super) fn differ(one: Option<Self>, other: Option<Self>) -> bool {
        let (Some(Self(one)), Some(Self(other))) = (one, other) else { return false };
        Duration::from_nanos(one.abs_diff(other)) > ROUNDING
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_two_known_times_that_no_rounding_explains_differ() {
        let at = |millis: u64| Some(Birth(millis * 1_000_000));
        for (one, other, differ) in [
            (at(1_000), at(1_000), false),
            (at(1_000), at(1_010), false),
            (at(1_000), at(1_011), true),
            (at(1_011), at(1_000), true),
            (None, at(1_000), false),
            (at(1_000), None, false),
        ] {
            assert_eq!(Birth::differ(one, other), differ, "{one:?} {other:?}");
        }
    }
}
