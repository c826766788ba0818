//! Packets in: whom they are from, whether that is believed, and who handles what they say.
//!
//! Invariants:
//! - A packet of a member (see `standing`) with a fresh sequence number is a sign of life, whatever it says, unless the
//!   member has not heard this node for long (see `echo`); it never changes a status.
//! - From everybody else nothing is believed but questions (`Join`, `WhoAreYou`) and the answers to our own (`IAm`, and
//!   what a joiner waits for), each of which proves by a nonce that we asked; and of their packets only the first few
//!   messages are looked at.
//! - One packet is answered by at most one packet to its sender; of several steps of a handshake in one packet the first
//!   counts. Answers carry the reply flag and are never answered with updates.
//! - No stranger is told our run before its address echoed a nonce of ours: until then answers are anonymous.

use crate::core::packet::{Introduction, Way};
use std::net::SocketAddr;
use std::time::Duration;

use super::inbox::{Inbox, News, Received};
use super::standing::Standing;
use crate::core::counters::Drop;
use crate::core::doors::{Notice, Output};
use crate::core::election::{Founded, Word};
use crate::core::limits::{ANSWER_INTERVAL, MIN_QUESTION_BYTES};
use crate::core::member::{LeaveReason, NodeId, ProtocolRange, Record, Run, Status};
use crate::core::time::Time;
use crate::core::view::{Freshness, Slot, is_due};
use crate::core::wire::{
    Confirmation, Header, Heartbeat, Led, Message, Messages, Nonce, Packet, PacketBuilder, PacketError, Refusal,
    Seeking, ViewPart, read,
};
use crate::core::{Core, Phase};

/// What the answer to one packet must hold, gathered message by message.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent marks, not a state")]
struct Answer {
    /// How the packet came.
    way: Way,
    /// What the sender is, now that the packet is read so far.
    standing: Standing,
    is_reply: bool,
    acks: Vec<Nonce>,
    introduce: Option<Nonce>,
    /// A probe by somebody we do not know: the question who it is can prove our address to it.
    probed: Option<Nonce>,
    /// When we heard whom the sender asks about.
    testimony: Vec<Message>,
    /// Whether the packet asks for confirmations.
    is_asked_to_confirm: bool,
    /// If so: hashes of the records held for the names that the packet brought news about.
    held: Vec<u64>,
    confirmed: Vec<u64>,
    /// Whether the packet is a page of a view. A joiner believes no other news: what waited in a kernel while it slept may
    /// be about the dead.
    is_page: bool,
    /// The last name that the packet brought news about, where it is a page.
    last_on_page: Option<NodeId>,
    /// The sender's own question echoed a nonce that was sent to where the packet came from.
    has_echoed: bool,
    /// The sender's introduction brought such a nonce.
    has_brought_nonce: bool,
    /// Where the sender says, introducing itself, that it is to be found.
    advertised: Option<SocketAddr>,
    /// What became of the sender's introduction.
    introduction: Option<Introduction>,
    /// Our own record, because the sender's picture of us is old.
    myself: bool,
    /// Something was said that is only believed from members.
    stranger: bool,
    /// What the sender, looking for a cluster, knows of who is to found it.
    seeking: Option<Seeking>,
    /// What it says of its cluster's electorate, before it welcomes us.
    founded: Option<Founded>,
    /// The packet asked whom this node holds under a name: one packet is answered once.
    has_asked_for_holder: bool,
    /// The packet asked for a change of the electorate: one packet asks once.
    has_asked_for_change: bool,
    /// A step of the join handshake was taken: one packet takes one.
    has_taken_step: bool,
    /// The packet asked for records: one packet asks once.
    has_asked_for_records: bool,
    /// The packet brought back what this node gave to the sender's run.
    has_reminded: bool,
}

