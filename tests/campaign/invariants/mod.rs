//! The promises of the protocol as checks, made after every simulated step.
//!
//! [`Invariant`] names each promise, and `simulation/caught.rs` has a bug for each that breaks it; `run_checker` checks one run of one node by itself, `leaders` checks elections,
//! `leases` checks leases in a database, [`Checker`] checks across runs and nodes. A broken promise is a value, a
//! [`Violation`], never a panic.
//!
//! Invariants: checking changes nothing in the world and draws no randomness, so a run with checks has the same trace
//! as one without. Must not know: how the core keeps any of its promises; it looks at outputs and at views alone.
//!
//! | idea | file |
//! |---|---|
//! | across runs and nodes | `checker` |
//! | one run of one node | `run_checker` |
//! | leaders and voters; electorates that meet; contenders for leases | `leaders`, `electorates`, `leases` |
//! | suspicions end | `suspicions` |
//! | a table by a node's number | `per_node` |

mod checker;
mod electorates;
mod leaders;
mod leases;
mod per_node;
mod run_checker;
mod suspicions;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use checker::Checker;
pub use electorates::ElectoratesReached;
pub(crate) use leaders::Standing;
pub use leases::LeaseReached;
pub(crate) use run_checker::Finding;

use headcount_core::{Core, NodeId, Record};

