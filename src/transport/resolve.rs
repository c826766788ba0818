//! From texts to addresses: seeds' names, and the address that this node advertises.
//!
//! Invariants: a text that is already numeric never waits for a name server; a slow name server delays only the names
//! that need it, and never keeps more than [`MAX_LOOKUPS`] lookups alive, abandoned ones included (the system's resolver
//! cannot be interrupted, so an abandoned one goes on in its thread for as long as it pleases).
//!
//! Must not know: when to look up again. That is the core's decision.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::core::limits::{MAX_ADDRESSES_PER_SEED, MAX_SEEDS};

/// Lookups alive at one time.
pub(crate) const MAX_LOOKUPS: usize = MAX_SEEDS;

/// How long a name is waited for. Shorter than a resolver's own patience: another seed may answer at once.
pub(crate) const LOOKUP_TIMEOUT: Duration = Duration::from_secs(3);

/// Why a text gave no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ResolveError {
    /// The name server says no.
    #[error("{name:?} does not resolve: {reason}")]
    Failed {
        /// The text.
        name: String,
        /// What the system said.
        reason: String,
    },
    /// Nobody said anything.
    #[error("{name:?} did not resolve within {} s: check the name server", LOOKUP_TIMEOUT.as_secs())]
    TimedOut {
        /// The text.
        name: String,
    },
}

/// Looks names up. Cheap to clone; clones share the bound.
#[derive(Debug, Clone)]
pub(crate) struct Resolver {
    permits: Arc<Semaphore>,
}

impl Resolver {
    pub(crate) fn new() -> Self {
        Self { permits: Arc::new(Semaphore::new(MAX_LOOKUPS)) }
    }

    /// All addresses of one `host:port`, at most [`MAX_ADDRESSES_PER_SEED`], in the system's order.
    pub(crate) async fn resolve(&self, name: &str) -> Result<Vec<SocketAddr>, ResolveError> {
        if let Ok(address) = name.parse::<SocketAddr>() {
            return Ok(vec![address]);
        }
        let deadline = Instant::now() + LOOKUP_TIMEOUT;
        let timed_out = || ResolveError::TimedOut { name: name.to_owned() };
        let permit = timeout_at(deadline, Arc::clone(&self.permits).acquire_owned()).await;
        let permit = permit.map_err(|_| timed_out())?;
        let host_and_port = name.to_owned();
        // A task of its own, so that the permit is held for as long as the lookup lives, and not only for as long as
        // somebody waits for it.
        let lookup = tokio::spawn(async move {
            let _permit = permit;
            let addresses = tokio::net::lookup_host(host_and_port).await?;
            std::io::Result::Ok(distinct(addresses))
        });
        let failed = |reason: String| ResolveError::Failed { name: name.to_owned(), reason };
        match timeout_at(deadline, lookup).await {
            Ok(Ok(Ok(addresses))) if addresses.is_empty() => Err(failed("it has no addresses".to_owned())),
            Ok(Ok(Ok(addresses))) => Ok(addresses),
            Ok(Ok(Err(error))) => Err(failed(error.to_string())),
            Ok(Err(ended)) => Err(failed(ended.to_string())),
            Err(_) => Err(timed_out()),
        }
    }

    /// The addresses of all seeds, in their order, all looked up at the same time; none for one that did not resolve.
    pub(crate) async fn resolve_seeds(&self, seeds: Arc<[String]>) -> Vec<Vec<SocketAddr>> {
        let mut found = vec![Vec::new(); seeds.len()];
        let mut lookups = JoinSet::new();
        for place in 0..seeds.len() {
            let (resolver, seeds) = (self.clone(), Arc::clone(&seeds));
            lookups.spawn(async move { (place, resolver.resolve(&seeds[place]).await) });
        }
        while let Some(lookup) = lookups.join_next().await {
            match lookup {
                Ok((place, Ok(addresses))) => found[place] = addresses,
                // The core says so to the operator when no seed is left; one of several is not worth a warning per try.
                Ok((_, Err(error))) => tracing::debug!(%error, "seed not resolved"),
                Err(error) => tracing::warn!(%error, "a lookup ended unexpectedly"),
            }
        }
        found
    }
}

fn distinct(addresses: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut kept = Vec::new();
    for address in addresses {
        if kept.len() == MAX_ADDRESSES_PER_SEED {
            break;
        }
        if !kept.contains(&address) {
            kept.push(address);
        }
    }
    kept
}

