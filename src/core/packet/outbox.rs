//! Packets out: the contents of every packet to a member, and its greatest size.
//!
//! Packets to members go to the address in their *record*, wherever their packets came from, and every one of them is
//! a heartbeat. They are bound to the run in that record, where packets are sealed; what a node sends that does not know
//! its receiver's run is bound to nobody, and makes it a stranger there ([`Receiver`]). Until that address has echoed a
//! nonce of ours, a packet to it stays as small as a stranger's question and carries a probe.
//!
//! Invariants: every packet to a member carries the fingerprint; none to an unproven address is larger than a question.
//!
//! Must not know: why something is said.

use std::net::SocketAddr;
use std::time::Duration;

use super::proof::Prover;
use super::rates::{Pages, Turn, Turns};
use super::senders::Sender;
use crate::connectivity::Paths;
use crate::context::Context;
use crate::counters::{Carrier, DropReason};
use crate::detection::{DetectorFacts, LocalHealth};
use crate::io::{Output, Receiver};
use crate::limits::{ANSWERS_PER_SECOND, MAX_HEADER_BYTES, MIN_PROBE_BYTES, MIN_QUESTION_BYTES, TOLD_INTERVAL};
use crate::member::{Run, Status};
use crate::observers::Observers;
use crate::settings::Settings;
use crate::view::{Entry, Slot, View, is_due};
use crate::wire::{Header, Message, Nonce, Note, PacketBuilder};

/// The share of a second that each packet costs a member that is answered.
const ANSWER_PRICE: Duration = Duration::from_secs(1).checked_div(ANSWERS_PER_SECOND).expect("some");

/// The numbers and keys of packets, and how often strangers are asked and answered.
#[derive(Debug, Clone)]
pub(crate) struct Packets {
    /// The last sequence number given to a packet.
    pub(crate) sequence: u64,
    pub(crate) prover: Prover,
    /// How often an address is asked, answered and let in.
    pub(crate) turns: Turns,
    /// How many packets of records are sent.
    pub(crate) pages: Pages,
    pub(crate) seal: SealRoom,
}

impl Packets {
    pub(crate) fn new(prover: Prover) -> Self {
        Self { sequence: 0, prover, turns: Turns::default(), pages: Pages::default(), seal: SealRoom::default() }
    }
}

/// The bytes that the driver's seals take of each datagram.
#[derive(Debug, Clone, Default)]
pub(crate) struct SealRoom {
    /// The most that a seal takes.
    pub(crate) bytes: usize,
    /// The difference between the longest seal and the shortest.
    pub(crate) slack: usize,
}

impl SealRoom {
    /// Returns the greatest size of a packet in a datagram.
    pub(crate) fn datagram_bytes(&self, settings: &Settings) -> usize {
        settings.mtu - self.bytes
    }

    /// Returns the size of a question to which an answer of this size is not larger, both of them sealed.
    pub(crate) fn question_bytes(&self, answer: usize) -> usize {
        answer + self.slack
    }
}

/// What it takes to compose packets and to send them, as it is lent to whoever has something to say.
#[derive(Debug)]
pub(crate) struct Outbox<'a> {
    pub(crate) cx: &'a mut Context,
    pub(crate) view: &'a mut View,
    pub(crate) packets: &'a mut Packets,
    pub(crate) observers: &'a Observers,
    /// Verdicts of a node that hears nobody are withheld.
    pub(crate) health: &'a LocalHealth,
    /// The ways beside datagrams.
    pub(crate) paths: &'a mut Paths,
}

