//! One packet: whose it is, whether its number is new, how much of it is believed; and what goes back. `dispatching` hands its
//! messages on.
//!
//! Invariants:
//! - A packet of a member (see `packet::senders`) with a new sequence number is a sign of life, whatever it says, unless the
//!   member has not heard this node for long (see `detection::heartbeat`); it makes nobody Up.
//! - A sealed packet that is bound to no receiver ([`Way::Unbound`]) is a stranger's or a claim, whatever its sender's
//!   address, and of its messages only those are read that need no receiver (`wire::KindRules`): it is no sign of
//!   life, and brings neither news nor votes.
//! - What is gathered of its messages (see `packet::answer`) goes back as one packet at most.
//! - An answer to an address that is not proven is never larger than the question, and is limited in rate. No stranger is told
//!   our run before its address echoed a nonce of ours: until then answers are anonymous.
//! - Answers carry the reply flag, and a reply is never answered with updates.
//!
//! Must not know: what a message means, or how it was dealt with, beyond the marks that it left in the [`Answer`].

use std::net::SocketAddr;

use crate::Core;
use crate::counters::DropReason;
use crate::election::Election;
use crate::io::{Notice, Receiver};
use crate::limits::ANSWER_INTERVAL;
use crate::member::Record;
use crate::membership::may_confirm;
use crate::packet::{
    Answer, Beside, Inbox, Received, Sender, SenderKind, Turn, Way, answer_proven, answer_unbound, brings_proof,
    reject, sender_kind,
};
use crate::view::{Slot, View, is_due};
use crate::window::Novelty;
use crate::wire::{Confirmation, Header, Message, Messages, Nonce, PacketError, Refusal, read};

impl Core {
    /// Takes a datagram, or what comes over a bootstrap link as if it were one.
    pub(crate) fn receive(&mut self, from: SocketAddr, way: Way, bytes: &[u8]) {
        let mut slack = 0;
        if !matches!(way, Way::Link(_)) {
            self.cx.counters.packets_received += 1;
            self.cx.counters.bytes_received += bytes.len() as u64;
            // The answer to a datagram is no larger than that, both of them sealed.
            slack = self.packets.seal.slack;
        }
        let taken = read(bytes).and_then(|(header, messages)| {
            let kind = sender_kind(&self.view, &self.paths, header.run, way);
            let sender = Sender { from, run: header.run, kind, way, bytes: bytes.len().saturating_sub(slack) };
            self.receive_packet(sender, header, messages)
        });
        match (taken, way) {
            (Ok(()), _) => {}
            (Err(_), Way::Link(link)) => {
                self.cx.counters.drop(DropReason::Malformed);
                self.paths.close_bootstrap(&mut self.cx, link);
            }
            (Err(error), Way::Datagrams | Way::Unbound) => reject(&mut self.out(), from, error),
        }
    }

    /// Takes a packet in. After an error nothing of it was believed.
    pub(crate) fn receive_packet(
        &mut self,
        mut sender: Sender,
        header: Header,
        messages: Messages<'_>,
    ) -> Result<(), PacketError> {
        let mut inbox = std::mem::take(&mut self.inbox);
        self.packets.turns.begin_packet();
        let believed = self.believe(&mut sender, header, messages, &mut inbox);
        if let Ok(true) = believed {
            self.act_on(&sender, header, &mut inbox);
        }
        inbox.clear();
        self.inbox = inbox;
        believed.map(|_| ())
    }

    /// Reads a packet, and judges whether its sender is believed; says whether something is to be acted on.
    fn believe(
        &mut self,
        sender: &mut Sender,
        header: Header,
        messages: Messages<'_>,
        inbox: &mut Inbox,
    ) -> Result<bool, PacketError> {
        if header.cluster != self.cx.cluster {
            inbox.read(&self.view, messages)?;
            self.receive_from_other_cluster(*sender, inbox);
            return Ok(false);
        }
        if sender.run == self.cx.run {
            self.cx.counters.drop(DropReason::Own);
            inbox.read(&self.view, messages)?;
            for address in self.joiner.met_myself(&outbox!(self), &self.reunion, sender.from, inbox) {
                self.reunion.note_own_address(address);
            }
            return Ok(false);
        }
        if let SenderKind::Member(slot) = sender.kind {
            let arrived = self.cx.arrived;
            if sender.way == Way::Datagrams {
                self.view.peer_mut(slot).heard_by_datagram(arrived);
                if self.paths.fallbacks.is_any() {
                    // The later copy of a frame counts, too.
                    self.paths.end_fallback(&mut self.cx, &self.view, slot);
                }
            }
            let novelty = self.view.entry(slot).peer.judge(header.sequence);
            if novelty != Novelty::Seen {
                inbox.read(&self.view, messages)?;
            }
            if !novelty.is_new() {
                // A garbled number may have put all that follow it behind: an answer to a question of ours mends that.
                if novelty == Novelty::Seen || !brings_proof(&self.out(), slot, inbox) {
                    self.cx.counters.drop(DropReason::Duplicate);
                    return Ok(false);
                }
                self.view.peer_mut(slot).count_from(header.sequence);
            }
            let peer = self.view.peer_mut(slot);
            peer.receive(arrived, header.sequence, header.fingerprint);
            if sender.way == Way::Datagrams {
                // The first packet of all began the session just now.
                peer.heard_by_datagram(arrived);
            }
            self.sign_of_life(slot, arrived);
        } else {
            inbox.read(&self.view, messages)?;
            if sender.way == Way::Unbound && inbox.keep_unbound() {
                self.cx.counters.drop(DropReason::Unread);
            }
        }
        Ok(true)
    }

