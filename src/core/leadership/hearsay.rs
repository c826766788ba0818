//! Hearsay: the members' reports of an electorate, noted and forgotten.
//!
//! Invariants:
//! - At most [`MAX_FOUNDED_REPORTERS`] reports are remembered, none for longer than its member is there and stands by
//!   it.
//! - One report makes nobody sure.
//! - Members that came a moment ago keep nobody from forming an electorate for longer than [`NEWCOMERS_HOLD_UP`].
//!
//! Must not know: which member is which (see `founded`).

use std::collections::BTreeMap;

use super::Time;
use crate::core::election::{Descent, ElectorateReport};
use crate::core::limits::{
    FOUNDED_HINT, FOUNDED_REPORTERS, FOUNDED_REVIEW, MAX_FOUNDED_REPORTERS, NEWCOMERS_HOLD_UP, SETTLE,
};
use crate::core::member::Run;

/// The weight of a member's report of an electorate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    /// The report counts for a while only.
    Passing,
    /// The report counts for as long as the member stands by it.
    Lasting,
    /// Several such reports make it sure.
    Full,
}

/// The report of a member that is sure.
#[derive(Debug, Clone, Copy)]
struct Reporter {
    descent: Descent,
    weight: Weight,
    /// The time of its first report, of those in a row that said the same.
    since: Time,
}

/// The reports of an electorate of which this node is not sure.
#[derive(Debug, Default)]
pub(super) struct Hearsay {
    /// The reports of members that are sure of it.
    reporters: BTreeMap<Run, Reporter>,
    /// The report of a member whose word counts for a while only, and the time until which it holds.
    passing: Option<(Run, Descent, Time)>,
    /// The time of the first such report.
    held_up_since: Option<Time>,
    /// The configured voters that were here before this node.
    pub(super) first_voters: Vec<Run>,
    /// The last report that was passed on by a member that is not sure, and the time until which it counts.
    hint: Option<(Descent, Time)>,
    pub(super) review_at: Option<Time>,
}

/// Returns the electorate that began last: everything led after a recovery must be above all of them.
pub(super) fn latest<'a>(descents: impl Iterator<Item = &'a Descent>) -> Option<&'a Descent> {
    descents.max_by_key(|descent| (descent.began, descent.lineage))
}

impl Hearsay {
    pub(super) fn deadline(&self) -> Option<Time> {
        self.review_at
    }

    /// Returns the report that keeps this node from forming another electorate, with whether its member is sure of it.
    pub(super) fn rumoured(&self) -> Option<ElectorateReport> {
        let said = self.said().map(|descent| ElectorateReport { descent: *descent, is_sure: true });
        let passed_on = self.hint.map(|(descent, _)| descent).or(self.passing.map(|(_, descent, _)| descent));
        said.or(passed_on.map(|descent| ElectorateReport { descent, is_sure: false }))
    }

    /// Returns the electorate reported by members that are sure of it, and whose reports last.
    pub(super) fn said(&self) -> Option<&Descent> {
        latest(self.reporters.values().map(|reporter| &reporter.descent))
    }

    /// Returns the member that reports it.
    pub(super) fn teller(&self) -> Option<Run> {
        self.reporters.keys().next().copied().or(self.passing.map(|(by, ..)| by))
    }

    pub(super) fn descent(&self) -> Option<Descent> {
        self.rumoured().map(|founded| founded.descent)
    }

    /// Notes a member's report; returns true if so many report the same that it is sure.
    pub(super) fn hear(&mut self, by: Run, founded: ElectorateReport, weight: Weight, now: Time) -> bool {
        let descent = founded.descent;
        self.review_at.get_or_insert(now + FOUNDED_REVIEW);
        if weight == Weight::Passing {
            self.reporters.remove(&by);
            let end = *self.held_up_since.get_or_insert(now) + NEWCOMERS_HOLD_UP;
            self.passing = Some((by, descent, end.min(now + FOUNDED_HINT))).filter(|_| now < end);
            return false;
        }
        if !founded.is_sure {
            self.reporters.remove(&by);
            self.hint = Some((descent, now + FOUNDED_HINT));
            return false;
        }
        if self.reporters.len() < MAX_FOUNDED_REPORTERS || self.reporters.contains_key(&by) {
            let before = self.reporters.get(&by).filter(|reporter| reporter.descent == descent);
            let since = before.map_or(now, |reporter| reporter.since);
            self.reporters.insert(by, Reporter { descent, weight, since });
        }
        let is_full = |reporter: &&Reporter| reporter.descent == descent && reporter.weight == Weight::Full;
        let count = self.reporters.values().filter(is_full).count();
        weight == Weight::Full && count >= FOUNDED_REPORTERS
    }

