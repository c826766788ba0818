//! Messages of one packet, each handed on to the room whose idea it is.
//!
//! Invariants:
//! - From strangers only what is named here as theirs goes further; everything else marks the packet as a stranger's.
//! - Of steps and questions that a packet may hold once, the first counts (see `questions`).
//!
//! Owns: the list of who is told what. Must not know: what the rooms make of it.

use std::time::Duration;

use super::answer::Answer;
use super::questions::Question;
use crate::Core;
use crate::counters::DropReason;
use crate::dissemination::Gossip;
use crate::election::ElectionMessage;
use crate::limits::MAX_WANTS;
use crate::member::{LeaveReason, Status};
use crate::packet::{Introduction, News, Sender, Turn};
use crate::view::Slot;
use crate::wire::{Confirmation, Heartbeat, LeaderClaim, Message, Nonce, ViewPart};

impl Core {
    pub(super) fn dispatch(&mut self, sender: &Sender, message: Message, answer: &mut Answer) {
        if Question::of(&message).is_some_and(|question| !answer.asked.add(question)) {
            return self.cx.counters.drop(DropReason::RateLimited);
        }
        match message {
            Message::Reply => answer.is_reply = true,
            Message::Padding(_) => {}
            Message::WhoAreYou { nonce, echo } => {
                answer.has_echoed = echo.is_some_and(|echo| self.echoed(*sender, echo));
                answer.introduce = Some(nonce);
            }
            Message::IAm { nonce, record } => {
                answer.has_brought_nonce = self.packets.prover.is_nonce(nonce, sender.from, self.cx.now);
                answer.advertised = Some(record.address);
                let is_finder =
                    answer.has_brought_nonce && answer.founded.is_some() && self.may_be_finder(*sender, &record);
                answer.introduction = Some(self.on_i_am(*sender, nonce, record));
                if is_finder && self.must_be_found() {
                    self.joiner.found_by(&mut outbox!(self), &self.reunion, sender.from);
                }
            }
            Message::Join { nonce, record, cookie } => {
                self.on_join(*sender, nonce, record, cookie, answer.seeking.take());
            }
            Message::ReachMe { nonce, address } => {
                self.sponsor.on_reach_me(&mut outbox!(self), *sender, nonce, address)
            }
            Message::Reached { nonce } => self.on_reached(sender, nonce),
            Message::Seeking(seeking) => answer.seeking = Some(seeking),
            Message::ElectorateReport(founded) if self.cx.phase.is_joining() => {
                answer.founded = Some(founded);
            }
            Message::Challenge { nonce, cookie } => {
                self.joiner.on_challenge(&mut outbox!(self), &self.reunion, *sender, nonce, cookie)
            }
            Message::Welcome { nonce, sponsor, .. } => {
                self.on_welcome(*sender, nonce, &sponsor, answer.founded.take());
            }
            Message::NotUp { nonce, record, .. } => self.on_not_up(*sender, nonce, &record, answer.seeking.take()),
            Message::Refused { nonce, refusal } => self.on_refused(*sender, nonce, refusal),
            Message::Behind { nonce, incarnation } => self.on_behind(nonce, incarnation),
            Message::Wait { nonce, wait_ms } => self.joiner.on_wait(&mut self.cx, nonce, wait_ms),
            Message::Elsewhere { nonce, members } => {
                self.joiner.on_elsewhere(&mut outbox!(self), &self.reunion, nonce, &members)
            }
            Message::Page { after, more } if self.joiner.is_pulling_from(*sender) => {
                self.on_page(after.as_ref(), answer.last_on_page.take().filter(|_| more));
            }
            Message::LeaseUpdate(word) if self.cx.phase.is_joining() && self.joiner.is_pulling_from(*sender) => {
                self.on_lease_update_of_sponsor(&word)
            }
            Message::Pull { after, pages } => self.on_pull(*sender, after.as_ref(), pages),
            Message::HeldStatus { run, incarnation, status, .. }
                if answer.introduction.is_some_and(Introduction::is_unlisted)
                    && status != Status::Left(LeaveReason::Forced) =>
            {
                // From somebody we buried, perhaps, but it just proved its address: what can be refuted may be heard.
                // Removals are only obeyed from members.
                if self.packets.turns.take(self.cx.now, Turn::Objection, sender.from) {
                    // How long it heard nothing is no evidence against this node's own hearing.
                    answer.myself |= self.on_held_status(run, (incarnation, status), Duration::ZERO);
                }
            }
            message => match self.member(sender, answer) {
                Some(slot) if !self.cx.phase.is_joining() => {
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

    pub(super) fn dispatch_heartbeat(&mut self, sender: &Sender, heartbeat: Heartbeat, answer: &mut Answer) {
        match self.member(sender, answer) {
            Some(slot) if !self.cx.phase.is_joining() => self.on_heartbeat(slot, heartbeat),
            _ => answer.stranger = true,
        }
    }

    pub(super) fn dispatch_news(&mut self, sender: &Sender, news: News, answer: &mut Answer) {
        let from = self.member(sender, answer);
        if answer.is_page && self.joiner.is_pulling_from(*sender) {
            answer.last_on_page = Some(self.subject(&news).id.clone());
        } else if (from.is_none() || self.cx.phase.is_joining())
            && !self.is_joiner_up(sender, &news)
            && !self.take_objection(sender, &news, answer)
        {
            answer.stranger = true;
            return;
        }
        let held = self.learn(news, from);
        if answer.is_asked_to_confirm {
            answer.held.extend(held);
        }
    }

    /// Returns true if a joiner that this node admitted says that it is Up: its address is proven, and it need not
    /// introduce itself again.
    fn is_joiner_up(&self, sender: &Sender, news: &News) -> bool {
        self.sponsor.joiners.is_admitted(sender.run, sender.from, self.subject(news))
    }

    /// Returns true if a sender that proved its address, and is not listed, reports another run of this node's own
    /// name.
    fn take_objection(&mut self, sender: &Sender, news: &News, answer: &Answer) -> bool {
        let subject = self.subject(news);
        let is_rival = subject.id == self.me().id && subject.run != self.cx.run;
        answer.introduction.is_some_and(Introduction::is_unlisted)
            && self.cx.phase.is_up()
            && is_rival
            && self.packets.turns.take(self.cx.now, Turn::Objection, sender.from)
    }

    fn dispatch_from_member(&mut self, slot: Slot, sender: Sender, message: &Message, answer: &mut Answer) {
        match *message {
            Message::Probe { nonce, .. } => answer.acks.push(nonce),
            Message::Ack { nonce } => self.on_ack(slot, nonce),
            Message::HeldStatus { run, incarnation, status, age_ms } => {
                let age = Duration::from_millis(age_ms);
                answer.myself |= self.on_held_status(run, (incarnation, status), age);
            }
            Message::Digest { ref buckets } => Gossip::on_digest(&mut outbox!(self), slot, buckets, answer.way),
            Message::Want { ref buckets } => self.gossip.on_want(&mut outbox!(self), slot, buckets, answer.way),
            Message::LastHeard { run } => answer.testimony.extend(self.grounds().last_heard(run)),
            Message::HeardAt { run, age_ms } => self.on_heard_at(slot, run, age_ms),
            Message::Confirm(Confirmation { record }) => answer.confirmed.push(record.0),
            Message::Confirmed(Confirmation { record }) => self.on_confirmed(slot, record.0),
            Message::Severed { run, age_ms, is_sure } => self.on_severed(slot, run, age_ms, is_sure),
            Message::Alive { run, sequence } => self.on_alive(slot, run, sequence),
            // Over a link it ends it; in a datagram it means nothing.
            Message::Unlink => {}
            Message::Unheard => self.on_unheard(slot),
            Message::Election(ref word) => self.on_election(slot, ElectionMessage::clone(word)),
            Message::LeaderClaim(ref led) => self.on_leader_claim(slot, LeaderClaim::clone(led)),
            Message::LeaderRenewal(ref renewal) => self.on_leader_renewal(slot, renewal),
            Message::WhoLeads => self.on_who_leads(slot),
            Message::ElectorateReport(founded) => self.on_electorate_report(sender.run, founded),
            Message::WantView(ref want) => self.on_want_view(slot, want),
            Message::ViewPart(ref part) => self.on_view_part(slot, ViewPart::clone(part)),
            Message::ChangeVoters(ref question) => self.on_change_voters(slot, sender, question),
            Message::VotersChanged(ref changed) => self.on_voters_changed(slot, changed),
            Message::LeaseUpdate(ref word) => self.on_lease_update(slot, word),
            Message::Broadcast(ref broadcast) => self.on_broadcast(slot, broadcast),
            Message::HaveBroadcasts(ref spans) => self.on_have_broadcasts(slot, spans),
            // One answer for all of the packet.
            Message::WantBroadcasts(ref spans) => {
                answer.wants.extend(spans.iter().take(MAX_WANTS - answer.wants.len()));
            }
            Message::Letter(ref letter) => self.on_letter(slot, answer.way, letter),
            Message::Receipt { number } => self.on_receipt(slot, number),
            Message::Page { .. } => self.cx.counters.drop(DropReason::Unasked),
            // Dispatched before, whoever the sender is.
            Message::Update(_)
            | Message::Heartbeat(_)
            | Message::Reply
            | Message::Padding(_)
            | Message::WhoAreYou { .. }
            | Message::IAm { .. }
            | Message::Join { .. }
            | Message::ReachMe { .. }
            | Message::Reached { .. }
            | Message::Seeking(_)
            | Message::Challenge { .. }
            | Message::Welcome { .. }
            | Message::NotUp { .. }
            | Message::Refused { .. }
            | Message::Behind { .. }
            | Message::Wait { .. }
            | Message::Elsewhere { .. }
            | Message::Pull { .. } => self.cx.counters.drop(DropReason::WrongState),
        }
    }

    /// Takes a nonce back from the address of the member to which it was sent: that address is proven.
    fn on_ack(&mut self, slot: Slot, nonce: Nonce) {
        if self.packets.prover.is_nonce(nonce, self.view.record(slot).address, self.cx.now) {
            self.proved_at_home(slot);
            self.note_contact(slot, self.cx.now);
        } else {
            self.cx.counters.drop(DropReason::Unasked);
        }
    }
}
