//! Heartbeats: when they are due, and when a packet is a sign of life.
//!
//! **Sent.** Every observer of this node gets a packet from it at least every `heartbeat_interval`. Gossip goes to the same peers
//! at random and is a heartbeat too, so a heartbeat is sent only to a peer that otherwise got nothing for nine tenths of the
//! interval; it carries what gossip would and counts as gossip. Each peer has its own phase, so that heartbeats are spread over the
//! interval rather than sent in one burst, and the period carries some jitter and never divides the suspect timeout exactly: a
//! heartbeat due at the very deadline would make ten times the false alarms.
//!
//! **Received.** A packet is a sign of life only while its sender hears this node. A member that hears nobody (its firewall drops
//! incoming packets, or it advertises a wrong address) still sends packets. If they were signs of life for ever, it would never be
//! Down, although it can refute nothing. So each packet echoes a stamp of the last one that came the other way (see [`Heartbeat`]).
//! An observer that keeps sending, and for a suspect timeout sees no other stamp echoed and no answer to a probe, counts the
//! member's packets no more. Then follows the usual course: probes, witnesses, Suspect, Down, and a refutation once the member
//! hears again. For the same reason a packet from a member that is not observed shows that this node is in contact (see `health`)
//! only by a recent echo: a node that nobody hears is still sent packets, if only to tell it that it is accused. One direction of
//! one pair may be bad alone: other observers have contact both ways, and say so when they are asked.
//!
//! A sign makes nobody Up, and refutes nothing. It moves the time from which silence counts, and ends what began with silence.
//!
//! Invariants:
//! - No observer waits longer than `heartbeat_interval` for a packet of a node that runs in time.
//! - Only an observer judges by echoes: no other node keeps sending.
//! - A packet that does not count changes no `last_sign`, and is no testimony; the member is still answered, and told
//!   the status that it is held as.
//! - No member whose packets arrive is accused before witnesses were heard, or had half as long again to answer: it may
//!   be this node that is not heard, and its questions with it.
//!
//! Must not know: how silence is judged (see `detector`), what a packet says, or the way that it took.

use std::time::Duration;

use rand::RngExt;

use super::{Detector, DetectorFacts};
use crate::context::Context;
use crate::member::Run;
use crate::packet::Outbox;
use crate::settings::Settings;
use crate::time::Time;
use crate::timers::Timer;
use crate::view::Slot;
use crate::wire::Heartbeat;

/// The share of the interval after which a peer that got no packet gets a heartbeat.
const SHARE: f64 = 0.9;
/// The largest share of the interval that is added to [`SHARE`] at random: a heartbeat is always sent before the
/// interval ends.
const JITTER: f64 = 0.07;

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

    /// Counts a packet of a member's run that shows that the member lives.
    pub(crate) fn count_sign(&mut self, out: &mut Outbox<'_>, slot: Slot, arrived: Time) {
        out.cx.counters.signs_of_life += 1;
        let age = out.view.entry(slot).peer.session.as_ref().map(|session| arrived.since(session.sign));
        // The session begins with the first sign, which ends no silence.
        if let Some(age) = age.filter(|age| !age.is_zero() && out.observers.observes(slot)) {
            out.cx.counters.heartbeat_ages.observe(age);
        }
        if out.view.record(slot).status.is_member() {
            let (now, timing) = (out.cx.now, out.view.record(slot).timing);
            let silent_since = out.detector_facts().silent_since(out.view.entry(slot));
            if now.since(silent_since) >= timing.suspect_timeout() {
                // Long enough to have it suspected without damping: it still stalls.
                out.view.peer_mut(slot).renew_refutations(now, timing);
            }
            out.view.peer_mut(slot).lived_at(arrived);
        }
        if let Some(session) = &mut out.view.peer_mut(slot).session {
            session.sign = session.sign.max(arrived);
        }
        self.heard_directly(out.cx, out.view, slot);
    }
}

impl DetectorFacts<'_> {
    /// Returns true if a member is to hear from this node regularly.
    pub(crate) fn is_owed_heartbeats(&self, slot: Slot) -> bool {
        self.view.entry(slot).status.is_live() && self.observers.observes(slot)
    }

    /// Returns true if a member's packets are signs of life: it is not observed, or it hears this node.
    pub(crate) fn counts_as_alive(&self, slot: Slot) -> bool {
        let entry = self.view.entry(slot);
        let Some(session) = &entry.peer.session else { return true };
        // A slow observer sends as rarely as its own timeouts allow.
        let patience = entry.record.timing.suspect_timeout().max(self.settings.suspect_timeout);
        !session.is_answer_missing(self.now, patience) || !self.observers.observes(slot)
    }

    /// Returns how long ago at most a member received what it echoes for the first time, if that shows that it heard this node
    /// lately: half a suspect timeout ago, of the slower of the two. What it held for longer than a stamp can tell, it received
    /// after the heartbeat `before`; without one nothing tells how old it is.
    pub(crate) fn recent_echo(&self, slot: Slot, heartbeat: Heartbeat, before: Option<Time>) -> Option<Duration> {
        let echo = heartbeat.echo?;
        let slower = self.view.record(slot).timing.suspect_timeout().max(self.settings.suspect_timeout);
        let held = match echo.hold {
            u16::MAX => self.now.since(before?),
            hold => Duration::from_micros(u64::from(hold) * 100),
        };
        (held <= slower / 2).then_some(held)
    }

    /// Returns true if a member's packets arrive, and do not count.
    pub(super) fn is_heard_in_vain(&self, slot: Slot) -> bool {
        let entry = self.view.entry(slot);
        let quiet = entry.record.timing.suspect_timeout();
        let is_heard = entry.peer.session.as_ref().is_some_and(|session| self.now.since(session.heard) < quiet);
        is_heard && !self.counts_as_alive(slot)
    }
}
