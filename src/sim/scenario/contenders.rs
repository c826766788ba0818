//! Nodes lead by a lease in a database, and what they lead by is lost, again and again: the leader dies, stands still,
//! does not reach the database, or the database fails over to a replica that lacks the last commits. How long until
//! somebody leads again, and until everybody knows.
//!
//! Must not know: how a lease is taken.

use std::time::Duration;

use super::outcome::Outcome;
use super::stage::{Stage, patience};
use super::succession::{Figures, ROUNDS};
use crate::report::Report;
use headcount_contender::ContenderTiming;
use headcount_core::Settings;
use headcount_core::election::LeaseTiming;

/// Nodes that contend at most: more ask the database for nothing but the same.
pub(super) const MOST_CONTENDERS: usize = 100;

/// Commits that the replica lacks: of one renewal interval and more.
const LOST_COMMITS: usize = 8;

/// Returns about the time that all rounds take.
pub(super) fn lasts(settings: &Settings, lease: LeaseTiming) -> Duration {
    let lease = ContenderTiming::of_lease(lease.lease_duration).lease_duration;
    (lease * 4 + settings.retry_interval * 2) * ROUNDS
}

/// Runs until somebody leads.
fn await_leader(stage: &mut Stage<'_>, timing: &ContenderTiming) -> Option<usize> {
    let deadline = stage.world.now() + timing.lease_duration * 4 + patience(&stage.world.options().settings);
    while stage.world.lease_leader().is_none() && stage.world.now() < deadline {
        stage.run_for(Duration::from_millis(50));
    }
    stage.world.lease_leader()
}

/// Plays all rounds in turn.
pub(super) fn play(stage: &mut Stage<'_>, report: &mut Report) -> Outcome {
    let Some(timing) = stage.world.options().leases.as_ref().map(|leases| leases.timing) else {
        return Outcome::default();
    };
    let lease = timing.lease_duration;
    let (mut figures, mut outcome) = (Figures::default(), Outcome::default());
    for round in 0..ROUNDS {
        let Some(leader) = await_leader(stage, &timing) else { break };
        // Some time that has nothing to do with renewals.
        stage.run_for(timing.renewal_interval * (round * 7 % ROUNDS) / ROUNDS);
        let began = stage.world.now();
        // Whoever leads may have changed since.
        let (victim, world) = (stage.world.lease_leader(), &mut stage.world);
        match (round % 4, victim) {
            (0, Some(victim)) => drop(world.crash(victim)),
            (1, Some(victim)) => drop(world.pause(victim, lease * 2)),
            (2, Some(victim)) => drop(world.cut_from_store(victim, lease * 2)),
            (3, _) => drop(world.fail_store_over(Some(LOST_COMMITS))),
            (_, None) | (4.., _) => {}
        }
        outcome.disturbed.insert(leader);
        stage.run_for(lease * 3);
        let members = (0..stage.world.nodes()).filter(|node| *node != leader);
        let contenders = stage.world.options().leases.as_ref().map_or(0, |leases| leases.contenders);
        figures.add(&stage.world, began, leader, &members.filter(|node| *node < contenders).collect());
        // A node that was given up meanwhile is started again; a fail-over may leave the leader as it was.
        stage.world.start(leader);
        stage.run_for(lease);
    }
    report.converged_after = stage.agreement(patience(&stage.world.options().settings.clone()));
    report.succession = Some(figures.into_succession());
    outcome
}
