//! Planted bugs: each leaves one rule out, so that the tests show that the rule is needed and that they notice.

use std::collections::BTreeSet;
use std::time::Duration;

use super::campaign::Stage;
use super::rules::{Rules, Sound};
use super::{
    Action, Ballot, Context, Descent, Election, ElectionInit, Electorate, Identity, Lineage, LossReason, NumberedView,
    Role, Term, ViewRef,
};
use crate::time::Time;

/// A rule that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// One vote in favour is enough.
    NoQuorumCheck,
    /// A voter votes for every candidate that asks in its term.
    ForgottenVote,
    /// The claim begins with the votes.
    ClaimWithVotes,
    /// The claim is counted from the receipt of the acknowledgement.
    LeaseFromReceipt,
    /// A promise lasts as long as the voter's own lease, whatever the renewal says.
    DifferingLeases,
    /// An acceptance of a view counts in whatever term it was given.
    CountedInLaterTerm,
    /// A change of the electorate needs the new majority alone.
    UnsettledElectorate,
    /// A restarted voter votes at once.
    NoWaitAfterRestart,
    /// A voter votes for a candidate whose newest accepted view is older than its own.
    NoViewCheck,
    /// A leader whose claim ran out goes on in its term.
    LeadsOnInItsTerm,
    /// A release counts whoever sent it, and for whatever term.
    ReleaseFromThePast,
    /// A voter that leaves is freed although the claim rests on it.
    FreesWhoIsNeeded,
    /// A refused vote request moves the voter's term all the same.
    TermFromRefused,
    /// A vote is sent before it is on disk.
    VoteBeforeDisk,
    /// A candidate counts its own vote before it is on disk.
    OwnVoteBeforeDisk,
    /// A renewal is acknowledged before the promise and the view are on disk.
    AckBeforeDisk,
    /// A leader counts its own acceptance of a view before it is on disk.
    OwnAcceptanceBeforeDisk,
    /// A promise keeps no voter from voting.
    NoPromise,
    /// A voter that has not heard a leader asks for votes at once, without status query and pre-vote.
    NoQuestions,
    /// A recovery asks nobody whether the majority is lost.
    RecoversAnyway,
    /// Generations begin at their first term.
    SameBeginning,
    /// A recovered voter stays in its generation, even if it is told of a later one.
    StaysInItsGeneration,
    /// An electorate is formed though one of its voters knows of another one.
    FormsAnyway,
    /// A round of renewals that began before the question confirms leadership.
    ConfirmsByOldRounds,
    /// A leader stays in its term, even if its voters report higher ones.
    StaysBelowItsVoters,
    /// An electorate that is founded anew begins above the founder's own term alone.
    FoundsAboveItself,
    /// A change is proposed to the voters on acknowledgements from before it was asked for.
    OldAnswersCount,
    /// While a change is in flight the claim needs a majority of both electorates.
    ClaimNeedsTheNewcomers,
    /// A change that too few voters accept stays in flight.
    TakesNothingBack,
    /// A newcomer accepts the view that takes its addition back before that is agreed.
    LeftOutUnagreed,
    /// A change is proposed to the voters before it is on the leader's own disk.
    ChangeBeforeDisk,
    /// A voter grants pre-votes while its vote is being written.
    MovesOnWhileWriting,
    /// Votes count only while the attempt that they were asked for lasts.
    ForgetsLateVotes,
    /// A voter stands, and grants pre-votes, as soon as its vote for another is stored.
    GivesNoTimeToLead,
    /// A leader whose disk fails resigns although nobody else could be elected.
    ResignsToNobody,
    /// A leaving leader does not take back a change in flight.
    LeavesAtOnce,
    /// Terms that were led in another way bind candidates alone, and no voters.
    FloorOfCandidateAlone,
    /// A leader that goes on above its voters frees itself of its promise at once.
    FreesItselfToGoOn,
    /// A node tells of a generation before its disk has it.
    TellsBeforeDisk,
    /// A voter's electorate ends for any other that it hears of.
    EndsForAnyOther,
    /// A voter's electorate stands whatever it hears of.
    EndsForNone,
    /// A leader stays in its term although another electorate was led above it, and ended.
    StaysBelowWhatEnded,
    /// A leader resigns at an operator's command although nobody else may be able to store a vote.
    ResignsUntried,
}

/// All rules but the one that is left out, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Planted(Option<Flaw>);

impl Planted {
    fn has(self, flaw: Flaw) -> bool {
        self.0 == Some(flaw)
    }
}

impl Election<Planted> {
    /// Begins, and leaves this rule out.
    pub(super) fn planted(init: ElectionInit, context: &Context<'_>, flaw: Option<Flaw>) -> Self {
        Self::by_rules(Planted(flaw), init, context)
    }

    /// Leaves a rule out from now on.
    pub(super) fn plant(&mut self, flaw: Flaw) {
        self.rules = Planted(Some(flaw));
    }
}

impl Rules for Planted {
    fn votes_from(self, born: Time, longest_promise: Duration) -> Time {
        if self.has(Flaw::NoWaitAfterRestart) { Time::default() } else { Sound.votes_from(born, longest_promise) }
    }

