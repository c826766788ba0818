//! Packets as a whole: decoded, and built message by message behind their header, which says whose they are, and of which
//! cluster; and why bytes are none.

use serde::Serialize;

use super::fields::{Note, Update};
use super::message::Message;
use super::read::{Read, read};
use crate::limits::MAX_MESSAGES_PER_PACKET;
use crate::member::{ProtocolRange, Record, Run};

/// The format version that this build speaks.
pub const VERSION: u8 = 1;

pub(super) const MAGIC: [u8; 2] = *b"HC";
/// The mark of a refusal, see [`Packet::refusal`].
pub(super) const REFUSAL_KEY: u8 = 0xff;

/// The part of a packet before the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The low half of the XXH3-64 of the cluster's name.
    pub cluster: u32,
    /// The run of the sender; [`Run::NOBODY`] in anonymous packets.
    pub run: Run,
    /// The number of the packet, counted by its sender from 1; a number that is not fresh is not accepted. 0 in
    /// anonymous packets, and only there.
    pub sequence: u64,
    /// The fingerprint of the sender's view.
    pub fingerprint: u64,
}

impl Header {
    /// Returns the header of an anonymous packet: strangers learn no run before they proved their address.
    pub const fn anonymous(cluster: u32) -> Self {
        Header { cluster, run: Run::NOBODY, sequence: 0, fingerprint: 0 }
    }

    /// Returns the cluster's hash as it stands in headers.
    pub fn cluster_hash(name: &str) -> u32 {
        xxhash_rust::xxh3::xxh3_64(name.as_bytes()) as u32
    }
}

/// The reason why a datagram is not a valid packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PacketError {
    /// Not our format, cut short, out of bounds, or not the canonical encoding.
    #[error("malformed packet")]
    Malformed,
    /// A format version that this build does not speak.
    #[error("unknown format version {found}")]
    UnknownVersion {
        /// The version found.
        found: u8,
    },
    /// The sender does not speak our format version, and said so.
    #[error("refused: the sender speaks versions {} to {}", speaks.min, speaks.max)]
    Refused {
        /// The versions that it speaks.
        speaks: ProtocolRange,
    },
    /// Sealed, or sealed with a key that is not known.
    #[error("sealed with unknown key {found}")]
    UnknownKey {
        /// The key id found.
        found: u8,
    },
}

/// A decoded packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// The header.
    pub header: Header,
    /// The messages of known kinds, in order.
    pub messages: Vec<Message>,
    /// The number of messages of unknown kinds that were skipped.
    pub unknown: usize,
}

impl Packet {
    /// Encodes the answer to a format version that is not ours, in a layout that every version can read and that is
    /// never answered: `"HC"  version u8  0xff  oldest u8  newest u8`.
    pub fn refusal(speaks: ProtocolRange) -> Vec<u8> {
        vec![MAGIC[0], MAGIC[1], VERSION, REFUSAL_KEY, speaks.min, speaks.max]
    }

    /// Returns true if there is a message of this kind in a datagram whose header can be read; decodes none.
    pub fn holds(bytes: &[u8], kind: u32) -> bool {
        read(bytes).is_ok_and(|(_, messages)| messages.hold(kind))
    }

    /// Decodes a whole datagram, or fails.
    pub fn decode(bytes: &[u8]) -> Result<Self, PacketError> {
        let (header, messages) = read(bytes)?;
        let mut packet = Packet { header, messages: Vec::new(), unknown: 0 };
        for message in messages {
            match message? {
                Read::Heartbeat(heartbeat) => packet.messages.push(Message::Heartbeat(heartbeat)),
                Read::Message(message) => packet.messages.push(*message),
                Read::Update(raw) => {
                    let record = raw.decode()?.into_record();
                    packet.messages.push(Message::Update(Update { note: raw.note, record }));
                }
                Read::Unknown => packet.unknown += 1,
            }
        }
        Ok(packet)
    }
}

/// A buffer that an encoding is appended to. postcard's own flavour for this handles each byte as a sequence of its
/// own, which takes four times the instructions.
struct Append(Vec<u8>);

impl Append {
    fn to(bytes: Vec<u8>, value: &impl Serialize) -> Vec<u8> {
        postcard::serialize_with_flavor(value, Append(bytes)).expect("encoding into memory does not fail")
    }
}

impl postcard::ser_flavors::Flavor for Append {
    type Output = Vec<u8>;

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<Vec<u8>> {
        Ok(self.0)
    }
}

/// Builds one packet, never larger than its limit.
#[derive(Debug)]
pub struct PacketBuilder {
    bytes: Vec<u8>,
    limit: usize,
    messages: usize,
}

impl PacketBuilder {
    /// Returns a packet with this header, of at most `limit` bytes, the header included.
    pub fn new(header: &Header, limit: usize) -> Self {
        let mut bytes = Vec::with_capacity(96);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[VERSION, 0]);
        bytes.extend_from_slice(&header.cluster.to_le_bytes());
        bytes.extend_from_slice(&header.run.0.to_le_bytes());
        let mut bytes = Append::to(bytes, &header.sequence);
        bytes.extend_from_slice(&header.fingerprint.to_le_bytes());
        debug_assert!(bytes.len() <= limit, "a limit leaves room for the header");
        Self { bytes, limit, messages: 0 }
    }

    /// Adds a message if it fits; returns true if it did.
    pub fn push(&mut self, message: &Message) -> bool {
        self.push_encoding(message)
    }

    /// Adds a [`Message::Update`] without cloning the record, if it fits; returns true if it did.
    pub fn push_update(&mut self, note: Option<Note>, record: &Record) -> bool {
        // postcard writes a variant's number and then its fields, so this tuple is the message.
        self.push_encoding(&(Message::UPDATE_KIND, note, record))
    }

    fn push_encoding(&mut self, message: &impl Serialize) -> bool {
        if self.messages == MAX_MESSAGES_PER_PACKET {
            return false;
        }
        let start = self.bytes.len();
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.push(0);
        let mut bytes = Append::to(bytes, message);
        let length = bytes.len() - start - 1;
        if length < 0x80 {
            bytes[start] = length as u8;
        } else {
            bytes[start] = (length & 0x7f) as u8 | 0x80;
            if length < 0x4000 {
                bytes.insert(start + 1, (length >> 7) as u8);
            } else {
                debug_assert!(length < 0x20_0000, "messages are shorter than 2 MiB");
                let rest = [(length >> 7 & 0x7f) as u8 | 0x80, (length >> 14) as u8];
                bytes.splice(start + 1..=start, rest);
            }
        }
        let fits = bytes.len() <= self.limit;
        if fits {
            self.messages += 1;
        } else {
            bytes.truncate(start);
        }
        self.bytes = bytes;
        fits
    }

    /// Grows the packet to at least `size` bytes by a message without meaning.
    pub fn pad_to(&mut self, size: usize) {
        if self.bytes.len() < size {
            // Length, kind and the padding's own length take three bytes, or five around a long padding.
            let missing = size - self.bytes.len();
            let zeros = missing.saturating_sub(if missing > 128 { 5 } else { 3 });
            self.push(&Message::Padding(vec![0; zeros]));
        }
    }

    /// Raises the limit, to use room that was reserved for a last message.
    pub fn raise_limit(&mut self, limit: usize) {
        self.limit = self.limit.max(limit);
    }

    /// Returns true if no message was added yet.
    pub fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// Returns the length so far, in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the datagram.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}
