//! The machine alone, in virtual time, with a network that loses and a disk that forgets.

mod ahead;
mod bad_disks;
mod blank;
mod chaos;
mod cluster;
mod confirming;
mod corners;
mod directed;
mod disks;
mod draining;
mod electorates;
mod failing;
mod forming;
mod hostile;
mod learners;
mod links;
mod model;
mod preferring;
mod promises;
mod recoveries;
mod removing;
mod renewals;
mod replacing;
mod resigning;
mod returning;
mod scenarios;
mod slow_disks;
mod slow_votes;
mod storm;
mod watch;

use std::time::Duration;

use super::Context;
use super::campaign::Stage;
use super::rules::Rules;

/// A voter that leaves a rule out, if it is told to.
type Election = super::Election<super::flaw::Planted>;

impl<R: Rules> super::Election<R> {
    /// Stands no earlier than this, so that a test can wait for others.
    fn put_off(&mut self, context: &Context<'_>, pause: Duration) {
        self.stand_at = context.now + pause;
    }

    /// Makes states that differ only in a count the same, for the model checker.
    fn forget_counts(&mut self) {
        self.ignored = 0;
    }

    /// Stands at once; the other voters grant it their pre-votes, so that it asks for their votes.
    pub(crate) fn stand_with_consent(&mut self, context: &Context<'_>) {
        self.stand_above(context, self.ballot.term);
        for voter in self.others() {
            let (attempt, term) = (self.attempts, self.ballot.term);
            self.hear_answer(context, (voter.identity, &voter.id), (Stage::Query, attempt), true, term);
            self.hear_answer(context, (voter.identity, &voter.id), (Stage::PreVote, attempt), true, term);
        }
    }
}
