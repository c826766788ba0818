//! Entering: how a node comes into a cluster, and how others come in by it; who somebody is that this node asked; and what is done
//! about seeds and the lost.
//!
//! Must not know: how a joiner searches, how a sponsor decides (see `joining`), or who is looked for (see `discovery`).

use std::net::SocketAddr;

use crate::Core;
use crate::context::Phase;
use crate::counters::DropReason;
use crate::election::{Election, ElectorateReport};
use crate::io::{Contacted, Receiver};
use crate::joining::{JoinReport, JoinStep};
use crate::limits::MIN_PROBE_BYTES;
use crate::member::{NodeId, Record, Run, Status};
use crate::packet::{Introduction, News, Sender, SenderKind, Turn, Way};
use crate::timers::Timer;
use crate::view::{Slot, View};
use crate::wire::{Message, Nonce, Refusal, Seeking};

/// This node's own way in.
impl Core {
    /// Founds a cluster, if it is time: the members of this one would form an electorate, perhaps, and it knows of none.
    pub(crate) fn consider_founding(&mut self) {
        let may_form = self.election().is_some_and(|election| election.founded().is_none());
        let is_raising = self.me.incarnation.is_waiting();
        let step = self.joiner.consider_founding(&mut outbox!(self), &self.reunion, may_form, is_raising);
        self.take_joiner_step(step);
    }

    /// Does what the joiner says.
    pub(crate) fn take_joiner_step(&mut self, step: Option<JoinStep>) {
        match step {
            None => {}
            Some(JoinStep::BecomeUp) => self.become_up(),
            Some(JoinStep::Stop(reason)) => self.stop(reason),
            Some(JoinStep::Pulled { address, sponsor }) => self.pulled_everything(address, sponsor),
            Some(JoinStep::Unreached(address)) => self.me.unreached_at = Some(address),
        }
    }

    /// Takes a sponsor's welcome.
    pub(crate) fn on_welcome(
        &mut self,
        sender: Sender,
        nonce: Nonce,
        sponsor: &Record,
        founded: Option<ElectorateReport>,
    ) {
        if !self.joiner.on_welcome(&mut self.cx, nonce, sponsor, founded.is_some()) {
            return;
        }
        self.reunion.contacted(&mut self.cx, sender.from, &Contacted::Answered { id: sponsor.id.clone() });
        if let Some(founded) = founded {
            self.on_electorate_report(sender.run, founded);
        }
        self.joiner.follow(&mut outbox!(self), sender, sponsor);
    }

    /// Takes a refusal.
    pub(crate) fn on_refused(&mut self, sender: Sender, nonce: Nonce, refusal: Refusal) {
        if self.joiner.has_asked(nonce) || self.packets.prover.is_nonce(nonce, sender.from, self.cx.now) {
            self.reunion.contacted(&mut self.cx, sender.from, &Contacted::Refused(refusal.clone()));
        }
        let step = self.joiner.on_refused(&mut outbox!(self), &self.reunion, sender, nonce, refusal);
        self.take_joiner_step(step);
    }

    /// Takes the answer that somebody reached this node: a joiner at its advertised address, its sponsor at its own, or a member
    /// this one where it has moved.
    pub(crate) fn on_reached(&mut self, sender: &Sender, nonce: Nonce) {
        if !self.me.moving.is_reached_by(nonce) {
            let is_raising = self.me.incarnation.is_waiting();
            let step = self.joiner.on_reached(&mut outbox!(self), nonce, is_raising);
            return self.take_joiner_step(step);
        }
        self.take_address();
        let is_elsewhere =
            matches!(sender.kind, SenderKind::Member(slot) if self.view.record(slot).address != sender.from);
        if is_elsewhere && !self.me.moving.is_open() {
            // What goes to all does not reach it.
            let mut packet = self.out().packet(usize::MAX);
            self.out().push_update(&mut packet, View::ME);
            self.out().transmit(sender.from, Receiver::Run(sender.run), packet);
        }
    }

    /// Returns what is known of joining, if this node is joining.
    pub fn joining(&self) -> Option<JoinReport> {
        self.joiner.report(&self.cx, &self.view, &self.reunion)
    }

    /// Takes the whole view of a sponsor.
    fn pulled_everything(&mut self, address: SocketAddr, sponsor: Run) {
        if !self.cx.phase.is_joining() || self.me.incarnation.is_waiting() {
            return;
        }
        if let Some(slot) = self.view.slot_of_run(sponsor) {
            if self.view.record(slot).address == address {
                // Its welcome echoed the nonce that was sent to this address.
                self.proved_at_address(slot);
            }
            let shift = self.observers.observe_besides(&self.cx, &self.view, slot);
            self.act_on_shift(shift);
        }
        if !self.joiner.request_reach(&mut outbox!(self)) {
            self.become_up();
        }
    }

