//! Credit of hosts: how many bytes go to members' addresses that never echoed a nonce of ours.
//!
//! A member's address may be a third party's: somebody named it who was believed, and packets that bear it may be forged.
//! So what goes to all unproven addresses of one host (an IPv4 address, or 64 bits of an IPv6 one) is bounded together: an
//! allowance of [`UNPROVEN_BURST`] bytes, [`UNPROVEN_PER_SECOND`] more in each second after that, and
//! [`UNPROVEN_FACTOR`] bytes for each that came from there (QUIC does the same before an address is validated: RFC 9000,
//! section 8.1). Answers, none of which is larger than its question, are not counted: with them, that makes at most three
//! bytes for one.
//!
//! A member that is there answers the first probe, and is limited no more.
//!
//! Invariants:
//! - At most [`MAX_UNPROVEN_HOSTS`] hosts are remembered; all others share one allowance.
//! - A host to which nothing went for a while is not remembered, and then costs nothing.
//!
//! Must not know: which packets are worth more than others.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::host::Host;
use crate::core::limits::{
    MAX_UNPROVEN_CREDIT, MAX_UNPROVEN_HOSTS, UNPROVEN_BURST, UNPROVEN_FACTOR, UNPROVEN_PER_SECOND,
};
use crate::core::time::Time;

/// The hosts that bytes went to lately without proof.
#[derive(Debug, Default)]
pub(in crate::core) struct Credit {
    hosts: BTreeMap<Host, Balance>,
    others: Option<Balance>,
}

#[derive(Debug, Clone, Copy)]
struct Balance {
    /// The bytes that may be sent now.
    left: usize,
    /// The time until which the allowance is added.
    at: Time,
}

impl Balance {
    fn new(now: Time) -> Self {
        Self { left: UNPROVEN_BURST, at: now }
    }

    /// Adds the allowance since the last time.
    fn brought_to(mut self, now: Time) -> Self {
        let added = (now.since(self.at).as_millis() as usize).saturating_mul(UNPROVEN_PER_SECOND) / 1_000;
        if added > 0 {
            self.left = self.left.max(self.left.saturating_add(added).min(UNPROVEN_BURST));
            self.at = now;
        }
        self
    }
}

impl Credit {
    /// Returns the number of hosts that are remembered.
    pub(in crate::core) fn size(&self) -> usize {
        self.hosts.len()
    }

    fn balance(&self, now: Time, host: Host) -> Balance {
        let is_full = || self.hosts.len() >= MAX_UNPROVEN_HOSTS;
        let known = self.hosts.get(&host).copied().or_else(|| self.others.filter(|_| is_full()));
        known.map_or(Balance::new(now), |balance| balance.brought_to(now))
    }

    /// Returns the bytes that may go to an unproven address now.
    pub(in crate::core) fn left(&self, now: Time, to: SocketAddr) -> usize {
        self.balance(now, Host::of(to)).left
    }

    /// Takes so many bytes from the credit of an address, or returns false.
    pub(in crate::core) fn take(&mut self, now: Time, to: SocketAddr, bytes: usize) -> bool {
        let host = Host::of(to);
        if self.hosts.len() >= MAX_UNPROVEN_HOSTS && !self.hosts.contains_key(&host) {
            self.tidy(now);
        }
        let mut balance = self.balance(now, host);
        let has_credit = balance.left >= bytes;
        balance.left -= if has_credit { bytes } else { 0 };
        if self.hosts.len() < MAX_UNPROVEN_HOSTS || self.hosts.contains_key(&host) {
            self.hosts.insert(host, balance);
        } else {
            self.others = Some(balance);
        }
        has_credit
    }

    /// Notes that so many bytes came from an address, if it matters.
    pub(in crate::core) fn received(&mut self, now: Time, from: SocketAddr, bytes: usize) {
        self.grant(now, from, UNPROVEN_FACTOR * bytes);
    }

    /// Adds so many bytes to the credit of an address, if some of it was used.
    pub(in crate::core) fn grant(&mut self, now: Time, to: SocketAddr, bytes: usize) {
        if self.hosts.is_empty() {
            return;
        }
        if let Some(balance) = self.hosts.get_mut(&Host::of(to)) {
            *balance = balance.brought_to(now);
            balance.left = balance.left.max((balance.left + bytes).min(MAX_UNPROVEN_CREDIT));
        }
    }

    /// Forgets the hosts whose allowance is whole again.
    pub(in crate::core) fn tidy(&mut self, now: Time) {
        self.hosts.retain(|_, balance| balance.brought_to(now).left < UNPROVEN_BURST);
        self.others = self.others.filter(|balance| balance.brought_to(now).left < UNPROVEN_BURST);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(ms: u64) -> Time {
        Time::ORIGIN + Duration::from_millis(ms)
    }

    fn address(host: u32, port: u16) -> SocketAddr {
        SocketAddr::from((host.to_be_bytes(), port))
    }

    /// Takes packets of 64 bytes until there is no credit; returns the bytes.
    fn taken(credit: &mut Credit, now: Time, to: impl Fn(u16) -> SocketAddr) -> usize {
        (1..10_000).filter(|port| credit.take(now, to(*port), 64)).count() * 64
    }

    #[test]
    fn all_ports_of_a_host_have_one_allowance_and_so_many_bytes_for_each_that_came() {
        let mut credit = Credit::default();
        assert_eq!(taken(&mut credit, at(0), |port| address(1, port)), UNPROVEN_BURST);
        assert_eq!(taken(&mut credit, at(0), |port| address(2, port)), UNPROVEN_BURST, "another host");
        assert_eq!(taken(&mut credit, at(1_000), |port| address(1, port)), UNPROVEN_PER_SECOND);
        credit.received(at(1_000), address(1, 77), 640);
        assert_eq!(taken(&mut credit, at(1_000), |port| address(1, port)), 640 * UNPROVEN_FACTOR);
        (0..100_000).for_each(|_| credit.received(at(1_000), address(1, 77), 1_000));
        assert_eq!(credit.left(at(1_000), address(1, 1)), MAX_UNPROVEN_CREDIT);
    }

    #[test]
    fn so_many_hosts_are_remembered_and_the_others_share_one_allowance() {
        let mut credit = Credit::default();
        for host in 0..MAX_UNPROVEN_HOSTS as u32 {
            assert!(credit.take(at(0), address(host, 1), 64));
        }
        let others = |port: u16| address(10_000_000 + u32::from(port), 1);
        assert_eq!(taken(&mut credit, at(0), others), UNPROVEN_BURST);
        assert_eq!(credit.size(), MAX_UNPROVEN_HOSTS);
        assert!(credit.take(at(0), address(7, 1), 64), "those that are remembered have their own");
        credit.tidy(at(3_600_000));
        assert_eq!(credit.size(), 0, "nobody is remembered for good");
    }
}