impl Answer {
    fn new(standing: Standing, way: Way) -> Self {
        Self {
            way,
            standing,
            is_reply: false,
            acks: Vec::new(),
            introduce: None,
            probed: None,
            testimony: Vec::new(),
            is_asked_to_confirm: false,
            held: Vec::new(),
            confirmed: Vec::new(),
            is_page: false,
            last_on_page: None,
            has_echoed: false,
            has_brought_nonce: false,
            advertised: None,
            introduction: None,
            myself: false,
            stranger: false,
            seeking: None,
            founded: None,
            has_asked_for_holder: false,
            has_asked_for_change: false,
            has_taken_step: false,
            has_asked_for_records: false,
            has_reminded: false,
        }
    }
}

/// Where a packet came from.
#[derive(Debug, Clone, Copy)]
pub(in crate::core) struct Sender {
    pub(in crate::core) from: SocketAddr,
    pub(in crate::core) run: Run,
    /// What it was to this node when the packet came.
    pub(in crate::core) standing: Standing,
    /// How it came; answers go the same way.
    pub(in crate::core) way: Way,
    /// Size of the packet: no answer to an unproven address is larger.
    pub(in crate::core) bytes: usize,
}

impl Core {
    pub(in crate::core) fn receive(&mut self, from: SocketAddr, bytes: &[u8]) {
        self.counters.packets_received += 1;
        self.counters.bytes_received += bytes.len() as u64;
        let taken = read(bytes).and_then(|(header, messages)| {
            let way = Way::Datagrams;
            let standing = self.standing_of(header.run, from, way);
            let sender = Sender { from, run: header.run, standing, way, bytes: bytes.len() };
            self.receive_packet(sender, header, messages)
        });
        if let Err(error) = taken {
            self.reject(from, error);
        }
    }

    /// Takes a packet in. After an error nothing of it was believed.
    pub(in crate::core) fn receive_packet(
        &mut self,
        mut sender: Sender,
        header: Header,
        messages: Messages<'_>,
    ) -> Result<(), PacketError> {
        let mut inbox = std::mem::take(&mut self.inbox);
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
        if header.cluster != self.cluster {
            self.read_few(messages, inbox)?;
            self.receive_from_other_cluster(*sender, inbox);
            return Ok(false);
        }
        if sender.run == self.run {
            self.counters.drop(Drop::Own);
            self.read_few(messages, inbox)?;
            self.met_myself(sender.from, inbox);
            return Ok(false);
        }
        if let Standing::Claimed(slot) = sender.standing
            && matches!(sender.way, Way::Datagrams)
        {
            self.read_few(messages.clone(), inbox)?;
            if self.brings_proof(slot, inbox) {
                self.add_alias(slot, sender.from);
                sender.standing = Standing::Member(slot);
            } else if !self.is_awaited(sender) {
                return Ok(true);
            }
        }
        match sender.standing {
            Standing::Member(slot) => {
                let arrived = self.arrived_at();
                if sender.way == Way::Datagrams {
                    self.view.peer_mut(slot).heard_by_datagram(arrived);
                    if self.detours.is_any() {
                        // Be it the later copy of what came by the link.
                        self.end_detour(slot);
                    }
                }
                let freshness = self.view.entry(slot).peer.freshness(arrived, header.sequence);
                if freshness != Freshness::Fresh && !self.is_restarted(slot, sender, freshness, &messages, inbox) {
                    return Ok(false);
                }
                self.read_whole(messages, inbox)?;
                let peer = self.view.peer_mut(slot);
                if freshness != Freshness::Fresh {
                    peer.restart_window(header.sequence);
                }
                peer.receive(arrived, header.sequence, header.fingerprint);
                if sender.way == Way::Datagrams {
                    // The first one of all began what is known of the member.
                    peer.heard_by_datagram(arrived);
                }
                self.sign_of_life(slot, arrived);
            }
            _ if self.is_awaited(sender) => self.read_whole(messages, inbox)?,
            _ => self.read_few(messages, inbox)?,
        }
        Ok(true)
    }

