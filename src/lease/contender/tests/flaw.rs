//! Planted bugs: each leaves one rule out, so that the tests show that the rule is needed and that they notice.

use std::time::Duration;

use crate::contest::HeldTerm;
use crate::drawn::Draw;
use crate::history::{Elsewhere, SeenHolder, Taking};
use crate::rules::{Rules, Sound};
use crate::{Contender, ContenderInit, ContenderTiming};
use crate::{Holder, Token};
use headcount_core::election::LossReason;
use headcount_core::{NodeId, Time};

/// A rule that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

/// All rules but the one that is left out, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Planted(Option<Flaw>);

impl Planted {
    fn has(self, flaw: Flaw) -> bool {
        self.0 == Some(flaw)
    }
}

impl From<Option<Flaw>> for Planted {
    fn from(flaw: Option<Flaw>) -> Self {
        Self(flaw)
    }
}

impl Contender<Planted> {
    /// Creates a contender that leaves this rule out.
    pub fn planted(init: ContenderInit, now: Time, flaw: Option<Flaw>) -> Self {
        Self::by_rules(Planted(flaw), init, now)
    }

    /// Leaves a rule out from now on.
    pub fn plant(&mut self, flaw: Flaw) {
        self.rules = Planted(Some(flaw));
        for contest in self.contests.values_mut() {
            contest.history.rules = self.rules;
        }
    }
}

impl Rules for Planted {
    fn claim_begins(self, sent: Time, received: Time) -> Time {
        if self.has(Flaw::ClaimFromReceipt) { received } else { Sound.claim_begins(sent, received) }
    }

    fn claim_length(self, lease: Duration) -> Duration {
        if self.has(Flaw::NoMargin) { lease } else { Sound.claim_length(lease) }
    }

    fn is_over(self, now: Time, until: Time) -> bool {
        !self.has(Flaw::NoExpiry) && Sound.is_over(now, until)
    }

    fn led_after_the_end(self, renewed: HeldTerm) -> Option<HeldTerm> {
        if self.has(Flaw::LeadsOnInItsTerm) { Some(renewed) } else { Sound.led_after_the_end(renewed) }
    }

    fn loss_by_failure(self) -> Option<LossReason> {
        if self.has(Flaw::DeposedByFailure) { Some(LossReason::Expired) } else { Sound.loss_by_failure() }
    }

    fn loss_by_rejection(self, is_superseded: bool) -> Option<LossReason> {
        if self.has(Flaw::IgnoresRejection) { None } else { Sound.loss_by_rejection(is_superseded) }
    }

    fn is_superseded(self, own: u64, heard: u64) -> bool {
        !self.has(Flaw::IgnoresHigherTerms) && Sound.is_superseded(own, heard)
    }

    fn token_to_write(self, drawn: Token, held: &[Token]) -> Token {
        let standing = held.last().copied().filter(|_| self.has(Flaw::ReusesTokens));
        standing.unwrap_or_else(|| Sound.token_to_write(drawn, held))
    }

    fn tokens_to_name(self, held: Vec<Token>) -> Vec<Token> {
        if self.has(Flaw::ForgetsDrawnTokens) { held[..1].to_vec() } else { Sound.tokens_to_name(held) }
    }

    fn own_draw(self, of_token: Option<Draw>, holder: &Holder, sent: Time) -> Option<Draw> {
        let by_name = Draw { token: holder.token, sent, is_adoptable: true };
        let own = Sound.own_draw(of_token, holder, sent);
        own.or_else(|| self.has(Flaw::TakesBackOwnName).then_some(by_name))
    }

    fn adopted_from(self, sent: Time, seen: Time) -> Time {
        if self.has(Flaw::AdoptsFromSight) { seen } else { Sound.adopted_from(sent, seen) }
    }

    fn may_adopt(self, is_adoptable: bool) -> bool {
        self.has(Flaw::AdoptsWhatWasGivenUp) || Sound.may_adopt(is_adoptable)
    }

    fn whole_lease(self, own: Duration, holders: Duration) -> Duration {
        match self.0 {
            Some(Flaw::TakesAtExpiry) => Duration::ZERO,
            Some(Flaw::WaitsOwnLeaseOnly) => own,
            _ => Sound.whole_lease(own, holders),
        }
    }

    fn word_of_holder(self, said: Option<Time>) -> Option<Time> {
        if self.has(Flaw::TrustsAStandingRow) { None } else { Sound.word_of_holder(said) }
    }

