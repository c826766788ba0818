//! The types of the core's interface: the inputs ([`Input`]) and the outputs ([`Output`]).
//!
//! | idea | file |
//! |---|---|
//! | the settings with which a core starts | `init` |
//! | packets, time, acknowledgements, links; an operator's commands | `input`, `command` |
//! | why packets are not opened at the other end | `unopened` |
//! | packets, changes, replies; notices for the operator | `output`, `notice` |
//! | the leader | `leadership` |
//! | messages for programs | `message` |
//!
//! Owns: nothing; these are values. Must not know: the effect of any of them.

mod command;
mod init;
mod input;
mod leadership;
mod message;
mod notice;
mod output;
mod unopened;

pub use command::{Command, CommandError, Contacted, Reply, Ticket};
pub use init::{CoreInit, QuorumInit};
pub use input::{Input, LinkEvent, LinkId};
pub use leadership::{Leadership, LeadershipState};
pub use message::{Delivery, DeliveryKind, OutOfBandBroadcast};
pub use notice::{HealthEvidence, Notice};
pub use output::{Durable, Output, Receiver, StopReason};
pub use unopened::Unopened;
