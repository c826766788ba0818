//! Rate limits of packets that strangers provoke, bounded in memory by construction.
//!
//! Each address gets one turn in [`QUESTION_INTERVAL`] and each host its share of all turns, but an address that this
//! node itself contacted needs no share: an attacker that floods it uses up the turns of one host, and neither islands
//! that look for each other nor a `join` command have to wait for those.
//!
//! Invariants: memory is bounded by the number of turns, whatever arrives.
//!
//! Must not know: the contents of a packet.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::turns::Turns;
use crate::core::limits::{
    CONTACT_MEMORY, MAX_CONTACTED, MAX_HEARSAY_QUESTIONS, MAX_HEARSAY_QUESTIONS_PER_HOST, MAX_QUESTIONS,
    MAX_QUESTIONS_PER_HOST, MAX_REACHED, MAX_REACHED_PER_HOST, MAX_WORDS, MAX_WORDS_PER_HOST, NOTICE_INTERVAL,
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
        let is_free = self.is_free(now, &key);
        if is_free {
            self.taken.insert(key, now);
        }
        is_free
    }

    fn is_free(&mut self, now: Time, key: &K) -> bool {
        if self.began.is_none_or(|began| now.since(began) >= self.interval) {
            self.before = std::mem::take(&mut self.taken);
            self.began = Some(now);
        }
        let interval = self.interval;
        let recently = |table: &BTreeMap<K, Time>| table.get(key).is_some_and(|at| now.since(*at) < interval);
        self.taken.len() < self.most && !recently(&self.taken) && !recently(&self.before)
    }
}

/// Limits packets to one per address and [`QUESTION_INTERVAL`], so many per host, and so many in all.
#[derive(Debug)]
pub(in crate::core) struct PacketRate {
    places: PerKeyRate<SocketAddr>,
    turns: Turns,
}

impl PacketRate {
    /// Returns the number of entries.
    pub(in crate::core) fn size(&self) -> usize {
        self.places.taken.len() + self.places.before.len() + self.turns.size()
    }

    /// Returns the limits of questions to strangers.
    pub(in crate::core) fn to_strangers() -> Self {
        Self::new(MAX_QUESTIONS_PER_HOST, MAX_QUESTIONS)
    }

    /// Returns the limits of questions to addresses that others named: those may be a third party's, who asked nothing.
    pub(in crate::core) fn on_hearsay() -> Self {
        Self::new(MAX_HEARSAY_QUESTIONS_PER_HOST, MAX_HEARSAY_QUESTIONS)
    }

    /// Returns the limits of packets to addresses at which joiners want to be reached.
    pub(in crate::core) fn to_advertised() -> Self {
        Self::new(MAX_REACHED_PER_HOST, MAX_REACHED)
    }

    /// Returns the limits of answers that cost more, or that change something.
    pub(in crate::core) fn of_weight() -> Self {
        Self::new(MAX_WORDS_PER_HOST, MAX_WORDS)
    }

    fn new(per_host: usize, in_all: usize) -> Self {
        // Addresses that this node contacted come on top; and a whole share may be used just before an interval's
        // turns.
        let places = PerKeyRate::new(QUESTION_INTERVAL, 2 * in_all + MAX_CONTACTED);
        Self { places, turns: Turns::new(per_host, in_all) }
    }

