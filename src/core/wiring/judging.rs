//! Judging: silence, signs of life and broken links; and the members that this node observes. The detector, the machine of crashes and
//! the graph of observers are told, and their steps are taken.
//!
//! Must not know: how silence is judged, how a case of a crash is decided (see `detection::crash`), how the graph is made, or how
//! packets find their way.

use std::time::Duration;

use crate::Core;
use crate::detection::crash::{Audience, CrashStep};
use crate::detection::{DetectorFacts, DetectorStep};
use crate::dissemination::HeartbeatTurn;
use crate::io::{CommandError, HealthEvidence, LinkEvent, Output};
use crate::limits::{
    CRASH_HEARSAY_INTERVAL, CRASH_REVIEWS, DOUBT_INTERVAL, HOST_CHECK_INTERVAL, HOST_CHECK_RETRY,
    HOST_QUESTION_INTERVAL, MIN_CRASH_PROBE_GAP,
};
use crate::member::{DetectionMethod, LeaveReason, NodeId, Record, Run, Status};
use crate::observers::{Shift, Walked};
use crate::packet::Way;
use crate::time::Time;
use crate::timers::Timer;
use crate::view::{Slot, View, is_due};
use crate::wire::{Heartbeat, Message};

/// The number of unanswered probes of a member after which the others are looked at.
const LOOK_AROUND: u32 = 2;

