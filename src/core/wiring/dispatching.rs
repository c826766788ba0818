//! Dispatching: the messages of one packet, each handed to the machine that it is for. One table says who may send which kind, and
//! who takes it.
//!
//! Invariants:
//! - From strangers only what is named here as theirs goes further; everything else marks the packet as a stranger's.
//! - Of each kind of questions that are answered by packets of their own, the first in a packet counts (see `incoming::answer`).
//!
//! Must not know: what becomes of a message.

use std::time::Duration;

use crate::Core;
use crate::counters::DropReason;
use crate::dissemination::Gossip;
use crate::incoming::Answer;
use crate::joining::NotUp;
use crate::limits::MAX_WANTS;
use crate::member::{LeaveReason, Status};
use crate::packet::{Introduction, News, Sender, Turn};
use crate::view::Slot;
use crate::wire::{Confirmation, Heartbeat, Message, Nonce};

impl Core {
    /// Hands a message on: the table of all kinds.
    pub(crate) fn dispatch(&mut self, sender: &Sender, message: Message, answer: &mut Answer) {
        if answer.note_repeated(&message) {
            return self.cx.counters.drop(DropReason::RateLimited);
        }
        let member = self.member(sender, answer).filter(|_| !self.cx.phase.is_joining());
        match (message, member) {
            // Of anybody: what goes with others, questions who somebody is, and all that joining takes.
            (Message::Reply, _) => answer.beside.is_reply = true,
            // Over a link the second ends it (see `linking`); in a datagram it means nothing.
            (Message::Padding(_), _) | (Message::Unlink, Some(_)) => {}
            (Message::WhoAreYou { nonce, echo }, _) => {
                answer.shown.has_echoed = echo.is_some_and(|echo| self.echoed(*sender, echo));
                answer.owed.introduce = Some(nonce);
            }
            (Message::IAm { nonce, record }, _) => {
                answer.shown.has_brought_nonce = self.packets.prover.is_nonce(nonce, sender.from, self.cx.now);
                answer.shown.advertised = Some(record.address);
                let is_finder = answer.shown.has_brought_nonce
                    && answer.beside.founded.is_some()
                    && self.may_be_finder(*sender, &record);
                answer.shown.introduction = Some(self.on_i_am(*sender, nonce, record));
                if is_finder && self.must_be_found() {
                    self.joiner.found_by(&mut outbox!(self), &self.reunion, sender.from);
                }
            }
            (Message::Join { nonce, record, cookie }, _) => {
                self.on_join(*sender, nonce, record, cookie, answer.beside.seeking.take());
            }
            (Message::ReachMe { nonce, address }, _) => {
                self.sponsor.on_reach_me(&mut outbox!(self), *sender, nonce, address);
            }
            (Message::Reached { nonce }, _) => self.on_reached(sender, nonce),
            (Message::Seeking(seeking), _) => answer.beside.seeking = Some(seeking),
            (Message::ElectorateReport(founded), _) if self.cx.phase.is_joining() => {
                answer.beside.founded = Some(founded);
            }
            (Message::Challenge { nonce, cookie }, _) => {
                self.joiner.on_challenge(&mut outbox!(self), &self.reunion, *sender, nonce, cookie);
            }
            (Message::Welcome { nonce, sponsor, .. }, _) => {
                self.on_welcome(*sender, nonce, &sponsor, answer.beside.founded.take());
            }
            (Message::NotUp { nonce, record, .. }, _) => {
                let (from, seeking) = (sender.from, answer.beside.seeking.take());
                self.on_not_up(&NotUp { from, nonce, record, seeking });
            }
            (Message::Refused { nonce, refusal }, _) => self.on_refused(*sender, nonce, refusal),
            (Message::Behind { nonce, incarnation }, _) => self.on_behind(nonce, incarnation),
            (Message::Wait { nonce, wait_ms }, _) => self.joiner.on_wait(&mut self.cx, nonce, wait_ms),
            (Message::Elsewhere { nonce, members }, _) => {
                self.joiner.on_elsewhere(&mut outbox!(self), &self.reunion, nonce, &members);
            }
            (Message::Page { after, more }, _) if self.joiner.is_pulling_from(*sender) => {
                self.on_page(after.as_ref(), answer.beside.last_on_page.take().filter(|_| more));
            }
            (Message::LeaseUpdate(update), _) if self.cx.phase.is_joining() && self.joiner.is_pulling_from(*sender) => {
                self.lease_updates.on_update_of_sponsor(&mut self.cx, &update);
            }
            (Message::Pull { after, pages }, _) => self.on_pull(*sender, after.as_ref(), pages),
            (Message::HeldStatus { run, incarnation, status, .. }, _)
                if answer.shown.introduction.is_some_and(Introduction::is_unlisted)
                    && status != Status::Left(LeaveReason::Forced) =>
            {
                // This node may hold a tombstone of it, but it just proved its address: what can be refuted may be heard.
                // Removals are only obeyed from members.
                if self.packets.turns.take(self.cx.now, Turn::Objection, sender.from) {
                    // How long it heard nothing is no evidence against this node's own hearing.
                    answer.owed.myself |= self.on_held_status(run, (incarnation, status), Duration::ZERO);
                }
            }
            // Of members.
            (Message::Probe { nonce, .. }, Some(_)) => answer.owed.acks.push(nonce),
            (Message::Ack { nonce }, Some(slot)) => self.on_ack(slot, nonce),
            (Message::HeldStatus { run, incarnation, status, age_ms }, Some(_)) => {
                let age = Duration::from_millis(age_ms);
                answer.owed.myself |= self.on_held_status(run, (incarnation, status), age);
            }
            (Message::Digest { buckets }, Some(slot)) => {
                Gossip::on_digest(&mut outbox!(self), slot, &buckets, answer.way);
            }
            (Message::Want { buckets }, Some(slot)) => {
                self.gossip.on_want(&mut outbox!(self), slot, &buckets, answer.way);
            }
            (Message::LastHeard { run }, Some(_)) => answer.owed.testimony.extend(self.grounds().last_heard(run)),
            (Message::HeardAt { run, age_ms }, Some(slot)) => self.on_heard_at(slot, run, age_ms),
            (Message::Confirm(Confirmation { record }), Some(_)) => answer.owed.confirmed.push(record.0),
            (Message::Confirmed(Confirmation { record }), Some(slot)) => self.on_confirmed(slot, record.0),
            (Message::Severed { run, age_ms, is_sure }, Some(slot)) => self.on_severed(slot, run, age_ms, is_sure),
            (Message::Alive { run, sequence }, Some(_)) => self.on_alive(run, sequence),
            (Message::Unheard, Some(slot)) => self.on_unheard(slot),
            (Message::Election(message), Some(slot)) => {
                self.message_lead(DropReason::WrongState, |lead, around| lead.on_election(around, slot, *message));
            }
            (Message::LeaderClaim(led), Some(slot)) => self.on_leader_claim(slot, *led),
            (Message::LeaderRenewal(renewal), Some(slot)) => self.on_leader_renewal(slot, &renewal),
            (Message::WhoLeads { nonce }, Some(slot)) => {
                self.tell_lead(|lead, around| lead.on_who_leads(around, slot, nonce));
            }
            (Message::ElectorateReport(founded), Some(_)) => self.on_electorate_report(sender.run, founded),
            (Message::WantView(want), Some(slot)) => {
                self.message_lead(DropReason::Unasked, |lead, around| lead.on_want_view(around, slot, &want));
            }
            (Message::ViewPart(part), Some(slot)) => {
                self.message_lead(DropReason::Unasked, |lead, around| lead.on_view_part(around, slot, *part));
            }
            (Message::ChangeVoters(question), Some(slot)) => {
                self.message_lead(DropReason::WrongState, |lead, around| {
                    lead.on_change_voters(around, slot, sender.run, &question);
                });
            }
            (Message::VotersChanged(changed), Some(slot)) => {
                self.message_lead(DropReason::Unasked, |lead, around| lead.on_voters_changed(around, slot, &changed));
            }
            (Message::LeaseUpdate(update), Some(slot)) => self.on_lease_update(slot, &update),
            (Message::Broadcast(broadcast), Some(slot)) => {
                self.messages.on_broadcast(&mut outbox!(self), slot, &broadcast);
            }
            (Message::HaveBroadcasts(spans), Some(slot)) => {
                self.messages.on_have_broadcasts(&mut outbox!(self), slot, &spans);
            }
            // One answer for all of the packet.
            (Message::WantBroadcasts(spans), Some(_)) => {
                answer.owed.wants.extend(spans.iter().take(MAX_WANTS - answer.owed.wants.len()));
            }
            (Message::Direct(message), Some(slot)) => {
                self.messages.on_direct(&mut outbox!(self), slot, answer.way, &message);
            }
            (Message::Receipt { number }, Some(slot)) => {
                self.messages.direct.on_receipt(&mut outbox!(self), slot, number);
            }
            (Message::Page { .. }, Some(_)) => self.cx.counters.drop(DropReason::Unasked),
            // What only members may say.
            (Message::Probe { nonce, .. }, None) => {
                answer.stranger = true;
                answer.owed.probed = Some(nonce);
            }
            // They are read apart (see `packet::inbox`).
            (Message::Update(_) | Message::Heartbeat(_), _) => self.cx.counters.drop(DropReason::WrongState),
            (_, None) => answer.stranger = true,
        }
    }

