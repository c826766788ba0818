//! The world: nodes, their processes, clocks and disks, and one queue of everything that is going to happen.
//!
//! Time is a number; the next event is taken from a queue ordered by time and then by the order in which events were
//! made. Only the node that an event touches is polled, and its next deadline is kept lazily: a wake-up that is no
//! longer due asks again, one that was overtaken is recognised by its epoch.
//!
//! Invariants: the same options and the same calls give the same world, bit for bit; no clock is read, nothing
//! unordered is iterated; a core is handed only what a real driver could hand it, through the same two doors, and it is
//! drained after every input. Must not know: what the bytes mean.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::invariants::{Checker, Invariant, Observation, Violation};
use super::network::{Conditions, Cut, CutId, Nanos, Network, NodeLoss, NodeSet, Traffic};
use super::node::{Node, Stored, Waiting};
use super::pool::Pool;
use super::queue::Queue;
use super::random::{Purpose, Random, nanos};
use super::streams::{Streams, Tcp};
use super::tamper::Tamper;
use super::trace::Trace;
use crate::core::ahead::Ahead;
use crate::core::election::{LeaseTiming, Term};
use crate::core::{ChangeKind, Core, MessageId, NodeId, Profile, Run, Settings, StopReason};

mod agreement;
mod cuts;
mod drive;
mod expect;
mod form;
mod leases;
mod life;
mod links;
mod sizes;
mod stranger;
mod voting;

pub use cuts::PartitionSighting;
pub(crate) use expect::Began;
use expect::Expectations;
pub use expect::Judged;
pub(crate) use leases::Happening;
pub use leases::{LeaseOptions, WayFault};
pub use voting::{ElectionSighting, LeaderNews};

/// What a world is made of.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, not a state")]
pub struct WorldOptions {
    /// Seeds every random choice.
    pub seed: u64,
    /// Nodes at the beginning. They are all started at once.
    pub nodes: usize,
    /// How many of the first nodes are everybody's seeds.
    pub seeds: usize,
    /// Pace and sizes of every node.
    pub settings: Settings,
    /// If there are any, nodes have these in turns instead.
    pub mixed: Vec<Settings>,
    /// What the network is usually like.
    pub conditions: Conditions,
    /// How many of the first nodes vote; leaders are elected if there are any. They always keep their disks.
    pub voters: usize,
    /// The pace of elections.
    pub lease: LeaseTiming,
    /// Clock rates of voters are wrong by up to so many parts per million, often by that much.
    pub voter_clock_error_ppm: u64,
    /// How long led work takes to end at most, once it is to.
    pub led_work: Duration,
    /// Chance that it hardly ends within the lease, or does not.
    pub hanging_work: f64,
    /// Contenders for leases in a database, if there are any.
    pub leases: Option<LeaseOptions>,
    /// Whether addresses are IPv6.
    pub ipv6: bool,
    /// Clock rates are wrong by up to so many parts per million.
    pub clock_error_ppm: u64,
    /// Chance that a node keeps nothing on disk.
    pub diskless: f64,
    /// Whether corrupt datagrams arrive even if they make sense. UDP's checksum catches nearly all of them; what it misses
    /// is forged news, which no unsealed protocol can tell from truth. If not, only garbage arrives.
    pub forging: bool,
    /// Whether the promises are checked after every step. Costs time in proportion to the view at every change.
    pub checked: bool,
    /// Whether it is checked, too, how soon crashes, silences and cuts are known everywhere.
    pub timely: bool,
    /// Nodes forget a member at most so far apart: the longest pause of any schedule.
    pub reaping_spread: Duration,
    /// Whether equal records of all cores are one in memory. It changes nothing but that.
    pub shared: bool,
    /// Whether lines for people are kept.
    pub verbose: bool,
}

