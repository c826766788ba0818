//! Planted bugs: each leaves one rule out, so that the tests show that the rule is needed and that they notice.
//!
//! Outside of tests nothing can be planted, and asking for flaws costs nothing.

/// A rule that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(unreachable_pub, reason = "reached with the feature `planted`")]
pub enum Flaw {
    /// A claim counts from the receipt of the answer.
    ClaimFromReceipt,
    /// A claim lasts for a whole lease.
    NoMargin,
    /// A claim ends only when the store says so.
    NoExpiry,
    /// A leader whose claim ran out goes on in its term, if its renewal was written.
    LeadsOnInItsTerm,
    /// A failed renewal deposes the leader.
    DeposedByFailure,
    /// A rejected renewal does not depose the leader.
    IgnoresRejection,
    /// A term above its own does not depose a leader.
    IgnoresHigherTerms,
    /// A renewal writes the token that already stands in the row.
    ReusesTokens,
    /// A renewal names only the token that was confirmed last.
    ForgetsDrawnTokens,
    /// A holder under this node's name is this node, whatever its token.
    TakesBackOwnName,
    /// The claim of an adopted acquisition counts from when the row was seen.
    AdoptsFromSight,
    /// A token that was named in a release, or stood before another holder did, is adopted all the same.
    AdoptsWhatWasGivenUp,
    /// A lease that has expired by the store's clock is taken at once.
    TakesAtExpiry,
    /// A holder is waited for only for the contender's own lease, even if the holder's is longer.
    WaitsOwnLeaseOnly,
    /// A renewed token does not begin the wait anew.
    WaitsFromFirstSight,
    /// A lease that looks free is taken, whatever was known of it.
    TakesWhatLooksFree,
    /// A lease whose row is missing is taken at once.
    TakesWhatIsMissing,
    /// A lease that looks older than it is known to be is waited for from when the higher term was heard of.
    WaitsFromHearsay,
    /// Word of another leader in a leader's own term changes nothing.
    IgnoresRivals,
    /// Word of a living leader whose term the store does not know is counted once.
    WaitsForFirstWordOnly,
    /// Word of a leader whose term the store gave to another node is no reason to wait.
    TrustsTheRowsName,
    /// Word of a living leader counts as a reason to wait in the highest known term only.
    WaitsInKnownTermOnly,
    /// A newcomer whose store knows of a term does not listen to the members.
    ListensInFirstTermOnly,
    /// A newcomer listens on though a leader's word agrees with its store.
    ListensInVain,
    /// A late word of an ended reign is waited for, whatever the leader says that the store shows.
    WaitsForLateWords,
    /// A leader that is Down is waited for no more if the store shows a later holder, dead or alive.
    ForgetsWhoIsDown,
    /// A row that stands still for a lease is nobody's, though its holder says that it leads.
    TrustsAStandingRow,
    /// A newcomer takes what nobody is known to have led before anybody could tell it of a term.
    DeafOnArrival,
    /// Terms of leases that are not contended for are not remembered.
    ForgetsOthersTerms,
    /// Terms that the store does not know do not count.
    TermOfStoreAlone,
    /// A contender that acquires the lease leads, whatever term was heard of meanwhile.
    LeadsBelowKnownTerm,
    /// The lease is released while led work goes on.
    ReleasesBeforeWorkEnds,
    /// A release that is announced changes nothing.
    DeafToReleases,
    /// Pauses after failures grow, though a held lease runs out meanwhile.
    PausesPastExpiry,
    /// Renewals follow each other by the renewal interval, however short the lease.
    RenewsLate,
    /// A drained node leads all the same.
    LeadsWhenDraining,
    /// A leader by voters is no reason to wait.
    LeadsBesideVoters,
}

/// The rule that is left out, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Planted(#[cfg(any(test, feature = "planted"))] Option<Flaw>);

impl Planted {
    #[cfg(any(test, feature = "planted"))]
    pub(super) fn plant(&mut self, flaw: Flaw) {
        self.0 = Some(flaw);
    }

    #[cfg(any(test, feature = "planted"))]
    pub(super) fn has(self, flaw: Flaw) -> bool {
        self.0 == Some(flaw)
    }

    #[cfg(not(any(test, feature = "planted")))]
    #[expect(clippy::unused_self, reason = "there is nothing to look at outside of tests")]
    pub(super) const fn has(self, _: Flaw) -> bool {
        false
    }
}
