//! The bytes of the state file.
//!
//! ```text
//! "hcstate\n"  version u16  body length u32  XXH3-64 of the body u64  body (postcard: Saved)      integers little-endian
//! ```
//!
//! The body of version 13 is cluster, node, incarnation bound, addresses, the ballot of a voter if there is one, and the
//! origin: the file's time of creation, and its place in the sequence of its directory's states. Versions 1, 2, 4, 7, 8 and 11
//! were written before the first release and are not read; the others do not exist.
//!
//! Invariant: for any bytes, [`decode`] returns a [`Saved`] that was once encoded, or the reason why not; it never
//! guesses. A new field means a new version, and a new version reads those of all releases.
//!
//! Must not know: files.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::origin::Origin;
use crate::core::election::Ballot;
use crate::core::limits::{MAX_MEMBERS, MAX_REMEMBERED_ADDRESSES};
use crate::core::{NodeId, Record};

/// The version that this build writes, and the newest that it reads.
pub(crate) const VERSION: u16 = 13;

/// The largest file that is read, in bytes. All remembered addresses take about 6 KiB, the names of the largest view
/// that a voter may have accepted 8 MiB.
pub(crate) const MAX_BYTES: usize = MAX_MEMBERS * (NodeId::MAX_BYTES + 1) + 64 * 1024;

const MAGIC: &[u8; 8] = b"hcstate\n";
const HEADER_BYTES: usize = MAGIC.len() + 2 + 4 + 8;

/// The state that survives the process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Saved {
    /// Name of the cluster.
    pub(crate) cluster: NodeId,
    /// Name of the node that wrote it.
    pub(crate) node: NodeId,
    /// The bound that no incarnation used so far exceeds.
    pub(crate) incarnation_bound: u64,
    /// Last known addresses of other members.
    pub(crate) addresses: Vec<SocketAddr>,
    /// The ballot of a voter.
    pub(crate) ballot: Option<Ballot>,
    /// The origin of the file, which tells it from others.
    pub(super) origin: Origin,
}

/// The reason why bytes are no state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadState {
    /// The file is of another kind.
    #[error("this is no headcount state file")]
    NotState,
    /// The end is missing.
    #[error("it is truncated")]
    Truncated,
    /// Bytes have changed since they were written.
    #[error("it is damaged (its checksum or its contents are wrong)")]
    Damaged,
    /// The state was written before the first release.
    #[error(
        "it was written before the first release (format {found}): move the file away, and have a node that is a voter voted \
         out and in again"
    )]
    Old {
        /// The format version found.
        found: u16,
    },
    /// The state was written by a newer program.
    #[error("it was written by a newer version (format {found}, this program knows {VERSION})")]
    Future {
        /// The format version found.
        found: u16,
    },
}

pub(crate) fn encode(saved: &Saved) -> Result<Vec<u8>, postcard::Error> {
    framed(VERSION, &postcard::to_allocvec(saved)?)
}

fn framed(version: u16, body: &[u8]) -> Result<Vec<u8>, postcard::Error> {
    let length = u32::try_from(body.len()).map_err(|_| postcard::Error::SerializeBufferFull)?;
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&xxhash_rust::xxh3::xxh3_64(body).to_le_bytes());
    bytes.extend_from_slice(body);
    Ok(bytes)
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Saved, BadState> {
    let known = bytes.len().min(MAGIC.len());
    if bytes[..known] != MAGIC[..known] {
        return Err(BadState::NotState);
    }
    let rest = bytes.get(MAGIC.len()..).ok_or(BadState::Truncated)?;
    let (version, rest) = rest.split_first_chunk().ok_or(BadState::Truncated)?;
    let version = u16::from_le_bytes(*version);
    match version {
        VERSION => {}
        found @ (1 | 2 | 4 | 7 | 8 | 11) => return Err(BadState::Old { found }),
        0..VERSION => return Err(BadState::Damaged),
        found => return Err(BadState::Future { found }),
    }
    let (length, rest) = rest.split_first_chunk().ok_or(BadState::Truncated)?;
    let (checksum, body) = rest.split_first_chunk().ok_or(BadState::Truncated)?;
    let length = u32::from_le_bytes(*length) as usize;
    if body.len() < length {
        return Err(BadState::Truncated);
    }
    if body.len() > length || xxhash_rust::xxh3::xxh3_64(body) != u64::from_le_bytes(*checksum) {
        return Err(BadState::Damaged);
    }
    read(body).filter(is_sensible).ok_or(BadState::Damaged)
}

/// Reads a value that takes all of the bytes.
fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Option<T> {
    let (value, rest) = postcard::take_from_bytes(body).ok()?;
    rest.is_empty().then_some(value)
}

fn is_sensible(saved: &Saved) -> bool {
    let accepted = saved.ballot.as_ref().and_then(|ballot| ballot.accepted.as_ref());
    saved.incarnation_bound < Record::INCARNATION_LIMIT
        && saved.addresses.len() <= MAX_REMEMBERED_ADDRESSES
        && accepted.is_none_or(|view| view.members.len() <= MAX_MEMBERS)
}

#[cfg(test)]
pub(crate) mod tests;
