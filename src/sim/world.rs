//! The world: nodes, their processes, clocks and disks, and one queue of everything that is going to happen.
//!
//! Time is a number; the next event is taken from a queue ordered by time and then by the order in which events were
//! made. Only the node that an event touches is polled, and its next deadline is kept lazily: a wake-up that is no
//! longer due asks again, one that was overtaken is recognised by its epoch.
//!
//! Invariants: the same options and the same calls give the same world, bit for bit; no clock is read, nothing
//! unordered is iterated; a core is handed only what a real driver could hand it, through the same two functions, and
//! it is drained after every input.
//!
//! This file owns the state and the queue; the files below change it, one for each idea: `run` lets time pass,
//! `drive` does what is due, `life` is that of nodes, `disturbance` that of the network, and so on.
//!
//! Must not know: what the bytes mean.
//!
//! | idea | file |
//! |---|---|
//! | what is chosen before a world begins; one that begins as a formed cluster | `options`, `form` |
//! | time passes; what is due is done | `run`, `drive` |
//! | nodes: started, stopped, paused, commanded | `life` |
//! | the network: cuts, loss, delay; links; addresses that change | `disturbance`, `links`, `places` |
//! | elections and leases | `voting`, `leases` |
//! | seals; a recorder that sends packets to nodes they were not meant for | `seals`, `misdirecting` |
//! | do all nodes agree? | `agreement` |
//! | reports of partitions | `partition_reports` |
//! | whoever watches is told | `watching` |

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::intercept::{AsItIs, Intercept};
use super::network::{Nanos, Network, Traffic};
use super::node::{Node, Stored, Waiting};
use super::pool::Pool;
use super::queue::Queue;
use super::random::{Purpose, Random, nanos};
use super::streams::{Streams, Tcp};
use super::trace::Trace;
use super::watch::{Stuck, Upheaval, Watch};
use headcount_core::election::Term;
use headcount_core::limits::MAX_LINK_BACKOFF;
use headcount_core::{ChangeKind, Core, NodeId, Run, StopReason};

mod agreement;
mod disturbance;
mod drive;
mod form;
mod leases;
mod life;
mod links;
mod misdirecting;
mod options;
mod partition_reports;
mod places;
mod run;
mod seals;
mod snapshots;
mod voting;
mod watching;

pub use agreement::in_short;
pub use leases::{LeaseOptions, WayFault};
pub use misdirecting::Misdirection;
pub use options::{SecondCluster, WorldOptions};
pub use partition_reports::PartitionSighting;
pub use seals::{SealCounts, elsewhere, key_of, unsealed};
pub use snapshots::{DiskImage, Memory};
pub use voting::{ElectionSighting, LeaderNews};

/// One change as one node reported it.
#[derive(Debug, Clone)]
pub struct Sighting {
    /// True time.
    pub at: Nanos,
    /// The node that reports.
    pub observer: usize,
    /// The kind of change.
    pub kind: ChangeKind,
    /// The node that has changed.
    pub subject: usize,
    /// The run of that node.
    pub run: Run,
    /// The incarnation at which it changed.
    pub incarnation: u64,
    /// The time for which the subject had been running well and the network been as usual; `None` if one of them was
    /// not.
    pub healthy_for: Option<Duration>,
    /// The time for which the subject had been running well, whatever the network was like.
    pub running_for: Option<Duration>,
}

/// Everything there is.
#[derive(Debug)]
pub struct World {
    options: WorldOptions,
    now: Nanos,
    queue: Queue<Event>,
    nodes: Vec<Node>,
    pub(crate) network: Network,
    streams: Streams,
    tcp: Tcp,
    /// Counts firewalls, so that the end of one that was overtaken does nothing.
    tcp_epoch: u64,
    random: Random,
    /// Apart from the rest, so that worlds without voters are what they always were.
    elections: Random,
    trace: Trace,
    watch: Option<Box<dyn Watch>>,
    pool: Option<Arc<Pool>>,
    intercept: Box<dyn Intercept>,
    processes: u64,
    tickets: u64,
    /// Counts changes of the network's conditions, so that an end of a period that was overtaken does nothing.
    conditions_epoch: u64,
    network_calm_since: Option<Nanos>,
    sightings: Option<Vec<Sighting>>,
    elections_seen: Option<Vec<ElectionSighting>>,
    partitions_seen: Option<Vec<PartitionSighting>>,
    /// Members that somebody has forgotten, and when the first one did.
    reaped: BTreeMap<(NodeId, u64), Nanos>,
    /// The node of each run.
    runs: BTreeMap<Run, usize>,
    /// Addresses that were used by more than one node, and who used them last.
    moved: BTreeMap<SocketAddr, usize>,
    /// The number of addresses that nodes moved to.
    addresses: usize,
    /// The time at which links may have been broken last.
    links_broke_at: Option<Nanos>,
    /// In sealed worlds.
    seals: Option<Box<seals::Seals>>,
    leases: Option<Box<leases::Leases>>,
    misdirecting: Option<misdirecting::Misdirecting>,
    /// The first core that never came to an end.
    stuck: Option<(usize, Stuck)>,
}

