//! Retained neighbours: members that others displaced from the rings are still observed for a while.
//!
//! Invented members take the places of neighbours on the rings. While all members are new, and again when a crowd has
//! waited until it counts as settled, only having been there before tells the real members from the invented ones. So a
//! neighbour of some standing that others displace stays a neighbour for [`KEEP_FOR`]: members that knew each other
//! before a crowd came go on observing each other, and tell each other their own news, whatever the crowd does.
//!
//! Invariants:
//! - At most as many are kept as observers are wanted: those that have been live for longest.
//! - A member that was a neighbour for less than [`KEEP_AFTER`] is not kept: a crowd of honest newcomers that come at
//!   once displaces neighbours all the time, and costs nothing here.
//! - Nobody is kept after a while, and nothing is computed, as long as the rings stand still.
//!
//! A crowd may come right after a cluster was founded. So a member that was a neighbour for [`KEEP_FOUNDER_AFTER`]
//! while all observed each other, being few, is kept as well. Honest crowds come then, too, and soon have links to
//! their neighbours: if all neighbours have links after [`FOUNDER_REVIEW`], those founders are let go.
//!
//! Must not know: how members are observed.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::limits::{FOUNDER_REVIEW, KEEP_AFTER, KEEP_FOR, KEEP_FOUNDER_AFTER};
use crate::core::time::Time;
use crate::core::view::Slot;

/// The neighbours by the time since which they are, and the displaced ones.
#[derive(Debug, Default)]
pub(super) struct RetainedNeighbours {
    /// The neighbours by the graph, since when, and true if the graph was a full mesh then.
    since: BTreeMap<Slot, (Time, bool)>,
    displaced: BTreeMap<Slot, Displaced>,
    /// The time at which founders among the displaced are reviewed.
    review_at: Option<Time>,
}

/// A neighbour whose place others took.
#[derive(Debug)]
struct Displaced {
    /// The time at which it came to live, in seconds.
    came: u32,
    until: Time,
    /// True if it was a neighbour only for a moment, in the full mesh of founders.
    is_founder: bool,
}

impl RetainedNeighbours {
    /// Notes the neighbours by the graph as it is now; `is_mesh` if all members are. `came` returns the time since
    /// which a member has lived, if it does; at most `most` are kept.
    pub(super) fn update(
        &mut self,
        now: Time,
        neighbours: &BTreeSet<Slot>,
        is_mesh: bool,
        most: usize,
        came: impl Fn(Slot) -> Option<u32>,
    ) {
        let is_gone = |slot: &&Slot| !neighbours.contains(slot);
        for slot in self.since.keys().filter(is_gone).copied().collect::<Vec<_>>() {
            let Some((since, was_mesh)) = self.since.remove(&slot) else { continue };
            let lasted = now.since(since);
            let is_founder = lasted < KEEP_AFTER;
            if let Some(came) = came(slot)
                && (!is_founder || was_mesh && lasted >= KEEP_FOUNDER_AFTER)
            {
                self.keep(slot, Displaced { came, until: now + KEEP_FOR, is_founder }, most);
                self.review_at = self.review_at.or(is_founder.then_some(now + FOUNDER_REVIEW));
            }
        }
        for slot in neighbours {
            self.since.entry(*slot).or_insert((now, is_mesh));
            self.displaced.remove(slot);
        }
        self.displaced.retain(|slot, displaced| displaced.until > now && came(*slot).is_some());
    }

    fn keep(&mut self, slot: Slot, displaced: Displaced, most: usize) {
        if self.displaced.len() >= most {
            let youngest = self.displaced.iter().max_by_key(|(_, other)| other.came);
            let Some((youngest, _)) = youngest.filter(|(_, other)| other.came > displaced.came) else { return };
            let youngest = *youngest;
            self.displaced.remove(&youngest);
        }
        self.displaced.insert(slot, displaced);
    }

    /// Returns true if founders are to be reviewed.
    pub(super) fn is_review_due(&self, now: Time) -> bool {
        self.review_at.is_some_and(|at| at <= now)
    }

    /// Reviews founders: lets them go if their successors `are_linked`, else sets the time of the next review.
    pub(super) fn review(&mut self, now: Time, are_linked: bool) {
        if are_linked {
            self.displaced.retain(|_, displaced| !displaced.is_founder);
        }
        let is_any = self.displaced.values().any(|displaced| displaced.is_founder);
        self.review_at = is_any.then_some(now + FOUNDER_REVIEW);
    }

