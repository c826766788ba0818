//! Faults as printable operations, and a seeded generator of schedules of them.
//!
//! Invariants: the schedule depends on its seed alone, not on how the cores respond; an operation that makes no sense
//! when its time comes (the node has stopped meanwhile) does nothing and says so; every disturbance ends by itself or
//! at the healing. Must not know: how the protocol copes with any of it.

mod contenders;
mod large;
mod operators;
mod talkers;
mod voters;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::network::{Burst, Conditions, Cut, Latency, NodeLoss, NodeSet, CutTraffic};
use super::random::{Purpose, Random};
use super::streams::Tcp;
use super::world::World;
use crate::core::{Command, Tags};
pub use contenders::LeaseFault;
pub use large::Variation;
pub use talkers::Talk;
pub use voters::VoterFault;

/// The state of a node's disk at its next start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFate {
    /// The disk holds what was written to it.
    Kept,
    /// The disk is empty.
    Lost,
    /// The disk is empty, and the wall clock was set back by this much meanwhile.
    LostAndClockBack(Duration),
}

/// One operation on the world. Its last duration is the time for which it lasts, unless its comment says otherwise.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// A process dies without saying goodbye; its kernel closes its links.
    Crash(usize),
    /// A host loses its power: none of its connections is closed.
    PowerOff(usize),
    /// A router forgets the connections of a node and resets them.
    ResetLinks(usize),
    /// A firewall drops or rejects TCP for a while.
    Firewall(Tcp, Duration),
    /// A process that is gone is started again.
    Restart(usize, DiskFate),
    /// Several processes die and are started again at once.
    MassRestart(Vec<usize>, DiskFate),
    /// Several processes die at one instant.
    MassCrash(Vec<usize>),
    /// Several processes die at one instant, and each is started again at some time within the duration.
    StaggeredRestart(Vec<usize>, DiskFate, Duration),
    /// A process is suspended.
    Pause(usize, Duration),
    /// A process handles everything late, by up to the first duration, for the second.
    Slow(usize, Duration, Duration),
    /// Some nodes are cut off from the rest, both ways.
    Partition(Vec<usize>, Duration),
    /// Nothing from the first nodes reaches the second ones.
    OneWayCut(Vec<usize>, Vec<usize>, Duration),
    /// Nothing reaches these nodes for the first duration, then everything for as long, and so on for the second
    /// duration.
    FlipFlop(Vec<usize>, Duration, Duration),
    /// Datagrams from or to a node are lost with these chances.
    Lossy(usize, NodeLoss, Duration),
    /// The conditions of the whole network change.
    SetConditions(Conditions, Duration),
    /// A node leaves.
    Leave(usize),
    /// A node removes another one.
    Remove {
        /// The node that is asked to remove.
        by: usize,
        /// The node to be removed.
        node: usize,
        /// True to remove the node even if it is not Down.
        force: bool,
    },
    /// A node is given new tags.
    SetTags(usize, u64),
    /// A node is told to join by another node's address.
    Contact(usize, usize),
    /// A new node starts.
    Join,
    /// A fault of voters.
    Voters(VoterFault),
    /// Several processes that are gone are started again, each at some time within the duration.
    StartAll(Vec<usize>, DiskFate, Duration),
    /// Several hosts lose their power at one instant.
    MassPowerOff(Vec<usize>),
    /// Several nodes leave at one instant.
    MassLeave(Vec<usize>),
    /// Traffic of some kind does not pass from the first to the second node of each pair. All other nodes hear both.
    Pairs(Vec<(usize, usize)>, CutTraffic, Duration),
    /// No datagram passes between any two nodes; connections do.
    NoDatagrams(Duration),
    /// Nothing reaches a node, and all others hear it.
    Deafen(usize, Duration),
    /// A new node starts, and its process dies this long after it became Up.
    JoinAndDie(Duration),
    /// A new node starts at the address of one that is gone.
    Inherit {
        /// The former owner of the address.
        of: usize,
        /// True if the new node takes the former owner's name, too.
        named_alike: bool,
    },
    /// A new node starts under another node's name.
    Twin(usize),
    /// A program sends a message.
    Talk(Talk),
    /// Something happens to a lease in a database.
    Lease(LeaseFault),
}

