//! Crashing: what links tell of a process that may have ended, and the steps of a case.
//!
//! Must not know: how a case is decided (see `detection::crash`), how links are opened, or how packets find their way.

use std::time::Duration;

use crate::Core;
use crate::counters::DropReason;
use crate::detection::crash::{Audience, CrashStep, Observer, Scene};
use crate::limits::{CRASH_HEARSAY_INTERVAL, CRASH_REVIEWS, MIN_CRASH_PROBE_GAP};
use crate::member::{DetectionMethod, Run, Status};
use crate::timers::Timer;
use crate::view::{Slot, View, is_due};
use crate::wire::Message;

/// Outcomes of links.
impl Core {
    /// Opens a case: the link to a member broke, and is being opened again.
    pub(crate) fn lost_link(&mut self, run: Run) {
        self.tell_lead(|lead, around| lead.voter_may_be_gone(around, run));
        self.open_case(run, CRASH_REVIEWS);
    }

    fn open_case(&mut self, run: Run, reviews: u8) {
        let slot = self.view.slot_of_run(run);
        let sequence = slot.map_or(0, |slot| self.view.entry(slot).peer.highest_sequence());
        self.crashes.open(run, sequence, reviews);
    }

    /// Returns the member, if its case is still worth looking into.
    fn suspect_of_crash(&self, run: Run) -> Option<Slot> {
        let slot = self.view.slot_of_run(run)?;
        let is_live = matches!(self.view.record(slot).status, Status::Up | Status::Suspect);
        (is_live && self.cx.phase.is_up()).then_some(slot)
    }

    /// Notes that the port of a member refused a link. `is_first`: no other attempt has failed since a link stood, or
    /// since ever; that may be how the end of a process shows that had no link yet.
    pub(crate) fn refused_link(&mut self, run: Run, is_first: bool) {
        if self.suspect_of_crash(run).is_none() {
            return self.crashes.close(run);
        }
        if is_first && !self.crashes.is_case(run) {
            self.open_case(run, CRASH_REVIEWS);
        }
        if self.crashes.is_case(run) {
            self.crashes.refused(self.cx.now, run);
            self.investigate(run);
        }
    }

    /// Closes a case: a link could not be opened, but nobody refused it, which is no evidence. If another process
    /// answered there, it is asked for its identity, which ends the old one.
    pub(crate) fn no_link(&mut self, run: Run) {
        let steps = self.crashes.no_link(run);
        self.take_steps(run, steps);
    }

    /// Notes that a link was opened, and closed before the process answered over it. That is a proxy, another run, or a
    /// process that is just dying: a kernel may close its connections before the port that still takes new ones. So the
    /// case is reviewed in a moment.
    pub(crate) fn closed_unanswered(&mut self, run: Run, is_first: bool) {
        if is_first && !self.crashes.is_case(run) && self.suspect_of_crash(run).is_some() {
            self.open_case(run, CRASH_REVIEWS);
        }
        let steps = self.crashes.closed_unanswered(run);
        self.take_steps(run, steps);
    }

    /// Closes a case: the process answered over a link.
    pub(crate) fn process_answers(&mut self, run: Run) {
        self.crashes.close(run);
        self.cx.timers.cancel(Timer::Crash(run));
    }

    /// Opens a case, since a process near this one is gone: a link to it shows at once if this one is gone, too.
    pub(crate) fn look_for_crash(&mut self, subject: Slot) {
        let run = self.view.record(subject).run;
        if self.suspect_of_crash(run).is_some() && !self.is_linked(run) && !self.crashes.is_case(run) {
            self.open_case(run, CRASH_REVIEWS);
            self.reopen(subject);
        }
    }

    /// Opens a link, or waits for the one that is being opened: either way there will be an answer.
    fn reopen(&mut self, slot: Slot) {
        if !self.ensure_link(slot) {
            let run = self.view.record(slot).run;
            self.crashes.close(run);
        }
    }
}

/// Steps of a case.
impl Core {
    /// Takes the next step of a case.
    pub(crate) fn investigate(&mut self, run: Run) {
        let Some(slot) = self.suspect_of_crash(run) else { return self.crashes.close(run) };
        let scene = self.scene(slot);
        let steps = self.crashes.investigate(self.cx.now, run, &scene);
        self.take_steps(run, steps);
    }

    fn scene(&self, subject: Slot) -> Scene {
        let observer = |slot: &Slot| {
            let entry = self.view.entry(*slot);
            Observer { run: entry.record.run, is_suspect: entry.status == Status::Suspect }
        };
        let others = if self.crashes.is_decided_next(self.view.record(subject).run) {
            let observers = self.observers.observers_of(&self.view, subject);
            let doubted = self.observers.walk.doubted().iter().filter(|slot| **slot != subject);
            observers.iter().chain(doubted).map(observer).collect()
        } else {
            Vec::new()
        };
        Scene { gap: self.crash_probe_gap(subject), is_walking: self.observers.walk.is_on(), others }
    }

    /// Returns the time for which an answer is awaited: a crash must be decided within a second in every profile, also
    /// over round trips of a tenth of a second.
    fn crash_probe_gap(&self, slot: Slot) -> Duration {
        let rtt = self.view.entry(slot).peer.rtt().unwrap_or_default();
        self.cx.settings.probe_timeout.min(MIN_CRASH_PROBE_GAP.max(rtt * 3 / 2))
    }

