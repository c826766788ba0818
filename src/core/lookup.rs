//! Look-ups by number that are never iterated, and so may be unordered.
//!
//! Invariant: nothing that the core does depends on the order in a [`Lookup`]. It is asked for one key at a time, which
//! costs one access to memory where an ordered map costs several; what must be gone through is kept in order elsewhere.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

/// A map from numbers that is only ever asked for one key.
pub(super) type Lookup<K, V> = HashMap<K, V, Mixer>;

/// Spreads numbers by one wide multiplication with a key, so that nobody who does not know the key can choose numbers
/// that fall together.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mixer {
    key: u64,
}

/// The golden ratio's fraction.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Mixer {
    pub(super) fn new(key: u64) -> Self {
        Self { key }
    }
}

impl BuildHasher for Mixer {
    type Hasher = Mixed;
    fn build_hasher(&self) -> Mixed {
        Mixed { key: self.key, mixed: 0 }
    }
}

/// One number on its way.
#[derive(Debug)]
pub(super) struct Mixed {
    key: u64,
    mixed: u64,
}

impl Hasher for Mixed {
    fn write_u64(&mut self, number: u64) {
        let wide = u128::from(self.mixed ^ self.key ^ number) * u128::from(FACTOR ^ self.key.rotate_left(32));
        self.mixed = wide as u64 ^ (wide >> 64) as u64;
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64((*byte).into());
        }
    }

    fn finish(&self) -> u64 {
        self.mixed
    }
}
