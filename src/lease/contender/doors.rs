//! The vocabulary of the machine's doors: what it is born with, and what comes out.
//!
//! What goes in are the methods of [`Contender`](super::Contender).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::alarm::ContenderAlarm;
use super::timing::LeaseTiming;
use crate::core::election::LossReason;
use crate::core::{LeadershipState, NodeId, Time};
use crate::lease::{LeaseName, MAX_LEASES};

/// What a contender is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContenderBirth {
    /// This node's name.
    pub node: NodeId,
    /// Where other agents' calls reach it, kept in its liveness row.
    pub rpc_address: Option<SocketAddr>,
    /// The pace, checked.
    pub timing: LeaseTiming,
    /// The leases to contend for; more can be added.
    pub leases: Vec<LeaseName>,
    /// The highest terms that the disk knows of, also of leases that may be added later.
    pub terms: BTreeMap<LeaseName, u64>,
    /// Where chance begins: never the same for two lives of any node, since tokens are drawn from it.
    pub seed: [u8; 32],
}

/// One lease more than an agent may contend for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an agent contends for at most {MAX_LEASES} leases: remove one, or let another agent contend for this one")]
pub struct TooManyLeases;

/// Who leads by a lease, as far as this node knows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The lease.
    pub lease: LeaseName,
    /// Vacant, led, or unavailable: the store does not answer, so that nobody is known to lead.
    pub state: LeadershipState,
    /// The leader.
    pub leader: Option<NodeId>,
    /// The highest term known: the fencing token if this node leads.
    pub term: u64,
    /// This node leads, by a token of its own, not by its name.
    pub is_me: bool,
    /// Until when that holds, on the clock of the inputs: this node's claim, or another's as it is shown here.
    pub valid_until: Option<Time>,
}

/// What comes out of the machine, to be carried out in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Output {
    /// Keep the highest term of this lease in the data directory.
    Persist {
        /// The lease.
        lease: LeaseName,
        /// Its highest term known.
        term: u64,
    },
    /// Tell all other agents, for [`Contender::heard`](super::Contender::heard). What they hear they may tell on; what they
    /// saw in the store they must not.
    Tell {
        /// The lease.
        lease: LeaseName,
        /// The term that this node has.
        term: u64,
        /// It has given it up.
        is_released: bool,
    },
    /// Who leads has changed, or for how long.
    Claim(Claim),
    /// A leader is known that was not known before.
    Elected {
        /// The lease.
        lease: LeaseName,
        /// Its term.
        term: u64,
        /// The node that leads.
        leader: NodeId,
        /// It is this one.
        is_me: bool,
    },
    /// A leader is one no more.
    Lost {
        /// The lease.
        lease: LeaseName,
        /// Its term.
        term: u64,
        /// The node that led.
        leader: NodeId,
        /// It was this one.
        was_me: bool,
        /// The reason.
        reason: LossReason,
    },
    /// End all that is led in this term, and say so by [`Contender::work_ended`](super::Contender::work_ended). Until then
    /// the lease is not released, nor acquired anew.
    AwaitWork {
        /// The lease.
        lease: LeaseName,
        /// The term that was led.
        term: u64,
    },
    /// An operator is to hear of this.
    Alarm(ContenderAlarm),
    /// All that was held is released: nothing more is asked of the store.
    Stopped,
}
