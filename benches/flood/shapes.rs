//! What a flood is made of: packets of one shape each, made before it begins, or what is said on connections.

use std::net::{SocketAddr, UdpSocket};

use headcount::core::limits::MAX_MESSAGES_PER_PACKET;
use headcount::core::wire::{Header, Heartbeat, Message, Nonce, PacketBuilder, Update};
use headcount::core::{NodeId, ProtocolRange, Record, Run, Status};
use headcount::{Profile, Tags};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::agents::Cluster;
use crate::support::PATIENCE;

/// The different packets of a shape, of a run each: more than an agent remembers of senders. They are sent again and again.
const PACKETS: u64 = 16_384;
/// The largest datagram that an agent reads.
const LARGEST: usize = 2_048;
/// The bytes of a usual packet that is full.
const FULL: usize = 1_400;
/// The least bytes of a question that may be answered.
const LEAST: usize = 256;
/// Packets of members and joiners that are recorded before a flood of them.
const RECORDED: usize = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Random,
    Clear,
    UnknownKey,
    Forged,
    Flipped,
    Replayed,
    Joins,
    Tiny,
    Probes,
    Heartbeats,
    Largest,
    SilentLinks,
    GarbageLinks,
}

pub const SHAPES: [Shape; 13] = [
    Shape::Random,
    Shape::Clear,
    Shape::UnknownKey,
    Shape::Forged,
    Shape::Flipped,
    Shape::Replayed,
    Shape::Joins,
    Shape::Tiny,
    Shape::Probes,
    Shape::Heartbeats,
    Shape::Largest,
    Shape::SilentLinks,
    Shape::GarbageLinks,
];

/// What is sent.
pub enum Payloads {
    Packets(Vec<Vec<u8>>),
    /// Said at once on each connection, one after the other.
    Connections(Vec<Vec<u8>>),
}

impl Shape {
    pub fn name(self) -> &'static str {
        match self {
            Shape::Random => "random bytes",
            Shape::Clear => "clear, the header right",
            Shape::UnknownKey => "sealed, an unknown key",
            Shape::Forged => "sealed, the right key's id",
            Shape::Flipped => "recorded, one bit changed",
            Shape::Replayed => "recorded, played again",
            Shape::Joins => "joins of made-up nodes",
            Shape::Tiny => "tiny messages, 250 in each",
            Shape::Probes => "probes",
            Shape::Heartbeats => "heartbeats of unknown runs",
            Shape::Largest => "largest datagram, updates",
            Shape::SilentLinks => "links, nothing said",
            Shape::GarbageLinks => "links, garbage said",
        }
    }

    pub fn is_links(self) -> bool {
        matches!(self, Shape::SilentLinks | Shape::GarbageLinks)
    }

    /// Makes what is sent to these agents.
    pub fn payloads(self, cluster: &Cluster) -> Payloads {
        // The same on every run.
        let mut random = ChaCha8Rng::seed_from_u64(11);
        match self {
            Shape::SilentLinks => return Payloads::Connections(vec![Vec::new()]),
            Shape::GarbageLinks => {
                let framed = |length: u32, bytes: Vec<u8>| [&length.to_be_bytes()[..], &bytes].concat();
                let said = (0..64).map(|nth| match nth % 3 {
                    0 => noise(&mut random),
                    // A frame that is noise, and a large one that does not end.
                    1 => framed(64, [b"HC\x01\0".to_vec(), vec![nth as u8; 60]].concat()),
                    _ => framed(65_536, noise(&mut random)),
                });
                return Payloads::Connections(said.collect());
            }
            Shape::Flipped | Shape::Replayed => {
                let recorded = record(cluster);
                let played = (0..PACKETS as usize).map(|nth| {
                    let mut bytes = recorded[nth % recorded.len()].clone();
                    if self == Shape::Flipped {
                        let at = random.random_range(0..bytes.len());
                        bytes[at] ^= 1 << random.random_range(0..8);
                    }
                    bytes
                });
                return Payloads::Packets(played.collect());
            }
            _ => {}
        }
        let packet = |nth: u64| match self {
            Shape::Random => noise(&mut random),
            Shape::UnknownKey => sealed(nth, [0xba; 4], &mut random),
            Shape::Forged => sealed(nth, cluster.key_id.map_or([0xba; 4], |id| id.0), &mut random),
            Shape::Clear => packet(nth, 1, FULL, |nth| Message::WhoAreYou { nonce: Nonce(nth), echo: None }),
            Shape::Joins => packet(nth, 1, FULL, |nth| Message::Join {
                nonce: Nonce(nth),
                record: Record { status: Status::Joining, ..made_up(nth) },
                cookie: Some(Nonce(7)),
            }),
            Shape::Tiny => packet(nth, 250.min(MAX_MESSAGES_PER_PACKET), FULL, |_| Message::Unheard),
            Shape::Probes => packet(nth, 1, FULL, |nth| Message::Probe { nonce: Nonce(nth) }),
            Shape::Heartbeats => {
                packet(nth, 1, FULL, |nth| Message::Heartbeat(Heartbeat { stamp: nth as u16, echo: None }))
            }
            _ => {
                let mut bytes =
                    packet(nth, 100, LARGEST, |nth| Message::Update(Update { note: None, record: made_up(nth) }));
                bytes.truncate(LARGEST);
                bytes
            }
        };
        Payloads::Packets((0..PACKETS).map(packet).collect())
    }
}