/// Silence, and signs of life.
impl Core {
    /// Returns what members are judged by.
    pub(crate) fn detector_facts(&self) -> DetectorFacts<'_> {
        DetectorFacts {
            now: self.cx.now,
            view: &self.view,
            observers: &self.observers,
            health: &self.health,
            settings: &self.cx.settings,
        }
    }

    /// Sets the deadlines of a member whose record or last sign has just changed.
    pub(crate) fn watch(&mut self, slot: Slot) {
        let threshold = self.detector_facts().threshold(slot);
        if !self.view.set_timed(slot, threshold.is_some()) && threshold.is_none() {
            // Most members of a large cluster: there was nothing to wait for, and there is nothing.
            return;
        }
        let run = self.view.record(slot).run;
        if self.view.record(slot).status == Status::Suspect {
            self.ask_host_if_due(slot);
        }
        if let Some(threshold) = threshold {
            if self.detector.end_inquiry(self.cx.now, run, threshold) {
                self.plan_walk(slot);
            }
            // An answer that ends no inquiry hastens it no more than silence does.
            if threshold > self.cx.now || self.detector.inquiries.probed(run) == 0 {
                let at = self.detector_facts().look_at(threshold);
                self.cx.timers.set(Timer::Judge(run), at);
            }
        } else {
            self.cx.timers.cancel(Timer::Judge(run));
        }
    }

    /// Judges a member whose deadline has come.
    pub(crate) fn judge(&mut self, run: Run) {
        let Some(slot) = self.view.slot_of_run(run) else { return };
        let (now, is_up) = (self.cx.now, self.cx.phase.is_up());
        let are_rivals_met = |within| self.me.rivals.are_met(now, within);
        let step = self.detector.judge(outbox!(self).detector_facts(), slot, is_up, are_rivals_met);
        let Some(step) = step else { return };
        match step {
            DetectorStep::Wait(at) => self.cx.timers.set(Timer::Judge(run), at),
            DetectorStep::Watch => self.watch(slot),
            DetectorStep::Probe { nth, next } => {
                // Most often one heartbeat was lost, and the first probe is answered.
                self.out().probe(slot, nth > 0);
                if nth > 0 {
                    self.detector.ask_witnesses(&mut outbox!(self), slot);
                    self.plan_walk(slot);
                }
                if nth > 1 {
                    self.ask_host_if_due(slot);
                }
                if nth == LOOK_AROUND {
                    self.look_around(slot);
                }
                self.cx.timers.set(Timer::Judge(run), next);
            }
            DetectorStep::Suspect { probed_since, claimed } => {
                if let Some(since) = probed_since {
                    self.health.note_unheard(since);
                }
                self.cx.counters.suspicions_raised += 1;
                self.view.peer_mut(slot).lived_at(claimed);
                self.record_verdict(slot, Status::Suspect, Some(DetectionMethod::HeartbeatTimeout));
            }
            DetectorStep::Confirm(method) => self.record_verdict(slot, Status::Down, Some(method)),
            DetectorStep::Depart => self.record_verdict(slot, Status::Left(LeaveReason::Graceful), None),
            DetectorStep::Reap => self.reap(slot),
        }
    }

    /// Looks at all members that are observed, and rarely heard, since one of them is missed: a cut takes many at once, and is to be
    /// seen whole before their turns come.
    fn look_around(&mut self, missed: Slot) {
        if !self.detector.begin_to_look_around(self.cx.now, &self.cx.settings) {
            return;
        }
        let neighbours: Vec<Slot> = self.observers.neighbours().filter(|slot| *slot != missed).collect();
        for slot in neighbours {
            if self.view.record(slot).timing.is_rarely_heard() {
                self.view.peer_mut(slot).expect_now(self.cx.now);
                self.watch(slot);
            }
        }
    }

    /// Sends a heartbeat to the observer whose turn it is.
    pub(crate) fn heartbeat(&mut self) {
        if let Some(HeartbeatTurn { slot, next }) = self.gossip.next_turn(&mut outbox!(self)) {
            self.paths.check_datagrams(&mut self.cx, &self.view, self.health.awake_since(), slot);
            self.gossip_to(slot, Some(next));
        }
    }

    /// Takes a witness's answer that it heard the subject.
    pub(crate) fn on_heard_at(&mut self, witness: Slot, run: Run, age_ms: u64) {
        let Some(heard) = self.detector.heard_at(&mut outbox!(self), witness, run, age_ms) else { return };
        self.watch(heard.slot);
        self.cx.counters.degraded_links += u64::from(heard.is_news);
        if heard.is_degraded {
            let links = self.detector.link_degraded(&mut self.cx, &self.view, heard.slot, witness);
            if links > 1 {
                self.health.add_evidence(&mut self.cx, HealthEvidence::DegradedLinks { links });
            }
        }
    }

    /// Probes a member that another observer asks about, unless it was heard here lately: its answer is told when the question
    /// comes again.
    pub(crate) fn look_for_doubted(&mut self, run: Run) {
        let Some(slot) = self.view.slot_of_run(run).filter(|slot| self.observers.observes(*slot)) else { return };
        if self.detector_facts().is_worth_a_probe(slot) {
            self.view.peer_mut(slot).rare_mut().last_hearsay = Some(self.cx.now);
            self.out().probe(slot, false);
        }
    }

    /// Takes a packet of a member's run as a sign that it lives. The status that it is held at does not change by that.
    pub(crate) fn sign_of_life(&mut self, slot: Slot, arrived: Time) {
        let record = self.view.record(slot);
        let (id, run) = (record.id.clone(), record.run);
        if self.detector_facts().counts_as_alive(slot) {
            self.detector.count_sign(&mut outbox!(self), slot, arrived);
        }
        self.cx.output(Output::Heard(id));
        if self.observers.note_heard_on_the_way(slot) {
            self.plan_walk(slot);
        }
        let sequence = self.view.entry(slot).peer.highest_sequence();
        let Some((steps, audience)) = self.crashes.heard(run, sequence) else { return };
        // Others may be about to pronounce.
        let told: Vec<Slot> = match audience {
            Audience::Observers => self.observers.observers_of(&self.view, slot).into_iter().collect(),
            Audience::Askers(askers) => askers.into_iter().filter_map(|run| self.view.slot_of_run(run)).collect(),
        };
        self.take_crash_steps(run, steps);
        for slot in told {
            self.out().send_both_ways(slot, &Message::Alive { run, sequence });
        }
    }

    /// Takes a member's heartbeat: measures the round trip, and sees by its echo whether the member hears this node.
    pub(crate) fn on_heartbeat(&mut self, slot: Slot, heartbeat: Heartbeat, way: Way) {
        let echoed = self.view.peer_mut(slot).heartbeat(self.cx.now, heartbeat, way == Way::Datagrams);
        if !echoed.is_new {
            return;
        }
        if let Some(round_trip) = echoed.round_trip {
            self.cx.counters.round_trips.observe(round_trip);
        }
        if let Some(hold) = self.detector_facts().recent_echo(slot, heartbeat, echoed.before) {
            self.note_contact(slot, self.cx.now - hold);
        }
    }

    /// Notes that a member had received a packet of this node by then: the packet that shows it counts, whatever the
    /// ones before.
    pub(crate) fn note_contact(&mut self, slot: Slot, received: Time) {
        let Some(session) = &mut self.view.peer_mut(slot).session else { return };
        session.answered();
        let (heard, sign) = (session.heard, session.sign);
        if self.health.note_contact(self.cx.now, received, &self.cx.settings) {
            self.detector.inquiries.begin_anew();
            self.paths.give_up_hung_bootstraps(&mut self.cx, |_| true);
            self.detector.tell_the_accused(&mut outbox!(self));
        }
        self.health.expect_contact(self.observers.quickest());
        self.me.unreached_at = None;
        if heard > sign {
            self.detector.count_sign(&mut outbox!(self), slot, heard);
        }
    }
}

