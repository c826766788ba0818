//! `headcount simulate`: what would this cluster do, before it is built.
//!
//! Must not know: how the simulator works; it asks for a scenario, or for one seed of the fault campaign.

use std::fs;
use std::io::Write;

use super::args::SimulateArgs;
use super::failure::{Exit, Failure};
use super::human;
use super::progress::Progress;
use crate::core::Settings;
use crate::sim::campaign::run_seed;
use crate::sim::page::page;
use crate::sim::scenario::{ScenarioOptions, run_scenario_telling};

pub(super) fn run(args: &SimulateArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    if let Some(seed) = args.replay {
        return replay(seed, out);
    }
    let usual = ScenarioOptions::new(args.scenario, args.nodes, args.profile);
    let options = ScenarioOptions {
        voters: args.voters.unwrap_or(usual.voters),
        loss: args.loss,
        latency: args.latency,
        jitter: args.jitter,
        formed: args.formed,
        seed: args.seed,
        ..usual
    };
    options.check().map_err(|error| Failure::usage(error.to_string()))?;
    if let Some(path) = &args.html {
        // Told before the simulation, which may take long. A page that is there already is kept until then.
        let opened = fs::OpenOptions::new().append(true).create(true).open(path);
        opened.map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))?;
    }
    let progress = Progress::start();
    let report = run_scenario_telling(&options, &mut |at| progress.tell(at.done, at.phase.name(), at.now));
    drop(progress);
    if let Some(path) = &args.html {
        let html = page(&report, &timing(&options.settings));
        fs::write(path, html).map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))?;
    }
    write!(out, "{report}")?;
    Ok(Exit::DONE)
}

/// The settings that decide what a cluster does and costs, as they are written in the configuration.
fn timing(settings: &Settings) -> Vec<(&'static str, String)> {
    vec![
        ("timing.heartbeat_interval", human::setting(settings.heartbeat_interval)),
        ("timing.suspect_timeout", human::setting(settings.suspect_timeout)),
        ("timing.down_timeout", human::setting(settings.down_timeout)),
        ("timing.gossip_interval", human::setting(settings.gossip_interval)),
        ("timing.gossip_fanout", settings.gossip_fanout.to_string()),
        ("timing.probe_timeout", human::setting(settings.probe_timeout)),
        ("timing.retry_interval", human::setting(settings.retry_interval)),
        ("observers", settings.observers.to_string()),
    ]
}

/// Everything that happens under one seed of the fault campaign, and the verdict.
fn replay(seed: u64, out: &mut impl Write) -> Result<Exit, Failure> {
    let outcome = run_seed(seed, true);
    for line in &outcome.lines {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "{outcome}")?;
    Ok(if outcome.violation.is_some() { Exit::FAILED } else { Exit::DONE })
}