    fn is_promise_over(self, now: Time, until: Time) -> bool {
        self.has(Flaw::NoPromise) || Sound.is_promise_over(now, until)
    }

    fn promised(self, asked: Duration, own: Duration) -> Duration {
        if self.has(Flaw::DifferingLeases) { own } else { Sound.promised(asked, own) }
    }

    fn is_released_by(self, by: (Identity, Term), from: (Option<Identity>, Term)) -> bool {
        self.has(Flaw::ReleaseFromThePast) || Sound.is_released_by(by, from)
    }

    fn is_needed(self, claimed: u64, without: u64) -> bool {
        !self.has(Flaw::FreesWhoIsNeeded) && Sound.is_needed(claimed, without)
    }

    fn begin_attempt<R: Rules>(self, candidate: &mut Election<R>, context: &Context<'_>, term: Term) {
        if self.has(Flaw::NoQuestions) {
            candidate.vote_for(candidate.ballot.identity, term);
            candidate.enter(context, Stage::Vote);
        } else {
            Sound.begin_attempt(candidate, context, term);
        }
    }

    fn has_won(self, electorate: &Electorate, favours: impl Fn(Identity) -> bool) -> bool {
        self.has(Flaw::NoQuorumCheck) || Sound.has_won(electorate, favours)
    }

    fn refuses_up_to(self, own: Term, highest_led: Term) -> Term {
        if self.has(Flaw::FloorOfCandidateAlone) { own } else { Sound.refuses_up_to(own, highest_led) }
    }

    fn may_vote_in(self, term: Term, refused: Term) -> bool {
        self.has(Flaw::ForgottenVote) && term == refused || Sound.may_vote_in(term, refused)
    }

    fn refused<R: Rules>(self, voter: &mut Election<R>, context: &Context<'_>, term: Term) {
        if self.has(Flaw::TermFromRefused) && term > voter.ballot.term {
            voter.step_down(context, LossReason::Superseded);
            (voter.ballot.term, voter.ballot.vote, voter.volatile.leader) = (term, None, None);
            voter.persist();
        } else {
            Sound.refused(voter, context, term);
        }
    }

    fn has_accepted_enough(self, candidate: ViewRef, voter: ViewRef) -> bool {
        self.has(Flaw::NoViewCheck) || Sound.has_accepted_enough(candidate, voter)
    }

    fn is_false_vote(self, voter: ViewRef, candidate: Option<ViewRef>) -> bool {
        !self.has(Flaw::NoViewCheck) && Sound.is_false_vote(voter, candidate)
    }

    fn may_send_vote(self, stored: &Ballot, term: Term, candidate: Identity) -> bool {
        self.has(Flaw::VoteBeforeDisk) || Sound.may_send_vote(stored, term, candidate)
    }

    fn counts_own_vote(self, stored: &Ballot, term: Term, me: Identity) -> bool {
        self.has(Flaw::OwnVoteBeforeDisk) || Sound.counts_own_vote(stored, term, me)
    }

    fn is_vote_being_written(self, stored: &Ballot, meant: &Ballot) -> bool {
        !self.has(Flaw::MovesOnWhileWriting) && Sound.is_vote_being_written(stored, meant)
    }

    fn counts_late_votes(self, ballot: &Ballot, term: Term) -> bool {
        !self.has(Flaw::ForgetsLateVotes) && Sound.counts_late_votes(ballot, term)
    }

    fn time_to_lead(self, patience: Duration) -> Duration {
        if self.has(Flaw::GivesNoTimeToLead) { Duration::ZERO } else { Sound.time_to_lead(patience) }
    }

    fn claim_by_votes(self, elected: Time) -> Option<Time> {
        if self.has(Flaw::ClaimWithVotes) { Some(elected) } else { Sound.claim_by_votes(elected) }
    }

    fn claimed_by(self, in_force: &Electorate, newest: &Electorate, acknowledged: impl Fn(Identity) -> u64) -> u64 {
        if self.has(Flaw::NoQuorumCheck) {
            let figures = in_force.voters.iter().map(|voter| acknowledged(voter.identity));
            return figures.max().unwrap_or(0);
        }
        let sequence = Sound.claimed_by(in_force, newest, &acknowledged);
        let needs_both = self.has(Flaw::ClaimNeedsTheNewcomers);
        if needs_both { sequence.min(newest.reached_by_majority(acknowledged)) } else { sequence }
    }

    fn claim_begins(self, sent: Time, received: Time) -> Time {
        if self.has(Flaw::LeaseFromReceipt) { received } else { Sound.claim_begins(sent, received) }
    }

    fn end_with_claim<R: Rules>(self, leader: &mut Election<R>, context: &Context<'_>, reason: LossReason) {
        if let Role::Leading(leading) = &mut leader.role
            && self.has(Flaw::LeadsOnInItsTerm)
        {
            leading.claim = None;
            leading.elected_at = context.now;
            leader.actions.push_back(Action::Lost { term: leading.term, reason: LossReason::QuorumLost });
        } else {
            Sound.end_with_claim(leader, context, reason);
        }
    }

