//! What every system under comparison has to offer: nodes that come, die and stand still in a virtual network.
//!
//! The scenarios know nothing else, so that no system is measured by other means than its neighbour: what a node
//! reports is taken at the instant at which its own code reports it, and what it sends is counted by the same
//! [`Network`](headcount::sim::network::Network) with the same headers.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

pub(crate) use headcount::sim::network::{Conditions, Traffic};

use super::{chitchat, foca, headcount as ours, swim};

/// What one node says about another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is here, for the first time or again.
    Up,
    /// It has failed.
    Down,
    /// It tells something else about itself than before.
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

/// How a node goes without a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    /// Power or network is gone: nothing more comes from its address, no kernel answers for it.
    Host,
    /// `kill -9`: the kernel lives on and closes what the process had open.
    Process,
}

/// What can ail a process that does not die of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ailment {
    /// It is not scheduled at all: datagrams wait in its socket's buffer, all timers are late.
    Stopped,
    /// It is starved: every datagram and every timer is late by up to so much, each by itself.
    Starved(Duration),
    /// Its datagrams wait in both directions while its timers run.
    Blocked,
    /// Its network is gone in both directions while its timers run.
    CutOff,
}

/// A cluster of one system in the virtual network. Nodes are numbered in the order in which they came.
pub(crate) trait Cluster {
    /// Virtual time since the beginning.
    fn now(&self) -> Duration;

    /// Lets time pass.
    fn advance(&mut self, by: Duration);

    /// Starts one more node, which is told of a seed or of as many as the first ones were; its number.
    fn boot(&mut self) -> usize;

    /// A node dies.
    fn kill(&mut self, node: usize, death: Death);

    /// A node fares badly for a while. Not every system is put through that.
    fn ail(&mut self, node: usize, ailment: Ailment, lasting: Duration) {
        panic!("node {node} was not meant to be {ailment:?} for {lasting:?}");
    }

    /// A node changes what it tells about itself.
    fn change(&mut self, node: usize);

    /// What the network is like from now on.
    fn disturb(&mut self, conditions: Conditions);

    /// Whether a node holds another one to be alive.
    fn lists(&self, observer: usize, subject: usize) -> bool;

    /// What was reported since the last call.
    fn sightings(&mut self) -> Vec<Sighting>;

    /// What a node has sent since the beginning.
    fn traffic(&self, node: usize) -> Traffic;
}

/// A system with its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum System {
    HeadcountLan,
    HeadcountDefault,
    HeadcountWan,
    FocaLan,
    FocaWan,
    Chitchat,
    Swim,
}

impl System {
    /// A cluster in which everybody knows everybody, a while after it was formed.
    ///
    /// # Panics
    /// If it is not formed within ten minutes.
    pub(crate) fn form(self, nodes: usize, seed: u64, conditions: Conditions) -> Box<dyn Cluster> {
        use headcount::Profile;
        let mut cluster: Box<dyn Cluster> = match self {
            System::HeadcountLan => Box::new(ours::Nodes::new(nodes, seed, conditions, Profile::Lan)),
            System::HeadcountDefault => Box::new(ours::Nodes::new(nodes, seed, conditions, Profile::Default)),
            System::HeadcountWan => Box::new(ours::Nodes::new(nodes, seed, conditions, Profile::Wan)),
            System::FocaLan => Box::new(foca::cluster(nodes, seed, conditions, foca::Pace::Lan)),
            System::FocaWan => Box::new(foca::cluster(nodes, seed, conditions, foca::Pace::Wan)),
            System::Chitchat => Box::new(chitchat::Nodes::new(nodes, conditions)),
            System::Swim => Box::new(swim::cluster(nodes, seed, conditions)),
        };
        let deadline = Duration::from_secs(600);
        while !is_formed(cluster.as_ref(), nodes) {
            assert!(cluster.now() < deadline, "{self} has not formed a cluster of {nodes} within ten minutes");
            cluster.advance(Duration::from_secs(1));
        }
        cluster.advance(SETTLING);
        cluster.sightings();
        cluster
    }

    /// Whom it is compared with: the system to which its ratios refer.
    pub(crate) fn yardstick(self) -> System {
        match self {
            System::FocaWan | System::HeadcountWan => System::HeadcountWan,
            _ => System::HeadcountLan,
        }
    }

    /// Its settings in words.
    pub(crate) fn settings(self) -> &'static str {
        match self {
            System::HeadcountLan => "profile `lan`: heartbeat 2 s, Suspect 6 s, Down 10 s",
            System::HeadcountDefault => "profile `default`: heartbeat 5 s, Suspect 10 s, Down 15 s",
            System::HeadcountWan => "profile `wan`: heartbeat 10 s, Suspect 30 s, Down 60 s",
            System::FocaLan => "`Config::new_lan(N)`, identity of 8 bytes without a name",
            System::FocaWan => "`Config::new_wan(N)`, identity of 8 bytes without a name",
            System::Chitchat => "gossip every 1 s, `FailureDetectorConfig::default()`, protocol V1",
            System::Swim => "period 1 s, timeout 500 ms, k = 3, suspicion 5·lg N s, gossip 200 ms × 3",
        }
    }
}

/// How long a cluster is left alone after everybody knows everybody.
const SETTLING: Duration = Duration::from_secs(30);

fn is_formed(cluster: &dyn Cluster, nodes: usize) -> bool {
    (0..nodes).all(|observer| (0..nodes).all(|subject| observer == subject || cluster.lists(observer, subject)))
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            System::HeadcountLan => "headcount lan",
            System::HeadcountDefault => "headcount default",
            System::HeadcountWan => "headcount wan",
            System::FocaLan => "foca new_lan",
            System::FocaWan => "foca new_wan",
            System::Chitchat => "chitchat 1 s",
            System::Swim => "plain SWIM",
        })
    }
}

/// Sightings about one subject by many observers, to see when the last one knows.
#[derive(Debug)]
pub(crate) struct Spread {
    since: Duration,
    subject: usize,
    verdict: Verdict,
    seen: BTreeMap<usize, Duration>,
}

impl Spread {
    pub(crate) fn new(since: Duration, subject: usize, verdict: Verdict) -> Self {
        Self { since, subject, verdict, seen: BTreeMap::new() }
    }

    /// Takes in what is about it; the first report of each observer counts.
    pub(crate) fn take(&mut self, sighting: &Sighting) {
        let is_about = sighting.subject == self.subject && sighting.verdict == self.verdict;
        if let Some(after) = sighting.at.checked_sub(self.since).filter(|_| is_about) {
            self.seen.entry(sighting.observer).or_insert(after);
        }
    }

    /// Whether all of them know.
    pub(crate) fn reached(&self, all: impl IntoIterator<Item = usize>) -> bool {
        all.into_iter().all(|observer| self.seen.contains_key(&observer))
    }

    /// When the first of them knew.
    pub(crate) fn first(&self, all: impl IntoIterator<Item = usize>) -> Option<Duration> {
        all.into_iter().filter_map(|observer| self.seen.get(&observer).copied()).min()
    }

    /// When the last of them knew; `None` if one does not.
    pub(crate) fn last(&self, all: impl IntoIterator<Item = usize>) -> Option<Duration> {
        let times: Option<Vec<_>> = all.into_iter().map(|observer| self.seen.get(&observer).copied()).collect();
        times?.into_iter().max()
    }
}
