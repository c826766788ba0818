//! Faults of voters: all that can go wrong with an election, and schedules with such faults among the usual ones.
//!
//! The victim of a fault is the leader of that moment: the schedule depends on its seed alone, its effects do not.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use super::drawing::{AssumedState, weighted};
use super::rows::{Effect, Row, restart, row};
use super::{DiskFate, Operation, Schedule, Variation};
use headcount_core::Command;
use headcount_sim::World;
use headcount_sim::network::NodeSet;
use headcount_sim::{Purpose, Random};

/// One fault of voters.
#[derive(Debug, Clone, PartialEq)]
pub enum VoterFault {
    /// The leader's process dies.
    CrashLeader,
    /// The leader's process is suspended.
    PauseLeader(Duration),
    /// The leader leaves.
    LeaderLeaves,
    /// The leader is cut off from all others, in one direction or both.
    CutLeader {
        /// True if no node hears the leader.
        outgoing: bool,
        /// True if the leader hears no node.
        incoming: bool,
        /// Duration of the cut.
        lasting: Duration,
    },
    /// Groups of nodes that do not hear each other; the nodes in none of them are one more such group.
    Sides(Vec<Vec<usize>>, Duration),
    /// A half-dead switch: nothing passes between the two nodes of each pair.
    HalfDead(Vec<(usize, usize)>, Duration),
    /// All voters, whose number is given, die and are started again within the duration.
    RestartAll(usize, Duration),
    /// A voter dies, and starts again with an empty disk.
    LoseDisk(usize),
    /// A voter's disk is full.
    FullDisk(usize, Duration),
    /// The leader is told to add a voter.
    Add(usize),
    /// The leader is told to remove a voter.
    Remove(usize),
    /// All leaders resign, where there are two electorates each its own.
    Resign,
    /// Operators recover at one instant: each at one node, with these other voters.
    Recover(Vec<(usize, Vec<usize>)>),
}

impl VoterFault {
    /// Carries out the fault; returns true if it made sense.
    pub fn apply(&self, world: &mut World) -> bool {
        (self.row().apply)(world)
    }

    pub(super) fn row(&self) -> Row<'_> {
        match self {
            VoterFault::CrashLeader => of_leader("crash the leader", World::crash),
            VoterFault::PauseLeader(lasting) => {
                let words = format!("pause the leader for {lasting:.1?}");
                of_leader(words, |world, leader| world.pause(leader, *lasting))
            }
            VoterFault::LeaderLeaves => {
                of_leader("the leader leaves", |world, leader| world.command(leader, Command::Leave))
            }
            VoterFault::Resign => of_voters("all leaders resign", |world| {
                let leaders: Vec<usize> = (0..world.nodes()).filter(|node| world.is_leading(*node)).collect();
                let mut resign = |leader: &usize| {
                    let ticket = world.ticket();
                    world.command(*leader, Command::Resign { ticket, to: None })
                };
                leaders.iter().filter(|leader| resign(leader)).count() > 0
            }),
            VoterFault::CutLeader { outgoing, incoming, lasting } => {
                let words = format!("cut the leader off for {lasting:.1?} (outgoing {outgoing}, incoming {incoming})");
                of_leader(words, |world, leader| {
                    let side = NodeSet::of(&[leader]);
                    if *outgoing {
                        world.cut(side.clone(), side.rest(), Some(*lasting));
                    }
                    if *incoming {
                        world.cut(side.rest(), side, Some(*lasting));
                    }
                    true
                })
            }
            VoterFault::Sides(sides, lasting) => {
                of_voters(format!("cut {sides:?} off each other for {lasting:.1?}"), move |world| {
                    for side in sides {
                        world.partition(side, Some(*lasting));
                    }
                })
            }
            VoterFault::HalfDead(pairs, lasting) => {
                of_voters(format!("cut the links {pairs:?} for {lasting:.1?}"), move |world| {
                    for (one, other) in pairs {
                        let (one, other) = (NodeSet::of(&[*one]), NodeSet::of(&[*other]));
                        world.cut(one.clone(), other.clone(), Some(*lasting));
                        world.cut(other, one, Some(*lasting));
                    }
                })
            }
            VoterFault::RestartAll(voters, within) => {
                of_voters(format!("restart all {voters} voters within {within:.1?}"), |world| {
                    Operation::StaggeredRestart((0..*voters).collect(), DiskFate::Kept, *within).apply(world)
                })
            }
            VoterFault::LoseDisk(voter) => of_voters(format!("restart {voter} without its disk"), |world| {
                world.crash(*voter) && restart(world, *voter, DiskFate::Lost)
            }),
            VoterFault::FullDisk(voter, lasting) => {
                of_voters(format!("the disk of {voter} is full for {lasting:.1?}"), |world| {
                    world.fill_disk(*voter, *lasting);
                })
            }
            VoterFault::Add(node) => of_voters(format!("the leader adds {node} to the voters"), |world| {
                let (ticket, id) = (world.ticket(), world.id(*node).clone());
                world.leader().is_some_and(|leader| world.command(leader, Command::AddVoter { ticket, id }))
            }),
            VoterFault::Remove(node) => of_voters(format!("the leader removes {node} from the voters"), |world| {
                let (ticket, id) = (world.ticket(), world.id(*node).clone());
                world.leader().is_some_and(|leader| world.command(leader, Command::RemoveVoter { ticket, id }))
            }),
            VoterFault::Recover(operators) => {
                of_voters(format!("operators recover, at and with: {operators:?}"), |world| {
                    let mut recover = |at: usize, with: &[usize]| {
                        let voters = with.iter().map(|node| world.id(*node).clone()).collect();
                        let ticket = world.ticket();
                        world.command(at, Command::Recover { ticket, voters })
                    };
                    operators.iter().filter(|(at, with)| recover(*at, with)).count() > 0
                })
            }
        }
    }
}