    pub(crate) fn dispatch_heartbeat(&mut self, sender: &Sender, heartbeat: Heartbeat, answer: &mut Answer) {
        match self.member(sender, answer) {
            Some(slot) if !self.cx.phase.is_joining() => self.on_heartbeat(slot, heartbeat),
            _ => answer.stranger = true,
        }
    }

    pub(crate) fn dispatch_news(&mut self, sender: &Sender, news: News, answer: &mut Answer) {
        let from = self.member(sender, answer);
        if answer.beside.is_page && self.joiner.is_pulling_from(*sender) {
            answer.beside.last_on_page = Some(news.subject(&self.view).id.clone());
        } else if (from.is_none() || self.cx.phase.is_joining())
            // Who was admitted says that it is Up: its address is proven, and it need not introduce itself again.
            && !self.sponsor.joiners.is_admitted(sender.run, sender.from, news.subject(&self.view))
            && !self.take_objection(sender, &news, answer)
        {
            answer.stranger = true;
            return;
        }
        let held = self.learn(news, from);
        if answer.beside.is_asked_to_confirm {
            answer.owed.held.extend(held);
        }
    }

    /// Returns true if a sender that proved its address, and is not listed, reports another run of this node's own
    /// name.
    fn take_objection(&mut self, sender: &Sender, news: &News, answer: &Answer) -> bool {
        let subject = news.subject(&self.view);
        let is_rival = subject.id == self.me().id && subject.run != self.cx.run;
        answer.shown.introduction.is_some_and(Introduction::is_unlisted)
            && self.cx.phase.is_up()
            && is_rival
            && self.packets.turns.take(self.cx.now, Turn::Objection, sender.from)
    }

    /// Takes a nonce back from the address of the member to which it was sent: that address is proven.
    fn on_ack(&mut self, slot: Slot, nonce: Nonce) {
        if self.packets.prover.is_nonce(nonce, self.view.record(slot).address, self.cx.now) {
            self.proved_at_address(slot);
            self.note_contact(slot, self.cx.now);
        } else {
            self.cx.counters.drop(DropReason::Unasked);
        }
    }
}