impl Operation {
    /// Carries out the operation; returns true if it made sense.
    pub fn apply(&self, world: &mut World) -> bool {
        match self {
            Operation::Crash(node) => world.crash(*node),
            Operation::PowerOff(node) => world.power_off(*node),
            Operation::ResetLinks(node) => {
                world.reset_links(*node);
                true
            }
            Operation::Firewall(tcp, lasting) => {
                world.disturb_tcp(*tcp, *lasting);
                true
            }
            Operation::Restart(node, disk) => restart(world, *node, *disk),
            Operation::MassRestart(nodes, disk) => {
                let crashed: Vec<usize> = nodes.iter().copied().filter(|node| world.crash(*node)).collect();
                for node in &crashed {
                    restart(world, *node, *disk);
                }
                !crashed.is_empty()
            }
            Operation::MassCrash(nodes) => nodes.iter().filter(|node| world.crash(**node)).count() > 0,
            Operation::StaggeredRestart(nodes, disk, within) => {
                let crashed: Vec<usize> = nodes.iter().copied().filter(|node| world.crash(*node)).collect();
                for (nth, node) in crashed.iter().enumerate() {
                    prepare_disk(world, *node, *disk);
                    // In a different order than they are numbered, spread over the time.
                    let share = (nth * 7 + 3) % crashed.len() + 1;
                    world.start_after(*node, *within * share as u32 / crashed.len() as u32);
                }
                !crashed.is_empty()
            }
            Operation::Pause(node, lasting) => world.pause(*node, *lasting),
            Operation::Slow(node, by, lasting) => world.slow(*node, *by, *lasting),
            Operation::Partition(side, lasting) => {
                world.partition(side, Some(*lasting));
                true
            }
            Operation::OneWayCut(from, to, lasting) => {
                world.cut(NodeSet::of(from), NodeSet::of(to), Some(*lasting));
                true
            }
            Operation::FlipFlop(deaf, period, lasting) => {
                let deaf = NodeSet::of(deaf);
                world.cut_in_turns(deaf.rest(), deaf, *period, *lasting);
                true
            }
            Operation::Lossy(node, loss, lasting) => {
                world.set_node_loss(*node, *loss, *lasting);
                true
            }
            Operation::SetConditions(conditions, lasting) => {
                world.disturb(*conditions, *lasting);
                true
            }
            Operation::Leave(node) => world.command(*node, Command::Leave),
            Operation::Remove { by, node, force } => {
                let (ticket, id) = (world.ticket(), world.id(*node).clone());
                world.command(*by, Command::Remove { ticket, id, force: *force })
            }
            Operation::SetTags(node, value) => {
                let tags = Tags::new(BTreeMap::from([("value".to_owned(), value.to_string())])).unwrap_or_default();
                let ticket = world.ticket();
                world.command(*node, Command::SetTags { ticket, tags })
            }
            Operation::Contact(node, other) => {
                let (ticket, addresses) = (world.ticket(), vec![world.address(*other)]);
                world.command(*node, Command::Join { ticket, addresses })
            }
            Operation::Join => {
                world.add_node();
                true
            }
            Operation::Voters(fault) => fault.apply(world),
            Operation::StartAll(nodes, disk, within) => {
                let gone: Vec<usize> = nodes.iter().copied().filter(|node| world.core(*node).is_none()).collect();
                for (nth, node) in gone.iter().enumerate() {
                    prepare_disk(world, *node, *disk);
                    world.start_after(*node, *within * nth as u32 / gone.len() as u32);
                }
                !gone.is_empty()
            }
            Operation::MassPowerOff(nodes) => nodes.iter().filter(|node| world.power_off(**node)).count() > 0,
            Operation::MassLeave(nodes) => {
                nodes.iter().filter(|node| world.command(**node, Command::Leave)).count() > 0
            }
            Operation::Pairs(pairs, stops, lasting) => {
                for (one, other) in pairs {
                    let cut = Cut::new(NodeSet::of(&[*one]), NodeSet::of(&[*other]));
                    world.add_cut(cut.stopping(*stops).limiting_suspicion_to(Vec::new()), Some(*lasting));
                }
                true
            }
            Operation::NoDatagrams(lasting) => {
                let everybody = || NodeSet::of(&[]).rest();
                let cut = Cut::new(everybody(), everybody()).stopping(CutTraffic::Datagrams);
                // A node that observes without being observed has no link, and hears from the others only; so does
                // every node for a while after connections were disturbed.
                let blames_nobody = world.observe_each_other() && world.are_links_up();
                let cut = if blames_nobody { cut.limiting_suspicion_to(Vec::new()) } else { cut };
                world.add_cut(cut, Some(*lasting));
                true
            }
            Operation::Deafen(node, lasting) => {
                let deaf = NodeSet::of(&[*node]);
                let cut = Cut::new(deaf.rest(), deaf).including_outside();
                // Nodes with different numbers of observers may observe members that do not send to them. Such a node
                // has asked others all along, and takes a moment to learn that it hears nothing any more.
                let cut = if world.observe_each_other() { cut.limiting_suspicion_to(vec![*node]) } else { cut };
                world.add_cut(cut, Some(*lasting));
                world.core(*node).is_some()
            }
            Operation::JoinAndDie(after) => {
                world.add_doomed_node(*after);
                true
            }
            Operation::Inherit { of, named_alike } => {
                let id = named_alike.then(|| world.id(*of).clone());
                world.core(*of).is_none() && world.add_heir(*of, id).is_some()
            }
            Operation::Talk(talk) => talk.apply(world),
            Operation::Lease(fault) => fault.apply(world),
            Operation::Twin(of) => {
                let id = world.id(*of).clone();
                world.add_twin(id);
                true
            }
        }
    }
}

