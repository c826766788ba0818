//! Options: the properties of a world that are chosen before it begins.
//!
//! Must not know: the world.

use std::ops::Range;
use std::time::Duration;

use super::LeaseOptions;
use crate::network::Conditions;
use headcount_core::election::LeaseTiming;
use headcount_core::{Profile, Settings};

/// A second cluster of the same name: its nodes and those of the first one do not know each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecondCluster {
    /// The numbers of its nodes at the beginning, which come after those of the first cluster.
    pub nodes: Range<usize>,
    /// The number of the first of them that vote, and are the seeds of all of them.
    pub voters: usize,
}

impl SecondCluster {
    /// Returns the numbers of its voters.
    pub fn voters(&self) -> Range<usize> {
        self.nodes.start..self.nodes.start + self.voters
    }
}

/// The properties of a world.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, not a state")]
pub struct WorldOptions {
    /// Seeds every random choice.
    pub seed: u64,
    /// Nodes at the beginning. They are all started at once.
    pub nodes: usize,
    /// The number of the first nodes that are everybody's seeds.
    pub seeds: usize,
    /// Pace and sizes of every node.
    pub settings: Settings,
    /// Settings that nodes have in turns instead, if there are any.
    pub mixed: Vec<Settings>,
    /// The usual conditions of the network.
    pub conditions: Conditions,
    /// The number of the first nodes that vote; leaders are elected if there are any. They always keep their disks.
    pub voters: usize,
    /// Some of the nodes are a cluster of their own at the beginning, which has voters as well.
    pub second: Option<SecondCluster>,
    /// The pace of elections.
    pub lease: LeaseTiming,
    /// Clock rates of voters are wrong by up to so many parts per million, often by that much.
    pub voter_clock_error_ppm: u64,
    /// The longest time that led work takes to end, once it is to.
    pub led_work: Duration,
    /// Chance that it hardly ends within the lease, or does not.
    pub hanging_work: f64,
    /// Contenders for leases in a database, if there are any.
    pub leases: Option<LeaseOptions>,
    /// Addresses are IPv6.
    pub ipv6: bool,
    /// Clock rates are wrong by up to so many parts per million.
    pub clock_error_ppm: u64,
    /// Chance that a node keeps nothing on disk.
    pub diskless: f64,
    /// Corrupt datagrams arrive even if they make sense. UDP's checksum catches nearly all of them; what it misses
    /// is forged news, which no unsealed protocol can tell from truth. If not, only garbage arrives.
    pub forging: bool,
    /// Everything is sealed, and only what is sealed is taken.
    pub sealed: bool,
    /// Nodes forget a member at most so far apart: the longest pause of any schedule.
    pub reaping_spread: Duration,
    /// Equal records of all cores are one in memory. It changes nothing but that.
    pub shared: bool,
    /// Lines for people are kept.
    pub verbose: bool,
}

impl WorldOptions {
    fn second_of(&self, node: usize) -> Option<&SecondCluster> {
        self.second.as_ref().filter(|second| second.nodes.contains(&node))
    }

    /// Returns the numbers of the voters that a node is configured with.
    pub fn voters_of(&self, node: usize) -> Range<usize> {
        self.second_of(node).map_or(0..self.voters, SecondCluster::voters)
    }

    /// Returns the numbers of a node's seeds.
    pub fn seeds_of(&self, node: usize) -> Range<usize> {
        let of_first = self.second.as_ref().map_or(self.seeds, |second| self.seeds.min(second.nodes.start));
        self.second_of(node).map_or(0..of_first, SecondCluster::voters)
    }

    /// Returns the options of a quiet world.
    pub fn new(seed: u64, nodes: usize, settings: Settings) -> Self {
        Self {
            seed,
            nodes,
            seeds: nodes.min(3),
            settings,
            mixed: Vec::new(),
            conditions: Conditions::default(),
            voters: 0,
            second: None,
            lease: Profile::Default.lease_timing(),
            voter_clock_error_ppm: 200,
            led_work: Duration::from_millis(20),
            hanging_work: 0.0,
            leases: None,
            ipv6: false,
            clock_error_ppm: 200,
            diskless: 0.0,
            forging: false,
            sealed: false,
            reaping_spread: Duration::from_secs(30),
            shared: true,
            verbose: false,
        }
    }
}
