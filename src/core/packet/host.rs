//! Hosts: what the addresses of one owner have in common.
//!
//! Must not know: what a host is limited to.

use std::net::{IpAddr, SocketAddr};

/// The addresses of one host: an IPv4 address, or the 64 bits of an IPv6 address that its owner cannot choose at will.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::core) enum Host {
    V4(u32),
    V6(u64),
}

impl Host {
    pub(in crate::core) fn of(address: SocketAddr) -> Self {
        match address.ip().to_canonical() {
            IpAddr::V4(v4) => Host::V4(v4.to_bits()),
            IpAddr::V6(v6) => Host::V6((v6.to_bits() >> 64) as u64),
        }
    }

    /// Returns its network: /24 of IPv4, /48 of IPv6.
    pub(super) fn network(self) -> Self {
        match self {
            Host::V4(bits) => Host::V4(bits >> 8 << 8),
            Host::V6(bits) => Host::V6(bits >> 16 << 16),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_an_ipv4_address_or_64_bits() {
        let host = |text: &str| Host::of(text.parse().expect("an address"));
        assert_eq!(host("10.0.0.1:1"), host("10.0.0.1:2"));
        assert_eq!(host("10.0.0.1:1"), host("[::ffff:10.0.0.1]:2"));
        assert_ne!(host("10.0.0.1:1"), host("10.0.0.2:1"));
        assert_eq!(host("[2001:db8::1]:1"), host("[2001:db8::2:1]:1"));
        assert_ne!(host("[2001:db8::1]:1"), host("[2001:db8:0:1::1]:1"));
    }
}
