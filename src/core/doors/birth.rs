//! What a core is born with.

use std::net::SocketAddr;

#[cfg(doc)]
use super::{Input, Output};
use crate::core::election::Ballot;
use crate::core::member::{NodeId, Run, Tags};
use crate::core::settings::{LeaderPolicy, LeaseTiming, Settings};

/// The settings and the identity that a core is born with.
#[derive(Debug, Clone)]
pub struct Birth {
    /// The node's name.
    pub id: NodeId,
    /// This process: 64 random bits.
    pub run: Run,
    /// The cluster's name (same alphabet as node names).
    pub cluster: NodeId,
    /// `max(unix milliseconds, stored bound + 1)`.
    pub incarnation: u64,
    /// The incarnation bound that is already stored (or that needs no storing, where nothing is durable).
    pub stored_bound: u64,
    /// Where others send to.
    pub address: SocketAddr,
    /// Where users of the node reach it.
    pub api_address: Option<Box<str>>,
    /// The facts that the node tells about itself.
    pub tags: Tags,
    /// Its software version.
    pub version: std::sync::Arc<str>,
    /// Pace and sizes, checked.
    pub settings: Settings,
    /// How many seeds the configuration names; their addresses arrive as [`Input::SeedAddresses`].
    pub seeds: usize,
    /// Addresses remembered from an earlier run.
    pub remembered: Vec<SocketAddr>,
    /// Seeds every random choice.
    pub random_seed: u64,
    /// If leaders are elected by quorum.
    pub leadership: Option<QuorumBirth>,
}

/// The further settings of a core that takes part in electing leaders.
#[derive(Debug, Clone)]
pub struct QuorumBirth {
    /// The pace, checked.
    pub timing: LeaseTiming,
    /// How it leads, beside the pace.
    pub policy: LeaderPolicy,
    /// The names configured as voters.
    pub voters: Vec<NodeId>,
    /// The ballot that the disk holds; a [blank](Ballot::blank) one at the first start. What is given to [`Output::Persist`] must be
    /// durable: a voter that forgets is a danger.
    pub ballot: Ballot,
}
