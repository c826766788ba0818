//! Rate limits of packets that strangers provoke, bounded in memory by construction.
//!
//! Each address gets one turn in [`QUESTION_INTERVAL`], and all of them so many. An address that this node itself contacted
//! takes none of those: a crowd (another cluster that has this node among its seeds) keeps neither islands that look for each
//! other nor a `join` command waiting.
//!
//! Invariants: memory is bounded by the number of turns, whatever arrives.
//!
//! Must not know: the contents of a packet.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::core::limits::{
    CONTACT_MEMORY, MAX_CONTACTED, MAX_HEARSAY_QUESTIONS, MAX_QUESTIONS, MAX_REACHED, MAX_WORDS, NOTICE_INTERVAL,
    QUESTION_INTERVAL,
};
use crate::core::time::Time;

/// Limits each key to one turn in an interval, and all keys to so many.
#[derive(Debug)]
pub(in crate::core) struct PerKeyRate<K> {
    interval: Duration,
    most: usize,
    began: Option<Time>,
    taken: BTreeMap<K, Time>,
    before: BTreeMap<K, Time>,
}

impl<K: Ord> PerKeyRate<K> {
    pub(in crate::core) fn new(interval: Duration, most: usize) -> Self {
        Self { interval, most, began: None, taken: BTreeMap::new(), before: BTreeMap::new() }
    }

    /// Returns true if it is this key's turn, and takes the turn.
    pub(in crate::core) fn take(&mut self, now: Time, key: K) -> bool {
        self.begins_anew(now);
        let interval = self.interval;
        let recently = |table: &BTreeMap<K, Time>| table.get(&key).is_some_and(|at| now.since(*at) < interval);
        let is_free = self.taken.len() < self.most && !recently(&self.taken) && !recently(&self.before);
        if is_free {
            self.taken.insert(key, now);
        }
        is_free
    }

    /// Begins the next interval if this one is over; returns true if it was.
    fn begins_anew(&mut self, now: Time) -> bool {
        let is_over = self.began.is_none_or(|began| now.since(began) >= self.interval);
        if is_over {
            self.before = std::mem::take(&mut self.taken);
            self.began = Some(now);
        }
        is_over
    }

    /// Returns the number of entries.
    fn size(&self) -> usize {
        self.taken.len() + self.before.len()
    }
}

/// Limits packets to one per address and [`QUESTION_INTERVAL`], and so many in all.
#[derive(Debug)]
pub(in crate::core) struct PacketRate {
    places: PerKeyRate<SocketAddr>,
    in_all: usize,
    /// The turns in this interval that others took than those that this node contacted.
    others: usize,
}

impl PacketRate {
    /// Returns the number of entries.
    pub(in crate::core) fn size(&self) -> usize {
        self.places.size()
    }

    /// Returns the limits of questions to strangers.
    pub(in crate::core) fn to_strangers() -> Self {
        Self::new(MAX_QUESTIONS)
    }

    /// Returns the limits of questions to addresses that others named: those may be a third party's, who asked nothing.
    pub(in crate::core) fn on_hearsay() -> Self {
        Self::new(MAX_HEARSAY_QUESTIONS)
    }

    /// Returns the limits of packets to addresses at which joiners want to be reached.
    pub(in crate::core) fn to_advertised() -> Self {
        Self::new(MAX_REACHED)
    }

    /// Returns the limits of answers that cost more, or that change something.
    pub(in crate::core) fn of_weight() -> Self {
        Self::new(MAX_WORDS)
    }

    fn new(in_all: usize) -> Self {
        Self { places: PerKeyRate::new(QUESTION_INTERVAL, in_all + MAX_CONTACTED), in_all, others: 0 }
    }

    /// Returns true if this address may be answered or asked now; counts it if so. `is_expected`: this node contacted
    /// it itself, and it takes no turn of the others.
    pub(in crate::core) fn allow(&mut self, now: Time, address: SocketAddr, is_expected: bool) -> bool {
        if self.places.begins_anew(now) {
            self.others = 0;
        }
        if !is_expected && self.others >= self.in_all {
            return false;
        }
        let is_allowed = self.places.take(now, address);
        self.others += usize::from(is_allowed && !is_expected);
        is_allowed
    }
}

/// Addresses that this node contacted itself a moment ago: seeds, remembered ones, those that a command or a member
/// named.
#[derive(Debug, Default)]
pub(in crate::core) struct ContactedAddresses {
    began: Option<Time>,
    lately: BTreeMap<SocketAddr, Time>,
    before: BTreeMap<SocketAddr, Time>,
}

