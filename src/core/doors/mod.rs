//! The vocabulary of the core's two doors: what goes in ([`Input`]), what comes out ([`Output`]).
//!
//! | idea | file |
//! |---|---|
//! | what a core is born with | `birth` |
//! | packets, time, acknowledgements, links; an operator's commands | `input`, `command` |
//! | packets, changes, replies; words for the operator | `output`, `notice` |
//! | who leads | `leadership` |
//! | messages for programs | `message` |
//!
//! Owns: nothing; these are values. Must not know: what any of them brings about.

mod birth;
mod command;
mod input;
mod leadership;
mod message;
mod notice;
mod output;

pub use birth::{Birth, QuorumBirth};
pub use command::{Command, CommandError, Contacted, Reply, Ticket};
pub use input::{Input, LinkEvent, LinkId};
pub use leadership::{Leadership, LeadershipState};
pub use message::{Delivery, DeliveryKind, Direct};
pub use notice::{Notice, SelfDoubt};
pub use output::{Durable, Output, StopReason};
