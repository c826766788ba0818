//! The agent: one task that owns the core, and the handle that everybody else holds. (Under construction.)

use std::net::SocketAddr;
use std::time::Duration;

use crate::config::Config;
use crate::core::{CommandError, Counters, NodeId, Run, StopReason, Tags};
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
    /// The agent has stopped.
    #[error("the agent has stopped")]
    Stopped,
}

/// Why an agent did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {}

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
    pub async fn leave(&self) -> StopReason {
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
#[derive(Debug, Clone, Copy)]
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
    pub async fn recv(&mut self) -> Result<std::sync::Arc<crate::Event>, RecvError> {
        unreachable!()
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
    pub fn health(&self) -> Result<(), String> {
        unreachable!()
    }
    /// Stub.
    pub async fn stopped(&self) -> StopReason {
        unreachable!()
    }
}
