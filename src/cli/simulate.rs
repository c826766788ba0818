//! `headcount simulate`: what would this cluster do, before it is built.
//!
//! Must not know: how the simulator works; it asks for a scenario, or for one seed of the fault campaign.

use std::io::Write;

use super::args::SimulateArgs;
use super::failure::{Exit, Failure};
use crate::sim::campaign::run_seed;
use crate::sim::scenario::{ScenarioOptions, run_scenario};

pub(super) fn run(args: &SimulateArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    if let Some(seed) = args.replay {
        return replay(seed, out);
    }
    let options = ScenarioOptions {
        loss: args.loss,
        latency: args.latency,
        jitter: args.jitter,
        seed: args.seed,
        ..ScenarioOptions::new(args.scenario, args.nodes, args.profile)
    };
    options.check().map_err(|error| Failure::usage(error.to_string()))?;
    write!(out, "{}", run_scenario(&options))?;
    Ok(Exit::DONE)
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