    /// Whether somebody who is not in the view, or not known to be here, is in the middle of joining through this node, or
    /// lets it join: what it says is wanted whole.
    fn is_awaited(&self, sender: &Sender) -> bool {
        self.is_pulling_from(*sender) || self.joiners.is_here(sender.run, sender.from)
    }

    /// A member's packet has a number that is not believed: whether it proves that its number is right after all.
    fn is_restarted(
        &mut self,
        slot: Slot,
        sender: &Sender,
        freshness: Freshness,
        messages: &Messages<'_>,
        inbox: &mut Inbox,
    ) -> bool {
        if freshness != Freshness::Seen && self.awaits_restart(sender.run) {
            // An answer comes first in its packet.
            let is_read = self.read_few(messages.clone(), inbox).is_ok();
            if is_read && self.restarts(slot, inbox) {
                return true;
            }
        }
        match freshness {
            Freshness::Fresh => return true,
            Freshness::Jumped => self.counters.drop(Drop::Jumped),
            Freshness::Seen | Freshness::Old => self.counters.drop(Drop::Replayed),
        }
        if freshness != Freshness::Seen {
            self.ask_for_restart(slot, sender.bytes);
        }
        false
    }

    /// Does what a packet says, as far as its sender may say it, and answers.
    fn act_on(&mut self, sender: &Sender, header: Header, inbox: &mut Inbox) {
        for _ in 0..inbox.unknown {
            self.counters.drop(Drop::UnknownMessage);
        }
        let (is_asked_to_confirm, is_page) = (inbox.is_asked_to_confirm(), inbox.is_page());
        let (standing, way) = (sender.standing, sender.way);
        let mut answer = Answer { is_asked_to_confirm, is_page, ..Answer::new(standing, way) };
        for received in inbox.drain() {
            match received {
                Received::Message(message) => self.dispatch(sender, *message, &mut answer),
                Received::Heartbeat(heartbeat) => self.dispatch_heartbeat(sender, heartbeat, &mut answer),
                Received::News(news) => self.dispatch_news(sender, news, &mut answer),
            }
            if matches!(self.phase, Phase::Stopped) {
                return;
            }
            if !matches!(answer.standing, Standing::Member(_)) {
                // It may have introduced itself, or said that it is Up.
                answer.standing = self.standing_of(sender.run, sender.from, way);
            }
        }
        match (self.member(sender, &answer), answer.standing) {
            (Some(slot), _) => self.answer_member(slot, *sender, header.fingerprint, &answer),
            (None, Standing::Claimed(slot)) => {
                self.claimed(slot, *sender, answer.probed);
                self.answer_stranger(*sender, &answer);
            }
            (None, _) => self.answer_stranger(*sender, &answer),
        }
    }

    /// The member whose packet is at hand, if it is a member's and that is still held.
    fn member(&self, sender: &Sender, answer: &Answer) -> Option<Slot> {
        match answer.standing {
            Standing::Member(slot) => self.view.slot_of_run_near(Some(slot), sender.run),
            Standing::Claimed(_) | Standing::Stranger => None,
        }
    }

    fn reject(&mut self, from: SocketAddr, error: PacketError) {
        match error {
            PacketError::Malformed => self.counters.drop(Drop::Malformed),
            PacketError::UnknownKey { .. } => self.counters.drop(Drop::UnknownKey),
            PacketError::Refused { speaks } => {
                self.counters.drop(Drop::UnknownVersion);
                // Of another kind than what seeds say: neither hides the other.
                self.notice("refused version", Notice::Refused { by: from, refusal: Refusal::Protocol { speaks } });
            }
            PacketError::UnknownVersion { found } => {
                self.counters.drop(Drop::UnknownVersion);
                self.notice("unknown version", Notice::UnknownVersion { from, version: found });
                if self.refusals.allow(self.now, from, false) {
                    let bytes = Packet::refusal(ProtocolRange::OURS);
                    self.outputs.push_back(Output::Transmit { to: from, bytes });
                }
            }
        }
    }

