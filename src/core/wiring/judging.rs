//! Judging: silence, signs of life, and broken links: what the detector and the machine of crashes are told, and what is done
//! about their steps.
//!
//! Must not know: how silence is judged, how a case of a crash is decided (see `detection::crash`), or how packets find their way.

use std::time::Duration;

use crate::Core;
use crate::context::Phase;
use crate::counters::Carrier;
use crate::detection::crash::{Audience, CrashStep, Observer, Scene};
use crate::detection::{DetectorStep, Grounds, Pause, arrived_at};
use crate::io::{Notice, Output, SelfDoubt, StopReason};
use crate::limits::{CRASH_HEARSAY_INTERVAL, CRASH_REVIEWS, MIN_CRASH_PROBE_GAP, TOLD_INTERVAL};
use crate::member::{DetectionMethod, LeaveReason, Run, Status};
use crate::time::Time;
use crate::timers::Timer;
use crate::view::{RareState, Slot, View, is_due};
use crate::wire::{Heartbeat, Message};

/// Silence.
impl Core {
    /// Returns what members are judged by.
    pub(crate) fn grounds(&self) -> Grounds<'_> {
        Grounds {
            now: self.cx.now,
            view: &self.view,
            observers: &self.observers,
            health: &self.health,
            settings: &self.cx.settings,
        }
    }

    /// Sets the deadlines of a member whose record or last sign has just changed.
    pub(crate) fn watch(&mut self, slot: Slot) {
        let threshold = self.grounds().threshold(slot);
        let is_owed_heartbeats = self.grounds().is_owed_heartbeats(slot);
        let is_timed = threshold.is_some() || is_owed_heartbeats;
        if !self.view.set_timed(slot, is_timed) && !is_timed {
            // Most members of a large cluster: there was nothing to wait for, and there is nothing.
            return;
        }
        let run = self.view.record(slot).run;
        match threshold {
            Some(at) => self.judge_at(run, slot, at),
            None => self.cx.timers.cancel(Timer::Judge(run)),
        }
        self.detector.schedule_heartbeat(&mut self.cx, run, is_owed_heartbeats);
    }

    fn judge_at(&mut self, run: Run, slot: Slot, threshold: Time) {
        if self.detector.end_doubt(self.cx.now, run, threshold) {
            self.on_doubts_changed(slot);
        }
        let at = self.grounds().look_at(threshold);
        self.cx.timers.set(Timer::Judge(run), at);
    }

    /// Judges a member whose deadline has come.
    pub(crate) fn judge(&mut self, run: Run) {
        let Some(slot) = self.view.slot_of_run(run) else { return };
        let (now, is_up) = (self.cx.now, self.cx.phase.is_up());
        let are_rivals_met = |within| self.me.rivals.are_met(now, within);
        let step = self.detector.judge(outbox!(self).grounds(), slot, is_up, are_rivals_met);
        let Some(step) = step else { return };
        match step {
            DetectorStep::Wait(at) => self.cx.timers.set(Timer::Judge(run), at),
            DetectorStep::Look(threshold) => self.judge_at(run, slot, threshold),
            DetectorStep::Probe { nth, next } => {
                self.out().probe(slot);
                if nth > 0 {
                    self.probe_indirectly(slot);
                    self.on_doubts_changed(slot);
                }
                self.cx.timers.set(Timer::Judge(run), next);
            }
            DetectorStep::Suspect { doubted, claimed } => {
                if let Some(since) = doubted {
                    self.health.note_unheard(since);
                }
                self.cx.counters.suspicions_raised += 1;
                self.view.peer_mut(slot).lived_at(claimed);
                self.record_verdict(slot, Status::Suspect, DetectionMethod::HeartbeatTimeout);
            }
            DetectorStep::Confirm => {
                self.cx.counters.suspicions_confirmed += 1;
                self.record_verdict(slot, Status::Down, DetectionMethod::HeartbeatTimeout);
            }
            DetectorStep::Depart => {
                self.record_verdict(slot, Status::Left(LeaveReason::Graceful), DetectionMethod::HeartbeatTimeout);
            }
            DetectorStep::Reap => self.reap(slot),
        }
    }

    /// Marks a verdict of this node as unheard if it was deaf at the time. A member that refused a connection was
    /// heard.
    pub(crate) fn mark_judged(&mut self, slot: Slot, status: Status, method: Option<DetectionMethod>) {
        let is_silence =
            matches!(status, Status::Suspect | Status::Down) && method != Some(DetectionMethod::ConnectionLost);
        let is_deaf = self.health.is_deaf(self.cx.now, &self.cx.settings);
        let is_unheard = is_silence && (is_deaf || self.out().is_withheld(slot));
        self.view.peer_mut(slot).judged_unheard(is_unheard);
    }

    /// Sends a member a sign of life if it is due: most often some other packet was one.
    pub(crate) fn heartbeat(&mut self, run: Run) {
        let Some(slot) = self.view.slot_of_run(run) else { return };
        let now = self.cx.now;
        let period = self.detector.heartbeat_period(&self.cx.settings);
        let mut next = now + period;
        if !self.cx.phase.is_joining() {
            self.paths.check_datagrams(&mut self.cx, &self.view, self.health.awake_since(), slot);
            let last_sent = self.view.entry(slot).peer.rare().last_sent;
            if let Some(due) = last_sent.map(|sent| sent + period).filter(|due| *due > now) {
                next = due;
            } else {
                self.gossip_to(slot, Carrier::Heartbeat);
                self.gossip.note_heartbeat(slot);
            }
        }
        self.cx.timers.set(Timer::Heartbeat(run), next);
    }

    /// Asks witnesses about a silent member.
    fn probe_indirectly(&mut self, subject: Slot) {
        let run = self.view.record(subject).run;
        for slot in self.detector.witnesses(self.cx.now, &self.view, &self.observers, subject) {
            let mut packet = self.out().packet_to(slot);
            packet.push(&Message::LastHeard { run });
            self.out().send_to(slot, packet);
        }
    }

    /// Takes a witness's answer that it heard the subject.
    pub(crate) fn on_heard_at(&mut self, witness: Slot, run: Run, age_ms: u64) {
        let arrived = self.arrived_at();
        let Some(heard) = self.detector.heard_at(&mut outbox!(self), arrived, witness, run, age_ms) else { return };
        self.watch(heard.slot);
        self.cx.counters.degraded_links += u64::from(heard.is_news);
        if heard.is_degraded {
            let links = self.detector.link_degraded(&mut self.cx, &self.view, heard.slot, witness);
            if links > 1 {
                self.doubt_myself(SelfDoubt::DegradedLinks { links });
            }
        }
    }

    /// Counts a refutation by a suspected member.
    pub(crate) fn note_refutation(&mut self, slot: Slot) {
        self.cx.counters.suspicions_refuted += 1;
        let timing = self.view.record(slot).timing;
        let now = self.cx.now;
        let RareState { refutations, .. } = self.view.peer_mut(slot).rare_mut();
        refutations.add(now, timing);
        if refutations.are_too_many() {
            let id = self.view.record(slot).id.clone();
            self.cx.notice("flapping", Notice::Flapping { id });
        }
    }
}

