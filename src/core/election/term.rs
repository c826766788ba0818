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
    /// Terms stop this far before the end of their generation: at one election a second that is after 34,000 years, so
    /// whoever names such a term is mistaken or lies.
    const RESERVE: u64 = 1 << 20;
    /// The last generation.
    pub const MAX_GENERATION: u64 = (1 << (53 - Self::COUNT_BITS)) - 1;

    /// How many times the cluster was recovered.
    pub const fn generation(self) -> u64 {
        self.0 >> Self::COUNT_BITS
    }

    /// The zeroth term of a generation: nobody leads in it.
    pub const fn zeroth_of(generation: u64) -> Self {
        Term(generation << Self::COUNT_BITS)
    }

    /// The next one; `None` at the end of the generation.
    pub fn next(self) -> Option<Self> {
        Some(Term(self.0 + 1)).filter(|term| term.is_usable())
    }

    /// Whether it is the zeroth of a generation, or usable.
    pub const fn is_in_bounds(self) -> bool {
        let is_zeroth = self.0 & ((1 << Self::COUNT_BITS) - 1) == 0;
        is_zeroth && self.generation() <= Self::MAX_GENERATION || self.is_usable()
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
        assert!(Term::zeroth_of(1) > last);
        assert!(!Term::zeroth_of(1).is_usable() && Term::zeroth_of(1).next().is_some());
        assert!(Term::zeroth_of(Term::MAX_GENERATION).next().expect("usable").0 < 1 << 53);
        assert!(!Term::zeroth_of(Term::MAX_GENERATION + 1).next().is_some_and(Term::is_usable));
        assert!(Term::zeroth_of(1).is_in_bounds() && !Term::zeroth_of(Term::MAX_GENERATION + 1).is_in_bounds());
    }
}