impl WorldOptions {
    /// A quiet world.
    pub fn new(seed: u64, nodes: usize, settings: Settings) -> Self {
        Self {
            seed,
            nodes,
            seeds: nodes.min(3),
            settings,
            mixed: Vec::new(),
            conditions: Conditions::default(),
            voters: 0,
            lease: Profile::Default.lease_timing(),
            voter_clock_error_ppm: 200,
            led_work: Duration::from_millis(20),
            hanging_work: 0.0,
            leases: None,
            ipv6: false,
            clock_error_ppm: 200,
            diskless: 0.0,
            forging: false,
            checked: true,
            timely: false,
            reaping_spread: Duration::from_secs(30),
            shared: true,
            verbose: false,
        }
    }
}

/// One change as one node reported it.
#[derive(Debug, Clone)]
pub struct Sighting {
    /// True time.
    pub at: Nanos,
    /// Who reports.
    pub observer: usize,
    /// What.
    pub kind: ChangeKind,
    /// About whom.
    pub subject: usize,
    /// Which run of it.
    pub run: Run,
    /// At which incarnation.
    pub incarnation: u64,
    /// For how long the subject had been running well and the network been as usual; `None` if one of them was not.
    pub healthy_for: Option<Duration>,
    /// For how long the subject had been running well, whatever the network was like.
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
    checker: Option<Checker>,
    pool: Option<Arc<Pool>>,
    tamper: Option<Box<dyn Tamper>>,
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
    /// Runs that said goodbye, and when they were told to.
    goodbyes: BTreeMap<Run, Nanos>,
    /// Which node each run was of.
    runs: BTreeMap<Run, usize>,
    /// Addresses that were used by more than one node, and who used them last.
    moved: BTreeMap<SocketAddr, usize>,
    expectations: Expectations,
    stranger: stranger::Stranger,
    leases: Option<Box<leases::Leases>>,
    has_failed: bool,
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
    Heal {
        cut: CutId,
    },
    /// Datagrams of a node are lost no more than others'.
    Mend {
        node: usize,
    },
    Start {
        node: usize,
    },
    Restore {
        epoch: u64,
    },
    Compare,
    /// A process that was to die soon after it became Up does.
    Perish {
        node: usize,
        process: u64,
    },
    /// It is the adversary's turn.
    Adversary {
        visit: u64,
    },
    /// Something reaches an address of the adversary's.
    Stranger {
        at: SocketAddr,
        from: SocketAddr,
        bytes: Vec<u8>,
    },
    /// What was expected should be so by now.
    Expect(expect::Due),
    Stream(links::StreamEvent),
    Lease(leases::LeaseEvent),
}

impl World {
    /// How often all views are compared.
    const COMPARE_EVERY: Duration = Duration::from_millis(250);

    /// So many nodes are too large for the caches of a processor.
    const LARGE: usize = 500;

    /// Large views that differ altogether need not be told altogether.
    const DIFFERENCES_TOLD: usize = 8;

    /// A world with all its nodes started.
    pub fn new(options: WorldOptions) -> Self {
        Self::with_tamper(options, None)
    }

