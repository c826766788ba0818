//! The promises of the protocol as checks, made after every simulated step.
//!
//! [`Invariant`] names each promise; `observer` checks what one run of one node shows of itself, `leaders` what concerns
//! elections, `leases` leases in a database, [`Checker`] what only shows across runs and nodes. A broken promise is a value, a [`Violation`], never a panic.
//!
//! Invariants: checking changes nothing in the world and draws no randomness, so a run with checks has the same trace as
//! one without. Must not know: how the core keeps any of its promises; it looks at outputs and at views alone.

mod checker;
mod leaders;
mod leases;
mod limbo;
mod observer;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use checker::Checker;
pub use leases::LeaseReached;
pub(crate) use leases::LeaseWatch;
pub(crate) use observer::Finding;

use crate::core::{Core, NodeId, Record};

/// The promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Invariant {
    /// Every record in a view is well-formed, encodes within its bound, and stands once, in the order of names; there
    /// are not more of them than a view may hold.
    RecordsWellFormed,
    /// A node's own record in its own view is written by nobody else: name, run and address stay, tags are ones it was
    /// given, its incarnation never falls, and it never holds itself Suspect or Down.
    OwnRecordIsOwn,
    /// At one observer, a member's incarnation never falls while its record is kept.
    IncarnationNeverFalls,
    /// At one observer, precedence never falls while a record is kept: who is Down or Left returns with a higher
    /// incarnation or not at all. While it is buried, neither.
    NoResurrection,
    /// The fingerprint of a node that is Up is the sum of the hashes of the records in its view.
    FingerprintIsTheSum,
    /// Equal fingerprints mean equal views.
    EqualFingerprintsEqualViews,
    /// The changes reported, folded, are the view (joiners, held beside it, aside).
    EventsFoldToTheView,
    /// Each transition is reported once, in order, under its right name, with the record before it; a member that is
    /// Down is not reported Down again.
    TransitionsOnce,
    /// A partition is of two members at least, its sides are sorted and have nobody in common, the node itself is on the
    /// side that it reaches, and only one that was suspected is over.
    PartitionsAreSound,
    /// On becoming Up, a node knows everybody that was Up at its sponsor when the transfer began.
    TransferIsWhole,
    /// No datagram is larger than `mtu`.
    DatagramsWithinBounds,
    /// No storms: a node sends at most so many datagrams in a quarter of a second, and one input has at most so many
    /// outputs.
    TrafficIsBounded,
    /// No process gives its programs the same message twice.
    MessagesOnce,
    /// Every copy of a message was delivered, a duplicate, or dropped, and is counted as that.
    MessageCountsAddUp,
    /// A while after everything was healed, a broadcast reaches everybody, although a fifth of all packets is lost.
    BroadcastsReach,
    /// Nothing comes out of a core that has stopped.
    SilentAfterStop,
    /// A run that left, or was removed, is listed live nowhere a while later.
    LeftStaysLeft,
    /// No incarnation is used that is above the bound on the disk.
    IncarnationWithinStoredBound,
    /// A run that starts on a kept disk begins above every incarnation of the runs before it.
    RestartsRise,
    /// Every start draws a run of its own.
    RunsAreFresh,
    /// Over a network where nothing is wrong with either of them, nobody believes that a member which is running well is
    /// Suspect or Down: neither by itself, not even just after a pause, nor because somebody says so.
    HealthyNeverAccused,
    /// Nobody is held Suspect for longer than a down timeout (as its observer stretches it) without refuting: then it is Down.
    SuspicionsEnd,
    /// A process that dies is known as dead to all others within a second (two, where most die at once), a host without
    /// power by its down timeout.
    DeathIsKnown,
    /// Both sides of a cut hold all of the other one for Down by their down timeouts.
    CutIsKnown,
    /// A cut is reported before the first death by silence, with all of both sides.
    CutIsReportedWhole,
    /// Nothing that a core keeps grows without bound, and when all is quiet little of it is left.
    TablesAreBounded,
    /// Who said goodbye over a network where nothing is wrong is nowhere reported as Down.
    LeaversHaveLeft,
    /// A leader that is well, and hears a majority of voters that are, goes on leading.
    HealthyLeaderStays,
    /// No address gets more bytes than it, or who named it, sent.
    NobodyIsFlooded,
    /// A core stops only if its user or an operator asked for it.
    NoUnaskedStop,
    /// Handing in time that is due moves the next deadline.
    TimePasses,
    /// The core does not panic.
    NoPanic,
    /// A while after everything was healed, all running nodes are Up, agree, and list each other as Up.
    Converges,
    /// No term has two leaders, whoever tells of them; not even two processes of one node.
    OneLeaderPerTerm,
    /// At every instant of true time at most one process holds a claim by its own clock, or runs what it led by one.
    OneClaimAtATime,
    /// A process that says that it leads holds a claim that its own clock has not passed.
    ClaimsEndInTime,
    /// The term that a process shows never falls; none that a node claimed, voted or acknowledged in is forgotten by a
    /// disk that is kept.
    TermsNeverFall,
    /// A voter votes for one candidate in each term.
    OneVotePerTerm,
    /// The same number of an agreed view (and generation) means the same members and voters everywhere, for ever; at each
    /// process numbers only rise.
    OneViewPerNumber,
    /// Leaders are told of as elected and lost in turns, and what was told last is what is shown.
    LeaderEventsFold,
    /// A while after everything was healed, a leader leads and all members name it, if enough voters are there.
    LeaderIsElected,
    /// At every instant of true time at most one process holds a claim to a lease in a database by its own clock, as far as
    /// the rules reach after lost commits.
    OneLeaseClaimAtATime,
    /// No term of a lease is led by two processes, or twice by one, or by one that knew of it or of a higher one.
    OneLeaderPerLeaseTerm,
    /// The term of a lease that a process shows never falls.
    LeaseTermsNeverFall,
    /// A process that says that it leads by a lease holds a claim that its own clock has not passed.
    LeaseClaimsEndInTime,
    /// A leader that the database rejects, or that hears of a higher term, leads by that lease no more.
    DeposedLeadersStop,
    /// A lease is released, or led in a new term, only when all that was led by it has ended.
    LedWorkEndsFirst,
    /// Once the database answers, a lease is led within its duration and a renewal interval, if somebody contends for it.
    LeaseIsLed,
    /// A lease goes on being led in its term as long as nothing is wrong.
    LeaseLeaderStays,
    /// A while after everything was healed, all contenders show the leader and the term that the database holds, and no word
    /// of a higher one goes about.
    LeaseWordsAgree,
}

