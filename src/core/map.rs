//! A map whose order never shows: it cannot be iterated, so that a replay does not depend on where it keeps what.
//!
//! Inside is the standard library's map, whose order is chance: that is why nothing here hands out an iterator. Its hashes
//! have a key of the core's own, drawn from its seed: others cannot choose the places of what they send.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A map with look-ups alone.
#[derive(Debug, Clone)]
pub(super) struct Map<K, V>(HashMap<K, V, Keyed>);

/// The key of the hashes.
#[derive(Debug, Default, Clone, Copy)]
struct Keyed(u64);

impl BuildHasher for Keyed {
    type Hasher = Chain;

    fn build_hasher(&self) -> Chain {
        Chain(self.0)
    }
}

/// The hash of what was written so far.
struct Chain(u64);

impl Hasher for Chain {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<K: Eq + Hash, V> Map<K, V> {
    pub(super) fn new(key: u64) -> Self {
        Self(HashMap::with_hasher(Keyed(key)))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.0.get(key)
    }

    /// Sets a value; returns the one before.
    pub(super) fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        self.0.remove(key)
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