fn of_voters<'a, E: Effect>(words: impl fmt::Display, apply: impl FnOnce(&mut World) -> E + 'a) -> Row<'a> {
    row("voters", words, apply)
}

/// Returns the row of a fault whose victim is the leader, if there is one.
fn of_leader<'a>(words: impl fmt::Display, apply: impl FnOnce(&mut World, usize) -> bool + 'a) -> Row<'a> {
    of_voters(words, |world| world.leader().is_some_and(|leader| apply(world, leader)))
}

impl fmt::Display for VoterFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.row().words)
    }
}

impl Schedule {
    /// Returns the schedule of a seed of the small campaign: half of the seeds have three, five or seven voters, and a
    /// third of these have operators; every sixth seed has contenders for a lease, every twelfth one faults of names and places.
    pub fn of_seed(seed: u64) -> Self {
        match seed % 12 {
            1 => Self::with_voters(seed, 3),
            3 => Self::with_voters(seed, 5),
            5 | 11 => Self::with_voters(seed, 7),
            7 => Self::with_operators(seed, 3),
            9 => Self::with_operators(seed, 5),
            4 | 8 => Self::with_contenders(seed),
            6 => Self::with_places(seed),
            _ => Self::random(seed),
        }
    }

    /// Draws a random schedule in which this many of the first nodes vote.
    pub fn with_voters(seed: u64, voters: usize) -> Self {
        let mut random = Random::new(seed, Purpose::Faults);
        let nodes = random.between(voters as u64, Self::MOST_NODES as u64 - 1) as usize;
        let count = random.between(Self::LEAST, Self::LEAST + 10);
        let mut assumed = AssumedState { running: vec![true; nodes] };
        // All voters are needed to form the electorate; mostly there is time for that.
        let hurry = random.chance(0.1);
        let most = if hurry { Duration::from_secs(3) } else { Duration::from_secs(7) };
        let least = if hurry { Duration::from_millis(200) } else { Duration::from_secs(5) };
        let mut at = random.duration(least, most);
        let mut operations = Vec::new();
        while (operations.len() as u64) < count {
            let operation = if random.chance(0.6) {
                Operation::Voters(weighted(&mut random, &FAULTS)(&mut random, voters, nodes))
            } else {
                spare_disks(assumed.next(&mut random), 0..voters)
            };
            operations.push((at, operation));
            let pause = if random.chance(0.4) { Duration::from_millis(800) } else { Duration::from_secs(7) };
            at += random.duration(Duration::ZERO, pause);
            if random.chance(0.4) {
                // Dead voters come back; otherwise there would soon be no majority left.
                let back = random.index(voters);
                assumed.running[back] = true;
                operations.push((at, Operation::Restart(back, DiskFate::Kept)));
            }
        }
        let heal_at = at + random.duration(Duration::from_secs(1), Duration::from_secs(8));
        Self { nodes, voters, operations, heal_at, variation: Variation::default() }
    }
}

