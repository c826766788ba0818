//! One copy of each record for all cores of a world: ten thousand views of ten thousand members are a hundred million
//! records, of which ten thousand differ.
//!
//! Invariants: what comes out equals what went in; records that no core holds are kept only up to the number of those
//! that are held. Must not know: the views in which a record stands.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

use headcount_core::{Record, RecordPool};

/// The smallest number of records at which the pool is swept.
const LEAST_SWEPT: usize = 1_024;

/// The pool of one world.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<Shelves>);

#[derive(Debug, Default)]
struct Shelves {
    by_hash: BTreeMap<u64, Arc<Record>>,
    /// Number of records at which to sweep next.
    sweep_at: usize,
}

impl RecordPool for Pool {
    fn share(&self, hash: u64, record: Record) -> Arc<Record> {
        // No holder of the lock panics; even a poisoned pool would be whole.
        let mut shelves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shelves.sweep_if_full();
        match shelves.by_hash.entry(hash) {
            Entry::Occupied(kept) if **kept.get() == record => Arc::clone(kept.get()),
            // Of two records with one hash, the later one stays unshared.
            Entry::Occupied(_) => Arc::new(record),
            Entry::Vacant(place) => Arc::clone(place.insert(Arc::new(record))),
        }
    }
}

impl Shelves {
    fn sweep_if_full(&mut self) {
        if self.by_hash.len() < self.sweep_at.max(LEAST_SWEPT) {
            return;
        }
        self.by_hash.retain(|_, record| Arc::strong_count(record) > 1);
        self.sweep_at = self.by_hash.len() * 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{World, WorldOptions};
    use std::time::Duration;

    fn record(incarnation: u64) -> Record {
        let world = World::new(WorldOptions::new(1, 1, headcount_core::Profile::Local.settings()));
        let me = Record::clone(world.core(0).expect("it runs").me());
        Record { incarnation, ..me }
    }

    fn share(pool: &Pool, record: Record) -> Arc<Record> {
        pool.share(record.hash(), record)
    }

    #[test]
    fn equal_records_are_one_and_different_ones_stay_apart() {
        let (pool, record) = (Pool::default(), record(1));
        let (one, other) = (share(&pool, record.clone()), share(&pool, record.clone()));
        assert!(Arc::ptr_eq(&one, &other));
        let newer = Record { incarnation: 2, ..record.clone() };
        assert_eq!(*share(&pool, newer.clone()), newer);
        // A collision of hashes is not taken for equality.
        let collides = pool.share(record.hash(), newer.clone());
        assert_eq!(*collides, newer);
    }

    #[test]
    fn what_nobody_holds_is_swept() {
        let (pool, record) = (Pool::default(), record(0));
        let held = share(&pool, record.clone());
        for incarnation in 1..=10 * LEAST_SWEPT as u64 {
            share(&pool, Record { incarnation, ..record.clone() });
        }
        let shelves = pool.0.lock().expect("nobody panicked");
        assert!(shelves.by_hash.len() <= LEAST_SWEPT, "{}", shelves.by_hash.len());
        assert!(shelves.by_hash.contains_key(&held.hash()));
    }

    #[test]
    fn a_world_that_shares_its_records_has_the_same_trace() {
        let trace = |shared| {
            let options = WorldOptions { shared, ..WorldOptions::new(3, 5, headcount_core::Profile::Local.settings()) };
            let mut world = World::new(options);
            world.run_for(Duration::from_secs(4));
            world.crash(2);
            world.run_for(Duration::from_secs(6));
            world.trace()
        };
        assert_eq!(trace(true), trace(false));
    }
}