    /// A world with a planted bug.
    pub fn with_tamper(options: WorldOptions, tamper: Option<Box<dyn Tamper>>) -> Self {
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
            checker: options.checked.then(Checker::default),
            pool: options.shared.then(Arc::default),
            tamper,
            processes: 0,
            tickets: 0,
            conditions_epoch: 0,
            network_calm_since: Some(0),
            sightings: None,
            elections_seen: None,
            partitions_seen: None,
            reaped: BTreeMap::new(),
            goodbyes: BTreeMap::new(),
            runs: BTreeMap::new(),
            moved: BTreeMap::new(),
            expectations: Expectations::default(),
            stranger: stranger::Stranger::default(),
            leases: None,
            has_failed: false,
            options,
        };
        world.open_leases();
        for _ in 0..world.options.nodes {
            world.add_node();
        }
        if world.checker.is_some() {
            world.push(nanos(Self::COMPARE_EVERY), Event::Compare);
        }
        world
    }

    /// True time since the start.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.now)
    }

    /// What it is made of.
    pub fn options(&self) -> &WorldOptions {
        &self.options
    }

    /// How many nodes there ever were.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The name of a node.
    pub fn id(&self, node: usize) -> &NodeId {
        &self.nodes[node].id
    }

    /// The address of a node.
    pub fn address(&self, node: usize) -> SocketAddr {
        self.nodes[node].address
    }

    /// The running core of a node.
    pub fn core(&self, node: usize) -> Option<&Core> {
        self.nodes[node].running().map(|process| &process.core)
    }

    /// How a node's last process ended, if it ended by itself.
    pub fn ended(&self, node: usize) -> Option<&StopReason> {
        self.nodes[node].ended.as_ref()
    }

    /// Whether a node's process is paused.
    pub fn is_paused(&self, node: usize) -> bool {
        self.nodes[node].running().is_some_and(|process| process.paused)
    }

    /// What a node has sent so far.
    pub fn sent(&self, node: usize) -> Traffic {
        self.network.sent(node)
    }

    /// The hash of everything that happened so far.
    pub fn trace(&self) -> u64 {
        self.trace.digest()
    }

    /// What happened, in lines, if that was asked for.
    pub fn lines(&self) -> &[String] {
        self.trace.lines()
    }

    /// A line of the caller's among the lines of what happened.
    pub fn say(&mut self, what: impl FnOnce() -> String) {
        self.trace.say(self.now, what);
    }

    /// The messages that a node's process gave to its programs, as far as the world is checked.
    pub fn heard(&self, node: usize) -> BTreeSet<MessageId> {
        self.checker.as_ref().and_then(|checker| checker.heard(node)).cloned().unwrap_or_default()
    }

    /// Promises found broken so far.
    pub fn violations(&self) -> &[Violation] {
        self.checker.as_ref().map_or(&[], Checker::violations)
    }

    /// Adds a broken promise that the caller found.
    pub fn report(&mut self, node: Option<usize>, invariant: Invariant, detail: String) {
        let id = node.map(|node| self.nodes[node].id.clone());
        self.checker.get_or_insert_default().report(self.now, id.as_ref(), invariant, detail);
        self.has_failed = true;
    }

    /// From now on, changes are kept for [`World::sightings`], what is told of leaders for [`World::elections_seen`], and of
    /// partitions for [`World::partitions_seen`].
    pub fn watch(&mut self) {
        self.sightings.get_or_insert_default();
        self.elections_seen.get_or_insert_default();
        self.partitions_seen.get_or_insert_default();
    }

    /// The changes since [`World::watch`].
    pub fn sightings(&self) -> &[Sighting] {
        self.sightings.as_deref().unwrap_or_default()
    }

    /// Runs until this much time has passed since the start, or a promise is broken.
    pub fn run_until(&mut self, until: Duration) {
        let until = nanos(until);
        while !self.has_failed {
            if self.nodes.len() >= Self::LARGE && self.queue.is_at_its_end() {
                self.look_ahead();
            }
            let Some((at, event)) = self.queue.pop_until(until) else { break };
            self.now = self.now.max(at);
            self.happen(event);
        }
        if !self.has_failed {
            self.now = self.now.max(until);
        }
    }

    /// Reads what the next events are going to need, all at once: waiting for memory is most of what a large world does.
    fn look_ahead(&mut self) {
        let foreseen = self.queue.look_ahead().filter_map(|event| match event {
            Event::Packet { to, bytes, .. } => Some((*to, Ahead::packet(bytes))),
            Event::Wake { node, .. } => Some((*node, Ahead::tick())),
            _ => None,
        });
        let mut foreseen: Vec<(usize, Ahead)> = foreseen.collect();
        for step in 0..Ahead::STEPS {
            let mut read = 0;
            for (node, ahead) in &mut foreseen {
                if let Some(process) = self.nodes.get(*node).and_then(|node| node.process.as_ref()) {
                    read ^= ahead.step(step, &process.core);
                }
            }
            std::hint::black_box(read);
        }
    }

    /// Runs for so long, or until a promise is broken.
    pub fn run_for(&mut self, duration: Duration) {
        self.run_until(self.now() + duration);
    }

    /// Runs until something is so, looking every so often; whether it came true before the deadline.
    pub fn run_while(&mut self, deadline: Duration, step: Duration, mut goes_on: impl FnMut(&World) -> bool) -> bool {
        while goes_on(self) {
            if self.now() >= deadline || self.has_failed {
                return false;
            }
            self.run_until((self.now() + step).min(deadline));
        }
        true
    }

    /// Nobody hears these from the rest, nor the rest from them.
    pub fn partition(&mut self, side: &[usize], lasting: Option<Duration>) {
        self.expect_partition(side, lasting);
        let side = NodeSet::of(side);
        self.cut(side.clone(), side.rest(), lasting);
        self.cut(side.rest(), side, lasting);
    }

    /// Nothing from `from` reaches `to`.
    pub fn cut(&mut self, from: NodeSet, to: NodeSet, lasting: Option<Duration>) {
        self.add_cut(Cut::new(from, to), lasting);
    }

    /// A cut of any kind.
    pub fn add_cut(&mut self, cut: Cut, lasting: Option<Duration>) {
        self.upheaval(true);
        match cut.blamed() {
            None => self.network_calm_since = None,
            Some(blamed) => self.trouble(blamed),
        }
        let cut = self.network.add_cut(cut);
        if let Some(lasting) = lasting {
            self.push_after(lasting, Event::Heal { cut });
        }
    }

    fn trouble(&mut self, nodes: &[usize]) {
        for node in nodes {
            self.nodes[*node].troubles += 1;
        }
    }

    fn relieve(&mut self, nodes: &[usize]) {
        for node in nodes {
            let place = &mut self.nodes[*node];
            place.troubles = place.troubles.saturating_sub(1);
            place.untroubled_since = self.now;
        }
    }

    /// A cut is over.
    fn heal(&mut self, cut: CutId) {
        if let Some(cut) = self.network.heal(cut) {
            self.upheaval(true);
            self.relieve(cut.blamed().unwrap_or_default());
            self.calmed();
        }
    }

    /// Whatever a node sends or is sent waits for so long, and arrives then; its process runs on.
    pub fn hold(&mut self, node: usize, lasting: Duration) {
        self.upheaval(true);
        let cut = self.network.hold(node, self.now.saturating_add(nanos(lasting)));
        self.network_calm_since = None;
        self.push_after(lasting, Event::Heal { cut });
    }

    /// Changes what the network is like, for a while.
    pub fn disturb(&mut self, conditions: Conditions, lasting: Duration) {
        self.upheaval(true);
        self.network.set_conditions(conditions);
        self.conditions_epoch += 1;
        self.network_calm_since = None;
        self.push_after(lasting, Event::Restore { epoch: self.conditions_epoch });
    }

    /// Nothing from `from` reaches `to` for a period, then everything does for a period, and so on, for so long.
    pub fn cut_in_turns(&mut self, from: NodeSet, to: NodeSet, period: Duration, lasting: Duration) {
        self.upheaval(true);
        let cut = self.network.cut_in_turns(self.now, from, to, period);
        self.network_calm_since = None;
        self.push_after(lasting, Event::Heal { cut });
    }

    /// Whether all nodes have about as many observers, so that who observes is observed.
    pub fn observe_each_other(&self) -> bool {
        self.nodes.windows(2).all(|pair| pair[0].settings.observers == pair[1].settings.observers)
    }

    /// What a node sends or receives is lost with these chances, for so long.
    pub fn set_node_loss(&mut self, node: usize, loss: NodeLoss, lasting: Duration) {
        self.upheaval(true);
        self.network.set_node_loss(node, loss);
        self.trouble(&[node]);
        // Who hears a little tells what it believes of others, and is believed.
        self.network_calm_since = None;
        self.push_after(lasting, Event::Mend { node });
    }

    /// Takes away every disturbance of the network, wakes the paused and hastens the slow.
    pub fn heal_all(&mut self) {
        self.upheaval(true);
        self.network.heal_all();
        self.set_tcp(Tcp::Open);
        self.free_disks();
        self.heal_store();
        self.network_calm_since = Some(self.now);
        for place in &mut self.nodes {
            place.troubles = 0;
            place.untroubled_since = self.now;
        }
        for node in 0..self.nodes.len() {
            if let Some(process) = self.nodes[node].running() {
                let number = process.number;
                self.resume(node, number);
                self.hasten(node, number);
            }
        }
    }

    fn calmed(&mut self) {
        if self.network.is_calm() && self.network_calm_since.is_none() {
            self.network_calm_since = Some(self.now);
        }
    }

    /// For how long this run of a node has been running well over a network where nothing was wrong.
    fn healthy_for(&self, subject: usize, run: Run) -> Option<Duration> {
        let calm_since = self.network_calm_since?.max(self.nodes.get(subject)?.untroubled()?);
        Some(self.running_for(subject, run)?.min(Duration::from_nanos(self.now - calm_since)))
    }

    /// For how long this run of a node has been running well.
    fn running_for(&self, subject: usize, run: Run) -> Option<Duration> {
        let process = self.nodes.get(subject)?.running().filter(|process| process.run == run)?;
        Some(Duration::from_nanos(self.now - process.undisturbed_since?))
    }

    fn push(&mut self, at: Nanos, event: Event) {
        self.queue.push(at, event);
    }

    fn push_after(&mut self, after: Duration, event: Event) {
        self.push(self.now.saturating_add(nanos(after)), event);
    }

    /// A look at all running nodes at once.
    fn compare(&mut self) {
        let Some(mut checker) = self.checker.take() else { return };
        let mut all = Vec::with_capacity(self.nodes.len());
        for node in 0..self.nodes.len() {
            if let Some(observation) = self.observe(node) {
                checker.look(self.now, node, &observation, None);
                if let Some(process) = self.nodes[node].running() {
                    let stretch = process.core.health_score() + 1;
                    let well_since = process.undisturbed_since;
                    checker.look_at_suspects(self.now, node, &observation, stretch, well_since);
                }
                all.push((node, observation));
            }
        }
        let calm_since = self
            .nodes
            .iter()
            .filter_map(Node::running)
            .try_fold(self.network_calm_since.unwrap_or(Nanos::MAX), |latest, process| {
                process.undisturbed_since.map(|since| latest.max(since))
            });
        let untroubled = self.nodes.iter().all(|node| node.troubles == 0);
        let untroubled_since = self.nodes.iter().map(|node| node.untroubled_since).max().unwrap_or_default();
        let calm_since = calm_since.map(|since| since.max(untroubled_since));
        checker.compare(self.now, &all, calm_since.filter(|_| untroubled && self.network_calm_since.is_some()));
        self.has_failed |= !checker.violations().is_empty();
        self.checker = Some(checker);
        self.look_at_floods();
        self.look_at_sizes();
        self.forget_traffic();
        self.push_after(Self::COMPARE_EVERY, Event::Compare);
    }

    fn observe(&mut self, node: usize) -> Option<Observation> {
        let process = self.nodes[node].running()?;
        let mut observation = Observation::of(&process.core);
        if let Some(tamper) = &mut self.tamper {
            tamper.observation(node, &mut observation);
        }
        Some(observation)
    }
}

impl Waiting {
    fn is_packet(&self) -> bool {
        matches!(self, Waiting::Packet { .. })
    }
}
