//! One packet: whose it is, whether its number is new, how much of it is believed; it is acted on, and what goes back is gathered
//! and sent as one packet.
//!
//! Invariants:
//! - A packet of a member (see `packet::senders`) with a new sequence number is a sign of life, whatever it says, unless the
//!   member has not heard this node for long (see `detection::echo`); it makes nobody Up.
//! - A sealed packet that is bound to no receiver ([`Way::Unbound`]) is a stranger's or a claim, whatever its sender's
//!   address, and of its messages only those are read that need no receiver (`Message::may_be_unbound`): it is no sign of
//!   life, and brings neither news nor votes.
//! - From everybody else only this goes further (`dispatching` has the list): questions; answers to our own, which prove by a
//!   nonce that we asked, or come from the node that we join by; from whoever just proved an address, what it holds this node
//!   for; and that an admitted joiner is Up. Of their packets only the first few messages are looked at.
//! - What is gathered (see `incoming::answer`) goes back as one packet at most. Beside it the first question of each kind in
//!   `incoming::questions` is answered by packets of its own. Answers carry the reply flag, and a reply is never answered with
//!   updates.
//! - An answer to an address that is not proven is never larger than the question, and is limited in rate. No stranger is told
//!   our run before its address echoed a nonce of ours: until then answers are anonymous.
//!
//! Owns: the order in which one packet is judged, read, acted on (see `dispatching`) and answered.
//!
//! Must not know: what a message means.

use std::net::SocketAddr;

use crate::Core;
use crate::counters::DropReason;
use crate::incoming::{Answer, Beside};
use crate::io::{Notice, Output, Receiver};
use crate::joining::push_unreachable;
use crate::limits::{ANSWER_INTERVAL, MAX_HEADER_BYTES};
use crate::member::{ProtocolRange, Record, Status};
use crate::membership::may_confirm;
use crate::packet::{Inbox, Introduction, Received, Sender, SenderKind, Turn, Way, brings_proof, sender_kind};
use crate::view::{Slot, View, is_due};
use crate::window::Novelty;
use crate::wire::{Confirmation, Header, Message, Messages, Nonce, Packet, PacketBuilder, PacketError, Refusal, read};

/// What comes in.
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

    /// Reads as much of a packet as its sender is believed; says whether something is to be acted on.
    fn believe(
        &mut self,
        sender: &mut Sender,
        header: Header,
        messages: Messages<'_>,
        inbox: &mut Inbox,
    ) -> Result<bool, PacketError> {
        if header.cluster != self.cx.cluster {
            self.read_few(messages, inbox)?;
            self.receive_from_other_cluster(*sender, inbox);
            return Ok(false);
        }
        if sender.run == self.cx.run {
            self.cx.counters.drop(DropReason::Own);
            self.read_few(messages, inbox)?;
            self.joiner.met_myself(&mut outbox!(self), &mut self.reunion, sender.from, inbox);
            return Ok(false);
        }
        match sender.kind {
            SenderKind::Member(slot) => {
                let arrived = self.arrived_at();
                if sender.way == Way::Datagrams {
                    self.view.peer_mut(slot).heard_by_datagram(arrived);
                    if self.paths.fallbacks.is_any() {
                        // The later copy of a frame counts, too.
                        self.paths.end_fallback(&mut self.cx, &self.view, slot);
                    }
                }
                let novelty = self.view.entry(slot).peer.judge(header.sequence);
                if !novelty.is_new() {
                    // A garbled number may have put all that follow it behind: an answer to a question of ours mends that.
                    let is_late = novelty == Novelty::Behind;
                    if !is_late
                        || self.read_few(messages.clone(), inbox).is_err()
                        || !brings_proof(&self.out(), slot, inbox)
                    {
                        self.cx.counters.drop(DropReason::Duplicate);
                        return Ok(false);
                    }
                    self.view.peer_mut(slot).count_from(header.sequence);
                }
                inbox.read_whole(&self.view, messages)?;
                let peer = self.view.peer_mut(slot);
                peer.receive(arrived, header.sequence, header.fingerprint);
                if sender.way == Way::Datagrams {
                    // The first packet of all began the session just now.
                    peer.heard_by_datagram(arrived);
                }
                self.sign_of_life(slot, arrived);
            }
            _ if sender.way == Way::Unbound => self.read_unbound(messages, inbox)?,
            _ if self.is_awaited(sender) => inbox.read_whole(&self.view, messages)?,
            _ => self.read_few(messages, inbox)?,
        }
        Ok(true)
    }

    /// Reads the first messages of a packet of a presumed stranger.
    fn read_few(&mut self, messages: Messages<'_>, inbox: &mut Inbox) -> Result<(), PacketError> {
        if inbox.read_few(&self.view, messages)? {
            self.cx.counters.drop(DropReason::Unread);
        }
        Ok(())
    }

    /// Reads those of the first messages of an unbound packet that need no receiver.
    fn read_unbound(&mut self, messages: Messages<'_>, inbox: &mut Inbox) -> Result<(), PacketError> {
        self.read_few(messages, inbox)?;
        if inbox.keep_unbound() {
            self.cx.counters.drop(DropReason::Unread);
        }
        Ok(())
    }

    /// Returns true if somebody who is not in the view, or not known to be here, is in the middle of joining through
    /// this node, or lets it join: what it says is wanted whole.
    fn is_awaited(&self, sender: &Sender) -> bool {
        self.joiner.is_pulling_from(*sender) || self.sponsor.joiners.is_here(sender.run, sender.from)
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

/// What goes back.
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
                if self.packets.turns.take(self.cx.now, Turn::Burial, sender.from) =>
            {
                let nonce = self.packets.prover.nonce(sender.from, self.cx.now);
                packet.push(&Message::WhoAreYou { nonce, echo: None });
                packet.push(&Message::HeldStatus { run: sender.run, incarnation, status: Status::Down, age_ms: 0 });
            }
            Some(Introduction::Outdated { newer }) => {
                if self.packets.turns.take(self.cx.now, Turn::Burial, sender.from) {
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
