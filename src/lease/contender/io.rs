//! The types of the machine's interface: its initial state, and its output.
//!
//! The inputs are the methods of [`Contender`](super::Contender).

use std::collections::BTreeMap;

use super::alarm::ContenderAlarm;
use super::timing::ContenderTiming;
use crate::{LeaseName, MAX_LEASES};
use headcount_core::election::LossReason;
use headcount_core::{LeadershipState, NodeId, Time};

/// The initial state of a contender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContenderInit {
    /// This node's name.
    pub node: NodeId,
    /// The timing of leases, checked.
    pub timing: ContenderTiming,
    /// The leases to contend for; more can be added.
    pub leases: Vec<LeaseName>,
    /// The highest terms on the disk, also of leases that may be added later.
    pub terms: BTreeMap<LeaseName, u64>,
    /// The highest terms that were led in another way, by voters: leases are taken in terms above them. Nobody is
    /// waited for.
    pub floors: BTreeMap<LeaseName, u64>,
    /// The seed of the random numbers: never the same for two lives of any node, since tokens are drawn from it.
    pub seed: [u8; 32],
}

/// The refusal of one lease more than an agent may contend for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an agent contends for at most {MAX_LEASES} leases: remove one, or let another agent contend for this one")]
pub struct TooManyLeases;

/// The leadership by a lease, as far as this node knows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The lease.
    pub lease: LeaseName,
    /// The state: vacant, led, or unavailable, which means that the store does not answer, so that no leader is known.
    pub state: LeadershipState,
    /// The leader.
    pub leader: Option<NodeId>,
    /// The highest term known: the fencing token if this node leads.
    pub term: u64,
    /// True if this node leads, by a token of its own, not by its name.
    pub is_me: bool,
    /// The end of that, on the clock of the inputs: of this node's claim, or of another's as it is shown here.
    pub valid_until: Option<Time>,
}

/// An output of the machine, to be carried out in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Output {
    /// The highest term of this lease is to be kept in the data directory.
    Persist {
        /// The lease.
        lease: LeaseName,
        /// The lease's highest known term.
        term: u64,
    },
    /// All other agents are to be told, for [`Contender::heard`](super::Contender::heard). They may pass on what they
    /// hear; what they saw in the store they must not pass on.
    Tell {
        /// The lease.
        lease: LeaseName,
        /// The term that this node holds.
        term: u64,
        /// True if this node has given it up.
        is_released: bool,
    },
    /// The leader has changed, or the time for which it is known.
    Claim(Claim),
    /// A leader is known that was not known before.
    Elected {
        /// The lease.
        lease: LeaseName,
        /// The leader's term.
        term: u64,
        /// The node that leads.
        leader: NodeId,
        /// True if it is this node.
        is_me: bool,
    },
    /// A leader leads no more.
    Lost {
        /// The lease.
        lease: LeaseName,
        /// The leader's term.
        term: u64,
        /// The node that led.
        leader: NodeId,
        /// True if it was this node.
        was_me: bool,
        /// The reason of the loss.
        reason: LossReason,
    },
    /// All work led in this term is to be ended, and reported by
    /// [`Contender::work_ended`](super::Contender::work_ended). Until then the lease is neither released nor acquired
    /// anew.
    AwaitWork {
        /// The lease.
        lease: LeaseName,
        /// The term that was led.
        term: u64,
    },
    /// An operator is to be told of this.
    Alarm(ContenderAlarm),
    /// All held leases are released: nothing more is asked of the store.
    Stopped,
}
