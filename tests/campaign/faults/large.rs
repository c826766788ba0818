//! Larger worlds, with what small and hasty ones never see: rings of observers, mixed paces, long peace, long pauses,
//! faults of single pairs, most of all nodes gone at once, addresses and names used again.
//!
//! Most faults come alone, after a time of peace, because that is the condition of the promises that are made in
//! seconds; others come close together.

#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use super::drawing::{AssumedState, disk_fate, weather, weighted};
use super::{DiskFate, Operation, Schedule};
use headcount_core::{Profile, Settings};
use headcount_sim::network::{Conditions, CutTraffic, Late, NodeLoss};
use headcount_sim::{Purpose, Random};
use headcount_sim::{SecondCluster, Tcp};

/// Differences of a schedule's world from the usual one.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "faults that are tried, each by itself")]
pub struct Variation {
    /// True for a schedule of the large campaign.
    pub is_large: bool,
    /// Settings that nodes take in turns; if empty, all nodes have the usual ones.
    pub mixed: Vec<Settings>,
    /// Approximate number of observers of each node, if it is not the usual one.
    pub observers: Option<usize>,
    /// The largest error of clock rates, in parts per million.
    pub clock_error_ppm: u64,
    /// True for a schedule of electorates that meet.
    pub is_meeting: bool,
    /// A second cluster, which the first one is to meet.
    pub second: Option<SecondCluster>,
    /// True if nodes have IPv6 addresses.
    pub ipv6: bool,
    /// The longest pause.
    pub longest_pause: Duration,
    /// True if everything is sealed, and somebody plays what was recorded.
    pub sealed: bool,
    /// The number of nodes that contend for a lease in a database: the first ones.
    pub contenders: usize,
    /// A rule that contenders leave out.
    pub flaw: Option<headcount_contender::flaw::Flaw>,
}

impl Default for Variation {
    fn default() -> Self {
        Self {
            is_large: false,
            mixed: Vec::new(),
            observers: None,
            clock_error_ppm: 200,
            is_meeting: false,
            second: None,
            ipv6: false,
            longest_pause: Duration::from_secs(30),
            sealed: false,
            contenders: 0,
            flaw: None,
        }
    }
}

impl fmt::Display for Variation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mixed, observers, clock_error_ppm, ipv6, .. } = self;
        if let Some(observers) = observers {
            write!(f, ", {observers} observers each")?;
        }
        for (nth, settings) in mixed.iter().enumerate() {
            let turns = if nth == 0 { ", in turns" } else { " and" };
            let Settings { heartbeat_interval, down_timeout, observers, .. } = settings;
            write!(f, "{turns} {observers} observers, heartbeats {heartbeat_interval:?}, down {down_timeout:?}")?;
        }
        if let Some(SecondCluster { nodes, voters }) = &self.second {
            write!(f, ", {nodes:?} are a second cluster, the first {voters} of which vote")?;
        }
        if self.contenders > 0 {
            write!(f, ", {} contend for a lease", self.contenders)?;
        }
        let family = if *ipv6 { ", IPv6" } else { "" };
        write!(f, ", clocks wrong by {clock_error_ppm} ppm{family}")
    }
}

/// The largest error of clock rates in this campaign, in parts per million: one percent.
const DRIFT_PPM: u64 = 10_000;

const SECOND: Duration = Duration::from_secs(1);

impl Schedule {
    /// The smallest and the largest number of nodes at the beginning of a large schedule.
    pub const LARGE: (u64, u64) = (10, 40);
    /// The largest number of nodes of a large schedule, those that join later included.
    pub const MOST_LARGE: usize = 56;

    /// Returns the schedule of a seed of the large campaign.
    pub fn large(seed: u64) -> Self {
        let mut random = Random::new(seed, Purpose::LargeFaults);
        let nodes = random.between(Self::LARGE.0, Self::LARGE.1) as usize;
        let voters = match random.below(4) {
            0 => 3,
            1 => 5,
            _ => 0,
        };
        let variation = Variation::random(&mut random);
        let mut assumed = AssumedState { running: vec![true; nodes] };
        let mut at = random.duration(SECOND * 12, SECOND * 20);
        let mut operations = Vec::new();
        for _ in 0..random.between(5, 8) {
            let (operation, lasting) = loop {
                if let Some(drawn) = assumed.propose_large(&mut random, voters) {
                    break drawn;
                }
            };
            operations.push((at, operation));
            at += match random.below(8) {
                0 => random.duration(Duration::ZERO, SECOND * 2),
                1 => random.duration(Duration::ZERO, SECOND * 15),
                2..=4 => lasting + random.duration(SECOND * 12, SECOND * 20),
                // By then failed links have been tried again, tombstones are gone, and estimates have drifted.
                _ => lasting + random.duration(SECOND * 85, SECOND * 150),
            };
        }
        let heal_at = at + random.duration(SECOND, SECOND * 8);
        Self { nodes, voters, operations, heal_at, variation }
    }
}

