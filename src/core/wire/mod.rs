//! The wire format: converts bytes to messages and back, and does nothing else.
//!
//! ```text
//! packet  = "HC"  version u8  mark u8  cluster 4 B  run 8 B  sequence varint  fingerprint 8 B  message*
//! message = length varint  kind varint  fields
//! ```
//!
//! The mark is 0. Marks 1 to 3 are those of what is sealed, which never comes here (see headcount's `seal`). A mark of
//! 255 is that of a refusal: `"HC"  version u8  255  oldest u8  newest u8` refuses a packet whose
//! version its sender does not speak, and is never answered. A packet with run 0, sequence 0 and fingerprint 0 is
//! anonymous.
//!
//! Fields are postcard's: integers are LEB128 varints, texts and lists carry their length, options a 0 or 1 byte. Runs,
//! nonces, hashes and fingerprints are eight raw bytes, little endian; heartbeat stamps two. Messages carry their
//! length, so that kinds that a build does not know are skipped and counted; new kinds and variants are only ever
//! appended, and golden bytes in the tests pin the existing ones. A message that does not re-encode to the very bytes
//! received is rejected, so that everything has exactly one encoding and a record's hash can stand for the record.
//!
//! | idea | file |
//! |---|---|
//! | a packet as a whole: its header; why bytes are none | `packet` |
//! | every message: the specification, and what is said of each kind | `message` |
//! | what messages of membership and of leadership carry | `fields`, `leading` |
//! | messages between programs | `parcel` |
//! | reading no more than is needed: a record in place | `read`, `raw` |
//!
//! Invariants: no input makes the decoder panic or allocate more than a small multiple of the datagram; a packet is
//! accepted as a whole or not at all. This module must not know the *meaning* of a message.

mod fields;
mod leading;
mod message;
mod packet;
mod parcel;
mod raw;
mod read;

pub use fields::{Candidacy, Candidate, Confirmation, Echo, Heartbeat, Nonce, Note, Refusal, Seeking, Update};
pub(crate) use fields::{Families, family};
pub use leading::{
    ChangeVoters, LeaderClaim, LeaderRenewal, LeaseUpdate, ViewPart, VoterRequest, VotersChanged, WantView,
};
pub use message::Message;
pub use packet::{Header, Packet, PacketBuilder, PacketError, VERSION};
pub use parcel::{Broadcast, DirectMessage, Purpose, Span};
pub(super) use raw::RawRecord;
pub(super) use read::{Messages, RawUpdate, Read, read};