fn restart(world: &mut World, node: usize, disk: DiskFate) -> bool {
    if world.core(node).is_some() {
        return false;
    }
    prepare_disk(world, node, disk);
    world.start(node)
}

fn prepare_disk(world: &mut World, node: usize, disk: DiskFate) {
    match disk {
        DiskFate::Kept => {}
        DiskFate::Lost => world.lose_disk(node),
        DiskFate::LostAndClockBack(by) => {
            world.lose_disk(node);
            world.step_clock_back(node, by);
        }
    }
}

impl fmt::Display for DiskFate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskFate::Kept => f.write_str("disk kept"),
            DiskFate::Lost => f.write_str("disk lost"),
            DiskFate::LostAndClockBack(by) => write!(f, "disk lost, clock {by:?} back"),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Crash(node) => write!(f, "crash {node}"),
            Operation::PowerOff(node) => write!(f, "power off {node}"),
            Operation::ResetLinks(node) => write!(f, "reset the links of {node}"),
            Operation::Firewall(tcp, lasting) => write!(f, "TCP {tcp:?} for {lasting:.1?}"),
            Operation::Restart(node, disk) => write!(f, "restart {node} ({disk})"),
            Operation::MassRestart(nodes, disk) => write!(f, "restart all of {nodes:?} ({disk})"),
            Operation::MassCrash(nodes) => write!(f, "crash all of {nodes:?}"),
            Operation::StaggeredRestart(nodes, disk, within) => {
                write!(f, "restart all of {nodes:?} within {within:.1?} ({disk})")
            }
            Operation::Pause(node, lasting) => write!(f, "pause {node} for {lasting:.1?}"),
            Operation::Slow(node, by, lasting) => write!(f, "slow {node} by up to {by:.0?} for {lasting:.1?}"),
            Operation::Partition(side, lasting) => write!(f, "cut {side:?} off for {lasting:.1?}"),
            Operation::OneWayCut(from, to, lasting) => write!(f, "cut {from:?} -> {to:?} for {lasting:.1?}"),
            Operation::FlipFlop(deaf, period, lasting) => {
                write!(f, "deafen {deaf:?} every other {period:.1?} for {lasting:.1?}")
            }
            Operation::Lossy(node, NodeLoss { outgoing, incoming }, lasting) => {
                write!(f, "lose {outgoing:.2} from and {incoming:.2} to {node} for {lasting:.1?}")
            }
            Operation::SetConditions(conditions, lasting) => {
                let Conditions { latency, loss, burst, duplicate, corrupt, late } = conditions;
                write!(f, "network for {lasting:.1?}: latency {:?}+{:?}", latency.base, latency.jitter)?;
                write!(f, " loss {loss:.2} burst {} dup {duplicate:.2} corrupt {corrupt:.2}", burst.is_some())?;
                late.map_or(Ok(()), |late| write!(f, " late {:.3} by up to {:.0?}", late.chance, late.most))
            }
            Operation::Leave(node) => write!(f, "leave {node}"),
            Operation::Remove { by, node, force } => write!(f, "remove {node} by {by}, force {force}"),
            Operation::SetTags(node, value) => write!(f, "tags of {node} = {value}"),
            Operation::Contact(node, other) => write!(f, "{node} is told to join {other}"),
            Operation::Join => write!(f, "join"),
            Operation::Voters(fault) => fault.fmt(f),
            Operation::StartAll(nodes, disk, within) => {
                write!(f, "start all of {nodes:?} within {within:.1?} ({disk})")
            }
            Operation::MassPowerOff(nodes) => write!(f, "power off {nodes:?}"),
            Operation::MassLeave(nodes) => write!(f, "leave: {nodes:?}"),
            Operation::Pairs(pairs, stops, lasting) => write!(f, "stop {stops:?} of pairs {pairs:?} for {lasting:.1?}"),
            Operation::NoDatagrams(lasting) => write!(f, "no datagrams anywhere for {lasting:.1?}"),
            Operation::Deafen(node, lasting) => write!(f, "deafen {node} for {lasting:.1?}"),
            Operation::JoinAndDie(after) => write!(f, "join, and die {after:.0?} later"),
            Operation::Inherit { of, named_alike } => write!(f, "join at the address of {of}, same name {named_alike}"),
            Operation::Talk(talk) => talk.fmt(f),
            Operation::Lease(fault) => fault.fmt(f),
            Operation::Twin(of) => write!(f, "join under the name of {of}"),
        }
    }
}

