//! The header of a packet: whose it is, and of which cluster.

use crate::member::Run;

/// The format version that this build speaks.
pub const VERSION: u8 = 1;

pub(super) const MAGIC: [u8; 2] = *b"HC";
/// The mark of a refusal, see [`Packet::refusal`](super::Packet::refusal).
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
