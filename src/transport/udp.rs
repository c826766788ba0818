//! The gossip socket: one UDP socket for all packets, of IPv6 and IPv4 if both exist.
//!
//! Invariants:
//! - Callers see IPv4 peers as IPv4 addresses, whatever family the socket has: an address is a map key and a part of
//!   records, so one peer must not have two of them.
//! - Neither call waits: receiving ends with [`Received::Empty`], and a datagram that finds the send buffer full is
//!   dropped and counted, as a router would do it.
//! - Errors are classified, counted and survived; only [`SocketErrorKind::Fatal`] means that this socket will never work again.
//!
//! Must not know: the content of a datagram, or how often to try again.
//!
//! | idea | file |
//! |---|---|
//! | what errors mean | `errors` |
//! | datagrams that the kernel dropped | `overflow` |

mod errors;
#[cfg(target_os = "linux")]
mod overflow;

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket as StdSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use socket2::{Domain, Protocol, SockRef, Socket, Type};
#[cfg(target_os = "linux")]
use tokio::io::Interest;
use tokio::net::UdpSocket;

pub(crate) use errors::SocketErrorKind;
#[cfg(target_os = "linux")]
use overflow::Overflow;

use crate::core::canonical;

/// The largest datagram that is handed on, in bytes. Senders keep to 1,400 bytes; the rest is room for settings of
/// later versions.
pub(crate) const MAX_DATAGRAM_BYTES: usize = 2_048;

/// Size of the receive buffer that is asked for: a burst of a thousand joiners, with room to spare. The kernel charges
/// a small datagram about 800 bytes; it also caps the size, which is accepted.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// Size of the send buffer that is asked for: a flood to all peers at once.
const SEND_BUFFER_BYTES: usize = 1 << 20;

/// Totals of one socket, readable while it works.
#[derive(Debug, Default)]
pub(crate) struct SocketCounters {
    receive_errors: AtomicU64,
    send_errors: AtomicU64,
    send_buffer_full: AtomicU64,
    oversized: AtomicU64,
    overflows: AtomicU64,
}

impl SocketCounters {
    /// Returns the number of errors survived, in both directions.
    pub(crate) fn errors(&self) -> u64 {
        self.receive_errors.load(Ordering::Relaxed) + self.send_errors.load(Ordering::Relaxed)
    }

    /// Returns the number of datagrams not sent because the send buffer was full.
    pub(crate) fn send_buffer_full(&self) -> u64 {
        self.send_buffer_full.load(Ordering::Relaxed)
    }

    /// Returns the number of datagrams dropped because they were longer than any of the protocol.
    pub(crate) fn oversized(&self) -> u64 {
        self.oversized.load(Ordering::Relaxed)
    }

    /// Returns the number of datagrams that the kernel dropped because the receive buffer was full. Always 0 on systems
    /// that do not report it.
    pub(crate) fn overflows(&self) -> u64 {
        self.overflows.load(Ordering::Relaxed)
    }
}

/// The result of one attempt to receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// A datagram.
    Datagram {
        /// Address of the sender.
        from: SocketAddr,
        /// Length in the buffer, in bytes.
        length: usize,
    },
    /// No datagram waits.
    Empty,
    /// An error of one datagram or one moment; it is counted, and there may be more to receive.
    Failed(SocketErrorKind),
}

/// A bound gossip socket.
#[derive(Debug)]
pub(crate) struct Udp {
    socket: UdpSocket,
    local: SocketAddr,
    counters: Arc<SocketCounters>,
    #[cfg(target_os = "linux")]
    overflow: Overflow,
}

