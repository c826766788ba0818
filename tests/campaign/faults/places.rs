//! Faults of names and places: members that move, exchange addresses, are told a wrong one or speak through a translator; two
//! clusters of one name that meet; crash loops under fresh names; scripts that remove everybody; cuts for longer than the dead
//! are remembered; two of one name that hear each other in one direction.
//!
//! Nobody lies in these schedules.

use std::time::Duration;

use super::drawing::{AssumedState, disk_fate, weather, weighted};
use super::{DiskFate, Operation, Schedule, Variation};
use headcount_sim::network::CutTraffic;
use headcount_sim::{Purpose, Random};

const SECOND: Duration = Duration::from_secs(1);
/// The largest number of nodes, those that join later included.
const MOST: usize = 20;

/// Draws operations, each with the time since the one before; none if they make no sense now.
type Draw = fn(&mut AssumedState, &mut Random) -> Vec<(Duration, Operation)>;

/// The faults, each with its weight.
const FAULTS: [(u64, Draw); 12] = [
    (3, |assumed, random| {
        let count = random.between(1, 2) as usize;
        let mut nodes: Vec<usize> = (0..count).filter_map(|_| assumed.some(random, true)).collect();
        nodes.dedup();
        now(Operation::Move(nodes, noticed(random)))
    }),
    (2, |assumed, random| {
        let (one, other) = (assumed.some(random, true), assumed.some(random, true));
        let (Some(one), Some(other)) = (one, other) else { return Vec::new() };
        if one == other { Vec::new() } else { now(Operation::Exchange(one, other, noticed(random))) }
    }),
    (2, |assumed, random| some(assumed, random, |node, random| Operation::WrongAddress(node, lasting(random)))),
    (2, |assumed, random| some(assumed, random, |node, random| Operation::Translate(node, lasting(random)))),
    (1, |assumed, random| {
        // One side is cut off, and begins again from nothing: a second cluster of the same name, at addresses that the first
        // one remembers.
        let side = assumed.side(random);
        let apart = random.duration(SECOND * 20, SECOND * 40);
        vec![
            (Duration::ZERO, Operation::Partition(side.clone(), apart)),
            (SECOND, Operation::MassRestart(side, DiskFate::Lost)),
        ]
    }),
    (1, |assumed, random| {
        // Three processes under fresh names, each of which dies at once; and sometimes one that stays.
        let room = MOST.saturating_sub(assumed.running.len()).min(4);
        let stays = room == 4 && random.chance(0.1);
        let crashing = room.min(3);
        assumed.running.extend((0..crashing).map(|_| false).chain(stays.then_some(true)));
        let die = |nth| (SECOND * u32::from(nth > 0), Operation::JoinAndDie(Duration::from_millis(300)));
        (0..crashing).map(die).chain(stays.then_some((Duration::ZERO, Operation::Join))).collect()
    }),
    (1, |assumed, random| {
        // Everybody but the one who is asked, whether it lives or not.
        let Some(by) = assumed.some(random, true) else { return Vec::new() };
        let others: Vec<usize> = (0..assumed.running.len()).filter(|node| *node != by).collect();
        for node in &others {
            assumed.running[*node] = false;
        }
        let step = |node: &usize| (SECOND / 10, Operation::Remove { by, node: *node, force: true });
        others.iter().map(step).collect()
    }),
    (1, |assumed, random| now(Operation::Partition(assumed.side(random), random.duration(SECOND * 65, SECOND * 90)))),
    (1, |assumed, random| {
        let Some(of) = assumed.some(random, true).filter(|_| assumed.running.len() < MOST) else { return Vec::new() };
        let twin = assumed.running.len();
        assumed.running.push(true);
        let pair = if random.chance(0.5) { (of, twin) } else { (twin, of) };
        vec![
            (Duration::ZERO, Operation::Twin(of)),
            (Duration::ZERO, Operation::Pairs(vec![pair], CutTraffic::Everything, lasting(random))),
        ]
    }),
    (3, |assumed, random| {
        let Some(node) = assumed.some(random, false) else { return Vec::new() };
        assumed.running[node] = true;
        now(Operation::Restart(node, disk_fate(random)))
    }),
    (1, |assumed, random| {
        let Some(node) = assumed.some(random, true).filter(|_| assumed.count() > 2) else { return Vec::new() };
        assumed.running[node] = false;
        now(Operation::PowerOff(node))
    }),
    (1, |_, random| now(Operation::SetConditions(weather(random), lasting(random)))),
];

fn now(operation: Operation) -> Vec<(Duration, Operation)> {
    vec![(Duration::ZERO, operation)]
}

fn some(
    assumed: &AssumedState,
    random: &mut Random,
    fault: impl FnOnce(usize, &mut Random) -> Operation,
) -> Vec<(Duration, Operation)> {
    assumed.some(random, true).map(|node| now(fault(node, random))).unwrap_or_default()
}

/// An agent looks for its address once a second.
fn noticed(random: &mut Random) -> Duration {
    random.duration(Duration::ZERO, SECOND)
}

fn lasting(random: &mut Random) -> Duration {
    random.duration(SECOND / 2, SECOND * 15)
}

impl Schedule {
    /// Draws a schedule of faults of names and places.
    pub fn with_places(seed: u64) -> Self {
        let mut random = Random::new(seed, Purpose::Places);
        let nodes = random.between(3, 7) as usize;
        let mut assumed = AssumedState { running: vec![true; nodes] };
        let mut at = random.duration(SECOND * 2, SECOND * 6);
        let mut operations = Vec::new();
        for _ in 0..random.between(8, 14) {
            for (after, operation) in weighted(&mut random, &FAULTS)(&mut assumed, &mut random) {
                at += after;
                operations.push((at, operation));
            }
            let pause = if random.chance(0.4) { SECOND } else { SECOND * 20 };
            at += random.duration(Duration::ZERO, pause);
        }
        let heal_at = at + random.duration(SECOND, SECOND * 8);
        Self { nodes, voters: 0, operations, heal_at, variation: Variation::default() }
    }
}