/// The kernels of hosts.
impl Core {
    /// Has the kernel of a silent member's host asked, unless it was a moment ago.
    fn ask_host_if_due(&mut self, slot: Slot) {
        if self.detector_facts().is_host_question_due(slot) {
            self.cx.timers.set(Timer::Host(self.view.record(slot).run), self.cx.now);
        }
    }

    /// Has the kernel of a well member's host asked for the first time soon, at its address of now.
    pub(crate) fn plan_host_question(&mut self, slot: Slot) {
        let run = self.view.record(slot).run;
        self.paths.end_kernel_question(&mut self.cx, run);
        if self.detector_facts().may_ask_host(slot) {
            // Not all of a cluster that forms at once.
            let pause = HOST_QUESTION_INTERVAL.mul_f64(self.paths.random_share());
            self.cx.timers.set_by(Timer::Host(run), self.cx.now + pause);
        }
    }

    /// Asks the kernel of a member's host: again and again while the member is silent, and now and then while it is well.
    pub(crate) fn ask_host(&mut self, run: Run) {
        self.paths.end_kernel_question(&mut self.cx, run);
        let Some(slot) = self.view.slot_of_run(run) else { return };
        if !self.detector_facts().may_ask_host(slot) {
            self.view.peer_mut(slot).rare_mut().host.unanswered_since = None;
            return;
        }
        let entry = self.view.entry(slot);
        let is_suspect = entry.status == Status::Suspect;
        let is_silent = is_suspect || self.detector.inquiries.probed(run) > 1;
        let (address, pause) = (entry.record.address, DetectorFacts::host_question_interval(entry));
        let is_asked = self.paths.ask_kernel(&mut self.cx, run, address);
        self.view.peer_mut(slot).rare_mut().host.note_question(self.cx.now, is_asked, is_silent);
        let pause = if is_silent { pause } else { HOST_CHECK_RETRY };
        self.cx.timers.set(Timer::Host(run), self.cx.now + pause);
        if is_suspect {
            // It may have been silent for long enough by now.
            self.watch(slot);
        }
    }

    /// Takes what became of a question to the kernel of a member's host.
    pub(crate) fn on_kernel_event(&mut self, run: Run, event: LinkEvent<'_>) {
        self.paths.end_kernel_question(&mut self.cx, run);
        let Some(slot) = self.view.slot_of_run(run) else { return };
        if matches!(event, LinkEvent::Connected | LinkEvent::Refused) {
            self.view.peer_mut(slot).rare_mut().host.note_answer(self.cx.now);
            if self.view.record(slot).status == Status::Up && self.detector.inquiries.probed(run) == 0 {
                self.cx.timers.set(Timer::Host(run), self.cx.now + HOST_CHECK_INTERVAL);
            } else {
                for observer in self.observers.observers_of(&self.view, slot) {
                    let mut packet = self.out().packet_to(observer);
                    packet.push(&Message::HostAnswers { run });
                    self.out().send_to(observer, packet);
                }
            }
            self.watch(slot);
        } else {
            self.view.peer_mut(slot).rare_mut().host.unanswered_since = None;
        }
    }

    /// Takes another observer's word that the kernel of a member's host has answered it.
    pub(crate) fn note_host_answered(&mut self, run: Run) {
        let Some(slot) = self.view.slot_of_run(run) else { return };
        if self.observers.observes(slot) {
            self.view.peer_mut(slot).rare_mut().host.answered = Some(self.cx.now);
            self.watch(slot);
        }
    }
}

/// Crashes.
impl Core {
    /// Returns a member that is worth a case, with the highest number of its packets that this node received.
    pub(crate) fn crash_subject(&self, run: Run) -> Option<(Slot, u64)> {
        let slot = self.view.slot_of_run(run)?;
        let entry = self.view.entry(slot);
        (entry.record.status.is_here() && self.cx.phase.is_up()).then(|| (slot, entry.peer.highest_sequence()))
    }

