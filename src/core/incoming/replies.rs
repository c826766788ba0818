//! Answers to whoever is no member, or none by the way that its packet took.
//!
//! Invariant: what may be a recording, or comes from an address that proved nothing, gets no more bytes than it brought.
//!
//! Must not know: what becomes of whoever is answered.

use std::net::SocketAddr;

use super::Answer;
use crate::counters::DropReason;
use crate::io::{Notice, Output, Receiver};
use crate::joining::push_unreachable;
use crate::leadership::Lead;
use crate::limits::MAX_HEADER_BYTES;
use crate::member::{ProtocolRange, Record, Status};
use crate::packet::{Introduction, Outbox, Sender, SenderKind, Turn, Way};
use crate::wire::{Message, Packet, PacketBuilder, PacketError, Refusal};

/// Refuses a packet that cannot be read.
pub(crate) fn reject(out: &mut Outbox<'_>, from: SocketAddr, error: PacketError) {
    match error {
        PacketError::Malformed => out.cx.counters.drop(DropReason::Malformed),
        PacketError::UnknownKey { .. } => out.cx.counters.drop(DropReason::UnknownKey),
        PacketError::Refused { speaks } => {
            out.cx.counters.drop(DropReason::UnknownVersion);
            // Of another kind than what seeds say: neither hides the other.
            out.cx.notice("refused version", Notice::Refused { by: from, refusal: Refusal::Protocol { speaks } });
        }
        PacketError::UnknownVersion { found } => {
            out.cx.counters.drop(DropReason::UnknownVersion);
            out.cx.notice("unknown version", Notice::UnknownVersion { from, version: found });
            if out.packets.turns.take(out.cx.now, Turn::Refusal, from) {
                let bytes = Packet::refusal(ProtocolRange::OURS);
                out.cx.output(Output::Transmit { to: from, receiver: Receiver::Anybody, bytes });
            }
        }
    }
}

/// Answers a stranger whose address this very packet proved; says whether there was anything to answer. It is asked who it is
/// in turn, if this node `may_meet` others now.
pub(crate) fn answer_proven(
    out: &mut Outbox<'_>,
    lead: Option<&Lead>,
    may_meet: bool,
    sender: Sender,
    answer: &Answer,
) -> bool {
    let mut packet = out.packet(usize::MAX);
    // Also a member that is heard from elsewhere: it reads what is sent there, and may know who this is.
    let is_introduced =
        answer.shown.introduction.is_some_and(Introduction::is_proven) || answer.shown.has_brought_nonce;
    if let Some(nonce) = answer.owed.introduce.filter(|_| answer.shown.has_echoed || is_introduced) {
        if let Some(lead) = lead.filter(|_| answer.kind == SenderKind::Stranger) {
            // It may be a voter with an empty disk.
            lead.push_founded(&mut packet);
        }
        packet.push(&Message::IAm { nonce, record: Record::clone(out.view.me()) });
        push_status_by_bootstrap(out, &mut packet, sender, answer);
        push_unreachable(out, &mut packet, sender, answer.kind, answer.shown.advertised, nonce);
    }
    match answer.shown.introduction {
        Some(Introduction::Tombstoned { incarnation })
            if out.packets.turns.take(out.cx.now, Turn::HeldStatus, sender.from) =>
        {
            let nonce = out.packets.prover.nonce(sender.from, out.cx.now);
            packet.push(&Message::WhoAreYou { nonce, echo: None });
            packet.push(&Message::HeldStatus { run: sender.run, incarnation, status: Status::Down, age_ms: 0 });
        }
        Some(Introduction::Outdated { newer }) => {
            if out.packets.turns.take(out.cx.now, Turn::HeldStatus, sender.from) {
                // It will raise its incarnation above this record, and may say so at once.
                let nonce = out.packets.prover.nonce(sender.from, out.cx.now);
                packet.push(&Message::WhoAreYou { nonce, echo: None });
            }
            let Record { run, incarnation, status, .. } = **out.view.record(newer);
            if run == sender.run {
                // It may hold this node at another address, too, and then takes no news from here.
                packet.push(&Message::HeldStatus { run, incarnation, status, age_ms: 0 });
            } else {
                out.push_update(&mut packet, newer);
            }
        }
        _ => {}
    }
    if answer.shown.has_echoed && may_meet {
        let nonce = out.packets.prover.nonce(sender.from, out.cx.now);
        packet.push(&Message::WhoAreYou { nonce, echo: None });
    }
    let is_needed = !packet.is_empty();
    if is_needed {
        out.transmit(sender.from, Receiver::of(sender.run), packet);
    }
    is_needed
}

/// Adds the status of a member that is held as gone to the answer over a bootstrap link in its name: if that
/// member is at the other end, it may refute this. It believes it, since it opened the link to this node's own address.
fn push_status_by_bootstrap(out: &Outbox<'_>, packet: &mut PacketBuilder, sender: Sender, answer: &Answer) {
    let SenderKind::ClaimsMember(slot) = answer.kind else { return };
    let record = out.view.record(slot);
    if matches!(sender.way, Way::Link(_)) && record.status.is_accused() {
        packet.push(&Message::HeldStatus {
            run: record.run,
            incarnation: record.incarnation,
            status: record.status,
            age_ms: 0,
        });
    }
}

/// Answers a member that asks whoever is here who that is, at the member's own proven address and bound to its run;
/// says whether there was anything to answer. The question may be a recording, so that the answer is not larger.
pub(crate) fn answer_unbound(out: &mut Outbox<'_>, sender: Sender, answer: &Answer) -> bool {
    let (SenderKind::ClaimsMember(slot), Some(nonce)) = (answer.kind, answer.owed.introduce) else { return false };
    let entry = out.view.entry(slot);
    let is_at_address = entry.peer.is_proven() && entry.record.address == sender.from && entry.record.run == sender.run;
    if sender.way != Way::Unbound || !is_at_address || out.cx.phase.is_joining() {
        return false;
    }
    let mut packet = out.packet(sender.bytes.max(MAX_HEADER_BYTES));
    packet.push(&Message::Reply);
    let is_answered = packet.push(&Message::IAm { nonce, record: Record::clone(out.view.me()) });
    if is_answered {
        out.push_told(&mut packet, slot);
        out.transmit(sender.from, Receiver::Run(sender.run), packet);
    }
    is_answered
}
