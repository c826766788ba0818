//! One datagram: sealed by its sender, bound to its receiver wherever the sender knows its run, and opened at most once.
//!
//! Bound datagrams are opened by their receiver alone. Unbound ones are for questions to whoever is at an address, and for
//! answers to the nameless; they can be played to any node, and are another outcome of opening than bound ones.

use super::SealError;
use super::cipher::{self, Channel, Nonce, TAG_BYTES, push_varint, split_varint};
use super::key::{Key, KeyId};
use super::replay::Replays;
use super::ring::KeyRing;
use headcount_core::Run;
use headcount_core::wire::{Header, VERSION};

/// The bytes of magic, version, mark, cluster and run in a clear packet.
const CLEAR_BYTES: usize = 16;
/// The bytes of magic, version, mark and run in a sealed one.
pub(super) const FIXED_BYTES: usize = 12;
/// The mark of a clear packet.
const CLEAR: u8 = 0;
/// The mark of a sealed datagram that anybody opens who holds the key.
const UNBOUND: u8 = 1;
/// The mark of a sealed datagram that one run opens.
const BOUND: u8 = 3;
/// The bytes of the fingerprint, the least that a packet holds behind its header.
const FINGERPRINT_BYTES: usize = 8;
/// The shortest sealed datagram: varints of one byte.
const MIN_BYTES: usize = FIXED_BYTES + KeyId::BYTES + 1 + 1 + FINGERPRINT_BYTES + TAG_BYTES;
/// The most bytes that a sealed datagram is longer than its packet: a number of ten bytes in the place of one of one, and
/// as many for the difference.
pub const MAX_OVERHEAD: usize = KeyId::BYTES + 9 + 10 + TAG_BYTES + 1;
/// The least bytes that a sealed datagram is longer than its packet: a number as long as the packet's own.
pub const MIN_OVERHEAD: usize = FIXED_BYTES + KeyId::BYTES - CLEAR_BYTES + 1 + TAG_BYTES;

/// The outcome of opening a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// The datagram was sealed for this run, and its packet was written to the buffer.
    Bound,
    /// The datagram was sealed for whoever is here, and its packet was written to the buffer.
    Unbound,
    /// The datagram does not claim to be sealed.
    Clear,
}

/// Seals the datagrams of one run, and opens those that it receives.
#[derive(Debug)]
pub struct DatagramSealer {
    run: Run,
    cluster: Box<str>,
    /// The cluster's hash, which clear packets bear.
    hash: [u8; 4],
    /// The number of the last datagram.
    last: u64,
    replays: Replays,
}

impl DatagramSealer {
    /// Returns the sealer of a run, which was drawn for this process alone, in the cluster of this name.
    pub fn new(run: Run, cluster: &str) -> Self {
        let hash = Header::cluster_hash(cluster).to_le_bytes();
        Self { run, cluster: cluster.into(), hash, last: 0, replays: Replays::default() }
    }

    /// Returns the number of senders whose numbers are remembered.
    pub fn senders(&self) -> usize {
        self.replays.len()
    }

    /// Seals a packet of this run and cluster, or an anonymous one, for a receiver if its run is known; `None` if the bytes
    /// are no such packet: they are not to be sent.
    pub fn seal(&mut self, key: &Key, receiver: Option<Run>, packet: &[u8]) -> Option<Vec<u8>> {
        let (fixed, rest) = packet.split_first_chunk::<CLEAR_BYTES>()?;
        let (sequence, rest) = split_varint(rest)?;
        let (prefix, run) = fixed.split_at(CLEAR_BYTES - size_of::<Run>());
        let run = run_in(run)?;
        let is_ours = if sequence == 0 { run.is_nobody() } else { run == self.run };
        let is_packet = prefix[..4] == [b'H', b'C', VERSION, CLEAR] && prefix[4..] == self.hash;
        if !is_packet || !is_ours || rest.len() < FINGERPRINT_BYTES {
            return None;
        }
        // Never below what the core counted, so that the two seldom differ, and always above the last.
        let number = sequence.max(self.last.checked_add(1)?);
        self.last = number;
        let mut sealed = Vec::with_capacity(packet.len() + MAX_OVERHEAD);
        let mark = if receiver.is_some() { BOUND } else { UNBOUND };
        sealed.extend_from_slice(&[b'H', b'C', VERSION, mark]);
        sealed.extend_from_slice(&self.run.0.to_le_bytes());
        sealed.extend_from_slice(&key.id().0);
        push_varint(&mut sealed, number);
        let header = sealed.len();
        push_varint(&mut sealed, number - sequence);
        sealed.extend_from_slice(rest);
        let (header, contents) = sealed.split_at_mut(header);
        let nonce = Nonce::new(Channel::Datagram, self.run, number, 0);
        let tag = cipher::seal(key.secret(), nonce, &bound(header, &self.cluster, receiver), contents);
        sealed.extend_from_slice(&tag);
        Some(sealed)
    }

