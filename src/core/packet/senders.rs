//! The kind of a packet's sender: a member, or a stranger that perhaps claims to be one.
//!
//! A packet is the member's whose run it bears, wherever it comes from: a member may be behind a translator of addresses,
//! have several interfaces, or be at another address by now. What is sent to a member goes to the address in its record
//! all the same, which it alone writes (see `membership::moving`). What comes in two ways is no member's:
//!
//! - a sealed datagram that is bound to no run: it may have been recorded, and be played here;
//! - a connection that leads to another address than the record's, until the member has proven that one (see
//!   `connectivity::links` and `connectivity::unproven`): else a member would stay Up by its own connections whose
//!   advertised address is dead.
//!
//! Invariants:
//! - Only a member's packet is a sign of life, or carries updates.
//! - A nonce for a record's address never goes anywhere else.
//!
//! Must not know: anything in a packet but the nonces that it brings back.

use super::inbox::Inbox;
use super::outbox::Outbox;
use super::sender::SenderKind;
use super::way::Way;
use crate::connectivity::Paths;
use crate::member::Run;
use crate::view::{Slot, View};
use crate::wire::{Message, Nonce};

/// Returns the nonce in a message that echoes a question of ours.
fn echo_in(message: &Message) -> Option<Nonce> {
    match message {
        Message::Ack { nonce } | Message::IAm { nonce, .. } => Some(*nonce),
        Message::WhoAreYou { echo, .. } => *echo,
        _ => None,
    }
}

/// Returns the kind of a packet's sender with this run.
pub(crate) fn sender_kind(view: &View, paths: &Paths, run: Run, way: Way) -> SenderKind {
    if run.is_nobody() {
        return SenderKind::Stranger;
    }
    let Some(slot) = view.slot_of_run(run).filter(|slot| *slot != View::ME) else {
        return SenderKind::Stranger;
    };
    let address = view.record(slot).address;
    let is_its_own = match way {
        Way::Datagrams => true,
        Way::Unbound => false,
        Way::Link(link) => paths.links.leads_to(run, link, address) || paths.bootstrap.leads_to(link, address),
    };
    if is_its_own { SenderKind::Member(slot) } else { SenderKind::ClaimsMember(slot) }
}

/// Returns true if a packet echoes a nonce that was sent to this member's address.
pub(crate) fn brings_proof(out: &Outbox<'_>, slot: Slot, inbox: &Inbox) -> bool {
    let address = out.view.record(slot).address;
    inbox.messages().filter_map(echo_in).any(|nonce| out.packets.prover.is_nonce(nonce, address, out.cx.now))
}
