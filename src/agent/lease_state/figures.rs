//! Figures of leases: how often they were tried for, held, missed, and how long the database took.
//!
//! Invariant: at most [`MAX_LEASES`](crate::lease::MAX_LEASES) leases, the same that there are publishers of.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::lease::store::StoreError;
use crate::lease::{Answer, LeaseName, Outcome, Round, StepRequest};

/// The counts of one lease at one agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseFigures {
    /// Times this node took the lease.
    pub acquisitions: u64,
    /// Tries to take it that were in vain: another node had it by then, or the database did not answer. A node that has
    /// seen a live holder does not try.
    pub acquisition_failures: u64,
    /// Tries in which somebody else came first within the same moment.
    pub acquisition_conflicts: u64,
    /// Renewals that were confirmed.
    pub renewals: u64,
    /// Renewals that were rejected or not answered.
    pub renewal_failures: u64,
    /// The time that confirmed renewals took together, there and back.
    pub renewal_time: Duration,
    /// Leaders of this lease that this node saw.
    pub leaders_elected: u64,
}

/// The counts of all leases.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub(crate) leases: BTreeMap<LeaseName, LeaseFigures>,
    /// Rounds that the database carried out, and those it did not.
    pub(crate) rounds: u64,
    pub(crate) failed_rounds: u64,
    /// Rounds that it has not carried out since the last one that it did.
    pub(crate) failing: u64,
    pub(crate) swept: u64,
}

impl Counted {
    /// A round came to its end after so long.
    pub(crate) fn round(&mut self, round: &Round, answer: Result<&Answer, &StoreError>, took: Duration) {
        if answer.is_ok() {
            (self.rounds, self.failing) = (self.rounds + 1, 0);
        } else {
            (self.failed_rounds, self.failing) = (self.failed_rounds + 1, self.failing + 1);
        }
        for (at, step) in round.steps.iter().enumerate() {
            let outcome = answer.ok().and_then(|answer| answer.steps.get(at)).map(|seen| seen.outcome);
            let figures = self.leases.entry(step.lease.clone()).or_default();
            match (&step.request, outcome) {
                (StepRequest::Acquire { .. }, Some(Outcome::Acquired)) => figures.acquisitions += 1,
                (StepRequest::Acquire { .. }, Some(Outcome::Conflict)) => figures.acquisition_conflicts += 1,
                (StepRequest::Acquire { .. }, _) => figures.acquisition_failures += 1,
                (StepRequest::Renew { .. }, Some(Outcome::Renewed)) => {
                    figures.renewals += 1;
                    figures.renewal_time += took;
                }
                (StepRequest::Renew { .. }, _) => figures.renewal_failures += 1,
                (StepRequest::Watch | StepRequest::Release { .. }, _) => {}
            }
        }
    }

    pub(crate) fn elected(&mut self, lease: &LeaseName) {
        self.leases.entry(lease.clone()).or_default().leaders_elected += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::NodeId;
    use crate::lease::{Seen, Step, Token};

    #[test]
    fn each_outcome_is_counted_where_it_belongs() {
        let mut counted = Counted::default();
        let acquire = StepRequest::Acquire { drawn: Token(1), above: 0, expired: None, missing: None };
        let renew = StepRequest::Renew { held: vec![Token(1)], drawn: Token(2) };
        let mut one = |request: &StepRequest, outcome: Option<Outcome>| {
            let steps = vec![Step { lease: LeaseName::default(), request: request.clone() }];
            let node = NodeId::new("a").expect("a name");
            let round = Round { node, rpc_address: None, lease_duration: Duration::from_secs(15), steps };
            let seen = |outcome| Seen { outcome, term: 1, holder: None, is_released: true };
            let seen = outcome.map(|outcome| Answer { steps: vec![seen(outcome)] });
            let lost = StoreError::OutcomeUnknown { place: String::new(), reason: String::new() };
            counted.round(&round, seen.as_ref().ok_or(&lost), Duration::from_millis(7));
        };
        one(&acquire, Some(Outcome::Acquired));
        one(&acquire, Some(Outcome::Conflict));
        one(&acquire, Some(Outcome::Held));
        one(&acquire, None);
        one(&renew, Some(Outcome::Renewed));
        one(&renew, Some(Outcome::Rejected));
        one(&renew, None);
        one(&StepRequest::Watch, Some(Outcome::Watched));
        counted.elected(&LeaseName::default());
        let expected = LeaseFigures {
            acquisitions: 1,
            acquisition_failures: 2,
            acquisition_conflicts: 1,
            renewals: 1,
            renewal_failures: 2,
            renewal_time: Duration::from_millis(7),
            leaders_elected: 1,
        };
        assert_eq!(counted.leases[&LeaseName::default()], expected);
        assert_eq!((counted.rounds, counted.failed_rounds, counted.failing), (6, 2, 0));
    }
}
