//! Cluster membership, failure detection and leadership: who is here, who is gone, and who leads.

pub mod agent;
pub mod config;
pub mod core;
mod event;
mod member;
pub mod sim;

pub use crate::core::{
    DetectionMethod, InvalidName, InvalidTags, LeaveReason, NodeId, OutOfRange, Profile, Run, Settings, Status,
    StopReason, Tags, Timing,
};
pub use agent::Agent;
pub use config::{Config, ConfigError};
pub use event::{Event, EventKind};
pub use member::Member;
