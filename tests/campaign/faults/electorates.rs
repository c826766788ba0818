//! Electorates that meet: two clusters of one name that are joined, two recoveries in a cut, and voters without their disks that
//! formed another electorate than the one which took their place.
//!
//! First each electorate comes to be apart from the other, and its leaders change. Then nodes of both are told of each other, or
//! the cut ends, while anything else goes wrong. Disks of voters are kept, but for the voter of one side that loses its own: an
//! electorate that nobody can lead any more would give way to none, and end none.
//!
//! Must not know: which electorate stands.

use std::ops::Range;
use std::time::Duration;

use super::drawing::AssumedState;
use super::voters::spare_disks;
use super::{DiskFate, Operation, Schedule, Variation, VoterFault};
use headcount_sim::{Purpose, Random, SecondCluster};

const SECOND: Duration = Duration::from_secs(1);
/// Time in which a cluster is formed, and elects its first leader.
const FORMED: Duration = Duration::from_secs(8);

/// A schedule that is being drawn.
struct Drawn {
    random: Random,
    assumed: AssumedState,
    /// All that ever vote, whose disks are kept.
    voters: Vec<Range<usize>>,
    at: Duration,
    operations: Vec<(Duration, Operation)>,
}

impl Drawn {
    fn new(random: Random, nodes: usize, voters: &[Range<usize>]) -> Self {
        let assumed = AssumedState { running: vec![true; nodes] };
        Self { random, assumed, voters: voters.to_vec(), at: FORMED, operations: Vec::new() }
    }

    fn add(&mut self, operation: Operation) {
        self.operations.push((self.at, operation));
    }

    fn wait(&mut self, least: Duration, most: Duration) {
        self.at += self.random.duration(least, most);
    }

    /// Adds a fault of any kind that takes no member away for good.
    fn trouble(&mut self) {
        let fault = loop {
            let fault = self.assumed.next(&mut self.random);
            if !matches!(fault, Operation::Leave(_) | Operation::Remove { .. }) {
                break fault;
            }
        };
        let fault = self.voters.iter().cloned().fold(fault, spare_disks);
        self.add(fault);
    }

    /// Adds changes of the leaders of electorates that have not met.
    fn change_leaders(&mut self) {
        for _ in 0..self.random.between(0, 4) {
            let fault = if self.random.chance(0.7) { VoterFault::Resign } else { VoterFault::CrashLeader };
            self.add(Operation::Voters(fault));
            self.wait(SECOND / 2, SECOND * 3);
            let voters = self.voters.iter().cloned().flatten().collect();
            self.add(Operation::StartAll(voters, DiskFate::Kept, Duration::ZERO));
        }
    }

    /// Adds all that goes wrong while they meet, and each of these operations at some time among it.
    fn meet(mut self, meeting: Vec<Operation>) -> Self {
        let count = self.random.between(8, 14) as usize;
        let mut meeting: Vec<(usize, Operation)> =
            meeting.into_iter().map(|operation| (self.random.index(count), operation)).collect();
        for nth in 0..count {
            for (_, operation) in meeting.extract_if(.., |(at, _)| *at == nth) {
                self.operations.push((self.at, operation));
            }
            if self.random.chance(0.2) {
                self.add(Operation::Voters(VoterFault::Resign));
            }
            self.trouble();
            let pause = if self.random.chance(0.5) { SECOND / 2 } else { SECOND * 5 };
            self.wait(Duration::ZERO, pause);
        }
        self
    }

    fn scheduled(mut self, voters: usize, second: Option<SecondCluster>) -> Schedule {
        self.wait(SECOND, SECOND * 6);
        self.operations.sort_by_key(|(at, _)| *at);
        let nodes = second.as_ref().map_or(self.assumed.running.len(), |second| second.nodes.end);
        let variation = Variation { is_meeting: true, second, ..Variation::default() };
        Schedule { nodes, voters, operations: self.operations, heal_at: self.at, variation }
    }
}

impl Schedule {
    /// Draws a schedule of electorates that meet.
    pub fn electorates(seed: u64) -> Self {
        let random = Random::new(seed, Purpose::Electorates);
        match seed % 4 {
            1 => Self::recovered_apart(random),
            3 => Self::blank_voters(random),
            _ => Self::joined_clusters(random),
        }
    }