/// Signs of life, and contact. (A sign makes nobody Up, and refutes nothing. It moves the time from which silence counts, and
/// ends what began with silence.)
impl Core {
    /// Takes a packet of a member's run as a sign that it lives. The status that it is held at does not change by that.
    pub(crate) fn sign_of_life(&mut self, slot: Slot, arrived: Time) {
        let record = self.view.record(slot);
        let (id, run) = (record.id.clone(), record.run);
        if self.grounds().counts_as_alive(slot) {
            self.sign_counts(slot, arrived);
        }
        self.cx.output(Output::Heard(id));
        if self.observers.note_heard_on_the_way(slot) {
            self.on_doubts_changed(slot);
        }
        if self.crashes.is_case(run) {
            self.heard_suspected_crash(slot);
        }
    }

    /// Counts a packet of a member's run that shows that the member lives (see `echo`).
    pub(crate) fn sign_counts(&mut self, slot: Slot, arrived: Time) {
        self.cx.counters.signs_of_life += 1;
        self.measure_age(slot, arrived);
        if matches!(self.view.record(slot).status, Status::Up | Status::Suspect | Status::Leaving) {
            self.remember_flapping(slot);
            self.view.peer_mut(slot).lived_at(arrived);
        }
        if let Some(session) = &mut self.view.peer_mut(slot).session {
            session.sign = session.sign.max(arrived);
        }
        self.detector.heard_directly(&mut self.cx, &self.view, slot);
    }

