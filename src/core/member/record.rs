//! Records: the cluster's knowledge of a node, and which of two records of one node counts.
//!
//! Invariants:
//! - Merging is a maximum over `(incarnation, status, bytes)`: commutative, associative, idempotent. This makes the
//!   order and the number of deliveries irrelevant (SWIM, DSN 2002, section 4.2, with the rank of Down raised above a
//!   graceful departure under way).
//! - Nothing that is local to an observer (age, method, link state) is in a record: equal records are equal bytes, and
//!   equal sets of records are equal views.
//! - Only its owner raises a record's incarnation.
//!
//! Must not know: who tells of a record (see `wiring::merging`), or who holds it.

use std::cmp::Ordering;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::id::{NodeId, Run};
use super::tags::Tags;
use crate::settings::Timing;

/// The status of a node, in rank order: within one incarnation a record only moves to the right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Status {
    /// Being served the view by its sponsor; known to the sponsor alone.
    Joining,
    /// Present, and a full member.
    Up,
    /// Silent for its suspect timeout; it may refute.
    Suspect,
    /// Leaving by its own decision; it has said so.
    Leaving,
    /// Gone without having left.
    Down,
    /// Left, by its own decision or by an operator's.
    Left(LeaveReason),
}

/// The reason of a departure. A forced one outranks a graceful one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum LeaveReason {
    /// The node left by itself.
    Graceful,
    /// An operator removed it, by `remove`.
    Forced,
}

impl Status {
    /// Returns true if the status is live: the node may still answer, and is still sent packets.
    pub const fn is_live(self) -> bool {
        matches!(self, Status::Joining | Status::Up | Status::Suspect | Status::Leaving)
    }

    /// Returns true if the node is Up or Suspect: it is a member, and has not said that it leaves.
    pub const fn is_here(self) -> bool {
        matches!(self, Status::Up | Status::Suspect)
    }

    /// Returns true if the node is a member until it is gone: Up, Suspect or Leaving.
    pub const fn is_member(self) -> bool {
        matches!(self, Status::Up | Status::Suspect | Status::Leaving)
    }

    /// Returns true if others accuse the node, or have: it is Suspect or Down, and may refute.
    pub const fn is_accused(self) -> bool {
        matches!(self, Status::Suspect | Status::Down)
    }

    /// Returns the status's name in the JSON contract.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Joining => "joining",
            Status::Up => "up",
            Status::Suspect => "suspect",
            Status::Leaving => "leaving",
            Status::Down => "down",
            Status::Left(_) => "left",
        }
    }

    /// The names of all statuses, in rank order.
    pub const NAMES: [&'static str; 6] = ["joining", "up", "suspect", "leaving", "down", "left"];

    /// Returns the position of its name in [`Status::NAMES`].
    pub const fn index(self) -> usize {
        match self {
            Status::Joining => 0,
            Status::Up => 1,
            Status::Suspect => 2,
            Status::Leaving => 3,
            Status::Down => 4,
            Status::Left(_) => 5,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl LeaveReason {
    /// Returns the reason's name in the JSON contract.
    pub const fn name(self) -> &'static str {
        match self {
            LeaveReason::Graceful => "graceful",
            LeaveReason::Forced => "forced",
        }
    }
}

/// The way in which a silence or death was detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum DetectionMethod {
    /// Nothing was heard of the member for the down timeout.
    HeartbeatTimeout,
    /// The member's process no longer accepts connections, and a second observer agrees.
    ConnectionLost,
    /// The member was evicted together with others on the far side of a cut.
    NetworkPartition,
    /// A new process took the member's name while the member was still listed.
    Restarted,
    /// Nothing was heard of the member for the host's down timeout, and nothing of its host's kernel either.
    HostSilent,
    /// Nothing was heard of the member for the down timeout, while its host's kernel answered: its process hangs.
    ProcessStalled,
}

impl DetectionMethod {
    /// Returns the method's name in the JSON contract.
    pub const fn name(self) -> &'static str {
        match self {
            DetectionMethod::HeartbeatTimeout => "heartbeat_timeout",
            DetectionMethod::ConnectionLost => "connection_lost",
            DetectionMethod::NetworkPartition => "network_partition",
            DetectionMethod::Restarted => "restarted",
            DetectionMethod::HostSilent => "host_silent",
            DetectionMethod::ProcessStalled => "process_stalled",
        }
    }

    /// Returns true if silence is all that was found.
    pub const fn is_silence(self) -> bool {
        match self {
            DetectionMethod::HeartbeatTimeout
            | DetectionMethod::NetworkPartition
            | DetectionMethod::HostSilent
            | DetectionMethod::ProcessStalled => true,
            DetectionMethod::ConnectionLost | DetectionMethod::Restarted => false,
        }
    }
}

