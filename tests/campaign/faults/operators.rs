//! Operators among the faults of voters: they recover, at times two of them at once, and change the electorate.
//!
//! Their commands come from a random stream of their own, and are added to the faults that the same seed has without
//! operators.
//!
//! Must not know: the effects.

use std::time::Duration;

use super::{Operation, Schedule, VoterFault};
use headcount_sim::{Purpose, Random};

impl Schedule {
    /// Returns the schedule of this seed with this many voters, and with operators.
    pub fn with_operators(seed: u64, voters: usize) -> Self {
        let mut schedule = Self::with_voters(seed, voters);
        let mut random = Random::new(seed, Purpose::Operators);
        let begin = schedule.operations.first().map_or(Duration::ZERO, |(at, _)| *at);
        for _ in 0..random.between(2, 4) {
            let at = random.duration(begin, schedule.heal_at);
            let actions = actions(&mut random, voters, schedule.nodes);
            schedule.operations.extend(actions.into_iter().map(|action| (at, Operation::Voters(action))));
        }
        schedule.operations.sort_by_key(|(at, _)| *at);
        schedule
    }
}

/// Draws the commands of one instant.
fn actions(random: &mut Random, voters: usize, nodes: usize) -> Vec<VoterFault> {
    match random.below(4) {
        // A change while another one is under way is refused; or, of two leaders, each makes one.
        0 => vec![VoterFault::Add(random.index(nodes)), VoterFault::Remove(random.index(voters))],
        way => {
            let operators = if way == 1 { 2 } else { 1 };
            let recovery = |_| {
                let at = random.index(voters);
                (at, (0..voters).filter(|node| *node != at && random.chance(0.4)).collect())
            };
            vec![VoterFault::Recover((0..operators).map(recovery).collect())]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_schedule;

    #[test]
    fn operators_come_to_the_faults_of_the_same_seed() {
        for seed in 0..50 {
            let (usual, more) = (Schedule::with_voters(seed, 3), Schedule::with_operators(seed, 3));
            let is_kept = |fault| more.operations.contains(fault);
            assert!(usual.operations.iter().all(is_kept) && more.operations.len() > usual.operations.len());
            assert!(more.operations.windows(2).all(|pair| pair[0].0 <= pair[1].0) && more.heal_at == usual.heal_at);
            assert_eq!(more, Schedule::with_operators(seed, 3));
        }
    }

    #[test]
    fn whole_nodes_keep_every_promise_among_operators_who_recover() {
        let most = std::env::var("HEADCOUNT_OPERATORS").ok().and_then(|most| most.parse().ok()).unwrap_or(30);
        let outcomes = (0..most).map(|seed| {
            let voters = [3, 5, 3][seed as usize % 3];
            run_schedule(seed, &Schedule::with_operators(seed, voters), false, None)
        });
        let outcomes: Vec<_> = outcomes.collect();
        let broken: Vec<_> = outcomes.iter().filter_map(crate::Outcome::failure).collect();
        for failure in &broken {
            println!("{failure}");
        }
        let terms = outcomes.iter().filter(|outcome| outcome.terms >= 2).count();
        assert!(broken.is_empty(), "{} of {most}", broken.len());
        assert!(terms * 2 > outcomes.len(), "{terms} runs in which two terms were claimed");
    }
}
