//! Dispatching: the messages of one packet, each handed to the machine that it is for. One table says who may send which kind, and
//! who takes it.
//!
//! Invariants:
//! - From strangers only this goes further: questions; answers to our own, which prove by a nonce that we asked, or come from the
//!   node that we join by; from whoever just proved an address, what it holds this node for; and that an admitted joiner is Up.
//!   Everything else marks the packet as a stranger's.
//! - Of each kind of questions that are answered by packets of their own, the first in a packet counts (see `packet::answer`).
//!
//! Must not know: what becomes of a message.

use std::time::Duration;

use crate::Core;
use crate::counters::DropReason;
use crate::dissemination::Gossip;
use crate::election::Election;
use crate::io::Contacted;
use crate::limits::MAX_WANTS;
use crate::member::{LeaveReason, Status};
use crate::packet::{Answer, Introduction, News, Sender, Turn};
use crate::wire::{Confirmation, Message};

impl Core {
    /// Hands a message on: the table of all kinds. Returns `None` if only a member may say this (`member?`), and the sender is
    /// none.
    pub(crate) fn dispatch(&mut self, sender: &Sender, message: Message, answer: &mut Answer) -> Option<()> {
        if answer.note_repeated(&message) {
            self.cx.counters.drop(DropReason::RateLimited);
            return Some(());
        }
        let member = self.member(sender, answer).filter(|_| !self.cx.phase.is_joining());
        match message {
            // Of anybody: what goes with others, questions who somebody is, and all that joining takes.
            Message::Reply => answer.beside.is_reply = true,
            // Over a link the second ends it (see `linking`); in a datagram it means nothing.
            Message::Padding(_) => {}
            Message::Unlink => _ = member?,
            Message::WhoAreYou { nonce, echo } => {
                answer.shown.has_echoed = echo.is_some_and(|echo| self.echoed(*sender, echo));
                answer.owed.introduce = Some(nonce);
            }
            Message::IAm { nonce, record } => {
                answer.shown.has_brought_nonce = self.packets.prover.is_nonce(nonce, sender.from, self.cx.now);
                answer.shown.advertised = Some(record.address);
                let is_finder = answer.shown.has_brought_nonce
                    && answer.beside.founded.is_some()
                    && self.joiner.may_be_found_by(self.view.me(), *sender, &record);
                answer.shown.introduction = Some(self.on_i_am(*sender, nonce, record));
                if is_finder && self.election().is_some_and(Election::is_forming) {
                    self.joiner.found_by(&mut outbox!(self), &self.reunion, sender.from);
                }
            }
            Message::Join { nonce, record, cookie } => {
                self.on_join(*sender, nonce, record, cookie, answer.beside.seeking.take());
            }
            Message::ReachMe { nonce, address } => {
                self.sponsor.on_reach_me(&mut outbox!(self), *sender, nonce, address);
            }
            Message::Reached { nonce } => self.on_reached(sender, nonce),
            Message::Seeking(seeking) => answer.beside.seeking = Some(seeking),
            Message::ElectorateReport(founded) if self.cx.phase.is_joining() => {
                answer.beside.founded = Some(founded);
            }
            Message::Challenge { nonce, cookie } => {
                self.joiner.on_challenge(&mut outbox!(self), &self.reunion, *sender, nonce, cookie);
            }
            Message::Welcome { nonce, sponsor, .. } => {
                self.on_welcome(*sender, nonce, &sponsor, answer.beside.founded.take());
            }
            Message::NotUp { nonce, record, .. } => {
                if self.joiner.has_asked(nonce) {
                    let what = Contacted::NotUp { id: Some(record.id.clone()) };
                    self.reunion.contacted(&mut self.cx, sender.from, &what);
                }
                let (out, reunion, seeking) = (&mut outbox!(self), &self.reunion, answer.beside.seeking.take());
                let waiting = || self.sponsor.joiners.all_waiting();
                if self.joiner.on_not_up(out, reunion, waiting, nonce, &record, seeking) {
                    self.consider_founding();
                }
            }
            Message::Refused { nonce, refusal } => self.on_refused(*sender, nonce, refusal),
            Message::Behind { nonce, incarnation: held } => {
                let is_raising = self.me.incarnation.is_waiting();
                if self.joiner.on_behind(&mut self.cx, self.view.me(), nonce, held, is_raising) {
                    self.raise_incarnation(held + 1);
                    self.joiner.incarnation_raised(&mut self.cx, self.me.incarnation.is_waiting());
                }
            }
            Message::Wait { nonce, wait_ms } => self.joiner.on_wait(&mut self.cx, nonce, wait_ms),
            Message::Elsewhere { nonce, members } => {
                self.joiner.on_elsewhere(&mut outbox!(self), &self.reunion, nonce, &members);
            }
            Message::Page { after, more } if self.joiner.is_pulling_from(*sender) => {
                let next = answer.beside.last_on_page.take().filter(|_| more);
                let step = self.joiner.on_page(&mut outbox!(self), &self.reunion, after.as_ref(), next);
                self.take_joiner_step(step);
            }
            Message::Page { .. } => {
                member?;
                self.cx.counters.drop(DropReason::Unasked);
            }
            Message::LeaseUpdate(update) if self.cx.phase.is_joining() && self.joiner.is_pulling_from(*sender) => {
                self.lease_updates.on_update_of_sponsor(&mut self.cx, &update);
            }
            Message::Pull { after, pages } => self.on_pull(*sender, after.as_ref(), pages),
            Message::HeldStatus { run, incarnation, status, .. }
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
            Message::Probe { nonce } => {
                if member.is_none() {
                    answer.owed.probed = Some(nonce);
                }
                member?;
                answer.owed.acks.push(nonce);
            }
            Message::Ack { nonce } => {
                let slot = member?;
                if self.packets.prover.is_nonce(nonce, self.view.record(slot).address, self.cx.now) {
                    self.proved_at_address(slot);
                    self.note_contact(slot, self.cx.now);
                } else {
                    self.cx.counters.drop(DropReason::Unasked);
                }
            }
            Message::HeldStatus { run, incarnation, status, age_ms } => {
                member?;
                let age = Duration::from_millis(age_ms);
                answer.owed.myself |= self.on_held_status(run, (incarnation, status), age);
            }
            Message::Digest { buckets } => {
                Gossip::on_digest(&mut outbox!(self), member?, &buckets, answer.way);
            }
            Message::Want { buckets } => {
                self.gossip.on_want(&mut outbox!(self), member?, &buckets, answer.way);
            }
            Message::LastHeard { run } => {
                member?;
                answer.owed.testimony.extend(self.detector_facts().last_heard(run));
                self.look_for_doubted(run);
            }
            Message::HeardAt { run, age_ms } => self.on_heard_at(member?, run, age_ms),
            Message::Confirm(Confirmation { record }) => {
                member?;
                answer.owed.confirmed.push(record.0);
            }
            Message::Confirmed(Confirmation { record }) => {
                let over = self.confirmations.confirmed(&mut self.cx, &self.view, member?, record.0);
                self.confirmation_over(over);
            }
            Message::Severed { run, age_ms, is_sure } => self.on_severed(member?, run, age_ms, is_sure),
            Message::Alive { run, sequence } => {
                member?;
                let steps = self.crashes.told_alive(run, sequence);
                self.take_crash_steps(run, steps);
            }
            Message::Unheard => self.on_unheard(member?),
            Message::Election(message) => {
                let slot = member?;
                self.message_lead(DropReason::WrongState, |lead, cx| lead.on_election(cx, slot, *message));
            }
            Message::LeaderClaim(led) => self.on_leader_claim(member?, *led),
            Message::LeaderRenewal(renewal) => {
                let slot = member?;
                if self.tell_lead(|lead, cx| lead.on_leader_renewal(cx, slot, &renewal)).is_none() {
                    self.voters_heard(slot, None);
                }
            }
            Message::WhoLeads { nonce } => {
                let slot = member?;
                self.tell_lead(|lead, cx| lead.on_who_leads(cx, slot, nonce));
            }
            Message::ElectorateReport(founded) => {
                member?;
                self.on_electorate_report(sender.run, founded);
            }
            Message::WantView(want) => {
                let slot = member?;
                self.message_lead(DropReason::Unasked, |lead, cx| lead.on_want_view(cx, slot, &want));
            }
            Message::ViewPart(part) => {
                let slot = member?;
                self.message_lead(DropReason::Unasked, |lead, cx| lead.on_view_part(cx, slot, *part));
            }
            Message::ChangeVoters(question) => {
                let slot = member?;
                self.message_lead(DropReason::WrongState, |lead, cx| {
                    lead.on_change_voters(cx, slot, sender.run, &question);
                });
            }
            Message::VotersChanged(changed) => {
                let slot = member?;
                self.message_lead(DropReason::Unasked, |lead, cx| lead.on_voters_changed(cx, slot, &changed));
            }
            Message::LeaseUpdate(update) => self.on_lease_update(member?, &update),
            Message::Broadcast(broadcast) => self.messages.on_broadcast(&mut outbox!(self), member?, &broadcast),
            Message::HaveBroadcasts(spans) => self.messages.on_have_broadcasts(&mut outbox!(self), member?, &spans),
            // One answer for all of the packet.
            Message::WantBroadcasts(spans) => {
                member?;
                answer.owed.wants.extend(spans.iter().take(MAX_WANTS - answer.owed.wants.len()));
            }
            Message::Direct(message) => self.messages.on_direct(&mut outbox!(self), member?, answer.way, &message),
            Message::Receipt { number } => self.messages.direct.on_receipt(&mut outbox!(self), member?, number),
            Message::NextHeartbeat { after_ms } => {
                let slot = member?;
                if self.observers.observes(slot) && self.detector_facts().counts_as_alive(slot) {
                    let most = self.view.record(slot).timing.heartbeat_interval();
                    let after = Duration::from_millis(after_ms.into()).min(most);
                    self.view.peer_mut(slot).expect(self.cx.arrived, after);
                    self.cx.counters.heartbeats_received += 1;
                }
            }
            Message::HostAnswers { run } => {
                member?;
                self.note_host_answered(run);
            }
            // They are read apart (see `packet::inbox`).
            Message::Update(_) | Message::Heartbeat(_) => self.cx.counters.drop(DropReason::WrongState),
        }
        Some(())
    }

