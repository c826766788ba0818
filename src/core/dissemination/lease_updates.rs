//! News about leases in a database: sent by one agent to all others, and passed on once.
//!
//! A message is sent to every member, or along the rings, like an update of a record; a node that receives it for the
//! first time gives it to its driver and passes it on. A node that missed a message finds the same in the database a
//! moment after, so successions are quick by these messages and do not depend on them. Leaders repeat theirs, which
//! shows that all ask the same database; a repetition is a new message, by its nonce.
//!
//! **Newcomers** know no term, and a database that was emptied knows none either. So every member keeps the highest terms
//! that it hears of, also one that never leads by a lease: the contenders may all have lost their disks. Whoever brings a
//! node in tells it these terms, with the first page of the view and once more when the newcomer is Up; words of others
//! that come before that are not heard. These words go no further.
//!
//! **Words count that come from members of some standing** (see `membership::arrivals`), and from members that are back: a new
//! run of a member whose word counted, under its name, at the address at which that one was, which it has proven. Otherwise a member that is restarted by
//! itself on another database would not be believed for a minute, in which two lead. A stranger gains nothing by it: it
//! must answer at the very address of a member that is gone, as it must answer at a seed's to be believed as a seed. A
//! member that is back at another address is a newcomer; its words are handed over as such, so that they can be
//! reported, and depose nobody. A newcomer that asks for a resignation is told that it is not believed.
//!
//! Invariants: a message is not passed on again while [`MAX_LEASE_UPDATES`] later ones are remembered, so that none
//! travels in circles; at most [`LEASE_WORDS_PER_SECOND`] messages of those are accepted, however many a member sends, and
//! [`NEWCOMERS_LEASE_WORDS_PER_SECOND`] of newcomers besides.
//! The message of a newcomer is accepted and not passed on: passed on, it would count as the word of the member that
//! did.
//!
//! Must not know: the meaning of a message, or the leases that there are.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use crate::Core;
use crate::counters::DropReason;
use crate::doors::{Output, Receiver};
use crate::limits::{LEASE_WORDS_PER_SECOND, MAX_LEASE_TERMS, MAX_LEASE_UPDATES, NEWCOMERS_LEASE_WORDS_PER_SECOND};
use crate::member::{NodeId, Run};
use crate::time::Time;
use crate::view::Slot;
use crate::wire::{LeaseUpdate, Message, PacketBuilder};

const SECOND: Duration = Duration::from_secs(1);

/// The messages that were received last, and the number of those received lately.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeaseUpdates {
    /// The messages, the oldest first.
    heard: VecDeque<LeaseUpdate>,
    /// The messages in this second of members whose word counts.
    believed: Counted,
    /// Those of newcomers.
    of_newcomers: Counted,
    /// The highest terms of leases, of which this node's own agent or another member told. At most [`MAX_LEASE_TERMS`].
    terms: BTreeMap<NodeId, u64>,
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

    /// Keeps the highest term of a lease.
    pub(crate) fn keep_term(&mut self, lease: NodeId, term: u64) {
        if self.terms.len() < MAX_LEASE_TERMS || self.terms.contains_key(&lease) {
            let kept = self.terms.entry(lease).or_default();
            *kept = term.max(*kept);
        }
    }

    /// Returns true if one more message of others may be accepted in this second. Newcomers take no place from the others.
    fn take(&mut self, now: Time, is_believed: bool) -> bool {
        if is_believed {
            self.believed.take(now, LEASE_WORDS_PER_SECOND)
        } else {
            self.of_newcomers.take(now, NEWCOMERS_LEASE_WORDS_PER_SECOND)
        }
    }
}

/// The start of a second, and the number of messages in it.
#[derive(Debug, Clone, Default)]
struct Counted {
    since: Time,
    count: u32,
}

impl Counted {
    fn take(&mut self, now: Time, most: u32) -> bool {
        if now.since(self.since) >= SECOND || self.count == 0 {
            *self = Self { since: now, count: 0 };
        }
        self.count = self.count.saturating_add(1);
        self.count <= most
    }
}

