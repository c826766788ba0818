//! Address families, in words: of two nodes that cannot reach each other, one may speak IPv6 alone.

use std::fmt;
use std::net::SocketAddr;

/// Returns the family of an address, in words.
pub(crate) fn family(address: SocketAddr) -> &'static str {
    if address.ip().to_canonical().is_ipv4() { "IPv4" } else { "IPv6" }
}

/// Displays a hint if the address that a node advertises and the one that it is heard from are of two families; else
/// nothing.
pub(crate) struct Families(pub(crate) SocketAddr, pub(crate) SocketAddr);

impl fmt::Display for Families {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (advertised, heard_from) = (family(self.0), family(self.1));
        if advertised == heard_from {
            return Ok(());
        }
        write!(
            f,
            "; the addresses are of two families, {} ({advertised}) and {} ({heard_from}): members must reach each other \
             by the one that they advertise",
            self.0, self.1
        )
    }
}
