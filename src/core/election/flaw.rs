//! Bugs to plant: each takes one rule away, so that tests can see that it is needed and that they would notice.

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
}
