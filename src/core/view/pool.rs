//! What many records have in common, kept once: it takes no memory of each record.
//!
//! A core keeps a record per member; a thousand cores that hold the same thousand members keep a million equal records.
//! A program that runs many cores (the simulator) gives each of them a pool, and they share the records.
//!
//! Invariant: a record from the pool equals the one that was given to it, so a core with a pool behaves exactly like
//! one without. Must not know: who else shares.

use std::fmt;
use std::sync::Arc;

use crate::limits::MAX_SHARED_VERSIONS;
use crate::member::Record;

/// Keeps one copy of each record.
pub trait RecordPool: fmt::Debug + Send + Sync {
    /// Returns the shared copy of this record. `hash` is the record's hash.
    fn share(&self, hash: u64, record: Record) -> Arc<Record>;
}

/// Texts of software versions, and the pool of records, if there is one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shared {
    pool: Option<Arc<dyn RecordPool>>,
    versions: Vec<Arc<str>>,
    next_version: usize,
}

impl Shared {
    /// Shares records with others from now on.
    pub(crate) fn share(&mut self, pool: Arc<dyn RecordPool>) {
        self.pool = Some(pool);
    }

    pub(crate) fn record(&self, hash: u64, record: Record) -> Arc<Record> {
        match &self.pool {
            None => Arc::new(record),
            Some(pool) => {
                let shared = pool.share(hash, record);
                debug_assert_eq!(shared.hash(), hash);
                shared
            }
        }
    }

    /// Returns the shared text; if there is no room for a new one, the oldest is replaced.
    pub(crate) fn version(&mut self, version: &str) -> Arc<str> {
        if let Some(shared) = self.versions.iter().find(|shared| ***shared == *version) {
            return Arc::clone(shared);
        }
        let text: Arc<str> = Arc::from(version);
        if self.versions.len() < MAX_SHARED_VERSIONS {
            self.versions.push(Arc::clone(&text));
        } else {
            self.versions[self.next_version] = Arc::clone(&text);
            self.next_version = (self.next_version + 1) % MAX_SHARED_VERSIONS;
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_versions_are_few() {
        let mut versions = Shared::default();
        let first = versions.version("0");
        assert!(Arc::ptr_eq(&first, &versions.version("0")));
        for version in 1..=MAX_SHARED_VERSIONS {
            versions.version(&version.to_string());
        }
        assert_eq!(versions.versions.len(), MAX_SHARED_VERSIONS);
        assert!(!Arc::ptr_eq(&first, &versions.version("0")), "the oldest gave way");
    }
}