/// Operations in the order of their times.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// Number of nodes at the beginning.
    pub nodes: usize,
    /// Number of voters, which are the first nodes.
    pub voters: usize,
    /// The operations, each with its time since the start.
    pub operations: Vec<(Duration, Operation)>,
    /// Time at which everything is healed; no operation is later.
    pub heal_at: Duration,
    /// Differences of the schedule's world from the usual one.
    pub variation: Variation,
}

/// The generator's assumptions about the nodes: used only to make schedules that are mostly sensible.
struct AssumedState {
    running: Vec<bool>,
}

impl Schedule {
    /// The smallest number of operations.
    pub const LEAST: u64 = 20;
    /// The largest number of nodes, those that join later included.
    pub const MOST_NODES: usize = 9;

    /// Draws a random schedule.
    pub fn random(seed: u64) -> Self {
        let mut random = Random::new(seed, Purpose::Faults);
        let nodes = random.between(3, 7) as usize;
        let count = random.between(Self::LEAST, Self::LEAST + 10);
        let mut assumed = AssumedState { running: vec![true; nodes] };
        // Mostly there is time to form a cluster first; sometimes not.
        let mut at = random.duration(Duration::from_millis(200), Duration::from_secs(5));
        let mut operations = Vec::new();
        while (operations.len() as u64) < count {
            operations.push((at, assumed.next(&mut random)));
            // Faults come in clusters, so that they overlap.
            let pause = if random.chance(0.4) { Duration::from_millis(800) } else { Duration::from_secs(7) };
            at += random.duration(Duration::ZERO, pause);
        }
        let heal_at = at + random.duration(Duration::from_secs(1), Duration::from_secs(8));
        Self {
            nodes,
            voters: 0,
            operations,
            heal_at,
            variation: Variation { has_adversary: true, ..Variation::default() },
        }
    }
}

