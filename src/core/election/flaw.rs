//! Planted bugs: each leaves one rule out, so that the tests show that the rule is needed and that they notice.

use std::time::Duration;

use super::{Context, Election};
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
    /// A leader resigns at an operator's word although nobody else may be able to store a vote.
    ResignsUntried,
}

impl Election {
    /// Takes a rule away; see `flaw`.
    pub fn plant(&mut self, flaw: Flaw) {
        self.flaw = Some(flaw);
        if flaw == Flaw::NoWaitAfterRestart {
            self.promised_until = Time::default();
            self.stand_at = Time::default();
        }
    }

    /// Stands no earlier than this, so that a test can wait for others.
    pub fn put_off(&mut self, context: &Context<'_>, pause: Duration) {
        self.stand_at = context.now + pause;
    }

    /// Makes states that differ only in a count the same, for the model checker.
    pub fn forget_counts(&mut self) {
        self.ignored = 0;
    }

    /// Returns true if the rule is taken away; see `flaw`.
    pub(super) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }
}
