//! Plans of links: which are wanted, when one is opened, and when the next attempt is made.
//!
//! Invariants:
//! - No connection is opened to an address that never answered, unless datagrams pass nowhere.
//! - Pauses between attempts double up to a bound, and are spread.
//!
//! Must not know: what is said over a link.

use std::net::SocketAddr;
use std::time::Duration;

use rand::RngExt;

use super::table::State;
use crate::core::counters::DropReason;
use crate::core::doors::{LinkId, Output};
use crate::core::limits::{
    LINK_BACKOFF, LINK_COURTESY, LINK_FIRST_PAUSE, LINK_LINGER, LINK_MESH_SETTLE, LINK_NEWCOMER_COURTESY,
    LINK_PROOF_RETRY, LINK_SETTLE, LINK_TIMEOUT, MAX_LINK_BACKOFF, MAX_LINKS,
};
use crate::core::member::{Run, Status};
use crate::core::timers::Timer;
use crate::core::view::{Slot, View, is_due};
use crate::core::{Core, Phase};

impl Core {
    /// Returns true if this node and a member should have a link.
    pub(super) fn wants_link(&self, slot: Slot) -> bool {
        let is_live = matches!(self.view.record(slot).status, Status::Up | Status::Suspect);
        let is_partner = || {
            let run = self.view.record(slot).run;
            self.detours.wants_link(run, self.now) || self.has_letters_for(run)
        };
        matches!(self.phase, Phase::Up) && slot != View::ME && is_live && (self.observes(slot) || is_partner())
    }

    /// Returns a number for a link that is about to be opened.
    pub(in crate::core::connectivity) fn next_link(&mut self) -> LinkId {
        self.links.next_id()
    }

    /// Plans the link to a member that became a neighbour or ceased to be one.
    pub(in crate::core) fn plan_link(&mut self, slot: Slot) {
        let record = self.view.record(slot);
        let (run, address) = (record.run, record.address);
        let has_link = self.links.of.get(&run).is_some_and(|link| link.state != State::Idle);
        if self.wants_link(slot) == has_link {
            return;
        }
        let pause = if has_link { LINK_LINGER } else { self.pause_before_link(slot, address) };
        self.timers.set_by(Timer::Link(run), self.now + pause);
    }

    /// Returns the time for which a link that is wanted since now is not opened yet.
    fn pause_before_link(&mut self, slot: Slot, address: SocketAddr) -> Duration {
        let is_ours = address > self.me().address;
        let am_new = self.links.up_since == Some(self.now);
        let peer = &self.view.entry(slot).peer;
        let is_new = peer.session.is_none() && peer.last_sign == self.now;
        // A member that is news to a newcomer is no newcomer itself.
        let is_newcomer = is_new && is_due(self.now, self.links.up_since, LINK_SETTLE);
        let luck = self.rng.random::<f64>();
        match (is_ours, am_new) {
            (true, true) => LINK_FIRST_PAUSE.mul_f64(1.0 + luck),
            (true, false) if self.is_full_mesh() || self.is_newborn_of_mine(slot) => LINK_MESH_SETTLE.mul_f64(luck),
            (true, false) => LINK_SETTLE.mul_f64(luck),
            (false, _) if is_newcomer => LINK_NEWCOMER_COURTESY.mul_f64(1.0 + luck / 2.0),
            (false, _) => LINK_COURTESY + LINK_SETTLE.mul_f64(luck),
        }
    }

    /// Plans the link to a member as if one of the two were a newcomer: it, or this node, is at another address, and may
    /// end before any of its observers has a link to it again. Letters do not wait for a pause.
    pub(super) fn plan_link_soon(&mut self, slot: Slot) {
        if !self.wants_link(slot) {
            return;
        }
        let record = self.view.record(slot);
        let (run, is_ours) = (record.run, record.address > self.me().address);
        let luck = self.rng.random::<f64>();
        let pause = match (self.has_letters_for(run), is_ours) {
            (true, _) => Duration::ZERO,
            (false, true) => LINK_FIRST_PAUSE.mul_f64(1.0 + luck),
            (false, false) => LINK_NEWCOMER_COURTESY.mul_f64(1.0 + luck / 2.0),
        };
        self.timers.set(Timer::Link(run), self.now + pause);
    }

    /// Plans all links, as this node has become Up: its neighbours are all there already.
    pub(in crate::core) fn plan_links(&mut self) {
        self.links.up_since = Some(self.now);
        let neighbours: Vec<Slot> = self.neighbours().collect();
        for slot in neighbours {
            self.plan_link(slot);
        }
    }

