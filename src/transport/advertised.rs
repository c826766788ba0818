//! The address that a node advertises: the one that was given, or the one from which this machine sends to its seeds.
//!
//! Invariant: nothing is sent. The system is asked for a route, and no more.
//!
//! Must not know: what an address is advertised for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use tracing::Level;

use super::resolve::{Found, Resolver};
use super::sources::SeedSources;
use crate::config::stays_on_this_machine;
use crate::core::canonical;

/// The address that other nodes are told to send to, and the reason for choosing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Advertised {
    pub(crate) address: SocketAddr,
    why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// The address was given: as `advertise`, or as a specific address to bind.
    Configured,
    /// The address is this machine's source address toward a seed.
    TowardSeed,
    /// The address is this machine's source address toward the Internet.
    DefaultRoute,
    /// The address is that of an interface: this machine has no route toward the Internet.
    Interface,
    /// The address is loopback, and so are all seeds.
    SeedsAreHere,
    /// The address is loopback, since this machine has no other.
    NothingElse,
}

impl Advertised {
    /// Returns true if this machine had no address but loopback: it may get another one.
    pub(crate) fn is_stopgap(&self) -> bool {
        self.why == Why::NothingElse
    }

    /// Returns the address of a machine that has no other one than loopback.
    pub(crate) fn stopgap(bound: SocketAddr) -> Self {
        Self { address: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), bound.port()), why: Why::NothingElse }
    }

    /// Returns an address that somebody gave.
    pub(crate) fn configured(address: SocketAddr) -> Self {
        let address = canonical(address);
        // Without the zone, which means nothing to others.
        Self { address: SocketAddr::new(address.ip(), address.port()), why: Why::Configured }
    }

    /// Returns the reason for which this address was chosen, in words.
    pub(crate) fn reason(&self) -> &'static str {
        match self.why {
            Why::Configured => "as the configuration says",
            Why::TowardSeed => "this machine's address toward the seeds",
            Why::DefaultRoute => "this machine's first address",
            Why::Interface => "the first address of this machine's interfaces, since it has no default route",
            Why::SeedsAreHere => "since all seeds are on this machine",
            Why::NothingElse => "since this machine has no other address",
        }
    }

    /// Returns a remark for the operator, with its urgency, if there is one to make.
    pub(crate) fn remark(&self) -> Option<(Level, String)> {
        let (level, consequence) = match self.why {
            Why::Configured => return None,
            Why::TowardSeed | Why::DefaultRoute => (Level::INFO, ""),
            Why::Interface => (Level::INFO, "; set `advertise` if others reach it at another one"),
            Why::SeedsAreHere => (
                Level::WARN,
                ": nodes on other machines cannot reach this one; set `advertise` if they are to, or bind a loopback address if \
                 they are not",
            ),
            Why::NothingElse => (Level::WARN, ": nobody else can reach this node; set `advertise` if others are to"),
        };
        Some((level, format!("advertising {}, {}{consequence}", self.address, self.reason())))
    }
}

/// Returns the address to advertise: the configured one (which was checked); otherwise the bound one if it is specific;
/// otherwise the source address toward the first seed that leads out of this machine; otherwise the first address that
/// is not loopback, by the default route or, without one, of an interface. It is loopback only if all seeds are on this
/// machine, or there is no other. Names are waited for
/// only if no numeric seed is given.
pub(crate) async fn advertised(
    configured: Option<SocketAddr>,
    bound: SocketAddr,
    seeds: &SeedSources,
    resolver: &Resolver,
) -> Advertised {
    if let Some(address) = configured {
        return Advertised::configured(address);
    }
    if !bound.ip().is_unspecified() {
        return Advertised::configured(bound);
    }
    let mut found = Vec::new();
    let mut lookup = resolver.look_up(seeds);
    while let Some(seed) = lookup.try_next() {
        found.push(seed);
    }
    if found.iter().all(|(_, addresses)| addresses.is_empty()) {
        while let Some(seed) = lookup.next().await {
            found.push(seed);
        }
    } else if !lookup.is_whole(found.len()) {
        // One of which nobody knows where it is.
        found.push(Found::default());
    }
    choose(bound, &found)
}

