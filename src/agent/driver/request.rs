//! Requests of handles, calls of other agents, and the callers that wait for their answers.
//!
//! Owns the tickets under which the core answers. Never more callers wait than [`MAX_PENDING_COMMANDS`]; what comes on top
//! is refused at once. Of connections by which other agents call at most [`Links::share`](crate::transport::Links::share) are
//! kept: the one that was used least recently makes room, and its caller may open another one.
//!
//! Must not know: what a command does.

use tokio::sync::oneshot;

use super::Driver;
use crate::agent::messages::{DirectAnswer, DirectCall};
use crate::agent::request::Request;
use crate::core::limits::MAX_PENDING_COMMANDS;
use crate::core::{Command, CommandError, Input, LinkEvent, LinkId, Reply, Ticket};

/// Whoever waits for an answer.
#[derive(Debug)]
pub(super) enum Caller {
    /// A handle.
    Handle(oneshot::Sender<Reply>),
    /// Another agent, by a connection of its own.
    Agent(LinkId),
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
            Request::Doubt { id, answer } => {
                self.ask_with_ticket(answer, |ticket| Command::Doubt { ticket, id });
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

    /// Takes a broadcast that another agent brings; `None`: a call that cannot be read, after which the connection is of no use.
    pub(super) fn called(&mut self, link: LinkId, call: Option<DirectCall>) {
        self.calling.retain(|calling| *calling != link);
        let Some(call) = call else { return self.hang_up(link) };
        self.calling.push_back(link);
        if self.calling.len() > self.parts.links.share()
            && let Some(oldest) = self.calling.pop_front()
        {
            self.hang_up(oldest);
        }
        let shared = &self.parts.shared;
        if !shared.has_leases() {
            let refusal = DirectAnswer::refused(format!("{} has no table of leases, and takes no calls", shared.me));
            return self.parts.links.send(link, refusal.frame());
        }
        match call.broadcast(self.parts.sealing.cluster(), &shared.me) {
            Ok(direct) => self.ask_for(Caller::Agent(link), |ticket| Command::Deliver { ticket, direct }),
            Err(refusal) => self.parts.links.send(link, refusal.frame()),
        }
    }

    /// Closes the connection of a caller. The core may know it, since whoever calls may have sent other frames before.
    fn hang_up(&mut self, link: LinkId) {
        self.parts.links.close(link);
        self.feed(Input::Link { link, event: LinkEvent::Closed });
    }

    fn ask_with_ticket(&mut self, answer: oneshot::Sender<Reply>, command: impl FnOnce(Ticket) -> Command) {
        self.ask_for(Caller::Handle(answer), command);
    }

    fn ask_for(&mut self, caller: Caller, command: impl FnOnce(Ticket) -> Command) {
        // A caller that went away needs no answer; the core's comes all the same and finds nobody.
        self.waiting.retain(|_, waiting| !matches!(waiting, Caller::Handle(handle) if handle.is_closed()));
        if self.waiting.len() >= MAX_PENDING_COMMANDS {
            return self.give(caller, Reply::Refused(CommandError::Busy));
        }
        self.last_ticket += 1;
        self.waiting.insert(self.last_ticket, caller);
        self.feed(Input::Command(command(self.last_ticket)));
    }

    /// Gives the callers the answers that came since this was called last.
    pub(super) fn answer(&mut self) {
        for (caller, reply) in std::mem::take(&mut self.answered) {
            self.give(caller, reply);
        }
    }

    fn give(&self, caller: Caller, reply: Reply) {
        match caller {
            // A caller that went away meanwhile needs no answer.
            Caller::Handle(handle) => _ = handle.send(reply),
            Caller::Agent(link) => self.parts.links.send(link, DirectAnswer::from(reply).frame()),
        }
    }
}
