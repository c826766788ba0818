//! A few cores and a perfect little network with a fake clock: `step` jumps to the next thing that happens.

mod links;
mod look;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

pub(super) use links::Tcp;
use links::{Parked, Wires};

use headcount_core::election::{Ballot, Identity, LeaderPolicy, LeaseTiming, Term};
use headcount_core::limits::{EARLIEST_FOUNDING, INCARNATION_STEP};
use headcount_core::wire::LeaseUpdate;
use headcount_core::{
    Change, Command, Core, CoreInit, Delivery, Durable, Input, NodeId, Notice, Output, Profile, QuorumInit, Receiver,
    Reply, Run, Settings, Status, StopReason, Tags, Time,
};

/// One node of the network.
pub(super) struct Node {
    pub(super) core: Core,
    pub(super) address: SocketAddr,
    pub(super) changes: Vec<(Time, Change)>,
    pub(super) notices: Vec<Notice>,
    pub(super) messages: Vec<(Time, Delivery)>,
    pub(super) replies: Vec<Reply>,
    pub(super) partitions: Vec<(Time, Partition)>,
    /// The outputs about leaders, with the time of each.
    pub(super) leadership: Vec<(Time, Output)>,
    pub(super) lease_updates: Vec<LeaseUpdate>,
    pub(super) believed_updates: Vec<LeaseUpdate>,
    /// News of leaders by voters, where none are elected here.
    pub(super) voters_heard: Vec<(bool, Option<(NodeId, Term)>)>,
    pub(super) stopped: Option<StopReason>,
    pub(super) seeds: Vec<SocketAddr>,
    paused: bool,
    parked: Vec<(SocketAddr, Vec<u8>)>,
    parked_links: Vec<Parked>,
    pub(super) largest: usize,
    pub(super) sent: usize,
    /// The greatest number of packets that one input made it send.
    pub(super) busiest: usize,
}

/// A node's report of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Partition {
    pub(super) is_over: bool,
    pub(super) unreachable: Vec<NodeId>,
    pub(super) reachable: Vec<NodeId>,
}

/// The network.
pub(super) struct Net {
    pub(super) now: Time,
    pub(super) nodes: Vec<Node>,
    pub(super) latency: Duration,
    /// Packets take up to so much longer, each by its own random number: they overtake each other.
    pub(super) jitter: Duration,
    pub(super) settings: Settings,
    /// One packet in so many is lost; none if 0.
    pub(super) drop_one_in: u64,
    /// Every packet that was sent, and where from and to, if that is of interest.
    pub(super) sent: Option<Vec<(SocketAddr, SocketAddr, Vec<u8>)>>,
    /// Packets that are lost, if any are of this kind.
    pub(super) is_lost: Option<fn(&[u8]) -> bool>,
    /// Nodes whose packets seem to come from elsewhere than where they are reached.
    pub(super) seen_at: BTreeMap<SocketAddr, SocketAddr>,
    /// Packets to addresses where nobody listens.
    pub(super) undelivered: Vec<(SocketAddr, Vec<u8>)>,
    /// Voters by name, where leaders are elected.
    pub(super) voters: Vec<NodeId>,
    /// The pace of elections.
    pub(super) lease: LeaseTiming,
    /// The ballots on the disks of voters, by name.
    pub(super) disks: BTreeMap<String, Ballot>,
    /// Nodes whose disks take nothing, with the write that failed last: it is tried again when they are told to.
    pub(super) full_disks: BTreeMap<usize, Option<Durable>>,
    /// Nobody looks names up but the test.
    pub(super) lookups_hang: bool,
    /// The number of times that seeds were to be looked up.
    pub(super) lookups: u32,
    /// Further addresses of nodes: packets to them arrive, and they are the source of what goes to their own family of
    /// addresses, if that is not the family of the first address.
    pub(super) further: Vec<(usize, SocketAddr)>,
    /// The addresses to which nodes wanted to open connections.
    pub(super) opened: Vec<SocketAddr>,
    /// Packets are sealed: those bound to a run reach it alone, and those that are bound to nobody are told apart.
    pub(super) is_sealed: bool,
    unbound: BTreeSet<u64>,
    in_flight: BTreeMap<(Time, u64), (SocketAddr, SocketAddr, Vec<u8>)>,
    cut: BTreeSet<(usize, usize)>,
    /// Nodes whose datagrams wait, in both directions, and what waits.
    held_up: BTreeSet<usize>,
    waiting: Vec<(SocketAddr, SocketAddr, Vec<u8>)>,
    counter: u64,
    /// The number of times that the network ran.
    runs: u64,
    /// Connections, if there are any.
    wires: Wires,
}

