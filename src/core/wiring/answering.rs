//! Answers: what the messages of one packet make this node say to its sender, gathered and sent as one packet.
//!
//! Invariants:
//! - An answer to an address that is not proven is never larger than the question, and is limited in rate. No stranger is told
//!   our run before its address echoed a nonce of ours: until then answers are anonymous.
//! - Answers carry the reply flag, and a reply is never answered with updates.
//!
//! Must not know: how a message was dealt with, beyond the marks that it left in the [`Answer`].

use crate::Core;
use crate::counters::DropReason;
use crate::incoming::Answer;
use crate::io::Receiver;
use crate::joining::push_unreachable;
use crate::limits::{ANSWER_INTERVAL, MAX_HEADER_BYTES};
use crate::member::{Record, Status};
use crate::membership::may_confirm;
use crate::packet::{Introduction, Sender, SenderKind, Turn, Way};
use crate::view::{Slot, View, is_due};
use crate::wire::{Confirmation, Message, Nonce, PacketBuilder};

impl Core {
    pub(crate) fn answer_member(&mut self, slot: Slot, sender: Sender, fingerprint: u64, answer: &Answer) {
        if self.cx.phase.is_joining() {
            return self.answer_stranger(sender, answer);
        }
        // A member that asks who is here from another address than its record's may not read what is sent to that one.
        let asks_from_elsewhere = self.asks_from_elsewhere(slot, sender, answer);
        if asks_from_elsewhere {
            self.answer_stranger(sender, answer);
        }
        let is_live = self.view.record(slot).status.is_live();
        let differs = is_live && self.gossip.compare(self.cx.now, &self.view, slot, fingerprint);
        let peer = &self.view.entry(slot).peer;
        let with_updates =
            differs && !answer.beside.is_reply && is_due(self.cx.now, peer.rare().last_answer, ANSWER_INTERVAL);
        let mut confirmed: Vec<u64> =
            answer.owed.confirmed.iter().copied().filter(|hash| answer.owed.held.contains(hash)).collect();
        if !confirmed.is_empty() && !may_confirm(self.cx.phase, &self.view) {
            confirmed.clear();
        }
        let is_proven = peer.is_proven();
        if !is_proven && !is_due(self.cx.now, peer.rare().last_answer, ANSWER_INTERVAL) {
            return self.cx.counters.drop(DropReason::RateLimited);
        }
        let is_needed = with_updates
            || answer.owed.myself
            || answer.owed.introduce.is_some() && !asks_from_elsewhere
            || !answer.owed.acks.is_empty()
            || !answer.owed.testimony.is_empty()
            || !confirmed.is_empty()
            || self.out().must_be_told(slot);
        if !is_needed {
            return;
        }
        if answer.owed.myself {
            self.announce_by_bootstraps();
        }
        let mut packet = self.out().answer_of(slot, sender.bytes, &answer.owed.acks);
        for testimony in &answer.owed.testimony {
            packet.push(testimony);
        }
        for hash in confirmed {
            packet.push(&Message::Confirmed(Confirmation { record: Nonce(hash) }));
        }
        if let Some(nonce) = answer.owed.introduce.filter(|_| !asks_from_elsewhere) {
            if !(is_proven && self.me.incarnation.take_introduction(sender.run, self.view.record(slot).address, nonce))
            {
                packet.push(&Message::IAm { nonce, record: Record::clone(self.me()) });
            }
        } else if answer.owed.myself {
            self.out().push_update(&mut packet, View::ME);
        }
        if with_updates {
            self.gossip.push_recent_updates(&mut outbox!(self), &mut packet, u32::MAX);
        }
        if with_updates || !is_proven {
            self.view.peer_mut(slot).rare_mut().last_answer = Some(self.cx.now);
        }
        if is_proven || self.packets.turns.take_bytes(sender.bytes, packet.len()) {
            self.out().send_by(sender.way, slot, packet);
        }
    }

    /// Returns true if a member asks who is here, or says who it is, from another address than its record's.
    fn asks_from_elsewhere(&self, slot: Slot, sender: Sender, answer: &Answer) -> bool {
        sender.way == Way::Datagrams
            && self.view.record(slot).address != sender.from
            && (answer.owed.introduce.is_some() || answer.shown.introduction.is_some())
    }

    /// Answers a stranger's question by a question: a sender that proves its address by coming back is a stranger no
    /// more.
    pub(crate) fn answer_stranger(&mut self, sender: Sender, answer: &Answer) {
        if answer.stranger {
            self.cx.counters.drop(DropReason::UnknownRun);
        }
        let asked = answer.owed.introduce.or(answer.owed.probed);
        if let (SenderKind::ClaimsMember(_), Some(nonce)) = (answer.kind, asked) {
            // A member that opened a bootstrap link wants to know whether this node is here.
            let mut packet = self.out().packet(usize::MAX);
            packet.push(&Message::Ack { nonce });
            self.out().send_by_bootstrap(sender.from, &packet.finish());
        }
        if self.answer_proven(sender, answer) || self.answer_unbound(sender, answer) {
            return;
        }
        if answer.kind == SenderKind::Stranger {
            self.tell_lead(|lead, around| lead.stranger_is_at(around, sender.from));
        }
        let is_of_nobody_known = !matches!(answer.kind, SenderKind::ClaimsMember(_));
        let may_meet = !self.cx.phase.is_joining() || self.must_be_found();
        let is_ignored = answer.stranger && is_of_nobody_known && may_meet;
        if answer.owed.introduce.is_none() && !is_ignored {
            return;
        }
        let is_expected = self.packets.turns.is_expected(self.cx.now, sender.from);
        // A joiner has no record yet by which to introduce itself; but whose address is proven may know its run, as do
        // those whom this node asked before.
        let is_proven = answer.shown.has_echoed || answer.shown.has_brought_nonce;
        let is_introduction = is_proven && self.cx.phase.is_joining();
        let may_know = is_introduction || is_expected;
        let turn = if is_introduction { Turn::Introduction } else { Turn::Question };
        let is_allowed = self.packets.turns.take(self.cx.now, turn, sender.from)
            || (self.must_be_found() && self.joiner.take_answer_to_finder(self.cx.now, sender.from));
        if !is_allowed {
            return self.cx.counters.drop(DropReason::RateLimited);
        }
        let nonce = self.packets.prover.nonce(sender.from, self.cx.now);
        let mut packet = if may_know { self.out().packet(usize::MAX) } else { self.out().anonymous_packet(usize::MAX) };
        packet.push(&Message::WhoAreYou { nonce, echo: answer.owed.introduce.or(answer.owed.probed) });
        if packet.len() > sender.bytes && self.must_be_found() {
            // A bare heartbeat is too short for a question, but its sender looks here if a stranger answers.
            packet = self.out().anonymous_packet(usize::MAX);
            packet.push(&Message::Reply);
        }
        if self.packets.turns.take_bytes(sender.bytes, packet.len()) {
            self.out().transmit(sender.from, Receiver::of(sender.run), packet);
        }
    }

