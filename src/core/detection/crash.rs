//! From a broken link to a verdict: a process that died is reported within a second, in every profile.
//!
//! ```text
//! link broke ─▶ opened again at once ──connected──▶ nothing happened
//!                    │ refused  (as the first link to a newcomer may be, too)
//!                    ▼
//!      three probes, and at each "I cannot reach it" to the other observers
//!                    │                          ├── heard by anybody since the refusal ──▶ it lives; looked into again
//!                    │ none answered                                                      twice, a moment later
//!                    ▼
//!      sure ── and a second observer is sure, or there is no other ──▶ Suspect, and at once Down (`connection_lost`)
//! ```
//!
//! Each step needs positive evidence: a connection that breaks is no verdict, nor is one that cannot be opened because
//! nobody answers (a firewall does that), and a refused one is none alone (a proxy that died refuses for a living node,
//! whose datagrams then refute it).
//!
//! Invariants:
//! - Only an observer that was refused itself, and whose own probes stayed unanswered, may pronounce.
//! - An observer that is alone has nobody to ask, and probes longer.
//! - One packet of the subject's run that this node, or an elder (see `removal`) that it asked, received after the
//!   refusal ends the case. Other members that were asked may be mistaken or invented: if no elder was asked, their
//!   word causes one more review; if one was, it counts for nothing.
//! - If nothing is decided, silence is judged by the timeouts as always.
//!
//! Signs of life are compared with the moment of the refusal, not of the break: packets may still have been under way
//! then. And each has to be news: a packet's number above all that were known. On a busy machine the last packets of a
//! dead process are read late, by one observer after the other, and the reports of that arrive later still; but it
//! sends no new ones.

mod signs;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::core::counters::Drop;
use crate::core::limits::{
    CRASH_HEARSAY_INTERVAL, CRASH_PATIENCE, CRASH_REVIEW, CRASH_REVIEWS, MANY_CRASHES_PATIENCE, MAX_CRASH_WITNESSES,
    MIN_CRASH_PROBE_GAP,
};
use crate::core::member::{DetectionMethod, Run, Status};
use crate::core::time::Time;
use crate::core::timers::Timer;
use crate::core::view::{Slot, View, is_due};
use crate::core::wire::Message;
use crate::core::{Core, Phase};

/// The number of probes that must stay unanswered …
const PROBES: u32 = 3;
/// … and their number if there is no other member that could have heard the subject.
const PROBES_ALONE: u32 = 5;

/// The cases of members that may have crashed, by run. At most one per neighbour.
#[derive(Debug, Default)]
pub(in crate::core) struct Crashes {
    cases: BTreeMap<Run, Case>,
}

#[derive(Debug)]
struct Case {
    stage: Stage,
    /// The observers that are sure, and the times at which they last said so.
    sure: BTreeMap<Run, Time>,
    /// The observers that cannot reach it either, and ask if this one heard it.
    askers: BTreeSet<Run>,
    /// The highest sequence number of its packets that any member is known to have received.
    sequence: u64,
    /// The number of reviews that are left after signs of life.
    reviews: u8,
    /// The observers that were asked for a sign of life. At most [`MAX_CRASH_WITNESSES`].
    asked: BTreeSet<Run>,
    /// True once the case was reviewed at the word of a member that is no elder.
    has_heeded_newcomer: bool,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    /// A link is being opened.
    Reopening,
    /// The port refused; this many rounds of probes and questions are over.
    Refused { at: Time, rounds: u32 },
    /// The process seemed to live: the case is reviewed in a moment.
    Reviewing,
}

impl Crashes {
    /// Returns the number of cases.
    pub(in crate::core) fn size(&self) -> usize {
        self.cases.len()
    }

    /// Closes the case of a member that is gone, or whose process is another one.
    pub(super) fn close(&mut self, run: Run) {
        self.cases.remove(&run);
    }

    /// Closes a case that waits for a link that is not wanted any more: it would wait for ever.
    pub(in crate::core) fn await_no_link(&mut self, run: Run) {
        if self.cases.get(&run).is_some_and(|case| matches!(case.stage, Stage::Reopening)) {
            self.close(run);
        }
    }

    /// Returns true if the port refused and this many probes were in vain.
    fn were_in_vain(&self, run: Run, probes: u32) -> bool {
        let case = self.cases.get(&run);
        case.is_some_and(|case| matches!(case.stage, Stage::Refused { rounds, .. } if rounds > probes))
    }

    /// Returns true if the port refused, and a probe was in vain.
    pub(super) fn is_in_vain(&self, run: Run) -> bool {
        self.were_in_vain(run, 1)
    }

    /// Returns the members whose ports refused while a probe was in vain.
    pub(super) fn in_vain(&self) -> impl Iterator<Item = Run> {
        self.cases.keys().copied().filter(|run| self.is_in_vain(*run))
    }

    fn is_sure(&self, run: Run) -> bool {
        self.were_in_vain(run, PROBES)
    }