    /// Another cluster's packet is only ever answered by a refusal, and only read for one.
    fn receive_from_other_cluster(&mut self, sender: Sender, inbox: &Inbox) {
        self.counters.drop(Drop::OtherCluster);
        for message in inbox.messages() {
            match message {
                Message::Refused { nonce, refusal } => return self.refused(sender, *nonce, refusal.clone()),
                Message::Join { nonce, .. } | Message::WhoAreYou { nonce, .. } => {
                    self.notice("other cluster", Notice::OtherCluster { from: sender.from });
                    if self.refusals.allow(self.now, sender.from, false) {
                        self.answer_with(sender, &Message::Refused { nonce: *nonce, refusal: Refusal::OtherCluster });
                    }
                    return;
                }
                _ => {}
            }
        }
        self.notice("other cluster", Notice::OtherCluster { from: sender.from });
    }

    /// Answers a stranger with one message, never larger than its question, and does not say who answers.
    pub(in crate::core) fn answer_with(&mut self, sender: Sender, message: &Message) {
        let mut packet = self.anonymous_packet(sender.bytes.max(MIN_QUESTION_BYTES));
        packet.push(&Message::Reply);
        if packet.push(message) && packet.len() <= sender.bytes {
            self.transmit(sender.from, packet);
        }
    }

    fn dispatch(&mut self, sender: &Sender, message: Message, answer: &mut Answer) {
        let is_first = match message {
            Message::Join { .. }
            | Message::Challenge { .. }
            | Message::Welcome { .. }
            | Message::NotUp { .. }
            | Message::Refused { .. }
            | Message::Behind { .. }
            | Message::Wait { .. }
            | Message::Elsewhere { .. } => !std::mem::replace(&mut answer.has_taken_step, true),
            Message::Pull { .. } | Message::Digest { .. } | Message::Want { .. } => {
                !std::mem::replace(&mut answer.has_asked_for_records, true)
            }
            Message::IAm { .. } => answer.introduction.is_none(),
            _ => true,
        };
        if !is_first {
            return self.counters.drop(Drop::RateLimited);
        }
        match message {
            Message::Reply => answer.is_reply = true,
            Message::Padding(_) => {}
            Message::WhoAreYou { nonce, echo } => {
                answer.has_echoed = echo.is_some_and(|echo| self.echoed(*sender, echo));
                answer.introduce = Some(nonce);
            }
            Message::Reminder { keepsake } => {
                answer.has_reminded = self.is_reminded(sender.run, sender.from, keepsake);
            }
            Message::IAm { nonce, record } => {
                answer.has_brought_nonce = self.prover.is_nonce(nonce, sender.from, self.now);
                answer.advertised = Some(record.address);
                answer.introduction = Some(self.introduced(*sender, nonce, record, answer.has_reminded));
            }
            Message::Join { nonce, record, cookie } => {
                self.asked_to_admit(*sender, nonce, record, cookie, answer.seeking.take());
            }
            Message::ReachMe { nonce, address } => self.asked_to_reach(*sender, nonce, address),
            Message::Reached { nonce } => self.reached_by(nonce),
            Message::Seeking(seeking) => answer.seeking = Some(seeking),
            Message::Founded(founded) if matches!(self.phase, Phase::Joining(_)) => answer.founded = Some(founded),
            Message::Challenge { nonce, cookie } => self.challenged(sender.from, nonce, cookie),
            Message::Welcome { nonce, sponsor, .. } => {
                self.welcomed(*sender, nonce, &sponsor, answer.founded.take());
            }
            Message::NotUp { nonce, record, .. } => self.not_up(*sender, nonce, &record, answer.seeking.take()),
            Message::Refused { nonce, refusal } => self.refused(*sender, nonce, refusal),
            Message::Behind { nonce, incarnation } => self.behind(nonce, incarnation),
            Message::Wait { nonce, wait_ms } => self.told_to_wait(nonce, wait_ms),
            Message::Elsewhere { nonce, members } => self.referred(sender.from, nonce, &members),
            Message::Page { after, more } if self.is_pulling_from(*sender) => {
                self.page(after.as_ref(), answer.last_on_page.take().filter(|_| more));
            }
            Message::WhoHolds { .. } if std::mem::replace(&mut answer.has_asked_for_holder, true) => {
                self.counters.drop(Drop::RateLimited);
            }
            Message::WhoHolds { nonce, id } => self.tell_holder(*sender, nonce, &id),
            Message::Holds { nonce, run } => self.told_holder(sender.from, nonce, run),
            Message::Pull { after, pages } => self.serve(*sender, after.as_ref(), pages),
            Message::Told { run, incarnation, status, age_ms }
                if answer.introduction.is_some_and(Introduction::is_unlisted)
                    && status != Status::Left(LeaveReason::Forced) =>
            {
                // From somebody we buried, perhaps, but it just proved its address: what can be refuted may be heard.
                // Removals are only obeyed from members.
                if self.objections.allow(self.now, sender.from, false) {
                    answer.myself |= self.told(None, run, (incarnation, status), Duration::from_millis(age_ms));
                }
            }
            message => match self.member(sender, answer) {
                Some(slot) if !matches!(self.phase, Phase::Joining(_)) => {
                    self.dispatch_from_member(slot, *sender, &message, answer);
                }
                _ => {
                    answer.stranger = true;
                    if let Message::Probe { nonce, .. } = message {
                        answer.probed = Some(nonce);
                    }
                }
            },
        }
    }