impl Udp {
    /// Binds. `None` in `address` is every address of both families on `port`, or of IPv4 if IPv6 does not exist.
    ///
    /// The caller is inside a tokio runtime. Links listen on the same port number: see
    /// [`bind_both`](super::bind_both).
    pub(crate) fn bind(address: Option<SocketAddr>, default_port: u16) -> Result<Self, BindError> {
        let (socket, asked) = match address.map(canonical) {
            Some(address) => (open(address), address),
            None => open_any(default_port),
        };
        let socket = socket.map_err(|source| BindError { protocol: "UDP", address: asked, source })?;
        let failed = |source| BindError { protocol: "UDP", address: asked, source };
        // Less than asked for is usual for unprivileged processes; a smaller buffer is no reason not to start.
        let _ = SockRef::from(&socket).set_recv_buffer_size(RECEIVE_BUFFER_BYTES);
        let _ = SockRef::from(&socket).set_send_buffer_size(SEND_BUFFER_BYTES);
        #[cfg(target_os = "linux")]
        let overflow = Overflow::watch(&socket);
        let socket = UdpSocket::from_std(socket).map_err(failed)?;
        let local = canonical(socket.local_addr().map_err(failed)?);
        Ok(Self {
            socket,
            local,
            counters: Arc::default(),
            #[cfg(target_os = "linux")]
            overflow,
        })
    }

    /// Returns the address really bound.
    pub(crate) fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Returns the shared counters.
    pub(crate) fn counters(&self) -> Arc<SocketCounters> {
        Arc::clone(&self.counters)
    }

    /// Waits until there may be something to receive. Cancel safe.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await
    }

    /// Receives one datagram without waiting, if the runtime knows of one: after [`Udp::readable`].
    pub(crate) fn receive(&mut self, buffer: &mut [u8; MAX_DATAGRAM_BYTES + 1]) -> Received {
        let received = self.receive_raw(buffer);
        self.received(received)
    }

    /// Receives one datagram without waiting, even if the runtime has not checked the socket yet.
    pub(crate) fn receive_now(&mut self, buffer: &mut [u8; MAX_DATAGRAM_BYTES + 1]) -> Received {
        let received = self.receive_from_kernel(buffer);
        self.received(received)
    }

    fn received(&self, received: io::Result<(usize, SocketAddr)>) -> Received {
        match received {
            Ok((length, _)) if length > MAX_DATAGRAM_BYTES => {
                self.counters.oversized.fetch_add(1, Ordering::Relaxed);
                Received::Failed(SocketErrorKind::TooLong)
            }
            Ok((length, from)) => Received::Datagram { from: canonical(from), length },
            Err(error) if error.kind() == ErrorKind::WouldBlock => Received::Empty,
            Err(error) => {
                self.counters.receive_errors.fetch_add(1, Ordering::Relaxed);
                Received::Failed(SocketErrorKind::of(&error))
            }
        }
    }

    #[cfg(target_os = "linux")]
    fn receive_raw(&mut self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let Self { socket, overflow, counters, .. } = self;
        socket.try_io(Interest::READABLE, || overflow.receive(socket, buffer, counters))
    }

    #[cfg(target_os = "linux")]
    fn receive_from_kernel(&mut self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let Self { socket, overflow, counters, .. } = self;
        overflow.receive(socket, buffer, counters)
    }

    #[cfg(not(target_os = "linux"))]
    fn receive_raw(&mut self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.socket.try_recv_from(buffer)
    }

    #[cfg(not(target_os = "linux"))]
    fn receive_from_kernel(&mut self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        // On other systems only the runtime can be asked; a datagram that it has not noticed yet comes a turn later.
        self.socket.try_recv_from(buffer)
    }

    /// Sends one datagram without waiting. A datagram that cannot be sent is counted and lost.
    pub(crate) fn send(&self, to: SocketAddr, bytes: &[u8]) -> Result<(), SocketErrorKind> {
        let sent = match (self.local, to) {
            (SocketAddr::V4(_), SocketAddr::V6(_)) => Err(ErrorKind::NetworkUnreachable.into()),
            // Not through tokio's readiness: that would drop datagrams sent before the first turn of its event loop.
            (_, to) => SockRef::from(&self.socket).send_to(bytes, &self.native(to).into()),
        };
        match sent {
            Ok(_) => Ok(()),
            Err(error) => {
                let trouble = SocketErrorKind::of(&error);
                let counter = match trouble {
                    SocketErrorKind::NoBuffers => &self.counters.send_buffer_full,
                    _ => &self.counters.send_errors,
                };
                counter.fetch_add(1, Ordering::Relaxed);
                Err(trouble)
            }
        }
    }

    /// Converts the address to the form that the kernel wants on a socket of this family.
    fn native(&self, to: SocketAddr) -> SocketAddr {
        match (self.local, to) {
            (SocketAddr::V6(_), SocketAddr::V4(to)) => {
                SocketAddrV6::new(to.ip().to_ipv6_mapped(), to.port(), 0, 0).into()
            }
            _ => to,
        }
    }
}