pub(super) fn id(name: &str) -> NodeId {
    NodeId::new(name).expect("a good name")
}

/// Returns the birth of a node that votes for nobody, knows no seeds and remembers nothing. Its number is its run, and the
/// seed of its random choices.
pub(super) fn birth(name: &str, number: u64, address: SocketAddr, settings: &Settings) -> CoreInit {
    CoreInit {
        leadership: None,
        id: id(name),
        run: Run(number),
        cluster: id("test"),
        incarnation: 5,
        stored_bound: 5 + INCARNATION_STEP,
        address,
        api_address: None,
        tags: Tags::default(),
        version: "0.1.0".into(),
        settings: settings.clone(),
        seeds: 0,
        remembered: Vec::new(),
        random_seed: number,
    }
}

pub(super) fn address(host: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, (host / 250) as u8, (host % 250) as u8 + 1], 7117))
}

pub(super) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl Net {
    pub(super) fn new(profile: Profile) -> Self {
        Self {
            now: Time::ORIGIN,
            nodes: Vec::new(),
            latency: ms(1),
            jitter: Duration::ZERO,
            settings: profile.settings(),
            drop_one_in: 0,
            sent: None,
            is_lost: None,
            seen_at: BTreeMap::new(),
            undelivered: Vec::new(),
            voters: Vec::new(),
            lease: LeaseTiming { lease_duration: ms(2_000), renewal_interval: ms(500) },
            disks: BTreeMap::new(),
            full_disks: BTreeMap::new(),
            lookups_hang: false,
            lookups: 0,
            further: Vec::new(),
            opened: Vec::new(),
            is_sealed: false,
            unbound: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            cut: BTreeSet::new(),
            held_up: BTreeSet::new(),
            waiting: Vec::new(),
            counter: 0,
            runs: 0,
            wires: Wires::default(),
        }
    }

    /// Draws the packets that are lost by this seed.
    pub(super) fn shuffle_losses(&mut self, seed: u64) {
        self.counter += seed << 32;
    }

    /// Returns `n` nodes n0, n1, … that all have n0's address as their seed, and are a cluster.
    pub(super) fn cluster(profile: Profile, n: usize) -> Self {
        let mut net = Self::new(profile);
        for i in 0..n {
            net.add(&format!("n{i}"), i, &[0]);
        }
        net.run(Duration::from_secs(3));
        net.assert_all_up();
        net
    }

    /// Returns a node that was told of a thousand others, which do not exist: its view takes many pages.
    pub(super) fn alone_with_a_large_view() -> Self {
        let mut net = Self::cluster(Profile::Local, 1);
        for host in 100_000..101_000 {
            let mut record = super::alone::member(host, Status::Up);
            record.timing = net.settings.timing().expect("good settings");
            net.nodes[0].core.learn_of(record);
        }
        net.drain(0);
        net
    }

    /// Returns such a cluster with links: neighbours are linked.
    pub(super) fn linked(profile: Profile, n: usize) -> Self {
        Self::linked_with(profile, n, profile.settings().reap_after)
    }

    /// Returns a cluster of linked nodes in which the dead are forgotten after so long.
    pub(super) fn linked_with(profile: Profile, n: usize, reap_after: Duration) -> Self {
        let mut net = Self::new(profile);
        net.settings.reap_after = reap_after;
        net.lay_wires();
        for i in 0..n {
            net.add(&format!("n{i}"), i, &[0]);
        }
        net.run(Duration::from_secs(10));
        net.assert_all_up();
        net
    }

    /// Returns a cluster in which the dead are forgotten after a minute.
    pub(super) fn with_short_memory(n: usize) -> Self {
        let mut net = Self::new(Profile::Local);
        net.settings.reap_after = Duration::from_secs(60);
        for i in 0..n {
            net.add(&format!("n{i}"), i, &[0]);
        }
        net.run(Duration::from_secs(3));
        net.assert_all_up();
        net
    }

    /// Adds a node at a host; its incarnation grows with virtual time.
    pub(super) fn add(&mut self, name: &str, host: usize, seeds: &[usize]) -> usize {
        let incarnation = 1_000_000 + (self.now.since(Time::ORIGIN).as_millis() as u64) + self.nodes.len() as u64;
        self.add_born(name, host, seeds, incarnation)
    }

    /// Adds a node whose configuration names no voters: it learns who votes.
    pub(super) fn add_unconfigured(&mut self, name: &str, host: usize, seeds: &[usize]) -> usize {
        let mut init = self.init(name, host, seeds, 1_000_000 + self.now.since(Time::ORIGIN).as_millis() as u64);
        init.leadership.iter_mut().for_each(|quorum| quorum.voters.clear());
        self.add_birth(init, seeds.iter().map(|host| address(*host)).collect())
    }

    pub(super) fn add_born(&mut self, name: &str, host: usize, seeds: &[usize], incarnation: u64) -> usize {
        let init = self.init(name, host, seeds, incarnation);
        self.add_birth(init, seeds.iter().map(|host| address(*host)).collect())
    }

    fn init(&mut self, name: &str, host: usize, seeds: &[usize], incarnation: u64) -> CoreInit {
        self.counter += 1;
        CoreInit {
            leadership: (!self.voters.is_empty()).then(|| self.quorum(name)),
            run: Run(0x1000 + self.counter),
            incarnation,
            stored_bound: incarnation + INCARNATION_STEP,
            seeds: seeds.len(),
            ..birth(name, self.counter, address(host), &self.settings)
        }
    }

    pub(super) fn add_birth(&mut self, init: CoreInit, seeds: Vec<SocketAddr>) -> usize {
        let (address, now) = (init.address, self.now);
        let node = Node {
            core: Core::new(init, now),
            address,
            changes: Vec::new(),
            notices: Vec::new(),
            messages: Vec::new(),
            replies: Vec::new(),
            partitions: Vec::new(),
            leadership: Vec::new(),
            lease_updates: Vec::new(),
            believed_updates: Vec::new(),
            voters_heard: Vec::new(),
            stopped: None,
            seeds,
            paused: false,
            parked: Vec::new(),
            parked_links: Vec::new(),
            largest: 0,
            sent: 0,
            busiest: 0,
        };
        self.nodes.push(node);
        let at = self.nodes.len() - 1;
        self.drain(at);
        at
    }

    /// Returns the state that a node is born with where leaders are elected: as its last process left it on its disk,
    /// or fresh.
    fn quorum(&mut self, name: &str) -> QuorumInit {
        let blank = Ballot::blank(Identity(xxhash_rust::xxh3::xxh3_64(&self.counter.to_le_bytes())));
        QuorumInit {
            timing: self.lease,
            policy: LeaderPolicy::default(),
            voters: self.voters.clone(),
            ballot: self.disks.get(name).cloned().unwrap_or(blank),
            floor: Term(0),
            wall_clock: EARLIEST_FOUNDING + self.now.since(Time::ORIGIN).as_millis() as u64,
        }
    }

    /// Ends a process without a message.
    pub(super) fn kill(&mut self, node: usize) {
        self.nodes[node].stopped = Some(StopReason::Left);
        self.close_links_of(node);
    }

    pub(super) fn pause(&mut self, node: usize, paused: bool) {
        self.nodes[node].paused = paused;
        if !paused {
            // Packets that arrived meanwhile come first, then the time.
            for (from, bytes) in std::mem::take(&mut self.nodes[node].parked) {
                self.input(node, Input::Packet { from, bytes: &bytes });
            }
            self.unpark_links(node);
        }
    }

    /// Cuts (or heals) both directions between two nodes.
    pub(super) fn cut(&mut self, a: usize, b: usize, is_cut: bool) {
        for pair in [(a, b), (b, a)] {
            if is_cut {
                self.cut.insert(pair);
            } else {
                self.cut.remove(&pair);
            }
        }
    }

    /// Lets all datagrams from and to a node wait, or lets them go, all at once.
    pub(super) fn hold_up(&mut self, node: usize, is_held_up: bool) {
        if is_held_up {
            self.held_up.insert(node);
            return;
        }
        self.held_up.remove(&node);
        for (from, to, bytes) in std::mem::take(&mut self.waiting) {
            self.deliver(from, to, &bytes, false);
        }
    }

    /// Drops what goes from one node to another.
    pub(super) fn cut_one_way(&mut self, from: usize, to: usize) {
        self.cut.insert((from, to));
    }

    pub(super) fn input(&mut self, node: usize, input: Input<'_>) {
        if self.nodes[node].stopped.is_none() {
            let now = self.now;
            self.nodes[node].core.handle(now, input);
            self.drain(node);
        }
    }

    pub(super) fn command(&mut self, node: usize, command: Command) {
        self.input(node, Input::Command(command));
    }

    pub(super) fn drain(&mut self, at: usize) {
        let mut resolve = false;
        let (mut persist, mut ended) = (None, None);
        let sent_before = self.nodes[at].sent;
        while let Some(output) = self.nodes[at].core.poll() {
            let node = &mut self.nodes[at];
            match output {
                Output::Transmit { to, receiver, bytes } => {
                    node.largest = node.largest.max(bytes.len());
                    node.sent += 1;
                    let is_of_family = |address: &SocketAddr| address.is_ipv6() == to.is_ipv6();
                    let further = self.further.iter().filter(|(of, _)| *of == at).map(|(_, address)| *address);
                    let Some(from) = [node.address].into_iter().chain(further).find(is_of_family) else { continue };
                    if let Some(sent) = &mut self.sent {
                        sent.push((from, to, bytes.clone()));
                    }
                    self.counter += 1;
                    if self.is_sealed && receiver == Receiver::Anybody {
                        self.unbound.insert(self.counter);
                    } else if let Receiver::Run(run) = receiver
                        && self.is_sealed
                        && !self
                            .nodes
                            .iter()
                            .any(|node| node.address == to && node.stopped.is_none() && node.core.me().run == run)
                    {
                        continue;
                    }
                    // By a hash, so that no pattern of packets is always or never hit.
                    let draw = xxhash_rust::xxh3::xxh3_64(&self.counter.to_le_bytes());
                    let is_lost = self.is_lost.is_some_and(|is_lost| is_lost(&bytes));
                    if !is_lost && !draw.is_multiple_of(self.drop_one_in) {
                        let at = self.now + self.latency + self.jitter.mul_f64((draw % 1_000) as f64 / 1_000.0);
                        self.in_flight.insert((at, self.counter), (from, to, bytes));
                    }
                }
                Output::Change(change) => node.changes.push((self.now, change)),
                Output::Heard(_) | Output::HeartbeatSent(_) => {}
                Output::LeaseUpdate { update, is_believed } => {
                    node.believed_updates.extend(Some(&update).filter(|_| is_believed).cloned());
                    node.lease_updates.push(update);
                }
                Output::VotersHeard { is_led, leader, .. } => node.voters_heard.push((is_led, leader)),
                // Unless wires are laid, this is a network without TCP: everything must work without links.
                Output::OpenLink { link, to } => {
                    self.opened.push(to);
                    self.open_link(at, link, to);
                }
                Output::SendFrame { link, bytes } => self.send_frame(at, link, bytes),
                Output::CloseLink { link } => self.close_link(at, link),
                Output::Persist(durable) => persist = Some(durable),
                Output::EndWork { term } => ended = Some(term),
                Output::Leadership(_)
                | Output::LeaderElected { .. }
                | Output::LeaderLost { .. }
                | Output::Quorum { .. }
                | Output::ViewAgreed(_) => node.leadership.push((self.now, output)),
                Output::ResolveSeeds => {
                    self.lookups += 1;
                    resolve = true;
                }
                Output::Reply { reply, .. } => node.replies.push(reply),
                Output::Notice(notice) => node.notices.push(notice),
                Output::Message(message) => node.messages.push((self.now, *message)),
                Output::PartitionSuspected { unreachable, reachable } => {
                    node.partitions.push((self.now, Partition { is_over: false, unreachable, reachable }));
                }
                Output::PartitionHealed { unreachable, reachable } => {
                    node.partitions.push((self.now, Partition { is_over: true, unreachable, reachable }));
                }
                Output::Stopped(reason) => {
                    node.stopped = Some(reason);
                    self.close_links_of(at);
                }
            }
        }
        let node = &mut self.nodes[at];
        node.busiest = node.busiest.max(node.sent - sent_before);
        if let Some(durable) = persist {
            self.write(at, durable);
        }
        if let Some(term) = ended {
            self.input(at, Input::WorkEnded { term });
        }
        if resolve && !self.lookups_hang {
            let seeds = self.nodes[at].seeds.iter().map(|seed| vec![*seed]).collect();
            self.input(at, Input::SeedAddresses(seeds));
        }
    }

    fn write(&mut self, at: usize, durable: Durable) {
        if let Some(untaken) = self.full_disks.get_mut(&at) {
            *untaken = Some(durable);
            return self.input(at, Input::PersistFailed);
        }
        let Durable { incarnation_bound, ballot, .. } = durable;
        let ballot_version = ballot.as_ref().map_or(0, |ballot| ballot.version);
        if let Some(ballot) = ballot {
            self.disks.insert(self.nodes[at].core.me().id.to_string(), ballot);
        }
        self.input(at, Input::Persisted { incarnation_bound, ballot_version });
    }

    /// Has a disk take again what it is given.
    pub(super) fn free_disk(&mut self, node: usize) {
        if let Some(durable) = self.full_disks.remove(&node).flatten() {
            self.write(node, durable);
        }
    }

    /// Hands in the packets that arrive next, or the ticks that are due next.
    fn step(&mut self, until: Time) -> bool {
        let packet = self.in_flight.keys().next().copied();
        let landing = self.wires.next().filter(|landing| packet.is_none_or(|packet| *landing < packet));
        let packet = landing.or(packet);
        let running = |node: &&Node| node.stopped.is_none() && !node.paused;
        let tick = self.nodes.iter().filter(running).filter_map(|node| node.core.next_deadline()).min();
        let next = match (packet, tick) {
            (Some((at, _)), tick) if tick.is_none_or(|tick| at <= tick) => at,
            (_, Some(tick)) => tick,
            _ => return false,
        };
        if next > until {
            return false;
        }
        self.now = self.now.max(next);
        if let Some(key) = packet.filter(|(at, _)| *at <= next) {
            if landing.is_some() {
                self.land();
            } else {
                let (from, to, bytes) = self.in_flight.remove(&key).expect("just seen");
                let is_unbound = self.unbound.remove(&key.1);
                self.deliver(from, to, &bytes, is_unbound);
            }
        } else {
            for at in 0..self.nodes.len() {
                let node = &self.nodes[at];
                if !node.paused && node.core.next_deadline().is_some_and(|deadline| deadline <= self.now) {
                    self.input(at, Input::Tick);
                }
            }
        }
        true
    }

    fn deliver(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8], is_unbound: bool) {
        let further = |address| self.further.iter().find(|(_, further)| *further == address).map(|(of, _)| *of);
        let to = further(to).map_or(to, |of| self.nodes[of].address);
        // A translator of addresses passes on both ways.
        let to = self.seen_at.iter().find(|(_, seen)| **seen == to).map_or(to, |(inside, _)| *inside);
        let find = |address| self.nodes.iter().rposition(|node| node.address == address && node.stopped.is_none());
        let Some(to) = find(to) else {
            self.undelivered.push((to, bytes.to_vec()));
            return;
        };
        let sender = self.nodes.iter().rposition(|node| node.address == from);
        let is_cut = sender.is_some_and(|sender| self.cut.contains(&(sender, to)));
        if is_cut || self.wires.blocks_datagrams(sender, to) {
            return;
        }
        if [Some(to), sender].into_iter().flatten().any(|node| self.held_up.contains(&node)) {
            self.waiting.push((from, self.nodes[to].address, bytes.to_vec()));
            return;
        }
        if self.nodes[to].paused {
            // The kernel keeps it.
            self.nodes[to].parked.push((from, bytes.to_vec()));
            return;
        }
        let from = self.seen_at.get(&from).copied().unwrap_or(from);
        let packet = if is_unbound { Input::UnboundPacket { from, bytes } } else { Input::Packet { from, bytes } };
        self.input(to, packet);
    }

    pub(super) fn run(&mut self, duration: Duration) {
        let until = self.now + duration;
        while self.step(until) {}
        self.now = until;
        self.check_views();
    }

    /// Runs until a condition holds; fails after `within`.
    pub(super) fn run_until(&mut self, within: Duration, what: &str, mut holds: impl FnMut(&Net) -> bool) -> Duration {
        let (start, until) = (self.now, self.now + within);
        while !holds(self) {
            assert!(self.step(until), "not within {within:?}: {what}\n{}", self.describe());
        }
        self.now.since(start)
    }
}