    fn dispatch_heartbeat(&mut self, sender: &Sender, heartbeat: Heartbeat, answer: &mut Answer) {
        match self.member(sender, answer) {
            Some(slot) if !matches!(self.phase, Phase::Joining(_)) => {
                let is_news = self.view.peer_mut(slot).heartbeat(self.now, heartbeat);
                if is_news && let Some(hold) = self.recent_echo(slot, heartbeat) {
                    self.is_in_contact(slot, self.now - hold);
                }
            }
            _ => answer.stranger = true,
        }
    }

    fn dispatch_news(&mut self, sender: &Sender, news: News, answer: &mut Answer) {
        let from = self.member(sender, answer);
        if answer.is_page && self.is_pulling_from(*sender) {
            answer.last_on_page = Some(self.subject(&news).id.clone());
        } else if (from.is_none() || matches!(self.phase, Phase::Joining(_)))
            && !self.is_joiner_up(sender, &news)
            && !self.is_objection(sender, &news, answer)
        {
            answer.stranger = true;
            return;
        }
        let held = self.learn(news, from);
        if answer.is_asked_to_confirm {
            answer.held.extend(held);
        }
    }

    /// A joiner of ours says that it is Up: its address is proven, it need not introduce itself again.
    fn is_joiner_up(&self, sender: &Sender, news: &News) -> bool {
        self.joiners.is_admitted(sender.run, sender.from, self.subject(news))
    }

    /// Somebody that proved its address, and is not listed, says who has this node's name where it is. As with its other words,
    /// no more is heard than can be refuted at once.
    fn is_objection(&mut self, sender: &Sender, news: &News, answer: &Answer) -> bool {
        let subject = self.subject(news);
        let is_rival = subject.id == self.me().id && subject.run != self.run;
        answer.introduction.is_some_and(Introduction::is_unlisted)
            && matches!(self.phase, Phase::Up)
            && is_rival
            && self.is_plausible(subject.incarnation)
            && self.objections.allow(self.now, sender.from, false)
    }