impl Variation {
    fn random(random: &mut Random) -> Self {
        let settings = |profile: Profile, observers: usize| Settings {
            observers,
            reap_after: Duration::from_secs(60),
            ..profile.settings()
        };
        let local = Profile::Local.settings();
        // Mixed paces: some nodes at double the pace of the others, or a profile that is several times slower.
        let quick = Settings {
            heartbeat_interval: local.heartbeat_interval / 2,
            gossip_interval: local.gossip_interval / 2,
            ..settings(Profile::Local, local.observers)
        };
        let observers = [4, 6, 10, 16];
        let one = *random.pick(&observers).unwrap_or(&10);
        let mixed = match random.below(6) {
            0 => vec![settings(Profile::Local, one), settings(Profile::Lan, one)],
            1 => vec![quick, settings(Profile::Local, local.observers)],
            2 => vec![settings(Profile::Local, 4), settings(Profile::Local, 10), settings(Profile::Local, 16)],
            _ => Vec::new(),
        };
        let drifts = random.chance(0.25);
        Self {
            is_large: true,
            mixed,
            observers: random.chance(0.5).then_some(one),
            clock_error_ppm: if drifts { DRIFT_PPM } else { 200 },
            ipv6: random.chance(0.2),
            longest_pause: Duration::from_secs(100),
            ..Self::default()
        }
    }
}

/// The world for which a fault is drawn.
struct Scene {
    voters: usize,
    /// The time that it lasts, if it lasts.
    lasting: Duration,
}

impl Scene {
    #[expect(clippy::unnecessary_wraps, reason = "all rows have one form")]
    fn timed(&self, operation: Operation) -> Option<(Operation, Duration)> {
        Some((operation, self.lasting))
    }
}

#[expect(clippy::unnecessary_wraps, reason = "all rows have one form")]
fn at_once(operation: Operation) -> Option<(Operation, Duration)> {
    Some((operation, Duration::ZERO))
}

/// Draws the figures of one fault, and the time that it lasts; `None` if it makes no sense now.
type Draw = fn(&mut AssumedState, &mut Random, &Scene) -> Option<(Operation, Duration)>;

