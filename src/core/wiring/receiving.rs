//! One packet: whose it is, whether its number is new, how much of it is believed; then it is acted on and answered.
//!
//! Invariants:
//! - A packet of a member (see `packet::senders`) with a new sequence number is a sign of life, whatever it says, unless the
//!   member has not heard this node for long (see `detection::echo`); it makes nobody Up.
//! - A sealed packet that is bound to no receiver ([`Way::Unbound`]) is a stranger's or a claim, whatever its sender's
//!   address, and of its messages only those are read that need no receiver (`Message::may_be_unbound`): it is no sign of
//!   life, and brings neither news nor votes.
//! - From everybody else only this goes further (`dispatching` has the list): questions; answers to our own, which prove by a
//!   nonce that we asked, or come from the node that we join by; from whoever just proved an address, what it holds this node
//!   for; and that an admitted joiner is Up.
//! - What is gathered (see `incoming::answer`) goes back as one packet at most. Beside it the first question of a few kinds
//!   is answered by packets of its own.
//!
//! Owns: the order in which one packet is judged, read and acted on. `dispatching` hands its messages on, `answering` sends what
//! goes back.
//!
//! Must not know: what a message means.

use std::net::SocketAddr;

use crate::Core;
use crate::counters::DropReason;
use crate::incoming::{Answer, Beside};
use crate::io::{Notice, Output, Receiver};
use crate::member::ProtocolRange;
use crate::packet::{Inbox, Received, Sender, SenderKind, Turn, Way, brings_proof, sender_kind};
use crate::view::Slot;
use crate::window::Novelty;
use crate::wire::{Header, Message, Messages, Packet, PacketError, Refusal, read};

impl Core {
    pub(crate) fn receive(&mut self, from: SocketAddr, way: Way, bytes: &[u8]) {
        self.cx.counters.packets_received += 1;
        self.cx.counters.bytes_received += bytes.len() as u64;
        let taken = read(bytes).and_then(|(header, messages)| {
            let kind = sender_kind(&self.view, &self.paths, header.run, way);
            let answer_bytes = bytes.len().saturating_sub(self.packets.seal.slack);
            let sender = Sender { from, run: header.run, kind, way, bytes: answer_bytes };
            self.receive_packet(sender, header, messages)
        });
        if let Err(error) = taken {
            self.reject(from, error);
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
            self.joiner.met_myself(&mut outbox!(self), &mut self.reunion, sender.from, inbox);
            return Ok(false);
        }
        if let SenderKind::Member(slot) = sender.kind {
            let arrived = self.arrived_at();
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
            match received {
                Received::Message(message) => self.dispatch(sender, *message, &mut answer),
                Received::Heartbeat(heartbeat) => self.dispatch_heartbeat(sender, heartbeat, &mut answer),
                Received::News(news) => self.dispatch_news(sender, news, &mut answer),
            }
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

    fn reject(&mut self, from: SocketAddr, error: PacketError) {
        match error {
            PacketError::Malformed => self.cx.counters.drop(DropReason::Malformed),
            PacketError::UnknownKey { .. } => self.cx.counters.drop(DropReason::UnknownKey),
            PacketError::Refused { speaks } => {
                self.cx.counters.drop(DropReason::UnknownVersion);
                // Of another kind than what seeds say: neither hides the other.
                self.cx.notice("refused version", Notice::Refused { by: from, refusal: Refusal::Protocol { speaks } });
            }
            PacketError::UnknownVersion { found } => {
                self.cx.counters.drop(DropReason::UnknownVersion);
                self.cx.notice("unknown version", Notice::UnknownVersion { from, version: found });
                if self.packets.turns.take(self.cx.now, Turn::Refusal, from) {
                    let bytes = Packet::refusal(ProtocolRange::OURS);
                    self.cx.output(Output::Transmit { to: from, receiver: Receiver::Anybody, bytes });
                }
            }
        }
    }

    /// Answers a packet of another cluster by a refusal at most, and reads it for one at most.
    fn receive_from_other_cluster(&mut self, sender: Sender, inbox: &Inbox) {
        self.cx.counters.drop(DropReason::OtherCluster);
        for message in inbox.messages() {
            match message {
                Message::Refused { nonce, refusal } => return self.on_refused(sender, *nonce, refusal.clone()),
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
