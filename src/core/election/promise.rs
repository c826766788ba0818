//! Promises: the time until which this voter may vote only for its leader, and how much of it a restart must wait out.
//!
//! The longest promise that may still bind is on disk, since a restarted voter does not know when it made it. Two
//! events shorten it there:
//!
//! - A leader that gives leadership up releases its voters, and promises made before it was elected are over (its own
//!   voters were free of them): nothing binds any more, and a restart waits for nothing.
//! - Leases have become shorter: once only shorter promises were made for as long as the longest one lasts, that one is
//!   over, and the longest of the shorter ones takes its place.
//!
//! Invariant: the promise on disk is never shorter than the one that binds.
//!
//! Must not know: who leads.

use std::time::Duration;

use super::message::Body;
use super::{Election, Surroundings};
use crate::core::time::Time;

/// The promises made since the longest one: all of them shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Shorter {
    since: Time,
    longest: Duration,
}

/// The difference between the promises on disk and those that bind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Relief {
    /// The promises shorter than the longest one on disk, if no others were made for a while.
    shorter: Option<Shorter>,
    /// The disk holds promises that bind no more.
    pub(super) is_due: bool,
}

impl Election {
    /// Promises, from now on, not to vote for others for the lease; returns true if the disk has to learn of it.
    pub(super) fn promise(&mut self, around: &Surroundings<'_>, lease: Duration) -> bool {
        self.promised_until = self.promised_until.max(around.now + lease);
        let before = self.ballot.promise;
        if lease >= before {
            self.relief.shorter = None;
            self.ballot.promise = lease;
            return lease > before;
        }
        let shorter = self.relief.shorter.get_or_insert(Shorter { since: around.now, longest: lease });
        shorter.longest = shorter.longest.max(lease);
        let is_over = around.now.since(shorter.since) > before;
        let longest = shorter.longest;
        if is_over {
            self.relief.shorter = None;
            self.ballot.promise = longest;
        }
        is_over
    }

    /// Promises a lease, from a time on that is not known yet.
    pub(super) fn promise_longest(&mut self, lease: Duration) {
        self.relief.shorter = None;
        self.ballot.promise = self.ballot.promise.max(lease);
    }

    /// Ends all promises, also after a restart. The disk learns of it with the next vote, which most often follows at
    /// once, or when this node leaves: until then it holds more than binds, which is safe.
    pub(super) fn forget_promises(&mut self, around: &Surroundings<'_>) {
        self.relief.shorter = None;
        self.relief.is_due |= self.ballot.promise > Duration::ZERO;
        self.ballot.promise = Duration::ZERO;
        if !around.is_up {
            self.persist_relief();
        }
    }

    /// Removes the ended promises from the disk as well, if that has not been done yet.
    fn persist_relief(&mut self) {
        if self.relief.is_due {
            self.persist();
        }
    }

    /// Returns true if the leader of this term may count on a promise of this voter: not if this process came into the
    /// term, and has acknowledged nothing to that leader yet. (Promises to earlier leaders are over since this one was
    /// elected.)
    pub(super) fn has_acknowledged(&self) -> bool {
        let is_of_this_term = self.acked.is_some_and(|(term, _)| term == self.ballot.term);
        let may_be_forgotten = self.leader.is_some() && self.ballot.term > self.born_in;
        is_of_this_term || !may_be_forgotten
    }

    /// Tells the leader that this node leaves and acknowledges nothing any more: it may be able to do without its
    /// promise.
    pub(super) fn say_farewell(&mut self) {
        self.owed_ack = None;
        self.persist_relief();
        let leader = self.leader.filter(|leader| *leader != self.ballot.identity);
        let acked = self.acked.filter(|(term, _)| *term == self.ballot.term);
        let (Some(leader), Some((term, sequence)), Some(electorate)) = (leader, acked, self.electorate()) else {
            return;
        };
        if let Some(leader) = electorate.identified(leader).map(|leader| leader.id.clone()) {
            self.send(&leader, Body::Farewell { term, sequence });
        }
    }
}