impl ContactedAddresses {
    pub(in crate::core) fn note(&mut self, now: Time, address: SocketAddr) {
        let is_full = self.lately.len() >= MAX_CONTACTED && !self.lately.contains_key(&address);
        if is_full || self.began.is_none_or(|began| now.since(began) >= CONTACT_MEMORY) {
            self.before = std::mem::take(&mut self.lately);
            self.began = Some(now);
        }
        self.lately.insert(address, now);
    }

    pub(in crate::core) fn contains(&self, now: Time, address: SocketAddr) -> bool {
        let at = self.lately.get(&address).or_else(|| self.before.get(&address));
        at.is_some_and(|at| now.since(*at) < CONTACT_MEMORY)
    }
}

/// Limits notices to one of a kind per [`NOTICE_INTERVAL`].
#[derive(Debug, Default)]
pub(in crate::core) struct NoticeRate {
    last: BTreeMap<&'static str, Time>,
}

impl NoticeRate {
    /// Returns true if a notice of this kind may be given now; counts it if so.
    pub(in crate::core) fn allow(&mut self, now: Time, kind: &'static str) -> bool {
        if self.last.get(kind).is_some_and(|last| now.since(*last) < NOTICE_INTERVAL) {
            return false;
        }
        self.last.insert(kind, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port))
    }

    fn at(ms: u64) -> Time {
        Time::ORIGIN + Duration::from_millis(ms)
    }

    #[test]
    fn one_address_is_asked_once_a_second_across_intervals() {
        let mut questions = PacketRate::of_weight();
        assert!(questions.allow(at(0), address(2), false));
        assert!(questions.allow(at(900), address(1), false));
        assert!(!questions.allow(at(1_100), address(1), false));
        assert!(!questions.allow(at(1_100), address(1), true), "nor if it was contacted");
        assert!(questions.allow(at(1_900), address(1), false));
    }

    #[test]
    fn all_addresses_together_are_bounded_but_for_those_that_were_contacted() {
        let mut questions = PacketRate::to_strangers();
        let host = |i: usize| SocketAddr::from(((i as u32).to_be_bytes(), 7_117));
        let allowed = |questions: &mut PacketRate, from: usize, is_expected| {
            (from..from + 10_000).filter(|i| questions.allow(Time::ORIGIN, host(*i), is_expected)).count()
        };
        assert_eq!(allowed(&mut questions, 1, false), MAX_QUESTIONS);
        assert_eq!(allowed(&mut questions, 20_000, false), 0);
        assert_eq!(allowed(&mut questions, 30_000, true), MAX_CONTACTED);
        let mut questions = PacketRate::to_strangers();
        assert!(allowed(&mut questions, 30_000, true) >= MAX_CONTACTED, "before others");
        let mut questions = PacketRate::of_weight();
        assert!((0..MAX_WORDS).all(|i| questions.allow(Time::ORIGIN, host(i), true)));
        assert_eq!(
            allowed(&mut questions, 20_000, false),
            MAX_WORDS,
            "those that were contacted take no turn of theirs"
        );
        assert!(questions.size() <= 2 * (MAX_QUESTIONS + MAX_CONTACTED), "{}", questions.size());
    }

    #[test]
    fn a_notice_of_one_kind_is_given_once_in_an_interval_and_others_do_not_wait_for_it() {
        let mut notices = NoticeRate::default();
        let interval = NOTICE_INTERVAL.as_millis() as u64;
        assert!(notices.allow(at(0), "cluster"));
        assert!(!notices.allow(at(interval - 1), "cluster"));
        assert!(notices.allow(at(interval - 1), "version"), "another kind");
        assert!(notices.allow(at(interval), "cluster"));
        assert!(!notices.allow(at(2 * interval - 1), "cluster"), "from the last one on");
        let given = (2..10_000).filter(|ms| notices.allow(at(2 * interval + *ms), "cluster")).count();
        assert_eq!(given, 1, "in one interval");
    }

    #[test]
    fn contacts_are_remembered_for_a_while_and_are_few() {
        let mut contacted = ContactedAddresses::default();
        contacted.note(at(0), address(1));
        assert!(contacted.contains(at(1), address(1)));
        assert!(!contacted.contains(Time::ORIGIN + CONTACT_MEMORY, address(1)));
        for port in 0..u16::MAX {
            contacted.note(at(2), address(port));
        }
        assert!(contacted.contains(at(2), address(u16::MAX - 1)));
        assert!(contacted.lately.len() + contacted.before.len() <= 2 * MAX_CONTACTED);
    }
}