#[derive(Debug)]
enum Event {
    Packet {
        from: SocketAddr,
        to: usize,
        bytes: Vec<u8>,
        delayed: bool,
    },
    Wake {
        node: usize,
        process: u64,
        epoch: u64,
    },
    Written {
        node: usize,
        process: u64,
    },
    Acknowledged {
        node: usize,
        process: u64,
        stored: Stored,
    },
    WorkEnded {
        node: usize,
        process: u64,
        term: Term,
    },
    Resolved {
        node: usize,
        process: u64,
    },
    Resume {
        node: usize,
        process: u64,
    },
    Hasten {
        node: usize,
        process: u64,
    },
    /// The recorder takes its turn.
    Recorder {
        visit: u64,
    },
    /// The recorder with a plan plays the next datagram of a node that is gone.
    Misdirected,
    /// A process learns where its node is.
    AddressNoticed {
        node: usize,
    },
    /// A translator changes the source of what a node sends.
    Rebound {
        node: usize,
    },
    /// A translator is gone.
    Untranslated {
        node: usize,
    },
    /// A disturbance is over.
    Undo(disturbance::Undo),
    Start {
        node: usize,
    },
    /// Whoever watches looks at all nodes.
    Look,
    /// A process that was to die soon after it became Up does.
    Perish {
        node: usize,
        process: u64,
    },
    /// The time has come for which whoever watches has asked.
    Due,
    Stream(links::StreamEvent),
    Lease(leases::LeaseEvent),
}

impl World {
    /// The most differences of two views that are told: large ones that differ altogether need not be told altogether.
    const DIFFERENCES_TOLD: usize = 8;
    /// Time after which links that broke for any reason have been tried again.
    pub const LINKS_PEACE: Duration = Duration::from_secs(MAX_LINK_BACKOFF.as_secs() + 10);

    /// Returns a world with all its nodes started.
    pub fn new(options: WorldOptions) -> Self {
        Self::intercepted(options, None, Box::new(AsItIs))
    }

    /// Returns a world that somebody watches.
    pub fn watched(options: WorldOptions, watch: impl Watch) -> Self {
        Self::intercepted(options, Some(Box::new(watch)), Box::new(AsItIs))
    }

    /// Returns a world that somebody may watch, with somebody between its cores and the rest.
    pub fn intercepted(options: WorldOptions, watch: Option<Box<dyn Watch>>, intercept: Box<dyn Intercept>) -> Self {
        let header_bytes = if options.ipv6 { 48 } else { 28 };
        let mut world = Self {
            now: 0,
            queue: Queue::default(),
            nodes: Vec::with_capacity(options.nodes),
            network: Network::new(options.seed, options.conditions, header_bytes),
            streams: Streams::default(),
            tcp: Tcp::default(),
            tcp_epoch: 0,
            random: Random::new(options.seed, Purpose::Nodes),
            elections: Random::new(options.seed, Purpose::Elections),
            trace: Trace::new(options.verbose),
            watch,
            pool: options.shared.then(Arc::default),
            intercept,
            processes: 0,
            tickets: 0,
            conditions_epoch: 0,
            network_calm_since: Some(0),
            sightings: None,
            elections_seen: None,
            partitions_seen: None,
            reaped: BTreeMap::new(),
            runs: BTreeMap::new(),
            moved: BTreeMap::new(),
            addresses: 0,
            links_broke_at: None,
            seals: options.sealed.then(|| Box::new(seals::Seals::new())),
            leases: None,
            misdirecting: None,
            stuck: None,
            options,
        };
        world.open_leases();
        for _ in 0..world.options.nodes {
            world.add_node();
        }
        if let Some(after) = world.watch.as_ref().and_then(|watch| watch.looks_every()) {
            world.push(nanos(after), Event::Look);
        }
        world
    }

