//! Votes that are being written: a disk may take longer than any attempt to be elected, and a vote that is on its way
//! to it must not be in vain, or voters with slow disks overtake each other in one term after the other.
//!
//! - While its own vote, or that for another, is being written, a voter grants no pre-vote: nobody moves on to a later
//!   term because of it. It could not vote before the write has ended, and if its disk hangs, not at all.
//! - Votes for a candidate count for as long as its term has not moved, also after it has given the attempt up (Raft: a
//!   candidate stays one until its term moves).
//! - Whoever has voted leaves the candidate time to lead, from when the vote is on disk: it neither stands nor grants
//!   others a pre-vote.
//!
//! Invariant: the votes are of one term, that in which this voter voted for itself, and it has not led in it.
//!
//! Must not know: how an attempt goes.

use std::collections::BTreeSet;

use super::electorate::Identity;
use super::term::Term;
use super::{Context, Election, Role, Rules};

/// The voters that voted for this one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Votes {
    term: Term,
    given_by: BTreeSet<Identity>,
}

impl<R: Rules> Election<R> {
    /// Returns true if a pre-vote for this candidate takes nothing away from a vote that was given, or is being
    /// written.
    pub(super) fn may_back(&self, context: &Context<'_>, candidate: Identity) -> bool {
        let is_taken = self.elected.is_some_and(|(elected, until)| elected != candidate && context.now < until);
        !is_taken && !self.is_vote_being_written()
    }

    /// Returns true if the disk does not have the newest vote, or the newest term, yet.
    fn is_vote_being_written(&self) -> bool {
        self.rules.is_vote_being_written(&self.stored, &self.ballot)
    }

    /// Begins to count the votes in a term.
    pub(super) fn open_poll(&mut self, term: Term) {
        self.votes = Some(Votes { term, given_by: BTreeSet::new() });
    }

    /// Counts a vote; returns true if it may still carry this voter.
    pub(super) fn note_vote(&mut self, speaker: Identity, term: Term) -> bool {
        let is_open = self.ballot.term == term && self.ballot.vote == Some(self.ballot.identity);
        let Some(votes) = self.votes.as_mut().filter(|votes| is_open && votes.term == term) else { return false };
        votes.given_by.insert(speaker);
        true
    }

    /// Leads if a majority has voted for this voter, although it has given that attempt up.
    pub(super) fn count_late_votes(&mut self, context: &Context<'_>) {
        let (Some(votes), Some(electorate)) = (&self.votes, self.electorate()) else { return };
        let me = self.ballot.identity;
        let is_open = self.rules.counts_late_votes(&self.ballot, votes.term);
        let is_own_stored = self.stored.has_vote(votes.term, me);
        let may_lead = matches!(self.role, Role::Follower | Role::Candidate(_)) && context.is_up;
        let may_lead = may_lead && !self.is_aside && !self.is_draining();
        let has_voted = |identity| identity == me || votes.given_by.contains(&identity);
        if is_open && is_own_stored && may_lead && electorate.has_majority(has_voted) {
            self.begin_to_lead(context);
        }
    }

    /// Leaves the candidate that got this voter's vote time to lead, from now on.
    pub(super) fn leave_time_to_lead(&mut self, context: &Context<'_>, candidate: Identity) {
        self.elected = Some((candidate, context.now + self.rules.time_to_lead(self.timing.patience())));
        self.stand_at = self.stand_at.max(context.now + self.rules.time_to_lead(self.patience()));
    }
}
