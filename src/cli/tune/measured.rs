//! [`Measured`]: a running cluster in figures, by the metrics of one of its agents.
//!
//! Invariant: a figure that was given is never replaced by one that was measured.
//!
//! Must not know: how an agent is asked.

use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::cli::args::TuneArgs;
use crate::cli::failure::Failure;
use crate::cli::human;
use crate::cli::simulate::milliseconds;
use crate::sim::tune::Goal;

/// The least number of round trips, and of heartbeats, that figures are taken from.
const LEAST: u64 = 100;
/// The loss where it is neither given nor measured.
const USUAL_LOSS: f64 = 0.01;

/// A running cluster, as one of its agents has seen it since its start.
#[derive(Debug, Default)]
pub(super) struct Measured {
    /// The agent's HTTP address.
    agent: String,
    /// The number of members that are Up or Suspect, the agent's own node included.
    nodes: usize,
    /// The number of round trips within each bound, in seconds.
    round_trips: Vec<(f64, u64)>,
    /// The number of heartbeats that came.
    heartbeats: u64,
    /// The number of heartbeats that did not, or late.
    missed: u64,
}

impl Measured {
    /// Reads an agent's metrics, in the text form of Prometheus.
    pub(super) fn read(agent: &str, metrics: &str) -> Self {
        let samples = || {
            let lines = metrics.lines().filter_map(|line| line.rsplit_once(' '));
            lines.filter_map(|(name, value)| Some((name, value.parse::<u64>().ok()?)))
        };
        let count = |wanted: &str| samples().find(|(name, _)| *name == wanted).map_or(0, |(_, value)| value);
        let within = |(name, value): (&str, u64)| {
            let bound = name.strip_prefix("headcount_round_trip_seconds_bucket{le=\"")?.strip_suffix("\"}")?;
            Some((bound.parse().ok()?, value))
        };
        let live = ["up", "suspect"].map(|status| count(&format!("headcount_members{{status=\"{status}\"}}")));
        Self {
            agent: agent.to_owned(),
            nodes: live.iter().sum::<u64>() as usize,
            round_trips: samples().filter_map(within).collect(),
            heartbeats: count("headcount_heartbeats_received_total"),
            missed: count("headcount_heartbeats_missed_total"),
        }
    }

    fn round_trips(&self) -> u64 {
        self.round_trips.last().map_or(0, |(_, all)| *all)
    }

    /// Returns the bound that 99 of 100 round trips are within; `None` if too few were measured.
    fn rtt(&self) -> Option<Duration> {
        let all = Some(self.round_trips()).filter(|all| *all >= LEAST)?;
        let (bound, _) = self.round_trips.iter().find(|(_, within)| within * 100 >= all * 99)?;
        Some(Duration::try_from_secs_f64(*bound).unwrap_or(Duration::MAX))
    }

    /// Returns the greatest chance of a loss by which as few heartbeats as these are missed once in 20 times, roughly; `None`
    /// if too few came.
    fn loss(&self) -> Option<f64> {
        let missed = self.missed as f64;
        let most = (missed + 2.0 * missed.sqrt() + 3.0) / (self.heartbeats + self.missed) as f64;
        (self.heartbeats >= LEAST).then(|| (most * 1e4).ceil() / 1e4)
    }

    /// Returns what was measured, for people.
    pub(super) fn text(&self) -> String {
        let rtt = self.rtt().map(|rtt| format!(" (p99 up to {})", human::setting(rtt))).unwrap_or_default();
        format!(
            "measured at {}: {}, {} round trips{rtt}, {} of {} heartbeats missed",
            self.agent,
            human::count(self.nodes, "node"),
            self.round_trips(),
            self.missed,
            self.heartbeats + self.missed
        )
    }

    /// Returns what was measured, for programs.
    pub(super) fn json(&self) -> Json {
        json!({
            "agent": self.agent,
            "nodes": self.nodes,
            "round_trips": self.round_trips(),
            "rtt_p99_ms": self.rtt().map(milliseconds),
            "heartbeats_received": self.heartbeats,
            "heartbeats_missed": self.missed,
            "loss": self.loss(),
        })
    }

    /// Returns the failure to measure the value of a flag.
    fn lacks(&self, what: &str, flag: &str) -> Failure {
        Failure::failed(format!("the agent at {} {what}, which is too few to go by", self.agent))
            .hint(format!("ask another one, or later again, or give {flag}"))
    }
}

