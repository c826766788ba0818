//! The view: the table of members as one node holds it, and this node's own observations of each.
//!
//! | idea | file |
//! |---|---|
//! | the table of members | `members` |
//! | the fingerprint, the digest for comparing views, members by status | `tally` |
//! | one observer's state of one member beside its record: last sign, round trip, numbers of its packets | `peer` |
//! | … whether that member hears this node; how often it refuted lately | `echo_state`, `refutations` |
//! | reaped names, so that a late update does not raise the dead | `tombstones` |
//! | what many records, or many cores in one process, have in common | `pool` |
//!
//! Owns: every [`Slot`], and with it the beginning and the end of all state of a member.
//!
//! Must not know: the origin of a record, the observers of a member, or the meaning of a silence.

mod echo_state;
mod members;
mod peer;
mod pool;
mod refutations;
mod tally;
mod tombstones;

pub(crate) use echo_state::EchoState;
pub(crate) use members::{Entry, View};
pub(crate) use peer::{Peer, RareState, is_due};
pub use pool::RecordPool;
pub(crate) use pool::Shared;
pub(crate) use tally::BUCKETS;
#[cfg(test)]
pub(crate) use tombstones::Tombstones;

/// The index of a member in the table.
pub(crate) type Slot = u32;
