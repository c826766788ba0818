//! Contacts: `join` commands under way, each with what is known of its addresses.
//!
//! Invariants: an address is asked every [`CONTACT_RETRY`] until its answer is final; a command ends by its deadline, or
//! when the view is dropped.
//!
//! Must not know: how a node joins.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::reunion::Reunion;
use crate::context::Context;
use crate::io::{CommandError, Contacted, Reply, Ticket};
use crate::limits::{CONTACT_TIMEOUT, MAX_PENDING_COMMANDS, MAX_SEEDS};
use crate::packet::Outbox;
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

impl Reunion {
    /// Carries out a command to contact addresses.
    pub(crate) fn contact(&mut self, out: &mut Outbox<'_>, ticket: Ticket, addresses: &[SocketAddr]) {
        if self.contacts.open.len() >= MAX_PENDING_COMMANDS {
            return out.cx.reply(ticket, Reply::Refused(CommandError::Busy));
        }
        let results = addresses.iter().take(MAX_SEEDS).map(|address| (*address, Contacted::Silent)).collect();
        let contact = Contact { deadline: out.cx.now + CONTACT_TIMEOUT, results };
        self.contacts.open.insert(ticket, contact);
        let me = out.view.me();
        let (mine, answer) = (me.address, Contacted::Answered { id: me.id.clone() });
        self.contacted(out.cx, mine, &answer);
        if out.cx.phase.is_joining() {
            // Not a member yet: these are places to join through.
            self.join_through(addresses.iter().copied().filter(|address| *address != mine));
            out.cx.timers.set_by(Timer::JoinTry, out.cx.now);
        }
        self.end_contact(out, ticket);
    }

    /// Ends the commands under way with what is known, as the view is dropped.
    pub(crate) fn end_contacts(&mut self, cx: &mut Context) {
        for (ticket, contact) in std::mem::take(&mut self.contacts.open) {
            cx.reply(ticket, Reply::Joined(contact.results));
        }
    }

    /// Asks again, or ends when all have answered or the time is over.
    pub(crate) fn end_contact(&mut self, out: &mut Outbox<'_>, ticket: Ticket) {
        let Some(contact) = self.contacts.open.get(&ticket) else { return };
        let unanswered = contact.results.iter().filter(|(_, contacted)| !contacted.is_final());
        let unanswered: Vec<SocketAddr> = unanswered.map(|(address, _)| *address).collect();
        if unanswered.is_empty() || out.cx.now >= contact.deadline {
            return self.finish(out.cx, ticket);
        }
        let next = contact.deadline.min(out.cx.now + CONTACT_RETRY);
        if !out.cx.phase.is_joining() {
            for address in unanswered {
                out.ask_who(address);
            }
        }
        out.cx.timers.set(Timer::Contact(ticket), next);
    }

    /// Answers a command with what is known.
    fn finish(&mut self, cx: &mut Context, ticket: Ticket) {
        cx.timers.cancel(Timer::Contact(ticket));
        if let Some(contact) = self.contacts.open.remove(&ticket) {
            cx.reply(ticket, Reply::Joined(contact.results));
        }
    }

    /// Takes note of an answer from this address in the commands that wait for one, and ends those that wait for
    /// nothing more.
    pub(crate) fn contacted(&mut self, cx: &mut Context, from: SocketAddr, what: &Contacted) {
        self.note_somebody_else(from);
        let mut complete = Vec::new();
        for (ticket, contact) in &mut self.contacts.open {
            for (_, result) in contact.results.iter_mut().filter(|(address, _)| *address == from) {
                result.improve(what.clone());
            }
            if contact.results.iter().all(|(_, contacted)| contacted.is_final()) {
                complete.push(*ticket);
            }
        }
        for ticket in complete {
            self.finish(cx, ticket);
        }
    }
}
