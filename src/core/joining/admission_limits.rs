//! Limits on admissions: a sponsor admits so many joiners of one host, and of one network, in a second, tells one that it
//! does not let in so a few times a second, and answers none more often than an honest one asks.
//!
//! A crowd of honest agents comes through many sponsors, each of which admits more joiners of one host in a second than
//! it serves its view to; an attacker that invents members by the thousand is slowed down.
//!
//! Invariants: bounded memory; a joiner that is held already is never counted again; hosts without an admission so far
//! are not kept waiting by others.
//!
//! Must not know: what a joiner says of itself.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use crate::core::limits::{
    ADMISSION_INTERVAL, DENIAL_INTERVAL, JOIN_ANSWER_INTERVAL, JOIN_ANSWERS_AT_ONCE, MAX_ADMISSIONS_PER_HOST,
    MAX_ADMISSIONS_PER_NETWORK, MAX_ADMITTED_PREFIXES, MAX_DENIALS, MAX_JOIN_ASKERS,
};
use crate::core::member::Run;
use crate::core::time::Time;

/// The joiners admitted lately, by prefix of their address.
#[derive(Debug, Default)]
pub(in crate::core) struct Admissions {
    began: Option<Time>,
    of: BTreeMap<(u8, u128), u32>,
}

impl Admissions {
    /// Returns true if one more joiner of this host may be admitted now; counts it if so.
    pub(in crate::core) fn allow(&mut self, now: Time, host: IpAddr) -> bool {
        if self.began.is_none_or(|began| now.since(began) >= ADMISSION_INTERVAL) {
            self.began = Some(now);
            self.of.clear();
        }
        let [host, network] = prefixes(host);
        let count = |prefix| self.of.get(&prefix).copied().unwrap_or(0);
        let is_full = count(host) >= MAX_ADMISSIONS_PER_HOST || count(network) >= MAX_ADMISSIONS_PER_NETWORK;
        let has_room = self.of.len() + 2 <= MAX_ADMITTED_PREFIXES || self.of.contains_key(&host);
        if is_full || !has_room {
            return false;
        }
        for prefix in [host, network] {
            *self.of.entry(prefix).or_default() += 1;
        }
        true
    }
}

/// The joiners that were told lately that they are not let in, by address: each is told so once in [`DENIAL_INTERVAL`].
///
/// Invariant: at most [`MAX_DENIALS`] are remembered, and as many before. If there are more, the first ones are forgotten,
/// and may be told once more: nobody remains without an answer because of others. [`AnsweredJoins`] limits them all the
/// same.
#[derive(Debug, Default)]
pub(super) struct Denials {
    began: Option<Time>,
    lately: BTreeMap<SocketAddr, Time>,
    before: BTreeMap<SocketAddr, Time>,
}

impl Denials {
    /// Returns true if a joiner at this address may be told so now; counts it if so.
    pub(super) fn take(&mut self, now: Time, address: SocketAddr) -> bool {
        let is_recent =
            |table: &BTreeMap<SocketAddr, Time>| table.get(&address).is_some_and(|at| now.since(*at) < DENIAL_INTERVAL);
        if is_recent(&self.lately) || is_recent(&self.before) {
            return false;
        }
        if self.lately.len() >= MAX_DENIALS || self.began.is_none_or(|began| now.since(began) >= DENIAL_INTERVAL) {
            self.before = std::mem::take(&mut self.lately);
            self.began = Some(now);
        }
        self.lately.insert(address, now);
        true
    }
}

/// The questions of joiners that were answered lately, by the run and the address that asked: [`JOIN_ANSWERS_AT_ONCE`] at
/// once, and one more in each [`JOIN_ANSWER_INTERVAL`].
///
/// That ends what a joiner and its sponsor might otherwise do to each other for ever. It is no protection from strangers,
/// who make up a run for each question: those have to wait for their turn (see `unproven`). As the run counts, nobody who
/// forges a joiner's address makes that joiner wait.
///
/// Invariant: at most [`MAX_JOIN_ASKERS`] are remembered, and as many before. If there are more, the first ones are
/// forgotten; nobody waits because of others.
#[derive(Debug, Default)]
pub(in crate::core) struct AnsweredJoins {
    began: Option<Time>,
    lately: BTreeMap<(Run, SocketAddr), Time>,
    before: BTreeMap<(Run, SocketAddr), Time>,
}

impl AnsweredJoins {
    /// Returns the number of entries.
    pub(in crate::core) fn size(&self) -> usize {
        self.lately.len() + self.before.len()
    }

    /// Returns true if a joiner is to be answered now; counts it if so (the generic cell rate algorithm: ITU-T I.371).
    pub(super) fn take(&mut self, now: Time, run: Run, address: SocketAddr) -> bool {
        let most = JOIN_ANSWER_INTERVAL * JOIN_ANSWERS_AT_ONCE;
        if self.lately.len() >= MAX_JOIN_ASKERS || self.began.is_none_or(|began| now.since(began) >= most) {
            self.before = std::mem::take(&mut self.lately);
            self.began = Some(now);
        }
        let key = (run, address);
        let spent_until = self.lately.get(&key).or_else(|| self.before.get(&key)).map_or(now, |until| now.max(*until));
        let next = spent_until + JOIN_ANSWER_INTERVAL;
        let is_allowed = next.since(now) <= most;
        self.lately.insert(key, if is_allowed { next } else { spent_until });
        is_allowed
    }
}

