//! Retained neighbours: members that others displaced from the rings are still observed for a while.
//!
//! When many members come at one time, as in the first moments of a cluster, neighbours change with each of them, and the
//! new ones have no links yet: a member that died then would be found out by its silence alone. So a neighbour of more than
//! a moment ([`KEEP_AFTER`]) that others displace stays one until all present neighbours have links, and for [`KEEP_FOR`] at
//! most.
//!
//! Invariants:
//! - At most as many are kept as observers are wanted: those that were neighbours for longest.
//! - Nobody is kept after a while, and nothing is computed, as long as the rings stand still.
//!
//! Must not know: how members are observed.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::limits::{KEEP_AFTER, KEEP_FOR, KEEP_REVIEW};
use crate::core::time::Time;
use crate::core::view::Slot;

/// The neighbours by the time since which they are, and the displaced ones.
#[derive(Debug, Default)]
pub(super) struct RetainedNeighbours {
    /// The neighbours by the graph, and since when.
    since: BTreeMap<Slot, Time>,
    displaced: BTreeMap<Slot, Displaced>,
    /// The time at which it is looked whether the present neighbours have links.
    review_at: Option<Time>,
}

/// A neighbour whose place others took.
#[derive(Debug)]
struct Displaced {
    /// The time since which it was a neighbour.
    since: Time,
    until: Time,
}

impl RetainedNeighbours {
    /// Notes the neighbours by the graph as it is now; at most `most` that `is_live` are kept.
    pub(super) fn update(
        &mut self,
        now: Time,
        neighbours: &BTreeSet<Slot>,
        most: usize,
        is_live: impl Fn(Slot) -> bool,
    ) {
        let is_gone = |slot: &&Slot| !neighbours.contains(slot);
        for slot in self.since.keys().filter(is_gone).copied().collect::<Vec<_>>() {
            let Some(since) = self.since.remove(&slot) else { continue };
            if is_live(slot) && now.since(since) >= KEEP_AFTER {
                self.keep(slot, Displaced { since, until: now + KEEP_FOR }, most);
                self.review_at = self.review_at.or(Some(now + KEEP_REVIEW));
            }
        }
        for slot in neighbours {
            self.since.entry(*slot).or_insert(now);
            self.displaced.remove(slot);
        }
        self.displaced.retain(|slot, displaced| displaced.until > now && is_live(*slot));
    }

    fn keep(&mut self, slot: Slot, displaced: Displaced, most: usize) {
        if self.displaced.len() >= most {
            let latest = self.displaced.iter().max_by_key(|(_, other)| other.since);
            let Some((latest, _)) = latest.filter(|(_, other)| other.since > displaced.since) else { return };
            let latest = *latest;
            self.displaced.remove(&latest);
        }
        self.displaced.insert(slot, displaced);
    }

    /// Returns true if it is time to look whether the present neighbours have links.
    pub(super) fn is_review_due(&self, now: Time) -> bool {
        self.review_at.is_some_and(|at| at <= now)
    }

    /// Lets all displaced members go if their successors `are_linked`, else sets the time of the next look.
    pub(super) fn review(&mut self, now: Time, are_linked: bool) {
        if are_linked {
            self.displaced.clear();
        }
        self.review_at = (!self.displaced.is_empty()).then_some(now + KEEP_REVIEW);
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
        self.since.get(&slot).copied()
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

    fn slots(retained: &RetainedNeighbours) -> Vec<Slot> {
        retained.slots().collect()
    }

    #[test]
    fn the_longest_neighbours_of_the_displaced_are_kept_and_no_more_than_so_many() {
        let mut retained = RetainedNeighbours::default();
        for (nth, slot) in [5, 6, 7].into_iter().enumerate() {
            retained.update(at(nth as u64), &(5..=slot).collect(), 2, |_| true);
        }
        let later = at(2) + KEEP_AFTER;
        retained.update(later, &BTreeSet::from([8, 9]), 2, |_| true);
        assert_eq!(slots(&retained), [5, 6]);
        retained.update(later + KEEP_AFTER, &BTreeSet::from([10]), 2, |_| true);
        assert_eq!(slots(&retained), [5, 6], "nobody makes them give way");
        // A member that is a neighbour again is not kept as displaced, nor is one that died.
        retained.update(later + KEEP_AFTER, &BTreeSet::from([5]), 2, |_| true);
        assert_eq!(slots(&retained), [6]);
        retained.update(later + KEEP_AFTER, &BTreeSet::from([5]), 2, |slot| slot != 6);
        assert!(slots(&retained).is_empty());
    }

    #[test]
    fn neighbours_of_a_moment_are_not_kept_and_nobody_is_for_good() {
        let mut retained = RetainedNeighbours::default();
        retained.update(at(0), &BTreeSet::from([1]), 2, |_| true);
        retained.update(at(1), &BTreeSet::from([2]), 2, |_| true);
        assert!(slots(&retained).is_empty());
        let now = at(1) + KEEP_AFTER;
        retained.update(now, &BTreeSet::from([3]), 2, |_| true);
        assert_eq!(slots(&retained), [2]);
        assert!(!retained.is_due(now) && retained.is_due(now + KEEP_FOR));
        retained.update(now + KEEP_FOR, &BTreeSet::from([3]), 2, |_| true);
        assert!(slots(&retained).is_empty());
    }

    #[test]
    fn the_displaced_are_kept_until_their_successors_have_links() {
        let mut retained = RetainedNeighbours::default();
        retained.update(at(0), &BTreeSet::from([1, 2]), 2, |_| true);
        let now = at(0) + KEEP_AFTER;
        retained.update(now, &BTreeSet::from([3]), 2, |_| true);
        let review = now + KEEP_REVIEW;
        assert!(!retained.is_review_due(review - Duration::from_millis(1)) && retained.is_review_due(review));
        retained.review(review, false);
        assert!(!retained.is_review_due(review) && retained.is_review_due(review + KEEP_REVIEW));
        assert_eq!(slots(&retained), [1, 2]);
        retained.review(review + KEEP_REVIEW, true);
        assert!(slots(&retained).is_empty());
        assert!(!retained.is_review_due(review + KEEP_REVIEW * 9), "there is nobody to look at");
    }
}
