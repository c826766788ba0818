//! The pace of lines about events: so many at once, a few in each second after that, and a sum of those that are left out.
//!
//! Purpose: somebody who invents members by the thousand must not fill a disk with them, and what an operator waits for must
//! not be left out because of them. So members that others named, and that never answered this node, have a budget of their
//! own, and a slower one. In the start of a cluster of a thousand nothing is left out.
//!
//! Invariants:
//! - No line is left out without a sum: one in [`SUM_INTERVAL`] at most, with the number of events of each kind.
//! - What is kept until then has a bound: a number for each kind, and [`MAX_SUMMED_NAMES`] names.
//!
//! Must not know: what the lines say, or how they are written.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::event::EventKind;

/// The largest number of lines about events at once, of those about members on hearsay and of all others: each of a thousand
/// members joins and is up.
pub(crate) const MAX_EVENT_LINES: u32 = 2_000;

/// The number of further lines in each second after that: twenty seconds bring all of them back.
pub(crate) const EVENT_LINES_PER_SECOND: u32 = 100;

/// The number of further lines in each second about members that others named and that never answered: less than a kilobyte.
pub(crate) const HEARSAY_LINES_PER_SECOND: u32 = 4;

/// The least time between two sums of lines that were left out.
pub(super) const SUM_INTERVAL: Duration = Duration::from_secs(10);

/// The number of members that a sum names.
const MAX_SUMMED_NAMES: usize = 3;

/// The time until which lines are spent; each one takes its share of a second.
#[derive(Debug)]
struct RateLimit {
    spent_until: Instant,
    share: Duration,
}

impl RateLimit {
    fn new(now: Instant, per_second: u32) -> Self {
        Self { spent_until: now, share: Duration::from_secs(1) / per_second }
    }

    fn admits(&mut self, now: Instant) -> bool {
        let next = self.spent_until.max(now) + self.share;
        let is_admitted = next.duration_since(now) <= self.share * MAX_EVENT_LINES;
        if is_admitted {
            self.spent_until = next;
        }
        is_admitted
    }
}

