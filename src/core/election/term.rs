//! Terms: numbers that never fall, never name two leaders and are never used again.
//!
//! The high bits count generations. A generation begins when an operator recovers a cluster whose majority is lost, and
//! ranks above every term of the generation before. So terms are ordered by `(generation, count)`.
//!
//! Must not know: who leads.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A term of leadership, and the fencing token of its leader.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Term(
    /// The number, below 2^53, so that every JSON reader holds it exactly.
    pub u64,
);

impl Term {
    const COUNT_BITS: u32 = 40;
    /// The number of low bits from which the first term of a generation is drawn: the first quarter of its terms.
    const BEGINNING_BITS: u32 = 38;
    /// The number of terms at the end of a generation that are never used. At one election a second they are reached
    /// after 34,000 years, so a node that names such a term is mistaken or lies.
    const RESERVE: u64 = 1 << 20;
    /// The greatest number of terms that a voter goes up at once: it would have been away for eight years at one election a
    /// second. Whoever names terms far ahead needs thousands of elections to use all up.
    pub const MAX_STEP: u64 = 1 << 28;
    /// The number of the last generation.
    pub const MAX_GENERATION: u64 = (1 << (53 - Self::COUNT_BITS)) - 1;

    /// Returns the generation: the number of times that the cluster was recovered.
    pub const fn generation(self) -> u64 {
        self.0 >> Self::COUNT_BITS
    }

    /// Returns the term at which a recovery begins: in this generation, at a place that is drawn by `draw`, a random
    /// number. Two operators who recover two sides of a cut at once, or one after the other, begin at different places,
    /// so that no term names two leaders.
    pub const fn beginning_of(generation: u64, draw: u64) -> Self {
        let place = draw & ((1 << Self::BEGINNING_BITS) - 1);
        Term(generation << Self::COUNT_BITS | if place == 0 { 1 } else { place })
    }

    /// Returns true if a generation may begin at this term: three quarters of its terms are still to come.
    pub const fn is_beginning(self) -> bool {
        let count = self.0 & ((1 << Self::COUNT_BITS) - 1);
        match self.generation() {
            0 => count == 0,
            generation => generation <= Self::MAX_GENERATION && count > 0 && count < (1 << Self::BEGINNING_BITS),
        }
    }

    /// Returns the next term; `None` at the end of the generation.
    pub fn next(self) -> Option<Self> {
        Some(Term(self.0 + 1)).filter(|term| term.is_usable())
    }

    /// Returns true if honest voters may have come to this term since that one of the same generation. A later generation
    /// begins anywhere in its first quarter.
    pub const fn is_reachable_from(self, before: Self) -> bool {
        let beginning = if before.generation() == 0 { 0 } else { 1 << Self::BEGINNING_BITS };
        self.0.saturating_sub(before.0) <= Self::MAX_STEP + beginning
    }

    /// Returns true if it is term 0 or a usable one.
    pub const fn is_in_bounds(self) -> bool {
        self.0 == 0 || self.is_usable()
    }

    /// Returns true if a node may stand, vote and lead in this term.
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
        for draw in [0, 1, 1 << 38, u64::MAX] {
            let beginning = Term::beginning_of(Term::MAX_GENERATION, draw);
            assert!(beginning.is_beginning() && beginning.next().expect("usable").0 < 1 << 53, "{draw}");
            assert!(!Term::beginning_of(Term::MAX_GENERATION + 1, draw).is_in_bounds());
        }
        assert!(Term(0).is_beginning() && Term(0).is_in_bounds() && !Term(1).is_beginning());
        assert!(Term(Term::MAX_STEP + 7).is_reachable_from(Term(7)) && Term(3).is_reachable_from(Term(7)));
        assert!(!Term(Term::MAX_STEP + 8).is_reachable_from(Term(7)));
        assert!(Term::beginning_of(2, u64::MAX).is_reachable_from(Term::beginning_of(2, 1)));
        assert!(!Term(1 << 40).is_in_bounds() && !Term((1 << 40) + (1 << 38)).is_beginning());
    }
}