/// A range of wire protocol versions, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProtocolRange {
    /// The oldest version.
    pub min: u8,
    /// The newest version.
    pub max: u8,
}

impl ProtocolRange {
    /// The versions that this build speaks.
    pub const OURS: ProtocolRange = ProtocolRange { min: 1, max: 1 };

    /// Returns true if two nodes have a version in common.
    pub const fn overlaps(self, other: ProtocolRange) -> bool {
        self.min <= other.max && other.min <= self.max
    }
}

/// The cluster's knowledge of one node. Written by its owner; others only raise its status.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Record {
    /// The name of the node. First in the encoding, so that a reader can find the member before it decodes the rest.
    pub id: NodeId,
    /// The run of the node's process.
    pub run: Run,
    /// The incarnation: raised by the owner alone, below 2^63.
    pub incarnation: u64,
    /// The status.
    pub status: Status,
    /// The address of the node's gossip.
    pub address: SocketAddr,
    /// The address at which the node's users reach it: free text, at most [`Record::MAX_API_ADDRESS_BYTES`].
    pub api_address: Option<Box<str>>,
    /// The tags.
    pub tags: Tags,
    /// The heartbeat interval and the timeouts by which the node is judged.
    pub timing: Timing,
    /// The software version of the node, at most [`Record::MAX_VERSION_BYTES`].
    pub version: Arc<str>,
    /// The wire protocol versions that the node speaks.
    pub protocol: ProtocolRange,
}

impl Record {
    /// The longest encoding of a record that is accepted, in bytes.
    pub const MAX_BYTES: usize = 900;
    /// The longest `api_address`, in bytes.
    pub const MAX_API_ADDRESS_BYTES: usize = 100;
    /// The longest `version`, in bytes.
    pub const MAX_VERSION_BYTES: usize = 32;
    /// The bound of incarnations, exclusive.
    pub const INCARNATION_LIMIT: u64 = 1 << 62;
    /// The highest incarnation that a clock gives: however wrong one is, there is room to refute above it.
    pub const LATEST_BIRTH: u64 = 1 << 53;

    /// Returns true if a record from outside keeps every bound (names and tags were checked in decoding).
    pub fn is_well_formed(&self) -> bool {
        let text = |text: &str, most| text.len() <= most && !text.contains(char::is_control);
        self.incarnation < Self::INCARNATION_LIMIT
            && is_reachable(self.address)
            && self.api_address.as_deref().is_none_or(|api| text(api, Self::MAX_API_ADDRESS_BYTES))
            && text(&self.version, Self::MAX_VERSION_BYTES)
            && self.timing.is_valid()
            && self.protocol.min <= self.protocol.max
    }

    /// Returns the canonical bytes, as they travel and as they are hashed.
    ///
    /// # Panics
    /// Never: a record has no part that cannot be encoded.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_extend(self, Vec::with_capacity(128)).expect("records encode into memory")
    }

    /// Returns the fixed hash (XXH3-64) of the whole encoding; views are compared by the sums of these.
    pub fn hash(&self) -> u64 {
        xxhash_rust::xxh3::xxh3_64(&self.encode())
    }

    /// Returns true if it drains: it says that it is to get no new work, and does not lead.
    pub fn is_draining(&self) -> bool {
        self.tags.is_draining()
    }

    /// Returns true if it says that it does not vote, though a voter has its name: that voter's data directory is lost.
    pub(crate) fn has_lost_vote(&self) -> bool {
        self.tags.has_lost_vote()
    }

    /// Returns true if it is a voter's that stands aside, and says so: its disk does not take its ballot.
    pub(crate) fn is_aside(&self) -> bool {
        self.tags.is_aside()
    }

    /// Returns the same record with another status.
    #[must_use]
    pub fn with_status(&self, status: Status) -> Record {
        Record { status, ..self.clone() }
    }

    /// Returns the silence after which it is suspected.
    pub const fn suspect_timeout(&self) -> Duration {
        self.timing.suspect_timeout()
    }

    /// Compares two records of one node by `(incarnation, status)`; the greater one wins. `Equal` means that only the
    /// bytes can tell.
    pub fn precedence(&self, other: &Record) -> Ordering {
        self.incarnation.cmp(&other.incarnation).then(self.status.cmp(&other.status))
    }

    /// Returns true if `self` replaces `held` on merging: the maximum by precedence, ties broken by the encoded bytes.
    pub fn supersedes(&self, held: &Record) -> bool {
        match self.precedence(held) {
            Ordering::Greater => true,
            Ordering::Less => false,
            Ordering::Equal => self != held && self.encode() > held.encode(),
        }
    }
}

