//! I/O toward other nodes: the gossip socket, links, and the lookup of addresses.
//!
//! This layer moves and seals bytes, and names addresses. It must not know the content of a packet, or the members; time
//! bounds its waits and its lines of the log, and decides nothing else. It never ends the agent because of something that a
//! network did.
//!
//! | idea | file |
//! |---|---|
//! | the gossip socket | `udp` |
//! | links: TCP connections that carry frames | `links` |
//! | sealing, for the socket and the links | `sealing` |
//! | where seeds come from; their addresses; this node's own | `sources`, `resolve`, `advertised` |

pub(crate) mod advertised;
pub(crate) mod links;
pub(crate) mod resolve;
pub(crate) mod sealing;
pub(crate) mod sources;
pub(crate) mod udp;

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use links::Listener;
use udp::{BindError, Udp};

/// Time limit for a lookup. Shorter than a resolver's own: another seed may answer at once.
pub(crate) const LOOKUP_TIMEOUT: Duration = Duration::from_secs(3);

/// The largest number of ports that are tried if the system chooses, until one is free for UDP and for TCP.
const MAX_PORT_TRIES: usize = 16;

/// Binds the gossip socket and the links' listener to one port number.
pub(crate) fn bind_both(address: Option<SocketAddr>, default_port: u16) -> Result<(Udp, Listener), BindError> {
    let is_chosen_by_system = address.map_or(default_port, |address| address.port()) == 0;
    let tries = if is_chosen_by_system { MAX_PORT_TRIES } else { 1 };
    bind_pair(tries, || Udp::bind(address, default_port), Udp::local_address, Listener::bind)
}

/// Binds one, and another one to its address, in so many tries at most, of which the last one's error is returned.
fn bind_pair<U, L>(
    tries: usize,
    first: impl Fn() -> Result<U, BindError>,
    address_of: impl Fn(&U) -> SocketAddr,
    second: impl Fn(SocketAddr) -> io::Result<L>,
) -> Result<(U, L), BindError> {
    let mut left = tries;
    loop {
        let udp = first()?;
        let address = address_of(&udp);
        left = left.saturating_sub(1);
        match second(address) {
            Ok(listener) => return Ok((udp, listener)),
            Err(error) if left > 0 && error.kind() == ErrorKind::AddrInUse => {}
            Err(source) => return Err(BindError { protocol: "TCP", address, source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn so_many_ports_are_tried_until_one_is_free_for_both() {
        let tried = Cell::new(0_u16);
        let first = || {
            tried.set(tried.get() + 1);
            Ok(tried.get())
        };
        let address_of = |port: &u16| SocketAddr::from(([127, 0, 0, 1], *port));
        let bind = |tries, free: u16, kind: ErrorKind| {
            tried.set(0);
            let second = |address: SocketAddr| if address.port() == free { Ok(()) } else { Err(kind.into()) };
            let bound = bind_pair(tries, first, address_of, second);
            (bound.map(|(port, ())| port).map_err(|error| error.address.port()), tried.get())
        };
        let most = MAX_PORT_TRIES as u16;
        assert_eq!(bind(MAX_PORT_TRIES, most, ErrorKind::AddrInUse), (Ok(most), most), "the last one is free");
        assert_eq!(bind(MAX_PORT_TRIES, most + 1, ErrorKind::AddrInUse), (Err(most), most));
        assert_eq!(bind(MAX_PORT_TRIES, 2, ErrorKind::PermissionDenied), (Err(1), 1), "another port is no better");
        assert_eq!(bind(1, 2, ErrorKind::AddrInUse), (Err(1), 1), "the port that was asked for, or none");
    }

    #[tokio::test]
    async fn a_port_that_was_asked_for_and_is_taken_is_an_error_at_once() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = taken.local_addr().expect("an address");
        let error = bind_both(Some(at), 0).map(|_| ()).expect_err("its TCP half is taken");
        assert_eq!((error.protocol, error.address), ("TCP", at));
    }
}
