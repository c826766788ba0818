//! Spreading: when updates go out and what a gossip packet carries; what is done for the messages of programs and for news about
//! leases, and what both are told of links and members.
//!
//! Must not know: how peers and updates are chosen (see `dissemination`), how messages are kept, sent on, repaired and
//! acknowledged, or what news about leases means.

use std::time::Duration;

use crate::Core;
use crate::counters::Carrier;
use crate::dissemination::{Gossip, LeaseUpdates};
use crate::limits::{DIRECT_RETRY, SENDS_INTO_SILENCE, SPREAD_PACKETS};
use crate::messages::Overdue;
use crate::time::whole_ms;
use crate::view::Slot;
use crate::wire::{LeaseUpdate, Message, Span};

/// Gossip.
impl Core {
    /// Sends a packet that carries what the peer may lack: of the leader, of members, of broadcasts. `next`: it is the peer's
    /// turn, and its next one comes within that time.
    pub(crate) fn gossip_to(&mut self, slot: Slot, next: Option<Duration>) {
        if !self.observers.observes(slot) {
            return Gossip::show_fingerprint(&mut outbox!(self), slot);
        }
        let mut packet = self.out().packet_to(slot);
        if let Some(next) = next {
            packet.push(&Message::NextHeartbeat { after_ms: whole_ms(next) as u32 });
        }
        if let Some(lead) = &mut self.lead {
            lead.push_renewal(self.cx.now, &mut packet);
        }
        self.gossip.push_news_if_lacking(&mut outbox!(self), &mut packet, slot);
        self.messages.push_held(self.cx.now, &mut packet);
        let carrier = if next.is_some() { Carrier::Heartbeat } else { Carrier::Other };
        self.out().send_as(carrier, slot, packet);
    }

    /// Returns the members that news is sent to: more of them if it `is_own`.
    pub(crate) fn flood_targets(&mut self, is_own: bool) -> Vec<Slot> {
        self.gossip.flood_targets(&self.view, &self.observers, is_own)
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
                let (to, patience) = (self.view.record(slot).address, DIRECT_RETRY * SENDS_INTO_SILENCE);
                let actions = self.paths.links.silent(self.cx.now, receiver, to, since, patience);
                self.act_on_link(receiver, actions);
            }
            if self.paths.links.open(receiver).is_none() {
                self.ensure_link(slot);
            }
        }
        self.messages.direct.send_waiting(&mut outbox!(self), receiver);
    }
}

/// News about leases.
impl Core {
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