    /// Forgets a slot that is given up, or holds another process.
    pub(in crate::core) fn forget(&mut self, slot: Slot) {
        self.since.remove(&slot);
        self.displaced.remove(&slot);
    }

    /// Returns true once some member need not be kept any more.
    pub(in crate::core) fn is_due(&self, now: Time) -> bool {
        self.displaced.values().any(|displaced| displaced.until <= now)
    }

    /// Returns the time since which a member is a neighbour by the graph, if it is.
    pub(super) fn neighbour_since(&self, slot: Slot) -> Option<Time> {
        self.since.get(&slot).map(|(since, _)| *since)
    }

    /// Returns true for a member that was displaced and is kept.
    pub(in crate::core) fn holds(&self, slot: Slot) -> bool {
        self.displaced.contains_key(&slot)
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.displaced.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(ms: u64) -> Time {
        Time::ORIGIN + Duration::from_millis(ms)
    }

    #[test]
    fn the_eldest_of_the_displaced_are_kept_for_a_while_and_no_more_than_so_many() {
        let mut retained = RetainedNeighbours::default();
        let came = |slot: Slot| Some(slot);
        let slots = |retained: &RetainedNeighbours| retained.slots().collect::<Vec<_>>();
        retained.update(at(0), &BTreeSet::from([5, 6, 7]), false, 2, came);
        // The crowd comes: members that were there before are kept, the eldest of them.
        let later = KEEP_AFTER.as_millis() as u64;
        retained.update(at(later), &BTreeSet::from([8, 9]), false, 2, came);
        assert_eq!(slots(&retained), [5, 6]);
        retained.update(at(later * 2), &BTreeSet::from([10]), false, 2, came);
        assert_eq!(slots(&retained), [5, 6], "nobody makes them give way");
        // A member that is a neighbour again is not kept as displaced, nor is one that died.
        retained.update(at(later * 2), &BTreeSet::from([5]), false, 2, came);
        assert_eq!(slots(&retained), [6]);
        retained.update(at(later * 2), &BTreeSet::from([5]), false, 2, |slot| (slot != 6).then_some(slot));
        assert_eq!(retained.slots().count(), 0);
    }

    #[test]
    fn neighbours_of_a_moment_are_not_kept_and_nobody_is_for_good() {
        let mut retained = RetainedNeighbours::default();
        let came = |slot: Slot| Some(slot);
        retained.update(at(0), &BTreeSet::from([1]), false, 2, came);
        retained.update(at(1), &BTreeSet::from([2]), false, 2, came);
        assert_eq!(retained.slots().count(), 0);
        let now = at(1) + KEEP_AFTER;
        retained.update(now, &BTreeSet::from([3]), false, 2, came);
        assert_eq!(retained.slots().collect::<Vec<_>>(), [2]);
        assert!(!retained.is_due(now) && retained.is_due(now + KEEP_FOR));
        retained.update(now + KEEP_FOR, &BTreeSet::from([3]), false, 2, came);
        assert_eq!(retained.slots().count(), 0);
    }

    #[test]
    fn founders_are_kept_after_a_moment_and_until_their_successors_have_links() {
        let mut retained = RetainedNeighbours::default();
        let came = |slot: Slot| Some(slot);
        retained.update(at(0), &BTreeSet::from([1, 2]), true, 2, came);
        let moment = at(0) + KEEP_FOUNDER_AFTER;
        retained.update(moment - Duration::from_millis(1), &BTreeSet::from([2, 3]), false, 2, came);
        assert_eq!(retained.slots().count(), 0, "too short");
        retained.update(moment, &BTreeSet::from([4]), false, 2, came);
        assert_eq!(retained.slots().collect::<Vec<_>>(), [2], "3 was never one of all");
        let review = moment + FOUNDER_REVIEW;
        assert!(!retained.is_review_due(review - Duration::from_millis(1)) && retained.is_review_due(review));
        retained.review(review, false);
        assert!(!retained.is_review_due(review) && retained.is_review_due(review + FOUNDER_REVIEW));
        assert_eq!(retained.slots().collect::<Vec<_>>(), [2]);
        retained.review(review + FOUNDER_REVIEW, true);
        assert_eq!(retained.slots().count(), 0);
        assert!(!retained.is_review_due(review + FOUNDER_REVIEW * 9), "there is nobody to look at");
    }
}
