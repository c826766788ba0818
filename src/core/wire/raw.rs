//! Records decoded by hand: borrowed from the datagram, validated on the way, nothing allocated.
//!
//! Invariant: [`RawRecord::read`] accepts exactly those bytes that serde decodes, that re-encode to the same bytes, and
//! that are a well-formed record; a test compares the two. IPv4 that is written as IPv6, as older builds may send it, is read
//! as IPv4. It is several times as fast, and an outdated record costs no
//! memory.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::sync::Arc;

use super::packet::PacketError;
use crate::member::{
    LeaveReason, NodeId, ProtocolRange, Record, Run, Status, Tags, canonical, check_name, is_reachable,
};
use crate::settings::Timing;

/// The bytes yet to be read. Integers are only accepted in their shortest form.
#[derive(Clone, Copy)]
pub(super) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn rest(self) -> &'a [u8] {
        self.0
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], PacketError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(PacketError::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], PacketError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(PacketError::Malformed)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, PacketError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Reads a canonical varint: no padding, no bits beyond the 64th.
    pub(super) fn varint(&mut self) -> Result<u64, PacketError> {
        // Lengths and kinds are nearly always one byte.
        if let [byte @ ..0x80, rest @ ..] = self.0 {
            self.0 = rest;
            return Ok(u64::from(*byte));
        }
        let mut value = 0;
        for (i, byte) in self.0.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte & 0x80 == 0 {
                let is_padded = i > 0 && *byte == 0;
                let is_too_large = i == 9 && *byte > 1;
                self.0 = &self.0[i + 1..];
                return if is_padded || is_too_large { Err(PacketError::Malformed) } else { Ok(value) };
            }
        }
        Err(PacketError::Malformed)
    }

    fn number<T: TryFrom<u64>>(&mut self) -> Result<T, PacketError> {
        T::try_from(self.varint()?).map_err(|_| PacketError::Malformed)
    }

    fn text(&mut self, most: usize) -> Result<&'a str, PacketError> {
        let length = self.number::<usize>()?;
        if length > most {
            return Err(PacketError::Malformed);
        }
        std::str::from_utf8(self.take(length)?).map_err(|_| PacketError::Malformed)
    }

    /// Reads a text of a record, which has no control characters.
    fn plain_text(&mut self, most: usize) -> Result<&'a str, PacketError> {
        let text = self.text(most)?;
        if text.contains(char::is_control) { Err(PacketError::Malformed) } else { Ok(text) }
    }
}

/// A [`Record`] that borrows from the datagram.
pub(crate) struct RawRecord<'a> {
    pub(crate) id: &'a str,
    pub(crate) run: Run,
    pub(crate) status: Status,
    pub(crate) version: &'a str,
    /// True if the record is not what the bytes say to the letter: its address was not in its one form.
    pub(crate) is_rewritten: bool,
    incarnation: u64,
    address: SocketAddr,
    api_address: Option<&'a str>,
    tags: Tags,
    timing: Timing,
    protocol: ProtocolRange,
}

impl<'a> RawRecord<'a> {
    /// Decodes all bytes as one record, and validates it.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let mut bytes = Bytes::new(bytes);
        let id = bytes.text(NodeId::MAX_BYTES)?;
        check_name(id).map_err(|_| PacketError::Malformed)?;
        let run = Run(u64::from_le_bytes(bytes.array()?));
        let incarnation = bytes.varint()?;
        let status = status(&mut bytes)?;
        let written = address(&mut bytes)?;
        let address = canonical(written);
        let api_address = match bytes.byte()? {
            0 => None,
            1 => Some(bytes.plain_text(Record::MAX_API_ADDRESS_BYTES)?),
            _ => return Err(PacketError::Malformed),
        };
        let tags = tags(&mut bytes)?;
        let timing = Timing::from_millis(bytes.number()?, bytes.number()?, bytes.number()?);
        let timing = timing.ok_or(PacketError::Malformed)?;
        let version = bytes.plain_text(Record::MAX_VERSION_BYTES)?;
        let protocol = ProtocolRange { min: bytes.byte()?, max: bytes.byte()? };
        let is_well_formed =
            incarnation < Record::INCARNATION_LIMIT && is_reachable(address) && protocol.min <= protocol.max;
        if !bytes.is_empty() || !is_well_formed {
            return Err(PacketError::Malformed);
        }
        let is_rewritten = address != written;
        Ok(Self { id, run, status, version, is_rewritten, incarnation, address, api_address, tags, timing, protocol })
    }

    /// Returns the record, with newly allocated texts.
    pub(crate) fn into_record(self) -> Record {
        let id = NodeId::new(self.id).expect("names are checked as they are read");
        let version = Arc::from(self.version);
        self.with(id, version)
    }

    /// Returns the record, with a name and a version text that exist already.
    pub(crate) fn with(self, id: NodeId, version: Arc<str>) -> Record {
        debug_assert!(id == *self.id && *version == *self.version);
        Record {
            id,
            run: self.run,
            incarnation: self.incarnation,
            status: self.status,
            address: self.address,
            api_address: self.api_address.map(Into::into),
            tags: self.tags,
            timing: self.timing,
            version,
            protocol: self.protocol,
        }
    }
}

