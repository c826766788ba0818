//! Crowds: who gives way in a full table that everybody shares, so that no host and no network keeps all others out.
//!
//! Invariant: nobody gives way to one of its own host, nor if the newcomer's host or network would have as many places
//! then: two crowds do not take places from each other in turn.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::host::Host;

/// Returns the one that gives way to a newcomer at this address: of the most crowded network, and there of the most
/// crowded host, the first by the order of `rank`. The items are what is held: a key, an address, and a rank.
pub(in crate::core) fn gives_way<K, R: Ord>(
    held: impl Iterator<Item = (K, SocketAddr, R)>,
    newcomer: SocketAddr,
) -> Option<K> {
    let held: Vec<(K, Host, R)> = held.map(|(key, address, rank)| (key, Host::of(address), rank)).collect();
    let (mut of_host, mut of_network) = (BTreeMap::new(), BTreeMap::new());
    for (_, host, _) in &held {
        *of_host.entry(*host).or_insert(0_usize) += 1;
        *of_network.entry(host.network()).or_insert(0_usize) += 1;
    }
    let count = |host: &Host| (of_network[&host.network()], of_host[host]);
    let first = held.into_iter().max_by(|(_, one, rank), (_, other, other_rank)| {
        count(one).cmp(&count(other)).then_with(|| other_rank.cmp(rank))
    });
    let (key, host, _) = first?;
    let newcomer = Host::of(newcomer);
    let new_of_network = of_network.get(&newcomer.network()).copied().unwrap_or(0);
    let new_of_host = of_host.get(&newcomer).copied().unwrap_or(0);
    let (of_its_network, of_its_host) = count(&host);
    let does_give_way = if host.network() == newcomer.network() {
        host != newcomer && of_its_host > new_of_host + 1
    } else {
        of_its_network > new_of_network + 1
    };
    does_give_way.then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(network: u8, host: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, network, host], port))
    }

    fn first(held: &[SocketAddr], newcomer: SocketAddr) -> Option<usize> {
        gives_way(held.iter().enumerate().map(|(nth, address)| (nth, *address, nth)), newcomer)
    }

    #[test]
    fn the_most_crowded_network_gives_way_and_there_the_most_crowded_host_and_its_first() {
        let held = [at(1, 1, 1), at(1, 2, 1), at(2, 1, 1), at(2, 2, 1), at(2, 2, 2)];
        assert_eq!(first(&held, at(3, 1, 1)), Some(3));
        assert_eq!(first(&held, at(2, 3, 1)), Some(3), "in its own network the most crowded host");
        assert_eq!(first(&held, at(2, 2, 3)), None, "not to one of its own host");
        assert_eq!(first(&held, at(2, 1, 2)), None, "they would change sides");
        assert_eq!(first(&held, at(1, 3, 1)), None, "so would networks");
    }

    #[test]
    fn of_a_crowded_network_one_gives_way_before_one_of_a_crowded_host_elsewhere() {
        let held: Vec<_> = (1..=10).map(|host| at(1, host, 1)).chain([at(2, 1, 1), at(2, 1, 2)]).collect();
        assert_eq!(first(&held, at(3, 1, 1)), Some(0));
    }

    #[test]
    fn nobody_gives_way_where_all_have_one_place() {
        assert_eq!(first(&[at(1, 1, 1), at(2, 1, 1)], at(3, 1, 1)), None);
        assert_eq!(first(&[], at(3, 1, 1)), None);
    }
}
