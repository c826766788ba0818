//! The interface of every system under comparison: nodes that start, die and are disturbed in a virtual network.
//!
//! The scenarios know nothing else, so that all systems are measured by the same means: a node's report is taken at the
//! instant at which its own code makes it, and its traffic is counted by the same
//! [`Network`](headcount::sim::network::Network) with the same headers.

use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) use headcount::sim::network::{Conditions, Traffic};

/// One node's report about another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The node is live, for the first time or again.
    Up,
    /// The node has failed.
    Down,
    /// The node's own data changed.
    Changed,
}

/// One report of one node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sighting {
    pub(crate) at: Duration,
    pub(crate) observer: usize,
    pub(crate) subject: usize,
    pub(crate) verdict: Verdict,
}

/// The ways in which a node dies without a goodbye.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    /// Power or network is lost: nothing more comes from its address, and no kernel answers for it.
    Host,
    /// `kill -9`: the kernel lives on and closes the process's connections.
    Process,
}

/// The disturbances that a process survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disturbance {
    /// The process is not scheduled at all: datagrams wait in its socket's buffer, all timers are late.
    Stopped,
    /// The process is starved: every datagram and every timer is late by up to the duration, each independently.
    Starved(Duration),
    /// The process's datagrams wait in both directions while its timers run.
    Blocked,
    /// The process's network is lost in both directions while its timers run.
    CutOff,
}

/// A cluster of one system in the virtual network. Nodes are numbered in the order in which they were started.
pub(crate) trait Cluster {
    /// Returns the virtual time since the beginning.
    fn now(&self) -> Duration;

    /// Lets time pass.
    fn advance(&mut self, by: Duration);

    /// Starts one more node, which is given a seed or as many seeds as the first nodes had; returns its number.
    fn boot(&mut self) -> usize;

    /// Kills a node.
    fn kill(&mut self, node: usize, death: Death);

    /// Disturbs a node for a while. Not every system is put through that.
    fn disturb_process(&mut self, node: usize, disturbance: Disturbance, lasting: Duration) {
        panic!("node {node} was not meant to be {disturbance:?} for {lasting:?}");
    }

    /// Changes a node's own data.
    fn change(&mut self, node: usize);

    /// Sets the conditions of the network from now on.
    fn disturb(&mut self, conditions: Conditions);

    /// Returns true if a node holds another one to be alive.
    fn lists(&self, observer: usize, subject: usize) -> bool;

    /// Returns the reports since the last call.
    fn sightings(&mut self) -> Vec<Sighting>;

    /// Returns the traffic that a node has sent since the beginning.
    fn traffic(&self, node: usize) -> Traffic;
}

/// Sightings of one subject by many observers, to see when the last one knows.
#[derive(Debug)]
pub(crate) struct Detections {
    since: Duration,
    subject: usize,
    verdict: Verdict,
    seen: BTreeMap<usize, Duration>,
}

impl Detections {
    pub(crate) fn new(since: Duration, subject: usize, verdict: Verdict) -> Self {
        Self { since, subject, verdict, seen: BTreeMap::new() }
    }

    /// Takes in a sighting if it is about the subject; the first report of each observer counts.
    pub(crate) fn take(&mut self, sighting: &Sighting) {
        let is_about = sighting.subject == self.subject && sighting.verdict == self.verdict;
        if let Some(after) = sighting.at.checked_sub(self.since).filter(|_| is_about) {
            self.seen.entry(sighting.observer).or_insert(after);
        }
    }

    /// Returns true if all of these observers know.
    pub(crate) fn reached(&self, all: impl IntoIterator<Item = usize>) -> bool {
        all.into_iter().all(|observer| self.seen.contains_key(&observer))
    }

    /// Returns the time until the first of these observers knew.
    pub(crate) fn first(&self, all: impl IntoIterator<Item = usize>) -> Option<Duration> {
        all.into_iter().filter_map(|observer| self.seen.get(&observer).copied()).min()
    }

    /// Returns the time until the last of these observers knew; `None` if one does not.
    pub(crate) fn last(&self, all: impl IntoIterator<Item = usize>) -> Option<Duration> {
        let times: Option<Vec<_>> = all.into_iter().map(|observer| self.seen.get(&observer).copied()).collect();
        times?.into_iter().max()
    }
}