impl AssumedState {
    fn next(&mut self, random: &mut Random) -> Operation {
        loop {
            if let Some(operation) = self.propose(random) {
                return operation;
            }
        }
    }

    fn propose(&mut self, random: &mut Random) -> Option<Operation> {
        let seconds = |random: &mut Random, least: u64, most: u64| {
            random.duration(Duration::from_millis(least), Duration::from_millis(most))
        };
        match random.below(27) {
            0 | 1 => {
                let node = self.some(random, true).filter(|_| self.count() > 1)?;
                self.running[node] = false;
                Some(Operation::Crash(node))
            }
            24 => {
                let node = self.some(random, true).filter(|_| self.count() > 1)?;
                self.running[node] = false;
                Some(Operation::PowerOff(node))
            }
            25 => Some(Operation::ResetLinks(random.index(self.running.len()))),
            26 => {
                let tcp = if random.chance(0.5) { Tcp::Dropped } else { Tcp::Rejected };
                Some(Operation::Firewall(tcp, seconds(random, 500, 12_000)))
            }
            2..=5 => {
                let node = self.some(random, false)?;
                self.running[node] = true;
                Some(Operation::Restart(node, disk_fate(random)))
            }
            6 | 7 => Some(Operation::Pause(self.some(random, true)?, pause(random))),
            8 => {
                let by = seconds(random, 5, 150);
                Some(Operation::Slow(self.some(random, true)?, by, seconds(random, 500, 8_000)))
            }
            9 | 10 => Some(Operation::Partition(self.side(random), seconds(random, 500, 12_000))),
            11 => Some(Operation::Partition(vec![random.index(self.running.len())], seconds(random, 500, 15_000))),
            12 => {
                let from = self.side(random);
                let to = (0..self.running.len()).filter(|node| !from.contains(node)).collect();
                Some(Operation::OneWayCut(from, to, seconds(random, 500, 8_000)))
            }
            13 | 14 => Some(Operation::SetConditions(weather(random), seconds(random, 500, 8_000))),
            15 => {
                let node = self.some(random, true).filter(|_| self.count() > 1)?;
                self.running[node] = false;
                Some(Operation::Leave(node))
            }
            16 => self.remove(random),
            17 => Some(Operation::SetTags(self.some(random, true)?, random.below(1_000))),
            18 => {
                if self.running.len() < Schedule::MOST_NODES && random.chance(0.6) {
                    self.running.push(true);
                    return Some(Operation::Join);
                }
                Some(Operation::Contact(self.some(random, true)?, random.index(self.running.len())))
            }
            19 => {
                let lossy = self.some(random, true)?;
                let share = random.between(30, 90) as f64 / 100.0;
                let loss = match random.below(3) {
                    0 => NodeLoss { outgoing: share, incoming: 0.0 },
                    1 => NodeLoss { outgoing: 0.0, incoming: share },
                    _ => NodeLoss { outgoing: share, incoming: share },
                };
                Some(Operation::Lossy(lossy, loss, seconds(random, 500, 12_000)))
            }
            20 => {
                let period = seconds(random, 500, 5_000);
                Some(Operation::FlipFlop(self.side(random), period, seconds(random, 2_000, 20_000)))
            }
            21 => {
                let nodes: Vec<usize> =
                    (0..self.running.len()).filter(|node| self.running[*node] && random.chance(0.5)).collect();
                if nodes.is_empty() || nodes.len() == self.count() {
                    return None;
                }
                for node in &nodes {
                    self.running[*node] = false;
                }
                Some(Operation::MassCrash(nodes))
            }
            22 => {
                let all: Vec<usize> = (0..self.running.len()).filter(|node| self.running[*node]).collect();
                let within = seconds(random, 0, 2_000);
                Some(Operation::StaggeredRestart(all, DiskFate::Kept, within))
            }
            _ => {
                let nodes: Vec<usize> =
                    (0..self.running.len()).filter(|node| self.running[*node] && random.chance(0.7)).collect();
                (!nodes.is_empty()).then(|| Operation::MassRestart(nodes, disk_fate(random)))
            }
        }
    }

