//! The scenarios of the comparison, and their measurements. Every figure is in virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use headcount::sim::{Purpose, Random};

use super::cluster::{Cluster, Conditions, Death, Detections, Verdict};
use super::systems::System;
use super::table::Figure;

/// Interval at which the scenarios look if something is over.
const STEP: Duration = Duration::from_millis(250);
/// Time for which nodes idle while their traffic is counted; four of foca's rarest periodic messages.
const IDLING: Duration = Duration::from_secs(120);
/// Time after which an event that has not happened is called "never".
const PATIENCE: Duration = Duration::from_secs(300);
/// Time after which a join is called "never": foca takes a quarter of an hour to tell a joiner about a thousand others.
const PATIENCE_JOINING: Duration = Duration::from_secs(1_800);
/// Time for which false alarms are awaited in one cluster.
const WATCH: Duration = Duration::from_secs(600);

/// The size of the measurements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) nodes: usize,
    pub(crate) seed: u64,
    pub(crate) conditions: Conditions,
    /// True to take about a tenth of the samples, to see that everything works.
    pub(crate) is_quick: bool,
}

impl Effort {
    /// Returns the number of clusters, and of events in each of them.
    fn repeated(&self, system: System) -> (u64, usize) {
        match (self.is_quick, system, self.nodes) {
            (true, _, _) => (1, 2),
            (false, _, ..=20) => (50, 1),
            (false, System::Chitchat, _) => (2, 10),
            (false, _, ..=200) => (10, 10),
            (false, _, _) => (2, 10),
        }
    }

    fn form(&self, system: System, cluster: u64) -> (Box<dyn Cluster>, Random) {
        let seed = self.seed + cluster;
        (system.form(self.nodes, seed, self.conditions), Random::new(seed, Purpose::Scenario))
    }
}

