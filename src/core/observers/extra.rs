//! Extra observed members: those that this node observes for a while although they are no neighbours by the graph.
//!
//! While many members come at one time, neighbours change with each of them, and the new ones have no links yet: a member that
//! died then would be found out by its silence alone.
//!
//! - *Displaced*: a neighbour of more than a moment ([`KEEP_AFTER`]) whose place others took stays one until all present
//!   neighbours have links, and for [`KEEP_FOR`] at most.
//! - *Brought in*: the sponsor is the one member that knows that a newcomer is there. The two observe each other from the
//!   moment at which the newcomer is Up, for [`RECENT_MEMBER_WATCH`].
//!
//! Invariants:
//! - Of displaced members at most as many are observed as observers are wanted, those that were neighbours for longest; of those
//!   brought in at most [`MAX_RECENT_MEMBERS`], the last ones.
//! - Nobody is observed so for good, and nothing is computed as long as the rings stand still.
//! - Nobody is taken over late: a silence that began before would be forgiven once more.
//!
//! Must not know: how members are observed, and how a sponsor is found.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::{KEEP_AFTER, KEEP_FOR, KEEP_REVIEW};
use crate::time::Time;
use crate::view::Slot;

/// The reason for which a member is observed besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    /// Others took its place on the rings.
    Displaced,
    /// One of the two brought in the other.
    BroughtIn,
}

/// Since when a member is a neighbour, or is observed besides, and until when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) since: Time,
    pub(super) until: Time,
}

/// The neighbours by the graph, each with the time since which it is one, and all that are observed besides.
#[derive(Debug, Clone, Default)]
pub(super) struct Extra {
    neighbour_since: BTreeMap<Slot, Time>,
    besides: BTreeMap<(Why, Slot), Span>,
    /// The time at which it is looked whether the present neighbours have links.
    review_at: Option<Time>,
}

impl Extra {
    /// Notes the neighbours by the graph as it is now; at most `most` that they displaced, and that live, are kept.
    pub(super) fn update(
        &mut self,
        now: Time,
        neighbours: &BTreeSet<Slot>,
        most: usize,
        is_live: impl Fn(Slot) -> bool,
    ) {
        let is_gone = |slot: &&Slot| !neighbours.contains(slot);
        for slot in self.neighbour_since.keys().filter(is_gone).copied().collect::<Vec<_>>() {
            let Some(since) = self.neighbour_since.remove(&slot) else { continue };
            if is_live(slot) && now.since(since) >= KEEP_AFTER {
                self.add(Why::Displaced, slot, Span { since, until: now + KEEP_FOR }, most);
                self.review_at = self.review_at.or(Some(now + KEEP_REVIEW));
            }
        }
        for slot in neighbours {
            self.neighbour_since.entry(*slot).or_insert(now);
            self.besides.remove(&(Why::Displaced, *slot));
        }
        self.release(now, is_live);
    }

    /// Adds a member. Of too many displaced ones the one that was a neighbour for the shortest time goes, of others the one
    /// that was added first.
    pub(super) fn add(&mut self, why: Why, slot: Slot, span: Span, most: usize) {
        self.besides.insert((why, slot), span);
        let of_kind = || self.besides.iter().filter(|((other, _), _)| *other == why);
        if of_kind().count() > most {
            let surplus = match why {
                Why::Displaced => of_kind().max_by_key(|(_, span)| span.since),
                Why::BroughtIn => of_kind().min_by_key(|(_, span)| span.since),
            };
            let surplus = surplus.map(|(key, _)| *key);
            surplus.and_then(|key| self.besides.remove(&key));
        }
    }

    /// Lets go those that were observed for long enough, and those that do not live; returns true if there were any.
    pub(super) fn release(&mut self, now: Time, is_live: impl Fn(Slot) -> bool) -> bool {
        let before = self.besides.len();
        self.besides.retain(|(_, slot), span| span.until > now && is_live(*slot));
        self.besides.len() < before
    }

    /// Returns true if it is time to look whether the present neighbours have links.
    pub(super) fn is_review_due(&self, now: Time) -> bool {
        self.review_at.is_some_and(|at| at <= now)
    }

    /// Lets all displaced members go if their successors `are_linked`, else sets the time of the next look.
    pub(super) fn review(&mut self, now: Time, are_linked: bool) {
        if are_linked {
            self.besides.retain(|(why, _), _| *why != Why::Displaced);
        }
        let is_any = self.displaced().next().is_some();
        self.review_at = is_any.then_some(now + KEEP_REVIEW);
    }

    /// Forgets a slot that is given up, holds another process, or a member that was taken for gone.
    pub(super) fn forget(&mut self, slot: Slot) {
        self.neighbour_since.remove(&slot);
        self.besides.retain(|(_, other), _| *other != slot);
    }