/// Chooses the address by the known addresses of each seed, none if they are unknown.
pub(crate) fn choose(bound: SocketAddr, seeds: &[Found]) -> Advertised {
    let addresses = seeds.iter().flat_map(|(_, addresses)| addresses);
    let sources: Vec<Option<IpAddr>> = addresses.map(|address| source_toward(*address, bound)).collect();
    let toward_seed = sources.iter().flatten().find(|ip| !ip.is_loopback()).map(|ip| (*ip, Why::TowardSeed));
    // A seed without known addresses, or without a route to it at the moment, is elsewhere. So is one whose name is mapped to
    // loopback here, as systems do with a machine's own name: others reach it, under that name, at another address.
    let is_here = |(seed, addresses): &Found| !addresses.is_empty() && stays_on_this_machine(seed);
    let are_all_here = seeds.iter().all(is_here) && sources.iter().all(Option::is_some);
    let here = || sources.first().copied().flatten().filter(|_| are_all_here).map(|ip| (ip, Why::SeedsAreHere));
    let first = || first_that_is_not_loopback(bound).map(|ip| (ip, Why::DefaultRoute));
    let of_interface = || first_of_interfaces(bound).map(|ip| (ip, Why::Interface));
    let chosen = toward_seed.or_else(here).or_else(first).or_else(of_interface);
    chosen.map_or_else(
        || Advertised::stopgap(bound),
        |(ip, why)| Advertised { address: SocketAddr::new(ip, bound.port()), why },
    )
}

/// Returns the source address toward the Internet, unless it is loopback. The targets are addresses reserved for
/// documentation: no host has them, and nothing is sent.
fn first_that_is_not_loopback(bound: SocketAddr) -> Option<IpAddr> {
    let nowhere: [IpAddr; 2] =
        [Ipv4Addr::new(192, 0, 2, 1).into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into()];
    let mut ways = nowhere.into_iter().filter_map(|ip| source_toward(SocketAddr::new(ip, 9), bound));
    ways.find(|ip| !ip.is_loopback())
}

/// Returns the first address of this machine's interfaces that others may reach: of IPv4 if there is one, of IPv6 only where
/// that is listened to.
#[cfg(unix)]
pub(crate) fn first_of_interfaces(bound: SocketAddr) -> Option<IpAddr> {
    use nix::net::if_::InterfaceFlags;

    let is_in_use = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
    let interfaces = nix::ifaddrs::getifaddrs().ok()?.filter(|interface| interface.flags.contains(is_in_use));
    let addresses = interfaces.filter_map(|interface| {
        let address = interface.address?;
        let four = address.as_sockaddr_in().map(|address| IpAddr::from(address.ip()));
        four.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::from(address.ip())))
    });
    first_to_reach(bound, addresses)
}

/// Returns nothing: the interfaces of other systems are not looked at.
#[cfg(not(unix))]
pub(crate) fn first_of_interfaces(_: SocketAddr) -> Option<IpAddr> {
    None
}

/// Returns the first of these addresses that others may reach, of IPv4 before IPv6. Those of one link alone are none: they
/// mean nothing without the name of an interface, or are the sign that nobody gave the machine an address.
#[cfg(any(unix, test))]
fn first_to_reach(bound: SocketAddr, addresses: impl Iterator<Item = IpAddr>) -> Option<IpAddr> {
    let may_be_reached = |ip: &IpAddr| match ip {
        IpAddr::V4(four) => !(four.is_loopback() || four.is_link_local() || four.is_unspecified()),
        IpAddr::V6(six) => {
            bound.is_ipv6() && !(six.is_loopback() || six.is_unicast_link_local() || six.is_unspecified())
        }
    };
    addresses.filter(may_be_reached).min_by_key(IpAddr::is_ipv6)
}