    /// Opens a datagram; its packet is written to `packet`, in the place of what was there. What is not sealed is left to
    /// the caller.
    ///
    /// The address that it came from plays no part: a window per address would be opened anew by each replay from another.
    /// `is_known` says of a run whether the receiver knows it: the numbers of those are never forgotten.
    pub fn open(
        &mut self,
        ring: &KeyRing,
        datagram: &[u8],
        packet: &mut Vec<u8>,
        is_known: impl Fn(Run) -> bool,
    ) -> Result<Opened, SealError> {
        let is_bound = match datagram.get(3) {
            Some(&BOUND) if datagram.starts_with(b"HC") => true,
            Some(&UNBOUND) if datagram.starts_with(b"HC") => false,
            _ => return Ok(Opened::Clear),
        };
        if datagram[2] != VERSION {
            return Err(SealError::UnknownVersion);
        }
        if datagram.len() < MIN_BYTES {
            return Err(SealError::Malformed);
        }
        let id = datagram[FIXED_BYTES..].first_chunk().map(|id| KeyId(*id)).ok_or(SealError::Malformed)?;
        let key = ring.find(id).ok_or(SealError::UnknownKey(id))?;
        let run = run_in(&datagram[4..]).ok_or(SealError::Malformed)?;
        let (number, sealed) = split_varint(&datagram[FIXED_BYTES + KeyId::BYTES..]).ok_or(SealError::Malformed)?;
        // Before the decryption: a recorded datagram costs none.
        if self.replays.has_seen(run, number) {
            return Err(SealError::Replayed);
        }
        let header = &datagram[..datagram.len() - sealed.len()];
        let (contents, tag) =
            sealed.split_at_checked(sealed.len().wrapping_sub(TAG_BYTES)).ok_or(SealError::Malformed)?;
        packet.clear();
        packet.extend_from_slice(contents);
        if run.is_nobody()
            || !cipher::open(
                key.secret(),
                Nonce::new(Channel::Datagram, run, number, 0),
                &bound(header, &self.cluster, is_bound.then_some(self.run)),
                packet,
                tag,
            )
        {
            return Err(if is_bound { SealError::Misdirected } else { SealError::Forged });
        }
        if !self.replays.accept(run, number, is_known) {
            return Err(SealError::Replayed);
        }
        // Sealed by a member: from here on nothing fails but by a member's mistake.
        let (behind, rest) = split_varint(packet).ok_or(SealError::Malformed)?;
        let sequence = number.checked_sub(behind).ok_or(SealError::Malformed)?;
        let mut clear = Vec::with_capacity(CLEAR_BYTES + 10);
        clear.extend_from_slice(&[b'H', b'C', VERSION, CLEAR]);
        clear.extend_from_slice(&self.hash);
        let run = if sequence == 0 { Run::NOBODY } else { run };
        clear.extend_from_slice(&run.0.to_le_bytes());
        push_varint(&mut clear, sequence);
        let replaced = packet.len() - rest.len();
        packet.splice(..replaced, clear);
        Ok(if is_bound { Opened::Bound } else { Opened::Unbound })
    }
}

/// Returns the run at the beginning of these bytes.
pub(super) fn run_in(bytes: &[u8]) -> Option<Run> {
    bytes.first_chunk().map(|run| Run(u64::from_le_bytes(*run)))
}

/// Returns what a header is authenticated as: with the cluster's name and the receiver's run, which do not travel. The
/// header's mark says whether there is a receiver.
fn bound(header: &[u8], cluster: &str, receiver: Option<Run>) -> Vec<u8> {
    let mut bound = Vec::with_capacity(header.len() + cluster.len() + size_of::<Run>());
    bound.extend_from_slice(header);
    bound.extend_from_slice(cluster.as_bytes());
    if let Some(receiver) = receiver {
        bound.extend_from_slice(&receiver.0.to_le_bytes());
    }
    bound
}