    /// Two clusters, whose nodes are told of each other.
    fn joined_clusters(mut random: Random) -> Self {
        let mut size = || {
            let voters = [1, 3, 3, 5][random.index(4)];
            (voters, voters + random.index(2))
        };
        let ((voters, first), (second_voters, second)) = (size(), size());
        let second = SecondCluster { nodes: first..first + second, voters: second_voters };
        let mut drawn = Drawn::new(random, second.nodes.end, &[0..voters, second.voters()]);
        drawn.change_leaders();
        let contacts = (0..drawn.random.between(1, 4)).map(|_| {
            let (one, other) = (drawn.random.index(first), second.nodes.start + drawn.random.index(second.nodes.len()));
            if drawn.random.chance(0.5) { Operation::Contact(one, other) } else { Operation::Contact(other, one) }
        });
        let mut meeting: Vec<Operation> = contacts.collect();
        for voters in drawn.voters.clone().into_iter().filter(|voters| voters.len() > 1) {
            if drawn.random.chance(0.2) {
                let voter = voters.start + drawn.random.index(voters.len());
                meeting.push(Operation::Voters(VoterFault::LoseDisk(voter)));
            }
        }
        if drawn.random.chance(0.5) {
            let lasting = drawn.random.duration(SECOND, SECOND * 9);
            meeting.push(Operation::Partition(second.nodes.clone().collect(), lasting));
        }
        drawn.meet(meeting).scheduled(voters, Some(second))
    }

    /// One cluster, cut into two sides that have no majority, each of which is recovered; a voter of before comes back.
    fn recovered_apart(random: Random) -> Self {
        let mut drawn = Drawn::new(random, 6, &[]);
        let (voters, sides) = match drawn.random.index(2) {
            0 => (3, [[1, 3], [2, 4]]),
            _ => (5, [[1, 2], [3, 4]]),
        };
        drawn.voters = std::iter::once(0..voters).collect();
        drawn.change_leaders();
        drawn.add(Operation::Crash(0));
        let apart = drawn.random.duration(SECOND * 11, SECOND * 16);
        drawn.add(Operation::Partition(sides[0].to_vec(), apart));
        let begun_at = drawn.at;
        drawn.wait(SECOND * 4, SECOND * 6);
        for side in sides {
            let with = side[1..].iter().copied().filter(|node| *node < voters).collect();
            drawn.add(Operation::Voters(VoterFault::Recover(vec![(side[0], with)])));
            drawn.wait(Duration::ZERO, SECOND);
        }
        drawn.wait(SECOND * 2, SECOND * 3);
        drawn.change_leaders();
        drawn.at = drawn.at.max(begun_at + apart.saturating_sub(SECOND));
        drawn.meet(vec![Operation::Restart(0, DiskFate::Kept)]).scheduled(voters, None)
    }

    /// One cluster, whose voters others replace; then those are cut off and begin again from empty disks.
    fn blank_voters(random: Random) -> Self {
        let mut drawn = Drawn::new(random, 7, std::slice::from_ref(&(0..6)));
        for (new, old) in [(3, 0), (4, 1), (5, 2)] {
            for fault in [VoterFault::Add(new), VoterFault::Remove(old)] {
                drawn.add(Operation::Voters(fault));
                drawn.wait(SECOND, SECOND * 2);
            }
        }
        let apart = drawn.random.duration(SECOND * 20, SECOND * 25);
        drawn.add(Operation::Partition(vec![0, 1, 2], apart));
        let begun_at = drawn.at;
        drawn.wait(SECOND / 10, SECOND);
        drawn.add(Operation::MassRestart(vec![0, 1, 2], DiskFate::Lost));
        drawn.wait(SECOND * 10, SECOND * 12);
        drawn.change_leaders();
        drawn.at = drawn.at.max(begun_at + apart.saturating_sub(SECOND));
        drawn.meet(Vec::new()).scheduled(3, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn electorates_meet_in_every_schedule_and_keep_their_voters() {
        for seed in 0..200 {
            let schedule = Schedule::electorates(seed);
            assert_eq!(schedule, Schedule::electorates(seed));
            assert!(schedule.operations.windows(2).all(|pair| pair[0].0 <= pair[1].0), "in order of time");
            assert!(schedule.operations.iter().all(|(at, _)| *at <= schedule.heal_at));
            let is_going = |operation: &Operation| matches!(operation, Operation::Leave(_) | Operation::Remove { .. });
            assert!(!schedule.operations.iter().any(|(_, operation)| is_going(operation)));
            assert_eq!(schedule.variation.second.is_some(), seed % 2 == 0);
        }
    }
}