/// Returns the source address that the system would use toward `target`. Connecting a UDP socket sends nothing; it only
/// makes the system choose a route.
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
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;
    use crate::transport::resolve::tests::{address, resolver, seeds};

    #[tokio::test(start_paused = true)]
    async fn a_name_that_hangs_beside_a_numeric_seed_delays_no_start() {
        let before = Instant::now();
        let list = seeds(&["hangs.invalid:1", "127.0.0.1:1"]);
        let found = advertised(None, address("0.0.0.0:7117"), &list, &resolver(0)).await;
        assert_eq!(before.elapsed(), Duration::ZERO);
        assert_ne!(found.why, Why::SeedsAreHere, "nobody knows where the other one is");
    }

    #[tokio::test]
    async fn what_is_configured_or_bound_is_advertised_and_nobody_is_asked() {
        let list = seeds(&["10.0.0.1:1", "hangs.invalid:1"]);
        let configured = advertised(Some(address("10.9.9.9:1")), address("0.0.0.0:7117"), &list, &resolver(0)).await;
        assert_eq!(configured.address, address("10.9.9.9:1"));
        // In the form that a record has: IPv4 as IPv4, and no zone, which means nothing to others.
        for (written, told) in [("[::ffff:10.9.9.9]:1", "10.9.9.9:1"), ("[fe80::1%2]:1", "[fe80::1]:1")] {
            let given = advertised(Some(address(written)), address("0.0.0.0:7117"), &list, &resolver(0)).await;
            assert_eq!(given.address, address(told));
        }
        let bound = advertised(None, address("127.0.0.1:7117"), &list, &resolver(0)).await;
        assert_eq!(bound.address, address("127.0.0.1:7117"));
        assert!(configured.remark().is_none() && bound.remark().is_none());
    }

    #[test]
    fn loopback_is_advertised_only_where_all_seeds_are_on_this_machine_and_said_loudly() {
        let at =
            |seed: &str, addresses: &[&str]| (seed.to_owned(), addresses.iter().map(|text| address(text)).collect());
        let here = at("127.0.0.1:1", &["127.0.0.1:1"]);
        for bound in ["0.0.0.0:7117", "[::]:7117"] {
            let found = choose(address(bound), &[here.clone(), at("localhost:1", &["127.0.0.1:1"])]);
            assert_eq!((found.address, found.why), (address("127.0.0.1:7117"), Why::SeedsAreHere));
            assert!(found.remark().is_some_and(|(level, _)| level == Level::WARN));
            // A seed that does not resolve yet may be anywhere.
            assert_ne!(choose(address(bound), &[here.clone(), at("a:1", &[])]).why, Why::SeedsAreHere);
            // Debian maps a machine's own name to loopback, for that machine alone: the seeds of all others are elsewhere.
            let own_name = at("ha:7117", &["127.0.1.1:7117"]);
            assert_ne!(choose(address(bound), &[own_name]).why, Why::SeedsAreHere);
        }
    }

    #[test]
    fn a_seed_elsewhere_outweighs_one_on_this_machine() {
        // On any machine, a route out of it has no loopback address; without such a route there is none.
        let bound = address("0.0.0.0:7117");
        let seeds = ["127.0.0.1:1", "192.0.2.1:1"].map(|seed| (seed.to_owned(), vec![address(seed)]));
        let found = choose(bound, &seeds);
        match source_toward(address("192.0.2.1:1"), bound) {
            Some(source) => assert_eq!((found.address.ip(), found.why), (source, Why::TowardSeed)),
            None => assert_ne!(found.why, Why::SeedsAreHere),
        }
    }

    #[test]
    fn an_interface_gives_an_address_that_others_may_reach_and_of_ipv4_before_ipv6() {
        let first = |bound: &str, all: &[&str]| {
            let all = all.iter().map(|text| text.parse::<IpAddr>().expect("an address"));
            first_to_reach(address(bound), all).map(|ip| ip.to_string())
        };
        let (four, six) = ("0.0.0.0:1", "[::]:1");
        let all = ["127.0.0.1", "::1", "fe80::1", "169.254.1.1", "fd00::1", "10.0.0.1", "10.0.0.2"];
        assert_eq!([first(four, &all), first(six, &all)], [Some("10.0.0.1".to_owned()), Some("10.0.0.1".to_owned())]);
        assert_eq!((first(six, &all[..5]), first(four, &all[..5])), (Some("fd00::1".to_owned()), None));
        assert_eq!(first(six, &all[..4]), None);
    }

    #[test]
    fn what_is_said_of_an_address_is_so() {
        let of = |why| Advertised { address: address("10.0.0.1:1"), why }.remark();
        let (level, text) = of(Why::Interface).expect("a remark");
        assert!(level == Level::INFO && text.contains("no default route"), "{text}");
        let (level, text) = of(Why::NothingElse).expect("a remark");
        assert!(level == Level::WARN && text.contains("no other address: nobody else can reach"), "{text}");
        let (_, text) = of(Why::TowardSeed).expect("a remark");
        assert_eq!(text, "advertising 10.0.0.1:1, this machine's address toward the seeds");
    }

    #[test]
    fn without_seeds_there_is_always_an_address_that_can_be_sent_to() {
        let found = choose(address("0.0.0.0:7117"), &[]);
        assert!(crate::core::is_reachable(found.address), "{found:?}");
    }
}
