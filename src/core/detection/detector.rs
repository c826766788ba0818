//! Judging silence: the failure detector.
//!
//! Each member is judged by its *own* timing, from its last sign of life (of any kind, by any path), exactly at the
//! deadline and inclusively: age ≥ timeout.
//!
//! ```text
//! last sign ──0.8 × suspect──▶ probe ×3 or more, ask others ──suspect_timeout──▶ Suspect ──down_timeout──▶ Down ──reap_after──▶ reaped
//! ```
//!
//! The timeouts are fixed, and not learnt from arrivals as by a phi accrual detector (Hayashibara and others, 2004): they are
//! part of the record, so that all observers reach the same verdict at the same moment, and an attacker or a calm hour
//! cannot teach them another one.
//!
//! Two things lengthen the wait. A member that keeps refuting is suspected later, but not Down later (see `flapping`).
//! A node that doubts itself multiplies both of the timeouts by which it accuses, and does not count silence that it
//! slept through (see `health`).
//!
//! Invariants:
//! - No member is accused before three probes were sent and each had its time to be answered, however late this node
//!   comes.
//! - No member stays Suspect for longer than a down timeout, heard or not: one that lives and hears has refuted by
//!   then.
//! - An accusation claims no more silence than was demanded for it. The silence that the accuser forgave or slept
//!   through would otherwise count against the accused everywhere else, and take its chance to refute: others reach
//!   Down `down_timeout` after the last sign that the accusation tells of.
//!
//! Must not know: the way a sign of life took.

use std::time::Duration;

use crate::limits::{MIN_PAUSE, probe_after};
use crate::member::{DetectionMethod, LeaveReason, Run, Status};
use crate::time::Time;
use crate::timers::Timer;
use crate::view::Slot;
use crate::wire::Message;
use crate::{Core, Phase};

/// The least number of probes before a suspicion.
pub(super) const PROBES: u32 = 3;

impl Core {
    /// Sets the deadlines of a member whose record or last sign has just changed.
    pub(crate) fn watch(&mut self, slot: Slot) {
        let threshold = self.next_threshold(slot);
        let is_timed = threshold.is_some() || self.is_owed_heartbeats(slot);
        if !self.view.set_timed(slot, is_timed) && !is_timed {
            // Most members of a large cluster: there was nothing to wait for, and there is nothing.
            return;
        }
        let run = self.view.record(slot).run;
        match threshold {
            Some(at) => self.judge_at(run, at),
            None => self.timers.cancel(Timer::Judge(run)),
        }
        self.schedule_heartbeat(slot);
    }

    fn judge_at(&mut self, run: Run, at: Time) {
        if at > self.now
            && self.inquiries.end(run)
            && let Some(slot) = self.view.slot_of_run(run)
        {
            self.doubts_changed(slot);
        }
        // A note may be older than its deadline: the deadline is due now, which is no pause of this node.
        let at = at.max(self.now);
        // A node that doubts itself looks again when it may doubt less.
        let is_stretched = self.local_health.stretch() > 1;
        let at = if is_stretched { at.min(self.now + self.forgiving_step()) } else { at };
        self.timers.set(Timer::Judge(run), at);
    }

    /// Returns the time at which the member's silence or age reaches the next threshold of its status.
    pub(crate) fn next_threshold(&self, slot: Slot) -> Option<Time> {
        let entry = self.view.entry(slot);
        let silent_since = self.silent_since(slot);
        let (timing, stretch) = (entry.record.timing, self.local_health.stretch());
        match entry.record.status {
            Status::Joining => None,
            // Silence means something only to an observer, which should have been sent packets.
            Status::Up if !self.observers.observes(slot) => None,
            // A member of which a longer silence is demanded is probed no later than others: if it was not heard for
            // long before a cut, it would be judged before any other member is missed.
            Status::Up => Some(silent_since + probe_after(timing.suspect_timeout() * stretch)),
            Status::Leaving => Some(silent_since + timing.suspect_timeout()),
            Status::Suspect => {
                let patience = timing.down_timeout() * stretch;
                // A suspect that is heard is told, and refutes; one that does not in all this time does not hear.
                let accused_since = entry.peer.rare().accused_since.unwrap_or(silent_since);
                let at_last = accused_since.max(self.local_health.awake_since()) + patience;
                let deadline = (silent_since + patience).min(at_last);
                // Even an overdue suspect gets its refutation time.
                let chances = [self.refutation_deadline(slot), self.may_refute_until(slot)];
                chances.into_iter().flatten().chain([deadline]).max()
            }
            Status::Down | Status::Left(_) => Some(entry.peer.last_sign() + self.settings.reap_after),
        }
    }