/// Makes an operation spare the voters' disks. They are lost by voter faults alone: any more, and too few voters are
/// left to elect.
pub(super) fn spare_disks(operation: Operation, voters: Range<usize>) -> Operation {
    match operation {
        Operation::Restart(node, _) if voters.contains(&node) => Operation::Restart(node, DiskFate::Kept),
        Operation::MassRestart(nodes, _) => Operation::MassRestart(nodes, DiskFate::Kept),
        other => other,
    }
}

/// Draws the figures of one fault, for so many voters among so many nodes.
type Draw = fn(&mut Random, usize, usize) -> VoterFault;

/// The faults, each with its weight.
const FAULTS: [(u64, Draw); 11] = [
    (3, |_, _, _| VoterFault::CrashLeader),
    // Around the lease duration of two seconds, and well past it.
    (3, |random, _, _| VoterFault::PauseLeader(random.duration(Duration::from_secs(1), Duration::from_secs(5)))),
    (1, |_, _, _| VoterFault::LeaderLeaves),
    (3, |random, _, _| {
        let way = random.below(3);
        VoterFault::CutLeader { outgoing: way != 0, incoming: way != 1, lasting: lasting(random) }
    }),
    (3, |random, voters, _| VoterFault::Sides(sides(random, voters), lasting(random))),
    (4, |random, voters, _| {
        let count = random.between(1, 3);
        let pairs = (0..count).filter_map(|_| {
            let (one, other) = (random.index(voters), random.index(voters));
            (one != other).then_some((one, other))
        });
        let pairs = pairs.collect();
        VoterFault::HalfDead(pairs, lasting(random))
    }),
    (1, |random, voters, _| {
        VoterFault::RestartAll(voters, random.duration(Duration::from_millis(10), Duration::from_secs(2)))
    }),
    (1, |random, voters, _| VoterFault::LoseDisk(random.index(voters))),
    (2, |random, voters, _| VoterFault::FullDisk(random.index(voters), lasting(random))),
    (2, |random, _, nodes| VoterFault::Add(random.index(nodes))),
    (1, |random, _, nodes| VoterFault::Remove(random.index(nodes))),
];

fn lasting(random: &mut Random) -> Duration {
    random.duration(Duration::from_millis(300), Duration::from_secs(9))
}

/// Draws two or three groups of voters: 3|2, 2|2|1, or others.
fn sides(random: &mut Random, voters: usize) -> Vec<Vec<usize>> {
    let count = random.between(2, 3) as usize;
    let mut sides = vec![Vec::new(); count];
    for voter in 0..voters {
        sides[random.index(count)].push(voter);
    }
    // Nodes that do not vote belong to the last group.
    sides.pop();
    sides.retain(|side| !side.is_empty());
    sides
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn schedules_with_voters_depend_on_their_seed_alone_and_have_every_fault() {
        let mut kinds = BTreeSet::new();
        for seed in 0..300 {
            let schedule = Schedule::of_seed(seed);
            assert_eq!(schedule, Schedule::of_seed(seed));
            assert_eq!(schedule.voters > 0, seed % 2 == 1);
            assert!(schedule.voters <= schedule.nodes && schedule.nodes <= Schedule::MOST_NODES);
            for (at, operation) in &schedule.operations {
                assert!(*at <= schedule.heal_at && !operation.to_string().is_empty());
                if let Operation::Voters(fault) = operation {
                    kinds.insert(format!("{:?}", std::mem::discriminant(fault)));
                }
            }
        }
        assert_eq!(kinds.len(), 12, "{kinds:?}");
    }
}
