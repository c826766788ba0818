//! `headcount tune`: the settings that meet a goal, their cost, and the simulator's verification.
//!
//! Must not know: the model, or how the simulator works.

mod measured;

use std::io::Write;
use std::time::Duration;

use serde_json::{Value as Json, json};

use self::measured::{Measured, goal};
use super::args::{AgentAddress, LineFormat, TuneArgs};
use super::client::connect;
use super::commands::json_line;
use super::failure::{Exit, Failure};
use super::human;
use super::progress::Progress;
use super::simulate::{distribution, milliseconds};
use crate::core::{Profile, Settings};
use crate::json::Pace;
use crate::sim::report::{Report, Short};
use crate::sim::scenario::{Scenario, ScenarioOptions, run_scenario_telling};
use crate::sim::tune::{Goal, Infeasible, MONTH, Proposal, propose, rough};

/// The largest number of nodes that the simulator verifies: a node's load and its observers' findings hardly depend on
/// the number of further nodes.
const MOST_SIMULATED: usize = 500;
/// The shortest time over which false alarms are counted.
const WATCHED: Duration = Duration::from_secs(600);

pub(super) fn run(args: &TuneArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let measured = args.from.as_deref().map(|agent| measure(agent, args)).transpose()?;
    let goal = goal(args, measured.as_ref())?;
    let proposal = propose(&goal).map_err(|error| refused(&error))?;
    let report = (!args.no_simulation).then(|| verify(&goal, &proposal));
    match args.format {
        LineFormat::Json => json_line(out, &figures(&proposal, measured.as_ref(), report.as_ref()))?,
        LineFormat::Text => {
            writeln!(out, "{}", command(&goal))?;
            if let Some(measured) = &measured {
                writeln!(out, "# {}", measured.text())?;
            }
            write!(out, "{}", toml(&proposal.settings))?;
            writeln!(out, "\n# what it costs, and what to expect")?;
            let simulated = report.iter().flat_map(verification);
            for (name, value) in expectations(&goal, &proposal).into_iter().chain(simulated) {
                writeln!(out, "# {name:<30}{value}")?;
            }
        }
    }
    match report {
        Some(report) if !is_met(&goal, &report) => Err(Failure::failed("the simulator does not confirm the model")
            .hint("the figures above say where; ask for a little more time, and please report the command")),
        _ => Ok(Exit::DONE),
    }
}

/// Asks an agent for its figures.
fn measure(agent: &str, args: &TuneArgs) -> Result<Measured, Failure> {
    let client = connect(&AgentAddress { http: agent.to_owned(), token_file: args.token_file.clone() })?;
    Ok(Measured::read(client.address(), &client.metrics()?))
}

/// The proposal for programs: these keys stay, others may be added.
fn figures(proposal: &Proposal, measured: Option<&Measured>, report: Option<&Report>) -> Json {
    let expected = &proposal.expected;
    let simulated = report.map(|report| {
        json!({
            "nodes": report.nodes,
            "bytes_per_second": report.idle.bytes,
            "down_after": distribution(report.down.as_ref()),
            "false_suspects": report.false_alarms.suspicions,
            "false_downs": report.false_alarms.deaths,
            "node_months": report.node_time.as_secs_f64() / MONTH.as_secs_f64(),
        })
    });
    json!({
        "measured": measured.map(Measured::json),
        "timing": Pace::from(&proposal.settings),
        "expected": {
            "bytes_per_second": expected.bytes,
            "down_within_ms": milliseconds(expected.down_within),
            "false_suspects_per_node_month": expected.suspicions,
            "false_downs_per_node_month": expected.deaths,
        },
        "simulated": simulated,
    })
}

fn refused(error: &Infeasible) -> Failure {
    match error {
        Infeasible::OutOfRange { .. } => Failure::usage(error.to_string()),
        Infeasible::TooSoon { nearest, .. } | Infeasible::TooLossy { nearest: Some(nearest), .. } => {
            let hint = format!("the nearest that is possible is --detect-within {}", human::setting(*nearest));
            Failure::failed(error.to_string()).hint(hint)
        }
        Infeasible::TooLossy { reachable, .. } => {
            let hint = format!(
                "no time is enough; in this one, --false-alarms-per-month {} is possible",
                rough(reachable * 1.1)
            );
            Failure::failed(error.to_string()).hint(hint)
        }
    }
}

