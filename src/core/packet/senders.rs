//! The kind of a packet's sender: a member, or a stranger that perhaps claims to be one.
//!
//! A packet is the member's whose run it bears, wherever it comes from: a member may be behind a translator of addresses,
//! have several interfaces, or be at another address by now. What is sent to a member goes to the address in its record
//! all the same, which it alone writes (see `membership::moving`). By two ways nobody is a member:
//!
//! - a sealed datagram that is bound to no run: it may have been recorded, and be played here;
//! - a connection that leads to another address than the record's, until the member has proven itself there (see `links` and
//!   `guests`): else a member would stay Up by its own connections whose advertised address is dead.
//!
//! Invariants:
//! - Only a member's packet is a sign of life, or carries updates.
//! - A nonce for a record's address never goes anywhere else.
//!
//! Must not know: anything in a packet but the nonces that it brings back.

use super::inbox::Inbox;
use super::sender::{Sender, SenderKind};
use super::way::Way;
use crate::core::counters::DropReason;
use crate::core::member::Run;
use crate::core::view::{Slot, View};
use crate::core::wire::{Message, Nonce};
use crate::core::{Core, Phase};

/// Returns the nonce in a message that echoes a question of ours.
fn echo_in(message: &Message) -> Option<Nonce> {
    match message {
        Message::Ack { nonce } | Message::IAm { nonce, .. } => Some(*nonce),
        Message::WhoAreYou { echo, .. } => *echo,
        _ => None,
    }
}

impl Core {
    /// Returns the kind of a packet's sender with this run.
    pub(in crate::core) fn sender_kind(&self, run: Run, way: Way) -> SenderKind {
        if run.is_nobody() {
            return SenderKind::Stranger;
        }
        let Some(slot) = self.view.slot_of_run(run).filter(|slot| *slot != View::ME) else {
            return SenderKind::Stranger;
        };
        let home = self.view.record(slot).address;
        let is_its_own = match way {
            Way::Datagrams => true,
            Way::Unbound => false,
            Way::Link(link) => self.links.leads_to(run, link, home) || self.calls.leads_to(link, home),
        };
        if is_its_own { SenderKind::Member(slot) } else { SenderKind::ClaimsMember(slot) }
    }

    /// Returns true if a packet echoes a nonce that was sent to this member's address.
    pub(in crate::core) fn brings_proof(&self, slot: Slot, inbox: &Inbox) -> bool {
        let home = self.view.record(slot).address;
        inbox.messages().filter_map(echo_in).any(|nonce| self.prover.is_nonce(nonce, home, self.now))
    }

    /// Handles a packet of a connection that bears this member's run and does not lead to its address. If it is the
    /// member, it answers at that address, too. Its probe is acknowledged there: the member may wait for that to take the
    /// connection for this node's.
    pub(in crate::core) fn handle_claim(&mut self, slot: Slot, sender: Sender, probed: Option<Nonce>) {
        self.counters.drop(DropReason::Claimed);
        let run = self.view.record(slot).run;
        let is_by_connection = matches!(sender.way, Way::Link(_));
        if is_by_connection && matches!(self.phase, Phase::Up | Phase::Leaving) && self.guests.may_ask(run, self.now) {
            self.ask_at_home(slot, sender.bytes, probed);
        }
    }

    /// Sends a probe to a member's address, not longer than `asked` bytes if that was never proven.
    pub(in crate::core) fn ask_at_home(&mut self, slot: Slot, asked: usize, probed: Option<Nonce>) {
        let mut packet = self.packet(usize::MAX);
        if let Some(nonce) = probed {
            packet.push(&Message::Ack { nonce });
            self.acknowledge_over_greeting(slot, &[nonce]);
        }
        self.push_probe(&mut packet, slot);
        if packet.len() <= asked || self.view.entry(slot).peer.is_proven() {
            // This packet has no heartbeat, and replaces none: it was not this node's turn to send one.
            self.transmit_bytes_at_home(slot, packet.finish());
        }
    }
}
