//! Hearsay: what members say of an electorate that this node does not know by itself.
//!
//! Invariants:
//! - A member's report counts for as long as its run is in the view and was not removed, and stands by it: one that is Down or
//!   has left may be all that is left of the electorate, and come back. Of more than [`MAX_FOUNDED_REPORTERS`] those of the
//!   electorates that began last are remembered.
//! - What a member was only told itself counts for [`FOUNDED_HINT`], and is not passed on.
//!
//! Must not know: which member is which (see `founded`).

use std::collections::BTreeMap;

use super::Time;
use crate::election::{Descent, ElectorateReport};
use crate::limits::{FOUNDED_HINT, FOUNDED_REVIEW, MAX_FOUNDED_REPORTERS};
use crate::member::Run;

/// The reports of an electorate.
#[derive(Debug, Clone, Default)]
pub(super) struct Hearsay {
    /// The reports of members that are sure of it.
    told: BTreeMap<Run, Descent>,
    /// The last report of a member that is not, and the time until which it counts.
    hint: Option<(Descent, Time)>,
    review_at: Option<Time>,
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
        said.or(self.hint.map(|(descent, _)| ElectorateReport { descent, is_sure: false }))
    }

    /// Returns the electorate reported by members that are sure of it.
    fn said(&self) -> Option<&Descent> {
        latest(self.told.values())
    }

    /// Returns a member that reports it.
    pub(super) fn teller(&self) -> Option<Run> {
        let said = self.said()?;
        self.told.iter().find(|(_, told)| *told == said).map(|(by, _)| *by)
    }

    pub(super) fn descent(&self) -> Option<Descent> {
        self.rumoured().map(|founded| founded.descent)
    }

    /// Notes a member's report, instead of the one that it gave before.
    pub(super) fn hear(&mut self, by: Run, founded: ElectorateReport, now: Time) {
        self.review_at.get_or_insert(now + FOUNDED_REVIEW);
        if !founded.is_sure {
            self.told.remove(&by);
            self.hint = Some((founded.descent, now + FOUNDED_HINT));
            return;
        }
        self.told.insert(by, founded.descent);
        if self.told.len() > MAX_FOUNDED_REPORTERS {
            let first = self.told.iter().min_by_key(|(_, told)| (told.began, told.lineage)).map(|(by, _)| *by);
            first.and_then(|by| self.told.remove(&by));
        }
    }

    /// Forgets the reports of members that are gone, and those that were passed on too long ago.
    pub(super) fn review(&mut self, now: Time, is_there: impl Fn(Run) -> bool) {
        self.told.retain(|run, _| is_there(*run));
        self.hint.take_if(|(_, until)| now >= *until);
        let is_empty = self.told.is_empty() && self.hint.is_none();
        self.review_at = (!is_empty).then_some(now + FOUNDED_REVIEW);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::election::{Lineage, Term};

    const NOW: Time = Time::ORIGIN;

    fn of(lineage: u64, is_sure: bool) -> ElectorateReport {
        let (lineage, root) = (Lineage(lineage), Lineage(lineage));
        ElectorateReport { descent: Descent { lineage, root, began: Term(0) }, is_sure }
    }

    #[test]
    fn a_members_report_counts_as_long_as_it_is_there_and_what_was_passed_on_for_a_while() {
        let mut hearsay = Hearsay::default();
        hearsay.hear(Run(1), of(7, true), NOW);
        hearsay.review(NOW + FOUNDED_HINT * 9, |_| true);
        assert_eq!(hearsay.rumoured(), Some(of(7, true)));
        hearsay.review(NOW + FOUNDED_HINT * 9, |_| false);
        assert_eq!((hearsay.rumoured(), hearsay.deadline()), (None, None));
        hearsay.hear(Run(1), of(7, false), NOW);
        hearsay.review(NOW + FOUNDED_HINT - Duration::from_millis(1), |_| false);
        assert_eq!((hearsay.rumoured(), hearsay.said()), (Some(of(7, false)), None));
        hearsay.review(NOW + FOUNDED_HINT, |_| true);
        assert_eq!((hearsay.rumoured(), hearsay.deadline()), (None, None));
    }

    #[test]
    fn who_is_sure_no_more_or_of_another_one_takes_its_report_back() {
        let mut hearsay = Hearsay::default();
        hearsay.hear(Run(1), of(7, true), NOW);
        hearsay.hear(Run(1), of(8, true), NOW);
        assert_eq!(hearsay.rumoured(), Some(of(8, true)));
        hearsay.hear(Run(1), of(8, false), NOW);
        assert_eq!((hearsay.rumoured(), hearsay.said()), (Some(of(8, false)), None));
    }

    #[test]
    fn so_many_reports_are_remembered_those_of_the_latest_electorates() {
        let mut hearsay = Hearsay::default();
        let most = MAX_FOUNDED_REPORTERS as u64;
        for run in 0..=most {
            hearsay.hear(Run(run), of(run + 1, true), NOW);
        }
        assert_eq!(hearsay.told.len(), MAX_FOUNDED_REPORTERS);
        assert!(!hearsay.told.contains_key(&Run(0)) && hearsay.told.contains_key(&Run(most)));
        assert_eq!(
            (hearsay.said().map(|told| told.lineage), hearsay.teller()),
            (Some(Lineage(most + 1)), Some(Run(most)))
        );
    }

    #[test]
    fn what_is_remembered_is_looked_at_again_and_again_until_nothing_is() {
        let mut hearsay = Hearsay::default();
        hearsay.hear(Run(1), of(7, true), NOW);
        hearsay.hear(Run(2), of(7, true), NOW + FOUNDED_REVIEW / 2);
        assert_eq!(hearsay.deadline(), Some(NOW + FOUNDED_REVIEW), "others put it off no more");
        hearsay.review(NOW + FOUNDED_REVIEW, |_| true);
        assert_eq!(hearsay.deadline(), Some(NOW + FOUNDED_REVIEW * 2));
        hearsay.review(NOW + FOUNDED_REVIEW * 2, |_| false);
        assert_eq!(hearsay.deadline(), None);
    }

    #[test]
    fn the_latest_electorate_is_the_one_that_began_last_whatever_its_number() {
        let mut hearsay = Hearsay::default();
        let most = MAX_FOUNDED_REPORTERS as u64;
        for run in 0..=most {
            let ElectorateReport { descent, is_sure } = of(run + 1, true);
            let descent = Descent { began: Term(most - run), ..descent };
            hearsay.hear(Run(run), ElectorateReport { descent, is_sure }, NOW);
        }
        assert!(hearsay.told.contains_key(&Run(0)) && !hearsay.told.contains_key(&Run(most)));
        assert_eq!(hearsay.teller(), Some(Run(0)));
    }
}
