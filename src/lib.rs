//! Cluster membership, failure detection and leadership: who is here, who is gone, and who leads.
//!
//! ```no_run
//! use headcount::agent::RecvError;
//! use headcount::{Agent, Config, EventKind};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let config = Config::new("a")?.with_key_file("cluster.key").with_seeds(["10.0.0.1:7117"]);
//! let agent = Agent::start(config).await?;
//! agent.wait_until_up().await?;
//!
//! let (snapshot, mut events) = agent.subscribe_from_snapshot(); // no gap, no overlap
//! for member in snapshot.members.iter().filter(|member| member.may_work()) {
//!     println!("{} may be given work", member.id);
//! }
//! loop {
//!     match events.recv().await {
//!         Ok(event) => match event.kind {
//!             EventKind::NodeJoined { member } => println!("{} is here", member.id),
//!             EventKind::NodeLeft { member, .. } | EventKind::NodeDetectedDown { member, .. } => {
//!                 println!("{} is gone", member.id);
//!             }
//!             _ => {}
//!         },
//!         // Too slow a reader misses events, never the state: it begins again from the members as they are now.
//!         Err(RecvError::Lagged { .. }) => println!("members now: {}", events.resync().members.len()),
//!         Err(_) => return Err(agent.stopped().await.into()),
//!     }
//! }
//! # }
//! ```
//!
//! # Where to begin
//!
//! [`Agent`] is the handle to a running node, [`Config`] and [`Settings`] are what it is told, [`Event`] is what
//! subscribers get, [`Member`] is what a node looks like from here. [`Agent::live_members`] are those that are here,
//! Up or Suspect, [`Member::may_work`] says which of them may be given work, and [`Agent::members`] lists the dead and those that
//! left, too. [`Agent::while_leader`] runs work on the
//! leader alone. The protocol itself is [`core`], the crate `headcount-core`: a state machine without sockets or clocks, whose page says
//! where each idea lives; [`core::wire`] is the wire format, and [`sim`] runs the same core in virtual time. The [`glossary`] says
//! what each word means, and whose it is; [`guarantees`] has every promise, and its edges; [`requirements`] says what became
//! of the words of the documents that it was built from. [`programs`] shows messages, handlers, leading and tests; [`operations`] is
//! for whoever runs agents; [`simulate`] tries settings before they are used.
//!
//! # How it works
//!
//! Each node holds a table of records. A record merges as a maximum of (incarnation, status), so that it does not matter in which
//! order and how often news arrives. Only its owner raises its incarnation, which is how a suspected node refutes. A hash of all
//! records travels in every packet: views that differ are noticed at once, and repaired at a cost that follows the difference.
//!
//! A heartbeat is any packet to an observer; a packet of its own goes only where no other went for the interval. Up to eleven nodes
//! observe each other. In larger clusters each is observed by about ten, on rings that everybody computes from the same view, so
//! that a node's load does not grow with the cluster. Before a silence becomes a suspicion, the other observers are asked. Observers
//! keep one idle TCP connection between each other, which tells a crash from a lost packet.
//!
//! ```text
//!         cli ── http ── examples        only call the agent's handle
//!              │
//!            agent                       one task owns the core; sockets, timers, events, published members
//!       ┌──────┴──────┐
//!   transport       store                UDP, TCP links; state that survives a restart
//!       └──────┬──────┘
//!            core                        a crate of its own (src/core): membership, wire: pure, deterministic
//!              ▲
//!             sim                        the same core in virtual time (src/sim)
//! ```
//!
//! # Beside your own code
//!
//! An agent runs on a thread and a tokio runtime of its own: a task of yours that blocks its thread, and a tracing
//! subscriber that blocks or panics, do not make the node look dead. It is started inside a tokio runtime, and ends with
//! that one. When the last handle is dropped it stops without a goodbye, which looks like a crash to its peers:
//! [`Agent::leave`] says goodbye first.
//!
//! What an agent logs has the target `headcount::membership` (members, and the network between them),
//! `headcount::leadership` (leaders and voters), or `headcount`: filters such as `headcount::membership=warn` or
//! `headcount=off` go by them.
//!
//! Tests of your own logic make up a cluster (`testing::Cluster`, feature `test-util`). In others, agents on `127.0.0.1:0`
//! with [`Profile::Local`] form a real cluster within milliseconds, each with the [`Agent::gossip_address`] of the first as
//! its seed.
//!
//! # Features
//!
//! `agent` (default) brings the command line, the HTTP interface and configuration files, and both databases that leases
//! may be kept in, which are `sqlite` and `postgres` by themselves. `client`, which it includes, brings [`client`] and
//! [`json`]: programs that ask an agent over HTTP, without being members, need no more. `srv`, which it includes too, looks
//! up seeds in SRV records. `metrics` alone brings `Agent::collector`, for a registry of `prometheus-client`;
//! `Agent::telemetry` needs no feature. `test-util` brings `testing`: clusters that tests make up. A library user with
//! `default-features = false` gets none of clap, axum, toml or a database.
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
//! Developed and tested on Linux, with Rust 1.89 or later. It is written for macOS and Windows, too, and not tested there:
//! a suspended machine may not count its sleep, datagrams lost to a full receive buffer are not counted, and what has
//! arrived while a process stood still may be read a moment after its timers. On Windows there is neither SIGTERM nor SIGHUP
//! (Ctrl-C leaves), open files are not budgeted, and nobody looks at who else may read the data directory.