    /// Acts on a link's timer: opens it, closes it, or gives an attempt up.
    pub(in crate::core) fn tend_link(&mut self, run: Run) {
        let Some(slot) = self.view.slot_of_run(run) else { return self.drop_link(run) };
        if !self.wants_link(slot) {
            if !self.is_wanted_there(slot) {
                self.drop_link(run);
            }
            return;
        }
        match self.links.of.get(&run).map(|link| link.state).unwrap_or_default() {
            State::Idle if !self.view.entry(slot).peer.proven && !self.may_dial_unproven(run) => self.await_proof(slot),
            State::Idle => {
                self.open_link(slot);
            }
            State::Opening(link) | State::Greeting(link) => {
                self.close(link);
                self.attempt_failed(run);
            }
            State::Open(_) if !self.observes(slot) => self.review_partner(run),
            State::Open(_) => {}
        }
    }

    /// Returns true if a member that this node does not observe opened the link: that member observes this node for a
    /// while longer, and ends the link itself.
    fn is_wanted_there(&self, slot: Slot) -> bool {
        let record = self.view.record(slot);
        let is_live = matches!(record.status, Status::Up | Status::Suspect);
        matches!(self.phase, Phase::Up) && is_live && matches!(self.links.open(record.run), Some(LinkId::Accepted(_)))
    }

    /// Waits for a proof: no connection is opened to an address that never answered, since it may be a third party's.
    /// The address is probed, and looked at again soon; the longer it does not answer, the later.
    fn await_proof(&mut self, slot: Slot) {
        let run = self.view.record(slot).run;
        let packet = self.packet_to(slot);
        self.send_to(slot, packet);
        let link = self.links.of.entry(run).or_default();
        link.unproven = link.unproven.saturating_add(1);
        let pause = LINK_PROOF_RETRY * 2_u32.saturating_pow(u32::from(link.unproven).min(16));
        self.timers.set(Timer::Link(run), self.now + pause.min(MAX_LINK_BACKOFF));
    }

    /// Returns true if a member that never answered is to be dialled all the same, which is seldom: where datagrams do
    /// not pass, nobody is proven but by a link.
    fn may_dial_unproven(&mut self, run: Run) -> bool {
        self.are_datagrams_in_doubt() && self.guests.may_dial(run, self.now)
    }

    /// Opens a link now, unless one is being opened or stands; `false` if there are too many.
    pub(in crate::core) fn ensure_link(&mut self, slot: Slot) -> bool {
        let run = self.view.record(slot).run;
        let has_one = self.links.of.get(&run).is_some_and(|link| link.state != State::Idle);
        has_one || self.open_link(slot)
    }

    pub(super) fn open_link(&mut self, slot: Slot) -> bool {
        let record = self.view.record(slot);
        let (run, to) = (record.run, record.address);
        if self.links.in_use() >= MAX_LINKS {
            self.counters.drop(DropReason::TableFull);
            self.back_off(run);
            return false;
        }
        let link = self.links.next_id();
        self.links.set(run, State::Opening(link));
        self.links.set_home(run, to);
        self.timers.set(Timer::Link(run), self.now + LINK_TIMEOUT);
        self.outputs.push_back(Output::OpenLink { link, to });
        true
    }

    /// Takes note that an attempt failed: the next one comes later. Returns true if it is the first since a link stood,
    /// or since ever.
    pub(super) fn link_failed(&mut self, run: Run) -> bool {
        self.links.set(run, State::Idle);
        let link = self.links.of.entry(run).or_default();
        link.failures = link.failures.saturating_add(1);
        let is_first = link.failures == 1;
        self.back_off(run);
        self.letters_have_no_link(run);
        is_first
    }

    /// Takes note that an attempt failed, and that this proves nothing about the process.
    pub(super) fn attempt_failed(&mut self, run: Run) {
        self.link_failed(run);
        self.no_link(run);
    }

    /// Plans the next attempt: pauses double, and are spread, so that a node that comes back is not stormed.
    fn back_off(&mut self, run: Run) {
        let failures = self.links.of.entry(run).or_default().failures;
        let pause = (LINK_BACKOFF * 2_u32.saturating_pow(failures.saturating_sub(1).min(16))).min(MAX_LINK_BACKOFF);
        let pause = pause.mul_f64(0.5 + self.rng.random::<f64>());
        self.timers.set(Timer::Link(run), self.now + pause);
    }
}
