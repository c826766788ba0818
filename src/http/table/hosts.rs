//! The hosts that connections come from, and how many each of them has open.
//!
//! Invariant: a host is here as long as it has a connection.
//!
//! Must not know: what connections do.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of connections of one host, which each of them can look at.
#[derive(Debug, Clone)]
pub(super) struct HostCount {
    host: IpAddr,
    open: Arc<AtomicUsize>,
}

impl HostCount {
    pub(super) fn get(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

/// The hosts with open connections.
#[derive(Debug, Default)]
pub(super) struct Hosts(BTreeMap<IpAddr, Arc<AtomicUsize>>);

impl Hosts {
    /// Counts one more connection of this peer's host.
    pub(super) fn enter(&mut self, peer: IpAddr) -> HostCount {
        let host = host_of(peer);
        let open = Arc::clone(self.0.entry(host).or_default());
        open.fetch_add(1, Ordering::Relaxed);
        HostCount { host, open }
    }

    /// Counts one connection less.
    pub(super) fn leave(&mut self, count: &HostCount) {
        if count.open.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.remove(&count.host);
        }
    }
}

/// Returns the host that an address stands for: the address itself, or the 64 bits of IPv6 that its owner cannot choose.
fn host_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_by_host_and_a_host_without_any_is_forgotten() {
        let mut hosts = Hosts::default();
        let [one, again, mapped] =
            ["10.0.0.1", "10.0.0.1", "::ffff:10.0.0.1"].map(|peer| peer.parse().expect("an address"));
        let [one, again, mapped] = [one, again, mapped].map(|peer| hosts.enter(peer));
        let [six, near, far] = ["2001:db8::1", "2001:db8::ffff", "2001:db8:0:1::1"]
            .map(|peer| hosts.enter(peer.parse().expect("an address")));
        assert_eq!([one.get(), again.get(), mapped.get(), six.get(), near.get(), far.get()], [3, 3, 3, 2, 2, 1]);
        for count in [&one, &again, &mapped, &six, &near, &far] {
            hosts.leave(count);
        }
        assert!(hosts.0.is_empty());
    }
}
