//! Promises: until when this voter may not vote for others than its leader, and how much of that a restart must wait for.
//!
//! The longest promise that may still bind is on disk, since a restarted voter does not know when it made it. Two things
//! shorten it there:
//!
//! - A leader that gives leadership up releases its voters, and what was promised before it was elected is over (its own
//!   voters were free of it): nothing binds any more, and after a restart nothing is waited for.
//! - Leases have become shorter: once nothing but shorter promises was made for as long as the longest one lasts, that one
//!   is over, and the longest of the shorter ones takes its place.
//!
//! Invariant: what is on disk is never shorter than what binds.
//!
//! Must not know: who leads.

use std::time::Duration;

use super::message::Body;
use super::{Election, Surroundings};
use crate::core::time::Time;

/// Promises made since the longest one: none of them as long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Shorter {
    since: Time,
    longest: Duration,
}

/// How what is on disk of the promises differs from what binds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Relief {
    /// Shorter promises than the longest one on disk, if no other were made for a while.
    shorter: Option<Shorter>,
    /// The disk holds promises that bind no more.
    pub(super) is_due: bool,
}

impl Election {
    /// Promises not to vote for others for so long, from now on; says whether the disk has to learn of it.
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

    /// Promises so long, from a time on that is not known yet.
    pub(super) fn promise_longest(&mut self, lease: Duration) {
        self.relief.shorter = None;
        self.ballot.promise = self.ballot.promise.max(lease);
    }

    /// Nothing that was promised binds any more, also not after a restart. The disk learns of it with the next vote, which
    /// most often follows at once, or when this node leaves: until then it holds more than there is, which is safe.
    pub(super) fn forget_promises(&mut self, around: &Surroundings<'_>) {
        self.relief.shorter = None;
        self.relief.is_due |= self.ballot.promise > Duration::ZERO;
        self.ballot.promise = Duration::ZERO;
        if !around.is_up {
            self.persist_relief();
        }
    }

    /// Lets the disk forget what was promised as well, if it has not yet.
    fn persist_relief(&mut self) {
        if self.relief.is_due {
            self.persist();
        }
    }

    /// Whether the leader of this term may count on a promise of this voter: not if this process came into the term, and has
    /// said nothing to that leader yet. (What was promised to leaders before is over since this one was elected.)
    pub(super) fn has_acknowledged(&self) -> bool {
        let is_of_this_term = self.acked.is_some_and(|(term, _)| term == self.ballot.term);
        let may_be_forgotten = self.leader.is_some() && self.ballot.term > self.born_in;
        is_of_this_term || !may_be_forgotten
    }

    /// This node leaves and does not acknowledge anything any more: its leader may be able to do without its promise.
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
