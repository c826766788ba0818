//! Addresses in a configuration: what may be bound, advertised, and named as a seed.
//!
//! Invariant: nothing is resolved here, nor looked up: a name may become resolvable later.
//!
//! Must not know: the keys that addresses stand at, but for its errors.

use std::net::{Ipv6Addr, SocketAddr};

use super::error::{ConfigError, SeedFault};
use crate::core::limits::MAX_SEEDS;
use crate::core::{Record, canonical, is_of_many, is_reachable};

/// The prefix of a seed that names SRV records.
pub(crate) const SRV: &str = "srv:";

/// Accepts any address of this machine (binding it shows whether it exists) but none of many machines.
pub(super) fn check_bind(address: SocketAddr) -> Result<(), ConfigError> {
    if is_of_many(address.ip()) { Err(ConfigError::BindMulticast { address }) } else { Ok(()) }
}

/// Refuses a loopback address for `bind` if all seeds are on other machines: the node would never join, since its
/// packets do not leave the machine. With a host name among the seeds this cannot be decided, and nothing is refused.
pub(super) fn check_bind_reaches(bind: Option<SocketAddr>, seeds: &[String]) -> Result<(), ConfigError> {
    let Some(bind) = bind.filter(is_loopback) else { return Ok(()) };
    let elsewhere: Vec<_> = seeds.iter().filter(|seed| literal(seed).is_some_and(|seed| !is_loopback(&seed))).collect();
    match elsewhere.first() {
        Some(seed) if elsewhere.len() == seeds.len() => {
            Err(ConfigError::BindUnreachable { address: bind, seed: (*seed).clone() })
        }
        _ => Ok(()),
    }
}

/// Returns true if an address is loopback, so that only this machine can send to it.
pub(crate) fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Parses an IP address with a port, and brings it into its one form; `None` for a host name, and where there is a zone.
pub(crate) fn literal(text: &str) -> Option<SocketAddr> {
    text.parse().ok().filter(|_| !names_a_zone(text)).map(canonical)
}

/// Returns true if a text is an IPv6 address with a zone, by name or number: such an address is another one on every machine.
pub(super) fn names_a_zone(text: &str) -> bool {
    let address = text.trim_start_matches('[').split_once('%').map(|(address, _)| address);
    address.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
}

/// Refuses an address that no other node can send to.
pub(super) fn check_advertise(address: SocketAddr) -> Result<(), ConfigError> {
    if is_reachable(address) { Ok(()) } else { Err(ConfigError::AdvertiseUnreachable { address }) }
}

/// Checks the bounds that a record from the wire must meet, and that the text is not empty.
pub(super) fn check_api_address(text: &str) -> Result<(), ConfigError> {
    if text.is_empty() || text.len() > Record::MAX_API_ADDRESS_BYTES || text.contains(char::is_control) {
        return Err(ConfigError::ApiAddress { found: text.to_owned() });
    }
    Ok(())
}

/// Refuses more seeds than [`MAX_SEEDS`].
pub(super) fn check_seed_count(count: usize) -> Result<(), ConfigError> {
    if count > MAX_SEEDS { Err(ConfigError::TooManySeeds { count }) } else { Ok(()) }
}

/// Checks a seed: the name of SRV records, or an address.
pub(super) fn check_seed(seed: &str) -> Result<(), ConfigError> {
    let checked = match seed.strip_prefix(SRV) {
        Some(_) if !cfg!(feature = "srv") => Err(SeedFault::NoSrv),
        Some(name) if is_service_name(name) => Ok(()),
        Some(_) => Err(SeedFault::Srv),
        None => check_host_port(seed),
    };
    checked.map_err(|fault| ConfigError::Seed { seed: seed.to_owned(), fault })
}

