//! The settings with which a core starts.

use std::net::SocketAddr;

#[cfg(doc)]
use super::{Input, Output};
use crate::election::{Ballot, Term};
use crate::member::{NodeId, Run, Tags};
use crate::settings::{LeaderPolicy, LeaseTiming, Settings};

/// The settings and the identity with which a core starts.
#[derive(Debug, Clone)]
pub struct CoreInit {
    /// The node's name.
    pub id: NodeId,
    /// The run of this process: 64 random bits.
    pub run: Run,
    /// The cluster's name (same alphabet as node names).
    pub cluster: NodeId,
    /// The first incarnation: `max(unix milliseconds, stored bound + 1)`.
    pub incarnation: u64,
    /// The incarnation bound that is already stored (or that needs no storing, if nothing is durable).
    pub stored_bound: u64,
    /// The address that others send to.
    pub address: SocketAddr,
    /// The address at which users of the node reach it.
    pub api_address: Option<Box<str>>,
    /// The tags of the node's record.
    pub tags: Tags,
    /// The software version of the node.
    pub version: std::sync::Arc<str>,
    /// Intervals, timeouts and sizes, checked.
    pub settings: Settings,
    /// The number of seeds in the configuration; their addresses arrive as [`Input::SeedAddresses`].
    pub seeds: usize,
    /// Addresses remembered from an earlier run.
    pub remembered: Vec<SocketAddr>,
    /// The seed of every random choice.
    pub random_seed: u64,
    /// The settings of elections; `None` if leaders are not elected by quorum.
    pub leadership: Option<QuorumInit>,
}

/// The further settings of a core that takes part in electing leaders.
#[derive(Debug, Clone)]
pub struct QuorumInit {
    /// The timing of leases, checked.
    pub timing: LeaseTiming,
    /// The policy of this node as a leader, beside the timing.
    pub policy: LeaderPolicy,
    /// The names configured as voters.
    pub voters: Vec<NodeId>,
    /// The ballot on the disk; a [blank](Ballot::blank) one at the first start. The ballot in every [`Output::Persist`]
    /// must be made durable: a voter that forgets its votes is a danger.
    pub ballot: Ballot,
    /// The highest term that was led in another way, by a lease: this node stands in terms above it.
    pub floor: Term,
    /// The wall clock now, in milliseconds since 1970: the founder of the first electorate names it as its founding.
    pub wall_clock: u64,
}
