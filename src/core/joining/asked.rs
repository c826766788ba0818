//! The addresses that a joiner asked to let it in: each question has a nonce of its own, which tells whose answer comes.
//!
//! An address is *told* if the configuration, a command or the data directory names it, or a sponsor refers to it. All
//! others are *heard of*, because they asked this node or were named by somebody who did (candidates for founding, and
//! members that look for this node). Those may be another cluster's that had this node's address among its seeds: they are
//! asked beside the told ones, and their refusals end nothing.
//!
//! Invariants:
//! - Who reads the question to one address cannot answer for another one.
//! - A told address that has this joiner wait postpones questions to itself alone, and is asked again before it can do so
//!   again.
//! - At most [`MAX_ASKED`] addresses are remembered; those asked least lately are forgotten first.
//!
//! Must not know: what follows from an answer.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::io::Contacted;
use crate::limits::MAX_ASKED;
use crate::time::Time;
use crate::wire::{Nonce, Refusal};

/// The addresses that were asked, and their nonces.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    at: BTreeMap<SocketAddr, Question>,
    of: BTreeMap<Nonce, SocketAddr>,
}

/// The question to one address.
#[derive(Debug, Clone)]
struct Question {
    nonce: Nonce,
    is_told: bool,
    lately: Time,
    /// The time until which this address wants not to be asked again.
    waits_until: Option<Time>,
    /// The last answer, and its time.
    answer: Option<(Contacted, Time)>,
    /// The time at which a node of another cluster last asked from there, as if this one were of its own.
    asked_back_at: Option<Time>,
}

/// The address that an answer's nonce was sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answerer {
    pub(super) address: SocketAddr,
    pub(super) is_told: bool,
}

impl Asked {
    /// Notes a question to an address; returns its nonce, which is drawn if this is the first one.
    pub(super) fn ask(&mut self, address: SocketAddr, is_told: bool, now: Time, draw: impl FnOnce() -> u64) -> Nonce {
        if self.at.len() >= MAX_ASKED && !self.at.contains_key(&address) {
            let oldest = self.at.iter().min_by_key(|(_, question)| question.lately).map(|(address, _)| *address);
            if let Some(question) = oldest.and_then(|oldest| self.at.remove(&oldest)) {
                self.of.remove(&question.nonce);
            }
        }
        let question = self.at.entry(address).or_insert_with(|| {
            let nonce = Nonce(draw());
            self.of.insert(nonce, address);
            Question { nonce, is_told, lately: now, waits_until: None, answer: None, asked_back_at: None }
        });
        question.is_told |= is_told;
        (question.lately, question.waits_until) = (now, None);
        question.nonce
    }

    /// Returns the address to which this nonce was sent.
    pub(crate) fn answerer(&self, nonce: Nonce) -> Option<Answerer> {
        let address = *self.of.get(&nonce)?;
        Some(Answerer { address, is_told: self.is_told(address) })
    }

    /// Returns true if this is a told address that was asked.
    pub(super) fn is_told(&self, address: SocketAddr) -> bool {
        self.at.get(&address).is_some_and(|question| question.is_told)
    }

    /// Notes an answer of an address.
    pub(super) fn answered(&mut self, address: SocketAddr, answer: Contacted, now: Time) {
        if let Some(question) = self.at.get_mut(&address) {
            question.answer = Some((answer, now));
        }
    }

    /// Returns the last answer of an address, if it is not older than this.
    pub(super) fn answer(&self, address: SocketAddr, now: Time, at_most: Duration) -> Option<&Contacted> {
        let (answer, at) = self.at.get(&address)?.answer.as_ref()?;
        (now.since(*at) <= at_most).then_some(answer)
    }

    /// Notes that a node of another cluster asks from an address; only told ones are of interest.
    pub(crate) fn asked_back(&mut self, address: SocketAddr, now: Time) {
        if let Some(question) = self.at.get_mut(&address) {
            question.asked_back_at = Some(now);
        }
    }