    /// Takes a record that a packet brings; returns `None` if its sender is not believed.
    pub(crate) fn on_news(&mut self, sender: &Sender, news: News, answer: &mut Answer) -> Option<()> {
        let from = self.member(sender, answer);
        if answer.beside.is_page && self.joiner.is_pulling_from(*sender) {
            answer.beside.last_on_page = Some(news.subject(&self.view).id.clone());
        } else if from.is_none() || self.cx.phase.is_joining() {
            let subject = news.subject(&self.view);
            // Who was admitted says that it is Up: its address is proven, and it need not introduce itself again. Who proved its
            // address, and is not listed, may report another run of this node's own name.
            let is_rival = subject.id == self.me().id && subject.run != self.cx.run;
            let is_objection = answer.shown.introduction.is_some_and(Introduction::is_unlisted) && is_rival;
            let is_taken = self.sponsor.joiners.is_admitted(sender.run, sender.from, subject)
                || is_objection
                    && self.cx.phase.is_up()
                    && self.packets.turns.take(self.cx.now, Turn::Objection, sender.from);
            if !is_taken {
                return None;
            }
        }
        let travelled = from.map_or(Duration::ZERO, |from| self.view.entry(from).peer.travelling_time());
        let held = self.learn(news.travelled(travelled.min(self.cx.settings.probe_timeout)), from);
        if answer.beside.is_asked_to_confirm {
            answer.owed.held.extend(held);
        }
        Some(())
    }
}