    /// Returns the true time since the start.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.now)
    }

    /// Returns the options it was made with.
    pub fn options(&self) -> &WorldOptions {
        &self.options
    }

    /// Returns the number of nodes there ever were.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the name of a node.
    pub fn id(&self, node: usize) -> &NodeId {
        &self.nodes[node].id
    }

    /// Returns the address of a node.
    pub fn address(&self, node: usize) -> SocketAddr {
        self.nodes[node].address
    }

    /// Returns the running core of a node.
    pub fn core(&self, node: usize) -> Option<&Core> {
        self.nodes[node].running().map(|process| &process.core)
    }

    /// Returns the reason for which a node's last process ended, if it ended by itself.
    pub fn ended(&self, node: usize) -> Option<&StopReason> {
        self.nodes[node].ended.as_ref()
    }

    /// Returns true if a node's process is paused.
    pub fn is_paused(&self, node: usize) -> bool {
        self.nodes[node].running().is_some_and(|process| process.paused)
    }

    /// Returns the traffic that a node has sent so far.
    pub fn sent(&self, node: usize) -> Traffic {
        self.network.sent(node)
    }

    /// Returns the hash of everything that happened so far.
    pub fn trace(&self) -> u64 {
        self.trace.digest()
    }

    /// Returns the lines of what happened, if they were asked for.
    pub fn lines(&self) -> &[String] {
        self.trace.lines()
    }

    /// Puts a line of the caller's among the lines of what happened.
    pub fn say(&mut self, what: impl FnOnce() -> String) {
        self.trace.say(self.now, what);
    }

    /// Returns the first node whose core never came to an end, and how; the world stands still then.
    pub fn stuck(&self) -> Option<&(usize, Stuck)> {
        self.stuck.as_ref()
    }

    /// Stands still because of a core that never comes to an end.
    fn note_stuck(&mut self, node: usize, stuck: Stuck) {
        self.tell(|watch, world| watch.on_stuck(world, node, &stuck));
        self.stuck.get_or_insert((node, stuck));
    }

    /// Returns true if no time passes any more.
    fn stands_still(&self) -> bool {
        self.stuck.is_some() || self.watch.as_ref().is_some_and(|watch| watch.has_seen_enough())
    }

    /// Takes note that something is done to the world.
    fn upheaval(&mut self, breaks_links: bool) {
        self.undergo(Upheaval::Other { breaks_links });
    }

    /// Takes note of what is about to be done to the world.
    fn undergo(&mut self, upheaval: Upheaval<'_>) {
        if let Upheaval::Cut { .. } | Upheaval::Other { breaks_links: true } = upheaval {
            self.links_broke_at = Some(self.now);
        }
        if let Some(Some(after)) = self.tell_and(|watch, world| watch.on_upheaval(world, upheaval)) {
            self.push_after(after, Event::Due);
        }
    }

    /// Returns true if all nodes that observe each other have links by now.
    pub fn are_links_up(&self) -> bool {
        let peace = self.links_broke_at.map_or(Nanos::MAX, |last| self.now - last);
        self.tcp == Tcp::Open && peace >= nanos(Self::LINKS_PEACE)
    }

    /// Keeps changes from now on for [`World::sightings`], what is told of leaders for [`World::elections_seen`], and
    /// of partitions for [`World::partitions_seen`].
    pub fn watch(&mut self) {
        self.sightings.get_or_insert_default();
        self.elections_seen.get_or_insert_default();
        self.partitions_seen.get_or_insert_default();
    }

    /// Returns the changes since [`World::watch`].
    pub fn sightings(&self) -> &[Sighting] {
        self.sightings.as_deref().unwrap_or_default()
    }

    fn push(&mut self, at: Nanos, event: Event) {
        self.queue.push(at, event);
    }

    fn push_after(&mut self, after: Duration, event: Event) {
        self.push(self.now.saturating_add(nanos(after)), event);
    }
}

impl Waiting {
    fn is_packet(&self) -> bool {
        matches!(self, Waiting::Packet { .. })
    }
}
