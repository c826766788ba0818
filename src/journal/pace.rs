//! The pace of lines about events: so many at once, a few in each second after that, and a sum of those that are left out.
//!
//! Purpose: a process that crashes again and again must not fill a disk. In the start of a cluster of a thousand nothing is
//! left out.
//!
//! Invariants:
//! - No line is left out without a sum: one in [`SUM_INTERVAL`] at most, with the number of events of each kind.
//! - What is kept until then has a bound: a number for each kind, and [`MAX_SUMMED_NAMES`] names.
//!
//! Must not know: what the lines say, or how they are written.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::event::EventKind;

/// The largest number of lines about events at once: each of a thousand members joins and is up.
pub(crate) const MAX_EVENT_LINES: u32 = 2_000;

/// The number of further lines in each second after that: twenty seconds bring all of them back.
pub(crate) const EVENT_LINES_PER_SECOND: u32 = 100;

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
    limit: RateLimit,
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
            limit: RateLimit::new(now, EVENT_LINES_PER_SECOND),
            left_out: BTreeMap::new(),
            names: Vec::new(),
            since: None,
            lost: 0,
        }
    }

    /// Returns true if an event may have its line now; else it is counted for the next sum.
    pub(super) fn admits(&mut self, now: Instant, event: &EventKind) -> bool {
        let is_admitted = self.limit.admits(now);
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

    fn admitted(pace: &mut Pace, at: Instant) -> u32 {
        (0..2 * MAX_EVENT_LINES).filter(|_| pace.admits(at, &event(1))).count() as u32
    }

    #[test]
    fn there_are_so_many_lines_at_once_and_a_few_in_each_second_after_that() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        assert_eq!(admitted(&mut pace, now), MAX_EVENT_LINES);
        assert_eq!(admitted(&mut pace, now + Duration::from_millis(9)), 0);
        for second in 1..=60 {
            assert_eq!(
                admitted(&mut pace, now + Duration::from_secs(second)),
                EVENT_LINES_PER_SECOND,
                "second {second}"
            );
        }
        let later = now + Duration::from_secs(60 + u64::from(MAX_EVENT_LINES / EVENT_LINES_PER_SECOND));
        assert_eq!(admitted(&mut pace, later), MAX_EVENT_LINES);
    }

    #[test]
    fn a_sum_names_so_many_members_each_of_them_once() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        admitted(&mut pace, now);
        for nth in 0..2 * (MAX_SUMMED_NAMES + 1) {
            let member = Member::for_tests(&format!("n{}", nth / 2), Status::Up);
            assert!(!pace.admits(now, &EventKind::NodeJoined { member }));
        }
        let sum = pace.sum(now, true).expect("the last one");
        assert!(sum.contains("8 node_joined") && sum.contains(", the first about n0, n1, n2 ("), "{sum}");
    }

    #[test]
    fn what_is_left_out_is_summed_up_by_kind_once_in_a_while_and_at_the_end() {
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        let mut pace = Pace::new(now);
        assert_eq!(admitted(&mut pace, now), MAX_EVENT_LINES);
        assert!(!pace.admits(now, &EventKind::QuorumRegained { term: 1 }));
        assert_eq!(pace.sum(at(9), false), None, "not yet");
        let sum = pace.sum(at(10), false).expect("it is due");
        assert!(
            sum.starts_with("2001 events") && sum.contains("in 10 s: 2000 quorum_lost, 1 quorum_regained ("),
            "{sum}"
        );
        assert_eq!(pace.lost(), 2_001);
        assert_eq!(pace.sum(at(11), true), None, "nothing since");
        admitted(&mut pace, at(12));
        assert_eq!(pace.sum(at(19), false), None);
        assert!(pace.sum(at(19), true).expect("the last one").contains("in 9 s: "), "at the end");
        assert_eq!(pace.sum(at(40), false), None);
        admitted(&mut pace, at(50));
        assert_eq!(pace.sum(at(59), false), None, "an interval of its own");
        assert!(pace.sum(at(60), false).is_some());
    }
}