    fn is_unchanged(self, last_seen: &SeenHolder, holder: &Holder) -> bool {
        let is_same_reign = last_seen.node == holder.node && last_seen.term == holder.term;
        self.has(Flaw::WaitsFromFirstSight) && is_same_reign || Sound.is_unchanged(last_seen, holder)
    }

    fn taking_of_vacant_row(self, known: Taking) -> Taking {
        if self.has(Flaw::TakesWhatLooksFree) { Taking::Free } else { Sound.taking_of_vacant_row(known) }
    }

    fn missing_until(self, since: Time, longest: Duration) -> Time {
        if self.has(Flaw::TakesWhatIsMissing) { since } else { Sound.missing_until(since, longest) }
    }

    fn waits_from(self, has_fallen: bool, sent: Time, now: Time) -> Option<Time> {
        let from = Sound.waits_from(has_fallen, sent, now);
        from.or_else(|| self.has(Flaw::WaitsFromHearsay).then_some(sent))
    }

    fn is_rival(self, me: &NodeId, other: &NodeId) -> bool {
        !self.has(Flaw::IgnoresRivals) && Sound.is_rival(me, other)
    }

    fn is_ahead_of_store(self, stored: Option<u64>, term: u64) -> bool {
        !self.has(Flaw::WaitsForFirstWordOnly) && Sound.is_ahead_of_store(stored, term)
    }

    fn is_named_by_row(self, row: &NodeId, leader: &NodeId) -> bool {
        self.has(Flaw::TrustsTheRowsName) || Sound.is_named_by_row(row, leader)
    }

    fn waits_elsewhere(self, leader: Elsewhere) -> Option<Elsewhere> {
        let is_deaf = self.has(Flaw::WaitsForFirstWordOnly) || self.has(Flaw::WaitsInKnownTermOnly);
        Sound.waits_elsewhere(leader).filter(|_| !is_deaf)
    }

    fn listens(self, known: u64, has_agreed: bool) -> bool {
        match self.0 {
            Some(Flaw::DeafOnArrival) => false,
            Some(Flaw::ListensInFirstTermOnly) if known > 0 => false,
            Some(Flaw::ListensInVain) => true,
            _ => Sound.listens(known, has_agreed),
        }
    }

    fn came_late(self, term: u64, agreed: u64) -> bool {
        !self.has(Flaw::WaitsForLateWords) && Sound.came_late(term, agreed)
    }

    fn is_waited_out(self, now: Time, last_word: Time, renewed: Time, lease: Duration) -> bool {
        self.has(Flaw::ForgetsWhoIsDown) || Sound.is_waited_out(now, last_word, renewed, lease)
    }

    fn term_to_remember(self, heard: u64) -> u64 {
        if self.has(Flaw::ForgetsOthersTerms) { 0 } else { Sound.term_to_remember(heard) }
    }

    fn acquires_above(self, known: u64, floor: u64) -> u64 {
        if self.has(Flaw::TermOfStoreAlone) { 0 } else { Sound.acquires_above(known, floor) }
    }

    fn was_led_before(self, term: u64, known: u64) -> bool {
        !self.has(Flaw::LeadsBelowKnownTerm) && Sound.was_led_before(term, known)
    }

    fn holds_release_up(self, is_at_work: bool) -> bool {
        !self.has(Flaw::ReleasesBeforeWorkEnds) && Sound.holds_release_up(is_at_work)
    }

    fn due_after_release(self, due: Time, at_once: Time) -> Time {
        if self.has(Flaw::DeafToReleases) { due } else { Sound.due_after_release(due, at_once) }
    }

    fn pause_while_held(self, pause: Duration, left: Duration) -> Duration {
        if self.has(Flaw::PausesPastExpiry) { pause } else { Sound.pause_while_held(pause, left) }
    }

    fn pace(self, timing: &ContenderTiming) -> Duration {
        if self.has(Flaw::RenewsLate) { timing.renewal_interval } else { Sound.pace(timing) }
    }

    fn is_kept_from_leading(self, is_draining: bool) -> bool {
        !self.has(Flaw::LeadsWhenDraining) && Sound.is_kept_from_leading(is_draining)
    }

    fn led_by_voters_until(self, until: Time) -> Option<Time> {
        if self.has(Flaw::LeadsBesideVoters) { None } else { Sound.led_by_voters_until(until) }
    }
}
