//! Messaging: what is done for the messages of programs and for news about leases, and what both are told of links and
//! members.
//!
//! Must not know: how messages are kept, sent on, repaired and acknowledged; what news about leases means.

use std::net::SocketAddr;

use crate::Core;
use crate::dissemination::LeaseUpdates;
use crate::doors::Command;
use crate::limits::{LETTER_RETRY, LETTERS_INTO_SILENCE, SPREAD_PACKETS};
use crate::member::Run;
use crate::messages::{Overdue, Unlinked};
use crate::packet::Way;
use crate::view::Slot;
use crate::wire::{Broadcast, LeaseUpdate, Letter, PacketBuilder, Span};

impl Core {
    /// Carries out a command about messages.
    pub(crate) fn message_command(&mut self, command: Command) {
        let unlinked = self.messages.command(&mut outbox!(self), command);
        if let Some(Unlinked { receiver, number }) = unlinked
            && !self.ensure_link(receiver)
        {
            self.messages.direct.give_up(&mut self.cx, number);
        }
    }

    /// Sets the timers of messages anew, as all timers were cleared.
    pub(crate) fn resume_messages(&mut self) {
        self.messages.resume(&mut self.cx);
    }
}

/// Broadcasts.
impl Core {
    /// Takes a copy of a broadcast that came from a member.
    pub(crate) fn on_broadcast(&mut self, slot: Slot, message: &Broadcast) {
        self.messages.on_broadcast(&mut outbox!(self), slot, message);
    }

    /// Takes a member's word on the broadcasts that it holds.
    pub(crate) fn on_have_broadcasts(&mut self, slot: Slot, spans: &[Span]) {
        self.messages.on_have_broadcasts(&mut outbox!(self), slot, spans);
    }

    /// Answers a member that lacks broadcasts, with a link for large ones first.
    pub(crate) fn asked_for_broadcasts(&mut self, slot: Slot, spans: &[Span]) {
        if self.messages.is_link_needed(&outbox!(self), slot, spans) {
            self.ensure_link(slot);
        }
        self.messages.on_want_broadcasts(&mut outbox!(self), slot, spans);
    }

    /// Adds what is held of broadcasts to a packet that is sent anyway.
    pub(crate) fn push_held_broadcasts(&mut self, packet: &mut PacketBuilder) {
        self.messages.push_held(self.cx.now, packet);
    }

    /// Sends on the broadcasts that have gathered, at most so many packets to each target.
    pub(crate) fn spread(&mut self) {
        self.messages.announce_large(&mut outbox!(self));
        for _ in 0..SPREAD_PACKETS {
            let batch = self.messages.next_batch(self.datagram_bytes());
            if batch.is_empty() {
                return;
            }
            let targets = self.flood_targets(batch.iter().any(|id| id.run == self.cx.run));
            self.messages.send_batch(&mut outbox!(self), &batch, targets);
        }
        self.messages.plan_next_batch(&mut self.cx);
    }

    /// Does what is due about broadcasts that others, or this node, may lack.
    pub(crate) fn repair_messages(&mut self) {
        let is_telling_due = self.messages.is_telling_due(self.cx.now);
        let peers = if is_telling_due { self.flood_targets(false) } else { Vec::new() };
        self.messages.repair(&mut outbox!(self), &peers);
    }
}

/// Direct messages, which the wire and the driver's timers call letters.
impl Core {
    /// Takes a direct message that came from a member.
    pub(crate) fn on_letter(&mut self, slot: Slot, way: Way, letter: &Letter) {
        self.messages.on_direct(&mut outbox!(self), slot, way, letter);
    }

    /// Takes a member's receipt for a direct message of this node.
    pub(crate) fn on_receipt(&mut self, slot: Slot, number: u64) {
        self.messages.direct.on_receipt(&mut outbox!(self), slot, number);
    }

    /// Returns true if a direct message to this process waits for a link, its receipt or its answer.
    pub(crate) fn has_letters_for(&self, run: Run) -> bool {
        self.messages.direct.is_any_for(run)
    }

    /// Sends the direct messages that wait for this process, if there is a link.
    pub(crate) fn send_letters(&mut self, run: Run) {
        self.messages.direct.send_waiting(&mut outbox!(self), run);
    }

    /// Has the direct messages to a process wait for its next link, as the last one was given up.
    pub(crate) fn letters_wait(&mut self, run: Run) {
        self.messages.direct.wait_for_link(run);
    }

    /// Acts on the deadline of a direct message: has it sent again, over another link if nothing comes by this one.
    pub(crate) fn tend_letter(&mut self, number: u64) {
        let Some(Overdue { receiver, sent_since }) = self.messages.direct.on_deadline(&mut self.cx, number) else {
            return;
        };
        if let Some(slot) = self.view.slot_of_run(receiver) {
            if let Some(since) = sent_since {
                self.renew_silent_link(slot, since, LETTER_RETRY * LETTERS_INTO_SILENCE);
            }
            if !self.is_linked(receiver) {
                self.ensure_link(slot);
            }
        }
        self.send_letters(receiver);
    }

    /// Gives up the direct messages that have no link to this process, and none soon.
    pub(crate) fn letters_have_no_link(&mut self, run: Run) {
        self.messages.direct.give_up_unlinked(&mut self.cx, &self.view, run);
    }

    /// Gives up all direct messages, as this node stops.
    pub(crate) fn forget_letters(&mut self) {
        self.messages.direct.give_up_all(&mut self.cx);
    }
}

/// News about leases.
impl Core {
    /// Sends an update of this node's agent to all others.
    pub(crate) fn tell_lease_update(&mut self, update: LeaseUpdate) {
        if self.lease_updates.note_if_newer(&update) {
            let targets = self.flood_targets(true);
            LeaseUpdates::pass_on(&mut outbox!(self), update, targets.into_iter());
        }
    }

    /// Handles an update that a member sent, or passed on.
    pub(crate) fn on_lease_update(&mut self, from: Slot, update: &LeaseUpdate) {
        let is_contact = self.reunion.is_contact_of(self.view.entry(from));
        let is_believed = self.arrivals.counts_about_leases(self.cx.now, &self.view, from, is_contact);
        if self.lease_updates.on_update(&mut outbox!(self), from, update, is_believed) {
            let targets = self.flood_targets(false).into_iter().filter(|target| *target != from);
            LeaseUpdates::pass_on(&mut outbox!(self), update.clone(), targets);
        }
    }

    /// Handles an update of the sponsor, before this node is Up.
    pub(crate) fn on_lease_update_of_sponsor(&mut self, update: &LeaseUpdate) {
        self.lease_updates.on_update_of_sponsor(&mut self.cx, update);
    }

    /// Tells a node that this one brings in the highest terms of all leases, within its share of the view's pages.
    pub(crate) fn teach_lease_terms(&mut self, to: SocketAddr, run: Run) {
        self.lease_updates.teach(&mut outbox!(self), to, run);
    }
}
