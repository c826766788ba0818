//! Accepted connections that the driver has not heard of: few, and shared fairly.
//!
//! Whoever reaches the port can open connections and say nothing. So when all places are taken, a newcomer gets that of the
//! oldest connection that has said nothing, of the host that has most of them: silence is worth nothing, and whoever speaks
//! at once is not in the way of anybody.
//!
//! Invariants: there are never more places than given at the start; a connection that has spoken keeps its place until the
//! driver has heard of it.
//!
//! Must not know: what connections carry.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The places. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Silent(Arc<Mutex<Table>>);

#[derive(Debug)]
struct Table {
    places: usize,
    last: u64,
    /// By age, the oldest first.
    taken: BTreeMap<u64, Taken>,
}

#[derive(Debug)]
struct Taken {
    host: IpAddr,
    /// Dropped when the connection has to go; none once it has spoken.
    stay: Option<oneshot::Sender<()>>,
}

/// One place, until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    number: u64,
    silent: Silent,
}

/// The place of a new connection, and what became of others.
#[derive(Debug)]
pub(super) struct Entered {
    pub(super) place: Place,
    /// Ends, with an error, when the connection has to go.
    pub(super) gone: oneshot::Receiver<()>,
    /// True if another connection has to go in favour of this one.
    pub(super) has_displaced: bool,
}

impl Silent {
    pub(super) fn new(places: usize) -> Self {
        Self(Arc::new(Mutex::new(Table { places, last: 0, taken: BTreeMap::new() })))
    }

    /// Takes a place, if need be that of a connection that has said nothing; `None` if all have spoken.
    pub(super) fn enter(&self, from: SocketAddr) -> Option<Entered> {
        let mut table = self.table();
        let is_full = table.taken.len() >= table.places;
        if is_full {
            let oldest = table.oldest_of_the_greediest()?;
            table.taken.remove(&oldest);
        }
        table.last += 1;
        let number = table.last;
        let (stay, gone) = oneshot::channel();
        table.taken.insert(number, Taken { host: host(from), stay: Some(stay) });
        let place = Place { number, silent: self.clone() };
        Some(Entered { place, gone, has_displaced: is_full })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Returns the oldest silent connection of the host that has most of them; of two such hosts, of that with the oldest.
    fn oldest_of_the_greediest(&self) -> Option<u64> {
        let mut silent: BTreeMap<IpAddr, (usize, u64)> = BTreeMap::new();
        for (number, taken) in self.taken.iter().filter(|(_, taken)| taken.stay.is_some()) {
            silent.entry(taken.host).or_insert((0, *number)).0 += 1;
        }
        silent
            .into_values()
            .max_by_key(|(count, oldest)| (*count, std::cmp::Reverse(*oldest)))
            .map(|(_, oldest)| oldest)
    }
}

impl Place {
    /// Keeps the place from now on: the connection has spoken. Returns false if it has to go.
    pub(super) fn keep(&self) -> bool {
        let mut table = self.silent.table();
        table.taken.get_mut(&self.number).and_then(|taken| taken.stay.take()).is_some()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.silent.table().taken.remove(&self.number);
    }
}

/// Returns the host of an address: with IPv6 the network of 64 bits, of which one host may have all addresses.
fn host(from: SocketAddr) -> IpAddr {
    match from.ip() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        IpAddr::V4(address) => address.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(host: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, host], port))
    }

    fn is_gone(entered: &mut Entered) -> bool {
        entered.gone.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn the_oldest_silent_connection_of_the_host_with_most_of_them_gives_way() {
        let silent = Silent::new(4);
        let mut other = silent.enter(from(2, 1)).expect("room");
        let mut greedy: Vec<Entered> = (0..3).map(|port| silent.enter(from(1, port)).expect("room")).collect();
        assert!(greedy.iter().all(|entered| !entered.has_displaced));
        let newcomer = silent.enter(from(3, 1)).expect("in place of another");
        assert!(newcomer.has_displaced);
        assert!(is_gone(&mut greedy[0]) && !greedy[0].place.keep());
        assert!(!is_gone(&mut greedy[1]) && !is_gone(&mut greedy[2]) && !is_gone(&mut other));
        drop(greedy.remove(0));
        assert_eq!(silent.table().taken.len(), 4, "who is gone gives nobody else's place back");
    }

    #[test]
    fn who_has_spoken_keeps_its_place_and_a_free_one_is_taken_first() {
        let silent = Silent::new(2);
        let mut spoken: Vec<Entered> = (0..2).map(|port| silent.enter(from(1, port)).expect("room")).collect();
        assert!(spoken[0].place.keep());
        let third = silent.enter(from(2, 1)).expect("in place of the silent one");
        assert!(!spoken[1].place.keep() && third.place.keep());
        assert!(silent.enter(from(3, 1)).is_none(), "all have spoken");
        drop(spoken.remove(0));
        assert!(!silent.enter(from(3, 1)).expect("a free place").has_displaced);
    }

    #[test]
    fn one_network_of_ipv6_is_one_host() {
        let at = |text: &str| host(text.parse().expect("an address"));
        assert_eq!(at("[2001:db8::1]:1"), at("[2001:db8::2:3]:2"));
        assert_ne!(at("[2001:db8::1]:1"), at("[2001:db8:0:1::1]:1"));
        assert_ne!(at("10.0.0.1:1"), at("10.0.0.2:1"));
    }
}
