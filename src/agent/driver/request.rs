//! Requests of handles, and the callers that wait for their answers.
//!
//! Owns the tickets under which the core answers. Never more callers wait than [`MAX_PENDING_COMMANDS`]; what comes on top
//! is refused at once.
//!
//! Must not know: what a command does.

use tokio::sync::oneshot;

use super::Driver;
use crate::agent::request::Request;
use crate::core::limits::MAX_PENDING_COMMANDS;
use crate::core::{Command, CommandError, Input, Reply, Ticket};

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

    /// Gives the callers the answers that came since this was called last.
    pub(super) fn answer(&mut self) {
        for (caller, reply) in self.answered.drain(..) {
            // A caller that went away meanwhile needs no answer.
            let _ = caller.send(reply);
        }
    }
}
