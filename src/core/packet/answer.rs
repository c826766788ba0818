//! The answer to one packet: gathered while the packet's messages are handed on, and written where the sender is no member, or
//! none by the way that its packet took. (A member's is written in `wiring::receiving`.)
//!
//! Invariant: what may be a recording, or comes from an address that proved nothing, gets no more bytes than it brought.
//!
//! Must not know: how a message was dealt with, or what becomes of whoever is answered.

use std::mem::{Discriminant, discriminant};
use std::net::SocketAddr;

use super::outbox::Outbox;
use super::rates::Turn;
use super::senders::{Introduction, Sender, SenderKind};
use super::way::Way;
use crate::counters::DropReason;
use crate::election::ElectorateReport;
use crate::io::{Notice, Output, Receiver};
use crate::joining::push_unreachable;
use crate::leadership::Lead;
use crate::limits::MAX_HEADER_BYTES;
use crate::member::{NodeId, ProtocolRange, Record, Status};
use crate::wire::{Message, Nonce, Packet, PacketBuilder, PacketError, Refusal, Seeking, Span};

/// Everything gathered of one packet for the answer to it.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The way of the packet.
    pub(crate) way: Way,
    /// The sender's standing, now that the packet is read so far.
    pub(crate) kind: SenderKind,
    pub(crate) beside: Beside,
    pub(crate) shown: Shown,
    pub(crate) owed: Owed,
    /// Something was said that is only believed from members.
    pub(crate) stranger: bool,
    /// The kinds of questions that were answered by packets of their own.
    asked: Vec<Discriminant<Message>>,
}

/// The messages that go with others of a packet, and say how those are meant.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    pub(crate) is_reply: bool,
    /// True if the packet asks for confirmations.
    pub(crate) is_asked_to_confirm: bool,
    /// True if the packet is a page of a view. A joiner believes no other news: what waited in a kernel while it slept
    /// may be about the dead.
    pub(crate) is_page: bool,
    /// The last name that the packet brought news about, where it is a page.
    pub(crate) last_on_page: Option<NodeId>,
    /// The report of a sender that looks for a cluster on who is to found it.
    pub(crate) seeking: Option<Seeking>,
    /// The sender's report of its cluster's electorate, before it welcomes us.
    pub(crate) founded: Option<ElectorateReport>,
}

/// The signs, in a packet, of who its sender is, and where.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// The sender's own question echoed a nonce that was sent to where the packet came from.
    pub(crate) has_echoed: bool,
    /// The sender's introduction brought such a nonce.
    pub(crate) has_brought_nonce: bool,
    /// The address at which the sender, introducing itself, says that it is to be found.
    pub(crate) advertised: Option<SocketAddr>,
    /// The outcome of the sender's introduction.
    pub(crate) introduction: Option<Introduction>,
}

/// The parts of an answer that the sender is owed.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    pub(crate) acks: Vec<Nonce>,
    /// The introduction of this node, which was asked who it is.
    pub(crate) introduce: Option<Nonce>,
    /// The nonce of a probe by somebody who is no member this way: the question who it is can prove our address to it.
    pub(crate) probed: Option<Nonce>,
    /// When those were heard whom the sender asks about.
    pub(crate) testimony: Vec<Message>,
    /// Hashes, if confirmations are asked for, of the records held for the names that the packet brought news about.
    pub(crate) held: Vec<u64>,
    /// Hashes of the records whose confirmation is asked for.
    pub(crate) confirmed: Vec<u64>,
    /// Our own record, because the sender's picture of us is old.
    pub(crate) myself: bool,
    /// The ranges of broadcasts that the packet asks for, at most [`MAX_WANTS`](crate::limits::MAX_WANTS).
    pub(crate) wants: Vec<Span>,
}

impl Answer {
    pub(crate) fn new(kind: SenderKind, way: Way, beside: Beside) -> Self {
        let (shown, owed, asked) = Default::default();
        Self { way, kind, beside, shown, owed, stranger: false, asked }
    }

    /// Returns true if a message asks what the packet asked before, and would be answered by packets of its own; takes note of
    /// its kind if so.
    pub(crate) fn note_repeated(&mut self, message: &Message) -> bool {
        if !message.rules().is_answered_apart {
            return false;
        }
        let kind = discriminant(message);
        let is_repeated = self.asked.contains(&kind);
        if !is_repeated {
            self.asked.push(kind);
        }
        is_repeated
    }
}

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