/// Returns true if packets can be sent to an address, in whatever form it is written.
pub fn is_reachable(address: SocketAddr) -> bool {
    let ip = address.ip().to_canonical();
    address.port() != 0 && !ip.is_unspecified() && !is_of_many(ip)
}

/// Returns true if an address is no single host's: a multicast group, or IPv4's broadcast.
pub fn is_of_many(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    ip.is_multicast() || ip == Ipv4Addr::BROADCAST
}

/// Returns an address in the one form in which addresses are compared: IPv4 that is written as IPv6 (`::ffff:10.0.0.1`)
/// becomes IPv4, which sockets of IPv4 alone can send to; flow labels, which are no part of a peer's identity, are removed.
///
/// Whatever enters goes through here: configurations, seeds, packets and their sources.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match (address.ip().to_canonical(), address) {
        (IpAddr::V6(six), SocketAddr::V6(full)) => SocketAddrV6::new(six, full.port(), 0, full.scope_id()).into(),
        (ip, _) => SocketAddr::new(ip, address.port()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) use crate::testing::record;

    #[test]
    fn a_higher_incarnation_beats_any_status() {
        let up = record("a", 2, Status::Up);
        let down = record("a", 1, Status::Left(LeaveReason::Forced));
        assert!(up.supersedes(&down));
        assert!(!down.supersedes(&up));
    }

    #[test]
    fn within_one_incarnation_the_rank_decides() {
        let ranks = [
            Status::Joining,
            Status::Up,
            Status::Suspect,
            Status::Leaving,
            Status::Down,
            Status::Left(LeaveReason::Graceful),
            Status::Left(LeaveReason::Forced),
        ];
        for pair in ranks.windows(2) {
            assert!(record("a", 1, pair[1]).supersedes(&record("a", 1, pair[0])));
            assert!(!record("a", 1, pair[0]).supersedes(&record("a", 1, pair[1])));
        }
        assert!(!record("a", 1, Status::Up).supersedes(&record("a", 1, Status::Up)), "nothing supersedes itself");
    }

    #[test]
    fn the_largest_record_keeps_its_bound() {
        let mut largest = record(&"n".repeat(63), Record::INCARNATION_LIMIT - 1, Status::Left(LeaveReason::Forced));
        largest.address = "[2001:db8:ffff:ffff:ffff:ffff:ffff:ffff]:65535".parse().expect("an address");
        largest.api_address = Some("a".repeat(Record::MAX_API_ADDRESS_BYTES).into());
        largest.version = "v".repeat(Record::MAX_VERSION_BYTES).into();
        let tags = (0..32).map(|i| (format!("key-{i:04}"), "12345678".to_owned())).collect();
        largest.tags = Tags::new(tags).expect("512 bytes in 32 keys");
        assert!(largest.is_well_formed());
        assert!(largest.encode().len() <= Record::MAX_BYTES, "{} bytes", largest.encode().len());
        let more = |text: &str| Some(format!("{text}x").into());
        for larger in [
            Record { api_address: more(largest.api_address.as_deref().expect("set")), ..largest.clone() },
            Record { version: format!("{}x", largest.version).into(), ..largest.clone() },
            Record { incarnation: Record::INCARNATION_LIMIT, ..largest.clone() },
        ] {
            assert!(!larger.is_well_formed(), "{larger:?}");
        }
    }

    #[test]
    fn an_address_has_one_form() {
        for (written, form) in [
            ("[::ffff:10.0.0.1]:7117", "10.0.0.1:7117"),
            ("10.0.0.1:7117", "10.0.0.1:7117"),
            ("[::10.0.0.1]:7117", "[::10.0.0.1]:7117"),
            ("[fe80::1%2]:7117", "[fe80::1%2]:7117"),
        ] {
            let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
            assert_eq!(canonical(address(written)), address(form), "{written}");
        }
        let labelled = SocketAddrV6::new([0xfd00, 0, 0, 0, 0, 0, 0, 1].into(), 1, 7, 0).into();
        assert_eq!(canonical(labelled), "[fd00::1]:1".parse().expect("an address"));
    }

    #[test]
    fn addresses_nobody_can_answer_from_are_malformed() {
        for address in [
            "0.0.0.0:1",
            "[::]:1",
            "10.0.0.1:0",
            "224.0.0.1:1",
            "[ff02::1]:1",
            "255.255.255.255:1",
            "[::ffff:0.0.0.0]:1",
            "[::ffff:224.0.0.1]:1",
            "[::ffff:255.255.255.255]:1",
        ] {
            let mut unreachable = record("a", 1, Status::Up);
            unreachable.address = address.parse().expect("an address");
            assert!(!unreachable.is_well_formed(), "{address}");
        }
    }
}