/// Lines of the table: the name and the figure of each. One measurement may give several lines.
pub(crate) type Lines = Vec<(&'static str, Figure)>;

/// Measures the traffic of a node while nothing happens, headers of IP and UDP included.
pub(crate) fn idle(system: System, effort: &Effort) -> Lines {
    let (mut cluster, _) = effort.form(system, 0);
    let before: Vec<_> = (0..effort.nodes).map(|node| cluster.traffic(node)).collect();
    cluster.advance(IDLING);
    let seconds = IDLING.as_secs_f64();
    let (mut bytes, mut packets, mut most) = (0, 0, 0);
    for (node, before) in before.iter().enumerate() {
        let after = cluster.traffic(node);
        bytes += after.bytes - before.bytes;
        packets += after.packets - before.packets;
        most = most.max(after.bytes - before.bytes);
    }
    let nodes = effort.nodes as f64;
    vec![
        ("idle, bytes/s per node", Figure::number(bytes as f64 / nodes / seconds, 0)),
        ("idle, packets/s per node", Figure::number(packets as f64 / nodes / seconds, 2)),
        ("idle, bytes/s of the busiest node", Figure::number(most as f64 / seconds, 0)),
    ]
}

/// Measures joins: nodes join a formed cluster, one after the other.
pub(crate) fn join(system: System, effort: &Effort) -> Lines {
    let (clusters, events) = effort.repeated(system);
    let (clusters, events) = if effort.nodes > 200 { (1, 3) } else { (clusters.min(20), events.min(5)) };
    let (mut heard_of, mut has_heard) = (Vec::new(), Vec::new());
    for number in 0..clusters {
        let (mut cluster, mut random) = effort.form(system, number);
        for _ in 0..events {
            cluster.advance(random.duration(Duration::ZERO, Duration::from_secs(10)));
            cluster.sightings();
            let start = cluster.now();
            let end = start + PATIENCE_JOINING;
            let joiner = cluster.boot();
            let mut about = Detections::new(start, joiner, Verdict::Up);
            let mut learnt: BTreeSet<usize> = BTreeSet::new();
            let mut knows_all = None;
            while cluster.now() < end {
                cluster.advance(STEP);
                for sighting in cluster.sightings() {
                    about.take(&sighting);
                    if sighting.observer == joiner && sighting.verdict == Verdict::Up {
                        learnt.insert(sighting.subject);
                        if learnt.len() == joiner {
                            knows_all.get_or_insert(sighting.at.saturating_sub(start));
                        }
                    }
                }
                if knows_all.is_some() && about.reached(0..joiner) {
                    break;
                }
            }
            heard_of.push(about.last(0..joiner));
            has_heard.push(knows_all);
        }
    }
    vec![("joiner known to all", Figure::times(&heard_of)), ("joiner knows all", Figure::times(&has_heard))]
}

/// Measures changes of a node's tags, value, or identity, as the system has it.
pub(crate) fn change(system: System, effort: &Effort) -> Lines {
    let (clusters, events) = effort.repeated(system);
    let mut known = Vec::new();
    for number in 0..clusters.min(20) {
        let (mut cluster, mut random) = effort.form(system, number);
        for _ in 0..events.min(5) {
            cluster.advance(random.duration(Duration::ZERO, Duration::from_secs(10)));
            cluster.sightings();
            let start = cluster.now();
            let node = random.index(effort.nodes);
            cluster.change(node);
            let mut about = Detections::new(start, node, Verdict::Changed);
            let others: Vec<_> = (0..effort.nodes).filter(|other| *other != node).collect();
            while cluster.now() < start + PATIENCE && !about.reached(others.iter().copied()) {
                cluster.advance(STEP);
                cluster.sightings().iter().for_each(|sighting| about.take(sighting));
            }
            known.push(about.last(others));
        }
    }
    vec![("change known to all", Figure::times(&known))]
}

/// Measures silent hosts.
pub(crate) fn silence(system: System, effort: &Effort) -> Lines {
    let [first, everywhere, false_alarms] = deaths(system, effort, Death::Host);
    vec![
        ("host silent, first Down", first),
        ("host silent, Down everywhere", everywhere),
        ("false alarms meanwhile", false_alarms),
    ]
}

/// Measures killed processes. To a system that only sends datagrams that is a silent host.
pub(crate) fn kill(system: System, effort: &Effort) -> Lines {
    let same = || Figure::reference("as silent");
    let [first, everywhere] = match system {
        System::HeadcountLan | System::HeadcountFast | System::HeadcountDefault | System::HeadcountWan => {
            let [first, everywhere, _] = deaths(system, effort, Death::Process);
            [first, everywhere]
        }
        System::FocaLan | System::FocaWan | System::Chitchat | System::Swim => [same(), same()],
    };
    vec![("process killed, first Down", first), ("process killed, Down everywhere", everywhere)]
}

fn deaths(system: System, effort: &Effort, death: Death) -> [Figure; 3] {
    let (clusters, events) = effort.repeated(system);
    let (mut first, mut last) = (Vec::new(), Vec::new());
    let mut false_alarms = 0_u32;
    for number in 0..clusters {
        let (mut cluster, mut random) = effort.form(system, number);
        let mut living: Vec<usize> = (0..effort.nodes).collect();
        for _ in 0..events {
            // Random, so that the phases of the others vary, and long enough for gossip to forget the last one.
            let pause = random.duration(Duration::from_secs(10), Duration::from_secs(20));
            cluster.advance(pause);
            let victim = living.swap_remove(random.index(living.len()));
            let start = cluster.now();
            let mut about = Detections::new(start, victim, Verdict::Down);
            cluster.kill(victim, death);
            while cluster.now() < start + PATIENCE && !about.reached(living.iter().copied()) {
                cluster.advance(STEP);
                for sighting in cluster.sightings() {
                    about.take(&sighting);
                    let is_alive = |node| living.contains(&node);
                    let accuses = sighting.verdict == Verdict::Down && is_alive(sighting.observer);
                    false_alarms += u32::from(accuses && is_alive(sighting.subject));
                }
            }
            first.push(about.first(living.iter().copied()));
            last.push(about.last(living.iter().copied()));
        }
    }
    [Figure::times(&first), Figure::times(&last), Figure::number(f64::from(false_alarms), 0)]
}

/// Measures false alarms under loss: datagrams are lost independently, one in a hundred arrives twice, and no node
/// dies.
pub(crate) fn loss(system: System, effort: &Effort, loss: f64) -> Lines {
    let clusters = match (effort.is_quick, system, effort.nodes) {
        (false, _, ..=20) => 30,
        (true, _, _) | (false, System::Chitchat, _) | (false, _, 500..) => 1,
        (false, _, _) => 3,
    };
    let watch = if effort.is_quick { WATCH / 10 } else { WATCH };
    let mut episodes = 0_u32;
    for number in 0..clusters {
        let (mut cluster, _) = effort.form(system, 100 + number);
        cluster.disturb(Conditions { loss, duplicate: 0.01, ..effort.conditions });
        cluster.sightings();
        // A healthy node that one or many hold Down at the same time is one false alarm.
        let mut accused: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        let end = cluster.now() + watch;
        while cluster.now() < end {
            cluster.advance(Duration::from_secs(1));
            for sighting in cluster.sightings() {
                let accusers = accused.entry(sighting.subject).or_default();
                match sighting.verdict {
                    Verdict::Up => drop(accusers.remove(&sighting.observer)),
                    Verdict::Down => {
                        episodes += u32::from(accusers.is_empty());
                        accusers.insert(sighting.observer);
                    }
                    Verdict::Changed => {}
                }
            }
        }
    }
    let node_hours = clusters as f64 * effort.nodes as f64 * watch.as_secs_f64() / 3_600.0;
    let name =
        if loss < 0.1 { "false alarms per node-hour, 5 % loss" } else { "false alarms per node-hour, 25 % loss" };
    vec![(name, Figure::rate(episodes, node_hours))]
}
