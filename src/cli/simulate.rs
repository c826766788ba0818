//! `headcount simulate`: the behaviour of a planned cluster, before it is built.
//!
//! Must not know: how the simulator works; it asks for a scenario.

use std::fs;
use std::io::Write;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::args::{Format, SimulateArgs};
use super::commands::json_line;
use super::failure::{Exit, Failure};
use super::human;
use super::progress::Progress;
use crate::core::Settings;
use crate::sim::page::page;
use crate::sim::report::{Alarms, Distribution, Rate, Report, Succession};
use crate::sim::scenario::{ScenarioOptions, run_scenario_telling};

pub(super) fn run(args: &SimulateArgs, out: &mut impl Write) -> Result<Exit, Failure> {
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
        // Reported before the simulation, which may take long. An existing page is kept until its end.
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
    match args.format {
        Format::Json => json_line(out, &figures(&report))?,
        Format::Table => write!(out, "{report}")?,
    }
    Ok(Exit::DONE)
}

/// The report for programs: these keys stay, others may be added. Durations are in milliseconds; figures that were not
/// observed are `null`.
fn figures(report: &Report) -> Json {
    let alarms =
        |alarms: Alarms| json!({ "suspect": alarms.suspicions, "down": alarms.deaths, "believed": alarms.believed });
    let mut false_alarms = alarms(report.false_alarms);
    false_alarms["node_hours"] = (report.node_time.as_secs_f64() / 3_600.0).into();
    let mut of_disturbed = alarms(report.alarms_of_disturbed);
    of_disturbed["nodes"] = report.disturbed.into();
    let succession = report.succession.as_ref().map(|succession| {
        let Succession { stopped, claimed, known } = succession;
        json!({ "stopped_after": distribution(stopped.as_ref()), "claimed_after": distribution(claimed.as_ref()), "known_after": distribution(known.as_ref()) })
    });
    json!({
        "scenario": report.scenario.name(),
        "nodes": report.nodes,
        "voters": report.voters,
        "profile": report.profile.name(),
        "loss": report.loss,
        "latency_ms": milliseconds(report.latency),
        "jitter_ms": milliseconds(report.jitter),
        "seed": report.seed,
        "formed": report.formed,
        "formed_after_ms": report.formed_after.map(milliseconds),
        "suspect_after": distribution(report.suspect.as_ref()),
        "down_after": distribution(report.down.as_ref()),
        "agreed_after_ms": report.converged_after.map(milliseconds),
        "succession": succession,
        "false_alarms": false_alarms,
        "told_by_disturbed": of_disturbed,
        "idle": rate(report.idle),
        "busy": rate(report.busy),
        "virtual_time_ms": milliseconds(report.time),
        "trace": format!("{:016x}", report.trace),
        "replay": report.replay(),
    })
}

/// Formats the distribution of a figure over those who reported it.
pub(super) fn distribution(distribution: Option<&Distribution>) -> Json {
    let Some(Distribution { first, median, p99, last, reports, expected }) = distribution.copied() else {
        return Json::Null;
    };
    json!({
        "first_ms": milliseconds(first),
        "median_ms": milliseconds(median),
        "p99_ms": milliseconds(p99),
        "last_ms": milliseconds(last),
        "reports": reports,
        "expected": expected,
    })
}

/// Formats one node's traffic, headers included.
pub(super) fn rate(rate: Rate) -> Json {
    json!({ "packets_per_second": rate.packets, "bytes_per_second": rate.bytes })
}

pub(super) fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1_000.0
}

/// Returns the settings that decide a cluster's behaviour and cost, as they are written in the configuration.
fn timing(settings: &Settings) -> Vec<(&'static str, String)> {
    let host = settings.host_down_timeout.unwrap_or(settings.down_timeout);
    vec![
        ("timing.heartbeat_interval", human::setting(settings.heartbeat_interval)),
        ("timing.suspect_timeout", human::setting(settings.suspect_timeout)),
        ("timing.down_timeout", human::setting(settings.down_timeout)),
        ("timing.host_down_timeout", human::setting(host)),
        ("timing.gossip_interval", human::setting(settings.gossip_interval)),
        ("timing.gossip_fanout", settings.gossip_fanout.to_string()),
        ("timing.probe_timeout", human::setting(settings.probe_timeout)),
        ("timing.retry_interval", human::setting(settings.retry_interval)),
        ("observers", settings.observers.to_string()),
    ]
}
