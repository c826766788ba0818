//! One copy of each record for many cores in one process.
//!
//! A core keeps a record per member; a thousand cores that hold the same thousand members keep a million equal records.
//! Whoever runs many of them (the simulator) hands each a pool, and they share.
//!
//! Invariant: what the pool gives back equals what it was given, so a core with a pool does exactly what one without it
//! does. Must not know: who else shares.

use std::fmt;
use std::sync::Arc;

use crate::core::Core;
use crate::core::member::Record;

/// Keeps one copy of each record.
pub trait RecordPool: fmt::Debug + Send + Sync {
    /// The copy of this record that all share. `hash` is the record's.
    fn share(&self, hash: u64, record: Record) -> Arc<Record>;
}

impl Core {
    /// From now on, records that are learnt are taken from this pool.
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
