//! Packets: the header, and length-prefixed messages behind it.

use serde::Serialize;

use super::message::{Message, Note, Update};
use crate::core::id::Run;
use crate::core::limits::{MAX_MESSAGES_PER_PACKET, PAGES_IN_FLIGHT};
use crate::core::record::{ProtocolRange, Record, Status};

/// The format version that this build speaks.
pub const VERSION: u8 = 1;

const MAGIC: [u8; 2] = *b"HC";
/// Magic, version, key id, cluster and run.
const FIXED_BYTES: usize = 16;
const FINGERPRINT_BYTES: usize = 8;
/// In the place of a key id: not a packet but a refusal, see [`Packet::refusal`].
const REFUSAL_KEY: u8 = 0xff;

/// What stands before the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The low half of the XXH3-64 of the cluster's name.
    pub cluster: u32,
    /// The sender.
    pub run: Run,
    /// Counts the sender's packets from 1; what is not fresh is not believed.
    pub sequence: u64,
    /// Of the sender's view.
    pub fingerprint: u64,
}

impl Header {
    /// The cluster's hash as it stands in headers.
    pub fn cluster_hash(name: &str) -> u32 {
        xxhash_rust::xxh3::xxh3_64(name.as_bytes()) as u32
    }
}

/// Why a datagram is no packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PacketError {
    /// Not ours, cut short, out of bounds, or not the canonical encoding.
    #[error("malformed packet")]
    Malformed,
    /// A format version that this build does not speak.
    #[error("unknown format version {found}")]
    UnknownVersion {
        /// The version found.
        found: u8,
    },
    /// Its sender does not speak our format version, and says so.
    #[error("refused: the sender speaks versions {} to {}", speaks.min, speaks.max)]
    Refused {
        /// What it speaks.
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
    /// How many messages of unknown kinds were skipped.
    pub unknown: usize,
}

impl Packet {
    /// The answer to a format version that is not ours, in a layout that every version can read and that is never
    /// answered: `"HC"  version u8  0xff  oldest u8  newest u8`.
    pub fn refusal(speaks: ProtocolRange) -> Vec<u8> {
        vec![MAGIC[0], MAGIC[1], VERSION, REFUSAL_KEY, speaks.min, speaks.max]
    }

    /// Decodes a whole datagram, or nothing of it.
    pub fn decode(bytes: &[u8]) -> Result<Self, PacketError> {
        let (header, mut rest) = decode_header(bytes)?;
        let mut packet = Packet { header, messages: Vec::new(), unknown: 0 };
        while !rest.is_empty() {
            let (length, tail) = take_varint(rest)?;
            let length = usize::try_from(length).map_err(|_| PacketError::Malformed)?;
            if length == 0 || length > tail.len() {
                return Err(PacketError::Malformed);
            }
            let (body, tail) = tail.split_at(length);
            match decode_message(body)? {
                Some(message) => packet.messages.push(message),
                None => packet.unknown += 1,
            }
            if packet.messages.len() + packet.unknown > MAX_MESSAGES_PER_PACKET {
                return Err(PacketError::Malformed);
            }
            rest = tail;
        }
        Ok(packet)
    }
}

fn decode_header(bytes: &[u8]) -> Result<(Header, &[u8]), PacketError> {
    if let [b'H', b'C', _, REFUSAL_KEY, min, max] = *bytes {
        return Err(PacketError::Refused { speaks: ProtocolRange { min, max } });
    }
    let (fixed, rest) = bytes.split_at_checked(FIXED_BYTES).ok_or(PacketError::Malformed)?;
    if fixed[..2] != MAGIC {
        return Err(PacketError::Malformed);
    }
    if fixed[2] != VERSION {
        return Err(PacketError::UnknownVersion { found: fixed[2] });
    }
    if fixed[3] != 0 {
        return Err(PacketError::UnknownKey { found: fixed[3] });
    }
    let cluster = u32::from_le_bytes(array(&fixed[4..8]));
    let run = Run(u64::from_le_bytes(array(&fixed[8..16])));
    let (sequence, rest) = take_varint(rest)?;
    let (fingerprint, rest) = rest.split_at_checked(FINGERPRINT_BYTES).ok_or(PacketError::Malformed)?;
    let fingerprint = u64::from_le_bytes(array(fingerprint));
    if sequence == 0 {
        return Err(PacketError::Malformed);
    }
    Ok((Header { cluster, run, sequence, fingerprint }, rest))
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("the caller split off exactly so many bytes")
}