/// Makes of each row a variant, its name, and a place among all.
macro_rules! invariants {
    ($($(#[$meaning:meta])* $invariant:ident = $name:literal,)*) => {
        /// The promises of the protocol.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Invariant {
            $($(#[$meaning])* $invariant,)*
        }

        impl Invariant {
            /// All promises, in the order in which they are documented.
            pub const ALL: &[Invariant] = &[$(Invariant::$invariant,)*];

            /// Returns the name, for people and for searching.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Invariant::$invariant => $name,)*
                }
            }
        }
    };
}

invariants! {
    /// Every record in a view is well-formed and encodes within its bound; names are unique and in order; there are not
    /// more records than a view may hold.
    RecordsWellFormed = "records_well_formed",
    /// Only its owner writes a node's own record in its own view: name and run stay, its address and tags are ones that it
    /// was given, but for its own marks, its incarnation never falls, and it is never Suspect or Down.
    OwnRecordIsOwn = "own_record_is_own",
    /// At one observer, a member's incarnation never falls while its record is kept.
    IncarnationNeverFalls = "incarnation_never_falls",
    /// At one observer, precedence never falls while a record is kept: a member that is Down or Left returns only with
    /// a higher incarnation, also while its tombstone is kept.
    NoResurrection = "no_resurrection",
    /// The fingerprint of a node that is Up is the sum of the hashes of the records in its view.
    FingerprintIsTheSum = "fingerprint_is_the_sum",
    /// Equal fingerprints mean equal views.
    EqualFingerprintsEqualViews = "equal_fingerprints_equal_views",
    /// The changes reported, folded, are the view (joiners, held beside it, aside).
    EventsFoldToTheView = "events_fold_to_the_view",
    /// Each transition is reported once, in order, under its right name, with the record before it; a member that is
    /// Down is not reported Down again.
    TransitionsOnce = "transitions_once",
    /// A partition has two unreachable members at least, its sides are sorted and disjoint, the node itself is on the
    /// reachable side, and an end is only reported of a partition that was suspected.
    PartitionsAreSound = "partitions_are_sound",
    /// On becoming Up, a node knows all members that were Up at its sponsor when the transfer began.
    TransferIsWhole = "transfer_is_whole",
    /// No datagram is larger than `mtu`.
    DatagramsWithinBounds = "datagrams_within_bounds",
    /// No storms: a node sends a limited number of datagrams in a quarter of a second, and one input has a limited
    /// number of outputs.
    TrafficIsBounded = "traffic_is_bounded",
    /// No process gives its programs the same message twice.
    MessagesOnce = "messages_once",
    /// Every copy of a message is counted once: as delivered, as a duplicate, or as dropped.
    MessageCountsAddUp = "message_counts_add_up",
    /// A while after everything was healed, a broadcast reaches everybody, although a fifth of all packets is lost.
    BroadcastsReach = "broadcasts_reach",
    /// Nothing comes out of a core that has stopped.
    SilentAfterStop = "silent_after_stop",
    /// A run that left, or was removed, is listed as live by no node a while later.
    LeftStaysLeft = "left_stays_left",
    /// No node uses an incarnation above the bound on its disk.
    IncarnationWithinStoredBound = "incarnation_within_stored_bound",
    /// A run that starts on a kept disk begins above every incarnation of the runs before it.
    RestartsRise = "restarts_rise",
    /// Every start draws a run that was never used before.
    RunsAreFresh = "runs_are_fresh",
    /// Over a network that is undisturbed for both, no node holds a member that is running well for Suspect or Down:
    /// neither by its own judgement, not even just after a pause, nor by another one's word.
    HealthyNeverAccused = "healthy_never_accused",
    /// A suspicion lasts a down timeout (as its observer stretches it) at most: then the member has refuted or is Down.
    SuspicionsEnd = "suspicions_end",
    /// The death of a process is known to all others within a second (two, if most die at once), a host's loss of power
    /// by its down timeout.
    DeathIsKnown = "death_is_known",
    /// Each side of a cut holds all of the other side for Down by their down timeouts.
    CutIsKnown = "cut_is_known",
    /// A cut is reported before the first death by silence, and with all members of both sides.
    CutIsReportedWhole = "cut_is_reported_whole",
    /// No table of a core grows without bound, and little is left in them when all is quiet.
    TablesAreBounded = "tables_are_bounded",
    /// A node that left over an undisturbed network is reported as Down by no node.
    LeaversHaveLeft = "leavers_have_left",
    /// A leader that is well, and hears a majority of voters that are well, stays leader.
    HealthyLeaderStays = "healthy_leader_stays",
    /// No address gets more bytes than were sent by it, or by those who named it.
    NobodyIsFlooded = "nobody_is_flooded",
    /// No nonce is used twice; no process opens a datagram twice, whatever address it comes from, or one that is sealed
    /// with a key that was removed; nobody is answered who has sealed nothing.
    SealsHold = "seals_hold",
    /// A core stops only if its user or an operator asked for it.
    NoUnaskedStop = "no_unasked_stop",
    /// After an input of time that is due, the next deadline is later.
    TimePasses = "time_passes",
    /// The core does not panic.
    NoPanic = "no_panic",
    /// A while after everything was healed, all running nodes are Up, agree, and list each other as Up.
    Converges = "converges",
    /// No term has two leaders, by any node's word; not even two processes of one node.
    OneLeaderPerTerm = "one_leader_per_term",
    /// At every instant of true time at most one process holds a claim by its own clock, or still runs work under one.
    OneClaimAtATime = "one_claim_at_a_time",
    /// A process that says that it leads holds a claim that has not ended by its own clock.
    ClaimsEndInTime = "claims_end_in_time",
    /// The term that a process shows never falls; a disk that is kept forgets no term in which its node claimed, voted
    /// or acknowledged.
    TermsNeverFall = "terms_never_fall",
    /// A voter votes for one candidate in each term.
    OneVotePerTerm = "one_vote_per_term",
    /// An agreed view of the same generation and number has the same members and voters everywhere, for ever; at each
    /// process numbers only rise.
    OneViewPerNumber = "one_view_per_number",
    /// Events of leaders alternate between elected and lost, and the leader shown is that of the last event.
    LeaderEventsFold = "leader_events_fold",
    /// A while after everything was healed, a leader leads and all members name it, if enough voters run.
    LeaderIsElected = "leader_is_elected",
    /// An electorate ends only for one that stands over it; and a voter whose electorate has ended votes, acknowledges and
    /// leads in it no more, also after a restart from its disk.
    EndedStaysEnded = "ended_stays_ended",
    /// A while after everything was healed, a store that is written to with fencing tokens takes every write of the leader,
    /// and none of any other electorate, however late.
    FencesHold = "fences_hold",
    /// At every instant of true time at most one process holds a claim to a lease in a database by its own clock, as
    /// far as the rules reach after lost commits.
    OneLeaseClaimAtATime = "one_lease_claim_at_a_time",
    /// No term of a lease is led by two processes, or twice by one, or by one that knew of it or of a higher one.
    OneLeaderPerLeaseTerm = "one_leader_per_lease_term",
    /// The term of a lease that a process shows never falls.
    LeaseTermsNeverFall = "lease_terms_never_fall",
    /// A process that says that it leads by a lease holds a claim that its own clock has not passed.
    LeaseClaimsEndInTime = "lease_claims_end_in_time",
    /// A leader that the database rejects, or that hears of a higher term, leads by that lease no more.
    DeposedLeadersStop = "deposed_leaders_stop",
    /// A lease is released, or led in a new term, only when all that was led by it has ended.
    LedWorkEndsFirst = "led_work_ends_first",
    /// Once the database answers, a lease is led within its duration and a renewal interval, if somebody contends for
    /// it.
    LeaseIsLed = "lease_is_led",
    /// A lease goes on being led in its term as long as nothing is wrong.
    LeaseLeaderStays = "lease_leader_stays",
    /// A while after everything was healed, all contenders show the leader and the term that the database holds, and no
    /// word of a higher one goes about.
    LeaseWordsAgree = "lease_words_agree",
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

    /// Returns the record of this name.
    pub fn record(&self, id: &NodeId) -> Option<&Arc<Record>> {
        self.records.binary_search_by(|record| record.id.cmp(id)).ok().map(|position| &self.records[position])
    }
}