    /// Becomes Up from Joining, at the same incarnation.
    fn become_up(&mut self) {
        let was_alone = self.view.live().is_empty();
        let is_founder = self.joiner.end() || was_alone;
        self.cx.phase = Phase::Up;
        let neighbours: Vec<Slot> = self.observers.neighbours().collect();
        if !neighbours.is_empty() {
            // A founder is no newcomer: whoever comes to it later may die before it has opened a link.
            self.paths.links.came_up(self.cx.now);
        }
        for slot in neighbours {
            self.plan_link(slot);
        }
        self.messages.begin(self.cx.now);
        self.paths.end_bootstraps_soon(self.cx.now, |_| true);
        for timer in [Timer::JoinTry, Timer::Found, Timer::Transfer, Timer::Reach] {
            self.cx.timers.cancel(timer);
        }
        self.health.start(self.cx.now);
        self.arrivals.start(self.cx.now, is_founder, was_alone);
        self.rewrite_myself(self.view.me().with_status(Status::Up));
        self.out().announce_by_bootstraps();
        self.gossip.start(&mut self.cx);
        self.reunion.start(&mut self.cx);
        self.gossip.start_catching_up(&mut self.cx);
        let founded = self.founded_report();
        self.sponsor.welcome_waiting(&mut outbox!(self), founded);
    }
}

/// The way in of others.
impl Core {
    /// Returns what a joiner is told of an electorate.
    pub(crate) fn founded_report(&self) -> Option<ElectorateReport> {
        self.election().and_then(Election::electorate_report)
    }

    /// Takes a joiner's question; while this node is Joining itself, it waits.
    pub(crate) fn on_join(
        &mut self,
        sender: Sender,
        nonce: Nonce,
        record: Record,
        cookie: Option<Nonce>,
        seeking: Option<Seeking>,
    ) {
        let founded = self.founded_report();
        let waits = self.sponsor.on_join(&mut outbox!(self), founded, sender, nonce, record, cookie);
        let Some(newcomer) = waits else { return };
        let (out, reunion) = (&mut outbox!(self), &self.reunion);
        if let Some(seeking) = seeking {
            self.joiner.asked_while_joining(out, reunion, newcomer.from, &newcomer.record, seeking);
        }
        self.joiner.answer_not_up(out, reunion, &newcomer, self.sponsor.joiners.waiting());
    }

    /// Serves a pull.
    pub(crate) fn on_pull(&mut self, sender: Sender, after: Option<&NodeId>, pages: u8) {
        let Some(to) = self.sponsor.on_pull(&mut outbox!(self), sender) else { return };
        if after.is_none() {
            self.lease_updates.teach(&mut outbox!(self), to, sender.run);
        }
        self.sponsor.serve(&mut outbox!(self), sender, to, after, pages);
    }
}

/// Introductions: strangers that answer this node's question say who they are.
///
/// ```text
/// A ─ WhoAreYou(a) ─▶ B        B ─ WhoAreYou(b, echo a) ─▶ A        (B's address is proven to A)
/// A ─ IAm(b), WhoAreYou(a) ─▶ B (A's is proven to B)                 B ─ IAm(a) ─▶ A
/// ```
///
/// Nobody is believed that was not asked, and no stranger that has not read what was sent to the address that its record names.
impl Core {
    /// Takes an echo of this node's nonce by a stranger or a member, which proves the sender's address if it is right;
    /// returns true if it is.
    pub(crate) fn echoed(&mut self, sender: Sender, echo: Nonce) -> bool {
        let founded = self.founded_report();
        self.sponsor.name_answered(&mut outbox!(self), founded, sender, echo);
        let is_right = self.packets.prover.is_nonce(echo, sender.from, self.cx.now);
        if is_right {
            self.reunion.contacted(&mut self.cx, sender.from, &Contacted::NotUp { id: None });
        }
        if !is_right {
            self.cx.counters.drop(DropReason::Unasked);
        } else if let SenderKind::Member(slot) = sender.kind
            && self.view.record(slot).address == sender.from
        {
            self.proved_at_address(slot);
        }
        is_right
    }

