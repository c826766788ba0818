//! What messages of membership carry: stamps, notes, updates, refusals, and candidates for founding a cluster.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::member::{DetectionMethod, ProtocolRange, Record};

/// Eight raw bytes that only a node that received them can echo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Nonce(#[serde(with = "postcard::fixint::le")] pub u64);

/// A stamp of the sender, and the last stamp it got from the receiver: both ends learn the round-trip time without
/// extra packets. All three numbers count tenths of a millisecond modulo 2^16, so that their differences are right as
/// long as the round trip is below 6.5 s, however long the stamp was held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The sender's clock, in tenths of a millisecond modulo 2^16.
    #[serde(with = "postcard::fixint::le")]
    pub stamp: u16,
    /// The stamp that the sender received last from the receiver; absent before the first one.
    pub echo: Option<Echo>,
}

/// A stamp on its way back to its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Echo {
    /// The stamp that the receiver of this message once sent.
    #[serde(with = "postcard::fixint::le")]
    pub stamp: u16,
    /// The time for which the stamp was held before it was sent back, in tenths of a millisecond.
    #[serde(with = "postcard::fixint::le")]
    pub hold: u16,
}

/// The age and the cause that travel beside the record of a Suspect, Down or Left member. Never hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Age of the last known sign of life (or of the departure) at the time of sending, in milliseconds. Ages travel,
    /// times never do.
    pub age_ms: u64,
    /// The way in which the silence or death was detected.
    pub method: DetectionMethod,
}

impl Note {
    /// Returns the age as a duration.
    pub const fn age(self) -> Duration {
        Duration::from_millis(self.age_ms)
    }
}

/// An update about a member. The note comes first, so that the record's bytes are the tail of the message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Update {
    /// The note; for Suspect, Down and Left only.
    pub note: Option<Note>,
    /// The record.
    pub record: Record,
}

/// The reason why a joiner is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// A live node of this name answers at this address.
    NameInUse {
        /// The address of the holder of the name.
        holder: SocketAddr,
    },
    /// The refusing node belongs to another cluster.
    OtherCluster,
    /// No protocol version in common.
    Protocol {
        /// The versions that the refusing node speaks.
        speaks: ProtocolRange,
    },
    /// No node answers at the address that the joiner advertises; the joiner is heard from another one.
    Unreachable {
        /// The address that the joiner advertises.
        advertised: SocketAddr,
        /// The source address of its packets.
        heard_from: SocketAddr,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NameInUse { holder } => write!(f, "the name is already in use by {holder}"),
            Refusal::OtherCluster => f.write_str("it belongs to another cluster: check the cluster name and the seeds"),
            Refusal::Unreachable { advertised, heard_from } => write!(
                f,
                "this node advertises {advertised}, but is heard from {heard_from}, and does not answer at {advertised}: \
                 check `advertise`, NAT, firewall{}",
                Families(*advertised, *heard_from)
            ),
            Refusal::Protocol { speaks } => {
                write!(f, "no common protocol version: it speaks {} to {}; upgrade one side", speaks.min, speaks.max)
            }
        }
    }
}

/// The confirmation that a peer holds a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmation {
    /// The record's hash.
    pub record: Nonce,
}

/// A node's knowledge of the candidates for founding a cluster, see [`Message::Seeking`](crate::wire::Message::Seeking).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seeking {
    /// True if the receiver's address is one of the sender's seeds; only in questions.
    pub asks_seed: bool,
    /// The reason why the sender itself may found the cluster; absent if it may not.
    pub candidacy: Option<Candidacy>,
    /// The smallest candidate that the sender has reached.
    pub first: Option<Candidate>,
}

/// The reason why a node may found a cluster. `Listed` comes before `Named`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Candidacy {
    /// The node's own list of seeds names it.
    Listed,
    /// The lists of other nodes name it.
    Named,
}

/// A node that may found its cluster. Of several, the smallest founds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Candidate {
    /// The reason why it may.
    pub candidacy: Candidacy,
    /// The address of its gossip.
    pub address: SocketAddr,
}

/// Returns the family of an address, in words.
pub(crate) fn family(address: SocketAddr) -> &'static str {
    if address.ip().to_canonical().is_ipv4() { "IPv4" } else { "IPv6" }
}

/// Displays a hint if the address that a node advertises and the one that it is heard from are of two families; else
/// nothing.
pub(crate) struct Families(pub(crate) SocketAddr, pub(crate) SocketAddr);

impl fmt::Display for Families {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (advertised, heard_from) = (family(self.0), family(self.1));
        if advertised == heard_from {
            return Ok(());
        }
        write!(
            f,
            "; the addresses are of two families, {} ({advertised}) and {} ({heard_from}): members must reach each other \
             by the one that they advertise",
            self.0, self.1
        )
    }
}
