//! Sealing: every datagram and every frame of a link is encrypted and authenticated with a key that all members hold.
//!
//! The same code seals in the agent and in the simulator; the core knows nothing of it, and all its own rules go on
//! counting: they bound what an insider may do.
//!
//! | idea | file |
//! |---|---|
//! | a key, and the four bytes by which it is named | `key` |
//! | the keys that a node accepts, and the one that it seals with | `ring` |
//! | the text of a key file | `file` |
//! | off, permit, prefer, require: the way from clear to sealed and back | `mode` |
//! | nonces, and the cipher | `cipher` |
//! | one datagram sealed or opened | `datagram` |
//! | numbers that were seen, by sender | `replay` |
//! | one end of a link | `link` |
//!
//! # Bytes
//!
//! ```text
//! datagram = "HC"  version u8  1 | 3  run 8 B  key id 4 B  number varint  sealed(behind varint  fingerprint 8 B  message*)
//! greeting = "HC"  version u8  2  run 8 B  key id 4 B  number u64  sealed(random 16 B)
//! refusal  = "HC"  version u8  4  reason u8      the only answer to a first frame of a link that is not opened
//! frame    = key id 4 B  sealed(packet)
//! sealed   = as many bytes as its contents  tag 16 B
//! ```
//!
//! The fourth byte of a clear packet is 0, of a direct call ([`DIRECT_CALL`]) 5, and 255 in a refusal. Everything before `sealed` is authenticated with it, and
//! so is the cluster's whole name, which does not travel: nothing of another cluster is opened, though it has the key.
//! A datagram with mark 3 is *bound*: authenticated with the run of its receiver as well, which does not travel either.
//! Nobody else opens it. One with mark 1 is *unbound*: its sender does not know the run of who is there (`Join`, `ReachMe`,
//! name probes, questions to members that have fallen silent and may have been restarted, answers to the nameless). The
//! core takes the sender of an unbound datagram for a stranger, or for one that claims to be a member, whatever its address.
//! `behind` is what the packet's own sequence number lacks to `number`: a packet without a number, which strangers get,
//! is as far behind as can be. So a sealed datagram is opened to exactly the clear packet that was sealed, and is 17
//! bytes longer, 40 at the very most ([`MAX_OVERHEAD`]).
//!
//! On a link each end first sends a greeting with a random value; the acceptor's is bound to the opener's. Everything
//! after that is bound to both values, to the direction, and to the frame's place in its direction.
//!
//! # No nonce twice
//!
//! The cipher is XChaCha20-Poly1305, whose nonce has 24 bytes, none of which travels: channel (1), run of the sender (8),
//! number (8), place (7).
//!
//! - *Within a run*: the channels (datagrams, greetings of openers, greetings of acceptors, frames of openers, frames of
//!   acceptors) never share a nonce. A datagram's number is drawn here and only grows: it is not the core's sequence
//!   number, since the core gives none to packets for strangers and may send one packet twice. A connection's number is
//!   drawn here, too, once per connection end, and frames are counted in their place.
//! - *Between runs*: a run is 64 random bits of the operating system, drawn at each start of a process and never kept.
//!   Nothing on a disk can be restored, forgotten or set back, whatever happens to the data directory. A million starts
//!   under one key meet in one run with a chance of 3 in 100 million, which is also what two members of one run amount to.
//! - *Not covered*: a machine that is copied or set back while the agent runs (a snapshot with memory) repeats its
//!   numbers. Start the agent after the copy, or rotate keys after it.
//!
//! # Invariants
//!
//! - What is not sealed, has an unknown key id, or is too short is refused before anything is decrypted, and nothing is
//!   answered to a datagram. Nothing is allocated for it.
//! - A bound datagram is opened by its receiver alone; whoever opens another one knows that it is unbound.
//! - A datagram is opened at most once by each run of a receiver ([`Replays`]), whatever address it comes from and however old
//!   it is, as long as the receiver knows the sender's run. No clock has a part in it.
//! - Keys are overwritten when the last ring lets go of them, and no `Debug` or `Display` shows more than a key's id.
//!
//! Must not know: sockets, clocks, files, where randomness comes from, and the meaning of what is sealed.

mod cipher;
mod datagram;
mod file;
mod key;
mod link;
mod mode;
mod replay;
mod ring;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_bounds;

pub use datagram::{DatagramSealer, MAX_OVERHEAD, MIN_OVERHEAD, Opened};
pub use file::{KeyFile, KeyFileProblem};
pub use key::{InvalidKey, InvalidKeyId, Key, KeyId};
pub use link::{DIRECT_CALL, FRAME_OVERHEAD, LinkSealer, LinkStep, is_clear_packet, turned_down, why_turned_down};
pub use mode::{InvalidSealMode, SealMode};
pub use replay::{MAX_STRANGERS, Replays};
pub use ring::{KeyRing, MAX_KEYS, RingError};

/// The reason why a datagram or a frame was refused at the edge, before the core saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The datagram or frame is clear, and only sealed ones are taken.
    #[error("not sealed")]
    Unsealed,
    /// The seal, or the greeting of a connection, has a format version that this build does not speak.
    #[error("sealed in an unknown format version")]
    UnknownVersion,
    /// The bytes are too short, or not in the form of a sealed packet.
    #[error("malformed")]
    Malformed,
    /// The seal was made with a key that this node does not hold.
    #[error("sealed with key {0}, which this node does not hold")]
    UnknownKey(KeyId),
    /// The seal does not match the bytes: they were changed, or sealed without the key.
    #[error("the seal does not match")]
    Forged,
    /// The datagram is bound to a receiver, and the seal does not match for this one: it was meant for another run (a node's that was
    /// restarted, say), or was played here by somebody who recorded it, or is forged.
    #[error("sealed for another node, or forged")]
    Misdirected,
    /// The datagram or frame was opened before, or is too old to tell.
    #[error("seen before")]
    Replayed,
    /// The datagram or connection comes from another machine, and clear ones are taken of this machine alone.
    #[error("from another machine")]
    NotLoopback,
}

/// Returns the id of the key that a datagram or a greeting claims to be sealed with; `None` if it does not claim to be.
pub fn key_id_of(bytes: &[u8]) -> Option<KeyId> {
    let is_sealed = bytes.starts_with(b"HC") && matches!(bytes.get(3), Some(1..=3));
    let id = bytes.get(12..).and_then(|rest| rest.first_chunk());
    id.filter(|_| is_sealed).map(|id| KeyId(*id))
}

impl SealError {
    /// The number of reasons.
    pub const COUNT: usize = 8;

    /// Returns the place of the reason among all, from 0.
    pub const fn index(self) -> usize {
        match self {
            SealError::Unsealed => 0,
            SealError::UnknownVersion => 1,
            SealError::Malformed => 2,
            SealError::UnknownKey(_) => 3,
            SealError::Forged => 4,
            SealError::Replayed => 5,
            SealError::Misdirected => 6,
            SealError::NotLoopback => 7,
        }
    }

    /// The reasons' names as metric labels, in the order of [`SealError::index`].
    pub const NAMES: [&'static str; SealError::COUNT] = [
        "unsealed",
        "sealed_unknown_version",
        "sealed_malformed",
        "sealed_unknown_key",
        "sealed_forged",
        "sealed_replayed",
        "sealed_misdirected",
        "not_loopback",
    ];
}
