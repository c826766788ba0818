//! Admitting joiners: the sponsor's side of joining.
//!
//! Invariants:
//! - Before the cookie came back no state is kept of a joiner, and no answer is larger than its question.
//! - A joiner is admitted only after its *advertised* address brought back a cookie (see `reachable`).
//! - A joiner that asks again at once, whatever it is answered, is answered so often in a second and no more; one that is
//!   not let in is told so a few times (see `joiners`).
//! - A name that a live member holds is only given away after that member was probed (see `names`).
//!
//! Must not know: how joiners are kept (see `joiners`).

use std::sync::Arc;

use crate::Core;
use crate::context::Phase;
use crate::counters::DropReason;
use crate::doors::{Notice, Receiver};
use crate::member::{ProtocolRange, Record, Run, Status};
use crate::packet::{Newcomer, Sender, Turn};
use crate::wire::{Message, Nonce, Refusal, Seeking};

impl Core {
    /// Handles `Join`: first sends a challenge, then decides.
    pub(crate) fn on_join(
        &mut self,
        sender: Sender,
        nonce: Nonce,
        record: Record,
        cookie: Option<Nonce>,
        seeking: Option<Seeking>,
    ) {
        if !self.joiners.take_answer(self.cx.now, sender.run, sender.from) {
            return self.cx.counters.drop(DropReason::RateLimited);
        }
        let is_of = |address| {
            cookie.is_some_and(|cookie| self.packets.prover.is_cookie(cookie, address, sender.run, self.cx.now))
        };
        // A cookie that came back for the advertised address proves that one, wherever this packet comes from.
        let is_of_advertised = is_of(record.address);
        let is_proven = is_of_advertised || is_of(sender.from);
        if self.cx.phase.is_up() && self.serving.is_busy_for(sender.run, sender.from, self.cx.now) {
            let elsewhere = self.refer(sender.from, nonce);
            return self.out().answer_with(sender, &elsewhere);
        }
        if !is_proven {
            let cookie = self.packets.prover.cookie(sender.from, sender.run, self.cx.now);
            return self.out().answer_with(sender, &Message::Challenge { nonce, cookie });
        }
        if record.run != sender.run || record.status != Status::Joining || record.run.is_nobody() {
            return self.cx.counters.drop(DropReason::Malformed);
        }
        let from = if is_of_advertised { record.address } else { sender.from };
        if self.joiners.is_elsewhere(sender.run, from) {
            // One process is in one place: the joiner of this run is at another address.
            return self.cx.counters.drop(DropReason::Claimed);
        }
        let newcomer = Newcomer { from, heard_from: sender.from, nonce, record };
        if !newcomer.record.protocol.overlaps(ProtocolRange::OURS) {
            self.cx.notice("other protocol", Notice::OtherProtocol { from: sender.from });
            if !self.packets.turns.take(self.cx.now, Turn::Refusal, sender.from) {
                return self.cx.counters.drop(DropReason::RateLimited);
            }
            let refusal = Refusal::Protocol { speaks: ProtocolRange::OURS };
            return self.decide(&newcomer, &Message::Refused { nonce, refusal });
        }
        match self.cx.phase {
            Phase::Joining => self.keep_waiting(&newcomer, seeking),
            Phase::Up => self.admit(newcomer, None),
            Phase::Leaving | Phase::Stopped => self.cx.counters.drop(DropReason::WrongState),
        }
    }

    /// Sends the decision to a newcomer, whose address is proven.
    pub(super) fn decide(&mut self, newcomer: &Newcomer, message: &Message) {
        let mut packet = self.out().packet(usize::MAX);
        packet.push(&Message::Reply);
        packet.push(message);
        self.out().transmit(newcomer.from, Receiver::of(newcomer.record.run), packet);
    }

    /// Tells a newcomer why it is not let in now, if it was not told a moment ago.
    pub(super) fn deny(&mut self, newcomer: &Newcomer, message: &Message) {
        if self.joiners.denied.take(self.cx.now, newcomer.from) {
            self.decide(newcomer, message);
        } else {
            self.cx.counters.drop(DropReason::RateLimited);
        }
    }

    fn keep_waiting(&mut self, newcomer: &Newcomer, seeking: Option<Seeking>) {
        self.joiners.keep_waiting(newcomer, self.cx.now, self.cx.settings.retry_interval * 2);
        if let Some(seeking) = seeking {
            self.asked_while_joining(newcomer.from, &newcomer.record, seeking);
        }
        self.answer_not_up(newcomer);
    }