fn status(bytes: &mut Bytes<'_>) -> Result<Status, PacketError> {
    Ok(match bytes.varint()? {
        0 => Status::Joining,
        1 => Status::Up,
        2 => Status::Suspect,
        3 => Status::Leaving,
        4 => Status::Down,
        5 => match bytes.varint()? {
            0 => Status::Left(LeaveReason::Graceful),
            1 => Status::Left(LeaveReason::Forced),
            _ => return Err(PacketError::Malformed),
        },
        _ => return Err(PacketError::Malformed),
    })
}

fn address(bytes: &mut Bytes<'_>) -> Result<SocketAddr, PacketError> {
    match bytes.varint()? {
        0 => Ok(SocketAddrV4::new(Ipv4Addr::from(bytes.array::<4>()?), bytes.number()?).into()),
        1 => Ok(SocketAddrV6::new(Ipv6Addr::from(bytes.array::<16>()?), bytes.number()?, 0, 0).into()),
        _ => Err(PacketError::Malformed),
    }
}

fn tags(bytes: &mut Bytes<'_>) -> Result<Tags, PacketError> {
    const NONE: (&str, &str) = ("", "");
    let count = bytes.number::<usize>()?;
    if count == 0 {
        return Ok(Tags::default());
    }
    let mut pairs = [NONE; Tags::MAX_KEYS];
    let pairs = pairs.get_mut(..count).ok_or(PacketError::Malformed)?;
    for pair in pairs.iter_mut() {
        *pair = (bytes.text(Tags::MAX_BYTES)?, bytes.text(Tags::MAX_BYTES)?);
    }
    if !pairs.is_sorted_by(|(one, _), (next, _)| one < next) {
        return Err(PacketError::Malformed);
    }
    Tags::from_sorted(pairs.iter().copied()).map_err(|_| PacketError::Malformed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::member::tests::record;

    /// Decodes a record with serde.
    fn by_serde(bytes: &[u8]) -> Option<Record> {
        let (record, rest) = postcard::take_from_bytes::<Record>(bytes).ok()?;
        let is_good = rest.is_empty() && record.encode() == bytes && record.is_well_formed();
        is_good.then(|| Record { address: canonical(record.address), ..record })
    }

    fn by_hand(bytes: &[u8]) -> Option<Record> {
        RawRecord::read(bytes).ok().map(RawRecord::into_record)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn records_read_by_hand_are_those_that_serde_reads(
            name in "[A-Za-z0-9._-]{1,63}", incarnation: u64, ip in 0..3usize, port: u16, api in prop::option::of("[ -~]{0,110}"),
            tags in prop::collection::btree_map("[a-z]{1,3}", "[a-z=]{0,140}", 0..4), version in "[a-zü]{0,20}",
            reason in 0..7usize, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        ) {
            let status = [
                Status::Joining, Status::Up, Status::Suspect, Status::Leaving, Status::Down,
                Status::Left(LeaveReason::Graceful), Status::Left(LeaveReason::Forced),
            ][reason];
            let mut record = record(&name, incarnation >> 1, status);
            record.address = ["10.0.0.1:1", "[2001:db8::1]:1", "[::ffff:10.0.0.1]:1"][ip].parse().expect("an address");
            record.address.set_port(port);
            record.api_address = api.map(Into::into);
            record.tags = Tags::new(tags).expect("within bounds");
            record.version = version.into();
            let mut bytes = record.encode();
            prop_assert_eq!(by_hand(&bytes), by_serde(&bytes));
            prop_assert_eq!(by_hand(&bytes).is_some(), record.is_well_formed());
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            prop_assert_eq!(by_hand(&bytes), by_serde(&bytes));
            bytes.pop();
            prop_assert_eq!(by_hand(&bytes), by_serde(&bytes));
        }
    }
}
