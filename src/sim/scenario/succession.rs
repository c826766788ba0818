//! The leader is lost, repeatedly: the time until another node leads, and until all members know.
//!
//! Must not know: how an election is won.

use std::collections::BTreeSet;
use std::time::Duration;

use super::outcome::{Failure, Outcome};
use super::stage::{Stage, patience};
use crate::report::{Distribution, Report, Succession};
use crate::{LeaderNews, World};
use headcount_core::Settings;
use headcount_core::election::LeaseTiming;

/// Number of times that the leader is lost.
pub(super) const ROUNDS: u32 = 10;

/// Returns the approximate duration of all rounds.
pub(super) fn lasts(settings: &Settings, lease: LeaseTiming) -> Duration {
    (lease.lease_duration * 3 + settings.retry_interval * 2) * ROUNDS
}

/// All durations, round by round.
#[derive(Default)]
pub(super) struct Figures {
    stopped: Vec<Duration>,
    claimed: Vec<Duration>,
    known: Vec<Duration>,
    rounds: usize,
    /// Number of members that should have learnt of the successor, over all rounds.
    members: usize,
}

impl Figures {
    /// Adds the events that `members` saw since `began`, when they lost the leader `lost`.
    pub(super) fn add(&mut self, world: &World, began: Duration, lost: usize, members: &BTreeSet<usize>) {
        self.rounds += 1;
        self.members += members.len();
        let seen = || world.elections_seen().iter().filter(|told| Duration::from_nanos(told.at) >= began);
        let after = |at: u64| Duration::from_nanos(at).saturating_sub(began);
        let end = seen().find(|told| told.observer == lost && matches!(told.news, LeaderNews::Lost(_)));
        self.stopped.extend(end.map(|told| after(told.at)));
        let elected = || seen().filter(|told| told.news == LeaderNews::Elected && told.observer != lost);
        let Some(claim) = elected().find(|told| world.id(told.observer) == &told.leader) else { return };
        self.claimed.push(after(claim.at));
        let mut knowing = BTreeSet::new();
        for told in elected().filter(|told| told.term >= claim.term && members.contains(&told.observer)) {
            if knowing.insert(told.observer) {
                self.known.push(after(told.at));
            }
        }
    }

    pub(super) fn into_succession(self) -> Succession {
        Succession {
            stopped: Distribution::of(self.stopped, self.rounds),
            claimed: Distribution::of(self.claimed, self.rounds),
            known: Distribution::of(self.known, self.members),
        }
    }
}

/// Runs until all members name one leader.
fn await_leader(stage: &mut Stage<'_>) -> Option<usize> {
    let lease = stage.world.options().lease.lease_duration;
    let deadline = stage.world.now() + lease * 4 + patience(&stage.world.options().settings);
    while stage.world.leadership_divergence().is_some() && stage.world.now() < deadline {
        stage.run_for(Duration::from_millis(50));
    }
    stage.world.leader()
}

/// Idles for a time that is unrelated to renewals.
fn idle_a_little(stage: &mut Stage<'_>, round: u32) {
    let renewal = stage.world.options().lease.renewal_interval;
    stage.run_for(renewal * (round * 7 % ROUNDS) / ROUNDS);
}

/// Kills the leader's process; it is started again for the next round.
pub(super) fn crash(stage: &mut Stage<'_>, report: &mut Report) -> Outcome {
    let lease = stage.world.options().lease.lease_duration;
    let (mut figures, mut outcome) = (Figures::default(), Outcome::default());
    for round in 0..ROUNDS {
        let Some(leader) = await_leader(stage) else { break };
        idle_a_little(stage, round);
        let nodes = stage.world.nodes();
        outcome.failures.push(Failure::now(&stage.world, leader, nodes - 1));
        let began = stage.world.now();
        stage.world.crash(leader);
        stage.run_for(lease * 2);
        let members = (0..nodes).filter(|node| *node != leader).collect();
        figures.add(&stage.world, began, leader, &members);
        stage.world.start(leader);
    }
    report.converged_after = stage.agreement(patience(&stage.world.options().settings.clone()));
    figures.stopped.clear();
    report.succession = Some(figures.into_succession());
    outcome
}

/// Cuts the leader off for two leases, with as many voters as cannot elect a leader and as large a share of the
/// members.
pub(super) fn partition(stage: &mut Stage<'_>, report: &mut Report) -> Outcome {
    let lease = stage.world.options().lease.lease_duration;
    let mut figures = Figures::default();
    for round in 0..ROUNDS {
        let Some(leader) = await_leader(stage) else { break };
        idle_a_little(stage, round);
        let (nodes, voters) = (stage.world.nodes(), stage.world.options().voters);
        let others = |range: std::ops::Range<usize>| range.filter(|node| *node != leader);
        let few = others(0..voters).take(((voters - 1) / 2).saturating_sub(1));
        let silent = others(voters..nodes).take((nodes - voters) / 3);
        let side: Vec<usize> = [leader].into_iter().chain(few).chain(silent).collect();
        let began = stage.world.now();
        stage.world.partition(&side, Some(lease * 2));
        stage.run_for(lease * 2);
        let members = (0..nodes).filter(|node| !side.contains(node)).collect();
        figures.add(&stage.world, began, leader, &members);
        stage.run_for(stage.world.options().settings.retry_interval * 2);
    }
    report.converged_after = stage.agreement(patience(&stage.world.options().settings.clone()));
    report.succession = Some(figures.into_succession());
    Outcome::default()
}
