//! Heartbeats: when a packet is a sign of life, and when the next one is expected.
//!
//! **Sent.** Every observer of this node gets a packet from it at least every `heartbeat_interval`, all of them in turn (see
//! `dissemination::gossip`). It says when the receiver's next one comes. An observer judges silence from the time at which that is
//! late: a member's turns may be further apart than its suspect timeout, since others hear it in between.
//!
//! **Received.** A packet is a sign of life only while its sender hears this node. A member that hears nobody (its firewall drops
//! incoming packets, or it advertises a wrong address) still sends packets. If they were signs of life for ever, it would never be
//! Down, although it can refute nothing. So each packet echoes a stamp of the last one that came the other way (see [`Heartbeat`]).
//! An observer that keeps sending, and for a suspect timeout, and two heartbeats, sees no other stamp echoed and no answer to a probe, counts the
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

use super::{Detector, DetectorFacts};
use crate::packet::Outbox;
use crate::time::Time;
use crate::view::Slot;
use crate::wire::Heartbeat;

impl Detector {
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
            if now.since(silent_since) >= timing.longest_quiet() {
                // Long enough to have it suspected without damping: it still stalls.
                out.view.peer_mut(slot).renew_refutations(now, timing);
            }
            out.view.peer_mut(slot).lived_at(arrived);
        }
        if out.observers.observes(slot) {
            let interval = out.view.record(slot).timing.heartbeat_interval();
            let tolerance = out.detector_facts().tolerance(out.view.entry(slot));
            let is_missed = out.view.peer_mut(slot).expect_another(arrived, interval, tolerance);
            out.cx.counters.heartbeats_missed += u64::from(is_missed);
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
        // A slow observer sends as rarely as its own timeouts allow; and what a heartbeat brought is echoed by the next one.
        let patience = entry.record.timing.longest_quiet().max(self.settings.longest_quiet());
        !session.is_answer_missing(self.now, patience) || !self.observers.observes(slot)
    }

    /// Returns how long ago at most a member received what it echoes for the first time, if that shows that it heard this node
    /// lately: half a suspect timeout ago, or a heartbeat if that is longer, of the slower of the two. What it held for longer than a stamp can tell, it received
    /// after the heartbeat `before`; without one nothing tells how old it is.
    pub(crate) fn recent_echo(&self, slot: Slot, heartbeat: Heartbeat, before: Option<Time>) -> Option<Duration> {
        let echo = heartbeat.echo?;
        let slower = self.view.record(slot).timing.suspect_timeout().max(self.settings.suspect_timeout);
        let held = match echo.hold {
            u16::MAX => self.now.since(before?),
            hold => Duration::from_micros(u64::from(hold) * 100),
        };
        (held <= (slower / 2).max(self.slower_heartbeat(slot))).then_some(held)
    }

    /// Returns the longer heartbeat interval, of a member's and this node's own.
    fn slower_heartbeat(&self, slot: Slot) -> Duration {
        self.view.record(slot).timing.heartbeat_interval().max(self.settings.heartbeat_interval)
    }

    /// Returns true if a member's packets arrive, and do not count.
    pub(super) fn is_heard_in_vain(&self, slot: Slot) -> bool {
        let entry = self.view.entry(slot);
        let quiet = entry.record.timing.longest_quiet();
        let is_heard = entry.peer.session.as_ref().is_some_and(|session| self.now.since(session.heard) < quiet);
        is_heard && !self.counts_as_alive(slot)
    }
}
