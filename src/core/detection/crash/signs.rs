//! Signs of life of a member whose process seems to be gone: heard by this node, or reported by others.
//!
//! Signs that this node hears itself count, and those reported by an elder (see `removal`) that was asked in this case.
//! Others that were asked may have been invented to hide a crash: their word counts for nothing if an elder was asked,
//! too; if none was, it causes one more review of the case.
//!
//! Invariants:
//! - The word of a member that was not asked in this case does not count.
//! - Newcomers, however many, delay a verdict by one review at most.
//!
//! Must not know: how a verdict is reached.

use super::{Core, Drop, Message, Run, Slot, Stage, Timer};
use crate::core::limits::CRASH_REVIEW;

impl Core {
    /// Takes a member's report that it received this packet of the subject after a refusal.
    pub(in crate::core) fn told_alive(&mut self, witness: Slot, run: Run, sequence: u64) {
        let by = self.view.record(witness).run;
        let Some(case) = self.crashes.cases.get(&run).filter(|case| case.asked.contains(&by)) else {
            return self.counters.drop(Drop::Unasked);
        };
        if self.is_elder(witness) {
            return self.was_alive(run, sequence);
        }
        let is_news = matches!(case.stage, Stage::Refused { .. }) && sequence > case.sequence;
        let asked = case.asked.iter().filter_map(|run| self.view.slot_of_run(*run));
        let has_asked_elder = asked.into_iter().any(|slot| self.is_elder(slot));
        let Some(case) = self.crashes.cases.get_mut(&run) else { return };
        if has_asked_elder || case.has_heeded_newcomer || case.reviews == 0 || !is_news {
            return self.counters.drop(Drop::Unproven);
        }
        // The sequence number that it reports is not taken over: true ones would not be news any more.
        case.has_heeded_newcomer = true;
        self.review(run);
    }

    /// Takes a packet of the subject that came after a refusal: if no higher number was known, the subject lives, or
    /// did so when that packet left.
    fn was_alive(&mut self, run: Run, sequence: u64) {
        let is_refused = self.crashes.refused_at(run).is_some();
        let Some(case) = self.crashes.cases.get_mut(&run) else { return };
        if sequence <= case.sequence {
            return;
        }
        case.sequence = sequence;
        // An observer that was sure before was wrong.
        case.sure.clear();
        if !is_refused {
            return;
        }
        self.review(run);
    }

    /// Reviews the case in a moment, since the subject seems to live, or closes it after the last review.
    fn review(&mut self, run: Run) {
        self.counters.crashes_refuted += 1;
        if let Some(slot) = self.view.slot_of_run(run) {
            self.doubts_changed(slot);
        }
        let Some(case) = self.crashes.cases.get_mut(&run) else { return };
        if case.reviews == 0 {
            return self.process_answers(run);
        }
        case.reviews -= 1;
        case.stage = Stage::Reviewing;
        self.timers.set(Timer::Crash(run), self.now + CRASH_REVIEW);
    }

    /// Tells the other observers at once that this node heard the subject of a case itself, since they may be about to
    /// pronounce.
    pub(in crate::core) fn heard_suspected_crash(&mut self, subject: Slot) {
        let run = self.view.record(subject).run;
        let is_refused = self.crashes.refused_at(run).is_some();
        let Some(case) = self.crashes.cases.get_mut(&run) else { return };
        let askers = std::mem::take(&mut case.askers);
        let told: Vec<Slot> = if is_refused {
            self.observers_of(subject).into_iter().collect()
        } else {
            askers.into_iter().filter_map(|run| self.view.slot_of_run(run)).collect()
        };
        let sequence = self.view.entry(subject).peer.highest_sequence();
        self.was_alive(run, sequence);
        for slot in told {
            self.send_both_ways(slot, &Message::Alive { run, sequence });
        }
    }
}
