//! One copy of each record for many cores in one process.
//!
//! A core keeps a record per member; a thousand cores that hold the same thousand members keep a million equal records.
//! A program that runs many cores (the simulator) gives each of them a pool, and they share the records.
//!
//! Invariant: a record from the pool equals the one that was given to it, so a core with a pool behaves exactly like
//! one without. Must not know: who else shares.

use std::fmt;
use std::sync::Arc;

use crate::core::Core;
use crate::core::member::Record;

/// Keeps one copy of each record.
pub trait RecordPool: fmt::Debug + Send + Sync {
    /// Returns the shared copy of this record. `hash` is the record's hash.
    fn share(&self, hash: u64, record: Record) -> Arc<Record>;
}

impl Core {
    /// Takes records that are learnt from now on from this pool.
    pub fn share_records(&mut self, pool: Arc<dyn RecordPool>) {
        self.pool = Some(pool);
    }

    pub(in crate::core) fn pooled(&self, hash: u64, record: Record) -> Arc<Record> {
        match &self.pool {
            None => Arc::new(record),
            Some(pool) => {
                let shared = pool.share(hash, record);
                debug_assert_eq!(shared.hash(), hash);
                shared
            }
        }
    }
}
