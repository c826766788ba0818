//! The event of each scenario, and the nodes that it disturbs.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Scenario;
use super::outcome::{Failure, Outcome};
use super::stage::{Stage, patience};
use super::{contenders, measure, succession};
use crate::core::election::LeaseTiming;
use crate::core::{Command, Settings};
use crate::sim::World;
use crate::sim::faults::{DiskFate, Operation};
use crate::sim::network::{Burst, Conditions, NodeLoss};
use crate::sim::random::{Purpose, Random};
use crate::sim::report::Report;

/// Duration of each cut, and of each time without one, in [`Scenario::FlipFlop`].
const FLIP_FLOP: Duration = Duration::from_secs(20);
/// Number of nodes that die at once.
const MASS: usize = 10;
/// Time within which everything is restarted.
const RESTART: Duration = Duration::from_secs(2);

/// Returns the approximate duration of the event, for the display of progress.
pub(super) fn about(scenario: Scenario, settings: &Settings, lease: LeaseTiming) -> Duration {
    let (suspect, down) = (settings.suspect_timeout, settings.down_timeout);
    match scenario {
        Scenario::Join | Scenario::Leave => Duration::from_secs(1),
        Scenario::RestartAll => RESTART + settings.retry_interval * 3,
        Scenario::Crash | Scenario::PowerOff | Scenario::MassCrash => aftermath(settings),
        Scenario::Pause => down * 5 / 2,
        Scenario::Partition => down + suspect,
        Scenario::Slow | Scenario::Bursts | Scenario::OneWayLoss => down * 4,
        Scenario::FlipFlop => FLIP_FLOP * 6,
        Scenario::Churn => (down + suspect / 4) * 10 + down,
        Scenario::LeaderCrash | Scenario::LeaderPartition => succession::about(lease, settings.retry_interval * 2),
        Scenario::Contenders => contenders::about(
            &crate::lease::ContenderTiming::of_lease(lease.lease_duration),
            settings.retry_interval * 2,
        ),
    }
}

/// Carries out the event and watches until it is over.
pub(super) fn play(scenario: Scenario, stage: &mut Stage<'_>, report: &mut Report) -> Outcome {
    let settings = stage.world.options().settings.clone();
    match scenario {
        Scenario::Join => {
            stage.world.add_node();
            settle(stage, report)
        }
        Scenario::Leave => {
            let who = victim(&stage.world);
            stage.world.command(who, Command::Leave);
            stage.run_for(Duration::from_millis(1));
            Outcome { disturbed: BTreeSet::from([who]), ..settle(stage, report) }
        }
        Scenario::Crash => crash(stage, report, 1, Operation::MassCrash),
        Scenario::PowerOff => crash(stage, report, 1, |hosts| Operation::PowerOff(hosts[0])),
        Scenario::MassCrash => crash(stage, report, MASS.min(stage.world.nodes() / 2), Operation::MassCrash),
        Scenario::Pause => pause(stage, report),
        Scenario::Partition => partition(stage, report),
        Scenario::RestartAll => restart_all(stage, report),
        Scenario::Churn => churn(stage, report),
        Scenario::LeaderCrash => succession::crash(stage, report),
        Scenario::LeaderPartition => succession::partition(stage, report),
        Scenario::Contenders => contenders::play(stage, report),
        Scenario::Slow => {
            let slow = one_in(&stage.world, 5);
            let by = settings.heartbeat_interval / 2;
            disturb(stage, report, slow, |node, lasting| Operation::Slow(node, by, lasting))
        }
        Scenario::OneWayLoss => {
            let lossy = one_in(&stage.world, 100);
            let loss = NodeLoss { outgoing: 0.8, incoming: 0.0 };
            disturb(stage, report, lossy, |node, lasting| Operation::Lossy(node, loss, lasting))
        }
        Scenario::FlipFlop => {
            let deaf = one_in(&stage.world, 100);
            disturb(stage, report, deaf, |node, lasting| Operation::FlipFlop(vec![node], FLIP_FLOP, lasting))
        }
        Scenario::Bursts => {
            // One datagram in twelve is lost, mostly in a row.
            let burst = Some(Burst { begin: 0.02, end: 0.2, loss: 0.9 });
            let usual = *stage.world.network.usual();
            let lasting = about(Scenario::Bursts, &settings, stage.world.options().lease);
            Operation::SetConditions(Conditions { burst, ..usual }, lasting).apply(&mut stage.world);
            stage.run_for(lasting);
            Outcome { goes_on: true, ..settle(stage, report) }
        }
    }
}

/// Runs until all nodes agree again.
fn settle(stage: &mut Stage<'_>, report: &mut Report) -> Outcome {
    let patience = patience(&stage.world.options().settings);
    report.converged_after = stage.agreement(patience);
    Outcome::default()
}

