//! Signs of life: what is noted of a packet that shows that a member lives.
//!
//! A sign makes nobody Up, and refutes nothing. It moves the time from which silence counts, and ends what began with silence.
//!
//! Must not know: what the packet says, or the way that it took.

use super::Detector;
use crate::packet::Outbox;
use crate::time::Time;
use crate::view::Slot;

impl Detector {
    /// Counts a packet of a member's run that shows that the member lives (see `echo`).
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
