//! Refutations of one member: the number of suspicions that it refuted lately, and the silence required before the next
//! one.
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
//! Must not know: who suspects it, and why it was silent.

use std::time::Duration;

use crate::limits::{FLAPPING_MEMORY, MAX_DAMPING};
use crate::settings::Timing;
use crate::time::Time;

/// The refutations of one member that are still remembered.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Refutations {
    count: u8,
    last: Option<Time>,
}

impl Refutations {
    /// Returns the number that is still remembered at this time.
    fn remembered(self, now: Time, timing: Timing) -> u8 {
        let Some(last) = self.last else { return 0 };
        let memory = timing.down_timeout() * FLAPPING_MEMORY;
        let forgotten = now.since(last).as_nanos() / memory.as_nanos().max(1);
        self.count.saturating_sub(u8::try_from(forgotten).unwrap_or(u8::MAX))
    }

    /// Counts one more; the count stops where it makes no further difference.
    pub(crate) fn add(&mut self, now: Time, timing: Timing) {
        self.count = (self.remembered(now, timing) + 1).min(MAX_DAMPING + 1);
        self.last = Some(now);
    }

    /// Postpones forgetting: the member still stalls.
    pub(crate) fn renew(&mut self, now: Time, timing: Timing) {
        self.count = self.remembered(now, timing);
        self.last = Some(now);
    }

    /// Returns the silence that is required before the next suspicion.
    pub(crate) fn demanded_silence(self, now: Time, timing: Timing) -> Duration {
        let steps = self.remembered(now, timing).saturating_sub(1).min(MAX_DAMPING);
        let spare = timing.down_timeout().saturating_sub(timing.suspect_timeout());
        timing.down_timeout().saturating_sub(spare / (1 << steps))
    }

    /// Returns true if so many are still remembered that one more makes no difference.
    pub(crate) fn are_at_the_bound(self, now: Time, timing: Timing) -> bool {
        self.remembered(now, timing) > MAX_DAMPING
    }

    /// Returns true if more refutations were seen lately than make a difference.
    pub(crate) fn are_too_many(self) -> bool {
        self.count > MAX_DAMPING
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Profile;

    #[test]
    fn each_further_refutation_halves_the_way_to_down_and_is_forgotten_in_time() {
        let timing = Profile::Default.settings().timing().expect("the default");
        let at = |seconds| Time::ORIGIN + Duration::from_secs(seconds);
        let mut refutations = Refutations::default();
        let mut demanded = Vec::new();
        for round in 0..6 {
            demanded.push(refutations.demanded_silence(at(round * 20), timing).as_millis());
            refutations.add(at(round * 20), timing);
        }
        assert_eq!(demanded, [10_000, 10_000, 12_500, 13_750, 13_750, 13_750]);
        let later = |seconds: u64| refutations.demanded_silence(at(100 + seconds), timing).as_millis();
        assert_eq!([later(119), later(120), later(240), later(10_000_000)], [13_750, 12_500, 10_000, 10_000]);
    }
}