/// Formats a goal as the command that asks for it, in a comment.
fn command(goal: &Goal) -> String {
    let Goal { rtt, loss, nodes, detect_within, false_alarms } = goal;
    let (rtt, within) = (human::setting(*rtt), human::setting(*detect_within));
    format!(
        "# headcount tune --rtt {rtt} --loss {loss} --nodes {nodes} --detect-within {within} --false-alarms-per-month \
         {false_alarms}"
    )
}

/// Formats settings for a configuration file; the rest of the output is comments, so all of it may be pasted.
fn toml(settings: &Settings) -> String {
    let keys = [
        ("heartbeat_interval", settings.heartbeat_interval),
        ("suspect_timeout", settings.suspect_timeout),
        ("down_timeout", settings.down_timeout),
        // A profile may say another one.
        ("host_down_timeout", settings.host_down_timeout.unwrap_or(settings.down_timeout)),
        ("gossip_interval", settings.gossip_interval),
        ("probe_timeout", settings.probe_timeout),
        ("retry_interval", settings.retry_interval),
    ];
    let lines: String = keys.map(|(key, value)| format!("{key} = \"{}\"\n", human::setting(value))).concat();
    format!("[timing]\n{lines}gossip_fanout = {}\n", settings.gossip_fanout)
}

fn expectations(goal: &Goal, proposal: &Proposal) -> Vec<(&'static str, String)> {
    let expected = &proposal.expected;
    let alarms = |count: f64| format!("{} per node and month, by the model", rough(count));
    vec![
        ("sent by each node", format!("{:.0} B/s, headers included, by the model", expected.bytes)),
        (
            "silent host Down everywhere",
            format!("within {} of {}, by the model", Short(expected.down_within), Short(goal.detect_within)),
        ),
        ("false Suspect", alarms(expected.suspicions)),
        ("false Down", alarms(expected.deaths)),
    ]
}

fn verify(goal: &Goal, proposal: &Proposal) -> Report {
    let progress = Progress::start();
    let settings = proposal.settings.clone();
    let one_way = goal.rtt / 2;
    let options = ScenarioOptions {
        settings,
        loss: goal.loss,
        // Real round trips vary; a tenth each way keeps the mean.
        latency: one_way * 9 / 10,
        jitter: one_way / 5,
        formed: true,
        idle: Some(WATCHED.max(proposal.settings.down_timeout * 4)),
        ..ScenarioOptions::new(Scenario::PowerOff, goal.nodes.min(MOST_SIMULATED), Profile::Default)
    };
    run_scenario_telling(&options, &mut |at| progress.tell(at.done, "verifying by simulation", at.now))
}

fn verification(report: &Report) -> Vec<(&'static str, String)> {
    let of = format!("simulated with {}", human::count(report.nodes, "node"));
    let down = report.down.as_ref().map_or_else(
        || format!("never, {of}"),
        |down| {
            format!("p99 {}, last {} ({} of {}), {of}", Short(down.p99), Short(down.last), down.reports, down.expected)
        },
    );
    let months = report.node_time.as_secs_f64() / MONTH.as_secs_f64();
    let alarms = report.false_alarms;
    vec![
        ("sent by each node, idle", format!("{:.0} B/s, {of}", report.idle.bytes)),
        ("silent host Down", down),
        (
            "false alarms",
            format!("{} Suspect, {} Down in {months:.2} node-months, {of}", alarms.suspicions, alarms.deaths),
        ),
    ]
}

/// Returns true unless the simulation contradicts the proposal: a node learnt of the death too late or not at all, or
/// there were more alarms than chance explains for the number that is allowed.
fn is_met(goal: &Goal, report: &Report) -> bool {
    let in_time =
        report.down.as_ref().is_some_and(|down| down.reports == down.expected && down.p99 <= goal.detect_within);
    let allowed = goal.false_alarms * report.node_time.as_secs_f64() / MONTH.as_secs_f64();
    in_time && report.false_alarms.suspicions as f64 <= allowed + 3.0 * allowed.sqrt() + 1.0
}