    /// Returns the numbers of observers that are kept as sure, and as asking.
    #[cfg(test)]
    pub(in crate::core) fn words_about(&self, run: Run) -> (usize, usize) {
        self.cases.get(&run).map_or((0, 0), |case| (case.sure.len(), case.askers.len()))
    }

    fn refused_at(&self, run: Run) -> Option<Time> {
        match self.cases.get(&run)?.stage {
            Stage::Refused { at, .. } => Some(at),
            _ => None,
        }
    }
}

impl Core {
    /// Opens a case: the link to a member broke, and is being opened again.
    pub(in crate::core) fn lost_link(&mut self, run: Run) {
        self.open_case(run, CRASH_REVIEWS);
    }

    fn open_case(&mut self, run: Run, reviews: u8) {
        let slot = self.view.slot_of_run(run);
        let sequence = slot.map_or(0, |slot| self.view.entry(slot).peer.highest_sequence());
        self.crashes.cases.insert(
            run,
            Case {
                stage: Stage::Reopening,
                sure: BTreeMap::new(),
                askers: BTreeSet::new(),
                sequence,
                reviews,
                asked: BTreeSet::new(),
                has_heeded_newcomer: false,
            },
        );
    }

    /// Returns the member, if its case is still worth looking into.
    fn suspect_of_crash(&self, run: Run) -> Option<Slot> {
        let slot = self.view.slot_of_run(run)?;
        let is_live = matches!(self.view.record(slot).status, Status::Up | Status::Suspect);
        (is_live && matches!(self.phase, Phase::Up)).then_some(slot)
    }

    /// Notes that the port of a member refused a link. `is_first`: no other attempt has failed since a link stood, or
    /// since ever; that may be how the end of a process shows that had no link yet.
    pub(in crate::core) fn refused_link(&mut self, run: Run, is_first: bool) {
        if self.suspect_of_crash(run).is_none() {
            return self.crashes.close(run);
        }
        if is_first && !self.is_case(run) {
            self.open_case(run, CRASH_REVIEWS);
        }
        if let Some(case) = self.crashes.cases.get_mut(&run) {
            case.stage = Stage::Refused { at: self.now, rounds: 0 };
            self.investigate(run);
        }
    }

    /// Closes a case: a link could not be opened, but nobody refused it, which is no evidence. If another process
    /// answered there, it is asked for its identity, which ends the old one.
    pub(in crate::core) fn no_link(&mut self, run: Run) {
        if self.crashes.cases.remove(&run).is_some() {
            self.timers.cancel(Timer::Crash(run));
            if let Some(slot) = self.suspect_of_crash(run) {
                self.probe(slot);
            }
        }
    }

    /// Notes that a link was opened, and closed before the process answered over it. That is a proxy, another run, or a
    /// process that is just dying: a kernel may close its connections before the port that still takes new ones. So the
    /// case is reviewed in a moment.
    pub(in crate::core) fn closed_unanswered(&mut self, run: Run, is_first: bool) {
        if is_first && !self.is_case(run) && self.suspect_of_crash(run).is_some() {
            self.open_case(run, CRASH_REVIEWS);
        }
        let Some(case) = self.crashes.cases.get_mut(&run).filter(|case| case.reviews > 0) else {
            return self.no_link(run);
        };
        case.reviews -= 1;
        case.stage = Stage::Reviewing;
        self.timers.set(Timer::Crash(run), self.now + CRASH_REVIEW);
        if let Some(slot) = self.suspect_of_crash(run) {
            self.probe(slot);
        }
    }

    /// Closes a case: the process answered over a link.
    pub(in crate::core) fn process_answers(&mut self, run: Run) {
        self.crashes.close(run);
        self.timers.cancel(Timer::Crash(run));
    }

    /// Takes the next step of a case.
    pub(in crate::core) fn investigate(&mut self, run: Run) {
        let Some(slot) = self.suspect_of_crash(run) else { return self.crashes.close(run) };
        let Some(case) = self.crashes.cases.get_mut(&run) else { return };
        match &mut case.stage {
            Stage::Reopening => {}
            Stage::Reviewing => {
                case.stage = Stage::Reopening;
                self.reopen(slot);
            }
            Stage::Refused { rounds, .. } => {
                let over = *rounds;
                *rounds += 1;
                if over >= PROBES && self.convict_if_confirmed(slot) {
                    return;
                }
                let patience = if self.observers.walk.is_on() { MANY_CRASHES_PATIENCE } else { CRASH_PATIENCE };
                if over >= PROBES + patience {
                    // No other observer is sure: the member's silence will tell.
                    return self.crashes.close(run);
                }
                self.probe(slot);
                if over == 1 {
                    self.doubts_changed(slot);
                }
                self.say_severed(slot);
                let gap = self.crash_probe_gap(slot);
                self.timers.set(Timer::Crash(run), self.now + gap);
            }
        }
    }

    /// Returns the time for which an answer is awaited: a crash must be decided within a second in every profile, also
    /// over round trips of a tenth of a second.
    fn crash_probe_gap(&self, slot: Slot) -> Duration {
        let rtt = self.view.entry(slot).peer.rtt().unwrap_or_default();
        self.settings.probe_timeout.min(MIN_CRASH_PROBE_GAP.max(rtt * 3 / 2))
    }

