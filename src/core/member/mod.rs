//! Members: names, runs, records, and how two records of one member merge.
//!
//! | idea | file |
//! |---|---|
//! | the node's name, chosen by people; its run, drawn by the process | `id` |
//! | tags: the small facts that a node tells about itself | `tags` |
//! | the record that travels: status, incarnation, address, timing; which of two records of one member supersedes the other | `record` |
//! | the change that a transition from one record to another is reported as | `change` |
//!
//! Owns: nothing; these are values. Two nodes that hold the same record hold the same bytes.
//!
//! Must not know: any observer, so neither ages, links nor the time.

mod change;
mod id;
mod record;
mod tags;

pub use change::{Change, ChangeKind};
pub use id::{InvalidName, NodeId, Run, check_name};
pub use record::is_of_many;
#[cfg(test)]
pub(crate) use record::tests;
pub use record::{DetectionMethod, LeaveReason, ProtocolRange, Record, Status, canonical, is_reachable};
pub use tags::{InvalidTags, Tags};
