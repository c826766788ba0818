//! Homes: the addresses where members were held before they were gone and appeared elsewhere without a proof.
//!
//! Such a member is a stray (see `packet::keepsakes`): it may have moved, or another process took it up while a cut kept its
//! owner away. At its home is its owner, if that is not the process that appeared: it is asked there for as long as the
//! stray is held, and is believed when it answers, whatever answers elsewhere. So nobody keeps the two sides of a cut
//! apart by taking up on each side the members that are held as gone there.
//!
//! Invariants:
//! - A home is an address where this node held the run. The first one stays, however often a stray appears elsewhere
//!   again.
//! - A home is forgotten when the run is there again, when it proves that it moved, and with the run.
//! - A stray is never so far ahead of its owner that the owner could not refute it (see `belief`).
//! - At most [`MAX_HOMES`] are remembered: further strays are believed, and asked for nowhere else.
//!
//! Must not know: how the owner is asked (see `discovery::reunion`).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Bound;

use crate::core::limits::MAX_HOMES;
use crate::core::member::Run;

/// The homes of strays.
#[derive(Debug, Default)]
pub(in crate::core) struct Homes {
    homes: BTreeMap<Run, SocketAddr>,
    /// The last run that had its turn to be asked.
    last: Option<Run>,
}

impl Homes {
    /// Returns the number of homes that are remembered.
    pub(in crate::core) fn size(&self) -> usize {
        self.homes.len()
    }

    /// Remembers where a stray was held, if it is not known already where that was first.
    pub(super) fn leave(&mut self, run: Run, home: SocketAddr) {
        if self.homes.len() < MAX_HOMES {
            self.homes.entry(run).or_insert(home);
        }
    }

    /// Forgets the home of a run.
    pub(in crate::core) fn forget(&mut self, run: Run) {
        self.homes.remove(&run);
    }

    /// Returns the home of a stray.
    pub(in crate::core) fn of(&self, run: Run) -> Option<SocketAddr> {
        self.homes.get(&run).copied()
    }

    /// Returns the home of the next stray in turn.
    pub(in crate::core) fn next(&mut self) -> Option<SocketAddr> {
        let after = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.homes.range((after, Bound::Unbounded)).next().or_else(|| self.homes.first_key_value());
        let (run, home) = next?;
        self.last = Some(*run);
        Some(*home)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port))
    }

    #[test]
    fn the_first_home_stays_until_it_is_forgotten() {
        let mut homes = Homes::default();
        homes.leave(Run(1), at(1));
        homes.leave(Run(1), at(2));
        assert_eq!(homes.of(Run(1)), Some(at(1)));
        homes.forget(Run(1));
        assert_eq!((homes.of(Run(1)), homes.next()), (None, None));
    }

    #[test]
    fn so_many_homes_are_remembered_and_the_first_ones_stay() {
        let mut homes = Homes::default();
        let most = MAX_HOMES as u64;
        for run in 0..=most {
            homes.leave(Run(run), at(1));
        }
        assert_eq!((homes.size(), homes.of(Run(0)), homes.of(Run(most))), (MAX_HOMES, Some(at(1)), None));
    }

    #[test]
    fn each_home_has_its_turn() {
        let mut homes = Homes::default();
        for run in [3, 1, 2] {
            homes.leave(Run(run), at(run as u16));
        }
        let turns: Vec<_> = (0..4).filter_map(|_| homes.next()).collect();
        assert_eq!(turns, [at(1), at(2), at(3), at(1)]);
        homes.forget(Run(1));
        assert_eq!(homes.next(), Some(at(2)));
    }
}