/// Checks the forms `host:port`, `1.2.3.4:port` and `[v6]:port`. Names are not resolved here: a name may become
/// resolvable later, and is tried again for ever.
pub(crate) fn check_host_port(text: &str) -> Result<(), SeedFault> {
    if let Some(address) = literal(text) {
        return if is_reachable(address) { Ok(()) } else { Err(SeedFault::Unreachable) };
    }
    if names_a_zone(text) {
        return Err(SeedFault::Zone);
    }
    if text.parse::<Ipv6Addr>().is_ok() || text.matches(':').count() > 1 && !text.starts_with('[') {
        return Err(SeedFault::Brackets);
    }
    let Some((host, port)) = text.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) else {
        return Err(SeedFault::NoPort);
    };
    // `parse` alone would accept "+7117".
    let port_is_good =
        port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port != 0);
    if !port_is_good {
        return Err(SeedFault::Port);
    }
    if is_host_name(host) { Ok(()) } else { Err(SeedFault::Host) }
}

/// Returns true if a text could be the name of SRV records: `_service._protocol.domain`.
fn is_service_name(name: &str) -> bool {
    let mut labels = name.splitn(3, '.');
    let is_underscored = |label: Option<&str>| label.is_some_and(|label| label.len() > 1 && label.starts_with('_'));
    is_underscored(labels.next())
        && is_underscored(labels.next())
        && labels.next().is_some_and(|domain| !domain.is_empty())
        && is_host_name(name)
}

/// Returns true if a text could be a host name. Underscores occur in the wild; a last label of digits alone is a
/// mistyped IPv4 address and never a name.
pub(super) fn is_host_name(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    let last_is_number = host.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    host.len() <= 253 && host.split('.').all(label) && !last_is_number
}

/// Returns true if a seed is certainly on this machine. Other names are resolved later, and their addresses may change.
pub(crate) fn stays_on_this_machine(seed: &str) -> bool {
    let is_localhost = |host: &str| host.eq_ignore_ascii_case("localhost") || host.ends_with(".localhost");
    match literal(seed) {
        Some(address) => is_loopback(&address),
        None => seed.rsplit_once(':').is_some_and(|(host, _)| is_localhost(host)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_host_and_port() {
        let long_name = format!("{}.example:1", "a".repeat(63));
        for good in [
            "srv:_headcount._udp.example.internal",
            "10.0.0.1:7117",
            "[::1]:7117",
            "a:1",
            "n_1.example.:65535",
            &long_name,
        ] {
            assert_eq!(check_seed(good), Ok(()), "{good}");
        }
        let too_long = format!("{}:1", "a".repeat(64));
        let cases = [
            ("", SeedFault::NoPort),
            ("host", SeedFault::NoPort),
            ("10.0.0.1", SeedFault::NoPort),
            ("[::1]", SeedFault::NoPort),
            ("host:", SeedFault::Port),
            ("host:0", SeedFault::Port),
            ("host:+1", SeedFault::Port),
            ("host:65536", SeedFault::Port),
            ("host:http", SeedFault::Port),
            ("::1", SeedFault::Brackets),
            ("fe80::1:7117", SeedFault::Brackets),
            (":7117", SeedFault::Host),
            ("a b:7117", SeedFault::Host),
            ("a..b:7117", SeedFault::Host),
            ("10.0.0.256:7117", SeedFault::Host),
            ("http://host:7117", SeedFault::Brackets),
            ("[nonsense]:7117", SeedFault::Host),
            (&too_long, SeedFault::Host),
            ("srv:", SeedFault::Srv),
            ("srv:example.internal", SeedFault::Srv),
            ("srv:_headcount._udp", SeedFault::Srv),
            ("srv:_headcount._udp.a b", SeedFault::Srv),
            ("srv:_headcount._udp.example:7117", SeedFault::Srv),
            ("0.0.0.0:7117", SeedFault::Unreachable),
            ("10.0.0.1:0", SeedFault::Unreachable),
            ("[ff02::1]:7117", SeedFault::Unreachable),
            ("[::ffff:0.0.0.0]:7117", SeedFault::Unreachable),
            ("[::ffff:224.0.0.1]:7117", SeedFault::Unreachable),
            ("255.255.255.255:7117", SeedFault::Unreachable),
            ("[fe80::1%2]:7117", SeedFault::Zone),
            ("[fe80::1%eth0]:7117", SeedFault::Zone),
            ("fe80::1%eth0:7117", SeedFault::Zone),
        ];
        for (bad, fault) in cases {
            assert_eq!(check_seed(bad), Err(ConfigError::Seed { seed: bad.to_owned(), fault }), "{bad}");
        }
    }
}
