//! The key ring: the keys that a node accepts, and the one that it seals with.
//!
//! Invariants: a ring holds between one and [`MAX_KEYS`] keys of different ids; the first one seals; the one that seals
//! is never removed.

use super::key::{Key, KeyId};

/// The largest number of keys in a ring: two while keys are rotated, and some for nodes that come back late.
pub const MAX_KEYS: usize = 8;

/// The keys that a node accepts. The first one seals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRing {
    keys: Vec<Key>,
}

/// The reason why a ring stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// A ring has at least one key.
    #[error("there is no key")]
    Empty,
    /// No more keys fit.
    #[error("a ring holds at most {MAX_KEYS} keys: remove one first")]
    Full,
    /// Another key has the same id.
    #[error("another key has the id {0}: generate a new one")]
    Ambiguous(KeyId),
    /// The ring does not hold this key.
    #[error("there is no key {0} in the ring")]
    Unknown(KeyId),
    /// The key that seals cannot be removed.
    #[error("key {0} seals: use another one first")]
    Sealing(KeyId),
}

impl KeyRing {
    /// Returns the ring of these keys, of which the first one seals. A key that is given twice counts once.
    pub fn new(keys: impl IntoIterator<Item = Key>) -> Result<Self, RingError> {
        let mut ring = Self { keys: Vec::new() };
        for key in keys {
            ring.add(key)?;
        }
        if ring.keys.is_empty() { Err(RingError::Empty) } else { Ok(ring) }
    }

    /// Returns the key that seals.
    pub fn sealing(&self) -> &Key {
        &self.keys[0]
    }

    /// Returns the key of this id.
    pub fn find(&self, id: KeyId) -> Option<&Key> {
        self.keys.iter().find(|key| key.id() == id)
    }

    /// Returns the keys, the one that seals first.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Returns the ids, the one that seals first.
    pub fn ids(&self) -> Vec<KeyId> {
        self.keys.iter().map(Key::id).collect()
    }

    /// Accepts one more key; returns false if it is held already.
    pub fn add(&mut self, key: Key) -> Result<bool, RingError> {
        match self.find(key.id()) {
            Some(held) if *held == key => return Ok(false),
            Some(_) => return Err(RingError::Ambiguous(key.id())),
            None if self.keys.len() == MAX_KEYS => return Err(RingError::Full),
            None => self.keys.push(key),
        }
        Ok(true)
    }

    /// Seals with this key from now on; returns false if it does already.
    pub fn use_key(&mut self, id: KeyId) -> Result<bool, RingError> {
        let place = self.keys.iter().position(|key| key.id() == id).ok_or(RingError::Unknown(id))?;
        self.keys[..=place].rotate_right(1);
        Ok(place != 0)
    }

    /// Accepts this key no more; returns false if it was not held.
    pub fn remove(&mut self, id: KeyId) -> Result<bool, RingError> {
        match self.keys.iter().position(|key| key.id() == id) {
            None => Ok(false),
            Some(0) => Err(RingError::Sealing(id)),
            Some(place) => {
                self.keys.remove(place);
                Ok(true)
            }
        }
    }
}