/// Returns a clear packet of a run that nobody knows, with so many messages if they fit.
fn packet(nth: u64, messages: usize, most: usize, message: impl Fn(u64) -> Message) -> Vec<u8> {
    let cluster = Header::cluster_hash("headcount");
    let header = Header { cluster, run: Run(0xbad_0000 + nth), sequence: 1 + nth, fingerprint: nth };
    let mut packet = PacketBuilder::new(&header, most);
    for number in 0..messages as u64 {
        if !packet.push(&message(nth * 1_000 + number)) {
            break;
        }
    }
    packet.pad_to(LEAST);
    packet.finish()
}

fn noise(random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = vec![0; random.random_range(1..=FULL)];
    random.fill_bytes(&mut bytes);
    bytes
}

/// Returns what claims to be sealed, for anybody and for the receiver by turns.
fn sealed(nth: u64, key_id: [u8; 4], random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = b"HC\x01".to_vec();
    bytes.push(if nth.is_multiple_of(2) { 1 } else { 3 });
    bytes.extend_from_slice(&(0xbad_0000 + nth).to_le_bytes());
    bytes.extend_from_slice(&key_id);
    let head = bytes.len();
    bytes.resize(1_200, 0);
    random.fill_bytes(&mut bytes[head..]);
    bytes
}

fn made_up(nth: u64) -> Record {
    Record {
        id: NodeId::new(&format!("flood-{nth}")).expect("a name"),
        run: Run(0xbad_0000 + nth),
        incarnation: 1_700_000_000_000 + nth,
        status: Status::Up,
        address: SocketAddr::from(([127, 67, (nth >> 8) as u8, nth as u8], 9)),
        api_address: None,
        tags: Tags::default(),
        timing: Profile::Local.settings().timing().expect("a profile"),
        version: "0.1.0".into(),
        protocol: ProtocolRange::OURS,
    }
}

/// Returns real packets, without leave to listen on the way: a member's questions and a joiner's, caught by a socket
/// that both are sent to.
fn record(cluster: &Cluster) -> Vec<Vec<u8>> {
    let trap = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    trap.set_read_timeout(Some(PATIENCE)).expect("set");
    let address = trap.local_addr().expect("bound");
    let _lured = cluster.lure(address);
    let (status, _) = cluster.survivors()[1].client(&["join", &address.to_string()]);
    assert_eq!(status.code(), Some(1), "nobody answers there");
    let mut buffer = [0; LARGEST];
    let mut next = |_| {
        let length = trap.recv(&mut buffer).expect("it is asked");
        buffer[..length].to_vec()
    };
    (0..RECORDED).map(&mut next).collect()
}
