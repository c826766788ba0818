//! News about leases in a database: sent by one agent to all others, and passed on once.
//!
//! A message is sent to every member, or along the rings, like an update of a record; a node that receives it for the
//! first time gives it to its driver and passes it on. A node that missed a message finds the same in the database a
//! moment after, so successions are quick by these messages and do not depend on them. Leaders repeat theirs, which
//! shows that all ask the same database; a repetition is a new message, by its nonce.
//!
//! Invariants: a message is not passed on again while [`MAX_LEASE_UPDATES`] later ones are remembered, so that none
//! travels in circles; at most [`LEASE_WORDS_PER_SECOND`] messages of others are accepted, however many a member sends.
//! The message of a newcomer is accepted and not passed on: passed on, it would count as the word of the member that
//! did.
//!
//! Must not know: the meaning of a message, or the leases that there are.

use std::collections::VecDeque;
use std::time::Duration;

use crate::core::Core;
use crate::core::counters::DropReason;
use crate::core::doors::Output;
use crate::core::limits::{LEASE_WORDS_PER_SECOND, MAX_LEASE_UPDATES};
use crate::core::time::Time;
use crate::core::view::Slot;
use crate::core::wire::{LeaseUpdate, Message};

const SECOND: Duration = Duration::from_secs(1);

/// The messages that were received last, and the number of those received lately.
#[derive(Debug, Default)]
pub(in crate::core) struct LeaseUpdates {
    /// The messages, the oldest first.
    heard: VecDeque<LeaseUpdate>,
    /// The start of the second in which messages of others are being counted, and their number.
    counted: (Time, u32),
}

impl LeaseUpdates {
    /// Notes a message; returns true if it was new.
    fn note_if_newer(&mut self, word: &LeaseUpdate) -> bool {
        if self.heard.contains(word) {
            return false;
        }
        if self.heard.len() >= MAX_LEASE_UPDATES {
            self.heard.pop_front();
        }
        self.heard.push_back(word.clone());
        true
    }

    /// Returns true if one more message of others may be accepted in this second.
    fn is_allowed(&mut self, now: Time) -> bool {
        let (since, count) = self.counted;
        let is_over = now.since(since) >= SECOND || count == 0;
        self.counted = if is_over { (now, 1) } else { (since, count + 1) };
        self.counted.1 <= LEASE_WORDS_PER_SECOND
    }
}

impl Core {
    /// Sends a message of this agent to all others.
    pub(in crate::core) fn tell_lease_update(&mut self, word: LeaseUpdate) {
        if self.lease_updates.note_if_newer(&word) {
            self.pass_on(word, None);
        }
    }

    /// Handles a message that a member sent, or passed on.
    pub(in crate::core) fn hear_lease_update(&mut self, from: Slot, word: &LeaseUpdate) {
        if self.lease_updates.heard.contains(word) {
            return;
        }
        if !self.lease_updates.is_allowed(self.now) {
            return self.counters.drop(DropReason::RateLimited);
        }
        let is_of_elder = self.is_elder(from);
        self.outputs.push_back(Output::LeaseUpdate { word: word.clone(), is_of_elder });
        if is_of_elder {
            self.lease_updates.note_if_newer(word);
            self.pass_on(word.clone(), Some(from));
        }
    }

    fn pass_on(&mut self, word: LeaseUpdate, from: Option<Slot>) {
        let message = Message::LeaseUpdate(Box::new(word));
        for target in self.flood_targets(from.is_none()) {
            if from != Some(target) {
                let mut packet = self.packet_to(target);
                packet.push(&message);
                self.send_to(target, packet);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::member::NodeId;

    fn word(term: u64) -> LeaseUpdate {
        let name = |text| NodeId::new(text).expect("a name");
        LeaseUpdate { lease: name("default"), node: name("a"), term, kind: 0, nonce: 0 }
    }

    #[test]
    fn so_many_words_are_remembered_and_the_oldest_gives_way() {
        let mut words = LeaseUpdates::default();
        let most = MAX_LEASE_UPDATES as u64;
        assert!((0..most).all(|term| words.note_if_newer(&word(term))));
        assert!((0..most).all(|term| !words.note_if_newer(&word(term))), "all are remembered");
        assert!(words.note_if_newer(&word(most)) && words.heard.len() == MAX_LEASE_UPDATES);
        assert!(!words.note_if_newer(&word(1)) && words.note_if_newer(&word(0)), "the oldest gave way");
    }

    #[test]
    fn so_many_words_are_heard_in_a_second() {
        let mut words = LeaseUpdates::default();
        let now = Time::ORIGIN + SECOND * 7;
        assert!((0..LEASE_WORDS_PER_SECOND).all(|_| words.is_allowed(now)));
        assert!(!words.is_allowed(now + Duration::from_millis(999)));
        assert!(words.is_allowed(now + SECOND));
    }
}
