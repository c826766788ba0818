//! Observing: what is done about members that this node begins or ceases to observe, and what the graph of observers is told.
//!
//! Must not know: how the graph is made.

use std::collections::BTreeSet;

use crate::Core;
use crate::limits::probe_after;
use crate::member::{Run, Status};
use crate::observers::{Basis, Shift, Walked};
use crate::time::Time;
use crate::timers::Timer;
use crate::view::{Slot, View};

impl Core {
    /// Finds this node's place in the graph again, since a member's liveness may have changed.
    pub(crate) fn reobserve(&mut self, slot: Slot) {
        let basis = Basis::of(&self.cx, &self.view);
        let shift = self.observers.place_anew(basis, slot);
        self.act_on_shift(shift);
    }

    /// Begins to observe a member that this node brought in, or that brought it in.
    pub(crate) fn observe_besides(&mut self, run: Run) {
        let Some(slot) = self.view.slot_of_run(run).filter(|slot| *slot != View::ME) else { return };
        let basis = Basis::of(&self.cx, &self.view);
        let shift = self.observers.observe_besides(basis, slot);
        self.act_on_shift(shift);
    }

    /// Lets go the displaced neighbours whose successors have links, if it is time to look.
    pub(crate) fn review_observed(&mut self) {
        if !self.observers.is_review_due(self.cx.now) {
            return;
        }
        let basis = Basis::of(&self.cx, &self.view);
        let shift = self.observers.review(basis, |run| self.paths.links.open(run).is_some());
        self.act_on_shift(shift);
    }

    /// Lets go the members that were observed besides for long enough.
    pub(crate) fn release_observed(&mut self) {
        let basis = Basis::of(&self.cx, &self.view);
        let shift = self.observers.release(basis);
        self.act_on_shift(shift);
    }

    fn act_on_shift(&mut self, shift: Shift) {
        if let Some(quickest) = shift.quickest {
            self.health.expect_contact(quickest);
        }
        if let Some(at) = shift.walk_at {
            self.cx.timers.set_by(Timer::Walk, at);
        }
        for slot in shift.stopped {
            self.stop_observing(slot);
        }
        for (slot, lived) in shift.started {
            self.start_observing(slot, lived);
        }
    }

    /// Starts observing a member. A new observer probes its subject at once: what it has not heard itself must not
    /// count as heard, and an orphan of a mass failure must not be forgiven a whole timeout once more. A member that
    /// `lived` at a certain time, because nobody accused it until then, is not forgiven more than that.
    fn start_observing(&mut self, slot: Slot, lived: Option<Time>) {
        let entry = self.view.entry(slot);
        let is_new = entry.peer.session.is_none() && entry.peer.last_sign() == self.cx.now;
        if !is_new && entry.record.status == Status::Up {
            let demanded = entry.demanded_silence(self.cx.now);
            // A time long ago says nothing of this silence.
            let lived = lived.filter(|lived| self.cx.now.since(*lived) <= demanded * 5 / 4);
            let probed_at_once = lived.unwrap_or(self.cx.now - probe_after(demanded));
            self.view.peer_mut(slot).lived_at(probed_at_once);
        }
        self.watch(slot);
        self.plan_link(slot);
    }

    fn stop_observing(&mut self, slot: Slot) {
        if self.view.get(slot).is_some() {
            let run = self.view.record(slot).run;
            self.cx.timers.cancel(Timer::Heartbeat(run));
            self.detector.inquiries.forget(run);
            self.watch(slot);
            self.plan_link(slot);
        }
    }

    /// Makes a step past doubted members due, since there may be a new doubt about a member, or an old one may be over.
    pub(crate) fn on_doubts_changed(&mut self, slot: Slot) {
        if !self.observers.observes(slot) {
            // Most members of a large cluster.
            return;
        }
        let pause = self.patience_with(self.observers.neighbours());
        if let Some(at) = self.observers.step_at(self.cx.now, slot, pause) {
            self.cx.timers.set_by(Timer::Walk, at);
        }
    }

    /// Takes the next step past doubted members, and asks those that it comes to; behind a process that died by a link, too,
    /// which a dead process refuses at once.
    pub(crate) fn walk(&mut self) {
        let (doubted, pause) = (self.doubted(), self.patience_with(self.observers.neighbours()));
        let basis = Basis::of(&self.cx, &self.view);
        let Walked { shift, asked } = self.observers.walk(basis, doubted, pause, |run| self.crashes.is_in_vain(run));
        self.act_on_shift(shift);
        for (slot, is_behind_crashed) in asked {
            if self.detector.inquiries.probed(self.view.record(slot).run) == 0 {
                self.out().probe(slot);
            }
            if is_behind_crashed {
                self.look_for_crash(slot);
            }
        }
    }

    /// Returns the members that are Suspect, or were asked in vain until their time was over.
    fn doubted(&self) -> BTreeSet<Slot> {
        let suspected = self.view.counts()[Status::Suspect.index()] > 0;
        let is_suspect = |slot: &Slot| self.view.entry(*slot).status == Status::Suspect;
        let suspects = self.view.live().iter().copied().filter(|slot| suspected && is_suspect(slot));
        let slot_of = |run| self.view.slot_of_run(run);
        let is_silent = |slot: &Slot| self.grounds().threshold(*slot).is_some_and(|threshold| threshold <= self.cx.now);
        let silent = self.detector.inquiries.in_vain().filter_map(slot_of).filter(is_silent);
        let silent = silent.chain(self.crashes.in_vain().filter_map(slot_of));
        let is_live = |slot: &Slot| *slot != View::ME && self.view.entry(*slot).status.is_live();
        suspects.chain(silent).filter(is_live).collect()
    }
}