    /// Lets a member's report count for a while only, as it turns out that it must.
    pub(super) fn let_pass(&mut self, run: Run, now: Time) {
        if let Some(Reporter { descent, .. }) = self.reporters.remove(&run) {
            self.hear(run, ElectorateReport { descent, is_sure: true }, Weight::Passing, now);
        }
    }

    /// Returns the electorate that [`FOUNDED_REPORTERS`] members have stood by for [`SETTLE`].
    pub(super) fn long_standing(&self, now: Time) -> Option<Descent> {
        let old = || self.reporters.values().filter(|reporter| now.since(reporter.since) >= SETTLE);
        let count = |descent: Descent| old().filter(|reporter| reporter.descent == descent).count();
        old().map(|reporter| reporter.descent).find(|descent| count(*descent) >= FOUNDED_REPORTERS)
    }

    /// Returns the members that report an electorate and are sure of it.
    pub(super) fn reporters(&self) -> impl Iterator<Item = Run> {
        self.reporters.keys().copied()
    }

    /// Forgets the reports of members that are gone, and those that were passed on too long ago.
    pub(super) fn review(&mut self, now: Time, is_there: impl Fn(Run) -> bool) {
        self.reporters.retain(|run, _| is_there(*run));
        self.hint.take_if(|(_, until)| now >= *until);
        self.passing.take_if(|(_, _, until)| now >= *until);
        let is_empty = self.reporters.is_empty() && self.hint.is_none() && self.passing.is_none();
        self.review_at = (!is_empty).then_some(now + FOUNDED_REVIEW);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::core::election::{Lineage, Term};

    const NOW: Time = Time::ORIGIN;

    fn of(lineage: u64, is_sure: bool) -> ElectorateReport {
        let (lineage, root) = (Lineage(lineage), Lineage(lineage));
        ElectorateReport { descent: Descent { lineage, root, began: Term(0) }, is_sure }
    }

    #[test]
    fn two_that_are_sure_of_the_same_make_a_third_one_sure() {
        let mut hearsay = Hearsay::default();
        assert!(!hearsay.hear(Run(1), of(7, true), Weight::Full, NOW));
        assert!(!hearsay.hear(Run(1), of(7, true), Weight::Full, NOW), "the same one again");
        assert!(!hearsay.hear(Run(2), of(8, true), Weight::Full, NOW), "of another one");
        assert!(!hearsay.hear(Run(3), of(7, false), Weight::Full, NOW), "was only told so");
        assert!(hearsay.hear(Run(4), of(7, true), Weight::Full, NOW));
    }

    #[test]
    fn one_members_word_counts_as_long_as_it_is_there_and_what_was_passed_on_for_a_while() {
        let mut hearsay = Hearsay::default();
        hearsay.hear(Run(1), of(7, true), Weight::Full, NOW);
        hearsay.review(NOW + FOUNDED_HINT * 9, |_| true);
        assert_eq!(hearsay.rumoured(), Some(of(7, true)));
        hearsay.review(NOW + FOUNDED_HINT * 9, |_| false);
        assert_eq!((hearsay.rumoured(), hearsay.deadline()), (None, None));
        hearsay.hear(Run(1), of(7, false), Weight::Full, NOW);
        hearsay.review(NOW + FOUNDED_HINT - Duration::from_millis(1), |_| false);
        assert_eq!(hearsay.rumoured(), Some(of(7, false)));
        hearsay.review(NOW + FOUNDED_HINT, |_| true);
        assert_eq!((hearsay.rumoured(), hearsay.deadline()), (None, None));
    }

    #[test]
    fn so_many_voices_are_remembered_and_the_next_one_is_not() {
        let mut hearsay = Hearsay::default();
        let most = MAX_FOUNDED_REPORTERS as u64;
        for run in 0..=most {
            hearsay.hear(Run(run), of(run + 1, true), Weight::Full, NOW);
        }
        assert_eq!(hearsay.reporters.len(), MAX_FOUNDED_REPORTERS);
        assert!(!hearsay.reporters.contains_key(&Run(most)));
        assert!(hearsay.hear(Run(0), of(2, true), Weight::Full, NOW), "who is remembered may say something else");
    }

    #[test]
    fn two_whose_word_merely_lasts_make_nobody_sure() {
        let mut hearsay = Hearsay::default();
        for run in 1..4 {
            assert!(!hearsay.hear(Run(run), of(7, true), Weight::Lasting, NOW));
        }
        assert_eq!(hearsay.rumoured(), Some(of(7, true)));
        assert!(!hearsay.hear(Run(4), of(7, true), Weight::Full, NOW));
        assert!(hearsay.hear(Run(5), of(7, true), Weight::Full, NOW));
    }

    #[test]
    fn newcomers_hold_a_node_up_for_a_while_in_all_however_many_they_are() {
        let mut hearsay = Hearsay::default();
        let step = FOUNDED_HINT / 2;
        let mut now = NOW;
        for nth in 0.. {
            assert!(!hearsay.hear(Run(nth), of(nth, true), Weight::Passing, now));
            if now.since(NOW) >= NEWCOMERS_HOLD_UP {
                break;
            }
            assert_eq!(hearsay.rumoured(), Some(of(nth, false)), "{now:?}");
            now = now + step;
            hearsay.review(now, |_| true);
        }
        assert_eq!(hearsay.rumoured(), None);
        hearsay.hear(Run(1), of(1, true), Weight::Passing, now + NEWCOMERS_HOLD_UP);
        assert_eq!(hearsay.rumoured(), None, "it has had its time");
    }

    #[test]
    fn what_newcomers_say_no_more_holds_nobody_up() {
        let mut hearsay = Hearsay::default();
        hearsay.hear(Run(1), of(1, true), Weight::Passing, NOW);
        hearsay.review(NOW + FOUNDED_HINT, |_| true);
        assert_eq!((hearsay.rumoured(), hearsay.deadline()), (None, None));
    }

    #[test]
    fn two_that_stand_by_it_for_long_make_a_third_one_sure_and_who_takes_it_back_begins_anew() {
        let mut hearsay = Hearsay::default();
        let just_before = NOW + SETTLE - Duration::from_millis(1);
        hearsay.hear(Run(1), of(7, true), Weight::Lasting, NOW);
        hearsay.hear(Run(2), of(8, true), Weight::Lasting, NOW);
        assert_eq!(hearsay.long_standing(NOW + SETTLE), None, "one of each");
        hearsay.hear(Run(3), of(7, true), Weight::Lasting, NOW);
        hearsay.hear(Run(3), of(7, true), Weight::Lasting, just_before);
        assert_eq!(hearsay.long_standing(just_before), None);
        assert_eq!(hearsay.long_standing(NOW + SETTLE), Some(of(7, true).descent), "however often it was said");
        for taken_back in [of(7, false), of(8, true)] {
            let mut hearsay = Hearsay::default();
            for run in [1, 2] {
                hearsay.hear(Run(run), of(7, true), Weight::Lasting, NOW);
            }
            hearsay.hear(Run(1), taken_back, Weight::Lasting, just_before);
            hearsay.hear(Run(1), of(7, true), Weight::Lasting, just_before);
            assert_eq!(hearsay.long_standing(NOW + SETTLE), None, "{taken_back:?}");
        }
    }

    #[test]
    fn what_is_remembered_is_looked_at_again_and_again_until_nothing_is() {
        let mut hearsay = Hearsay::default();
        hearsay.hear(Run(1), of(7, true), Weight::Lasting, NOW);
        hearsay.hear(Run(2), of(7, true), Weight::Lasting, NOW + FOUNDED_REVIEW / 2);
        assert_eq!(hearsay.deadline(), Some(NOW + FOUNDED_REVIEW), "others put it off no more");
        hearsay.review(NOW + FOUNDED_REVIEW, |_| true);
        assert_eq!(hearsay.deadline(), Some(NOW + FOUNDED_REVIEW * 2));
        hearsay.review(NOW + FOUNDED_REVIEW * 2, |_| false);
        assert_eq!(hearsay.deadline(), None);
    }

    #[test]
    fn whose_word_turns_out_to_count_for_a_while_only_is_no_voice_any_more() {
        for is_heard_again in [true, false] {
            let mut hearsay = Hearsay::default();
            hearsay.hear(Run(1), of(7, true), Weight::Lasting, NOW);
            assert_eq!(hearsay.rumoured(), Some(of(7, true)));
            if is_heard_again {
                hearsay.hear(Run(1), of(7, true), Weight::Passing, NOW);
            } else {
                hearsay.let_pass(Run(1), NOW);
            }
            assert_eq!((hearsay.rumoured(), hearsay.said()), (Some(of(7, false)), None));
        }
    }

    #[test]
    fn who_is_sure_no_more_is_no_voice() {
        let mut hearsay = Hearsay::default();
        hearsay.hear(Run(1), of(7, true), Weight::Full, NOW);
        hearsay.hear(Run(1), of(7, false), Weight::Full, NOW);
        assert_eq!(hearsay.rumoured(), Some(of(7, false)));
        hearsay.review(NOW + FOUNDED_HINT, |_| true);
        assert_eq!(hearsay.rumoured(), None);
    }
}