/// The budgets of lines, and what was left out.
#[derive(Debug)]
pub(super) struct Pace {
    hearsay: RateLimit,
    others: RateLimit,
    /// The number of events of each kind that have been left out since the last sum.
    left_out: BTreeMap<&'static str, u64>,
    names: Vec<String>,
    /// The time of the last sum, or of the first line left out.
    since: Option<Instant>,
    /// The number of lines left out in all.
    lost: u64,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            hearsay: RateLimit::new(now, HEARSAY_LINES_PER_SECOND),
            others: RateLimit::new(now, EVENT_LINES_PER_SECOND),
            left_out: BTreeMap::new(),
            names: Vec::new(),
            since: None,
            lost: 0,
        }
    }

    /// Returns true if an event may have its line now; else it is counted for the next sum. `is_hearsay`: it is about a member
    /// that others named, and that never answered this node.
    pub(super) fn admits(&mut self, now: Instant, event: &EventKind, is_hearsay: bool) -> bool {
        let limit = if is_hearsay { &mut self.hearsay } else { &mut self.others };
        let is_admitted = limit.admits(now);
        if !is_admitted {
            self.lost += 1;
            self.since.get_or_insert(now);
            *self.left_out.entry(event.name()).or_default() += 1;
            if self.names.len() < MAX_SUMMED_NAMES
                && let Some(member) = event.member()
                && !self.names.iter().any(|name| name == member.id.as_str())
            {
                self.names.push(member.id.to_string());
            }
        }
        is_admitted
    }

    /// Returns the sum of the lines left out, if there are any, and it is due or `is_last`.
    pub(super) fn sum(&mut self, now: Instant, is_last: bool) -> Option<String> {
        let since = self.since?;
        let is_due = now.duration_since(since) >= SUM_INTERVAL;
        if self.left_out.is_empty() {
            // The next one begins an interval of its own.
            self.since.take_if(|_| is_due);
            return None;
        }
        if !is_due && !is_last {
            return None;
        }
        self.since = Some(now);
        let left_out = std::mem::take(&mut self.left_out);
        let all: u64 = left_out.values().sum();
        let kinds: Vec<String> = left_out.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let names = std::mem::take(&mut self.names);
        let about = if names.is_empty() { String::new() } else { format!(", the first about {}", names.join(", ")) };
        Some(format!(
            "{all} events have no line of their own, as there were too many in {} s: {}{about} (`headcount members` shows who is \
             there, and `headcount watch` every event)",
            now.duration_since(since).as_secs(),
            kinds.join(", ")
        ))
    }

    /// Returns the number of lines left out in all.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Status;
    use crate::member::Member;

    fn event(term: u64) -> EventKind {
        EventKind::QuorumLost { term }
    }

    fn admitted(pace: &mut Pace, at: Instant, is_hearsay: bool) -> u32 {
        (0..2 * MAX_EVENT_LINES).filter(|_| pace.admits(at, &event(1), is_hearsay)).count() as u32
    }

    #[test]
    fn there_are_so_many_lines_at_once_and_a_few_in_each_second_after_that() {
        for (is_hearsay, per_second) in [(false, EVENT_LINES_PER_SECOND), (true, HEARSAY_LINES_PER_SECOND)] {
            let now = Instant::now();
            let mut pace = Pace::new(now);
            assert_eq!(admitted(&mut pace, now, is_hearsay), MAX_EVENT_LINES);
            assert_eq!(admitted(&mut pace, now + Duration::from_millis(9), is_hearsay), 0);
            for second in 1..=60 {
                let later = admitted(&mut pace, now + Duration::from_secs(second), is_hearsay);
                assert_eq!(later, per_second, "second {second}");
            }
            let later = now + Duration::from_secs(60 + u64::from(MAX_EVENT_LINES / per_second));
            assert_eq!(admitted(&mut pace, later, is_hearsay), MAX_EVENT_LINES);
        }
    }

    #[test]
    fn members_on_hearsay_take_no_line_from_the_others() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        assert_eq!(admitted(&mut pace, now, true), MAX_EVENT_LINES);
        assert_eq!(admitted(&mut pace, now, false), MAX_EVENT_LINES);
    }

    #[test]
    fn a_sum_names_so_many_members_each_of_them_once() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        admitted(&mut pace, now, true);
        for nth in 0..2 * (MAX_SUMMED_NAMES + 1) {
            let member = Member::for_tests(&format!("n{}", nth / 2), Status::Up);
            assert!(!pace.admits(now, &EventKind::NodeJoined { member }, true));
        }
        let sum = pace.sum(now, true).expect("the last one");
        assert!(sum.contains("8 node_joined") && sum.contains(", the first about n0, n1, n2 ("), "{sum}");
    }

    #[test]
    fn what_is_left_out_is_summed_up_by_kind_once_in_a_while_and_at_the_end() {
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        let mut pace = Pace::new(now);
        assert_eq!(admitted(&mut pace, now, true), MAX_EVENT_LINES);
        assert!(!pace.admits(now, &EventKind::QuorumRegained { term: 1 }, true));
        assert_eq!(pace.sum(at(9), false), None, "not yet");
        let sum = pace.sum(at(10), false).expect("it is due");
        assert!(
            sum.starts_with("2001 events") && sum.contains("in 10 s: 2000 quorum_lost, 1 quorum_regained ("),
            "{sum}"
        );
        assert_eq!(pace.lost(), 2_001);
        assert_eq!(pace.sum(at(11), true), None, "nothing since");
        admitted(&mut pace, at(12), true);
        assert_eq!(pace.sum(at(19), false), None);
        assert!(pace.sum(at(19), true).expect("the last one").contains("in 9 s: "), "at the end");
        assert_eq!(pace.sum(at(40), false), None);
        admitted(&mut pace, at(50), true);
        assert_eq!(pace.sum(at(59), false), None, "an interval of its own");
        assert!(pace.sum(at(60), false).is_some());
    }
}
