//! The vocabulary of the driver: what handles, and the tasks beside the driver, ask of it.
//!
//! Must not know: who asks, and what a command does.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::oneshot;

#[cfg(any(feature = "sqlite", feature = "postgres"))]
use crate::core::wire::LeaseUpdate;
use crate::core::{Command, MessageId, NodeId, Payload, Reply, Tags, Ticket, Topic};

/// A word of one program to others.
#[derive(Debug)]
pub(crate) enum Say {
    /// [`Command::Broadcast`].
    Broadcast { topic: Topic, payload: Payload },
    /// [`Command::Send`].
    Send { to: NodeId, topic: Topic, payload: Payload },
    /// [`Command::Request`].
    Request { to: NodeId, topic: Topic, payload: Payload, timeout: Duration },
    /// [`Command::Answer`].
    Answer { request: MessageId, payload: Payload },
}

impl Say {
    /// Returns the core's command, under this ticket.
    pub(super) fn command(self, ticket: Ticket) -> Command {
        match self {
            Say::Broadcast { topic, payload } => Command::Broadcast { ticket, topic, payload },
            Say::Send { to, topic, payload } => Command::Send { ticket, to, topic, payload },
            Say::Request { to, topic, payload, timeout } => Command::Request { ticket, to, topic, payload, timeout },
            Say::Answer { request, payload } => Command::Answer { ticket, request, payload },
        }
    }
}

/// A request of a handle to the driver.
#[derive(Debug)]
pub(super) enum Request {
    /// A command about messages.
    Say { what: Say, answer: oneshot::Sender<Reply> },
    /// [`Command::Join`].
    Join { addresses: Vec<SocketAddr>, answer: oneshot::Sender<Reply> },
    /// [`Command::Remove`].
    Remove { id: NodeId, force: bool, answer: oneshot::Sender<Reply> },
    /// [`Command::Doubt`].
    Doubt { id: NodeId, answer: oneshot::Sender<Reply> },
    /// [`Command::SetTags`].
    SetTags { tags: Tags, answer: oneshot::Sender<Reply> },
    /// [`Command::Drain`].
    Drain { is_draining: bool, answer: oneshot::Sender<Reply> },
    /// [`Command::SetAddress`].
    SetAddress { address: SocketAddr, answer: oneshot::Sender<Reply> },
    /// [`Command::AddVoter`].
    AddVoter { id: NodeId, answer: oneshot::Sender<Reply> },
    /// [`Command::ReplaceVoter`].
    ReplaceVoter { old: NodeId, new: NodeId, answer: oneshot::Sender<Reply> },
    /// [`Command::RemoveVoter`].
    RemoveVoter { id: NodeId, answer: oneshot::Sender<Reply> },
    /// [`Command::Resign`].
    Resign { to: Option<NodeId>, answer: oneshot::Sender<Reply> },
    /// [`Command::ConfirmLeadership`].
    ConfirmLeadership { answer: oneshot::Sender<Reply> },
    /// [`Command::Recover`].
    Recover { voters: Vec<NodeId>, answer: oneshot::Sender<Reply> },
    /// [`Command::FoundAnew`].
    FoundAnew { voters: Vec<NodeId>, answer: oneshot::Sender<Reply> },
    /// [`Command::TellLease`].
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    TellLease(LeaseUpdate),
    /// [`Command::KeepLeaseTerm`].
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    KeepLeaseTerm { lease: NodeId, term: u64 },
    /// [`Command::Leave`]; the answer is the end of the driver.
    Leave,
}