    fn dispatch_from_member(&mut self, slot: Slot, sender: Sender, message: &Message, answer: &mut Answer) {
        match *message {
            Message::Probe { nonce, .. } => answer.acks.push(nonce),
            Message::Ack { nonce } => self.proved(slot, nonce),
            Message::Keepsake { keepsake } => self.given_keepsake(slot, keepsake),
            Message::Told { run, incarnation, status, age_ms } => {
                let age = Duration::from_millis(age_ms);
                answer.myself |= self.told(Some(slot), run, (incarnation, status), age);
            }
            Message::Digest { ref buckets } => self.digested(slot, buckets, answer.way),
            Message::Want { ref buckets } => self.wanted(slot, buckets, answer.way),
            Message::LastHeard { run } => answer.testimony.extend(self.bear_witness(run)),
            Message::HeardAt { run, age_ms } => self.witnessed(slot, run, age_ms),
            Message::Confirm(Confirmation { record }) => answer.confirmed.push(record.0),
            Message::Confirmed(Confirmation { record }) => self.confirmed(slot, record.0),
            Message::Severed { run, age_ms, is_sure } => self.told_severed(slot, run, age_ms, is_sure),
            Message::Alive { run, sequence } => self.told_alive(slot, run, sequence),
            // Over a link it ends it; in a datagram it means nothing.
            Message::Unlink => {}
            Message::Unheard => self.told_unheard(slot),
            Message::Election(ref word) => self.hear_voter(slot, Word::clone(word)),
            Message::Led(ref led) => self.hear_led(slot, Led::clone(led)),
            Message::Pulse(ref pulse) => self.hear_pulse(slot, pulse),
            Message::WhoLeads => self.tell_who_leads(slot),
            Message::Founded(founded) if self.counts_in_leadership(slot) => self.hear_founded(sender.run, founded),
            Message::Founded(_) => self.counters.drop(Drop::Unproven),
            Message::WantView(ref want) => self.send_view(slot, want),
            Message::ViewPart(ref part) => self.hear_view_part(slot, ViewPart::clone(part)),
            Message::ChangeVoters(_) if std::mem::replace(&mut answer.has_asked_for_change, true) => {
                self.counters.drop(Drop::RateLimited);
            }
            Message::ChangeVoters(ref question) => self.asked_to_change_voters(slot, sender, question),
            Message::VotersChanged(ref changed) => self.told_voters_changed(slot, changed),
            Message::LeaseWord(ref word) => self.hear_lease_word(slot, word),
            Message::Broadcast(ref broadcast) => self.heard_broadcast(slot, broadcast),
            Message::HaveBroadcasts(ref spans) => self.told_of_broadcasts(slot, spans),
            Message::WantBroadcasts(ref spans) => self.asked_for_broadcasts(slot, spans),
            Message::Letter(ref letter) => self.heard_letter(slot, answer.way, letter),
            Message::Receipt { number } => self.heard_receipt(slot, number),
            Message::Page { .. } => self.counters.drop(Drop::Unasked),
            // News and heartbeats are dispatched as such, and all other kinds before it matters who the sender is.
            _ => self.counters.drop(Drop::WrongState),
        }
    }

    /// A packet of a member's run: it lives. What it is held as does not change by that.
    fn sign_of_life(&mut self, slot: Slot, arrived: Time) {
        let record = self.view.record(slot);
        let (id, run) = (record.id.clone(), record.run);
        if self.counts_as_alive(slot) {
            self.sign_counts(slot, arrived);
        }
        self.outputs.push_back(Output::Heard(id));
        self.heard_on_the_way(slot);
        if self.is_case(run) {
            self.heard_suspected_crash(slot);
        }
    }

