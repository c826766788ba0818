//! The agent: one task that owns the core, and the handle that everybody else holds. (Under construction.)

use std::net::SocketAddr;
use std::time::Duration;

use crate::config::Config;
use crate::core::{CommandError, Counters, NodeId, Profile, Run, Settings, StopReason, Tags};
use crate::member::Member;

/// A running node. Cheap to clone; dropping the last handle stops the agent without leaving.
#[derive(Debug, Clone)]
pub struct Agent {}

/// Figures about this node and its view.
#[derive(Debug, Clone)]
pub struct Info {
    /// This node.
    pub me: Member,
    /// The cluster's name.
    pub cluster: NodeId,
    /// Where the figures of `settings` come from.
    pub profile: Profile,
    /// Pace and sizes.
    pub settings: Settings,
    /// Local count of changes of the view.
    pub changes: u64,
    /// Order-independent hash of the view.
    pub fingerprint: u64,
    /// Members by status, in the order of `Status::NAMES`.
    pub members: [usize; 6],
    /// Time since the start.
    pub uptime: Duration,
    /// What was counted in the core.
    pub counters: Counters,
    /// Datagrams that the kernel dropped because the receive buffer was full.
    pub receive_buffer_overflows: u64,
    /// Socket errors survived.
    pub socket_errors: u64,
    /// Stub.
    pub send_buffer_full: u64,
    /// Stub.
    pub oversized_datagrams: u64,
    /// Stub.
    pub state_write_failures: u64,
}

/// What became of one address of [`Agent::join`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinResult {
    /// As asked.
    pub address: String,
    /// Who answered, or why nobody did.
    pub outcome: Result<NodeId, String>,
}

/// What [`Agent::remove`] achieved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// Peers known to hold the record.
    pub held_by: usize,
    /// Whether that is enough: three, or all live peers.
    pub confirmed: bool,
}

/// Why a command failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The core refused; nothing changed.
    #[error(transparent)]
    Refused(#[from] CommandError),
    /// Stub.
    #[error("{asked} addresses are too many for one join")]
    TooManyAddresses {
        /// How many.
        asked: usize,
    },
    /// The agent has stopped.
    #[error("the agent has stopped")]
    Stopped,
}

/// Why an agent did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Stub.
    #[error("bind {address}: {source}")]
    Bind {
        /// Stub.
        address: SocketAddr,
        /// Stub.
        source: std::io::Error,
    },
}

impl StartError {
    /// Stub.
    pub const fn exit_code(&self) -> u8 {
        3
    }
}

/// Stub.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Stop {
    /// Stub.
    #[error(transparent)]
    Core(#[from] StopReason),
    /// Stub.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl Stop {
    /// Stub.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Stop::Core(StopReason::Left) => 0,
            Stop::Core(StopReason::NameInUse { .. }) => 5,
            Stop::Core(StopReason::Removed) => 6,
            Stop::Core(StopReason::Refused { .. }) => 7,
            Stop::Failed(_) => 1,
        }
    }
}

/// Stub.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("task {task} ended unexpectedly: {cause}")]
#[non_exhaustive]
pub struct Failure {
    /// Its name.
    pub task: &'static str,
    /// A panic's message, or what else is known.
    pub cause: String,
}

impl Agent {
    /// Binds, reads the durable state, starts the driver.
    pub async fn start(config: Config) -> Result<Agent, StartError> {
        let _ = config;
        unreachable!()
    }
    /// This node as others see it.
    pub fn me(&self) -> Member {
        unreachable!()
    }
    /// One member.
    pub fn member(&self, id: &NodeId) -> Option<Member> {
        let _ = id;
        unreachable!()
    }
    /// All members, sorted by name, those that left included. Never asks the driver.
    pub fn members(&self) -> Vec<Member> {
        unreachable!()
    }
    /// This process's run.
    pub fn run(&self) -> Run {
        unreachable!()
    }
    /// The address gossip is really received on.
    pub fn gossip_address(&self) -> SocketAddr {
        unreachable!()
    }
    /// Figures.
    pub fn info(&self) -> Info {
        unreachable!()
    }
    /// Contacts addresses (`host:port`) once; waits at most 5 s.
    pub async fn join(&self, addresses: Vec<String>) -> Result<Vec<JoinResult>, AgentError> {
        let _ = addresses;
        unreachable!()
    }
    /// Says goodbye, waits until a few peers know, stops.
    pub async fn leave(&self) -> Stop {
        unreachable!()
    }
    /// Takes a member out of the listing.
    pub async fn remove(&self, id: &NodeId, force: bool) -> Result<Removed, AgentError> {
        let _ = (id, force);
        unreachable!()
    }
    /// Replaces all tags of this node.
    pub async fn set_tags(&self, tags: Tags) -> Result<(), AgentError> {
        let _ = tags;
        unreachable!()
    }
}

/// Stub.
#[derive(Debug)]
pub struct Subscription {}
/// Stub.
#[derive(Debug)]
pub struct Snapshot {
    /// Stub.
    pub sequence: u64,
    /// Stub.
    pub members: Vec<Member>,
}
/// Stub.
#[derive(Debug, Clone, Copy)]
pub struct Lagged {
    /// Stub.
    pub missed: u64,
}
/// Stub.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter;
impl Filter {
    /// Stub.
    pub fn all() -> Self {
        Self
    }
    /// Stub.
    pub fn kinds<K: AsRef<str>>(self, kinds: impl IntoIterator<Item = K>) -> Result<Self, String> {
        let _ = kinds;
        Ok(self)
    }
    /// Stub.
    #[must_use]
    pub fn nodes(self, nodes: impl IntoIterator<Item = NodeId>) -> Self {
        let _ = nodes;
        self
    }
}
/// Stub.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum RecvError {
    /// Stub.
    Lagged {
        /// Stub.
        missed: u64,
    },
    /// Stub.
    Closed,
}
impl Subscription {
    /// Stub.
    pub async fn recv(&mut self) -> Result<crate::Event, RecvError> {
        unreachable!()
    }
    /// Stub.
    pub fn position(&self) -> u64 {
        0
    }
    /// Stub.
    pub fn resync(&mut self) -> Snapshot {
        unreachable!()
    }
    /// Stub.
    #[must_use]
    pub fn filtered(self, filter: Filter) -> Self {
        let _ = filter;
        self
    }
}
impl Agent {
    /// Stub.
    pub fn subscribe(&self) -> Subscription {
        unreachable!()
    }
    /// Stub.
    pub fn subscribe_from_snapshot(&self) -> (Snapshot, Subscription) {
        unreachable!()
    }
    /// Stub.
    pub fn subscribe_after(&self, sequence: u64) -> Result<Subscription, Lagged> {
        let _ = sequence;
        unreachable!()
    }
    /// Stub.
    pub fn health(&self) -> Result<(), Failure> {
        unreachable!()
    }
    /// Stub.
    pub async fn stopped(&self) -> Stop {
        unreachable!()
    }
    /// Stub.
    pub fn shutdown(&self) {}
}
