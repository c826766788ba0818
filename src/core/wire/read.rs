//! Decodes messages one after the other, and updates only as far as the reader needs them: a node that holds a record's
//! hash holds the record, and most updates are held already.
//!
//! Reading is checking: a reader that reads to the end, and decodes the updates that it does not hold, has validated
//! the whole packet.

use serde::Serialize;

use super::fields::{Echo, Heartbeat, Note};
use super::message::Message;
use super::packet::{Header, MAGIC, PacketError, REFUSAL_KEY, VERSION};
use super::raw::{Bytes, RawRecord};
use crate::limits::MAX_MESSAGES_PER_PACKET;
use crate::member::{ProtocolRange, Run, Status};

/// The length of magic, version, key id, cluster and run together, in bytes.
const FIXED_BYTES: usize = 16;

/// One message, decoded as far as necessary.
pub(crate) enum Read<'a> {
    /// An update, not decoded.
    Update(RawUpdate<'a>),
    /// A heartbeat, which is in every packet.
    Heartbeat(Heartbeat),
    /// Any other known message. Messages with records are large, and most packets have none: boxed, they do not make
    /// reading a heartbeat slower.
    Message(Box<Message>),
    /// A message of a kind that this build does not know.
    Unknown,
}

/// A [`Message::Update`] whose record is not decoded.
pub(crate) struct RawUpdate<'a> {
    pub(crate) note: Option<Note>,
    record: &'a [u8],
}

impl<'a> RawUpdate<'a> {
    fn read(fields: &'a [u8]) -> Result<Self, PacketError> {
        if let [0, record @ ..] = fields {
            return Ok(Self { note: None, record });
        }
        let (note, record) = postcard::take_from_bytes::<Option<Note>>(fields).map_err(|_| PacketError::Malformed)?;
        if !is_canonical(&note, &fields[..fields.len() - record.len()]) {
            return Err(PacketError::Malformed);
        }
        Ok(Self { note, record })
    }

    /// Returns the hash of the record's bytes.
    pub(crate) fn hash(&self) -> u64 {
        xxhash_rust::xxh3::xxh3_64(self.record)
    }

    /// Returns the run in the record; `None` if the bytes are too short.
    pub(crate) fn run(&self) -> Option<Run> {
        let (length, rest) = self.record.split_first()?;
        let run = rest.get(usize::from(*length)..)?.first_chunk()?;
        Some(Run(u64::from_le_bytes(*run)))
    }

    /// Returns true if a note is present exactly if a record of this status needs one.
    pub(crate) fn suits(&self, status: Status) -> bool {
        let is_noted = matches!(status, Status::Suspect | Status::Down | Status::Left(_));
        self.note.is_some() == is_noted && status != Status::Joining
    }

    /// Decodes the record, and validates it to the last byte.
    pub(crate) fn decode(&self) -> Result<RawRecord<'a>, PacketError> {
        let record = RawRecord::read(self.record)?;
        if self.suits(record.status) { Ok(record) } else { Err(PacketError::Malformed) }
    }
}

/// Reads the header, and returns the messages to be read one by one. An error in one of them invalidates the whole
/// packet.
pub(crate) fn read(datagram: &[u8]) -> Result<(Header, Messages<'_>), PacketError> {
    if let [b'H', b'C', _, REFUSAL_KEY, min, max] = *datagram {
        return Err(PacketError::Refused { speaks: ProtocolRange { min, max } });
    }
    let (fixed, rest) = datagram.split_first_chunk::<FIXED_BYTES>().ok_or(PacketError::Malformed)?;
    if fixed[..2] != MAGIC {
        return Err(PacketError::Malformed);
    }
    if fixed[2] != VERSION {
        return Err(PacketError::UnknownVersion { found: fixed[2] });
    }
    if fixed[3] != 0 {
        return Err(PacketError::UnknownKey { found: fixed[3] });
    }
    let mut fixed = Bytes::new(&fixed[4..]);
    let (cluster, run) = (u32::from_le_bytes(fixed.array()?), Run(u64::from_le_bytes(fixed.array()?)));
    let mut rest = Bytes::new(rest);
    let sequence = rest.varint()?;
    let fingerprint = u64::from_le_bytes(rest.array()?);
    if (sequence == 0) != run.is_nobody() {
        return Err(PacketError::Malformed);
    }
    Ok((Header { cluster, run, sequence, fingerprint }, Messages { rest, left: MAX_MESSAGES_PER_PACKET }))
}

/// The messages of a packet, in order. A clone reads the same messages again.
#[derive(Clone)]
pub(crate) struct Messages<'a> {
    rest: Bytes<'a>,
    /// The number of further messages that the packet may have.
    left: usize,
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Read<'a>, PacketError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let message = self.read_next();
        if message.is_err() {
            self.rest = Bytes::new(&[]);
        }
        Some(message)
    }
}

impl<'a> Messages<'a> {
    /// Returns true if there is a message of this kind; decodes none.
    pub(crate) fn hold(&self, kind: u32) -> bool {
        let mut rest = self.rest;
        let mut next = || {
            let length = usize::try_from(rest.varint().ok()?).ok()?;
            Bytes::new(rest.take(length).ok()?).varint().ok()
        };
        std::iter::from_fn(&mut next).any(|found| found == u64::from(kind))
    }

    fn read_next(&mut self) -> Result<Read<'a>, PacketError> {
        self.left = self.left.checked_sub(1).ok_or(PacketError::Malformed)?;
        let length = usize::try_from(self.rest.varint()?).map_err(|_| PacketError::Malformed)?;
        let body = self.rest.take(length)?;
        let mut fields = Bytes::new(body);
        let kind = fields.varint()?;
        if kind == u64::from(Message::UPDATE_KIND) {
            return RawUpdate::read(fields.rest()).map(Read::Update);
        }
        if kind == u64::from(Message::HEARTBEAT_KIND) {
            return heartbeat(fields.rest()).map(Read::Heartbeat).ok_or(PacketError::Malformed);
        }
        if kind >= u64::from(Message::KINDS) {
            return Ok(Read::Unknown);
        }
        let (mut message, rest) = postcard::take_from_bytes::<Message>(body).map_err(|_| PacketError::Malformed)?;
        if !rest.is_empty() || !is_canonical(&message, body) || !message.settle() {
            return Err(PacketError::Malformed);
        }
        Ok(Read::Message(Box::new(message)))
    }
}

/// Decodes a heartbeat by hand: there is one in nearly every packet, and all its numbers have a fixed length, so that
/// it has only one encoding.
fn heartbeat(fields: &[u8]) -> Option<Heartbeat> {
    let (stamp, echo) = fields.split_first_chunk()?;
    let echo = match *echo {
        [0] => None,
        [1, a, b, c, d] => Some(Echo { stamp: u16::from_le_bytes([a, b]), hold: u16::from_le_bytes([c, d]) }),
        _ => return None,
    };
    Some(Heartbeat { stamp: u16::from_le_bytes(*stamp), echo })
}

/// Returns true if `value` encodes to exactly `bytes`; allocates nothing.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn heartbeats_read_by_hand_are_those_that_serde_reads(
            stamp: [u8; 2], tag in 0..3u8, rest in prop::collection::vec(any::<u8>(), 0..6), length in 0..9usize,
        ) {
            let mut fields = [stamp.as_slice(), &[tag], &rest].concat();
            fields.truncate(length);
            let by_serde = postcard::take_from_bytes::<Heartbeat>(&fields).ok().filter(|(_, rest)| rest.is_empty());
            prop_assert_eq!(heartbeat(&fields), by_serde.map(|(heartbeat, _)| heartbeat));
        }
    }
}
