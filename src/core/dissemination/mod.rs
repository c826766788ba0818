//! Dissemination: spreading updates to all members.
//!
//! | idea | file |
//! |---|---|
//! | at once, along rings (flooding) | `flood` |
//! | again and again, to a few peers each second (gossip) | `gossip`; the updates worth carrying: `recent` |
//! | news about leases, passed on once | `lease_updates` |
//! | updates that were missed, found by fingerprints that stay different (anti-entropy) | `sync` |
//!
//! Owns: the updates that are still to be sent, and the number of times each was sent.
//!
//! Must not know: the meaning of a record, or whose word counts.

mod flood;
mod gossip;
mod recent;
mod sync;
mod lease_updates;

pub(in crate::core) use flood::Flooding;
pub(in crate::core) use gossip::Gossiping;
pub(in crate::core) use sync::FingerprintMismatch;
pub(in crate::core) use lease_updates::LeaseUpdates;
