//! Kept neighbours: who was displaced from the rings by others is observed on for a while.
//!
//! Invented members take the places of neighbours on the rings. While all members are new, and again when a crowd has waited
//! until it counts as settled, nothing tells the inventions from the others but who was there before. So a neighbour of some
//! standing that others displace stays a neighbour for [`KEEP_FOR`]: those who knew each other before a crowd came go on to
//! observe each other, and tell each other their own news, whatever the crowd does.
//!
//! Invariants:
//! - As many are kept as observers are wanted, at most: those that have been live for longest.
//! - Who was a neighbour for less than [`KEEP_AFTER`] is not kept: a crowd of honest newcomers that come at once displaces
//!   neighbours all the time, and costs nothing here.
//! - Where the rings stand still, nobody is kept after a while, and nothing is computed.
//!
//! Must not know: what is observed, or how.

use std::collections::{BTreeMap, BTreeSet};

use super::limits::{KEEP_AFTER, KEEP_FOR};
use super::time::Time;
use super::view::Slot;

/// Neighbours by standing, and those who are neighbours no more.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Those that the rings make neighbours, and since when.
    since: BTreeMap<Slot, Time>,
    /// Those that others displaced, when they came to live, in seconds, and until when they are kept.
    displaced: BTreeMap<Slot, (u32, Time)>,
}

impl Kept {
    /// These are neighbours now by the graph. `came` tells since when a member has lived, if it does; at most `most` are kept.
    pub(super) fn update(
        &mut self,
        now: Time,
        neighbours: &BTreeSet<Slot>,
        most: usize,
        came: impl Fn(Slot) -> Option<u32>,
    ) {
        let gone: Vec<(Slot, Time)> =
            self.since.iter().filter(|(slot, _)| !neighbours.contains(slot)).map(|(slot, at)| (*slot, *at)).collect();
        for (slot, since) in gone {
            self.since.remove(&slot);
            if let Some(came) = came(slot).filter(|_| now.since(since) >= KEEP_AFTER) {
                self.keep(slot, came, now, most);
            }
        }
        for slot in neighbours {
            self.since.entry(*slot).or_insert(now);
            self.displaced.remove(slot);
        }
        self.displaced.retain(|slot, (_, until)| *until > now && came(*slot).is_some());
    }

    fn keep(&mut self, slot: Slot, came: u32, now: Time, most: usize) {
        if self.displaced.len() >= most {
            let youngest = self.displaced.iter().max_by_key(|(_, (came, _))| *came);
            let Some((youngest, _)) = youngest.filter(|(_, (theirs, _))| *theirs > came) else { return };
            let youngest = *youngest;
            self.displaced.remove(&youngest);
        }
        self.displaced.insert(slot, (came, now + KEEP_FOR));
    }

    /// The slot is given up, or holds another process.
    pub(super) fn forget(&mut self, slot: Slot) {
        self.since.remove(&slot);
        self.displaced.remove(&slot);
    }

    /// Whether somebody need not be kept any more.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.displaced.values().any(|(_, until)| *until <= now)
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
        let mut kept = Kept::default();
        let came = |slot: Slot| Some(slot);
        let slots = |kept: &Kept| kept.slots().collect::<Vec<_>>();
        kept.update(at(0), &BTreeSet::from([5, 6, 7]), 2, came);
        // The crowd comes: those who were there before are kept, the eldest of them.
        let later = KEEP_AFTER.as_millis() as u64;
        kept.update(at(later), &BTreeSet::from([8, 9]), 2, came);
        assert_eq!(slots(&kept), [5, 6]);
        kept.update(at(later * 2), &BTreeSet::from([10]), 2, came);
        assert_eq!(slots(&kept), [5, 6], "nobody makes them give way");
        // Who is a neighbour again is one; who died is none.
        kept.update(at(later * 2), &BTreeSet::from([5]), 2, came);
        assert_eq!(slots(&kept), [6]);
        kept.update(at(later * 2), &BTreeSet::from([5]), 2, |slot| (slot != 6).then_some(slot));
        assert_eq!(kept.slots().count(), 0);
    }

    #[test]
    fn neighbours_of_a_moment_are_not_kept_and_nobody_is_for_good() {
        let mut kept = Kept::default();
        let came = |slot: Slot| Some(slot);
        kept.update(at(0), &BTreeSet::from([1]), 2, came);
        kept.update(at(1), &BTreeSet::from([2]), 2, came);
        assert_eq!(kept.slots().count(), 0);
        let now = at(1) + KEEP_AFTER;
        kept.update(now, &BTreeSet::from([3]), 2, came);
        assert_eq!(kept.slots().collect::<Vec<_>>(), [2]);
        assert!(!kept.is_due(now) && kept.is_due(now + KEEP_FOR));
        kept.update(now + KEEP_FOR, &BTreeSet::from([3]), 2, came);
        assert_eq!(kept.slots().count(), 0);
    }
}
