//! Randomness: a contender's only source of it is ChaCha8, from a seed that is handed in at birth.
//!
//! Must not know: what the numbers are used for.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::Token;

/// A seeded generator of tokens and pauses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContenderRng(ChaCha8Rng);

impl ContenderRng {
    pub(super) fn new(seed: [u8; 32]) -> Self {
        Self(ChaCha8Rng::from_seed(seed))
    }

    /// Returns a token that no node has drawn before.
    pub(super) fn token(&mut self) -> Token {
        Token(u128::from(self.0.next_u64()) << 64 | u128::from(self.0.next_u64()))
    }

    /// Returns a random part of this duration, from none of it to nearly all.
    pub(super) fn part_of(&mut self, whole: Duration) -> Duration {
        let nanos = u64::try_from(whole.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(((u128::from(self.0.next_u64()) * u128::from(nanos)) >> 64) as u64)
    }

    /// Returns this duration, less up to a fifth of it.
    pub(super) fn nearly(&mut self, whole: Duration) -> Duration {
        whole * 4 / 5 + self.part_of(whole / 5)
    }
}

/// Two equal generators have drawn as much from the same seed.
impl Hash for ContenderRng {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.get_seed().hash(state);
        self.0.get_word_pos().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_and_pauses_stay_within_their_bounds() {
        let (mut one, mut other) = (ContenderRng::new([7; 32]), ContenderRng::new([7; 32]));
        assert_eq!(one.token(), other.token());
        assert_ne!(one.token(), ContenderRng::new([8; 32]).token());
        let whole = Duration::from_millis(100);
        for _ in 0..1_000 {
            assert!(one.part_of(whole) < whole);
            let nearly = one.nearly(whole);
            assert!(nearly <= whole && nearly >= whole * 4 / 5);
        }
    }
}