    fn take_steps(&mut self, run: Run, steps: Vec<CrashStep>) {
        for step in steps {
            match step {
                CrashStep::Wait(pause) => self.cx.timers.set(Timer::Crash(run), self.cx.now + pause),
                CrashStep::Close => self.cx.timers.cancel(Timer::Crash(run)),
                CrashStep::Refuted => {
                    self.cx.counters.crashes_refuted += 1;
                    if let Some(slot) = self.view.slot_of_run(run) {
                        self.doubts_changed(slot);
                    }
                }
                CrashStep::Reopen | CrashStep::Probe | CrashStep::Doubt | CrashStep::Ask | CrashStep::Convict => {
                    let Some(slot) = self.suspect_of_crash(run) else { continue };
                    match step {
                        CrashStep::Reopen => self.reopen(slot),
                        CrashStep::Probe => self.out().probe(slot),
                        CrashStep::Doubt => self.doubts_changed(slot),
                        CrashStep::Ask => self.say_severed(slot),
                        _ => self.convict(slot),
                    }
                }
            }
        }
    }

    /// Tells the other observers what this one has found so far.
    fn say_severed(&mut self, subject: Slot) {
        let run = self.view.record(subject).run;
        if !self.crashes.is_refused(run) {
            return;
        }
        let observers = self.observers.observers_of(&self.view, subject);
        let asked = observers.iter().map(|slot| self.view.record(*slot).run);
        let Some((age, is_sure)) = self.crashes.ask(self.cx.now, run, asked) else { return };
        let age_ms = age.as_millis() as u64;
        for slot in observers {
            self.out().send_both_ways(slot, &Message::Severed { run, age_ms, is_sure });
        }
    }

    /// Pronounces the verdict.
    fn convict(&mut self, subject: Slot) {
        debug_assert!(subject != View::ME);
        let run = self.view.record(subject).run;
        self.cx.timers.cancel(Timer::Crash(run));
        self.cx.counters.suspicions_raised += 1;
        self.cx.counters.crashes_detected += 1;
        if self.view.record(subject).status == Status::Up {
            self.record_verdict(subject, Status::Suspect, DetectionMethod::ConnectionLost);
        }
        self.cx.counters.suspicions_confirmed += 1;
        self.record_verdict(subject, Status::Down, DetectionMethod::ConnectionLost);
    }
}

/// Words of other observers, and signs of life.
impl Core {
    /// Takes another observer's report that it cannot reach a member's process.
    pub(crate) fn on_severed(&mut self, witness: Slot, run: Run, age_ms: u64, is_sure: bool) {
        if run == self.cx.run {
            // This node's answer is a sign of life.
            let packet = self.out().packet_to(witness);
            return self.out().send_to(witness, packet);
        }
        let Some(subject) = self.suspect_of_crash(run) else { return };
        let refused_at = self.cx.now - Duration::from_millis(age_ms);
        let peer = &self.view.entry(subject).peer;
        let (heard, sequence) = (peer.session.as_ref().map(|session| session.heard), peer.highest_sequence());
        if heard.is_some_and(|heard| heard > refused_at) {
            return self.out().send_both_ways(witness, &Message::Alive { run, sequence });
        }
        let witness_run = self.view.record(witness).run;
        self.look_into_hearsay(subject);
        if self.crashes.told_severed(self.cx.now, run, witness_run, is_sure) {
            let scene = self.scene(subject);
            let steps = self.crashes.judge(self.cx.now, run, &scene);
            self.take_steps(run, steps);
        }
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
            self.out().probe(subject);
        }
        let rare = self.view.peer_mut(subject).rare_mut();
        if self.crashes.is_case(run) || !is_due(now, rare.last_case, CRASH_HEARSAY_INTERVAL) {
            return;
        }
        rare.last_case = Some(now);
        if !self.is_linked(run) && self.observers.observes(subject) {
            self.open_case(run, 0);
            self.reopen(subject);
        }
    }

    /// Takes a member's report that it received this packet of the subject after a refusal.
    pub(crate) fn on_alive(&mut self, witness: Slot, run: Run, sequence: u64) {
        let by = self.view.record(witness).run;
        match self.crashes.told_alive(run, by, sequence) {
            Some(steps) => self.take_steps(run, steps),
            None => self.cx.counters.drop(DropReason::Unasked),
        }
    }

    /// Tells the other observers at once that this node heard the subject of a case itself, since they may be about to
    /// pronounce.
    pub(crate) fn heard_suspected_crash(&mut self, subject: Slot) {
        let run = self.view.record(subject).run;
        let sequence = self.view.entry(subject).peer.highest_sequence();
        let Some((steps, audience)) = self.crashes.heard(run, sequence) else { return };
        let told: Vec<Slot> = match audience {
            Audience::Observers => self.observers.observers_of(&self.view, subject).into_iter().collect(),
            Audience::Askers(askers) => askers.into_iter().filter_map(|run| self.view.slot_of_run(run)).collect(),
        };
        self.take_steps(run, steps);
        for slot in told {
            self.out().send_both_ways(slot, &Message::Alive { run, sequence });
        }
    }
}
