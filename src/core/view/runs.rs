//! A map from runs, which are 64 random bits, to slots.
//!
//! Every packet and every update is looked up here: a look-up mostly reads one cache line, and an entry takes eight
//! bytes. Only half of a run's hash is kept, so callers compare the result with the records.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::Slot;
use super::table::{Cells, Key};
use crate::core::member::Run;

impl Key for Run {
    fn tag(self, key: u64) -> u32 {
        (xxh3_64_with_seed(&self.0.to_le_bytes(), key) >> 32) as u32
    }
}

/// The slots of all runs in the view.
#[derive(Debug, Default)]
pub(super) struct Runs {
    cells: Cells,
    key: u64,
}

impl Runs {
    pub(in crate::core) fn new(key: u64) -> Self {
        Self { key, ..Self::default() }
    }

    /// Returns the slot of a run; `is_it` decides whether a slot that may be this run's is.
    pub(super) fn find(&self, run: Run, is_it: impl Fn(Slot) -> bool) -> Option<Slot> {
        self.cells.find(run.tag(self.key), is_it)
    }

    /// Reads the cell at which a search for this run begins (see `ahead`).
    pub(in crate::core) fn touch(&self, run: Run) -> u64 {
        self.cells.touch(run.tag(self.key))
    }

    /// Adds a run that is not there yet.
    pub(in crate::core) fn insert(&mut self, run: Run, slot: Slot) {
        self.cells.insert(run.tag(self.key), slot);
    }

    /// Removes a run from its slot.
    pub(in crate::core) fn remove(&mut self, run: Run, slot: Slot) {
        self.cells.remove(run.tag(self.key), slot);
    }
}
