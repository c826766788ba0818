//! The simulator's only source of chance: ChaCha8, seeded by number.
//!
//! Invariants: the numbers drawn depend on the seed, the purpose and the number of draws alone, on every platform and
//! with every version of the random number libraries; that is why the few distributions needed are written here, in
//! integers, and why no logarithm or root is taken anywhere. Must not know: the use of the numbers.

use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The purpose of a generator. Purposes never share one, so that one more draw for the network does not change the
/// faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Latencies, losses, corruption.
    Network = 1,
    /// The schedule of faults.
    Faults = 2,
    /// Runs, seeds of cores, clock errors, disk delays.
    Nodes = 3,
    /// The choices of a scenario.
    Scenario = 4,
    /// Elections: identities, clock errors of voters, the time that led work takes to end.
    Elections = 5,
    /// The schedule of the large campaign.
    LargeFaults = 6,
    /// The recorder of sealed worlds.
    Recorder = 7,
    /// The operators' commands in a schedule that has operators.
    Operators = 8,
    /// The programs' messages in a schedule that has talk.
    Talk = 9,
    /// Needs of leases in a database: tokens, delays, losses on the way.
    Leases = 10,
    /// The faults of a schedule with contenders.
    LeaseFaults = 11,
    /// The times of a key's rotation.
    Rotation = 12,
    /// The faults of names and places.
    Places = 13,
    /// The faults around electorates that meet.
    Electorates = 14,
}

/// A seeded generator.
#[derive(Debug, Clone)]
pub struct Random(ChaCha8Rng);

impl Random {
    /// Creates the generator of one purpose in the run with this seed.
    pub fn new(seed: u64, purpose: Purpose) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let mut generator = ChaCha8Rng::from_seed(bytes);
        generator.set_stream(purpose as u64);
        Self(generator)
    }

    /// Draws 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Draws a number in `0..bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The bias of multiply and shift is below 2^-40 for every bound used here.
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Draws an index into a collection of `len` elements.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Draws a number in `least..=most`.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least).saturating_add(1))
    }

    /// Draws a duration in `least..=most`.
    pub fn duration(&mut self, least: Duration, most: Duration) -> Duration {
        Duration::from_nanos(self.between(nanos(least), nanos(most)))
    }

    /// Returns true with this probability. Probabilities of 0 and 1 draw nothing.
    pub fn chance(&mut self, probability: f64) -> bool {
        if probability <= 0.0 {
            return false;
        }
        if probability >= 1.0 {
            return true;
        }
        // 53 bits are exact in a double; so is the scale.
        ((self.bits() >> 11) as f64) * (1.0 / (1_u64 << 53) as f64) < probability
    }

    /// Draws one of these elements; `None` if there are none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() { None } else { from.get(self.index(from.len())) }
    }
}

/// Returns the duration in whole nanoseconds; 64 bits hold five centuries, enough for a simulation.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_figures_and_purposes_differ() {
        let draw = |seed, purpose| -> Vec<u64> {
            let mut random = Random::new(seed, purpose);
            (0..8).map(|_| random.bits()).collect()
        };
        assert_eq!(draw(1, Purpose::Network), draw(1, Purpose::Network));
        assert_ne!(draw(1, Purpose::Network), draw(2, Purpose::Network));
        assert_ne!(draw(1, Purpose::Network), draw(1, Purpose::Faults));
    }

    #[test]
    fn figures_stay_within_their_bounds_and_reach_both_ends() {
        let mut random = Random::new(7, Purpose::Faults);
        let drawn: Vec<u64> = (0..1_000).map(|_| random.between(3, 6)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&3), Some(&6)));
        assert_eq!(random.below(0), 0);
        assert_eq!(random.pick::<u8>(&[]), None);
    }

    #[test]
    fn chances_come_true_about_as_often_as_they_say() {
        let mut random = Random::new(7, Purpose::Network);
        let hits = (0..10_000).filter(|_| random.chance(0.05)).count();
        assert!((400..600).contains(&hits), "{hits}");
        assert!(!random.chance(0.0) && random.chance(1.0));
    }
}
