//! Turns: so many in an interval for each host, and so many in all, whoever the hosts are.
//!
//! Invariants: a host that uses up its turns takes no others' ones, up to the turns of all; the hosts that are remembered
//! are about as many as there are turns in an interval.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::host::Host;
use crate::core::limits::QUESTION_INTERVAL;
use crate::core::time::Time;

/// A share of turns: a whole interval's at once, and then one by one, so that no host takes them all in its first
/// moment (the generic cell rate algorithm: ITU-T I.371).
#[derive(Debug, Clone, Copy, Default)]
struct CellRate {
    spent_until: Option<Time>,
}

impl CellRate {
    fn after_one(self, now: Time, most: usize) -> Option<CellRate> {
        let next = self.spent_until.unwrap_or(now).max(now) + QUESTION_INTERVAL / most as u32;
        (next.since(now) <= QUESTION_INTERVAL).then_some(CellRate { spent_until: Some(next) })
    }

    fn is_whole(self, now: Time) -> bool {
        self.spent_until.is_none_or(|until| until <= now)
    }
}

/// The turns of all hosts in [`QUESTION_INTERVAL`].
#[derive(Debug)]
pub(in crate::core) struct Turns {
    per_host: usize,
    in_all: usize,
    hosts: BTreeMap<Host, CellRate>,
    all: CellRate,
}

/// A turn that is free, and not taken yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    host: Host,
    of_host: CellRate,
    of_all: CellRate,
}

impl Turns {
    pub(in crate::core) fn new(per_host: usize, in_all: usize) -> Self {
        Self { per_host, in_all, hosts: BTreeMap::new(), all: CellRate::default() }
    }

    /// Returns the number of hosts that are remembered.
    pub(in crate::core) fn size(&self) -> usize {
        self.hosts.len()
    }

    /// Returns the next turn of an address's host, if there is one now.
    pub(super) fn next(&self, now: Time, address: SocketAddr) -> Option<Turn> {
        // Once the turns of all are used up, hosts need not be looked up.
        let of_all = self.all.after_one(now, self.in_all)?;
        let host = Host::of(address);
        let of_host = self.hosts.get(&host).copied().unwrap_or_default().after_one(now, self.per_host)?;
        Some(Turn { host, of_host, of_all })
    }

    pub(super) fn take(&mut self, now: Time, turn: Turn) {
        if self.hosts.len() >= self.in_all {
            self.hosts.retain(|_, of_host| !of_host.is_whole(now));
        }
        self.hosts.insert(turn.host, turn.of_host);
        self.all = turn.of_all;
    }

    /// Returns true if it is the turn of an address's host, and takes the turn.
    pub(in crate::core) fn allow(&mut self, now: Time, address: SocketAddr) -> bool {
        let Some(turn) = self.next(now, address) else { return false };
        self.take(now, turn);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn host(nth: u32) -> SocketAddr {
        SocketAddr::from((nth.to_be_bytes(), 7_117))
    }

    #[test]
    fn a_host_and_all_hosts_have_so_many_turns_at_once_and_in_each_interval_after_that() {
        let (per_host, in_all) = (20, 100);
        let mut turns = Turns::new(per_host, in_all);
        let taken = |turns: &mut Turns, ms: u64, hosts: std::ops::Range<u32>| {
            let now = Time::ORIGIN + Duration::from_millis(ms);
            hosts.filter(|nth| turns.allow(now, host(*nth % 1_000))).count()
        };
        assert_eq!((0..50).map(|_| taken(&mut turns, 0, 0..1)).sum::<usize>(), per_host);
        assert_eq!(taken(&mut turns, 0, 1..999), in_all - per_host);
        let later = 1..=1_000;
        assert_eq!(later.clone().map(|ms| taken(&mut turns, ms, 0..1)).sum::<usize>(), per_host, "evenly");
        let rest: usize = later.map(|ms| taken(&mut turns, 1_000 + ms, 0..50)).sum();
        assert!((in_all..=2 * in_all).contains(&rest), "{rest}");
        assert!(turns.size() <= 2 * in_all, "{}", turns.size());
    }
}