    /// Tells the other observers what this one has found so far.
    fn say_severed(&mut self, subject: Slot) {
        let run = self.view.record(subject).run;
        let Some(refused_at) = self.crashes.refused_at(run) else { return };
        let is_sure = self.crashes.is_sure(run);
        let age_ms = self.now.since(refused_at).as_millis() as u64;
        for slot in self.observers_of(subject) {
            let asked = self.view.record(slot).run;
            if let Some(case) = self.crashes.cases.get_mut(&run)
                && case.asked.len() < MAX_CRASH_WITNESSES
            {
                case.asked.insert(asked);
            }
            self.send_both_ways(slot, &Message::Severed { run, age_ms, is_sure });
        }
    }

    /// Takes another observer's report that it cannot reach a member's process.
    pub(in crate::core) fn told_severed(&mut self, witness: Slot, run: Run, age_ms: u64, is_sure: bool) {
        if run == self.run {
            // This node's answer is a sign of life.
            let packet = self.packet_to(witness);
            return self.send_to(witness, packet);
        }
        let Some(subject) = self.suspect_of_crash(run) else { return };
        let refused_at = self.now - Duration::from_millis(age_ms);
        let peer = &self.view.entry(subject).peer;
        let (heard, sequence) = (peer.session.as_ref().map(|session| session.heard), peer.highest_sequence());
        if heard.is_some_and(|heard| heard > refused_at) {
            return self.send_both_ways(witness, &Message::Alive { run, sequence });
        }
        let witness_run = self.view.record(witness).run;
        self.look_into_hearsay(subject);
        let Some(case) = self.crashes.cases.get_mut(&run) else { return };
        if case.askers.len() < MAX_CRASH_WITNESSES {
            case.askers.insert(witness_run);
        }
        if is_sure && case.sure.len() < MAX_CRASH_WITNESSES {
            case.sure.insert(witness_run, self.now);
            self.convict_if_confirmed(subject);
        }
    }

    /// Checks another observer's report: asks the subject for a sign of life, and tries to reach its process, unless a
    /// link to it still stands.
    fn look_into_hearsay(&mut self, subject: Slot) {
        let run = self.view.record(subject).run;
        let now = self.now;
        let errands = self.view.peer_mut(subject).errands_mut();
        let may_probe = is_due(now, errands.last_hearsay, MIN_CRASH_PROBE_GAP);
        if may_probe {
            errands.last_hearsay = Some(now);
        }
        if may_probe && self.crashes.refused_at(run).is_none() {
            self.probe(subject);
        }
        let errands = self.view.peer_mut(subject).errands_mut();
        if self.crashes.cases.contains_key(&run) || !is_due(now, errands.last_case, CRASH_HEARSAY_INTERVAL) {
            return;
        }
        errands.last_case = Some(now);
        if !self.is_linked(run) && self.observes(subject) {
            self.open_case(run, 0);
            self.reopen(subject);
        }
    }

    /// Opens a case, since a process near this one is gone: a link to it shows at once if this one is gone, too.
    pub(super) fn look_for_crash(&mut self, subject: Slot) {
        let run = self.view.record(subject).run;
        if self.suspect_of_crash(run).is_some() && !self.is_linked(run) && !self.is_case(run) {
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

    /// Returns true if others were asked about this run, so that their testimony counts.
    pub(in crate::core) fn is_case(&self, run: Run) -> bool {
        self.crashes.cases.contains_key(&run)
    }

    /// Pronounces the verdict if there is enough evidence.
    fn convict_if_confirmed(&mut self, subject: Slot) -> bool {
        let run = self.view.record(subject).run;
        if !self.crashes.is_sure(run) {
            return false;
        }
        // An observer that is sure says so again and again; one that has stopped saying so is sure no more.
        let fresh = self.now - self.crash_probe_gap(subject) * 2;
        let is_confirmed =
            self.crashes.cases.get(&run).is_some_and(|case| case.sure.values().any(|said| *said >= fresh));
        let is_silenced = |slot: &Slot| {
            let entry = self.view.entry(*slot);
            *slot == subject || entry.status == Status::Suspect || self.crashes.is_sure(entry.record.run)
        };
        let is_alone = || {
            self.crashes.were_in_vain(run, PROBES_ALONE)
                && self.observers_of(subject).iter().chain(self.observers.walk.doubted()).all(is_silenced)
        };
        if !is_confirmed && !is_alone() {
            return false;
        }
        debug_assert!(subject != View::ME);
        self.process_answers(run);
        self.counters.suspicions_raised += 1;
        self.counters.crashes_detected += 1;
        if self.view.record(subject).status == Status::Up {
            self.pronounce(subject, Status::Suspect, DetectionMethod::ConnectionLost);
        }
        self.counters.suspicions_confirmed += 1;
        self.pronounce(subject, Status::Down, DetectionMethod::ConnectionLost);
        true
    }
}