impl Invariant {
    /// Its name, for people and for searching.
    pub const fn name(self) -> &'static str {
        match self {
            Invariant::RecordsWellFormed => "records_well_formed",
            Invariant::OwnRecordIsOwn => "own_record_is_own",
            Invariant::IncarnationNeverFalls => "incarnation_never_falls",
            Invariant::NoResurrection => "no_resurrection",
            Invariant::FingerprintIsTheSum => "fingerprint_is_the_sum",
            Invariant::EqualFingerprintsEqualViews => "equal_fingerprints_equal_views",
            Invariant::EventsFoldToTheView => "events_fold_to_the_view",
            Invariant::TransitionsOnce => "transitions_once",
            Invariant::PartitionsAreSound => "partitions_are_sound",
            Invariant::TransferIsWhole => "transfer_is_whole",
            Invariant::DatagramsWithinBounds => "datagrams_within_bounds",
            Invariant::TrafficIsBounded => "traffic_is_bounded",
            Invariant::MessagesOnce => "messages_once",
            Invariant::MessageCountsAddUp => "message_counts_add_up",
            Invariant::BroadcastsReach => "broadcasts_reach",
            Invariant::SilentAfterStop => "silent_after_stop",
            Invariant::LeftStaysLeft => "left_stays_left",
            Invariant::IncarnationWithinStoredBound => "incarnation_within_stored_bound",
            Invariant::RestartsRise => "restarts_rise",
            Invariant::RunsAreFresh => "runs_are_fresh",
            Invariant::HealthyNeverAccused => "healthy_never_accused",
            Invariant::SuspicionsEnd => "suspicions_end",
            Invariant::DeathIsKnown => "death_is_known",
            Invariant::CutIsKnown => "cut_is_known",
            Invariant::CutIsReportedWhole => "cut_is_reported_whole",
            Invariant::TablesAreBounded => "tables_are_bounded",
            Invariant::LeaversHaveLeft => "leavers_have_left",
            Invariant::HealthyLeaderStays => "healthy_leader_stays",
            Invariant::NobodyIsFlooded => "nobody_is_flooded",
            Invariant::NoUnaskedStop => "no_unasked_stop",
            Invariant::TimePasses => "time_passes",
            Invariant::NoPanic => "no_panic",
            Invariant::Converges => "converges",
            Invariant::OneLeaderPerTerm => "one_leader_per_term",
            Invariant::OneClaimAtATime => "one_claim_at_a_time",
            Invariant::ClaimsEndInTime => "claims_end_in_time",
            Invariant::TermsNeverFall => "terms_never_fall",
            Invariant::OneVotePerTerm => "one_vote_per_term",
            Invariant::OneViewPerNumber => "one_view_per_number",
            Invariant::LeaderEventsFold => "leader_events_fold",
            Invariant::LeaderIsElected => "leader_is_elected",
            Invariant::OneLeaseClaimAtATime => "one_lease_claim_at_a_time",
            Invariant::OneLeaderPerLeaseTerm => "one_leader_per_lease_term",
            Invariant::LeaseTermsNeverFall => "lease_terms_never_fall",
            Invariant::LeaseClaimsEndInTime => "lease_claims_end_in_time",
            Invariant::DeposedLeadersStop => "deposed_leaders_stop",
            Invariant::LedWorkEndsFirst => "led_work_ends_first",
            Invariant::LeaseIsLed => "lease_is_led",
            Invariant::LeaseLeaderStays => "lease_leader_stays",
            Invariant::LeaseWordsAgree => "lease_words_agree",
        }
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// At which node it showed, if at one.
    pub node: Option<NodeId>,
    /// When, since the start of the simulation.
    pub time: Duration,
    /// What was seen, and what should have been.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} broken at {:.4}s", self.invariant, self.time.as_secs_f64())?;
        if let Some(node) = &self.node {
            write!(f, " at node {node}")?;
        }
        write!(f, ": {}", self.detail)
    }
}

