//! Membership: the merging of records that others send, and this node's own record.
//!
//! | idea | file |
//! |---|---|
//! | merging updates into the view: maximum of (incarnation, rank) | `merge` |
//! | accusations: who knows better, and what is noted of them | `accusation` |
//! | updates that are not believed on one member's word | `belief` |
//! | this node's own record: incarnations, refutation, leaving; reports of departures | `lifecycle`, `departures` |
//! | this node's own move to another address | `moving` |
//! | removing others, and being told that one was removed | `remove`, `removal` |
//! | bounds of the names that others tell of | `invented` |
//! | the addresses where strays were held before | `homes` |
//! | confirmations that peers hold a record | `confirm` |
//! | forgetting dead members | `reap` |
//!
//! Owns: this node's incarnation; claims that wait for their owner's answer; removals and their memory.
//!
//! Must not know: how silence is measured, or the way that a packet took.

mod accusation;
mod belief;
mod confirm;
mod departures;
mod homes;
mod invented;
mod lifecycle;
mod merge;
mod moving;
mod reap;
mod removal;
mod remove;

pub(in crate::core) use belief::Claims;
pub(in crate::core) use confirm::Confirmations;
pub(in crate::core) use departures::Departures;
pub(in crate::core) use homes::Homes;
pub(in crate::core) use lifecycle::Incarnation;
pub(in crate::core) use moving::Move;
pub(in crate::core) use removal::{Arrivals, Removals};