    /// Returns the time from which a member's silence counts.
    pub(super) fn silent_since(&self, slot: Slot) -> Time {
        self.view.entry(slot).peer.last_sign().max(self.local_health.awake_since())
    }

    /// Judges a member whose deadline has come: most often it was heard meanwhile and gets a new one.
    pub(crate) fn judge(&mut self, run: Run) {
        let Some(slot) = self.view.slot_of_run(run) else { return };
        let Some(threshold) = self.next_threshold(slot) else { return };
        if !matches!(self.phase, Phase::Up) {
            // A joiner has no view yet by which it could judge; it looks again when it is Up. To a node that is leaving
            // nobody sends any more, and so it judges nobody.
            return self.timers.set(Timer::Judge(run), threshold.max(self.now + MIN_PAUSE));
        }
        if threshold > self.now {
            return self.judge_at(run, threshold);
        }
        match self.view.record(slot).status {
            Status::Up => self.doubt(slot),
            Status::Suspect => {
                self.counters.suspicions_confirmed += 1;
                self.record_verdict(slot, Status::Down, DetectionMethod::HeartbeatTimeout);
            }
            Status::Leaving => {
                self.record_verdict(slot, Status::Left(LeaveReason::Graceful), DetectionMethod::HeartbeatTimeout);
            }
            Status::Down | Status::Left(_) => self.reap(slot),
            Status::Joining => {}
        }
    }

    /// Probes a silent member, and accuses it at the end of its timeout.
    fn doubt(&mut self, slot: Slot) {
        let record = self.view.record(slot);
        let (run, timing) = (record.run, record.timing);
        let (demanded, silent_since) = (self.demanded_silence(slot), self.silent_since(slot));
        let mut suspect_at = silent_since + demanded * self.local_health.stretch();
        if self.is_heard_in_vain(slot)
            && !self.inquiries.are_heard(run, self.observers.observers_of(&self.view, slot).len())
        {
            suspect_at = suspect_at + demanded / 2;
        }
        let probed = self.inquiries.probed(run);
        if probed >= PROBES && self.now >= suspect_at {
            if self.rivals.are_met(self.now, demanded) {
                // Members hear one of two processes of a name: the other one hears nobody, and none of them is ill.
                self.timers.set(Timer::Judge(run), self.now + self.settings.probe_timeout);
                return;
            }
            return self.accuse(slot, demanded);
        }
        // At least three times, and on for as long as there is time: where packets are lost, each probe is another
        // chance.
        self.probe(slot);
        self.inquiries.probe_sent(run, self.now);
        if probed > 0 {
            self.probe_indirectly(slot);
            self.doubts_changed(slot);
        }
        // Three probes fit into the last fifth, also of a member that is quicker than this node.
        let pace = self.settings.probe_timeout.min(timing.suspect_timeout() / 15);
        let answered_by = self.now + pace;
        let next = if probed < PROBES { answered_by } else { answered_by.min(suspect_at) };
        self.timers.set(Timer::Judge(run), next);
    }

    /// Accuses a member: Up → Suspect, by this node's own word.
    fn accuse(&mut self, slot: Slot, demanded: Duration) {
        let run = self.view.record(slot).run;
        if let Some(since) = self.inquiries.began(run) {
            self.mind_being_unheard(since);
        }
        self.inquiries.close(run);
        self.counters.suspicions_raised += 1;
        let claimed = self.now - demanded;
        self.view.peer_mut(slot).lived_at(claimed);
        self.record_verdict(slot, Status::Suspect, DetectionMethod::HeartbeatTimeout);
    }

    /// Sends a probe, "Are you there?", on every way there is.
    pub(crate) fn probe(&mut self, slot: Slot) {
        self.counters.probes_sent += 1;
        let nonce = self.prover.nonce(self.view.record(slot).address, self.now);
        self.send_both_ways(slot, &Message::Probe { nonce });
    }

    /// Returns the time at which this node itself last heard a member.
    pub fn last_heard(&self, id: &crate::member::NodeId) -> Option<Time> {
        let slot = self.view.slot_of(id.as_str())?;
        self.view.entry(slot).peer.session.as_ref().map(|session| session.heard)
    }
}
