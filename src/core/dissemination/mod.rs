//! Dissemination: how news reaches everybody.
//!
//! | idea | file |
//! |---|---|
//! | at once, along rings (flooding) | `flood` |
//! | again and again, to a few peers each second (gossip) | `gossip`; the updates worth carrying: `recent` |
//! | words about leases, passed on once | `words` |
//! | what both missed, found by fingerprints that stay different (anti-entropy) | `sync` |
//!
//! Owns: which updates are still to be sent, and how often each was.
//!
//! Must not know: what a record means, or who is believed.

mod flood;
mod gossip;
mod recent;
mod sync;
mod words;

pub(in crate::core) use flood::Flooding;
pub(in crate::core) use gossip::Gossiping;
pub(in crate::core) use sync::Disagreement;
pub(in crate::core) use words::LeaseWords;
