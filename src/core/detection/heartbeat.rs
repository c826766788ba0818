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

use super::{Detector, DetectorFacts};
use crate::context::Context;
use crate::member::Run;
use crate::settings::Settings;
use crate::timers::Timer;
use crate::view::Slot;

/// The share of the interval after which a peer that got no packet gets a heartbeat.
const SHARE: f64 = 0.9;
/// The largest share of the interval that is added to [`SHARE`] at random: a heartbeat is always sent before the
/// interval ends.
const JITTER: f64 = 0.07;

impl DetectorFacts<'_> {
    /// Returns true if a member is to hear from this node regularly.
    pub(crate) fn is_owed_heartbeats(&self, slot: Slot) -> bool {
        self.view.entry(slot).status.is_live() && self.observers.observes(slot)
    }
}

impl Detector {
    /// Starts or stops a member's heartbeats, as it became live or stopped being so.
    pub(crate) fn schedule_heartbeat(&mut self, cx: &mut Context, run: Run, is_owed: bool) {
        let timer = Timer::Heartbeat(run);
        if !is_owed {
            cx.timers.cancel(timer);
        } else if !cx.timers.is_set(timer) {
            let phase = cx.settings.heartbeat_interval.mul_f64(self.rng.random::<f64>());
            cx.timers.set(timer, cx.now + phase);
        }
    }

    /// Returns the time until a member's next heartbeat.
    pub(crate) fn heartbeat_period(&mut self, settings: &Settings) -> Duration {
        let share = SHARE + JITTER * self.rng.random::<f64>();
        settings.heartbeat_interval.mul_f64(share)
    }
}