/// The faults, each with its weight.
const FAULTS: [(u64, Draw); 24] = [
    (2, |assumed, random, _| {
        let node = assumed.some(random, true).filter(|_| assumed.count() > 2)?;
        assumed.running[node] = false;
        at_once(Operation::Crash(node))
    }),
    (2, |assumed, random, scene| at_once(Operation::MassCrash(assumed.many(random, scene.voters)?))),
    (1, |assumed, random, scene| {
        let nodes = assumed.many(random, scene.voters)?;
        at_once(Operation::MassPowerOff(nodes))
    }),
    (1, |assumed, random, _| {
        let node = assumed.some(random, true).filter(|_| assumed.count() > 2)?;
        assumed.running[node] = false;
        at_once(Operation::PowerOff(node))
    }),
    (2, |assumed, random, scene| at_once(Operation::MassLeave(assumed.many(random, scene.voters)?))),
    (2, |assumed, random, scene| scene.timed(Operation::Partition(vec![assumed.some(random, true)?], scene.lasting))),
    (2, |assumed, random, scene| scene.timed(Operation::Partition(assumed.side(random), scene.lasting))),
    (1, |assumed, random, scene| scene.timed(Operation::Deafen(assumed.some(random, true)?, scene.lasting))),
    (1, |assumed, random, scene| {
        let stops = *random.pick(&[CutTraffic::Everything, CutTraffic::Datagrams, CutTraffic::Connections])?;
        let pairs = (0..random.between(1, 12)).filter_map(|_| {
            let (one, other) = (random.index(assumed.running.len()), random.index(assumed.running.len()));
            (one != other).then_some((one, other))
        });
        let pairs: Vec<(usize, usize)> = pairs.collect();
        let both_ways = pairs.iter().flat_map(|(one, other)| [(*one, *other), (*other, *one)]).collect();
        scene.timed(Operation::Pairs(if random.chance(0.5) { pairs } else { both_ways }, stops, scene.lasting))
    }),
    (1, |_, _, scene| scene.timed(Operation::NoDatagrams(scene.lasting))),
    (1, |_, _, scene| {
        let late = Some(Late { chance: 0.01, most: SECOND * 300 });
        scene.timed(Operation::SetConditions(
            Conditions { late, duplicate: 0.1, ..Conditions::default() },
            scene.lasting,
        ))
    }),
    (1, |_, random, scene| scene.timed(Operation::SetConditions(weather(random), scene.lasting))),
    (1, |assumed, random, _| at_once(Operation::ResetLinks(random.index(assumed.running.len())))),
    (1, |assumed, random, _| {
        let pause = random.duration(SECOND * 62, SECOND * 100);
        Some((Operation::Pause(assumed.some(random, true)?, pause), pause))
    }),
    (1, |assumed, random, _| {
        let of = assumed.some(random, false)?;
        (assumed.running.len() < Schedule::MOST_LARGE).then(|| assumed.running.push(true))?;
        at_once(Operation::Inherit { of, named_alike: random.chance(0.5) })
    }),
    (1, |assumed, random, scene| {
        let of = assumed.some(random, true).filter(|of| *of >= scene.voters)?;
        (assumed.running.len() < Schedule::MOST_LARGE).then(|| assumed.running.push(true))?;
        at_once(Operation::Twin(of))
    }),
    (2, |assumed, random, _| {
        (assumed.running.len() < Schedule::MOST_LARGE).then(|| assumed.running.push(false))?;
        let after = random.duration(Duration::ZERO, SECOND / 2);
        Some((Operation::JoinAndDie(after), SECOND))
    }),
    (2, |assumed, random, _| {
        let dead: Vec<usize> = (0..assumed.running.len()).filter(|node| !assumed.running[*node]).collect();
        for node in &dead {
            assumed.running[*node] = true;
        }
        let within = random.duration(Duration::ZERO, SECOND * 3);
        (!dead.is_empty()).then_some((Operation::StartAll(dead, disk_fate(random), within), within))
    }),
    (1, |assumed, random, _| {
        let node = assumed.some(random, false)?;
        assumed.running[node] = true;
        at_once(Operation::Restart(node, disk_fate(random)))
    }),
    (1, |_, random, scene| {
        let tcp = if random.chance(0.5) { Tcp::Dropped } else { Tcp::Rejected };
        scene.timed(Operation::Firewall(tcp, scene.lasting))
    }),
    (1, |assumed, random, _| assumed.remove(random).map(|operation| (operation, Duration::ZERO))),
    (1, |assumed, _, _| {
        (assumed.running.len() < Schedule::MOST_LARGE).then(|| assumed.running.push(true))?;
        at_once(Operation::Join)
    }),
    (1, |assumed, random, scene| {
        let loss = match random.below(2) {
            0 => NodeLoss { outgoing: 0.8, incoming: 0.0 },
            _ => NodeLoss { outgoing: 0.0, incoming: 0.8 },
        };
        scene.timed(Operation::Lossy(assumed.some(random, true)?, loss, scene.lasting))
    }),
    (1, |assumed, random, _| {
        let all: Vec<usize> = (0..assumed.running.len()).filter(|node| assumed.running[*node]).collect();
        let within = random.duration(Duration::ZERO, SECOND * 2);
        Some((Operation::StaggeredRestart(all, DiskFate::Kept, within), within))
    }),
];

impl AssumedState {
    /// Draws the next operation, and the time that it lasts.
    fn propose_large(&mut self, random: &mut Random, voters: usize) -> Option<(Operation, Duration)> {
        let lasting = if random.chance(0.2) {
            // Longer than dead members are remembered.
            random.duration(SECOND * 65, SECOND * 90)
        } else {
            random.duration(SECOND * 3, SECOND * 20)
        };
        weighted(random, &FAULTS)(self, random, &Scene { voters, lasting })
    }

    /// Draws between one and nine in ten of the running nodes, and counts them as gone. Voters are spared: without them
    /// no leader is promised.
    fn many(&mut self, random: &mut Random, voters: usize) -> Option<Vec<usize>> {
        let mut nodes: Vec<usize> = (voters..self.running.len()).filter(|node| self.running[*node]).collect();
        let share = random.between(1, 9) as usize;
        let count = self.count() * share / 10;
        while nodes.len() > count {
            nodes.remove(random.index(nodes.len()));
        }
        if nodes.is_empty() || nodes.len() + 1 >= self.count() {
            return None;
        }
        for node in &nodes {
            self.running[*node] = false;
        }
        Some(nodes)
    }
}
