//! The view: the table of members as one node holds it, and this node's own observations of each.
//!
//! | idea | file |
//! |---|---|
//! | the table of members | `members` |
//! | the fingerprint, the digest for comparing views, members by status | `tally` |
//! | one observer's state of one member beside its record: last sign, round trip, numbers of its packets, whether it hears this node | `peer` |
//! | … how often it refuted lately | `refutations` |
//! | reaped names, so that a late update does not raise the dead | `tombstones` |
//! | what many records, or many cores in one process, have in common | `pool` |
//!
//! Owns: every [`Slot`], and with it the beginning and the end of all state of a member.
//!
//! Must not know: the origin of a record, the observers of a member, or the meaning of a silence.

mod members;
mod peer;
mod pool;
mod refutations;
mod tally;
mod tombstones;

pub(crate) use members::{Entry, View};
pub(crate) use peer::{Host, Peer, is_due};
pub use pool::RecordPool;
pub(crate) use pool::Shared;
pub(crate) use tally::BUCKETS;
#[cfg(test)]
pub(crate) use tombstones::Tombstones;

/// The place of a member in the table: its index, and in the lower eight bits how often that was used before. So a place
/// that was kept for too long names nobody, instead of whoever came after; and places are in the order of their indices.
pub(crate) type Slot = u32;

const GENERATION_BITS: u32 = 8;
const _: () = assert!(crate::limits::MAX_MEMBERS < 1 << (Slot::BITS - GENERATION_BITS));

/// Returns the index of a place, for tables beside the view.
#[inline]
pub(crate) fn index_of(slot: Slot) -> usize {
    (slot >> GENERATION_BITS) as usize
}

#[inline]
fn generation_of(slot: Slot) -> u8 {
    slot as u8
}

/// Returns the place at an index that was never used.
pub(crate) const fn slot_at(index: usize) -> Slot {
    (index as Slot) << GENERATION_BITS
}

/// Returns the place as it is used next.
fn next_use(slot: Slot) -> Slot {
    (slot & !0xff) | Slot::from(generation_of(slot).wrapping_add(1))
}
