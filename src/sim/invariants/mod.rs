//! The promises of the protocol as checks, made after every simulated step.
//!
//! [`Invariant`] names each promise; `run_checker` checks one run of one node by itself, `leaders` checks elections,
//! `leases` checks leases in a database, [`Checker`] checks across runs and nodes. A broken promise is a value, a
//! [`Violation`], never a panic.
//!
//! Invariants: checking changes nothing in the world and draws no randomness, so a run with checks has the same trace
//! as one without. Must not know: how the core keeps any of its promises; it looks at outputs and at views alone.

mod checker;
mod leaders;
mod leases;
mod run_checker;
mod suspicions;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use checker::Checker;
pub use leases::LeaseReached;
pub(crate) use leases::LeaseWatch;
pub(crate) use run_checker::Finding;

use crate::core::{Core, NodeId, Record};

/// The promises of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Invariant {
    /// Every record in a view is well-formed and encodes within its bound; names are unique and in order; there are not
    /// more records than a view may hold.
    RecordsWellFormed,
    /// Only its owner writes a node's own record in its own view: name, run and address stay, tags are ones that it was
    /// given, but for its own marks, its incarnation never falls, and it is never Suspect or Down.
    OwnRecordIsOwn,
    /// At one observer, a member's incarnation never falls while its record is kept.
    IncarnationNeverFalls,
    /// At one observer, precedence never falls while a record is kept: a member that is Down or Left returns only with
    /// a higher incarnation, also while its tombstone is kept.
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
    /// A partition has two unreachable members at least, its sides are sorted and disjoint, the node itself is on the
    /// reachable side, and an end is only reported of a partition that was suspected.
    PartitionsAreSound,
    /// On becoming Up, a node knows all members that were Up at its sponsor when the transfer began.
    TransferIsWhole,
    /// No datagram is larger than `mtu`.
    DatagramsWithinBounds,
    /// No storms: a node sends a limited number of datagrams in a quarter of a second, and one input has a limited
    /// number of outputs.
    TrafficIsBounded,
    /// No process gives its programs the same message twice.
    MessagesOnce,
    /// Every copy of a message is counted once: as delivered, as a duplicate, or as dropped.
    MessageCountsAddUp,
    /// A while after everything was healed, a broadcast reaches everybody, although a fifth of all packets is lost.
    BroadcastsReach,
    /// Nothing comes out of a core that has stopped.
    SilentAfterStop,
    /// A run that left, or was removed, is listed as live by no node a while later.
    LeftStaysLeft,
    /// No node uses an incarnation above the bound on its disk.
    IncarnationWithinStoredBound,
    /// A run that starts on a kept disk begins above every incarnation of the runs before it.
    RestartsRise,
    /// Every start draws a run that was never used before.
    RunsAreFresh,
    /// Over a network that is undisturbed for both, no node holds a member that is running well for Suspect or Down:
    /// neither by its own judgement, not even just after a pause, nor by another one's word.
    HealthyNeverAccused,
    /// A suspicion lasts a down timeout (as its observer stretches it) at most: then the member has refuted or is Down.
    SuspicionsEnd,
    /// The death of a process is known to all others within a second (two, if most die at once), a host's loss of power
    /// by its down timeout.
    DeathIsKnown,
    /// Each side of a cut holds all of the other side for Down by their down timeouts.
    CutIsKnown,
    /// A cut is reported before the first death by silence, and with all members of both sides.
    CutIsReportedWhole,
    /// No table of a core grows without bound, and little is left in them when all is quiet.
    TablesAreBounded,
    /// A node that left over an undisturbed network is reported as Down by no node.
    LeaversHaveLeft,
    /// A leader that is well, and hears a majority of voters that are well, stays leader.
    HealthyLeaderStays,
    /// No address gets more bytes than were sent by it, or by those who named it.
    NobodyIsFlooded,
    /// No nonce is used twice; no process opens a datagram twice, whatever address it comes from, or one that is sealed
    /// with a key that was removed; nobody is answered who has sealed nothing.
    SealsHold,
    /// A core stops only if its user or an operator asked for it.
    NoUnaskedStop,
    /// After an input of time that is due, the next deadline is later.
    TimePasses,
    /// The core does not panic.
    NoPanic,
    /// A while after everything was healed, all running nodes are Up, agree, and list each other as Up.
    Converges,
    /// No term has two leaders, by any node's word; not even two processes of one node.
    OneLeaderPerTerm,
    /// At every instant of true time at most one process holds a claim by its own clock, or still runs work under one.
    OneClaimAtATime,
    /// A process that says that it leads holds a claim that has not ended by its own clock.
    ClaimsEndInTime,
    /// The term that a process shows never falls; a disk that is kept forgets no term in which its node claimed, voted
    /// or acknowledged.
    TermsNeverFall,
    /// A voter votes for one candidate in each term.
    OneVotePerTerm,
    /// An agreed view of the same generation and number has the same members and voters everywhere, for ever; at each
    /// process numbers only rise.
    OneViewPerNumber,
    /// Events of leaders alternate between elected and lost, and the leader shown is that of the last event.
    LeaderEventsFold,
    /// A while after everything was healed, a leader leads and all members name it, if enough voters run.
    LeaderIsElected,
    /// At every instant of true time at most one process holds a claim to a lease in a database by its own clock, as
    /// far as the rules reach after lost commits.
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
    /// Once the database answers, a lease is led within its duration and a renewal interval, if somebody contends for
    /// it.
    LeaseIsLed,
    /// A lease goes on being led in its term as long as nothing is wrong.
    LeaseLeaderStays,
    /// A while after everything was healed, all contenders show the leader and the term that the database holds, and no
    /// word of a higher one goes about.
    LeaseWordsAgree,
}

impl Invariant {
    /// Returns the name, for people and for searching.
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
            Invariant::SealsHold => "seals_hold",
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
    /// The promise.
    pub invariant: Invariant,
    /// The node at which it showed, if it concerns a single one.
    pub node: Option<NodeId>,
    /// Time since the start of the simulation.
    pub time: Duration,
    /// The finding, and what would have been right.
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

/// The visible state of one core at one moment.
#[derive(Debug, Clone)]
pub struct Observation {
    /// The node's own record.
    pub me: Arc<Record>,
    /// True if the node has joined.
    pub is_up: bool,
    /// Fingerprint of the view.
    pub fingerprint: u64,
    /// The records of the view, in the order of names.
    pub records: Vec<Arc<Record>>,
}

impl Observation {
    /// Observes a core.
    pub fn of(core: &Core) -> Self {
        Self {
            me: Arc::clone(core.me()),
            is_up: core.is_up(),
            fingerprint: core.fingerprint(),
            records: core.records().map(|(record, _)| Arc::clone(record)).collect(),
        }
    }

    /// Returns true if both observations are the same, record by record in memory.
    fn is_same(&self, other: &Self) -> bool {
        let head = |look: &Self| (Arc::as_ptr(&look.me), look.is_up, look.fingerprint, look.records.len());
        let mut pairs = self.records.iter().zip(&other.records);
        head(self) == head(other) && pairs.all(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// Returns the record of this name.
    pub fn record(&self, id: &NodeId) -> Option<&Arc<Record>> {
        self.records.binary_search_by(|record| record.id.cmp(id)).ok().map(|position| &self.records[position])
    }
}

/// Describes a record in a few words.
pub(crate) fn in_short(record: &Record) -> String {
    format!("{} {} {} run {}", record.id, record.status, record.incarnation, record.run)
}