    /// Returns the time since which a member is a neighbour by the graph, if it is.
    pub(super) fn neighbour_since(&self, slot: Slot) -> Option<Time> {
        self.neighbour_since.get(&slot).copied()
    }

    /// Returns true if a member is observed besides for this reason.
    pub(super) fn holds(&self, why: Why, slot: Slot) -> bool {
        self.besides.contains_key(&(why, slot))
    }

    pub(super) fn displaced(&self) -> impl Iterator<Item = Slot> {
        self.besides.keys().filter(|(why, _)| *why == Why::Displaced).map(|(_, slot)| *slot)
    }

    /// Returns the members that are observed because one of the two brought in the other.
    pub(super) fn brought_in(&self) -> impl Iterator<Item = Slot> {
        self.besides.keys().filter(|(why, _)| *why != Why::Displaced).map(|(_, slot)| *slot)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::limits::{MAX_RECENT_MEMBERS, RECENT_MEMBER_WATCH};

    fn at(ms: u64) -> Time {
        Time::ORIGIN + Duration::from_millis(ms)
    }

    fn displaced(extra: &Extra) -> Vec<Slot> {
        extra.displaced().collect()
    }

    #[test]
    fn the_longest_neighbours_of_the_displaced_are_kept_and_no_more_than_so_many() {
        let mut extra = Extra::default();
        for (nth, slot) in [5, 6, 7].into_iter().enumerate() {
            extra.update(at(nth as u64), &(5..=slot).collect(), 2, |_| true);
        }
        let later = at(2) + KEEP_AFTER;
        extra.update(later, &BTreeSet::from([8, 9]), 2, |_| true);
        assert_eq!(displaced(&extra), [5, 6]);
        extra.update(later + KEEP_AFTER, &BTreeSet::from([10]), 2, |_| true);
        assert_eq!(displaced(&extra), [5, 6], "nobody makes them give way");
        // A member that is a neighbour again is not kept as displaced, nor is one that died.
        extra.update(later + KEEP_AFTER, &BTreeSet::from([5]), 2, |_| true);
        assert_eq!(displaced(&extra), [6]);
        extra.update(later + KEEP_AFTER, &BTreeSet::from([5]), 2, |slot| slot != 6);
        assert!(displaced(&extra).is_empty());
    }

    #[test]
    fn neighbours_of_a_moment_are_not_kept_and_nobody_is_for_good() {
        let mut extra = Extra::default();
        extra.update(at(0), &BTreeSet::from([1]), 2, |_| true);
        let moment = at(0) + KEEP_AFTER - Duration::from_millis(1);
        extra.update(moment, &BTreeSet::from([2]), 2, |_| true);
        assert!(displaced(&extra).is_empty());
        let now = moment + KEEP_AFTER;
        extra.update(now, &BTreeSet::from([3]), 2, |_| true);
        assert_eq!(displaced(&extra), [2]);
        assert!(!extra.release(now, |_| true) && extra.release(now + KEEP_FOR, |_| true));
        assert!(displaced(&extra).is_empty());
    }

    #[test]
    fn the_displaced_are_kept_until_their_successors_have_links() {
        let mut extra = Extra::default();
        extra.update(at(0), &BTreeSet::from([1, 2]), 2, |_| true);
        let now = at(0) + KEEP_AFTER;
        extra.update(now, &BTreeSet::from([3]), 2, |_| true);
        let review = now + KEEP_REVIEW;
        assert!(!extra.is_review_due(review - Duration::from_millis(1)) && extra.is_review_due(review));
        extra.review(review, false);
        assert!(!extra.is_review_due(review) && extra.is_review_due(review + KEEP_REVIEW));
        assert_eq!(displaced(&extra), [1, 2]);
        extra.review(review + KEEP_REVIEW, true);
        assert!(displaced(&extra).is_empty());
        assert!(!extra.is_review_due(review + KEEP_REVIEW * 9), "there is nobody to look at");
    }

    #[test]
    fn so_many_recent_members_are_observed_for_a_while_and_the_oldest_gives_way() {
        let mut extra = Extra::default();
        let most = MAX_RECENT_MEMBERS as u64;
        let add = |extra: &mut Extra, slot, ms| {
            extra.add(
                Why::BroughtIn,
                slot,
                Span { since: at(ms), until: at(ms) + RECENT_MEMBER_WATCH },
                MAX_RECENT_MEMBERS,
            );
        };
        (0..=most).for_each(|nth| add(&mut extra, nth as Slot, nth));
        add(&mut extra, most as Slot, most + 1);
        assert_eq!(extra.brought_in().collect::<Vec<_>>(), (1..=most as Slot).collect::<Vec<_>>());
        assert!(
            !extra.release(at(0) + RECENT_MEMBER_WATCH, |_| true)
                && extra.release(at(most) + RECENT_MEMBER_WATCH, |_| true)
        );
        assert_eq!(extra.brought_in().collect::<Vec<_>>(), [most as Slot], "it came once more");
    }
}
