//! Which of an origin's last [`MESSAGE_WINDOW`] numbers were seen: a sliding window (RFC 4303, section 3.4.3).
//!
//! Invariant: a number is accepted at most once, in whatever order numbers come.
//!
//! Must not know: time.

use crate::core::limits::MESSAGE_WINDOW;

/// What a number says of its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sight {
    /// Not seen before.
    New,
    /// Seen before, or so far behind that nobody knows.
    Seen,
    /// So far ahead that all that is known would be forgotten.
    Far,
}

/// The numbers of one origin.
#[derive(Debug)]
pub(super) struct Window {
    highest: u64,
    seen: Box<[u64; (MESSAGE_WINDOW / 64) as usize]>,
}

impl Window {
    /// A window around the first number that came, in which nothing was seen.
    pub(super) fn around(number: u64) -> Self {
        Self { highest: number, seen: Box::new([0; (MESSAGE_WINDOW / 64) as usize]) }
    }

    /// What a number says.
    pub(super) fn judge(&self, number: u64) -> Sight {
        if number > self.highest {
            if number - self.highest >= MESSAGE_WINDOW { Sight::Far } else { Sight::New }
        } else if self.highest - number >= MESSAGE_WINDOW || self.is_marked(number) {
            Sight::Seen
        } else {
            Sight::New
        }
    }

    /// Marks a number that is new, or far ahead; `false` if it was seen.
    pub(super) fn accept(&mut self, number: u64) -> bool {
        if self.judge(number) == Sight::Seen {
            return false;
        }
        if number > self.highest {
            if number - self.highest >= MESSAGE_WINDOW {
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
        let bit = number % MESSAGE_WINDOW;
        self.seen[(bit / 64) as usize] & (1 << (bit % 64)) != 0
    }

    fn mark(&mut self, number: u64, is_seen: bool) {
        let bit = number % MESSAGE_WINDOW;
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

    #[test]
    fn the_window_ends_where_it_says() {
        let mut window = Window::around(10);
        assert!(window.accept(10) && !window.accept(10));
        assert_eq!(window.judge(10 + MESSAGE_WINDOW), Sight::Far);
        assert!(window.accept(9 + MESSAGE_WINDOW));
        assert_eq!(window.judge(9), Sight::Seen, "behind the window");
        assert_eq!(window.judge(10), Sight::Seen, "the oldest inside, and seen");
        assert!(window.accept(11), "the oldest inside that was not");
        assert!(window.accept(10 * MESSAGE_WINDOW), "far ahead: all else is behind now");
        assert_eq!(window.judge(12), Sight::Seen);
    }

    proptest! {
        /// Numbers in any order, often again, now and then far ahead.
        #[test]
        fn no_number_is_accepted_twice(
            first in 0..10_000u64,
            steps in prop::collection::vec((0..3 * MESSAGE_WINDOW, 0..20u8), 1..400),
        ) {
            let mut window = Window::around(first);
            let (mut accepted, mut base, mut highest) = (BTreeSet::new(), first, first);
            for (step, kind) in steps {
                let number = if kind == 0 { base + step } else { base + step % 50 };
                let judged = window.judge(number);
                let is_inside = highest.saturating_sub(number) < MESSAGE_WINDOW;
                prop_assert_eq!(judged == Sight::Seen, accepted.contains(&number) || !is_inside);
                prop_assert_eq!(window.accept(number), judged != Sight::Seen);
                if judged != Sight::Seen {
                    prop_assert!(accepted.insert(number), "{} twice", number);
                    highest = highest.max(number);
                }
                if kind == 0 { base = number; }
            }
        }
    }
}