    /// A packet of a member's run shows that the member lives (see `echo`).
    pub(in crate::core) fn sign_counts(&mut self, slot: Slot, arrived: Time) {
        self.counters.signs_of_life += 1;
        if matches!(self.view.record(slot).status, Status::Up | Status::Suspect | Status::Leaving) {
            self.remember_flapping(slot);
            let peer = self.view.peer_mut(slot);
            peer.last_sign = peer.last_sign.max(arrived);
        }
        if let Some(session) = &mut self.view.peer_mut(slot).session {
            session.sign = session.sign.max(arrived);
        }
        if !self.evicted.is_empty() {
            self.evict_again(slot);
        }
        self.heard_directly(slot);
    }

    /// The member's address returned a nonce that was sent there.
    fn proved(&mut self, slot: Slot, nonce: Nonce) {
        if self.prover.is_nonce(nonce, self.view.record(slot).address, self.now) {
            self.view.peer_mut(slot).proven = true;
            self.is_in_contact(slot, self.now);
        } else {
            self.counters.drop(Drop::Unasked);
        }
    }

    fn answer_member(&mut self, slot: Slot, sender: Sender, fingerprint: u64, answer: &Answer) {
        if matches!(self.phase, Phase::Joining(_)) {
            return self.answer_stranger(sender, answer);
        }
        let is_live = self.view.record(slot).status.is_live();
        let differs = is_live && self.compare(slot, fingerprint);
        let peer = &self.view.entry(slot).peer;
        let with_updates = differs && !answer.is_reply && is_due(self.now, peer.errands().last_answer, ANSWER_INTERVAL);
        let mut confirmed: Vec<u64> =
            answer.confirmed.iter().copied().filter(|hash| answer.held.contains(hash)).collect();
        if !confirmed.is_empty() && !self.may_confirm() {
            confirmed.clear();
        }
        let is_proven = peer.proven;
        if !is_proven && !is_due(self.now, peer.errands().last_answer, ANSWER_INTERVAL) {
            return self.counters.drop(Drop::RateLimited);
        }
        let is_needed = with_updates
            || answer.myself
            || answer.introduce.is_some()
            || answer.has_reminded
            || !answer.acks.is_empty()
            || !answer.testimony.is_empty()
            || !confirmed.is_empty()
            || self.owes_word_to(slot);
        if !is_needed {
            return;
        }
        self.acknowledge_over_greeting(slot, &answer.acks);
        if answer.myself {
            self.announce_by_calls();
        }
        let mut packet = self.answer_of(slot, sender.bytes, &answer.acks);
        if answer.has_reminded && answer.acks.is_empty() {
            // The last one was for where it was.
            self.give_keepsake(&mut packet, slot);
        }
        for testimony in &answer.testimony {
            packet.push(testimony);
        }
        for hash in confirmed {
            packet.push(&Message::Confirmed(Confirmation { record: Nonce(hash) }));
        }
        if let Some(nonce) = answer.introduce {
            if !(is_proven && self.defer_introduction(self.view.record(slot).address, nonce)) {
                self.push_reminder(&mut packet, sender.from);
                packet.push(&Message::IAm { nonce, record: Record::clone(self.me()) });
            }
        } else if answer.myself {
            self.push_update(&mut packet, crate::core::view::View::ME);
        }
        if with_updates {
            self.push_recent_updates(&mut packet, u32::MAX);
        }
        if with_updates || !is_proven {
            self.view.peer_mut(slot).errands_mut().last_answer = Some(self.now);
        }
        if packet.len() <= sender.bytes || is_proven {
            self.send_by(sender.way, slot, packet);
        }
    }

