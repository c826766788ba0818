//! Heartbeats: every observer of this node gets a packet from it at least every `heartbeat_interval`.
//!
//! Gossip goes to the same peers at random and is a heartbeat too, so a heartbeat is sent only to a peer that otherwise
//! got nothing for nine tenths of the interval; it carries what gossip would and counts as gossip. Each peer has its own
//! phase, so that heartbeats are spread over the interval rather than sent in one burst, and the period carries some
//! jitter and never divides the suspect timeout exactly: a heartbeat due at the very deadline would make ten times the
//! false alarms.
//!
//! Invariants: no observer waits longer than `heartbeat_interval` for a packet of a node that runs in time.
//!
//! Must not know: how observers judge silence.

use std::time::Duration;

use rand::RngExt;

use crate::Core;
use crate::counters::Carrier;
use crate::member::Run;
use crate::timers::Timer;
use crate::view::Slot;

/// The share of the interval after which a peer that got no packet gets a heartbeat.
const SHARE: f64 = 0.9;
/// The largest share of the interval that is added to [`SHARE`] at random: a heartbeat is always sent before the
/// interval ends.
const JITTER: f64 = 0.07;

impl Core {
    /// Starts or stops a member's heartbeats, as it became live or stopped being so.
    pub(crate) fn schedule_heartbeat(&mut self, slot: Slot) {
        let record = self.view.record(slot);
        let timer = Timer::Heartbeat(record.run);
        if !self.is_owed_heartbeats(slot) {
            self.cx.timers.cancel(timer);
        } else if !self.cx.timers.is_set(timer) {
            let phase = self.cx.settings.heartbeat_interval.mul_f64(self.random.detector.random::<f64>());
            self.cx.timers.set(timer, self.cx.now + phase);
        }
    }

    pub(crate) fn is_owed_heartbeats(&self, slot: Slot) -> bool {
        self.view.entry(slot).status.is_live() && self.observers.observes(slot)
    }

    /// Sends a member a sign of life if it is due: most often some other packet was one.
    pub(crate) fn heartbeat(&mut self, run: Run) {
        let Some(slot) = self.view.slot_of_run(run) else { return };
        let period = self.heartbeat_period();
        let is_sending = !self.cx.phase.is_joining();
        let due = match self.view.entry(slot).peer.rare().last_sent {
            Some(sent) => sent + period,
            None => self.cx.now,
        };
        if !is_sending {
            return self.cx.timers.set(Timer::Heartbeat(run), self.cx.now + period);
        }
        self.paths.mind_datagrams(&mut self.cx, &self.view, self.health.awake_since(), slot);
        if due > self.cx.now {
            return self.cx.timers.set(Timer::Heartbeat(run), due);
        }
        self.gossip_to(slot, Carrier::Heartbeat);
        self.gossip.note_heartbeat(slot);
        self.cx.timers.set(Timer::Heartbeat(run), self.cx.now + period);
    }

    fn heartbeat_period(&mut self) -> Duration {
        let share = SHARE + JITTER * self.random.detector.random::<f64>();
        self.cx.settings.heartbeat_interval.mul_f64(share)
    }
}