/// Returns the goal of these arguments; of the network, what they do not say is taken from what was measured.
pub(super) fn goal(args: &TuneArgs, measured: Option<&Measured>) -> Result<Goal, Failure> {
    let nobody = Measured::default();
    let by = measured.unwrap_or(&nobody);
    let nodes = args.nodes.or((by.nodes > 1).then_some(by.nodes));
    let nodes =
        nodes.ok_or_else(|| by.lacks(&format!("knows of {}", human::count(by.nodes, "live node")), "--nodes"))?;
    let trips = || format!("has measured {} since its start", human::count(by.round_trips() as usize, "round trip"));
    let rtt = args.rtt.or(by.rtt()).ok_or_else(|| by.lacks(&trips(), "--rtt"))?;
    let usual = measured.is_none().then_some(USUAL_LOSS);
    let beats = || format!("has received {} since its start", human::count(by.heartbeats as usize, "heartbeat"));
    let loss = args.loss.or(usual).or(by.loss()).ok_or_else(|| by.lacks(&beats(), "--loss"))?;
    Ok(Goal { rtt, loss, nodes, detect_within: args.detect_within, false_alarms: args.false_alarms_per_month })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::args::{Cli, Command};

    const METRICS: &str = "\
# TYPE headcount_members gauge
headcount_members{status=\"up\"} 40
headcount_members{status=\"suspect\"} 2
headcount_members{status=\"down\"} 7
headcount_round_trip_seconds_sum 3.25
headcount_round_trip_seconds_count 1000
headcount_round_trip_seconds_bucket{le=\"0.0005\"} 700
headcount_round_trip_seconds_bucket{le=\"0.001\"} 989
headcount_round_trip_seconds_bucket{le=\"0.0025\"} 990
headcount_round_trip_seconds_bucket{le=\"+Inf\"} 1000
headcount_heartbeats_sent_total{carrier=\"heartbeat\"} 7
headcount_heartbeats_received_total 10000
headcount_heartbeats_missed_total 100
";

    fn goal_of(flags: &str, metrics: Option<&str>) -> Result<(f64, f64, usize), String> {
        let line = format!("headcount tune --detect-within 20s {flags}");
        let Ok(Cli { command: Command::Tune(args) }) = Cli::try_parse_from(line.split(' ')) else { panic!("{line}") };
        let measured = metrics.map(|metrics| Measured::read("a:7118", metrics));
        let goal = goal(&args, measured.as_ref()).map_err(|failure| failure.to_string())?;
        Ok((milliseconds(goal.rtt), goal.loss, goal.nodes))
    }

    #[test]
    fn what_is_not_given_is_measured() {
        let by_flags = [
            ("--from a", (2.5, 0.0122, 42)),
            ("--from a --rtt 80ms", (80.0, 0.0122, 42)),
            ("--from a --loss 0%", (2.5, 0.0, 42)),
            ("--from a --nodes 500", (2.5, 0.0122, 500)),
        ];
        for (flags, expected) in by_flags {
            assert_eq!(goal_of(flags, Some(METRICS)), Ok(expected), "{flags}");
        }
        assert_eq!(goal_of("--rtt 80ms --nodes 5", None), Ok((80.0, 0.01, 5)), "nobody is asked");
    }

    #[test]
    fn a_loss_that_was_not_seen_is_as_small_as_the_sample_is_large() {
        let loss = |received: u64, missed: u64| Measured { heartbeats: received, missed, ..Measured::default() }.loss();
        let by_sample =
            [(99, 0), (100, 0), (10_000, 0), (10_000, 25), (1_000_000, 20_000)].map(|(all, not)| loss(all, not));
        assert_eq!(by_sample, [None, Some(0.03), Some(0.0003), Some(0.0038), Some(0.0199)]);
    }

    #[test]
    fn too_few_figures_are_refused_with_the_flag_that_helps() {
        let with = |name: &str, value: u64| {
            let line = METRICS.lines().find(|line| line.starts_with(name)).expect("a line");
            METRICS.replace(line, &format!("{name} {value}"))
        };
        for (name, value, said, flag) in [
            ("headcount_members{status=\"up\"}", 0, "", ""),
            ("headcount_round_trip_seconds_bucket{le=\"+Inf\"}", 99, "measured 99 round trips", "--rtt"),
            ("headcount_heartbeats_received_total", 1, "received 1 heartbeat since", "--loss"),
        ] {
            match goal_of("--from a", Some(&with(name, value))) {
                Ok((.., nodes)) => assert_eq!((said, nodes), ("", 2)),
                Err(failure) => assert!(failure.contains(said) && failure.ends_with(flag), "{failure}"),
            }
        }
        let alone = goal_of("--from a", Some("")).expect_err("alone");
        assert_eq!(
            alone,
            "the agent at a:7118 knows of 0 live nodes, which is too few to go by; ask another one, or later again, or give --nodes"
        );
    }
}