// | idea | file |
// |---|---|
// | the protocol, without I/O | `core` |
// | the handle and the driver of the core; what moves bytes; the state on disk | `agent`, `transport`, `store` |
// | leases in a database; the contender, the crate `headcount-contender` | `lease` |
// | what a user sees of members and changes | `member`, `event` |
// | the binary: command line, HTTP, event handlers, configuration | `cli`, `http`, `handlers`, `config` |
// | JSON, and a client that speaks it | `json`, `client` |
// | metrics; the log | `metrics`, `journal` |
// | sealed packets and keys: the crate `headcount-seal` | `seal` |
// | the simulator: the crate `headcount-sim` | `sim` |
// | commands that are run; limits of open files; files that are replaced as a whole | `process`, `descriptors`, `files` |
// | limits of log lines that others cause; when trouble begins and ends; foreign text made safe to show | `quiet`, `trouble`, `text` |
// | tests of pages | `guide` |

pub mod agent;
#[cfg(feature = "agent")]
#[doc(hidden)]
pub mod cli;
#[cfg(feature = "client")]
pub mod client;
pub mod config;
mod descriptors;
mod event;
mod files;
#[doc = include_str!("glossary.md")]
pub mod glossary {}

#[doc = include_str!("operations.md")]
pub mod operations {}

#[doc = include_str!("metrics_reference.md")]
pub mod metrics_reference {}

#[doc = include_str!("log_reference.md")]
pub mod log_reference {}

#[doc = include_str!("programs.md")]
pub mod programs {}

#[doc = include_str!("simulate.md")]
pub mod simulate {}

#[doc = include_str!("guarantees.md")]
pub mod guarantees {}

#[doc = include_str!("requirements.md")]
pub mod requirements {}

#[cfg(feature = "agent")]
#[doc = include_str!("http_reference.md")]
pub mod http_reference {}

#[doc = include_str!("security.md")]
pub mod security {}

#[doc = include_str!("identities.md")]
pub mod identities {}

#[cfg(all(test, feature = "agent"))]
mod guide;
#[cfg(feature = "agent")]
mod handlers;
#[cfg(feature = "agent")]
pub mod http;
mod journal;
#[cfg(feature = "client")]
pub mod json;
pub mod lease;
mod member;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(unix)]
mod process;
mod quiet;
mod store;
mod text;
mod transport;
mod trouble;

#[doc(inline)]
pub use agent::Agent;
#[cfg(any(test, feature = "test-util"))]
#[doc(inline)]
pub use agent::testing;
#[doc(inline)]
pub use config::{Config, ConfigError};
#[doc(inline)]
pub use event::{Event, EventKind};
#[doc(inline)]
pub use headcount_core as core;
#[doc(inline)]
pub use headcount_core::{
    DetectionMethod, InvalidName, InvalidTags, LeaveReason, NodeId, OutOfRange, Profile, Run, Settings, Status,
    StopReason, Tags, Timing,
};
#[doc(inline)]
pub use headcount_seal as seal;
#[doc(inline)]
#[cfg(feature = "sim")]
pub use headcount_sim as sim;
#[doc(inline)]
pub use member::Member;

/// The Rust code of README.md compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