/// Packets.
impl Outbox<'_> {
    /// Returns the facts that members are judged by.
    pub(crate) fn detector_facts(&self) -> DetectorFacts<'_> {
        let Context { now, settings, .. } = &self.cx;
        DetectorFacts { now: *now, view: self.view, observers: self.observers, health: self.health, settings }
    }

    /// Returns the greatest size of a packet in a datagram.
    pub(crate) fn datagram_bytes(&self) -> usize {
        self.packets.seal.datagram_bytes(&self.cx.settings)
    }

    /// Returns the size of a question to which an answer of this size is not larger, both of them sealed.
    pub(crate) fn question_bytes(&self, answer: usize) -> usize {
        self.packets.seal.question_bytes(answer)
    }

    /// Returns a packet of at most `limit` bytes, without a heartbeat: for an address that this node asks by itself, or
    /// that has been proven.
    pub(crate) fn packet(&mut self, limit: usize) -> PacketBuilder {
        self.packets.sequence += 1;
        let header = Header {
            cluster: self.cx.cluster,
            run: self.cx.run,
            sequence: self.packets.sequence,
            fingerprint: self.view.fingerprint(),
        };
        PacketBuilder::new(&header, limit.min(self.datagram_bytes()))
    }

    /// Returns an anonymous packet, for a stranger that has proven nothing.
    pub(crate) fn anonymous_packet(&self, limit: usize) -> PacketBuilder {
        PacketBuilder::new(&Header::anonymous(self.cx.cluster), limit.min(self.datagram_bytes()))
    }

    /// Returns a packet to a member: with a heartbeat, a probe if its address is unproven, and the status it is held as
    /// if it must know.
    pub(crate) fn packet_to(&mut self, slot: Slot) -> PacketBuilder {
        let proven = self.view.entry(slot).peer.is_proven();
        let most = if proven { usize::MAX } else { self.question_bytes(MIN_QUESTION_BYTES) };
        let mut packet = self.packet(most);
        packet.push(&Message::Heartbeat(self.view.entry(slot).peer.stamp(self.cx.now)));
        if !proven {
            self.push_probe(&mut packet, slot);
            packet.pad_to(self.question_bytes(MIN_PROBE_BYTES));
        }
        self.push_told(&mut packet, slot);
        if self.paths.fallbacks.is_any() && self.paths.fallbacks.is_unheard(self.view.record(slot).run) {
            packet.push(&Message::Unheard);
        }
        packet
    }

    /// Asks for a proof of the member's address, if there is room.
    pub(crate) fn push_probe(&mut self, packet: &mut PacketBuilder, slot: Slot) {
        let nonce = self.packets.prover.nonce(self.view.record(slot).address, self.cx.now);
        packet.push(&Message::Probe { nonce });
    }

    /// Returns the answer to a member's question of `asked` bytes. To an unproven address no larger packet than the
    /// question is sent, so the answer itself comes first; the rest is room for a probe, without which two members that
    /// are unproven to each other would ask for ever.
    pub(crate) fn answer_of(&mut self, slot: Slot, asked: usize, acks: &[Nonce]) -> PacketBuilder {
        let proven = self.view.entry(slot).peer.is_proven();
        // A question may be shorter than our header is by now; its answer is then found too long, and is not sent.
        let limit = if proven { usize::MAX } else { asked.clamp(MAX_HEADER_BYTES, MIN_QUESTION_BYTES) };
        let mut packet = self.packet(limit);
        packet.push(&Message::Heartbeat(self.view.entry(slot).peer.stamp(self.cx.now)));
        packet.push(&Message::Reply);
        for nonce in acks.iter().copied() {
            packet.push(&Message::Ack { nonce });
        }
        if !proven {
            self.push_probe(&mut packet, slot);
        }
        self.push_told(&mut packet, slot);
        packet
    }

    /// Tells the receiver the status that it is held as, if it must know.
    pub(crate) fn push_told(&mut self, packet: &mut PacketBuilder, slot: Slot) {
        let entry = self.view.entry(slot);
        if self.must_be_told(slot) {
            let age_ms = self.cx.now.age_ms(entry.peer.last_sign());
            let run = entry.record.run;
            let (incarnation, status) = (entry.record.incarnation, entry.record.status);
            if packet.push(&Message::HeldStatus { run, incarnation, status, age_ms }) {
                self.view.peer_mut(slot).rare_mut().last_told = Some(self.cx.now);
            }
        }
    }

    /// Returns true if a member should be told now that it is held as suspect or gone.
    pub(crate) fn must_be_told(&self, slot: Slot) -> bool {
        let Entry { record, peer, .. } = self.view.entry(slot);
        let is_held_as_gone = matches!(record.status, Status::Suspect | Status::Down | Status::Left(_));
        slot != View::ME && is_held_as_gone && is_due(self.cx.now, peer.rare().last_told, TOLD_INTERVAL)
    }

    /// Adds the record of a member, if it fits; adds nothing while this node's verdict about it is withheld: a node
    /// that does not know the member should learn of it only when it is known whether it is live.
    pub(crate) fn push_news(&mut self, packet: &mut PacketBuilder, slot: Slot) -> bool {
        self.is_withheld(slot) || self.push_update(packet, slot)
    }

    /// Adds the record of a member, if it fits; the member's own last record in place of a verdict that is withheld.
    pub(crate) fn push_update(&mut self, packet: &mut PacketBuilder, slot: Slot) -> bool {
        let entry = self.view.entry(slot);
        let fits = if self.is_withheld(slot) {
            packet.push_update(None, &entry.record.with_status(Status::Up))
        } else {
            packet.push_update(self.note_on(entry), &entry.record)
        };
        if fits {
            self.cx.counters.updates_sent += 1;
        }
        fits
    }

    /// Returns the note that travels beside the record of a Suspect, Down or Left member.
    fn note_on(&self, entry: &Entry) -> Option<Note> {
        matches!(entry.record.status, Status::Suspect | Status::Down | Status::Left(_)).then(|| Note {
            age_ms: self.cx.now.age_ms(entry.peer.last_sign()),
            method: entry.peer.method.unwrap_or(crate::member::DetectionMethod::HeartbeatTimeout),
        })
    }

    /// Takes one more packet of records to this run; returns true if it may be sent now.
    pub(crate) fn take_page(&mut self, run: Run) -> bool {
        let Some(slot) = self.view.slot_of_run(run) else { return self.packets.pages.take(self.cx.now, false) };
        let is_taken = self.answers_left(slot) > 0 && self.packets.pages.take(self.cx.now, true);
        self.count_answers(slot, usize::from(is_taken));
        is_taken
    }

    /// Returns the number of packets that a member may have now in answer to its questions (the generic cell rate algorithm).
    pub(crate) fn answers_left(&self, slot: Slot) -> usize {
        let paid_until = self.view.entry(slot).peer.rare().answers_paid_until;
        let owed = paid_until.map_or(Duration::ZERO, |until| until.since(self.cx.now));
        (Duration::from_secs(1).saturating_sub(owed).as_nanos() / ANSWER_PRICE.as_nanos()) as usize
    }

    /// Counts answers to a member.
    pub(crate) fn count_answers(&mut self, slot: Slot, packets: usize) {
        if packets > 0 {
            let now = self.cx.now;
            let paid_until = &mut self.view.peer_mut(slot).rare_mut().answers_paid_until;
            *paid_until = Some(paid_until.map_or(now, |until| until.max(now)) + ANSWER_PRICE * packets as u32);
        }
    }

    /// Sends a packet to a member; while its datagrams are unheard, a copy goes by the link.
    pub(crate) fn send_to(&mut self, slot: Slot, packet: PacketBuilder) {
        self.send_as(Carrier::Other, slot, packet);
    }

    /// Sends a packet as [`Outbox::send_to`] does, and counts it as one of this purpose. To an observer it is a heartbeat.
    pub(crate) fn send_as(&mut self, carrier: Carrier, slot: Slot, packet: PacketBuilder) {
        let run = self.view.record(slot).run;
        let bytes = packet.finish();
        if self.paths.fallbacks.is_open(run) {
            self.paths.copy_to_link(self.cx, run, &bytes);
        }
        self.transmit_bytes_to_member(slot, bytes);
        if self.observers.observes(slot) {
            let pause = (self.cx.settings.suspect_timeout / 2).max(self.cx.settings.heartbeat_interval);
            self.view.peer_mut(slot).sent(self.cx.now, pause);
            self.cx.counters.heartbeats_sent[carrier as usize] += 1;
            self.cx.output(Output::HeartbeatSent(self.view.record(slot).id.clone()));
        }
    }

    /// Sends a packet to the address in a member's record, bound to its run. Where a member has fallen silent another run
    /// may be by now: whoever is there is asked by those who had an echo from there, and makes itself known.
    pub(crate) fn transmit_bytes_to_member(&mut self, slot: Slot, bytes: Vec<u8>) {
        let record = self.view.record(slot);
        let (to, run) = (record.address, record.run);
        let is_proven = self.view.entry(slot).peer.is_proven();
        let is_silent = record.status.is_accused();
        self.transmit_bytes(to, Receiver::Run(run), bytes);
        if is_silent && is_proven {
            self.ask_whoever_is_there(to);
        }
    }

    /// Sends a message, marked as a reply, to an address that is proven to be this run's.
    pub(crate) fn reply_at(&mut self, to: SocketAddr, run: Run, message: &Message) {
        let mut packet = self.packet(usize::MAX);
        packet.push(&Message::Reply);
        packet.push(message);
        self.transmit(to, Receiver::of(run), packet);
    }

    /// Sends `WhoAreYou` to an address.
    pub(crate) fn ask_who(&mut self, address: SocketAddr) {
        self.packets.turns.expect(self.cx.now, address);
        let packet = self.who_are_you(address, MIN_QUESTION_BYTES);
        self.transmit(address, Receiver::Anybody, packet);
    }

    /// Sends a short `WhoAreYou` to an address, and no copy by a bootstrap link.
    pub(crate) fn ask_who_briefly(&mut self, address: SocketAddr) {
        self.packets.turns.expect(self.cx.now, address);
        let packet = self.who_are_you(address, MIN_PROBE_BYTES);
        self.transmit_datagram(address, Receiver::Anybody, packet.finish());
    }

    /// Asks whoever is at the address of a member that has fallen silent, at most once a second. Of many silent ones few
    /// will answer: they take no places among the addresses from which answers are expected.
    fn ask_whoever_is_there(&mut self, address: SocketAddr) {
        // This node asks by itself: that is no turn of those who ask it.
        if self.packets.turns.take_own(self.cx.now, Turn::Question, address) {
            let packet = self.who_are_you(address, MIN_QUESTION_BYTES);
            self.transmit_datagram(address, Receiver::Anybody, packet.finish());
        }
    }

    fn who_are_you(&mut self, address: SocketAddr, least: usize) -> PacketBuilder {
        let nonce = self.packets.prover.nonce(address, self.cx.now);
        let mut packet = self.packet(usize::MAX);
        packet.push(&Message::WhoAreYou { nonce, echo: None });
        packet.pad_to(self.question_bytes(least));
        packet
    }

    /// Answers a stranger with one message, never larger than its question, and does not say who answers.
    pub(crate) fn answer_with(&mut self, sender: Sender, message: &Message) {
        if sender.run.is_nobody() && !message.rules().may_be_unbound {
            // No node asks for that without its name.
            return self.cx.counters.drop(DropReason::UnknownRun);
        }
        let mut packet = self.anonymous_packet(sender.bytes.max(MIN_QUESTION_BYTES));
        packet.push(&Message::Reply);
        if packet.push(message) && self.packets.turns.take_bytes(sender.bytes, packet.len()) {
            self.transmit(sender.from, Receiver::of(sender.run), packet);
        }
    }

    /// Sends a probe, "Are you there?", by a datagram, or by each way there is.
    pub(crate) fn probe(&mut self, slot: Slot, is_by_each_way: bool) {
        self.cx.counters.probes_sent += 1;
        let nonce = self.packets.prover.nonce(self.view.record(slot).address, self.cx.now);
        let probe = Message::Probe { nonce };
        if is_by_each_way {
            return self.send_both_ways(slot, &probe);
        }
        let mut packet = self.packet_to(slot);
        packet.push(&probe);
        self.send_to(slot, packet);
    }

    /// Asks a member at its address to echo a nonce.
    pub(crate) fn ask_at_address(&mut self, slot: Slot) {
        // It has no heartbeat, and replaces none: it is not this node's turn to send one.
        let mut packet = self.packet(usize::MAX);
        self.push_probe(&mut packet, slot);
        // The answer is no larger to whom this node's address is not proven.
        packet.pad_to(self.question_bytes(MIN_PROBE_BYTES));
        self.transmit_bytes_to_member(slot, packet.finish());
    }
}

/// Verdicts that are withheld.
impl Outbox<'_> {
    /// Returns true if a verdict of this node is not to be told (yet).
    pub(crate) fn is_withheld(&self, slot: Slot) -> bool {
        self.detector_facts().is_withheld(slot)
    }
}