    /// Measures the age that the last sign of life of an observed member has reached.
    fn measure_age(&mut self, slot: Slot, arrived: Time) {
        if !self.observers.observes(slot) {
            return;
        }
        let age = self.view.entry(slot).peer.session.as_ref().map(|session| arrived.since(session.sign));
        // The session begins with the first sign, which ends no silence.
        if let Some(age) = age.filter(|age| !age.is_zero()) {
            self.cx.counters.heartbeat_ages.observe(age);
        }
    }

    /// Keeps the refutations of a member that is heard again, if its silence was long enough to have it suspected
    /// without damping.
    pub(crate) fn remember_flapping(&mut self, slot: Slot) {
        let entry = self.view.entry(slot);
        let (now, timing, silent_since) = (self.cx.now, entry.record.timing, self.grounds().silent_since(entry));
        if now.since(silent_since) >= timing.suspect_timeout() {
            self.view.peer_mut(slot).renew_refutations(now, timing);
        }
    }

    /// Takes a member's heartbeat: measures the round trip, and sees by its echo whether the member hears this node.
    pub(crate) fn on_heartbeat(&mut self, slot: Slot, heartbeat: Heartbeat) {
        let echoed = self.view.peer_mut(slot).heartbeat(self.cx.now, heartbeat);
        if !echoed.is_new {
            return;
        }
        if let Some(round_trip) = echoed.round_trip {
            self.cx.counters.round_trips.observe(round_trip);
        }
        if let Some(hold) = self.grounds().recent_echo(slot, heartbeat, echoed.before) {
            self.note_contact(slot, self.cx.now - hold);
        }
    }

    /// Notes that a member had received a packet of this node by then: the packet that shows it counts, whatever the
    /// ones before.
    pub(crate) fn note_contact(&mut self, slot: Slot, received: Time) {
        let Some(session) = &mut self.view.peer_mut(slot).session else { return };
        session.echo_state.answered();
        let (heard, sign) = (session.heard, session.sign);
        if self.health.note_contact(self.cx.now, received, &self.cx.settings) {
            self.detector.inquiries.begin_anew();
            self.paths.give_up_hung_bootstraps(&mut self.cx, |_| true);
            self.tell_the_accused();
        }
        self.health.expect_contact(self.observers.quickest());
        self.me.unreached_at = None;
        if heard > sign {
            self.sign_counts(slot, heard);
        }
    }

    /// Tells the members that were accused while nothing got through, so that they refute it (Lifeguard's buddy system): most of
    /// them are not observed otherwise, and would learn it from members that believe it. One that was told in vain is told
    /// again, and one that does not refute is told by a bootstrap link as well.
    pub(crate) fn tell_the_accused(&mut self) {
        let counts = self.view.counts();
        let is_anybody = counts[Status::Suspect.index()] + counts[Status::Down.index()] > 0;
        if !is_anybody || !self.health.is_telling(self.cx.now, &self.cx.settings) {
            return;
        }
        let is_accused = |status: Status| matches!(status, Status::Suspect | Status::Down);
        let accused = self.view.iter().filter(|(_, entry)| is_accused(entry.status));
        let accused: Vec<Slot> =
            accused.filter(|(_, entry)| entry.peer.rare().is_judged_unheard).map(|(slot, _)| slot).collect();
        if self.cx.now.since(self.health.heard_again()) >= TOLD_INTERVAL {
            // Those whose datagrams do not pass were told in vain. At random: the dead must not keep the others from it.
            let addresses: Vec<_> = accused.iter().map(|slot| self.view.record(*slot).address).collect();
            let asked = self.detector.shuffled(&addresses);
            self.out().open_bootstraps(&asked);
            // There may be more of them than bootstrap links at one time.
            self.paths.end_bootstraps_soon(self.cx.now, |_| true);
        }
        for slot in accused {
            if self.out().must_be_told(slot) {
                let packet = self.out().packet_to(slot);
                self.out().send_to(slot, packet);
            }
        }
    }
}

