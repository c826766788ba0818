//! Requests of handles, and the callers that wait for their answers.
//!
//! Owns the tickets under which the core answers. Never more callers wait than [`MAX_PENDING_COMMANDS`]; what comes on top
//! is refused at once.
//!
//! Must not know: what a command does.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::oneshot;

use super::Driver;
#[cfg(feature = "agent")]
use crate::core::Direct;
use crate::core::limits::MAX_PENDING_COMMANDS;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
use crate::core::wire::LeaseUpdate;
use crate::core::{Command, CommandError, Input, MessageId, NodeId, Payload, Reply, Tags, Ticket, Topic};

/// A word of one program to others.
#[derive(Debug)]
pub(in crate::agent) enum Say {
    /// [`Command::Broadcast`].
    Broadcast { topic: Topic, payload: Payload },
    /// [`Command::Send`].
    Send { to: NodeId, topic: Topic, payload: Payload },
    /// [`Command::Request`].
    Request { to: NodeId, topic: Topic, payload: Payload, timeout: Duration },
    /// [`Command::Answer`].
    Answer { request: MessageId, payload: Payload },
    /// [`Command::Deliver`].
    #[cfg(feature = "agent")]
    Deliver(Direct),
}

impl Say {
    fn command(self, ticket: Ticket) -> Command {
        match self {
            Say::Broadcast { topic, payload } => Command::Broadcast { ticket, topic, payload },
            Say::Send { to, topic, payload } => Command::Send { ticket, to, topic, payload },
            Say::Request { to, topic, payload, timeout } => Command::Request { ticket, to, topic, payload, timeout },
            Say::Answer { request, payload } => Command::Answer { ticket, request, payload },
            #[cfg(feature = "agent")]
            Say::Deliver(direct) => Command::Deliver { ticket, direct },
        }
    }
}

/// A request of a handle to the driver.
#[derive(Debug)]
pub(in crate::agent) enum Request {
    /// One of the commands about messages.
    Say { what: Say, answer: oneshot::Sender<Reply> },
    /// [`Command::Join`].
    Join { addresses: Vec<SocketAddr>, answer: oneshot::Sender<Reply> },
    /// [`Command::Remove`].
    Remove { id: NodeId, force: bool, answer: oneshot::Sender<Reply> },
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

impl Driver {
    /// Passes a request on, under a ticket if it is answered.
    pub(super) fn ask(&mut self, request: Request) {
        match request {
            Request::Say { what, answer } => self.ask_with_ticket(answer, |ticket| what.command(ticket)),
            Request::Leave => self.feed(Input::Command(Command::Leave)),
            #[cfg(any(feature = "sqlite", feature = "postgres"))]
            Request::TellLease(word) => self.feed(Input::Command(Command::TellLease(word))),
            #[cfg(any(feature = "sqlite", feature = "postgres"))]
            Request::KeepLeaseTerm { lease, term } => {
                self.feed(Input::Command(Command::KeepLeaseTerm { lease, term }));
            }
            Request::Join { addresses, answer } => {
                self.ask_with_ticket(answer, |ticket| Command::Join { ticket, addresses });
            }
            Request::Remove { id, force, answer } => {
                self.ask_with_ticket(answer, |ticket| Command::Remove { ticket, id, force });
            }
            Request::Drain { is_draining, answer } => {
                self.ask_with_ticket(answer, |ticket| Command::Drain { ticket, is_draining });
            }
            Request::SetAddress { address, answer } => {
                self.ask_with_ticket(answer, |ticket| Command::SetAddress { ticket, address });
            }
            Request::AddVoter { id, answer } => {
                self.ask_with_ticket(answer, |ticket| Command::AddVoter { ticket, id });
            }
            Request::RemoveVoter { id, answer } => {
                self.ask_with_ticket(answer, |ticket| Command::RemoveVoter { ticket, id });
            }
            Request::ReplaceVoter { old, new, answer } => {
                self.ask_with_ticket(answer, |ticket| Command::ReplaceVoter { ticket, old, new });
            }
            Request::Resign { to, answer } => {
                self.ask_with_ticket(answer, |ticket| Command::Resign { ticket, to });
            }
            Request::ConfirmLeadership { answer } => {
                self.ask_with_ticket(answer, |ticket| Command::ConfirmLeadership { ticket });
            }
            Request::Recover { voters, answer } => {
                self.ask_with_ticket(answer, |ticket| Command::Recover { ticket, voters });
            }
            Request::FoundAnew { voters, answer } => {
                self.ask_with_ticket(answer, |ticket| Command::FoundAnew { ticket, voters });
            }
            Request::SetTags { tags, answer } => {
                self.ask_with_ticket(answer, |ticket| Command::SetTags { ticket, tags });
            }
        }
    }

    fn ask_with_ticket(&mut self, answer: oneshot::Sender<Reply>, command: impl FnOnce(Ticket) -> Command) {
        // A caller that went away needs no answer; the core's comes all the same and finds nobody.
        self.waiting.retain(|_, waiting| !waiting.is_closed());
        if self.waiting.len() >= MAX_PENDING_COMMANDS {
            let _ = answer.send(Reply::Refused(CommandError::Busy));
            return;
        }
        self.last_ticket += 1;
        self.waiting.insert(self.last_ticket, answer);
        self.feed(Input::Command(command(self.last_ticket)));
    }
}
