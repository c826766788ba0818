//! Asks an address what any stranger is answered there, by UDP and by TCP.
//!
//! ```text
//!   doctor ── WhoAreYou(a) ──▶ agent        an anonymous question, as a node asks that met a stranger
//!          ◀─ WhoAreYou(b, echo a) ──       the address is not proven yet: nothing is told
//!          ── WhoAreYou(a, echo b) ──▶
//!          ◀─ IAm(a, record) ──             it is: name, address, version, timing
//! ```
//!
//! Invariants: the questions are those of the protocol, so that agents need no door for this; each is padded, since no
//! answer is larger than its question; nothing that comes is believed unless it answers this question. Nothing joins. Where
//! packets are sealed, so are question and answer, by a run that was drawn for one address and one report.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::core::limits::MIN_QUESTION_BYTES;
use crate::core::wire::{Header, Message, Nonce, Packet, PacketBuilder, PacketError, Refusal};
use crate::core::{ProtocolRange, Record, Run};
use crate::seal::{DatagramSealer, Key, KeyRing, Opened};

/// The number of times that a question is sent: datagrams get lost, and agents answer strangers at a limited rate.
const TRIES: u32 = 4;
/// Time for which each try waits.
const TRY_TIMEOUT: Duration = Duration::from_millis(600);
/// Time limit for a TCP connection.
const TCP_TIMEOUT: Duration = Duration::from_secs(2);
/// The largest datagram that is read.
const MAX_DATAGRAM: usize = 2_048;

/// The answers of one address, by UDP and by TCP.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) udp: Udp,
    /// The reason why no TCP connection was made.
    pub(super) tcp: Result<(), String>,
}

/// The answer of an address by UDP.
#[derive(Debug)]
pub(super) enum Udp {
    /// A member, and its record.
    Member(Box<Record>),
    /// A node of the cluster that did not introduce itself: it joins.
    Somebody,
    /// A node of another cluster.
    OtherCluster,
    /// A node that speaks other versions of the protocol.
    OtherVersion(ProtocolRange),
    /// A node whose packets are sealed with a key.
    Sealed,
    /// No answer came.
    Silent,
    /// The address was not asked.
    Untried,
    /// The question could not be sent, or the system says that nobody listens.
    Failed(String),
}

/// The form of questions to one address: of a cluster, clear or sealed.
#[derive(Debug)]
pub(super) struct Voice {
    cluster: u32,
    seal: Option<(KeyRing, DatagramSealer)>,
}

impl Voice {
    /// Asks as any stranger asks.
    pub(super) fn clear(cluster: &str) -> Self {
        Self { cluster: Header::cluster_hash(cluster), seal: None }
    }

    /// Asks as a node asks that holds this key.
    pub(super) fn sealed(cluster: &str, key: &Key) -> Self {
        // One key is a ring.
        let ring = KeyRing::new([key.clone()]).ok();
        let seal = ring.map(|ring| (ring, DatagramSealer::new(Run(random().max(1)), cluster)));
        Self { seal, ..Self::clear(cluster) }
    }

    fn question(&mut self, nonce: Nonce, echo: Option<Nonce>) -> Vec<u8> {
        let mut packet = PacketBuilder::new(&Header::anonymous(self.cluster), MIN_QUESTION_BYTES);
        packet.push(&Message::WhoAreYou { nonce, echo });
        packet.pad_to(MIN_QUESTION_BYTES);
        let packet = packet.finish();
        match &mut self.seal {
            Some((ring, sealer)) => sealer.seal(ring.sealing(), None, &packet).unwrap_or_default(),
            None => packet,
        }
    }

    /// Returns the packet in a datagram; `None` if it is not to be believed.
    fn opened(&mut self, datagram: &[u8]) -> Option<Vec<u8>> {
        let Some((ring, sealer)) = &mut self.seal else { return Some(datagram.to_vec()) };
        let mut packet = Vec::new();
        match sealer.open(ring, datagram, &mut packet, |_| false) {
            Ok(Opened::Bound | Opened::Unbound) => Some(packet),
            Ok(Opened::Clear) | Err(_) => None,
        }
    }
}

fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Asks one address; without a voice by TCP alone.
pub(super) fn probe(address: SocketAddr, voice: Option<Voice>) -> Probe {
    let tcp = TcpStream::connect_timeout(&address, TCP_TIMEOUT).map(drop).map_err(|error| error.to_string());
    let udp = match voice {
        Some(voice) => ask(address, voice).unwrap_or_else(|error| Udp::Failed(error.to_string())),
        None => Udp::Untried,
    };
    Probe { udp, tcp }
}

fn ask(address: SocketAddr, mut voice: Voice) -> std::io::Result<Udp> {
    let any = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    // Only what comes from there is received.
    socket.connect(address)?;
    let nonce = Nonce(random());
    let mut echo = None;
    let mut seen = Udp::Silent;
    for _ in 0..TRIES {
        socket.send(&voice.question(nonce, echo))?;
        let deadline = Instant::now() + TRY_TIMEOUT;
        while let Some(left) = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            socket.set_read_timeout(Some(left))?;
            let mut bytes = [0; MAX_DATAGRAM];
            let length = match socket.recv(&mut bytes) {
                Ok(length) => length,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
                // The port is closed: the system said so.
                Err(error) => return Ok(Udp::Failed(error.to_string())),
            };
            let Some(packet) = voice.opened(&bytes[..length]) else { continue };
            match read(&packet, nonce) {
                Some(Said::Asks(back)) => {
                    seen = Udp::Somebody;
                    if echo.replace(back).is_none() {
                        // Answered at once: it is a step of the same handshake.
                        socket.send(&voice.question(nonce, echo))?;
                    }
                }
                Some(Said::Is(udp)) => return Ok(udp),
                None => {}
            }
        }
    }
    Ok(seen)
}

/// The meaning of one datagram.
enum Said {
    /// The node asks back, with a nonce that is to be echoed.
    Asks(Nonce),
    /// The datagram says who, or what, is at the address.
    Is(Udp),
}

/// Reads an answer to the question with this nonce.
fn read(bytes: &[u8], asked: Nonce) -> Option<Said> {
    let packet = match Packet::decode(bytes) {
        Ok(packet) => packet,
        Err(PacketError::Refused { speaks }) => return Some(Said::Is(Udp::OtherVersion(speaks))),
        Err(PacketError::UnknownKey { .. }) => return Some(Said::Is(Udp::Sealed)),
        Err(_) => return None,
    };
    let mut asks = None;
    for message in packet.messages {
        match message {
            Message::IAm { nonce, record } if nonce == asked => return Some(Said::Is(Udp::Member(Box::new(record)))),
            Message::Refused { nonce, refusal: Refusal::OtherCluster } if nonce == asked => {
                return Some(Said::Is(Udp::OtherCluster));
            }
            Message::WhoAreYou { nonce, echo } if echo == Some(asked) => asks = Some(Said::Asks(nonce)),
            _ => {}
        }
    }
    asks
}