    /// Takes the answer of somebody who says who it is because this node asked.
    pub(crate) fn on_i_am(&mut self, sender: Sender, nonce: Nonce, record: Record) -> Introduction {
        let founded = self.founded_report();
        self.sponsor.name_answered(&mut outbox!(self), founded, sender, nonce);
        let is_here = self.packets.prover.is_nonce(nonce, sender.from, self.cx.now);
        let is_at_address = self.packets.prover.is_nonce(nonce, record.address, self.cx.now);
        if !is_here && !is_at_address {
            self.cx.counters.drop(DropReason::Unasked);
            return Introduction::Ignored;
        }
        if record.run != sender.run || record.run.is_nobody() {
            self.cx.counters.drop(DropReason::Malformed);
            return Introduction::Ignored;
        }
        // A record that needs a note is told by others, never by its owner.
        let says_so_itself = matches!(record.status, Status::Up | Status::Leaving);
        if record.status == Status::Joining {
            self.reunion.contacted(&mut self.cx, sender.from, &Contacted::NotUp { id: Some(record.id.clone()) });
        }
        if self.cx.phase.is_joining() {
            return Introduction::Met;
        }
        if !says_so_itself || !matches!(self.cx.phase, Phase::Up | Phase::Leaving) {
            return Introduction::Ignored;
        }
        if is_here {
            self.reunion.contacted(&mut self.cx, sender.from, &Contacted::Answered { id: record.id.clone() });
        }
        if let Some(incarnation) =
            self.view.tombstones.incarnation(record.id.as_str()).filter(|b| record.incarnation <= *b)
        {
            self.cx.counters.drop(DropReason::Outdated);
            return Introduction::Tombstoned { incarnation };
        }
        if let Some(slot) = self.view.slot_of_run(record.run) {
            return self.member_introduced(slot, sender, record, (is_here, is_at_address));
        }
        if !is_at_address {
            // It speaks from one address and wants to be spoken to at another: that one must say so itself.
            if self.packets.turns.take(self.cx.now, Turn::Elsewhere, record.address) {
                let nonce = self.packets.prover.nonce(record.address, self.cx.now);
                let mut packet = self.out().anonymous_packet(usize::MAX);
                packet.push(&Message::WhoAreYou { nonce, echo: None });
                packet.pad_to(self.out().question_bytes(MIN_PROBE_BYTES).min(sender.bytes));
                self.out().transmit(record.address, Receiver::Anybody, packet);
                if matches!(sender.way, Way::Link(_)) {
                    self.out().open_bootstrap(record.address);
                }
            }
            return Introduction::Ignored;
        }
        if record.id == self.me().id {
            let step = self.me.rivals.met(&self.cx, self.view.me(), &record);
            self.take_step_about_rival(step);
            return Introduction::Outdated { newer: View::ME };
        }
        let held = self.view.slot_of(record.id.as_str());
        if let Some(newer) = held.filter(|slot| self.view.record(*slot).supersedes(&record)) {
            return Introduction::Outdated { newer };
        }
        if !self.packets.turns.take(self.cx.now, Turn::Introduction, sender.from) {
            // One question lets one stranger in.
            self.cx.counters.drop(DropReason::RateLimited);
            return Introduction::Ignored;
        }
        let (run, id) = (record.run, record.id.clone());
        self.learn(News::told(record), None);
        match self.view.slot_of_run(run) {
            Some(slot) => {
                if self.view.record(slot).address == sender.from {
                    self.proved_at_address(slot);
                }
                Introduction::Member
            }
            None => match self.view.slot_of(id.as_str()) {
                Some(slot) => Introduction::Outdated { newer: slot },
                None => Introduction::Ignored,
            },
        }
    }

    /// Takes a member's own statement of where and what it is; it has read what was sent to where it speaks from, or to the
    /// address in its record. One that is silent at its address, and says that it is there, must say so from there: else it
    /// would be Up again by what it sends from elsewhere, and Down for its silence, without end.
    fn member_introduced(
        &mut self,
        slot: Slot,
        sender: Sender,
        record: Record,
        (is_here, is_at_address): (bool, bool),
    ) -> Introduction {
        let held = self.view.record(slot);
        let is_silent = held.status.is_accused();
        if is_silent && record.address == held.address && sender.from != record.address && !is_at_address {
            match sender.way {
                Way::Link(_) => self.out().bootstrap_to_member(record.address),
                Way::Datagrams | Way::Unbound => self.out().ask_at_address(slot),
            }
            return Introduction::Ignored;
        }
        let (is_outdated, is_elsewhere) = (held.supersedes(&record), sender.from != held.address);
        if is_elsewhere && sender.way == Way::Datagrams {
            self.me.moving.ask_also(&mut outbox!(self), sender.from, sender.run);
        }
        if is_outdated {
            return Introduction::Outdated { newer: slot };
        }
        let (run, address) = (record.run, record.address);
        self.learn(News::told(record), None);
        let Some(slot) = self.view.slot_of_run(run).filter(|slot| self.view.record(*slot).address == address) else {
            return Introduction::Ignored;
        };
        match sender.way {
            _ if address == sender.from => self.proved_at_address(slot),
            Way::Datagrams | Way::Unbound if is_here => self.reunion.answers_at(sender.from, run, address),
            Way::Datagrams | Way::Unbound => {}
            Way::Link(_) => self.out().bootstrap_to_member(address),
        }
        Introduction::Member
    }
}

/// Seeds, and the lost.
impl Core {
    /// Looks for lost seeds and members, remembers where the others are, and tidies up.
    pub(crate) fn reunite(&mut self) {
        self.reunion.next_look(&mut self.cx);
        self.view.tombstones.expire(self.cx.now, self.cx.settings.reap_after);
        self.arrivals.tidy(self.cx.now);
        for slot in self.arrivals.longest_gone(&self.view) {
            self.reap(slot);
        }
        let shift = self.observers.release(&self.cx, &self.view);
        self.act_on_shift(shift);
        self.reunion.reunite(&mut outbox!(self));
        if self.reunion.remember_addresses(&self.view) {
            self.persist(None);
        }
    }
}