/// Returns the time after a crash for which reports of it are awaited.
fn aftermath(settings: &Settings) -> Duration {
    settings.down_timeout * 2 + Duration::from_secs(2)
}

/// Returns a node that is not a seed, if there is one.
fn victim(world: &World) -> usize {
    world.nodes() - 1
}

/// Returns one node of each group of this size, at least one node in all; the last one of each group, so that the first
/// seed is spared.
fn one_in(world: &World, group: usize) -> Vec<usize> {
    let group = group.min(world.nodes());
    (0..world.nodes()).filter(|node| node % group == group - 1).collect()
}

fn crash(
    stage: &mut Stage<'_>,
    report: &mut Report,
    how_many: usize,
    how: impl Fn(Vec<usize>) -> Operation,
) -> Outcome {
    let nodes = stage.world.nodes();
    let victims: Vec<usize> = (nodes - how_many..nodes).collect();
    let failures: Vec<Failure> =
        victims.iter().map(|victim| Failure::now(&stage.world, *victim, nodes - how_many)).collect();
    how(victims).apply(&mut stage.world);
    let settings = stage.world.options().settings.clone();
    stage.run_for(aftermath(&settings));
    report.converged_after = measure::known_to_all_after(&stage.world, &failures);
    Outcome { failures, ..Outcome::default() }
}

fn pause(stage: &mut Stage<'_>, report: &mut Report) -> Outcome {
    let subject = victim(&stage.world);
    let failure = Failure::now(&stage.world, subject, stage.world.nodes() - 1);
    let down_timeout = stage.world.options().settings.down_timeout;
    let lasting = down_timeout * 3 / 2;
    stage.world.pause(subject, lasting);
    stage.run_for(lasting + Duration::from_millis(1));
    let outcome = settle(stage, report);
    stage.run_for(down_timeout);
    Outcome { failures: vec![failure], ..outcome }
}

fn partition(stage: &mut Stage<'_>, report: &mut Report) -> Outcome {
    let nodes = stage.world.nodes();
    let side: Vec<usize> = (0..nodes / 2).collect();
    let rest = nodes - side.len();
    // Every node of one side is a failure to every node of the other.
    let failures = (0..nodes)
        .map(|subject| Failure::now(&stage.world, subject, if subject < side.len() { rest } else { side.len() }))
        .collect();
    let settings = &stage.world.options().settings;
    let lasting = settings.down_timeout + settings.suspect_timeout;
    stage.world.partition(&side, Some(lasting));
    stage.run_for(lasting);
    Outcome { failures, ..settle(stage, report) }
}

fn restart_all(stage: &mut Stage<'_>, report: &mut Report) -> Outcome {
    let all: Vec<usize> = (0..stage.world.nodes()).collect();
    Operation::StaggeredRestart(all, DiskFate::Kept, RESTART).apply(&mut stage.world);
    stage.run_for(RESTART);
    settle(stage, report)
}

/// Disturbs some nodes for a while; they go on running.
fn disturb(
    stage: &mut Stage<'_>,
    report: &mut Report,
    nodes: Vec<usize>,
    fault: impl Fn(usize, Duration) -> Operation,
) -> Outcome {
    let settings = stage.world.options().settings.clone();
    let lasting = about(report.scenario, &settings, stage.world.options().lease);
    for node in &nodes {
        fault(*node, lasting).apply(&mut stage.world);
    }
    stage.run_for(lasting);
    Outcome { disturbed: nodes.into_iter().collect(), goes_on: true, ..settle(stage, report) }
}

fn churn(stage: &mut Stage<'_>, report: &mut Report) -> Outcome {
    let mut random = Random::new(stage.world.options().seed, Purpose::Scenario);
    let settings = stage.world.options().settings.clone();
    let mut failures = Vec::new();
    for step in 0..20_u64 {
        let world = &mut stage.world;
        let node = random.index(world.nodes());
        let running = (0..world.nodes()).filter(|node| world.core(*node).is_some()).count();
        let operation = match (world.core(node).is_some(), step % 4) {
            (false, _) => Operation::Restart(node, DiskFate::Kept),
            (true, 0) if running > 2 => {
                failures.push(Failure::now(world, node, running - 1));
                Operation::Crash(node)
            }
            (true, 1) if running > 2 => Operation::Leave(node),
            (true, 2) => Operation::Join,
            (true, _) => Operation::SetTags(node, step),
        };
        operation.apply(world);
        stage.run_for(random.duration(settings.suspect_timeout / 4, settings.down_timeout));
    }
    stage.run_for(settings.down_timeout);
    Outcome { failures, ..settle(stage, report) }
}
