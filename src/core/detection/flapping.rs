//! Flapping: members that keep being suspected and keep refuting.
//!
//! A member that stalls again and again (starved of processor time, behind a link that comes and goes) is Suspect,
//! refutes, is Suspect … every few seconds. Each round costs two events at every node, two floods through the whole
//! cluster, and the attention of the person who is paged; and it says nothing new. Users want one message instead, that
//! this member is unstable, and the same certainty about its death as about any other member's.
//!
//! So a node that has seen a member refute before demands a longer silence before it accuses that member again: the
//! first refutation is forgiven, each further one moves the suspicion half of the remaining way toward the down
//! timeout, at most [`MAX_DAMPING`] times. One of them is forgotten for every [`FLAPPING_MEMORY`] down timeouts in
//! which the member was never silent for its suspect timeout. In the profile `default` (10 s, 15 s) that is 10, 10,
//! 12.5, 13.75 s, and two minutes for each.
//!
//! **The bound: Down does not move.** However often a member flapped, it is Down `down_timeout` after its last sign of
//! life, like every other member; only the time between, in which it is listed as Suspect, shrinks, to a quarter at the
//! least. That is why this rule exists and not a longer timeout as a whole: a real failure of a flapping member is
//! reported no later, and the remaining time is enough for a living one, which is probed and told before it is accused,
//! and which any packet saves. (A stall that lasts longer than `down_timeout` is a death and a return, and is reported
//! as such each time.)
//!
//! Every node counts the refutations that it sees in its own view; a node that joined lately counts from zero, so the
//! damping is complete once the newcomers have seen the flapping, too. A new run starts from zero.
//!
//! Must not know: why a member was silent.

use std::time::Duration;

use crate::Core;
use crate::doors::Notice;
#[cfg(doc)]
use crate::limits::{FLAPPING_MEMORY, MAX_DAMPING};
use crate::view::{RareState, Slot};

impl Core {
    /// Counts a refutation by a suspected member.
    pub(crate) fn note_refutation(&mut self, slot: Slot) {
        self.counters.suspicions_refuted += 1;
        let timing = self.view.record(slot).timing;
        let now = self.now;
        let RareState { refutations, .. } = self.view.peer_mut(slot).rare_mut();
        refutations.add(now, timing);
        if refutations.are_too_many() {
            let id = self.view.record(slot).id.clone();
            self.notice("flapping", Notice::Flapping { id });
        }
    }

    /// Keeps the refutations of a member that is heard again, if its silence was long enough to have it suspected
    /// without damping.
    pub(crate) fn remember_flapping(&mut self, slot: Slot) {
        let timing = self.view.record(slot).timing;
        let (now, silent_since) = (self.now, self.silent_since(slot));
        if now.since(silent_since) >= timing.suspect_timeout() {
            self.view.peer_mut(slot).renew_refutations(now, timing);
        }
    }

    /// Returns the silence after which this node would accuse a member, if this node is healthy.
    pub(crate) fn demanded_silence(&self, slot: Slot) -> Duration {
        let entry = self.view.entry(slot);
        entry.peer.rare().refutations.demanded_silence(self.now, entry.record.timing)
    }
}
