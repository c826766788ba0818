//! Windows of numbers: a sliding window over the last numbers of one sender, by which each is accepted at most once
//! (RFC 4303, section 3.4.3).
//!
//! Invariant: a number is accepted at most once, in whatever order numbers come.
//!
//! Must not know: time, and what the numbers are of.

/// The meaning of a number to a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Novelty {
    /// The number was not seen before.
    New,
    /// The number was seen before.
    Seen,
    /// The number is so far behind that nobody knows.
    Behind,
}

impl Novelty {
    /// Returns true if the number is accepted.
    pub fn is_new(self) -> bool {
        self == Novelty::New
    }
}

/// The last `64 * WORDS` numbers of one sender.
#[derive(Debug, Clone)]
pub struct Window<const WORDS: usize> {
    highest: u64,
    seen: [u64; WORDS],
}

impl<const WORDS: usize> Window<WORDS> {
    const LENGTH: u64 = 64 * WORDS as u64;

    /// Returns a window around the first number that came, in which nothing was seen.
    pub fn around(number: u64) -> Self {
        Self { highest: number, seen: [0; WORDS] }
    }

    /// Returns the highest number that was accepted, or that the window began with.
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// Judges a number, and marks nothing.
    pub fn judge(&self, number: u64) -> Novelty {
        if self.highest.saturating_sub(number) >= Self::LENGTH {
            Novelty::Behind
        } else if number <= self.highest && self.is_marked(number) {
            Novelty::Seen
        } else {
            Novelty::New
        }
    }

    /// Marks a number that is new; returns false if it was seen or is behind.
    pub fn accept(&mut self, number: u64) -> bool {
        if !self.judge(number).is_new() {
            return false;
        }
        if number > self.highest {
            if number - self.highest >= Self::LENGTH {
                self.seen.fill(0);
            } else {
                for skipped in self.highest + 1..number {
                    self.mark(skipped, false);
                }
            }
            self.highest = number;
        }
        self.mark(number, true);
        true
    }

    fn is_marked(&self, number: u64) -> bool {
        let bit = number % Self::LENGTH;
        self.seen[(bit / 64) as usize] & (1 << (bit % 64)) != 0
    }

    fn mark(&mut self, number: u64, is_seen: bool) {
        let bit = number % Self::LENGTH;
        let word = &mut self.seen[(bit / 64) as usize];
        if is_seen {
            *word |= 1 << (bit % 64);
        } else {
            *word &= !(1 << (bit % 64));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    type Narrow = Window<16>;
    const LENGTH: u64 = Narrow::LENGTH;

    #[test]
    fn the_window_ends_where_it_says() {
        let mut window = Narrow::around(10);
        assert!(window.accept(10) && !window.accept(10));
        assert_eq!(window.judge(10 + LENGTH), Novelty::New);
        assert!(window.accept(9 + LENGTH));
        assert_eq!(window.judge(9), Novelty::Behind, "exactly the window's length behind");
        assert_eq!(window.judge(10), Novelty::Seen, "the oldest inside, and seen");
        assert!(window.accept(11), "the oldest inside that was not");
        assert!(window.accept(10 * LENGTH), "far ahead: all else is behind now");
        assert_eq!(window.judge(12), Novelty::Behind);
        assert_eq!(window.highest(), 10 * LENGTH);
    }

    proptest! {
        /// Numbers in any order, often again, now and then far ahead.
        #[test]
        fn no_number_is_accepted_twice(
            first in 0..10_000u64,
            steps in prop::collection::vec((0..3 * LENGTH, 0..20u8), 1..400),
        ) {
            let mut window = Narrow::around(first);
            let (mut accepted, mut base, mut highest) = (BTreeSet::new(), first, first);
            for (step, kind) in steps {
                let number = if kind == 0 { base + step } else { base + step % 50 };
                let judged = window.judge(number);
                let is_inside = highest.saturating_sub(number) < LENGTH;
                prop_assert_eq!(!judged.is_new(), accepted.contains(&number) || !is_inside);
                prop_assert_eq!(window.accept(number), judged.is_new());
                if judged.is_new() {
                    prop_assert!(accepted.insert(number), "{} twice", number);
                    highest = highest.max(number);
                }
                if kind == 0 { base = number; }
            }
        }
    }
}
