//! Tombstones: the names that were reaped, so that a late record does not raise the dead.
//!
//! A tombstone is a name and an incarnation; it is outside the fingerprint and is kept for `reap_after`; at
//! [`MAX_TOMBSTONES`] the oldest is dropped.
//!
//! Invariants: a name has one tombstone at most: that of the record that was reaped last.
//!
//! Must not know: why a member died.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::limits::MAX_TOMBSTONES;
use crate::member::{NodeId, Record};
use crate::time::Time;

/// The tombstones of a view.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tombstones {
    by_id: BTreeMap<NodeId, (u64, Time)>,
    by_age: BTreeSet<(Time, NodeId)>,
}

impl Tombstones {
    /// Returns the number of tombstones.
    pub(crate) fn size(&self) -> usize {
        self.by_id.len()
    }

    /// Adds a tombstone for a record that was reaped.
    pub(crate) fn insert(&mut self, now: Time, record: &Record) {
        self.remove(&record.id);
        self.by_id.insert(record.id.clone(), (record.incarnation, now));
        self.by_age.insert((now, record.id.clone()));
        if self.by_id.len() > MAX_TOMBSTONES
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.by_id.remove(&oldest);
        }
    }

    /// Returns the incarnation up to which records of a name are covered.
    pub(crate) fn incarnation(&self, id: &str) -> Option<u64> {
        self.by_id.get(id).map(|(incarnation, _)| *incarnation)
    }

    /// Returns true if a record is covered by a tombstone.
    pub(crate) fn covers(&self, record: &Record) -> bool {
        self.by_id.get(&record.id).is_some_and(|(dead, _)| record.incarnation <= *dead)
    }

    /// Removes the tombstone of a name that is live again at a higher incarnation.
    pub(crate) fn remove(&mut self, id: &NodeId) {
        if let Some((_, since)) = self.by_id.remove(id) {
            self.by_age.remove(&(since, id.clone()));
        }
    }

    /// Removes tombstones that are older than `kept_for`.
    pub(crate) fn expire(&mut self, now: Time, kept_for: Duration) {
        while let Some((since, _)) = self.by_age.first()
            && now.since(*since) >= kept_for
            && let Some((_, id)) = self.by_age.pop_first()
        {
            self.by_id.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::Status;
    use crate::member::tests::record;

    #[test]
    fn the_dead_keep_a_tombstone_until_a_higher_incarnation_or_the_end_of_their_time() {
        let mut tombstones = Tombstones::default();
        tombstones.insert(Time::ORIGIN, &record("a", 5, Status::Down));
        assert!(tombstones.covers(&record("a", 5, Status::Up)));
        assert!(!tombstones.covers(&record("a", 6, Status::Up)));
        let hour = Duration::from_secs(3600);
        tombstones.expire(Time::ORIGIN + hour - Duration::from_nanos(1), hour);
        assert!(tombstones.covers(&record("a", 5, Status::Up)));
        tombstones.expire(Time::ORIGIN + hour, hour);
        assert!(!tombstones.covers(&record("a", 5, Status::Up)));
    }

    #[test]
    fn a_name_that_is_reaped_again_is_covered_as_long_again_and_one_that_lives_again_not_at_all() {
        let (minute, hour) = (Duration::from_secs(60), Duration::from_secs(3600));
        let mut tombstones = Tombstones::default();
        tombstones.insert(Time::ORIGIN, &record("a", 5, Status::Down));
        tombstones.insert(Time::ORIGIN + minute, &record("a", 7, Status::Down));
        tombstones.expire(Time::ORIGIN + hour, hour);
        assert_eq!(tombstones.incarnation("a"), Some(7));
        tombstones.remove(&record("a", 8, Status::Up).id);
        assert_eq!((tombstones.incarnation("a"), tombstones.by_age.len()), (None, 0));
    }

    #[test]
    fn the_oldest_give_way_at_the_bound() {
        let mut tombstones = Tombstones::default();
        for i in 0..=MAX_TOMBSTONES as u64 {
            tombstones.insert(Time::ORIGIN + Duration::from_nanos(i), &record(&format!("n{i}"), 1, Status::Down));
        }
        assert_eq!(tombstones.by_id.len(), MAX_TOMBSTONES);
        assert_eq!(tombstones.by_age.len(), MAX_TOMBSTONES);
        assert!(!tombstones.covers(&record("n0", 1, Status::Up)));
    }
}