    /// Answers that this node is Joining itself.
    fn answer_not_up(&mut self, newcomer: &Newcomer) {
        let (record, joiners) = (Record::clone(self.me()), self.joiners.waiting() as u32);
        let seeking = self.seeking(None);
        let mut packet = self.out().packet(usize::MAX);
        packet.push(&Message::Reply);
        if let Some(seeking) = seeking {
            packet.push(&Message::Seeking(seeking));
        }
        packet.push(&Message::NotUp { nonce: newcomer.nonce, record, joiners });
        self.out().transmit(newcomer.from, Receiver::of(newcomer.record.run), packet);
    }

    /// Tells some of the joiners that asked that another candidate comes first.
    pub(super) fn tell_waiting(&mut self, limit: usize) {
        for newcomer in self.joiners.all_waiting().into_iter().take(limit) {
            self.answer_not_up(&newcomer);
        }
    }

    /// Admits the joiners that asked before this node was Up.
    pub(super) fn welcome_waiting(&mut self) {
        for newcomer in self.joiners.take_waiting() {
            self.admit(newcomer, None);
        }
    }

    /// Admits a newcomer, or answers why not (yet). `vacated_by` is the run that was probed for this name and is gone.
    pub(super) fn admit(&mut self, newcomer: Newcomer, vacated_by: Option<Run>) {
        let Newcomer { from, nonce, ref record, .. } = newcomer;
        if record.id == self.me().id {
            let refusal = Refusal::NameInUse { holder: self.me().address };
            return self.deny(&newcomer, &Message::Refused { nonce, refusal });
        }
        let held = self.view.slot_of(record.id.as_str()).map(|slot| Arc::clone(self.view.record(slot)));
        let last = self.view.tombstones.incarnation(record.id.as_str()).max(held.as_ref().map(|held| held.incarnation));
        if let Some(incarnation) = last.filter(|last| record.incarnation <= *last) {
            return self.deny(&newcomer, &Message::Behind { nonce, incarnation });
        }
        if !self.try_reach(&newcomer) {
            return;
        }
        let rival = self.joiners.of_name(&record.id).cloned();
        let is_held = |held: &Arc<Record>| matches!(held.status, Status::Up | Status::Suspect | Status::Leaving);
        let owner = held.clone().filter(is_held).or(rival).filter(|owner| owner.run != record.run);
        if let Some(owner) = owner
            && vacated_by != Some(owner.run)
            && !self.joiners.contains(record.run)
            && owner.address != from
        {
            return self.probe_name(newcomer, &owner);
        }
        if self.joiners.is_ahead_of(record) {
            // A late copy: the joiner has raised its incarnation since.
            return self.cx.counters.drop(DropReason::Outdated);
        }
        let is_held = self.joiners.contains(record.run);
        if let Some(owner) = self.other_at(record).filter(|owner| vacated_by != Some(owner.run)) {
            return self.probe_name(newcomer, &owner);
        }
        if !self.serving.begin(record.run, from, self.cx.now) {
            let elsewhere = self.refer(from, nonce);
            return self.decide(&newcomer, &elsewhere);
        }
        self.name_stuck_joiner(&newcomer.record);
        if !is_held
            && self.joiners.is_full()
            && let Some(run) = self.joiners.idlest()
        {
            self.drop_joiner(run);
        }
        self.hold(&newcomer, held.is_some());
        let sponsor = Record::clone(self.me());
        let mut packet = self.out().packet(usize::MAX);
        packet.push(&Message::Reply);
        self.push_founded(&mut packet);
        packet.push(&Message::Welcome { nonce, sponsor });
        self.out().transmit(newcomer.from, Receiver::of(newcomer.record.run), packet);
    }

    /// Returns a live member of another name at the joiner's address. It is probed before the joiner is admitted: one
    /// process at one address is one member.
    fn other_at(&self, record: &Record) -> Option<Arc<Record>> {
        if self.joiners.contains(record.run) {
            return None;
        }
        let members = self.view.live().iter().map(|slot| self.view.record(*slot));
        let others = members.filter(|member| member.run != record.run && member.id != record.id);
        others.filter(|member| member.address == record.address).max_by_key(|member| member.incarnation).map(Arc::clone)
    }
}
