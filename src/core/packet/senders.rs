//! The sender of a packet: a member, or a stranger that perhaps claims to be one, and may have proven an address.
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
//! Must not know: anything in a packet but the nonces that it brings back, or how strangers are dealt with (see `joining` and
//! `discovery`).

use std::net::SocketAddr;

use super::inbox::Inbox;
use super::outbox::Outbox;
use super::way::Way;
use crate::connectivity::Paths;
use crate::member::{Record, Run};
use crate::view::{Slot, View};
use crate::wire::{Message, Nonce};

/// The origin of a packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sender {
    pub(crate) from: SocketAddr,
    pub(crate) run: Run,
    /// Its standing with this node when the packet came.
    pub(crate) kind: SenderKind,
    /// The way it came; answers go the same way.
    pub(crate) way: Way,
    /// Size of the packet: no answer to an unproven address is larger. Where datagrams are sealed it is less, so that it is
    /// true of what travels.
    pub(crate) bytes: usize,
}

/// The relation of a packet's sender to this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SenderKind {
    /// A member: whoever bears its run, wherever it is.
    Member(Slot),
    /// Somebody who bears this member's run by a connection that is not known to lead to it, or by a packet that is bound to
    /// nobody.
    ClaimsMember(Slot),
    /// A node whose run is not in the view, or an anonymous one.
    Stranger,
}

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

/// A node whose cookie came back.
#[derive(Debug, Clone)]
pub(crate) struct Newcomer {
    /// The address that answers go to: the cookie was sent there.
    pub(crate) from: SocketAddr,
    /// The source address of its packets.
    pub(crate) heard_from: SocketAddr,
    pub(crate) nonce: Nonce,
    pub(crate) record: Record,
}

/// The outcome of an introduction (`IAm`).
#[derive(Debug, Clone, Copy)]
pub(crate) enum Introduction {
    /// The introduction was not asked for, or is not to be believed now.
    Ignored,
    /// The introduction was asked for, by a node that is Joining and admits no members.
    Met,
    /// The introduced node is in the view.
    Member,
    /// The introduced node is live, but has a tombstone here: it must be told, and refute.
    Tombstoned {
        /// The incarnation of the tombstone.
        incarnation: u64,
    },
    /// A newer record of its name is held.
    Outdated {
        /// The slot of the newer record.
        newer: Slot,
    },
}

impl Introduction {
    /// Returns true if the introduction was asked for, and so proves its sender's address.
    pub(crate) fn is_proven(self) -> bool {
        !matches!(self, Introduction::Ignored)
    }

    /// Returns true if its sender proved its address, and is not a member.
    pub(crate) fn is_unlisted(self) -> bool {
        matches!(self, Introduction::Tombstoned { .. } | Introduction::Outdated { .. })
    }
}
