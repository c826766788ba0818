//! Scenarios for users who choose settings: the course of a crash, a pause or a cut at their size and in their network.
//!
//! Each scenario forms a cluster, watches it idle for a while, lets one event happen, and measures from outside, by
//! true time. Must not know: how the figures are shown.
//!
//! | idea | file |
//! |---|---|
//! | one row for each scenario | `table` |
//! | what happens: nodes come, go, stand still | `acts` |
//! | nodes or the network do badly for a while | `disturbances` |
//! | leaders are lost, by quorum and by lease | `succession`, `contenders` |
//! | the world, the clock, the samples | `stage` |
//! | latencies and false alarms; what failed | `measure`, `outcome` |

mod acts;
mod contenders;
mod disturbances;
mod measure;
mod outcome;
mod stage;
mod succession;
mod table;

use std::time::Duration;

use super::network::{Conditions, Latency};
pub use super::plan::{Scenario, ScenarioOptions, UnknownScenario, usual_voters};
use super::report::Report;
pub use super::report::Sample;
use super::world::{LeaseOptions, World, WorldOptions};
use headcount_contender::ContenderTiming;
use stage::Stage;
pub use stage::{Phase, Progress};

/// Runs a scenario to its end.
pub fn run_scenario(options: &ScenarioOptions) -> Report {
    run_scenario_telling(options, &mut |_| {})
}

/// Runs a scenario to its end, and reports its progress many times a virtual second.
pub fn run_scenario_telling(options: &ScenarioOptions, tell: &mut dyn FnMut(Progress)) -> Report {
    let latency = Latency { base: options.latency, jitter: options.jitter };
    let of_world = WorldOptions {
        conditions: Conditions { latency, loss: options.loss, ..Conditions::default() },
        ipv6: options.ipv6,
        sealed: options.sealed,
        voters: options.voters,
        lease: options.profile.lease_timing(),
        leases: options.scenario.is_about_leases().then(|| {
            let lease = ContenderTiming::of_lease(options.profile.lease_timing().lease_duration);
            LeaseOptions::new(options.nodes.min(contenders::MOST_CONTENDERS), lease)
        }),
        ..WorldOptions::new(options.seed, options.nodes, options.settings.clone())
    };
    let world = if options.formed { World::formed(of_world) } else { World::new(of_world) };
    let mut report = Report::empty(options);
    let mut stage = Stage::new(world, tell);
    let settings = &options.settings;
    stage.enter(Phase::Forming, settings.suspect_timeout + Duration::from_secs(1));
    let formed_after = stage.agreement(stage::patience(settings));
    report.formed_after = formed_after.filter(|_| !options.formed);
    stage.run_for(settings.suspect_timeout);
    stage.world.watch();
    let watched_from = stage.world.now();
    let before = stage.sent();
    let idle = options.idle.unwrap_or((settings.heartbeat_interval * 6).max(Duration::from_secs(10)));
    stage.enter(Phase::Idling, idle);
    stage.run_for(idle);
    report.idle = measure::rate(before, stage.sent(), idle, stage.world.nodes());

    let (before, began) = (stage.sent(), stage.world.now());
    stage.enter(Phase::Acting, options.scenario.lasts(settings, stage.world.options().lease));
    let outcome = options.scenario.play(&mut stage, &mut report);
    let Stage { world, samples, .. } = &stage;
    report.busy = measure::rate(before, stage.sent(), world.now().saturating_sub(began), world.nodes());
    report.happened_at = began;
    measure::detection(world, &outcome.failures, &mut report);
    measure::false_alarms(world, &outcome, &mut report);
    report.node_time = world.now().saturating_sub(watched_from) * world.nodes() as u32;
    report.time = world.now();
    report.trace = world.trace();
    report.samples.clone_from(samples);
    report
}