/// The address that others are told to send to: what is configured (and was checked), else the bound one if it is specific, else the
/// source address toward the first seed that has one, else the first address that is not loopback, else loopback.
pub(crate) fn advertised(configured: Option<SocketAddr>, bound: SocketAddr, seeds: &[Vec<SocketAddr>]) -> SocketAddr {
    if let Some(address) = configured {
        return address;
    }
    if !bound.ip().is_unspecified() {
        return bound;
    }
    let toward_seed = || seeds.iter().flatten().find_map(|seed| source_toward(*seed, bound));
    let ip = toward_seed().or_else(|| first_that_is_not_loopback(bound)).unwrap_or_else(|| {
        tracing::warn!(
            "no address of this machine can be reached from outside: advertising loopback; set `advertise` if others \
             are to reach this node"
        );
        Ipv4Addr::LOCALHOST.into()
    });
    SocketAddr::new(ip, bound.port())
}

/// Whether the addresses are wanted at all, so that a start does not wait for a name server in vain.
pub(crate) fn needs_seeds(configured: Option<SocketAddr>, bound: SocketAddr) -> bool {
    configured.is_none() && bound.ip().is_unspecified()
}

/// The way out to the world, asked with addresses set aside for documentation: nobody is there, and nothing is sent.
fn first_that_is_not_loopback(bound: SocketAddr) -> Option<IpAddr> {
    let nowhere: [IpAddr; 2] =
        [Ipv4Addr::new(192, 0, 2, 1).into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into()];
    let mut ways = nowhere.into_iter().filter_map(|ip| source_toward(SocketAddr::new(ip, 9), bound));
    ways.find(|ip| !ip.is_loopback())
}

/// The source address that the system would use toward `target`. Connecting a UDP socket sends nothing; it only makes
/// the system choose a route.
fn source_toward(target: SocketAddr, bound: SocketAddr) -> Option<IpAddr> {
    if target.is_ipv6() && bound.is_ipv4() {
        return None;
    }
    let any: IpAddr = if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let probe = UdpSocket::bind((any, 0)).ok()?;
    probe.connect(target).ok()?;
    let ip = probe.local_addr().ok()?.ip().to_canonical();
    (!ip.is_unspecified()).then_some(ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[tokio::test]
    async fn numeric_addresses_need_no_lookup() {
        let resolver = Resolver { permits: Arc::new(Semaphore::new(0)) };
        assert_eq!(resolver.resolve("10.0.0.1:7117").await, Ok(vec![address("10.0.0.1:7117")]));
        assert_eq!(resolver.resolve("[::1]:7117").await, Ok(vec![address("[::1]:7117")]));
    }

    #[tokio::test]
    async fn seeds_keep_their_places_whether_they_resolve_or_not() {
        let seeds: Vec<String> = ["10.0.0.1:1", "no-such-name.invalid:2", "localhost:3"].map(String::from).to_vec();
        let found = Resolver::new().resolve_seeds(seeds.into()).await;
        assert_eq!(found[0], [address("10.0.0.1:1")]);
        assert!(found[1].is_empty());
        assert!(found[2].iter().all(|found| found.ip().is_loopback() && found.port() == 3));
        assert!(!found[2].is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn with_all_lookups_stuck_a_name_times_out_instead_of_starting_another() {
        let resolver = Resolver { permits: Arc::new(Semaphore::new(0)) };
        let error = resolver.resolve("localhost:1").await.expect_err("nobody may look");
        assert_eq!(error, ResolveError::TimedOut { name: "localhost:1".to_owned() });
    }

    #[test]
    fn addresses_of_one_seed_are_distinct_and_bounded() {
        let many = (0..100u16).map(|i| SocketAddr::from((Ipv4Addr::LOCALHOST, 1 + i / 2)));
        let kept = distinct(many);
        assert_eq!(kept.len(), MAX_ADDRESSES_PER_SEED);
        assert_eq!(kept[1].port(), 2);
    }

    #[test]
    fn the_configured_address_is_advertised_whatever_is_bound() {
        let bound = address("0.0.0.0:7117");
        assert_eq!(advertised(Some(address("10.9.9.9:1")), bound, &[]), address("10.9.9.9:1"));
        assert!(!needs_seeds(Some(address("10.9.9.9:1")), bound));
    }

    #[test]
    fn a_specific_bound_address_is_advertised() {
        let bound = address("127.0.0.1:7117");
        assert_eq!(advertised(None, bound, &[vec![address("10.0.0.1:1")]]), bound);
        assert!(!needs_seeds(None, bound));
    }

    #[test]
    fn bound_everywhere_the_source_toward_the_first_seed_is_advertised() {
        let seeds = [Vec::new(), vec![address("127.0.0.1:1")]];
        for bound in ["0.0.0.0:7117", "[::]:7117"] {
            assert_eq!(advertised(None, address(bound), &seeds), address("127.0.0.1:7117"));
            assert!(needs_seeds(None, address(bound)));
        }
    }

    #[test]
    fn without_seeds_there_is_always_an_address_that_can_be_sent_to() {
        let found = advertised(None, address("0.0.0.0:7117"), &[]);
        assert!(crate::core::is_reachable(found), "{found}");
    }
}
