//! Contacts: `join` commands under way, each with what is known of its addresses.
//!
//! Invariants: an address is asked every [`CONTACT_RETRY`] until its answer is final; a command ends by its deadline, or
//! when the view is dropped.
//!
//! Must not know: how a node joins.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::Core;
use crate::doors::{CommandError, Contacted, Reply, Ticket};
use crate::limits::{CONTACT_TIMEOUT, MAX_PENDING_COMMANDS, MAX_SEEDS};
use crate::member::NodeId;
use crate::time::Time;
use crate::timers::Timer;

/// Pause between two questions to an address of a `join` command that has not answered.
const CONTACT_RETRY: Duration = Duration::from_millis(500);

/// The `join` commands under way.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contacts {
    open: BTreeMap<Ticket, Contact>,
}

/// A `join` command under way.
#[derive(Debug, Clone)]
struct Contact {
    deadline: Time,
    results: Vec<(SocketAddr, Contacted)>,
}

impl Contacts {
    /// Returns true if a command under way names this address.
    pub(super) fn are_asked(&self, address: SocketAddr) -> bool {
        self.open.values().any(|contact| contact.results.iter().any(|(asked, _)| *asked == address))
    }
}

impl Core {
    /// Carries out a command to contact addresses.
    pub(crate) fn contact(&mut self, ticket: Ticket, addresses: &[SocketAddr]) {
        if self.reunion.contacts.open.len() >= MAX_PENDING_COMMANDS {
            return self.cx.reply(ticket, Reply::Refused(CommandError::Busy));
        }
        let results = addresses.iter().take(MAX_SEEDS).map(|address| (*address, Contacted::Silent)).collect();
        let contact = Contact { deadline: self.cx.now + CONTACT_TIMEOUT, results };
        self.reunion.contacts.open.insert(ticket, contact);
        let me = self.me();
        let (mine, id) = (me.address, me.id.clone());
        self.answered_contact(mine, &id);
        if self.cx.phase.is_joining() {
            // Not a member yet: these are places to join through.
            self.reunion.join_through(addresses.iter().copied().filter(|address| *address != mine));
            self.cx.timers.set_by(Timer::JoinTry, self.cx.now);
        }
        self.end_contact(ticket);
    }

    /// Ends the commands under way with what is known, as the view is dropped.
    pub(crate) fn end_contacts(&mut self) {
        for (ticket, contact) in std::mem::take(&mut self.reunion.contacts.open) {
            self.cx.reply(ticket, Reply::Joined(contact.results));
        }
    }

    /// Asks again, or ends when all have answered or the time is over.
    pub(crate) fn end_contact(&mut self, ticket: Ticket) {
        let Some(contact) = self.reunion.contacts.open.get(&ticket) else { return };
        let unanswered = contact.results.iter().filter(|(_, contacted)| !contacted.is_final());
        let unanswered: Vec<SocketAddr> = unanswered.map(|(address, _)| *address).collect();
        if unanswered.is_empty() || self.cx.now >= contact.deadline {
            self.cx.timers.cancel(Timer::Contact(ticket));
            if let Some(contact) = self.reunion.contacts.open.remove(&ticket) {
                self.cx.reply(ticket, Reply::Joined(contact.results));
            }
            return;
        }
        let next = contact.deadline.min(self.cx.now + CONTACT_RETRY);
        if !self.cx.phase.is_joining() {
            for address in unanswered {
                self.out().ask_who(address);
            }
        }
        self.cx.timers.set(Timer::Contact(ticket), next);
    }

    /// Takes note that a member answered at this address.
    pub(crate) fn answered_contact(&mut self, from: SocketAddr, id: &NodeId) {
        self.contacted(from, || Contacted::Answered { id: id.clone() });
    }

    /// Takes note that somebody answered at this address who is no member yet.
    pub(crate) fn answered_not_up(&mut self, from: SocketAddr, id: &NodeId) {
        self.contacted(from, || Contacted::NotUp { id: Some(id.clone()) });
    }

    /// Takes note of an answer from this address in the commands that wait for one, and ends those that wait for
    /// nothing more.
    pub(crate) fn contacted(&mut self, from: SocketAddr, what: impl Fn() -> Contacted) {
        self.reunion.note_somebody_else(from);
        let mut complete = Vec::new();
        for (ticket, contact) in &mut self.reunion.contacts.open {
            for (_, result) in contact.results.iter_mut().filter(|(address, _)| *address == from) {
                result.improve(what());
            }
            if contact.results.iter().all(|(_, contacted)| contacted.is_final()) {
                complete.push(*ticket);
            }
        }
        for ticket in complete {
            self.end_contact(ticket);
        }
    }
}