/// A look at one core.
#[derive(Debug, Clone)]
pub struct Observation {
    /// Its own record.
    pub me: Arc<Record>,
    /// Whether it has joined.
    pub is_up: bool,
    /// Of its view.
    pub fingerprint: u64,
    /// Its view, in the order of names.
    pub records: Vec<Arc<Record>>,
}

impl Observation {
    /// Looks.
    pub fn of(core: &Core) -> Self {
        Self {
            me: Arc::clone(core.me()),
            is_up: core.is_up(),
            fingerprint: core.fingerprint(),
            records: core.records().map(|(record, _)| Arc::clone(record)).collect(),
        }
    }

    /// Whether it is the very same as another look, record by record in memory.
    fn is_same(&self, other: &Self) -> bool {
        let head = |look: &Self| (Arc::as_ptr(&look.me), look.is_up, look.fingerprint, look.records.len());
        let mut pairs = self.records.iter().zip(&other.records);
        head(self) == head(other) && pairs.all(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// The record of this name.
    pub fn record(&self, id: &NodeId) -> Option<&Arc<Record>> {
        self.records.binary_search_by(|record| record.id.cmp(id)).ok().map(|position| &self.records[position])
    }
}

/// A record in a few words.
pub(crate) fn in_short(record: &Record) -> String {
    format!("{} {} {} run {}", record.id, record.status, record.incarnation, record.run)
}
