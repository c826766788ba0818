//! Cluster membership, failure detection and leadership: who is here, who is gone, and who leads.
//!
//! ```no_run
//! use headcount::{Agent, Config, EventKind};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let mut config = Config::new("a")?;
//! config.seeds = vec!["10.0.0.1:7117".to_owned()];
//! let agent = Agent::start(config).await?;
//!
//! let (snapshot, mut events) = agent.subscribe_from_snapshot();
//! println!("{} members", snapshot.members.len());
//! while let Ok(event) = events.recv().await {
//!     if let EventKind::NodeJoined { member } = event.kind {
//!         println!("{} is here", member.id);
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Where to begin
//!
//! [`Agent`] is the handle to a running node, [`Config`] and [`Settings`] are what it is told, [`Event`] is what
//! subscribers get, [`Member`] is what a node looks like from here; [`Agent::while_leader`] runs work on the leader alone. The
//! protocol itself is [`core`]: a state machine without sockets or clocks, whose module page says where each idea lives;
//! [`core::wire`] is the wire format, and [`sim`] runs the same core in virtual time.
//!
//! # Features
//!
//! `agent` (default) brings the command line, the HTTP interface and configuration files. A library user with
//! `default-features = false` gets none of clap, axum or toml.
//!
//! # What semantic versioning covers
//!
//! - The public Rust API of [`Agent`], [`Config`], [`Settings`], [`Event`], [`Member`] and what they name. [`core`] and
//!   [`sim`] are open for drivers and tests of your own, and may change in minor versions while this crate is below 1.0.
//! - JSON over HTTP and from the command line: keys are only ever added.
//! - Configuration: keys and their meaning stay; ranges may widen.
//! - The wire: a node speaks a range of protocol versions and talks to every node whose range overlaps. Message kinds are
//!   only ever appended.
//!
//! # Platforms
//!
//! Developed and tested on Linux. macOS and Windows should build and are not tested; there a suspended machine may not
//! count its sleep, and datagrams lost to a full receive buffer are not counted.

pub mod agent;
#[cfg(feature = "agent")]
#[doc(hidden)]
pub mod cli;
pub mod config;
pub mod core;
mod descriptors;
mod event;
#[cfg(feature = "agent")]
pub mod http;
mod journal;
#[cfg(feature = "agent")]
pub mod json;
mod member;
pub mod sim;
mod store;
mod text;
mod transport;
mod trouble;

pub use crate::core::{
    DetectionMethod, InvalidName, InvalidTags, LeaveReason, NodeId, OutOfRange, Profile, Run, Settings, Status,
    StopReason, Tags, Timing,
};
pub use agent::Agent;
pub use config::{Config, ConfigError};
pub use event::{Event, EventKind};
pub use member::Member;