    /// Returns true if this address may be answered or asked now; counts it if so. `is_expected`: this node contacted
    /// it itself.
    pub(in crate::core) fn allow(&mut self, now: Time, address: SocketAddr, is_expected: bool) -> bool {
        if is_expected {
            return self.places.take(now, address);
        }
        let Some(turn) = self.turns.next(now, address) else { return false };
        let is_free = self.places.take(now, address);
        if is_free {
            self.turns.take(now, turn);
        }
        is_free
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
    fn all_addresses_of_a_host_together_are_bounded_and_other_hosts_do_not_wait_for_them() {
        let mut questions = PacketRate::of_weight();
        let allowed = (1..=1_000).filter(|port| questions.allow(Time::ORIGIN, address(*port), false)).count();
        assert_eq!(allowed, MAX_WORDS_PER_HOST);
        let other = SocketAddr::from(([10, 0, 0, 2], 1));
        assert!(questions.allow(Time::ORIGIN, other, false));
        assert!(questions.allow(Time::ORIGIN, address(1_001), true), "of that host, and contacted");
        let later = (1..=1_000).filter(|ms| questions.allow(at(*ms), address(2_000 + *ms as u16), false)).count();
        assert_eq!(later, MAX_WORDS_PER_HOST, "evenly over the next interval");
    }

    #[test]
    fn all_hosts_together_are_bounded() {
        let mut questions = PacketRate::of_weight();
        let host = |i: u32| SocketAddr::from((i.to_be_bytes(), 7_117));
        let allowed = (1..=10_000).filter(|i| questions.allow(Time::ORIGIN, host(*i), false)).count();
        assert_eq!(allowed, MAX_WORDS);
        let later = (1..=10_000).filter(|i| questions.allow(at(u64::from(*i)), host(20_000 + *i), false)).count();
        assert!(later <= 10 * MAX_WORDS, "{later}");
        assert!(questions.turns.size() <= 2 * MAX_WORDS, "{} hosts remembered", questions.turns.size());
    }

    #[test]
    fn strangers_are_asked_so_often_per_host_and_in_all() {
        let host = |i: u8, port: u16| SocketAddr::from(([10, 0, 0, i], port));
        let mut questions = PacketRate::to_strangers();
        let asked = |questions: &mut PacketRate, i: u8| {
            (1..=2 * MAX_QUESTIONS as u16).filter(|port| questions.allow(Time::ORIGIN, host(i, *port), false)).count()
        };
        let hosts = (MAX_QUESTIONS / MAX_QUESTIONS_PER_HOST) as u8;
        for i in 0..hosts {
            assert_eq!(asked(&mut questions, i), MAX_QUESTIONS_PER_HOST, "host {i}");
        }
        assert_eq!(asked(&mut questions, hosts), 0, "those of all hosts are used up");
        let mut contacted = 0;
        while questions.allow(Time::ORIGIN, host(hosts, contacted), true) {
            contacted += 1;
        }
        assert_eq!(usize::from(contacted), MAX_QUESTIONS + MAX_CONTACTED, "no more than there is room for");
        assert!(questions.size() <= 2 * MAX_QUESTIONS + MAX_CONTACTED + MAX_QUESTIONS, "{}", questions.size());
    }

    #[test]
    fn addresses_that_others_named_are_asked_so_often_per_host_and_in_all() {
        let host = |i: u8, port: u16| SocketAddr::from(([10, 0, 0, i], port));
        let mut questions = PacketRate::on_hearsay();
        let hosts = (MAX_HEARSAY_QUESTIONS / MAX_HEARSAY_QUESTIONS_PER_HOST) as u8;
        for i in 0..=hosts {
            let ports = 1..=2 * MAX_HEARSAY_QUESTIONS_PER_HOST as u16;
            let asked = ports.filter(|port| questions.allow(Time::ORIGIN, host(i, *port), false)).count();
            assert_eq!(asked, if i < hosts { MAX_HEARSAY_QUESTIONS_PER_HOST } else { 0 }, "host {i}");
        }
    }

    #[test]
    fn addresses_where_joiners_want_to_be_reached_get_so_many_packets_per_host_and_in_all() {
        let host = |i: u8, port: u16| SocketAddr::from(([10, 0, 0, i], port));
        let mut questions = PacketRate::to_advertised();
        let hosts = (MAX_REACHED / MAX_REACHED_PER_HOST) as u8;
        assert!(MAX_REACHED.is_multiple_of(MAX_REACHED_PER_HOST), "so that whole hosts use up all of them");
        for i in 0..=hosts {
            let ports = 1..=2 * MAX_REACHED_PER_HOST as u16;
            let reached = ports.filter(|port| questions.allow(Time::ORIGIN, host(i, *port), false)).count();
            assert_eq!(reached, if i < hosts { MAX_REACHED_PER_HOST } else { 0 }, "host {i}");
        }
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
