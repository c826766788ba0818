//! Echoes: a packet is a sign of life only while its sender hears this node.
//!
//! A member that hears nobody (its firewall drops incoming packets, or it advertises a wrong address) still sends
//! packets. If they were signs of life for ever, it would never be Down, although it can refute nothing. So each packet
//! echoes a stamp of the last one that came the other way (see [`Heartbeat`]). An observer that keeps sending, and for
//! a suspect timeout sees no other stamp echoed and no answer to a probe, counts the member's packets no more. Then
//! follows the usual course: probes, witnesses, Suspect, Down, and a refutation once the member hears again.
//!
//! For the same reason a packet from a member that is not observed shows that this node is in contact (see `deaf`) only
//! by a recent echo: a node that nobody hears is still sent packets, if only to tell it that it is accused.
//!
//! One direction of one pair may be bad alone: other observers have contact both ways, and say so when they are asked.
//!
//! Invariants:
//! - Only an observer judges by echoes: no other node keeps sending.
//! - A packet that does not count changes no `last_sign`, and is no testimony; the member is still answered, and told
//!   the status that it is held as.
//! - No member whose packets arrive is accused before witnesses were heard, or had half as long again to answer: it may
//!   be this node that is not heard, and its questions with it.
//!
//! Must not know: what follows for a member that is heard in vain (see `detector`).

use std::time::Duration;

use super::DetectorFacts;
use crate::time::Time;
use crate::view::Slot;
use crate::wire::Heartbeat;

impl DetectorFacts<'_> {
    /// Returns true if a member's packets are signs of life: it is not observed, or it hears this node.
    pub(crate) fn counts_as_alive(&self, slot: Slot) -> bool {
        let entry = self.view.entry(slot);
        let Some(session) = &entry.peer.session else { return true };
        // A slow observer sends as rarely as its own timeouts allow.
        let patience = entry.record.timing.suspect_timeout().max(self.settings.suspect_timeout);
        !session.echo_state.is_missing(self.now, patience) || !self.observers.observes(slot)
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
