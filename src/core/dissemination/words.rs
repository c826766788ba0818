//! Words about leases in a database: what one agent tells all others, passed on once.
//!
//! A word is sent to everybody, or along the rings, as news of a record is; whoever hears it for the first time hands it to
//! its driver and passes it on. Nothing is repeated later: whoever missed a word finds the same in the database a moment
//! after. So words make successions quick, and nothing depends on them.
//!
//! Invariants: what was passed on is not passed on again while [`MAX_LEASE_WORDS`] later ones are remembered, so that no word
//! travels in circles; at most [`LEASE_WORDS_PER_SECOND`] words of others are heard, however many somebody sends. The word of
//! a member that has just come is heard and goes no further: passed on, it would be the word of whoever did.
//!
//! Must not know: what a word means, which leases there are.

use std::collections::VecDeque;
use std::time::Duration;

use crate::core::Core;
use crate::core::counters::Drop;
use crate::core::doors::Output;
use crate::core::limits::{LEASE_WORDS_PER_SECOND, MAX_LEASE_WORDS};
use crate::core::time::Time;
use crate::core::view::Slot;
use crate::core::wire::{LeaseWord, Message};

const SECOND: Duration = Duration::from_secs(1);

/// The words that were heard last, and how many of them lately.
#[derive(Debug, Default)]
pub(in crate::core) struct LeaseWords {
    /// The oldest first.
    heard: VecDeque<LeaseWord>,
    /// When the second began in which words of others are being counted, and how many there were.
    counted: (Time, u32),
}

impl LeaseWords {
    /// Takes note of a word; says whether it was new.
    fn is_news(&mut self, word: &LeaseWord) -> bool {
        if self.heard.contains(word) {
            return false;
        }
        if self.heard.len() >= MAX_LEASE_WORDS {
            self.heard.pop_front();
        }
        self.heard.push_back(word.clone());
        true
    }

    /// Whether one more word of others may be heard in this second.
    fn is_allowed(&mut self, now: Time) -> bool {
        let (since, count) = self.counted;
        let is_over = now.since(since) >= SECOND || count == 0;
        self.counted = if is_over { (now, 1) } else { (since, count + 1) };
        self.counted.1 <= LEASE_WORDS_PER_SECOND
    }
}

impl Core {
    /// This agent tells all others.
    pub(in crate::core) fn tell_lease_word(&mut self, word: LeaseWord) {
        if self.lease_words.is_news(&word) {
            self.pass_on(word, None);
        }
    }

    /// A member told, or passed on.
    pub(in crate::core) fn hear_lease_word(&mut self, from: Slot, word: &LeaseWord) {
        if self.lease_words.heard.contains(word) {
            return;
        }
        if !self.lease_words.is_allowed(self.now) {
            return self.counters.drop(Drop::RateLimited);
        }
        let is_of_elder = self.is_elder(from);
        self.outputs.push_back(Output::LeaseWord { word: word.clone(), is_of_elder });
        if is_of_elder {
            self.lease_words.is_news(word);
            self.pass_on(word.clone(), Some(from));
        }
    }

    fn pass_on(&mut self, word: LeaseWord, from: Option<Slot>) {
        let message = Message::LeaseWord(Box::new(word));
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

    fn word(term: u64) -> LeaseWord {
        LeaseWord { lease: NodeId::new("default").expect("a name"), term, kind: 0, nonce: 0 }
    }

    #[test]
    fn so_many_words_are_remembered_and_the_oldest_gives_way() {
        let mut words = LeaseWords::default();
        let most = MAX_LEASE_WORDS as u64;
        assert!((0..most).all(|term| words.is_news(&word(term))));
        assert!((0..most).all(|term| !words.is_news(&word(term))), "all are remembered");
        assert!(words.is_news(&word(most)) && words.heard.len() == MAX_LEASE_WORDS);
        assert!(!words.is_news(&word(1)) && words.is_news(&word(0)), "the oldest gave way");
    }

    #[test]
    fn so_many_words_are_heard_in_a_second() {
        let mut words = LeaseWords::default();
        let now = Time::ORIGIN + SECOND * 7;
        assert!((0..LEASE_WORDS_PER_SECOND).all(|_| words.is_allowed(now)));
        assert!(!words.is_allowed(now + Duration::from_millis(999)));
        assert!(words.is_allowed(now + SECOND));
    }
}
