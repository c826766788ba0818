//! Named bounds of the core, by subject: `membership`, `joining`, `detection`, `connectivity`, `dissemination`,
//! `leadership`, `messages`, and of single packets and those who send them `packets`.
//!
//! Invariants: everything that can grow has its limit here; bounds of tables have a test at the limit.
//!
//! Must not know: who keeps to a limit.

mod connectivity;
mod detection;
mod dissemination;
mod joining;
mod leadership;
mod membership;
mod messages;
mod packets;

pub use connectivity::*;
pub use detection::*;
pub use dissemination::*;
pub use joining::*;
pub use leadership::*;
pub use membership::*;
pub use messages::*;
pub use packets::*;
