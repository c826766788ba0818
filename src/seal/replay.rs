//! Numbers that were seen, by sender: each datagram is opened at most once.
//!
//! A sender is a run, never an address: addresses are not sealed. Only what a member sealed makes an entry, so that an
//! outsider fills the table at most with what it recorded of earlier runs. The least recently heard senders give way at
//! [`MAX_SENDERS`]; that makes old packets of theirs count once more here, and the core's own window, which is as old as
//! the member's record, still refuses them.

use std::collections::BTreeMap;

use crate::core::Run;
use crate::core::window::{Sight, Window};

/// The largest number of senders whose numbers are remembered.
pub const MAX_SENDERS: usize = 8_192;

/// The largest step by which a sender's window moves at once: more packets than any run sends between two that one receiver
/// hears. A greater number is somebody's that has the key and means harm; it moves nothing.
pub const MAX_STEP: u64 = 1 << 32;

/// The outcome of looking at a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The number was not seen before, and is remembered.
    New,
    /// The number is more than [`MAX_STEP`] ahead, and is not remembered.
    FarAhead,
    /// The number is so far behind that nobody knows.
    FarBehind,
    /// The number was seen before.
    Seen,
}

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
    /// Judges a number, and takes note of it if it is new.
    pub fn look_at(&mut self, sender: Run, number: u64) -> Verdict {
        if let Some(seen) = self.young.get_mut(&sender) {
            return look(seen, number);
        }
        let begin = number.min(MAX_STEP);
        let mut seen = self.old.remove(&sender).unwrap_or_else(|| Box::new(Window::around(begin)));
        let verdict = look(&mut seen, number);
        if self.young.len() >= MAX_SENDERS / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(sender, seen);
        verdict
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

fn look(seen: &mut Window<16>, number: u64) -> Verdict {
    if number > seen.highest().saturating_add(MAX_STEP) {
        return Verdict::FarAhead;
    }
    let sight = seen.judge(number);
    seen.accept(number);
    match sight {
        Sight::New | Sight::Far => Verdict::New,
        Sight::Seen => Verdict::Seen,
        Sight::Behind => Verdict::FarBehind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Replays {
        fn accept(&mut self, sender: Run, number: u64) -> bool {
            self.look_at(sender, number) == Verdict::New
        }
    }

    #[test]
    fn a_number_at_the_greatest_step_moves_the_window_and_a_greater_one_does_not() {
        let mut replays = Replays::default();
        assert_eq!(replays.look_at(Run(1), 10), Verdict::New);
        assert_eq!(replays.look_at(Run(1), 11 + MAX_STEP), Verdict::FarAhead);
        assert_eq!(replays.look_at(Run(1), u64::MAX), Verdict::FarAhead);
        assert_eq!(replays.look_at(Run(1), 11), Verdict::New, "it goes on");
        assert_eq!(replays.look_at(Run(1), 11), Verdict::Seen);
        assert_eq!(replays.look_at(Run(1), 11 + MAX_STEP), Verdict::New);
        assert_eq!(replays.look_at(Run(1), 12), Verdict::FarBehind);
        assert_eq!(replays.look_at(Run(2), u64::MAX), Verdict::FarAhead, "the very first");
        assert_eq!(replays.look_at(Run(2), 1), Verdict::FarBehind, "it began at the greatest step");
    }

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