    fn proved_by(self, last_sent: u64) -> u64 {
        if self.has(Flaw::ConfirmsByOldRounds) { last_sent } else { Sound.proved_by(last_sent) }
    }

    fn goes_on_above(self, lasted: Duration, lease: Duration, is_busy: bool) -> bool {
        !self.has(Flaw::StaysBelowItsVoters) && Sound.goes_on_above(lasted, lease, is_busy)
    }

    fn give_up_to_go_on<R: Rules>(self, leader: &mut Election<R>, context: &Context<'_>) {
        if self.has(Flaw::FreesItselfToGoOn) {
            leader.step_down(context, LossReason::Superseded);
        } else {
            Sound.give_up_to_go_on(leader, context);
        }
    }

    fn acknowledged<'ballot>(self, stored: &'ballot Ballot, meant: &'ballot Ballot) -> &'ballot Ballot {
        if self.has(Flaw::AckBeforeDisk) { meant } else { Sound.acknowledged(stored, meant) }
    }

    fn counted_as_own<'ballot>(self, stored: &'ballot Ballot, meant: &'ballot Ballot) -> &'ballot Ballot {
        if self.has(Flaw::OwnAcceptanceBeforeDisk) { meant } else { Sound.counted_as_own(stored, meant) }
    }

    fn has_accepted(self, held: Option<ViewRef>, in_flight: ViewRef) -> bool {
        let has_contents = held.is_some_and(|held| held.digest == in_flight.digest);
        self.has(Flaw::CountedInLaterTerm) && has_contents || Sound.has_accepted(held, in_flight)
    }

    fn may_number(self, is_settled: bool, is_in_flight: bool) -> bool {
        self.has(Flaw::UnsettledElectorate) || Sound.may_number(is_settled, is_in_flight)
    }

    fn is_agreed(self, view: &NumberedView, is_proposed: bool, has_accepted: impl Fn(Identity) -> bool) -> bool {
        self.has(Flaw::UnsettledElectorate) && view.electorate.has_majority(&has_accepted)
            || Sound.is_agreed(view, is_proposed, has_accepted)
    }

    fn awaits_own_disk(self, is_unstored: bool) -> bool {
        !self.has(Flaw::ChangeBeforeDisk) && Sound.awaits_own_disk(is_unstored)
    }

    fn answers_from(self, question: u64) -> u64 {
        if self.has(Flaw::OldAnswersCount) { 0 } else { Sound.answers_from(question) }
    }

    fn takes_back(self, is_possible: bool) -> bool {
        !self.has(Flaw::TakesNothingBack) && Sound.takes_back(is_possible)
    }

    fn settles_first(self, is_in_flight: bool) -> bool {
        !self.has(Flaw::LeavesAtOnce) && Sound.settles_first(is_in_flight)
    }

    fn waits_until_agreed(self, view: ViewRef, agreed: Option<ViewRef>) -> bool {
        !self.has(Flaw::LeftOutUnagreed) && Sound.waits_until_agreed(view, agreed)
    }

    fn resigns_to_others(self, can_elect: bool) -> bool {
        self.has(Flaw::ResignsToNobody) || Sound.resigns_to_others(can_elect)
    }

    fn resigns_untried(self, is_alone: bool) -> bool {
        self.has(Flaw::ResignsUntried) || Sound.resigns_untried(is_alone)
    }

    fn is_another(self, known: Lineage, own: Lineage) -> bool {
        !self.has(Flaw::FormsAnyway) && Sound.is_another(known, own)
    }

    fn is_majority_there(self, electorate: &Electorate, answered: &BTreeSet<Identity>) -> bool {
        !self.has(Flaw::RecoversAnyway) && Sound.is_majority_there(electorate, answered)
    }

    fn drawn_beginning(self, lineage: Lineage) -> u64 {
        if self.has(Flaw::SameBeginning) { 0 } else { Sound.drawn_beginning(lineage) }
    }

    fn begins_above(self, own: Term, known: Term) -> Term {
        if self.has(Flaw::FoundsAboveItself) { own } else { Sound.begins_above(own, known) }
    }

    fn takes_place_of(self, theirs: &Electorate, own: &Electorate, is_named: bool) -> bool {
        let stays = self.has(Flaw::StaysInItsGeneration) && own.began > Term(0);
        !stays && Sound.takes_place_of(theirs, own, is_named)
    }

    fn ends_for(self, own: &Descent, other: &Descent) -> bool {
        match self.0 {
            Some(Flaw::EndsForAnyOther) => own != other,
            Some(Flaw::EndsForNone) => false,
            _ => Sound.ends_for(own, other),
        }
    }

    fn leads_above_ended(self, is_busy: bool) -> bool {
        !self.has(Flaw::StaysBelowWhatEnded) && Sound.leads_above_ended(is_busy)
    }

    fn may_tell(self, stored: Option<Lineage>, meant: Option<Lineage>) -> bool {
        self.has(Flaw::TellsBeforeDisk) || Sound.may_tell(stored, meant)
    }
}