/// Error: the gossip socket, or the links' listener, could not be bound.
#[derive(Debug)]
pub(crate) struct BindError {
    /// `UDP` or `TCP`.
    pub(crate) protocol: &'static str,
    /// The address asked for.
    pub(crate) address: SocketAddr,
    /// The system's error.
    pub(crate) source: io::Error,
}

fn open_any(port: u16) -> (io::Result<StdSocket>, SocketAddr) {
    let six = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    match open(six) {
        // These would fail for IPv4 as well, and are reported better here.
        Err(error) if matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::PermissionDenied) => (Err(error), six),
        Err(_) => {
            let four = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
            (open(four), four)
        }
        socket => (socket, six),
    }
}

fn open(address: SocketAddr) -> io::Result<StdSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        // The default differs from system to system. On a specific address it changes nothing.
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LOOPBACK: &str = "127.0.0.1:0";

    fn bind(address: &str) -> Udp {
        Udp::bind(Some(address.parse().expect("an address")), 0).expect("a free port")
    }

    /// Waits for the next datagram or trouble.
    async fn next(udp: &mut Udp) -> (Received, Vec<u8>) {
        let mut buffer = [0; MAX_DATAGRAM_BYTES + 1];
        let received = async {
            loop {
                udp.readable().await.expect("readable");
                match udp.receive(&mut buffer) {
                    Received::Empty => {}
                    received => return received,
                }
            }
        };
        let received = tokio::time::timeout(Duration::from_secs(10), received).await.expect("in time");
        let length = if let Received::Datagram { length, .. } = received { length } else { 0 };
        (received, buffer[..length].to_vec())
    }

    fn port_of(udp: &Udp) -> u16 {
        udp.local_address().port()
    }

    #[tokio::test]
    async fn a_datagram_arrives_with_its_source() {
        let (a, mut b) = (bind(LOOPBACK), bind(LOOPBACK));
        a.send(b.local_address(), b"hello").expect("sent before the event loop ever turned");
        let (received, bytes) = next(&mut b).await;
        assert_eq!(received, Received::Datagram { from: a.local_address(), length: 5 });
        assert_eq!(bytes, b"hello");
        assert_eq!(b.receive(&mut [0; MAX_DATAGRAM_BYTES + 1]), Received::Empty);
    }

    #[tokio::test]
    async fn a_socket_that_is_bound_to_ipv4_written_as_ipv6_is_one_of_ipv4() {
        let (a, mut b) = (bind("[::ffff:127.0.0.1]:0"), bind(LOOPBACK));
        a.send(b.local_address(), b"hello").expect("sent");
        assert_eq!(next(&mut b).await.0, Received::Datagram { from: a.local_address(), length: 5 });
        assert!(Udp::bind(Some("[::ffff:0.0.0.0]:0".parse().expect("an address")), 0).is_ok());
    }

    #[tokio::test]
    async fn one_socket_speaks_both_families_and_shows_ipv4_peers_as_ipv4() {
        let mut any = Udp::bind(None, 0).expect("a free port");
        let mut four = bind(LOOPBACK);
        any.send(four.local_address(), b"there").expect("mapped where the socket is IPv6");
        let (received, _) = next(&mut four).await;
        let from = SocketAddr::from((Ipv4Addr::LOCALHOST, port_of(&any)));
        assert_eq!(received, Received::Datagram { from, length: 5 });

        four.send(from, b"back").expect("sent");
        let (received, _) = next(&mut any).await;
        assert_eq!(received, Received::Datagram { from: four.local_address(), length: 4 });

        // Not every machine that runs this has IPv6.
        if let Ok(mut six) = Udp::bind(Some("[::1]:0".parse().expect("an address")), 0) {
            six.send(SocketAddr::from((Ipv6Addr::LOCALHOST, port_of(&any))), b"six").expect("sent");
            let (received, _) = next(&mut any).await;
            assert_eq!(received, Received::Datagram { from: six.local_address(), length: 3 });
            any.send(six.local_address(), b"back").expect("sent");
            assert!(matches!(next(&mut six).await.0, Received::Datagram { length: 4, .. }));
        }
    }

    #[tokio::test]
    async fn a_taken_port_is_an_error_that_names_it() {
        let taken = bind(LOOPBACK);
        let error = Udp::bind(Some(taken.local_address()), 0).expect_err("taken");
        assert_eq!(error.address, taken.local_address());
        assert_eq!(error.source.kind(), ErrorKind::AddrInUse);
        let error = Udp::bind(None, port_of(&taken)).expect_err("taken for IPv4");
        assert_eq!(error.source.kind(), ErrorKind::AddrInUse);
    }

    #[tokio::test]
    async fn the_largest_datagram_passes_and_one_byte_more_is_counted_and_dropped() {
        let (a, mut b) = (bind(LOOPBACK), bind(LOOPBACK));
        a.send(b.local_address(), &[7; MAX_DATAGRAM_BYTES]).expect("sent");
        assert!(matches!(next(&mut b).await.0, Received::Datagram { length: MAX_DATAGRAM_BYTES, .. }));
        a.send(b.local_address(), &[7; MAX_DATAGRAM_BYTES + 1]).expect("sent");
        assert_eq!(next(&mut b).await.0, Received::Failed(SocketErrorKind::TooLong));
        assert_eq!(b.counters().oversized(), 1);
    }

    #[tokio::test]
    async fn send_errors_are_classified_and_counted() {
        let a = bind(LOOPBACK);
        assert_eq!(a.send("[::1]:1".parse().expect("an address"), b"x"), Err(SocketErrorKind::Unreachable));
        assert_eq!(a.send("127.0.0.1:1".parse().expect("an address"), &vec![0; 65_536]), Err(SocketErrorKind::TooLong));
        assert_eq!(a.counters().errors(), 2);
    }

    #[tokio::test]
    async fn a_peer_that_is_gone_does_not_break_the_socket() {
        let (mut a, b) = (bind(LOOPBACK), bind(LOOPBACK));
        let gone = bind(LOOPBACK).local_address();
        for _ in 0..3 {
            let _ = a.send(gone, b"anybody?");
        }
        b.send(a.local_address(), b"here").expect("sent");
        while !matches!(next(&mut a).await.0, Received::Datagram { length: 4, .. }) {}
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn what_the_kernel_drops_is_counted() {
        let (a, mut b) = (bind(LOOPBACK), bind(LOOPBACK));
        SockRef::from(&b.socket).set_recv_buffer_size(1).expect("the least there is");
        let sent = 200;
        for _ in 0..sent {
            a.send(b.local_address(), &[0; 1_000]).expect("sent");
        }
        let mut buffer = [0; MAX_DATAGRAM_BYTES + 1];
        b.readable().await.expect("readable");
        let mut received = 0;
        while b.receive(&mut buffer) != Received::Empty {
            received += 1;
        }
        // The count arrives with the next datagram that fits.
        a.send(b.local_address(), b"after").expect("sent");
        assert!(matches!(next(&mut b).await.0, Received::Datagram { length: 5, .. }));
        assert_eq!(b.counters().overflows(), sent - received);
        assert!(received < sent);
    }
}
