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
use super::{Context, Election, Rules};
use crate::time::Time;

/// The promises made since the longest one: all of them shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Shorter {
    since: Time,
    longest: Duration,
}

/// The difference between the promises on disk and those that bind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct StoredPromise {
    /// The promises shorter than the longest one on disk, if no others were made for a while.
    shorter: Option<Shorter>,
    /// The disk holds promises that bind no more.
    pub(super) is_disk_outdated: bool,
}

impl<R: Rules> Election<R> {
    /// Promises, from now on, not to vote for others for the lease; returns true if the disk has to learn of it.
    pub(super) fn promise(&mut self, context: &Context<'_>, lease: Duration) -> bool {
        self.promised_until = self.promised_until.max(context.now + lease);
        let before = self.ballot.promise;
        if lease >= before {
            self.stored_promise.shorter = None;
            self.ballot.promise = lease;
            return lease > before;
        }
        let shorter = self.stored_promise.shorter.get_or_insert(Shorter { since: context.now, longest: lease });
        shorter.longest = shorter.longest.max(lease);
        let is_over = context.now.since(shorter.since) > before;
        let longest = shorter.longest;
        if is_over {
            self.stored_promise.shorter = None;
            self.ballot.promise = longest;
        }
        is_over
    }

    /// Promises a lease, from a time on that is not known yet.
    pub(super) fn raise_longest_promise(&mut self, lease: Duration) {
        self.stored_promise.shorter = None;
        self.ballot.promise = self.ballot.promise.max(lease);
    }

    /// Ends all promises, also after a restart. The disk learns of it with the next vote, which most often follows at
    /// once, or when this node leaves: until then it holds more than binds, which is safe.
    pub(super) fn forget_promises(&mut self, context: &Context<'_>) {
        self.stored_promise.shorter = None;
        self.stored_promise.is_disk_outdated |= self.ballot.promise > Duration::ZERO;
        self.ballot.promise = Duration::ZERO;
        if !context.is_up {
            self.persist_relief();
        }
    }

    /// Removes the ended promises from the disk as well, if that has not been done yet.
    fn persist_relief(&mut self) {
        if self.stored_promise.is_disk_outdated {
            self.persist();
        }
    }

    /// Returns true if the leader of this term may count on a promise of this voter: not if this process came into the
    /// term, and has acknowledged nothing to that leader yet. (Promises to earlier leaders are over since this one was
    /// elected.) Whoever led in it itself counts on its own.
    pub(super) fn has_acknowledged(&self) -> bool {
        let is_of_this_term = self.acked.is_some_and(|(term, _)| term == self.ballot.term);
        let is_led_by_another = self.leader.is_some_and(|leader| leader != self.ballot.identity);
        let may_be_forgotten = is_led_by_another && self.ballot.term > self.born_in;
        is_of_this_term || !may_be_forgotten
    }

    /// Tells the leader that this node leaves and acknowledges nothing any more: it may be able to do without its
    /// promise.
    pub(super) fn say_farewell(&mut self) {
        self.pending_ack = None;
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