    /// Opens a case of a member that has no link, and opens one: there will be an answer either way.
    fn open_case(&mut self, run: Run, reviews: u8) {
        let Some((slot, sequence)) = self.crash_subject(run) else { return };
        if self.paths.links.open(run).is_none() && !self.crashes.is_case(run) {
            self.crashes.open(run, sequence, reviews);
            if !self.ensure_link(slot) {
                self.crashes.close(run);
            }
        }
    }

    /// Closes a case: the process answered over a link, is at another address, or is gone.
    pub(crate) fn close_case(&mut self, run: Run) {
        self.crashes.close(run);
        self.cx.timers.cancel(Timer::Crash(run));
    }

    /// Takes the next step of a case.
    pub(crate) fn investigate(&mut self, run: Run) {
        let Some((slot, _)) = self.crash_subject(run) else { return self.crashes.close(run) };
        let facts = self.detector_facts().crash_facts(&self.crashes, slot);
        let steps = self.crashes.investigate(self.cx.now, run, &facts);
        self.take_crash_steps(run, steps);
    }

    /// Does what the machine says of a case, in order.
    pub(crate) fn take_crash_steps(&mut self, run: Run, steps: Vec<CrashStep>) {
        for step in steps {
            let subject = self.crash_subject(run).map(|(slot, _)| slot);
            match (step, subject) {
                (CrashStep::Wait(pause), _) => self.cx.timers.set(Timer::Crash(run), self.cx.now + pause),
                (CrashStep::Close, _) => self.cx.timers.cancel(Timer::Crash(run)),
                (CrashStep::Refuted, _) => {
                    self.cx.counters.crashes_refuted += 1;
                    if let Some(slot) = self.view.slot_of_run(run) {
                        self.plan_walk(slot);
                    }
                }
                (CrashStep::Investigate, _) => self.investigate(run),
                (CrashStep::Reopen, Some(slot)) => {
                    if !self.ensure_link(slot) {
                        self.crashes.close(run);
                    }
                }
                (CrashStep::Probe, Some(slot)) => self.out().probe(slot, true),
                (CrashStep::Walk, Some(slot)) => self.plan_walk(slot),
                (CrashStep::Ask, Some(slot)) => {
                    let Some((age, is_sure)) = self.crashes.ask(self.cx.now, run) else { continue };
                    let age_ms = age.as_millis() as u64;
                    for observer in self.observers.observers_of(&self.view, slot) {
                        self.out().send_both_ways(observer, &Message::Severed { run, age_ms, is_sure });
                    }
                }
                (CrashStep::Convict, Some(slot)) => {
                    debug_assert!(slot != View::ME);
                    // Of one that was taken over the last sign may be long ago.
                    if let Some(since) = self.view.entry(slot).peer.rare().watched_since {
                        self.view.peer_mut(slot).lived_at(since);
                    }
                    self.cx.timers.cancel(Timer::Crash(run));
                    self.cx.counters.suspicions_raised += 1;
                    self.cx.counters.crashes_detected += 1;
                    if self.view.record(slot).status == Status::Up {
                        self.record_verdict(slot, Status::Suspect, Some(DetectionMethod::ConnectionLost));
                    }
                    self.record_verdict(slot, Status::Down, Some(DetectionMethod::ConnectionLost));
                }
                (
                    CrashStep::Reopen | CrashStep::Probe | CrashStep::Walk | CrashStep::Ask | CrashStep::Convict,
                    None,
                ) => {}
            }
        }
    }

    /// Takes another observer's report that it cannot reach a member's process.
    pub(crate) fn on_severed(&mut self, witness: Slot, run: Run, age_ms: u64, is_sure: bool) {
        if run == self.cx.run {
            // This node's answer is a sign of life.
            let packet = self.out().packet_to(witness);
            return self.out().send_to(witness, packet);
        }
        let Some((subject, sequence)) = self.crash_subject(run) else { return };
        let refused_at = self.cx.now - Duration::from_millis(age_ms);
        let heard = self.view.entry(subject).peer.session.as_ref().map(|session| session.heard);
        if heard.is_some_and(|heard| heard > refused_at) {
            return self.out().send_both_ways(witness, &Message::Alive { run, sequence });
        }
        let witness_run = self.view.record(witness).run;
        self.look_into_hearsay(subject);
        if self.crashes.told_severed(self.cx.now, run, witness_run, is_sure) {
            let facts = self.detector_facts().crash_facts(&self.crashes, subject);
            let steps = self.crashes.judge(self.cx.now, run, &facts);
            self.take_crash_steps(run, steps);
        }
    }

