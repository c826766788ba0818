//! Judging silence, and knowing when not to: the failure detector.
//!
//! Each member is judged by its *own* timing, from its last sign of life (of any kind, by any path), exactly at the
//! deadline and inclusively: age ≥ timeout.
//!
//! ```text
//! last sign ──0.8 × suspect──▶ probe ×3 or more, ask others ──suspect_timeout──▶ Suspect ──down_timeout──▶ Down ──reap_after──▶ reaped
//! ```
//!
//! A process that was itself stopped, suspended or starved knows nothing of the time it slept through: when the core is
//! called later than its deadline by more than a quarter of a heartbeat, all pending verdicts are void and observation
//! starts anew ("self-doubt"; compare Lifeguard, DSN 2018, section 3). That is one number, `awake_since`, below which no
//! silence counts; it is never told to others.

use super::limits::MIN_PAUSE;
use super::time::Time;
use super::timers::Timer;
use super::view::Slot;
use super::wire::Message;
use super::{Core, DetectionMethod, LeaveReason, Notice, Phase, Run, Status, StopReason};

/// How far this node can trust its own observation.
#[derive(Debug)]
pub(super) struct Attention {
    /// Silence before this counts for nothing: we were not looking.
    awake_since: Time,
    /// The last packet of any member.
    last_heard: Time,
    /// The missed deadline that was already counted as a pause.
    counted: Option<Time>,
}

impl Attention {
    pub(super) fn new(now: Time) -> Self {
        Self { awake_since: now, last_heard: now, counted: None }
    }

    pub(super) fn heard(&mut self, now: Time) {
        self.last_heard = now;
    }

    /// Observation starts (anew).
    pub(super) fn start(&mut self, now: Time) {
        self.awake_since = now;
    }
}

/// The share of the suspect timeout after which a silent member is probed.
pub(super) const PROBE_AFTER: f64 = 0.8;

impl Core {
    /// Finds out whether this process stood still, before anything is judged.
    pub(super) fn notice_pause(&mut self) {
        let Some(deadline) = self.timers.next() else { return };
        let late = self.now.since(deadline);
        if late <= MIN_PAUSE.max(self.settings.heartbeat_interval / 4) {
            return;
        }
        self.attention.awake_since = self.now;
        if self.attention.counted == Some(deadline) {
            return;
        }
        self.attention.counted = Some(deadline);
        self.counters.pauses += 1;
        self.notice("paused", Notice::Paused { late_ms: late.as_millis() as u64 });
        let has_slept_long = self.now.since(self.attention.last_heard) >= self.settings.reap_after;
        if has_slept_long && !self.view.live().is_empty() {
            match self.phase {
                Phase::Up => self.rejoin(),
                // Everybody has forgotten it by now.
                Phase::Leaving => self.stop(StopReason::Left),
                Phase::Joining(_) | Phase::Stopped => {}
            }
        }
    }

    /// Sets the deadlines of a member whose record or last sign has just changed.
    pub(super) fn watch(&mut self, slot: Slot) {
        let run = self.view.record(slot).run;
        match self.next_threshold(slot) {
            // A note may be older than its deadline: that is due now, it is no pause of ours.
            Some(at) => self.timers.set(Timer::Judge(run), at.max(self.now)),
            None => self.timers.cancel(Timer::Judge(run)),
        }
        self.schedule_heartbeat(slot);
    }

    /// When the member's silence or age reaches the next threshold of its status.
    fn next_threshold(&self, slot: Slot) -> Option<Time> {
        let entry = self.view.entry(slot);
        let silent_since = self.silent_since(slot);
        let timing = entry.record.timing;
        match entry.record.status {
            Status::Joining => None,
            // Silence means something only to who should have been spoken to.
            Status::Up if !self.observes(slot) => None,
            Status::Up => Some(silent_since + timing.suspect_timeout().mul_f64(PROBE_AFTER)),
            Status::Leaving => Some(silent_since + timing.suspect_timeout()),
            Status::Suspect => Some(silent_since + timing.down_timeout()),
            Status::Down | Status::Left(_) => Some(entry.peer.last_sign + self.settings.reap_after),
        }
    }

    /// From when on a member's silence counts.
    fn silent_since(&self, slot: Slot) -> Time {
        self.view.entry(slot).peer.last_sign.max(self.attention.awake_since)
    }

    /// A member's deadline has come: most often it was heard meanwhile and gets a new one.
    pub(super) fn judge(&mut self, run: Run) {
        let Some(slot) = self.view.slot_of_run(run) else { return };
        let Some(threshold) = self.next_threshold(slot) else { return };
        if threshold > self.now || !matches!(self.phase, Phase::Up) {
            // A joiner has no view yet that it could judge by; it looks again when it is Up. Who is on its way out is not
            // spoken to any more, and so judges nobody.
            return self.timers.set(Timer::Judge(run), threshold.max(self.now + MIN_PAUSE));
        }
        match self.view.record(slot).status {
            Status::Up => self.doubt(slot, threshold),
            Status::Suspect => {
                self.counters.suspicions_confirmed += 1;
                self.pronounce(slot, Status::Down, DetectionMethod::HeartbeatTimeout);
            }
            Status::Leaving => {
                self.pronounce(slot, Status::Left(LeaveReason::Graceful), DetectionMethod::HeartbeatTimeout);
            }
            Status::Down | Status::Left(_) => self.reap(slot),
            Status::Joining => {}
        }
    }

    /// A silent member is probed, and suspected at the end of its timeout.
    fn doubt(&mut self, slot: Slot, probing_since: Time) {
        let record = self.view.record(slot);
        let run = record.run;
        let suspect_at = self.silent_since(slot) + record.timing.suspect_timeout();
        if self.now >= suspect_at {
            self.inquiries.close(run);
            self.counters.suspicions_raised += 1;
            return self.pronounce(slot, Status::Suspect, DetectionMethod::HeartbeatTimeout);
        }
        let sent = self.now.since(probing_since).as_nanos() / self.settings.probe_timeout.as_nanos().max(1);
        // Three times at least, and on for as long as there is time: where packets are lost, each one is another chance.
        self.probe(slot);
        if sent > 0 {
            self.inquire(slot);
        } else {
            // Answers to an earlier doubt say nothing about this one.
            self.inquiries.close(run);
        }
        let next = self.now + self.settings.probe_timeout;
        self.timers.set(Timer::Judge(run), next.min(suspect_at));
    }

    /// "Are you there?"
    fn probe(&mut self, slot: Slot) {
        self.counters.probes_sent += 1;
        let nonce = self.prover.nonce(self.view.record(slot).address, self.now);
        let mut packet = self.packet_to(slot);
        packet.push(&Message::Probe { nonce, doubted: true });
        self.send_to(slot, packet);
    }

    /// When this node itself last heard a member.
    pub fn last_heard(&self, id: &super::NodeId) -> Option<Time> {
        let slot = self.view.slot_of(id.as_str())?;
        self.view.entry(slot).peer.session.as_ref().map(|session| session.heard)
    }
}