/// A canonical varint.
fn take_varint(bytes: &[u8]) -> Result<(u64, &[u8]), PacketError> {
    let (value, rest) = postcard::take_from_bytes::<u64>(bytes).map_err(|_| PacketError::Malformed)?;
    let used = bytes.len() - rest.len();
    let canonical = (64 - value.leading_zeros()).div_ceil(7).max(1) as usize;
    if used != canonical {
        return Err(PacketError::Malformed);
    }
    Ok((value, rest))
}

/// One message; `None` if its kind is unknown.
fn decode_message(body: &[u8]) -> Result<Option<Message>, PacketError> {
    let (kind, _) = take_varint(body)?;
    if kind >= u64::from(Message::KINDS) {
        return Ok(None);
    }
    let (message, rest) = postcard::take_from_bytes::<Message>(body).map_err(|_| PacketError::Malformed)?;
    if !rest.is_empty() || !is_canonical(&message, body) || !is_well_formed(&message) {
        return Err(PacketError::Malformed);
    }
    Ok(Some(message))
}

/// Whether `value` encodes to exactly `bytes`, found out without allocating.
fn is_canonical(value: &impl Serialize, bytes: &[u8]) -> bool {
    struct Compare<'a> {
        expected: &'a [u8],
    }
    impl postcard::ser_flavors::Flavor for Compare<'_> {
        type Output = bool;
        fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
            self.try_extend(&[byte])
        }
        fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
            match self.expected.strip_prefix(bytes) {
                Some(rest) => {
                    self.expected = rest;
                    Ok(())
                }
                None => Err(postcard::Error::SerializeBufferFull),
            }
        }
        fn finalize(self) -> postcard::Result<bool> {
            Ok(self.expected.is_empty())
        }
    }
    postcard::serialize_with_flavor(value, Compare { expected: bytes }).unwrap_or(false)
}

/// Bounds that the types themselves do not keep.
fn is_well_formed(message: &Message) -> bool {
    match message {
        Message::Update(Update { note, record }) => {
            let is_noted = matches!(record.status, Status::Suspect | Status::Down | Status::Left(_));
            record.is_well_formed() && note.is_some() == is_noted && record.status != Status::Joining
        }
        Message::IAm { record, .. } | Message::Join { record, .. } | Message::NotUp { record, .. } => {
            record.is_well_formed()
        }
        Message::Welcome { sponsor, .. } => sponsor.is_well_formed(),
        Message::Pull { pages, .. } => (1..=PAGES_IN_FLIGHT).contains(pages),
        Message::Told { incarnation, .. } | Message::Behind { incarnation, .. } => {
            *incarnation < Record::INCARNATION_LIMIT - 1
        }
        _ => true,
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
    /// A packet of at most `limit` bytes, the header included.
    #[expect(clippy::missing_panics_doc, reason = "encoding into memory does not fail")]
    pub fn new(header: &Header, limit: usize) -> Self {
        let mut bytes = Vec::with_capacity(96);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[VERSION, 0]);
        bytes.extend_from_slice(&header.cluster.to_le_bytes());
        bytes.extend_from_slice(&header.run.0.to_le_bytes());
        let mut bytes = postcard::to_extend(&header.sequence, bytes).expect("encoding into memory does not fail");
        bytes.extend_from_slice(&header.fingerprint.to_le_bytes());
        debug_assert!(bytes.len() <= limit, "a limit leaves room for the header");
        Self { bytes, limit, messages: 0 }
    }

    /// Adds a message if it fits; says whether it did.
    pub fn push(&mut self, message: &Message) -> bool {
        self.push_encoding(message)
    }

    /// Adds a [`Message::Update`] without cloning the record, if it fits; says whether it did.
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
        let mut bytes = postcard::to_extend(message, bytes).expect("encoding into memory does not fail");
        let length = bytes.len() - start - 1;
        if length < 0x80 {
            bytes[start] = length as u8;
        } else {
            debug_assert!(length < 0x4000, "messages are shorter than 16 KiB");
            bytes[start] = (length & 0x7f) as u8 | 0x80;
            bytes.insert(start + 1, (length >> 7) as u8);
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

    /// Grows the packet to at least `size` bytes by a message that means nothing.
    pub fn pad_to(&mut self, size: usize) {
        if self.bytes.len() < size {
            // Length, kind and the padding's own length take three bytes, or five around a long padding.
            let missing = size - self.bytes.len();
            let zeros = missing.saturating_sub(if missing > 128 { 5 } else { 3 });
            self.push(&Message::Padding(vec![0; zeros]));
        }
    }

    /// Gives back room that was held back for a last message.
    pub fn raise_limit(&mut self, limit: usize) {
        self.limit = self.limit.max(limit);
    }

    /// Whether nothing was added yet.
    pub fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The datagram.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}