/// This node's own attention.
impl Core {
    /// Finds out if this process stood still, before anything is judged.
    pub(crate) fn notice_pause(&mut self) {
        // Nearly every input comes before the deadline, and costs no more than this comparison.
        let Some(deadline) = self.cx.timers.next().filter(|deadline| *deadline < self.cx.now) else { return };
        let Some(Pause { late, unheard }) = self.health.note_pause(self.cx.now, deadline, &self.cx.settings) else {
            return;
        };
        self.cx.counters.pauses += 1;
        self.cx.notice("paused", Notice::Paused { late_ms: late.as_millis() as u64 });
        if unheard >= self.cx.settings.reap_after && !self.view.live().is_empty() {
            match self.cx.phase {
                Phase::Up => self.rejoin(),
                // All members have forgotten this node by now.
                Phase::Leaving => self.stop(StopReason::Left),
                Phase::Joining | Phase::Stopped => {}
            }
        }
    }

    /// Measures how late a tick comes.
    pub(crate) fn measure_tick(&mut self) {
        let Some(deadline) = self.cx.timers.next().filter(|deadline| *deadline <= self.cx.now) else { return };
        self.cx.counters.tick_lateness.observe(self.cx.now.since(deadline));
        if let Some(doubt) = self.health.tick(self.cx.now, deadline, &self.cx.settings) {
            self.doubt_myself(doubt);
        } else if self.health.take_recovery() {
            self.cx.output(Output::Notice(Notice::HealthyAgain));
        }
    }

    /// Adds evidence against this node's own observation.
    pub(crate) fn doubt_myself(&mut self, why: SelfDoubt) {
        if self.health.doubt(self.cx.now, why, &self.cx.settings) {
            let stretch = self.health.stretch();
            if self.cx.notice("unhealthy", Notice::Unhealthy { why, stretch }) {
                self.health.note_told();
            }
        }
    }

    /// Returns the latest time at which the current input can have arrived.
    pub(crate) fn arrived_at(&self) -> Time {
        arrived_at(self.cx.now, self.cx.timers.next(), &self.cx.settings)
    }

    /// Returns true if the current input may have waited while this process stood still.
    pub(crate) fn may_be_delayed(&self) -> bool {
        self.arrived_at() < self.cx.now
    }
}

/// Crashes: outcomes of links.
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
    /// ever; that may be how the end of a process shows that had no link yet.
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

    /// Closes a case: the process answered over a link, is at another address, or is gone.
    pub(crate) fn close_case(&mut self, run: Run) {
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

/// Crashes: steps of a case.
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
        let gap = self.patience_with(std::iter::once(subject));
        Scene { gap, is_walking: self.observers.walk.is_on(), others }
    }

    /// Returns the time for which an answer of these members is awaited: a crash must be decided within a second in every
    /// profile, also over round trips of a tenth of a second.
    pub(crate) fn patience_with(&self, asked: impl Iterator<Item = Slot>) -> Duration {
        let rtt = asked.filter_map(|slot| self.view.entry(slot).peer.rtt()).max().unwrap_or_default();
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
                        self.on_doubts_changed(slot);
                    }
                }
                CrashStep::Reopen | CrashStep::Probe | CrashStep::Doubt | CrashStep::Ask | CrashStep::Convict => {
                    let Some(slot) = self.suspect_of_crash(run) else { continue };
                    match step {
                        CrashStep::Reopen => self.reopen(slot),
                        CrashStep::Probe => self.out().probe(slot),
                        CrashStep::Doubt => self.on_doubts_changed(slot),
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
        let Some((age, is_sure)) = self.crashes.ask(self.cx.now, run) else { return };
        let age_ms = age.as_millis() as u64;
        for slot in self.observers.observers_of(&self.view, subject) {
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

/// Crashes: reports of other observers, and signs of life.
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
    pub(crate) fn on_alive(&mut self, run: Run, sequence: u64) {
        let steps = self.crashes.told_alive(run, sequence);
        self.take_steps(run, steps);
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