/// Returns the host that an address stands for, and its network: /32 and /24 of IPv4, /64 and /48 of IPv6.
fn prefixes(address: IpAddr) -> [(u8, u128); 2] {
    match address {
        IpAddr::V4(v4) => {
            let bits = u128::from(v4.to_bits());
            [(32, bits), (24, bits >> 8)]
        }
        IpAddr::V6(v6) => [(64, v6.to_bits() >> 64), (48, v6.to_bits() >> 80)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn let_in(admissions: &mut Admissions, now: Time, hosts: impl Iterator<Item = IpAddr>) -> u32 {
        hosts.filter(|host| admissions.allow(now, *host)).count() as u32
    }

    #[test]
    fn a_host_and_a_network_have_their_share_of_each_second() {
        let mut admissions = Admissions::default();
        let host = IpAddr::from([10, 0, 0, 1]);
        let one = |times: u32| (0..times).map(move |_| host);
        assert_eq!(let_in(&mut admissions, Time::ORIGIN, one(1_000)), MAX_ADMISSIONS_PER_HOST);
        let network = || (0..=255).cycle().take(10_000).map(|last| IpAddr::from([10, 0, 0, last]));
        let rest = MAX_ADMISSIONS_PER_NETWORK - MAX_ADMISSIONS_PER_HOST;
        assert_eq!(let_in(&mut admissions, Time::ORIGIN, network()), rest);
        assert!(admissions.allow(Time::ORIGIN, [10, 0, 1, 1].into()), "another network has its own share");
        assert!(admissions.allow(Time::ORIGIN + ADMISSION_INTERVAL, host), "and another second");
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_host() {
        let mut admissions = Admissions::default();
        let hosts = (0..1_000).map(|last| IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, last]));
        assert_eq!(let_in(&mut admissions, Time::ORIGIN, hosts), MAX_ADMISSIONS_PER_HOST);
    }

    #[test]
    fn a_joiner_is_told_once_in_an_interval_that_it_is_not_let_in_however_many_there_are() {
        let mut denials = Denials::default();
        let address = |port: usize| SocketAddr::from(([10, 0, 0, 1], port as u16));
        let mut now = Time::ORIGIN;
        for _ in 0..2 {
            assert!((0..2 * MAX_DENIALS).all(|port| denials.take(now, address(port))));
            assert!((0..2 * MAX_DENIALS).all(|port| !denials.take(now, address(port))));
            assert!((0..5 * MAX_DENIALS).all(|port| denials.take(now, address(10_000 + port))));
            assert!(denials.lately.len() + denials.before.len() <= 2 * MAX_DENIALS);
            now = now + DENIAL_INTERVAL;
        }
    }

    #[test]
    fn a_joiner_is_answered_so_often_at_once_and_so_often_after_that() {
        let (mut answered, address) = (AnsweredJoins::default(), SocketAddr::from(([10, 0, 0, 1], 7117)));
        let mut count = 0;
        for ms in 0..10_000 {
            let now = Time::ORIGIN + std::time::Duration::from_millis(ms);
            count += u32::from(answered.take(now, Run(1), address));
            assert!(answered.take(now, Run(2 + ms), address), "another run: {ms}");
        }
        let most = JOIN_ANSWERS_AT_ONCE + 10_000 / JOIN_ANSWER_INTERVAL.as_millis() as u32;
        assert!((most - 2..=most).contains(&count), "{count} of {most}");
    }

    #[test]
    fn a_crowd_of_joiners_fills_no_table_and_keeps_nobody_waiting() {
        let mut answered = AnsweredJoins::default();
        for run in 0..5 * MAX_JOIN_ASKERS as u64 {
            let address = SocketAddr::from(([10, 0, 0, 1], run as u16));
            assert!(answered.take(Time::ORIGIN, Run(run), address), "{run}");
            assert!(answered.size() <= 2 * MAX_JOIN_ASKERS);
        }
    }

    #[test]
    fn the_table_of_prefixes_is_bounded() {
        let mut admissions = Admissions::default();
        let all = (0..=u16::MAX).map(|i| IpAddr::from([10, (i >> 8) as u8, i as u8, 1]));
        let_in(&mut admissions, Time::ORIGIN, all);
        assert!((MAX_ADMITTED_PREFIXES - 2..=MAX_ADMITTED_PREFIXES).contains(&admissions.of.len()));
        assert!(
            admissions.allow(Time::ORIGIN, IpAddr::from([10, 0, 0, 1])),
            "a host that has its place is let in again"
        );
        assert!(!admissions.allow(Time::ORIGIN, IpAddr::from([192, 168, 0, 1])));
    }
}