    /// Does what a packet says, as far as its sender may say it, and answers.
    fn act_on(&mut self, sender: &Sender, header: Header, inbox: &mut Inbox) {
        for _ in 0..inbox.unknown {
            self.cx.counters.drop(DropReason::UnknownMessage);
        }
        let (is_asked_to_confirm, is_page) = (inbox.is_asked_to_confirm(), inbox.is_page());
        let (kind, way) = (sender.kind, sender.way);
        let mut answer = Answer::new(kind, way, Beside { is_asked_to_confirm, is_page, ..Beside::default() });
        for received in inbox.drain() {
            let taken = match received {
                Received::Message(message) => self.dispatch(sender, *message, &mut answer),
                Received::Heartbeat(heartbeat) => {
                    let member = self.member(sender, &answer).filter(|_| !self.cx.phase.is_joining());
                    member.map(|slot| self.on_heartbeat(slot, heartbeat, way))
                }
                Received::News(news) => self.on_news(sender, news, &mut answer),
            };
            answer.stranger |= taken.is_none();
            if self.cx.phase.is_stopped() {
                return;
            }
            if !matches!(answer.kind, SenderKind::Member(_)) {
                // It may have introduced itself, or said that it is Up.
                answer.kind = sender_kind(&self.view, &self.paths, sender.run, way);
            }
        }
        match (self.member(sender, &answer), answer.kind) {
            (Some(slot), _) => {
                if !answer.owed.wants.is_empty() {
                    self.asked_for_broadcasts(slot, &answer.owed.wants);
                }
                self.answer_member(slot, *sender, header.fingerprint, &answer);
            }
            (None, kind) => {
                if matches!(kind, SenderKind::ClaimsMember(_)) {
                    self.cx.counters.drop(DropReason::Claimed);
                }
                self.answer_stranger(*sender, &answer);
            }
        }
    }

    /// Returns the member whose packet is at hand, if it is a member's and that is still held.
    pub(crate) fn member(&self, sender: &Sender, answer: &Answer) -> Option<Slot> {
        match answer.kind {
            SenderKind::Member(slot) => self.view.slot_of_run_near(Some(slot), sender.run),
            SenderKind::ClaimsMember(_) | SenderKind::Stranger => None,
        }
    }

    /// Answers a packet of another cluster by a refusal at most, and reads it for one at most.
    fn receive_from_other_cluster(&mut self, sender: Sender, inbox: &Inbox) {
        self.cx.counters.drop(DropReason::OtherCluster);
        for message in inbox.messages() {
            match message {
                Message::Refused { nonce, refusal } => {
                    return self.on_refused(sender, *nonce, refusal.clone());
                }
                Message::Join { nonce, .. } | Message::WhoAreYou { nonce, .. } => {
                    self.cx.notice("other cluster", Notice::OtherCluster { from: sender.from });
                    if let Some(joining) = &mut self.joiner.joining {
                        joining.asked.asked_back(sender.from, self.cx.now);
                    }
                    if self.packets.turns.take(self.cx.now, Turn::Refusal, sender.from) {
                        self.out()
                            .answer_with(sender, &Message::Refused { nonce: *nonce, refusal: Refusal::OtherCluster });
                    }
                    return;
                }
                _ => {}
            }
        }
        self.cx.notice("other cluster", Notice::OtherCluster { from: sender.from });
    }
}

/// The answer.
impl Core {
    /// Answers a member.
    fn answer_member(&mut self, slot: Slot, sender: Sender, fingerprint: u64, answer: &Answer) {
        if self.cx.phase.is_joining() {
            return self.answer_stranger(sender, answer);
        }
        // A member that asks who is here from another address than its record's may not read what is sent to that one.
        let asks_from_elsewhere = sender.way == Way::Datagrams
            && self.view.record(slot).address != sender.from
            && (answer.owed.introduce.is_some() || answer.shown.introduction.is_some());
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
            self.out().announce_by_bootstraps();
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

    /// Answers a stranger's question by a question: a sender that proves its address by coming back is a stranger no
    /// more.
    fn answer_stranger(&mut self, sender: Sender, answer: &Answer) {
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
        // It has to know, before it forms an electorate with others, whether there is one.
        let is_forming = self.election().is_some_and(Election::is_forming);
        let may_meet = !self.cx.phase.is_joining() || is_forming;
        let out = &mut outbox!(self);
        if answer_proven(out, self.lead.as_deref(), may_meet, sender, answer) || answer_unbound(out, sender, answer) {
            return;
        }
        if answer.kind == SenderKind::Stranger {
            self.tell_lead(|lead, cx| lead.stranger_is_at(cx, sender.from));
        }
        let is_of_nobody_known = !matches!(answer.kind, SenderKind::ClaimsMember(_));
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
            || (is_forming && self.joiner.take_answer_to_finder(self.cx.now, sender.from));
        if !is_allowed {
            return self.cx.counters.drop(DropReason::RateLimited);
        }
        let nonce = self.packets.prover.nonce(sender.from, self.cx.now);
        let mut packet = if may_know { self.out().packet(usize::MAX) } else { self.out().anonymous_packet(usize::MAX) };
        packet.push(&Message::WhoAreYou { nonce, echo: answer.owed.introduce.or(answer.owed.probed) });
        if packet.len() > sender.bytes && is_forming {
            // A bare heartbeat is too short for a question, but its sender looks here if a stranger answers.
            packet = self.out().anonymous_packet(usize::MAX);
            packet.push(&Message::Reply);
        }
        if self.packets.turns.take_bytes(sender.bytes, packet.len()) {
            self.out().transmit(sender.from, Receiver::of(sender.run), packet);
        }
    }
}
