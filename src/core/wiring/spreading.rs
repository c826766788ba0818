//! Spreading: when updates go out and what a gossip packet carries; what is done for the messages of programs and for news about
//! leases, and what both are told of links and members.
//!
//! Must not know: how peers and updates are chosen (see `dissemination`), how messages are kept, sent on, repaired and
//! acknowledged, or what news about leases means.

use crate::Core;
use crate::counters::Carrier;
use crate::dissemination::{Gossip, LeaseUpdates};
use crate::io::Command;
use crate::limits::{DIRECT_RETRY, SENDS_INTO_SILENCE, SPREAD_PACKETS};
use crate::messages::{Overdue, Unlinked};
use crate::view::Slot;
use crate::wire::{LeaseUpdate, Span};

/// Gossip.
impl Core {
    /// Gossips to the next peers.
    pub(crate) fn gossip(&mut self) {
        for slot in self.gossip.next_peers(&mut outbox!(self)) {
            self.gossip_to(slot, Carrier::Gossip);
            self.cx.counters.gossip_sent += 1;
        }
    }

    /// Sends a packet that is a heartbeat, and carries what the peer may lack: of the leader, of members, of broadcasts.
    pub(crate) fn gossip_to(&mut self, slot: Slot, carrier: Carrier) {
        if !self.observers.observes(slot) {
            return Gossip::show_fingerprint(&mut outbox!(self), slot);
        }
        let mut packet = self.out().packet_to(slot);
        self.push_leader_renewal(&mut packet);
        self.gossip.push_news_if_lacking(&mut outbox!(self), &mut packet, slot);
        self.messages.push_held(self.cx.now, &mut packet);
        self.out().send_as(carrier, slot, packet);
    }

    /// Returns the members that news is sent to: more of them if it `is_own`.
    pub(crate) fn flood_targets(&mut self, is_own: bool) -> Vec<Slot> {
        self.gossip.flood_targets(&self.view, &self.observers, is_own)
    }
}

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
}

/// Broadcasts.
impl Core {
    /// Answers a member that lacks broadcasts, with a link for large ones first.
    pub(crate) fn asked_for_broadcasts(&mut self, slot: Slot, spans: &[Span]) {
        if self.messages.is_link_needed(&outbox!(self), slot, spans) {
            self.ensure_link(slot);
        }
        self.messages.on_want_broadcasts(&mut outbox!(self), slot, spans);
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

/// Direct messages.
impl Core {
    /// Acts on the deadline of a direct message: has it sent again, over another link if nothing comes by this one.
    pub(crate) fn on_direct_deadline(&mut self, number: u64) {
        let Some(Overdue { receiver, sent_since }) = self.messages.direct.on_deadline(&mut self.cx, number) else {
            return;
        };
        if let Some(slot) = self.view.slot_of_run(receiver) {
            if let Some(since) = sent_since {
                self.renew_silent_link(slot, since, DIRECT_RETRY * SENDS_INTO_SILENCE);
            }
            if !self.is_linked(receiver) {
                self.ensure_link(slot);
            }
        }
        self.messages.direct.send_waiting(&mut outbox!(self), receiver);
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
}
