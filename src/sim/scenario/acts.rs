//! What happens in a scenario, and how it is watched: nodes come and go, stand still, or are cut off.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::measure;
use super::outcome::{Failure, Outcome};
use super::stage::{Stage, patience};
use crate::random::{Purpose, Random};
use crate::report::Report;
use crate::{World, WorldOptions};
use headcount_core::election::LeaseTiming;
use headcount_core::{Command, Settings, Tags};

/// Number of nodes that die at once.
const MASS: usize = 10;
/// Time within which everything is restarted.
const RESTART: Duration = Duration::from_secs(2);

/// Returns the time within which something happens that is over at once.
pub(super) fn moment(_: &Settings, _: LeaseTiming) -> Duration {
    Duration::from_secs(1)
}

/// Returns the time after a crash for which reports of it are awaited.
pub(super) fn aftermath(settings: &Settings, _: LeaseTiming) -> Duration {
    settings.down_timeout * 2 + Duration::from_secs(2)
}

/// Runs until all nodes agree again.
pub(super) fn settle(stage: &mut Stage<'_>, report: &mut Report) -> Outcome {
    let patience = patience(&stage.world.options().settings);
    report.converged_after = stage.agreement(patience);
    Outcome::default()
}

/// Returns a node that is not a seed, if there is one.
fn victim(world: &World) -> usize {
    world.nodes() - 1
}

pub(super) fn join(stage: &mut Stage<'_>, report: &mut Report) -> Outcome {
    stage.world.add_node();
    settle(stage, report)
}

pub(super) fn leave(stage: &mut Stage<'_>, report: &mut Report) -> Outcome {
    let who = victim(&stage.world);
    stage.world.command(who, Command::Leave);
    stage.run_for(Duration::from_millis(1));
    Outcome { disturbed: BTreeSet::from([who]), ..settle(stage, report) }
}

pub(super) fn crash(stage: &mut Stage<'_>, report: &mut Report) -> Outcome {
    die(stage, report, 1, World::crash)
}

pub(super) fn power_off(stage: &mut Stage<'_>, report: &mut Report) -> Outcome {
    die(stage, report, 1, World::power_off)
}

pub(super) fn mass_crash(stage: &mut Stage<'_>, report: &mut Report) -> Outcome {
    die(stage, report, MASS.min(stage.world.nodes() / 2), World::crash)
}

fn die(stage: &mut Stage<'_>, report: &mut Report, how_many: usize, how: fn(&mut World, usize) -> bool) -> Outcome {
    let nodes = stage.world.nodes();
    let victims: Vec<usize> = (nodes - how_many..nodes).collect();
    let failures: Vec<Failure> =
        victims.iter().map(|victim| Failure::now(&stage.world, *victim, nodes - how_many)).collect();
    for victim in victims {
        how(&mut stage.world, victim);
    }
    let WorldOptions { settings, lease, .. } = stage.world.options();
    let lasting = aftermath(settings, *lease);
    stage.run_for(lasting);
    report.converged_after = measure::known_to_all_after(&stage.world, &failures);
    Outcome { failures, ..Outcome::default() }
}

pub(super) fn pause_lasts(settings: &Settings, _: LeaseTiming) -> Duration {
    settings.down_timeout * 5 / 2
}

pub(super) fn pause(stage: &mut Stage<'_>, report: &mut Report) -> Outcome {
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

pub(super) fn partition_lasts(settings: &Settings, _: LeaseTiming) -> Duration {
    settings.down_timeout + settings.suspect_timeout
}

pub(super) fn partition(stage: &mut Stage<'_>, report: &mut Report) -> Outcome {
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

pub(super) fn restart_lasts(settings: &Settings, _: LeaseTiming) -> Duration {
    RESTART + settings.retry_interval * 3
}

pub(super) fn restart_all(stage: &mut Stage<'_>, report: &mut Report) -> Outcome {
    let all: Vec<usize> = (0..stage.world.nodes()).collect();
    stage.world.restart_in_turns(&all, RESTART);
    stage.run_for(RESTART);
    settle(stage, report)
}

pub(super) fn churn_lasts(settings: &Settings, _: LeaseTiming) -> Duration {
    (settings.down_timeout + settings.suspect_timeout / 4) * 10 + settings.down_timeout
}

pub(super) fn churn(stage: &mut Stage<'_>, report: &mut Report) -> Outcome {
    let mut random = Random::new(stage.world.options().seed, Purpose::Scenario);
    let settings = stage.world.options().settings.clone();
    let mut failures = Vec::new();
    for step in 0..20_u64 {
        let world = &mut stage.world;
        let node = random.index(world.nodes());
        let running = (0..world.nodes()).filter(|node| world.core(*node).is_some()).count();
        match (world.core(node).is_some(), step % 4) {
            (false, _) => drop(world.start(node)),
            (true, 0) if running > 2 => {
                failures.push(Failure::now(world, node, running - 1));
                world.crash(node);
            }
            (true, 1) if running > 2 => drop(world.command(node, Command::Leave)),
            (true, 2) => drop(world.add_node()),
            (true, _) => {
                let tags = Tags::new(BTreeMap::from([("value".to_owned(), step.to_string())])).unwrap_or_default();
                let ticket = world.ticket();
                world.command(node, Command::SetTags { ticket, tags });
            }
        }
        stage.run_for(random.duration(settings.suspect_timeout / 4, settings.down_timeout));
    }
    stage.run_for(settings.down_timeout);
    Outcome { failures, ..settle(stage, report) }
}