    /// Looks into a member from which a program had no answer. Where no link to it stands, one is opened: a port that refuses it
    /// shows that the process is gone.
    pub(crate) fn doubt(&mut self, id: NodeId) -> Result<(), CommandError> {
        let subject = self.view.slot_of(id.as_str());
        let Some(subject) = subject else { return Err(CommandError::NoSuchMember { id }) };
        let Record { run, status, .. } = **self.view.record(subject);
        if !status.is_live() {
            return Err(CommandError::NotLive { id, status });
        }
        let now = self.cx.now;
        let is_due = is_due(now, self.view.entry(subject).peer.rare().last_doubt, DOUBT_INTERVAL);
        // A case that is open already asks more than this, and is decided by what came since it was refused.
        if subject != View::ME && self.cx.phase.is_up() && is_due && !self.crashes.is_case(run) {
            self.view.peer_mut(subject).rare_mut().last_doubt = Some(now);
            self.look_into_hearsay(subject);
            if self.paths.links.open(run).is_none() {
                self.ensure_link(subject);
            }
        }
        Ok(())
    }

    /// Checks another observer's report: asks the subject for a sign of life, and tries to reach its process, unless a
    /// link to it still stands.
    fn look_into_hearsay(&mut self, subject: Slot) {
        let run = self.view.record(subject).run;
        let now = self.cx.now;
        let rare = self.view.peer_mut(subject).rare_mut();
        let may_probe = is_due(now, rare.last_hearsay, MIN_CRASH_PROBE_GAP);
        if may_probe {
            rare.last_hearsay = Some(now);
        }
        if may_probe && !self.crashes.is_refused(run) {
            self.out().probe(subject, true);
        }
        let rare = self.view.peer_mut(subject).rare_mut();
        if self.crashes.is_case(run) || !is_due(now, rare.last_case, CRASH_HEARSAY_INTERVAL) {
            return;
        }
        rare.last_case = Some(now);
        if self.observers.observes(subject) {
            self.open_case(run, 0);
        }
    }
}

/// The members that this node observes.
impl Core {
    /// Begins and ceases to observe members, as the graph says.
    pub(crate) fn act_on_shift(&mut self, shift: Shift) {
        if let Some(quickest) = shift.quickest {
            self.health.expect_contact(quickest);
        }
        if let Some(at) = shift.walk_at {
            self.cx.timers.set_by(Timer::Walk, at);
        }
        for slot in shift.stopped {
            if let Some(run) = self.view.get(slot).map(|entry| entry.record.run) {
                self.view.peer_mut(slot).expect_nothing();
                self.detector.inquiries.forget(run);
                self.watch(slot);
                self.plan_link(slot);
            }
        }
        for (slot, lived) in shift.started {
            if let Some(since) = self.view.entry(slot).taken_over_at(self.cx.now, lived) {
                self.view.peer_mut(slot).rare_mut().watched_since = Some(since);
            }
            self.plan_host_question(slot);
            self.watch(slot);
            self.plan_link(slot);
        }
    }

    /// Makes a step past unresponsive members due, since a member may have become one, or respond again.
    pub(crate) fn plan_walk(&mut self, slot: Slot) {
        if !self.observers.observes(slot) {
            // Most members of a large cluster.
            return;
        }
        let pause = self.detector_facts().patience_with(self.observers.neighbours());
        if let Some(at) = self.observers.step_at(self.cx.now, slot, pause) {
            self.cx.timers.set_by(Timer::Walk, at);
        }
    }

    /// Takes the next step past unresponsive members, and asks those that it comes to; behind a process that died by a link, too,
    /// which a dead process refuses at once.
    pub(crate) fn walk(&mut self) {
        let facts = self.detector_facts();
        let pause = facts.patience_with(self.observers.neighbours());
        let unresponsive = facts.unresponsive(self.detector.inquiries.in_vain(), self.crashes.in_vain());
        let is_crashed = |run| self.crashes.is_in_vain(run);
        let Walked { shift, asked } = self.observers.walk(&self.cx, &self.view, unresponsive, pause, is_crashed);
        self.act_on_shift(shift);
        for (slot, is_behind_crashed) in asked {
            let run = self.view.record(slot).run;
            if self.detector.inquiries.probed(run) == 0 {
                self.out().probe(slot, true);
            }
            if is_behind_crashed {
                self.open_case(run, CRASH_REVIEWS);
            }
        }
    }
}