    /// Returns true if the last answer of some told address was a refusal that concerns this node. One for the cluster's name
    /// does only if that address asks this node, too, and did not longer ago than this: else it is no seed of this node's
    /// cluster, and was named by mistake.
    pub(super) fn refuses_this_node(&self, now: Time, at_most: Duration) -> bool {
        self.at.values().filter(|question| question.is_told).any(|question| match &question.answer {
            Some((Contacted::Refused(Refusal::OtherCluster), _)) => {
                question.asked_back_at.is_some_and(|at| now.since(at) <= at_most)
            }
            Some((Contacted::Refused(_), _)) => true,
            _ => false,
        })
    }

    /// Has an address wait for its next question, unless it does already.
    pub(super) fn wait(&mut self, address: SocketAddr, until: Time) {
        if let Some(question) = self.at.get_mut(&address) {
            question.waits_until.get_or_insert(until);
        }
    }

    /// Returns true if an address is not to be asked now.
    pub(super) fn is_waiting(&self, address: SocketAddr, now: Time) -> bool {
        self.at.get(&address).and_then(|question| question.waits_until).is_some_and(|until| now < until)
    }

    /// Returns the end of the first wait that is not over.
    pub(super) fn next_end_of_wait(&self, now: Time) -> Option<Time> {
        self.at.values().filter_map(|question| question.waits_until).filter(|until| now < *until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn address(port: usize) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port as u16))
    }

    fn at(ms: u64) -> Time {
        Time::ORIGIN + Duration::from_millis(ms)
    }

    #[test]
    fn so_many_addresses_are_remembered_and_those_asked_least_lately_go_first() {
        let mut asked = Asked::default();
        let mut ask = |port: usize, ms: u64| asked.ask(address(port), false, at(ms), || port as u64);
        for port in 0..MAX_ASKED {
            assert_eq!(ask(port, port as u64), Nonce(port as u64));
        }
        ask(0, MAX_ASKED as u64);
        ask(MAX_ASKED, MAX_ASKED as u64 + 1);
        assert_eq!((asked.at.len(), asked.of.len()), (MAX_ASKED, MAX_ASKED));
        let answerer = |nonce| asked.answerer(Nonce(nonce)).map(|answerer| answerer.address);
        assert_eq!((answerer(0), answerer(1), answerer(2)), (Some(address(0)), None, Some(address(2))));
    }

    #[test]
    fn an_address_keeps_its_nonce_and_is_told_once_it_was() {
        let mut asked = Asked::default();
        assert_eq!(asked.ask(address(1), false, at(0), || 7), Nonce(7));
        assert!(!asked.is_told(address(1)));
        assert_eq!(asked.ask(address(1), true, at(1), || 8), Nonce(7));
        asked.ask(address(1), false, at(2), || 9);
        assert_eq!(asked.answerer(Nonce(7)), Some(Answerer { address: address(1), is_told: true }));
        assert_eq!(asked.answerer(Nonce(8)), None);
    }

    #[test]
    fn a_refusal_for_the_cluster_s_name_concerns_this_node_while_the_other_one_asks_it_too() {
        let mut asked = Asked::default();
        let age = Duration::from_millis(10);
        asked.ask(address(1), true, at(0), || 7);
        asked.answered(address(1), Contacted::Refused(Refusal::OtherCluster), at(1));
        assert!(!asked.refuses_this_node(at(1), age));
        asked.asked_back(address(1), at(2));
        assert!(asked.refuses_this_node(at(12), age) && !asked.refuses_this_node(at(13), age));
    }

    #[test]
    fn a_wait_is_not_made_longer_before_the_address_is_asked_again() {
        let mut asked = Asked::default();
        asked.ask(address(1), true, at(0), || 7);
        asked.wait(address(1), at(10));
        asked.wait(address(1), at(20));
        assert!(asked.is_waiting(address(1), at(9)) && !asked.is_waiting(address(1), at(10)));
        assert_eq!((asked.next_end_of_wait(at(9)), asked.next_end_of_wait(at(10))), (Some(at(10)), None));
        asked.ask(address(1), true, at(10), || 7);
        asked.wait(address(1), at(20));
        assert!(asked.is_waiting(address(1), at(19)));
    }
}