    /// Answers a member that asks whoever is here who that is, at the member's own proven address and bound to its run;
    /// says whether there was anything to answer. The question may be a recording, so that the answer is not larger.
    fn answer_unbound(&mut self, sender: Sender, answer: &Answer) -> bool {
        let (SenderKind::ClaimsMember(slot), Some(nonce)) = (answer.kind, answer.owed.introduce) else { return false };
        let entry = self.view.entry(slot);
        let is_at_address =
            entry.peer.is_proven() && entry.record.address == sender.from && entry.record.run == sender.run;
        if sender.way != Way::Unbound || !is_at_address || self.cx.phase.is_joining() {
            return false;
        }
        let mut packet = self.out().packet(sender.bytes.max(MAX_HEADER_BYTES));
        packet.push(&Message::Reply);
        let is_answered = packet.push(&Message::IAm { nonce, record: Record::clone(self.me()) });
        if is_answered {
            self.out().push_told(&mut packet, slot);
            self.out().transmit(sender.from, Receiver::Run(sender.run), packet);
        }
        is_answered
    }

    /// Adds the status of a member that is held as gone to the answer over a bootstrap link in its name: if that
    /// member is at the other end, it may refute this. It believes it, since it opened the link to this node's own address.
    fn push_status_by_bootstrap(&mut self, packet: &mut PacketBuilder, sender: Sender, answer: &Answer) {
        let SenderKind::ClaimsMember(slot) = answer.kind else { return };
        let record = self.view.record(slot);
        if matches!(sender.way, Way::Link(_)) && matches!(record.status, Status::Suspect | Status::Down) {
            packet.push(&Message::HeldStatus {
                run: record.run,
                incarnation: record.incarnation,
                status: record.status,
                age_ms: 0,
            });
        }
    }

    /// Answers a stranger whose address this very packet proved; says whether there was anything to answer.
    fn answer_proven(&mut self, sender: Sender, answer: &Answer) -> bool {
        let mut packet = self.out().packet(usize::MAX);
        // Also a member that is heard from elsewhere: it reads what is sent there, and may know who this is.
        let is_introduced =
            answer.shown.introduction.is_some_and(Introduction::is_proven) || answer.shown.has_brought_nonce;
        if let Some(nonce) = answer.owed.introduce.filter(|_| answer.shown.has_echoed || is_introduced) {
            if answer.kind == SenderKind::Stranger {
                // It may be a voter with an empty disk.
                self.push_founded(&mut packet);
            }
            packet.push(&Message::IAm { nonce, record: Record::clone(self.me()) });
            self.push_status_by_bootstrap(&mut packet, sender, answer);
            push_unreachable(&mut self.out(), &mut packet, sender, answer.kind, answer.shown.advertised, nonce);
        }
        match answer.shown.introduction {
            Some(Introduction::Tombstoned { incarnation })
                if self.packets.turns.take(self.cx.now, Turn::HeldStatus, sender.from) =>
            {
                let nonce = self.packets.prover.nonce(sender.from, self.cx.now);
                packet.push(&Message::WhoAreYou { nonce, echo: None });
                packet.push(&Message::HeldStatus { run: sender.run, incarnation, status: Status::Down, age_ms: 0 });
            }
            Some(Introduction::Outdated { newer }) => {
                if self.packets.turns.take(self.cx.now, Turn::HeldStatus, sender.from) {
                    // It will raise its incarnation above this record, and may say so at once.
                    let nonce = self.packets.prover.nonce(sender.from, self.cx.now);
                    packet.push(&Message::WhoAreYou { nonce, echo: None });
                }
                let Record { run, incarnation, status, .. } = **self.view.record(newer);
                if run == sender.run {
                    // It may hold this node at another address, too, and then takes no news from here.
                    packet.push(&Message::HeldStatus { run, incarnation, status, age_ms: 0 });
                } else {
                    self.out().push_update(&mut packet, newer);
                }
            }
            _ => {}
        }
        let may_meet = !self.cx.phase.is_joining() || self.must_be_found();
        if answer.shown.has_echoed && may_meet {
            let nonce = self.packets.prover.nonce(sender.from, self.cx.now);
            packet.push(&Message::WhoAreYou { nonce, echo: None });
        }
        let is_needed = !packet.is_empty();
        if is_needed {
            self.out().transmit(sender.from, Receiver::of(sender.run), packet);
        }
        is_needed
    }
}
