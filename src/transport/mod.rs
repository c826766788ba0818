//! I/O toward other nodes: the gossip socket, links, and the lookup of addresses.
//!
//! This layer moves and seals bytes, and names addresses. It must not know the content of a packet, the members, or the time; it
//! never ends the agent because of something that a network did.

pub(crate) mod advertised;
pub(crate) mod links;
pub(crate) mod resolve;
pub(crate) mod sealing;
pub(crate) mod sources;
pub(crate) mod udp;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use links::Listener;
use udp::{BindError, Udp};

/// Time limit for a lookup. Shorter than a resolver's own: another seed may answer at once.
pub(crate) const LOOKUP_TIMEOUT: Duration = Duration::from_secs(3);

/// The largest number of ports that are tried if the system chooses, until one is free for UDP and for TCP. (Without a test:
/// the system would have to choose that many ports in a row whose TCP half is taken.)
const MAX_PORT_TRIES: usize = 16;

/// Binds the gossip socket and the links' listener to one port number.
pub(crate) fn bind_both(address: Option<SocketAddr>, default_port: u16) -> Result<(Udp, Listener), BindError> {
    let is_chosen_by_system = address.map_or(default_port, |address| address.port()) == 0;
    for attempt in 1.. {
        let udp = Udp::bind(address, default_port)?;
        match Listener::bind(udp.local_address()) {
            Ok(listener) => return Ok((udp, listener)),
            Err(error) if is_chosen_by_system && attempt < MAX_PORT_TRIES && error.kind() == ErrorKind::AddrInUse => {}
            Err(source) => return Err(BindError { protocol: "TCP", address: udp.local_address(), source }),
        }
    }
    unreachable!("the last attempt returns")
}
