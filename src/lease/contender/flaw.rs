//! Bugs to plant: each takes one rule away, so that tests can see that it is needed and that they would notice.
//!
//! Outside of tests nothing can be planted, and the questions cost nothing.

/// A rule that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Flaw {
    /// A claim counts from when the answer came.
    ClaimFromReceipt,
    /// A claim lasts for a whole lease.
    NoMargin,
    /// A claim ends only when the store says so.
    NoExpiry,
    /// A leader whose claim ran out goes on in its term, if its renewal was written.
    LeadsOnInItsTerm,
    /// A failure deposes.
    DeposedByFailure,
    /// A rejection does not depose.
    IgnoresRejection,
    /// A term above its own does not depose a leader.
    IgnoresHigherTerms,
    /// A renewal writes the token that stands there.
    ReusesTokens,
    /// A renewal names the token confirmed last alone.
    ForgetsDrawnTokens,
    /// A holder under this node's name is this node, whatever its token.
    TakesBackOwnName,
    /// The claim of an adopted acquisition counts from when the row was seen.
    AdoptsFromSight,
    /// What was named in a release, or stood before somebody else did, is adopted all the same.
    AdoptsWhatWasGivenUp,
    /// A lease that has expired by the store's clock is taken at once.
    TakesAtExpiry,
    /// A holder stands for the contender's own lease, though its own be longer.
    WaitsOwnLeaseOnly,
    /// A renewed token does not make the wait begin anew.
    WaitsFromFirstSight,
    /// A lease that looks free is taken, whatever was known of it.
    TakesWhatLooksFree,
    /// A lease that looks older than it is known to be is waited for from when the higher term was heard of.
    WaitsFromHearsay,
    /// Terms that the store does not know do not count.
    TermOfStoreAlone,
    /// Whoever acquires leads, whatever term was heard of meanwhile.
    LeadsBelowKnownTerm,
    /// The lease is released while led work goes on.
    ReleasesBeforeWorkEnds,
    /// A release that is told of changes nothing.
    DeafToReleases,
    /// Pauses after failures grow, though a held lease runs out meanwhile.
    PausesPastExpiry,
    /// Renewals follow each other by the renewal interval, however short the lease.
    RenewsLate,
    /// A drained node leads all the same.
    LeadsWhenDraining,
}

/// The rule that is taken away, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Planted(#[cfg(test)] Option<Flaw>);

impl Planted {
    #[cfg(test)]
    pub(super) fn plant(&mut self, flaw: Flaw) {
        self.0 = Some(flaw);
    }

    #[cfg(test)]
    pub(super) fn has(self, flaw: Flaw) -> bool {
        self.0 == Some(flaw)
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "there is nothing to look at outside of tests")]
    pub(super) const fn has(self, _: Flaw) -> bool {
        false
    }
}