impl Core {
    /// Sends a message of this agent to all others.
    pub(crate) fn tell_lease_update(&mut self, word: LeaseUpdate) {
        if self.lease_updates.note_if_newer(&word) {
            self.pass_on(word, None);
        }
    }

    /// Handles a message that a member sent, or passed on.
    pub(crate) fn on_lease_update(&mut self, from: Slot, word: &LeaseUpdate) {
        if self.lease_updates.heard.contains(word) {
            return;
        }
        let is_contact = self.reunion.is_contact_of(self.view.entry(from));
        let is_believed = self.arrivals.counts_about_leases(self.cx.now, &self.view, from, is_contact);
        if !self.lease_updates.take(self.cx.now, is_believed) {
            return self.cx.counters.drop(DropReason::RateLimited);
        }
        self.cx.output(Output::LeaseUpdate { word: word.clone(), is_believed });
        if is_believed {
            self.lease_updates.note_if_newer(word);
            if word.is_about_terms() {
                self.lease_updates.keep_term(word.lease.clone(), word.term);
            }
            if word.is_for_all() {
                self.pass_on(word.clone(), Some(from));
            }
        } else if word.kind == LeaseUpdate::RESIGN {
            let node = self.me().id.clone();
            let answer = LeaseUpdate { node, kind: LeaseUpdate::DECLINED, ..word.clone() };
            let mut packet = self.out().packet_to(from);
            packet.push(&Message::LeaseUpdate(Box::new(answer)));
            self.out().send_to(from, packet);
        }
    }

    /// Handles a message of the sponsor, before this node is Up. Whoever gives it the members may give it the terms.
    pub(crate) fn on_lease_update_of_sponsor(&mut self, word: &LeaseUpdate) {
        if word.kind != LeaseUpdate::TAUGHT || self.lease_updates.heard.contains(word) {
            return;
        }
        if !self.lease_updates.take(self.cx.now, true) {
            return self.cx.counters.drop(DropReason::RateLimited);
        }
        self.lease_updates.note_if_newer(word);
        self.cx.output(Output::LeaseUpdate { word: word.clone(), is_believed: true });
    }

    /// Tells a node that this one brings in the highest terms of all leases.
    pub(crate) fn teach_lease_terms(&mut self, to: SocketAddr, run: Run) {
        let node = self.me().id.clone();
        let word = |(lease, term): (&NodeId, &u64)| LeaseUpdate {
            lease: lease.clone(),
            node: node.clone(),
            term: *term,
            kind: LeaseUpdate::TAUGHT,
            nonce: 0,
        };
        let words: Vec<_> = self.lease_updates.terms.iter().map(word).collect();
        let mut open: Option<PacketBuilder> = None;
        for word in words {
            let message = Message::LeaseUpdate(Box::new(word));
            let mut packet = open.take().unwrap_or_else(|| self.out().packet(usize::MAX));
            if !packet.push(&message) {
                if !self.take_page(run) {
                    return;
                }
                self.out().transmit(to, Receiver::of(run), packet);
                packet = self.out().packet(usize::MAX);
                packet.push(&message);
            }
            open = Some(packet);
        }
        if let Some(packet) = open
            && self.take_page(run)
        {
            self.out().transmit(to, Receiver::of(run), packet);
        }
    }

    fn pass_on(&mut self, word: LeaseUpdate, from: Option<Slot>) {
        let message = Message::LeaseUpdate(Box::new(word));
        for target in self.flood_targets(from.is_none()) {
            if from != Some(target) {
                let mut packet = self.out().packet_to(target);
                packet.push(&message);
                self.out().send_to(target, packet);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::NodeId;

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
        for (is_believed, most) in [(false, NEWCOMERS_LEASE_WORDS_PER_SECOND), (true, LEASE_WORDS_PER_SECOND)] {
            assert!((0..most).all(|_| words.take(now, is_believed)));
            assert!(!words.take(now + Duration::from_millis(999), is_believed));
            assert!(words.take(now + SECOND, is_believed));
        }
    }
}
