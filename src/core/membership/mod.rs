//! Membership: what becomes of a record that somebody sent.
//!
//! | idea | file |
//! |---|---|
//! | merging news into the view: maximum of (incarnation, rank) | `merge` |
//! | what is not believed on one member's word | `belief` |
//! | this node's own life: incarnations, refutation, leaving; what others say of departures | `lifecycle`, `departures` |
//! | removing others, and being told that one was removed | `remove`, `removal` |
//! | where members were before somebody appeared elsewhere in their names | `homes` |
//! | knowing that others know | `confirm` |
//! | forgetting the dead | `reap` |
//!
//! Owns: this node's incarnation; claims that wait for their owner's answer; removals and their memory.
//!
//! Must not know: how silence is measured, or by which way a packet came.

mod belief;
mod confirm;
mod departures;
mod homes;
mod lifecycle;
mod merge;
mod reap;
mod removal;
mod remove;

pub(in crate::core) use belief::Claims;
pub(in crate::core) use confirm::Confirmations;
pub(in crate::core) use departures::Departures;
pub(in crate::core) use homes::Homes;
pub(in crate::core) use lifecycle::Incarnation;
pub(in crate::core) use removal::{Acquaintance, Removals};
