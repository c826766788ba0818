//! Numbers that were seen, by sender: each datagram, and each greeting, is opened at most once.
//!
//! A sender is a run, never an address: addresses are not sealed. Only what a member sealed makes an entry, so that an
//! outsider fills the table at most with what it recorded of earlier runs. The least recently heard senders give way at
//! [`MAX_SENDERS`]; that makes old packets of theirs count once more here, and the core's own window, which is as old as
//! the member's record, still refuses them.

use std::collections::BTreeMap;

use crate::core::Run;
use crate::core::window::Window;

/// The largest number of senders whose numbers are remembered.
pub const MAX_SENDERS: usize = 8_192;

/// The window is as wide as the core's own.
type Seen = Box<Window<16>>;

/// The numbers seen, by sender.
#[derive(Debug, Default)]
pub struct Replays {
    /// Senders heard since the generations changed last.
    young: BTreeMap<Run, Seen>,
    /// Senders heard before that.
    old: BTreeMap<Run, Seen>,
}

impl Replays {
    /// Takes note of a number; returns false if it was seen before, or is too old to tell.
    pub fn accept(&mut self, sender: Run, number: u64) -> bool {
        if let Some(seen) = self.young.get_mut(&sender) {
            return seen.accept(number);
        }
        let mut seen = self.old.remove(&sender).unwrap_or_else(|| Box::new(Window::around(number)));
        let is_new = seen.accept(number);
        if self.young.len() >= MAX_SENDERS / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(sender, seen);
        is_new
    }

    /// Returns the number of senders remembered.
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Returns true if nobody was heard yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_counts_once_whatever_came_between() {
        let mut replays = Replays::default();
        assert!(replays.accept(Run(1), 5) && !replays.accept(Run(1), 5));
        assert!(replays.accept(Run(2), 5), "of another run");
        assert!(replays.accept(Run(1), 4) && replays.accept(Run(1), 6));
        assert!(!replays.accept(Run(1), 4));
    }

    #[test]
    fn senders_are_bounded_and_those_heard_lately_stay() {
        let mut replays = Replays::default();
        assert!(replays.accept(Run(u64::MAX), 1));
        for run in 0..3 * MAX_SENDERS as u64 {
            assert!(replays.accept(Run(run), 1));
            assert!(!replays.accept(Run(u64::MAX), 1), "heard all the time");
            assert!(replays.len() <= MAX_SENDERS);
        }
        assert!(!replays.accept(Run(3 * MAX_SENDERS as u64 - 1), 1), "the newest");
    }
}