    fn remove(&mut self, random: &mut Random) -> Option<Operation> {
        let by = self.some(random, true)?;
        let force = random.chance(0.5);
        // Without force, only the removal of a dead member makes sense; now and then it is tried on a live one all the
        // same.
        let running = force || random.chance(0.1);
        let node = self.some(random, running).filter(|node| *node != by)?;
        if force && self.count() > 1 {
            self.running[node] = false;
        } else if force {
            return None;
        }
        Some(Operation::Remove { by, node, force })
    }

    fn count(&self) -> usize {
        self.running.iter().filter(|running| **running).count()
    }

    fn some(&self, random: &mut Random, running: bool) -> Option<usize> {
        let candidates: Vec<usize> = (0..self.running.len()).filter(|node| self.running[*node] == running).collect();
        random.pick(&candidates).copied()
    }

    /// Draws some nodes, at least one and not all.
    fn side(&self, random: &mut Random) -> Vec<usize> {
        let mut nodes: Vec<usize> = (0..self.running.len()).collect();
        let size = random.between(1, nodes.len() as u64 - 1) as usize;
        while nodes.len() > size {
            nodes.remove(random.index(nodes.len()));
        }
        nodes
    }
}

fn pause(random: &mut Random) -> Duration {
    // Short pauses matter most: those around the timeouts of the profile, which are seconds.
    let most = if random.chance(0.7) { 5_000 } else { 30_000 };
    random.duration(Duration::from_millis(100), Duration::from_millis(most))
}

fn disk_fate(random: &mut Random) -> DiskFate {
    match random.below(6) {
        0 => DiskFate::Lost,
        1 => DiskFate::LostAndClockBack(random.duration(Duration::from_secs(1), Duration::from_secs(7_200))),
        _ => DiskFate::Kept,
    }
}

fn weather(random: &mut Random) -> Conditions {
    let usual = Conditions::default();
    match random.below(5) {
        0 => Conditions { loss: random.between(5, 60) as f64 / 100.0, ..usual },
        1 => Conditions { burst: Some(Burst { begin: 0.03, end: 0.15, loss: 0.95 }), ..usual },
        2 => Conditions { corrupt: random.between(2, 30) as f64 / 100.0, ..usual },
        3 => Conditions { duplicate: random.between(10, 100) as f64 / 100.0, ..usual },
        _ => {
            let base = random.duration(Duration::from_millis(1), Duration::from_millis(60));
            Conditions { latency: Latency { base, jitter: base }, loss: 0.02, ..usual }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_schedules_of_at_least_twenty_operations() {
        for seed in 0..200 {
            let schedule = Schedule::random(seed);
            assert_eq!(schedule, Schedule::random(seed));
            assert!(schedule.operations.len() as u64 >= Schedule::LEAST);
            assert!(schedule.operations.windows(2).all(|pair| pair[0].0 <= pair[1].0), "in order of time");
            assert!(schedule.operations.iter().all(|(at, _)| *at <= schedule.heal_at));
        }
        assert_ne!(Schedule::random(1), Schedule::random(2));
    }

    #[test]
    fn every_kind_of_fault_turns_up_and_prints() {
        let mut kinds = std::collections::BTreeSet::new();
        for seed in 0..100 {
            for (_, operation) in Schedule::random(seed).operations {
                let text = operation.to_string();
                assert!(!text.is_empty());
                kinds.insert(format!("{:?}", std::mem::discriminant(&operation)));
            }
        }
        assert_eq!(kinds.len(), 20, "{kinds:?}");
    }

    #[test]
    fn somebody_always_runs() {
        for seed in 0..100 {
            let mut random = Random::new(seed, Purpose::Faults);
            let mut assumed = AssumedState { running: vec![true; 3] };
            for _ in 0..200 {
                assumed.next(&mut random);
                assert!(assumed.count() >= 1);
            }
        }
    }
}
