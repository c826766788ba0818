//! Dissemination: spreading updates to all members.
//!
//! | idea | file |
//! |---|---|
//! | at once, along rings (flooding) | `flood` |
//! | again and again, to a few peers each second (gossip), with the updates worth carrying | `gossip` |
//! | news about leases, passed on once | `lease_updates` |
//! | updates that were missed, found by fingerprints that stay different (anti-entropy) | `sync` |
//!
//! Owns: the updates that are still to be sent, and the number of times each was sent.
//!
//! Must not know: the meaning of a record, or whose record is believed. (News about leases is passed on of members
//! alone that are believed: `lease_updates` is told so.)

mod flood;
mod gossip;
mod lease_updates;
mod sync;

pub(crate) use gossip::{Gossip, HeartbeatTurn};
pub(crate) use lease_updates::LeaseUpdates;
