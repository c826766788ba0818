//! Cluster membership, failure detection and leadership: who is here, who is gone, and who leads.

pub mod agent;
#[cfg(feature = "agent")]
#[doc(hidden)]
pub mod cli;
pub mod config;
pub mod core;
mod event;
#[cfg(feature = "agent")]
pub mod http;
#[cfg(feature = "agent")]
pub mod json;
mod member;
mod store;
mod transport;

pub use crate::core::{
    DetectionMethod, InvalidName, InvalidTags, LeaveReason, NodeId, OutOfRange, Profile, Run, Settings, Status,
    StopReason, Tags, Timing,
};
pub use agent::Agent;
pub use config::{Config, ConfigError};
pub use event::{Event, EventKind};
pub use member::Member;
