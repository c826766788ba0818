//! This node's own incarnation: raised to refute, and never used before the disk has it.
//!
//! Invariant: no incarnation is used before a bound at or above it is stored. Bounds are stored [`INCARNATION_STEP`] ahead and
//! refreshed at half, so that an ordinary refutation never waits for a disk.
//!
//! Must not know: why it is raised.

use std::net::SocketAddr;

use crate::limits::INCARNATION_STEP;
use crate::member::{Record, Run};
use crate::wire::Nonce;

/// The greatest incarnation that this node uses: every accepted record can be refuted.
const HIGHEST: u64 = Record::INCARNATION_LIMIT - 2;

/// The state of this node's own incarnation.
#[derive(Debug, Clone)]
pub(crate) struct Incarnation {
    /// The bound that is stored: no higher incarnation may be used yet.
    stored: u64,
    /// The bound that was last given out to be stored.
    asked: u64,
    /// The incarnation that waits for its bound to be stored.
    wanted: Option<u64>,
    /// The node that asked for our record meanwhile: the old one would be refused, and not be asked for again for a
    /// second.
    asked_by: Option<(Run, SocketAddr, Nonce)>,
}

impl Incarnation {
    pub(crate) fn new(stored: u64) -> Self {
        Self { stored, asked: stored, wanted: None, asked_by: None }
    }

    /// Returns true if a raise waits for the disk.
    pub(crate) fn is_waiting(&self) -> bool {
        self.wanted.is_some()
    }

    /// Returns true if a raise above this incarnation waits for the disk.
    pub(crate) fn covers(&self, incarnation: u64) -> bool {
        self.wanted.is_some_and(|wanted| wanted > incarnation)
    }

    /// Returns the bound that is to be stored.
    pub(crate) fn bound(&self) -> u64 {
        self.asked
    }

    /// Raises the `present` incarnation; returns the new one if its bound is stored. If not, it waits for the disk.
    pub(crate) fn raise(&mut self, present: u64, to: u64) -> Option<u64> {
        let to = to.max(present + 1).min(HIGHEST);
        if to <= self.stored {
            return Some(to);
        }
        self.wanted = Some(self.wanted.map_or(to, |wanted| wanted.max(to)));
        None
    }

    /// Returns the incarnation after the `present` one, if it may be used at once.
    pub(crate) fn next(&self, present: u64) -> Option<u64> {
        Some(present + 1).filter(|next| *next <= self.stored)
    }

    /// Takes a higher bound when half of the last one is used up; returns true if it is to be stored.
    pub(crate) fn take_bound(&mut self, present: u64) -> bool {
        let used = self.wanted.unwrap_or(0).max(present);
        let bound = used.saturating_add(INCARNATION_STEP).min(HIGHEST);
        let is_due = used.saturating_add(INCARNATION_STEP / 2) > self.asked && bound > self.asked;
        if is_due {
            self.asked = bound;
        }
        is_due
    }

    /// Notes that a bound is on disk; returns the incarnation that waited for it.
    pub(crate) fn stored(&mut self, bound: u64) -> Option<u64> {
        self.stored = self.stored.max(bound);
        self.wanted.take_if(|wanted| *wanted <= self.stored)
    }

    /// Returns true if an introduction to this proven address has to wait for the disk; it is sent afterwards.
    pub(crate) fn take_introduction(&mut self, asker: Run, to: SocketAddr, nonce: Nonce) -> bool {
        let is_waiting = self.is_waiting();
        if is_waiting {
            self.asked_by = Some((asker, to, nonce));
        }
        is_waiting
    }

    /// Takes out the introduction that waited.
    pub(crate) fn introduction(&mut self) -> Option<(Run, SocketAddr, Nonce)> {
        self.asked_by.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_used_at_once_and_what_is_not_waits_for_the_disk() {
        let mut incarnation = Incarnation::new(10);
        assert_eq!((incarnation.raise(5, 3), incarnation.raise(5, 10)), (Some(6), Some(10)), "it never falls");
        assert_eq!((incarnation.raise(10, 12), incarnation.raise(10, 11)), (None, None));
        assert!(incarnation.is_waiting() && incarnation.covers(11) && !incarnation.covers(12));
        assert_eq!((incarnation.stored(11), incarnation.stored(12)), (None, Some(12)), "the higher one waited");
        assert!(!incarnation.is_waiting());
    }

    #[test]
    fn a_bound_is_stored_ahead_and_again_when_half_of_it_is_used() {
        let mut incarnation = Incarnation::new(0);
        assert!(incarnation.take_bound(1));
        assert_eq!(incarnation.bound(), 1 + INCARNATION_STEP);
        let half = 1 + INCARNATION_STEP / 2;
        assert!(!incarnation.take_bound(half) && incarnation.take_bound(half + 1));
    }

    #[test]
    fn every_incarnation_that_others_accept_can_be_raised_above() {
        let mut incarnation = Incarnation::new(u64::MAX);
        assert_eq!(incarnation.raise(1, u64::MAX), Some(HIGHEST));
        const { assert!(HIGHEST < Record::INCARNATION_LIMIT) };
    }
}