    /// A stranger's question is answered by a question: who proves its address by coming back is a stranger no more.
    fn answer_stranger(&mut self, sender: Sender, answer: &Answer) {
        if answer.stranger {
            self.counters.drop(Drop::UnknownRun);
        }
        if self.answer_proven(sender, answer) {
            return;
        }
        let is_of_nobody_known = !matches!(answer.standing, Standing::Claimed(_));
        let is_ignored = answer.stranger && is_of_nobody_known && !matches!(self.phase, Phase::Joining(_));
        if answer.introduce.is_none() && !is_ignored {
            return;
        }
        let is_expected = self.expected.contains(self.now, sender.from);
        // A joiner has no record yet by which to introduce itself; but whose address is proven may know its run, as do
        // those whom this node asked before.
        let is_proven = answer.has_echoed || answer.has_brought_nonce;
        let is_introduction = is_proven && matches!(self.phase, Phase::Joining(_));
        let may_know = is_introduction || is_expected;
        let limit = if is_introduction { &mut self.introductions } else { &mut self.questions };
        if !limit.allow(self.now, sender.from, is_expected) {
            return self.counters.drop(Drop::RateLimited);
        }
        let nonce = self.prover.nonce(sender.from, self.now);
        let mut packet = if may_know { self.packet(usize::MAX) } else { self.anonymous_packet(usize::MAX) };
        packet.push(&Message::WhoAreYou { nonce, echo: answer.introduce.or(answer.probed) });
        if packet.len() <= sender.bytes {
            self.transmit(sender.from, packet);
        }
    }

    /// Somebody calls in the name of a member that is held as gone: if it is that member, it may refute this. It believes
    /// it, since it called this node's own address.
    fn push_word_by_call(&mut self, packet: &mut PacketBuilder, sender: Sender, answer: &Answer) {
        let Standing::Claimed(slot) = answer.standing else { return };
        let record = self.view.record(slot);
        if matches!(sender.way, Way::Link(_)) && matches!(record.status, Status::Suspect | Status::Down) {
            packet.push(&Message::Told {
                run: record.run,
                incarnation: record.incarnation,
                status: record.status,
                age_ms: 0,
            });
        }
    }

    /// Answers a stranger whose address this very packet proved; says whether there was anything to answer.
    fn answer_proven(&mut self, sender: Sender, answer: &Answer) -> bool {
        let mut packet = self.packet(usize::MAX);
        // Also a member that is heard from elsewhere: it reads what is sent there, and may know who this is.
        let is_introduced = answer.introduction.is_some_and(Introduction::is_proven) || answer.has_brought_nonce;
        if let Some(nonce) = answer.introduce.filter(|_| answer.has_echoed || is_introduced) {
            self.push_reminder(&mut packet, sender.from);
            packet.push(&Message::IAm { nonce, record: Record::clone(self.me()) });
            self.push_word_by_call(&mut packet, sender, answer);
            self.push_unreachable(&mut packet, sender, answer.standing, answer.advertised, nonce);
        }
        match answer.introduction {
            Some(Introduction::Buried { incarnation }) if self.burials.allow(self.now, sender.from, false) => {
                let nonce = self.prover.nonce(sender.from, self.now);
                packet.push(&Message::WhoAreYou { nonce, echo: None });
                packet.push(&Message::Told { run: sender.run, incarnation, status: Status::Down, age_ms: 0 });
            }
            Some(Introduction::Outdated { newer }) => {
                if self.burials.allow(self.now, sender.from, false) {
                    // It will raise its incarnation above this record, and may say so at once.
                    let nonce = self.prover.nonce(sender.from, self.now);
                    packet.push(&Message::WhoAreYou { nonce, echo: None });
                }
                let Record { run, incarnation, status, .. } = **self.view.record(newer);
                if run == sender.run {
                    // It may hold this node elsewhere, too, and reads no news from here then.
                    packet.push(&Message::Told { run, incarnation, status, age_ms: 0 });
                } else {
                    self.push_update(&mut packet, newer);
                }
            }
            _ => {}
        }
        if answer.has_echoed && !matches!(self.phase, Phase::Joining(_)) {
            let nonce = self.prover.nonce(sender.from, self.now);
            packet.push(&Message::WhoAreYou { nonce, echo: None });
        }
        let is_needed = !packet.is_empty();
        if is_needed {
            self.transmit(sender.from, packet);
        }
        is_needed
    }
}
