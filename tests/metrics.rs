//! Metrics of real agents: what they say of a cluster, that Prometheus' own tools take them, and that the operations
//! guide and the files for deployment name those that there are.
#![cfg(feature = "agent")]

mod support;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use nix::sys::signal::Signal;
use support::{Agent, skip, wait_for};

/// Runs `promtool` in the folder of the rules; `None` where there is none.
fn promtool(arguments: &[&str], input: &str) -> Option<Output> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/deploy/prometheus");
    let mut command = Command::new("promtool");
    command.args(arguments).current_dir(folder);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        skip("promtool is needed: it comes with Prometheus (Debian: prometheus)");
        return None;
    };
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("taken");
    Some(child.wait_with_output().expect("it ends"))
}

/// Fails unless `promtool` finds nothing to complain about.
fn is_accepted(arguments: &[&str], input: &str) {
    let Some(output) = promtool(arguments, input) else { return };
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "promtool {arguments:?}: {}", String::from_utf8_lossy(&said));
}

fn body(agent: &Agent) -> String {
    let answer = agent.get("/metrics");
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).expect("a body")
}

/// An agent by itself that leads by its own vote and has a handler, and one that leads by a lease.
fn leaders(folder: &Path) -> [Agent; 2] {
    let data = folder.join("data").display().to_string();
    let url = format!("sqlite://{}", folder.join("leases.db").display());
    let config = folder.join("config.toml");
    std::fs::write(&config, "[[handlers]]\ncommand = [\"true\"]\n").expect("written");
    let config = config.display().to_string();
    let voter = Agent::start("a", &[], &["--voters", "a", "--data-dir", &data, "--config", &config]);
    let holder = Agent::start("b", &[], &["--lease-url", &url]);
    for agent in [&voter, &holder] {
        wait_for(&format!("{} to lead", agent.name), || (agent.metric("headcount_leader") > 0.5).then_some(()));
    }
    wait_for("its row in the table", || body(&holder).contains("headcount_lease_heartbeat_age_seconds{").then_some(()));
    [voter, holder]
}

#[test]
fn prometheus_takes_the_metrics_without_a_complaint() {
    let folder = tempfile::tempdir().expect("a folder");
    for agent in leaders(folder.path()) {
        is_accepted(&["check", "metrics"], &body(&agent));
    }
}

#[test]
fn the_rules_for_prometheus_are_good_and_pass_their_tests() {
    is_accepted(&["check", "rules", "headcount.rules.yml"], "");
    is_accepted(&["test", "rules", "tests/headcount.test.yml"], "");
    is_accepted(&["check", "config", "prometheus.yml"], "");
}

/// The names of all metrics that agents serve, without the `_total` of counters.
fn served(folder: &Path) -> BTreeSet<String> {
    let texts = leaders(folder).map(|agent| body(&agent));
    let types = texts.iter().flat_map(|text| text.lines()).filter_map(|line| line.strip_prefix("# TYPE "));
    types.filter_map(|told| told.split_once(' ')).map(|(name, _)| name.trim_end_matches("_total").to_owned()).collect()
}

/// All names of metrics in a text.
fn named(text: &str) -> BTreeSet<String> {
    let ends = |letter: char| !(letter.is_ascii_alphanumeric() || letter == '_');
    let found = text.match_indices("headcount_").map(|(at, _)| text[at..].split(ends).next().unwrap_or_default());
    found.map(str::to_owned).collect()
}

#[test]
fn the_operations_guide_names_every_metric_and_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let guide = include_str!("../src/operations.md");
    let tables = guide.split_once("## Metrics").and_then(|(_, rest)| rest.split_once("## The log"));
    let rows = tables.expect("the section").0.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next());
    let told = named(&rows.collect::<Vec<_>>().join("\n"));
    let served = served(folder.path());
    assert_eq!(served.difference(&told).collect::<Vec<_>>(), Vec::<&String>::new(), "not in the guide");
    assert_eq!(told.difference(&served).collect::<Vec<_>>(), Vec::<&String>::new(), "in the guide, and not served");
}

#[test]
fn the_files_for_deployment_name_metrics_that_there_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let served = served(folder.path());
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/deploy");
    for file in ["prometheus/headcount.rules.yml", "grafana/headcount.json"] {
        let text = std::fs::read_to_string(deploy.join(file)).expect("the file");
        // A name that the rules record themselves is no agent's.
        let recorded: BTreeSet<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("- record: ")).collect();
        for name in named(&text).iter().filter(|name| !recorded.contains(name.as_str())) {
            let base = ["_total", "_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
            assert!(served.contains(name) || base.is_some_and(|base| served.contains(base)), "{name} in {file}");
        }
    }
}

#[test]
fn a_cluster_shows_round_trips_ages_and_the_time_that_a_death_took_to_be_found() {
    let a = Agent::start("a", &[], &[]);
    let b = Agent::start("b", &[&a.gossip], &[]);
    let c = Agent::start("c", &[&a.gossip], &[]);
    for agent in [&a, &b, &c] {
        agent.wait_for_up(&["a", "b", "c"]);
    }
    for agent in [&a, &b] {
        for histogram in ["round_trip", "heartbeat_age"] {
            let count = format!("headcount_{histogram}_seconds_count");
            wait_for(&count, || (agent.metric(&count) > 0.5).then_some(()));
        }
        let bucket = "headcount_round_trip_seconds_bucket{le=\"0.1\"}";
        assert!(agent.metric(bucket) <= agent.metric("headcount_round_trip_seconds_bucket{le=\"+Inf\"}"));
        assert!(agent.metric("headcount_heartbeat_age_max_seconds") < 30.0);
    }
    let fingerprint = |agent: &Agent| agent.metric("headcount_view_fingerprint");
    wait_for("one view", || (fingerprint(&a) > 0.5 && (fingerprint(&a) - fingerprint(&b)).abs() < 0.5).then_some(()));
    wait_for("views compared", || (a.metric("headcount_views_compared{view=\"same\"}") > 1.5).then_some(()));

    c.signal(Signal::SIGKILL);
    let found = |agent: &Agent| -> f64 {
        let count = |method| format!("headcount_detection_latency_seconds_count{{method=\"{method}\"}}");
        let methods = ["heartbeat_timeout", "connection_lost", "network_partition"];
        methods.map(|method| agent.metric(&count(method))).iter().sum()
    };
    for agent in [&a, &b] {
        wait_for("the death to be timed", || (found(agent) > 0.5).then_some(()));
        assert!((found(agent) - 1.0).abs() < 0.1, "once");
    }
}
