//! Terms: numbers that never go down, never name two leaders, are never used again.
//!
//! The high bits count generations: a generation begins when an operator recovers a cluster whose majority is lost, and
//! ranks above every term of the one before. So the order of terms is the order of `(generation, count)`.
//!
//! Must not know: who leads.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A term of leadership, and the fencing token of its leader.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Term(
    /// Below 2^53, so that every JSON reader holds it exactly.
    pub u64,
);

impl Term {
    const COUNT_BITS: u32 = 40;
    /// Generations begin in the first quarter of their terms.
    const BEGINNING_BITS: u32 = 38;
    /// Terms stop this far before the end of their generation: at one election a second that is after 34,000 years, so
    /// whoever names such a term is mistaken or lies.
    const RESERVE: u64 = 1 << 20;
    /// The last generation.
    pub const MAX_GENERATION: u64 = (1 << (53 - Self::COUNT_BITS)) - 1;

    /// How many times the cluster was recovered.
    pub const fn generation(self) -> u64 {
        self.0 >> Self::COUNT_BITS
    }

    /// Where a recovery's terms begin: in this generation, at a place that is drawn by `luck`, a random number. Two
    /// operators who recover two sides of a cut at once, or one after the other, begin at different places: no term names
    /// two leaders.
    pub const fn beginning_of(generation: u64, luck: u64) -> Self {
        let place = luck & ((1 << Self::BEGINNING_BITS) - 1);
        Term(generation << Self::COUNT_BITS | if place == 0 { 1 } else { place })
    }

    /// Whether a generation may begin at it: three quarters of its terms are still to come.
    pub const fn is_beginning(self) -> bool {
        let count = self.0 & ((1 << Self::COUNT_BITS) - 1);
        match self.generation() {
            0 => count == 0,
            generation => generation <= Self::MAX_GENERATION && count > 0 && count < (1 << Self::BEGINNING_BITS),
        }
    }

    /// The next one; `None` at the end of the generation.
    pub fn next(self) -> Option<Self> {
        Some(Term(self.0 + 1)).filter(|term| term.is_usable())
    }

    /// Whether it is the zeroth of all, or usable.
    pub const fn is_in_bounds(self) -> bool {
        self.0 == 0 || self.is_usable()
    }

    /// Whether anybody may stand, vote or lead in it.
    pub const fn is_usable(self) -> bool {
        let count = self.0 & ((1 << Self::COUNT_BITS) - 1);
        self.generation() <= Self::MAX_GENERATION && count > 0 && count < (1 << Self::COUNT_BITS) - Self::RESERVE
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_ranks_above_every_term_of_the_one_before_and_all_fit_into_json() {
        let last = Term((1 << Term::COUNT_BITS) - Term::RESERVE - 1);
        assert!(last.is_usable() && last.next().is_none());
        assert!(Term::beginning_of(1, 0) > last);
        for luck in [0, 1, 1 << 38, u64::MAX] {
            let beginning = Term::beginning_of(Term::MAX_GENERATION, luck);
            assert!(beginning.is_beginning() && beginning.next().expect("usable").0 < 1 << 53, "{luck}");
            assert!(!Term::beginning_of(Term::MAX_GENERATION + 1, luck).is_in_bounds());
        }
        assert!(Term(0).is_beginning() && Term(0).is_in_bounds() && !Term(1).is_beginning());
        assert!(!Term(1 << 40).is_in_bounds() && !Term((1 << 40) + (1 << 38)).is_beginning());
    }
}
