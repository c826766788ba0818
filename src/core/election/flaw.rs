//! Bugs to plant: each takes one rule away, so that tests can see that it is needed and that they would notice.

use std::time::Duration;

use super::{Election, Surroundings};
use crate::core::time::Time;

/// A rule that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Flaw {
    /// One voter in favour is enough.
    NoQuorumCheck,
    /// A voter votes for everybody who asks in its term.
    ForgottenVote,
    /// The claim begins with the votes.
    ClaimWithVotes,
    /// The claim lasts from when the acknowledgement came.
    LeaseFromReceipt,
    /// A promise lasts as long as the voter's own lease, whatever the renewal says.
    DifferingLeases,
    /// A view counts in whatever term it was accepted.
    CountedInLaterTerm,
    /// A change of the electorate needs the new majority alone.
    UnsettledElectorate,
    /// A restarted voter votes at once.
    NoWaitAfterRestart,
    /// A candidate may have accepted less than the voter.
    NoViewCheck,
    /// A leader whose claim ran out goes on in its term.
    LeadsOnInItsTerm,
    /// Whoever releases, frees.
    ReleaseFromThePast,
    /// A voter that leaves is freed although the claim rests on it.
    FreesWhoIsNeeded,
    /// A refused candidate moves the term all the same.
    TermFromRefused,
    /// A vote is said before it is on disk.
    VoteBeforeDisk,
    /// A candidate counts its own vote before it is on disk.
    OwnVoteBeforeDisk,
    /// A renewal is acknowledged before promise and view are on disk.
    AckBeforeDisk,
    /// A leader counts its own acceptance of a view before it is on disk.
    OwnAcceptanceBeforeDisk,
    /// A promise keeps nobody from voting.
    NoPromise,
    /// Whoever has not heard a leader asks for votes at once, without status query and pre-vote.
    NoQuestions,
    /// A recovery asks nobody whether the majority is lost.
    RecoversAnyway,
    /// Generations begin at their first term.
    SameBeginning,
    /// Whoever was recovered stays in its generation, whatever it is told.
    StaysInItsGeneration,
    /// An electorate is formed though one of its voters knows of another.
    FormsAnyway,
    /// A round that was under way when the question came confirms.
    ConfirmsByOldRounds,
    /// A leader stays in its term, whatever its voters say of theirs.
    StaysBelowItsVoters,
    /// Who founds anew begins above its own term alone.
    FoundsAboveItself,
    /// A change is put to the voters on answers from before it was asked for.
    OldAnswersCount,
    /// While a change is in flight the claim needs a majority of both electorates.
    ClaimNeedsTheNewcomers,
    /// A change that too few voters take stays in flight.
    TakesNothingBack,
    /// A change is put to the voters before the leader's own disk has it.
    ChangeBeforeDisk,
    /// Whoever leaves leaves a change in flight behind.
    LeavesAtOnce,
}

impl Election {
    /// Takes a rule away; see `flaw`.
    pub(crate) fn plant(&mut self, flaw: Flaw) {
        self.flaw = Some(flaw);
        if flaw == Flaw::NoWaitAfterRestart {
            self.promised_until = Time::default();
            self.stand_at = Time::default();
        }
    }

    /// Stands no earlier than this, so that a test can wait for others.
    pub(crate) fn put_off(&mut self, around: &Surroundings<'_>, pause: Duration) {
        self.stand_at = around.now + pause;
    }

    /// Makes states that differ only in a count the same, for the model checker.
    pub(crate) fn forget_counts(&mut self) {
        self.ignored = 0;
    }

    /// Returns true if the rule is taken away; see `flaw`.
    pub(super) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }
}
