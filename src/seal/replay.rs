//! Numbers that were seen, by sender: each datagram is opened at most once (RFC 4303, section 3.4.3).
//!
//! A sender is a run, never an address: addresses are not sealed. The window of a run that the receiver knows lives as long as
//! that is so. All others, of runs that were never met or are forgotten, share two generations of [`MAX_STRANGERS`] windows in
//! all, of which the least recently heard give way: whoever recorded datagrams of earlier runs moves none but those.
//!
//! Invariants: what is behind a window, or in it, is not opened; only what was opened moves one.
//!
//! Must not know: what makes a run known.

use std::collections::BTreeMap;

use headcount_core::Run;
use headcount_core::window::Window;

/// The largest number of windows of runs that are not known.
pub const MAX_STRANGERS: usize = 8_192;

/// 1,024 numbers.
type Seen = Box<Window<16>>;

/// The numbers seen, by sender.
#[derive(Debug, Default)]
pub struct Replays {
    /// Runs that were known when the generations changed last.
    known: BTreeMap<Run, Seen>,
    /// Senders heard since then.
    young: BTreeMap<Run, Seen>,
    /// Strangers heard before that.
    old: BTreeMap<Run, Seen>,
}

impl Replays {
    /// Returns true if a number was certainly seen, or is so far behind that nobody knows.
    pub fn has_seen(&self, sender: Run, number: u64) -> bool {
        let of = |seen: &BTreeMap<Run, Seen>| seen.get(&sender).map(|seen| !seen.judge(number).is_new());
        of(&self.young).or_else(|| of(&self.known)).or_else(|| of(&self.old)).unwrap_or(false)
    }

    /// Takes note of a number; returns false if it was seen, or is so far behind that nobody knows.
    pub fn accept(&mut self, sender: Run, number: u64, is_known: impl Fn(Run) -> bool) -> bool {
        if let Some(seen) = self.young.get_mut(&sender).or_else(|| self.known.get_mut(&sender)) {
            return seen.accept(number);
        }
        let mut seen = self.old.remove(&sender).unwrap_or_else(|| Box::new(Window::around(number)));
        let is_new = seen.accept(number);
        if self.young.len() >= MAX_STRANGERS / 2 {
            self.change_generations(is_known);
        }
        self.young.insert(sender, seen);
        is_new
    }

    fn change_generations(&mut self, is_known: impl Fn(Run) -> bool) {
        let mut lately = std::mem::take(&mut self.young);
        // Those that are known no more become strangers, heard lately.
        lately.append(&mut self.known);
        let old = std::mem::take(&mut self.old);
        (self.known, self.old) = lately.into_iter().partition(|(run, _)| is_known(*run));
        self.known.extend(old.into_iter().filter(|(run, _)| is_known(*run)));
    }

    /// Returns the number of senders remembered.
    pub fn len(&self) -> usize {
        self.known.len() + self.young.len() + self.old.len()
    }

    /// Returns true if nobody was heard yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Run = Run(u64::MAX);

    fn is_new(replays: &mut Replays, sender: Run, number: u64) -> bool {
        let has_seen = replays.has_seen(sender, number);
        let is_new = replays.accept(sender, number, |run| run == KNOWN);
        assert_ne!(is_new, has_seen, "a look tells what follows");
        is_new
    }

    #[test]
    fn a_number_counts_once_whatever_came_between_and_however_far_it_is_behind() {
        let mut replays = Replays::default();
        assert!(is_new(&mut replays, Run(1), 5) && !is_new(&mut replays, Run(1), 5));
        assert!(is_new(&mut replays, Run(2), 5), "of another run");
        assert!(is_new(&mut replays, Run(1), 4) && is_new(&mut replays, Run(1), 6));
        for ahead in [1 << 11, 1 << 17, 1 << 40, u64::MAX] {
            assert!(is_new(&mut replays, Run(1), ahead));
            assert!([4, 5, 6, 7, ahead].into_iter().all(|number| !is_new(&mut replays, Run(1), number)), "{ahead}");
        }
    }

    #[test]
    fn no_crowd_of_strangers_moves_the_window_of_a_run_that_is_known() {
        let mut replays = Replays::default();
        let numbers = [1, 2, 3_000];
        assert!(numbers.iter().all(|number| is_new(&mut replays, KNOWN, *number)));
        for run in 0..3 * MAX_STRANGERS as u64 {
            assert!(is_new(&mut replays, Run(run), 1));
            assert!(replays.len() <= MAX_STRANGERS + 1, "{}", replays.len());
        }
        assert!(numbers.iter().all(|number| !is_new(&mut replays, KNOWN, *number)), "it was not heard meanwhile");
        assert!(is_new(&mut replays, KNOWN, 3_001));
        assert!(!is_new(&mut replays, Run(3 * MAX_STRANGERS as u64 - 1), 1), "the newest");
        assert!(is_new(&mut replays, Run(0), 1), "it gave way, and nobody knows it");
    }

    #[test]
    fn a_stranger_that_becomes_known_keeps_its_window_though_it_says_nothing_more() {
        let mut replays = Replays::default();
        let crowd = |replays: &mut Replays, first: u64, is_known: &dyn Fn(Run) -> bool| {
            for run in first..=first + MAX_STRANGERS as u64 / 2 {
                replays.accept(Run(run), 1, is_known);
            }
        };
        replays.accept(KNOWN, 1, |_| false);
        crowd(&mut replays, 0, &|_| false);
        crowd(&mut replays, 1 << 20, &|run| run == KNOWN);
        crowd(&mut replays, 1 << 30, &|run| run == KNOWN);
        assert!(replays.has_seen(KNOWN, 1));
    }

    #[test]
    fn a_run_that_is_forgotten_is_a_stranger() {
        let mut replays = Replays::default();
        let crowd = |replays: &mut Replays, first: u64, is_known: &dyn Fn(Run) -> bool| {
            for run in first..first + MAX_STRANGERS as u64 {
                replays.accept(Run(run), 1, is_known);
            }
        };
        replays.accept(KNOWN, 1, |_| true);
        crowd(&mut replays, 0, &|run| run == KNOWN);
        assert!(replays.has_seen(KNOWN, 1));
        crowd(&mut replays, 1 << 20, &|_| false);
        crowd(&mut replays, 1 << 30, &|_| false);
        assert!(!replays.has_seen(KNOWN, 1) && replays.len() <= MAX_STRANGERS);
    }
}
