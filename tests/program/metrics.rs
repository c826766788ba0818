//! Metrics of real agents: what they say of a cluster, that Prometheus' own tools take them, and that the
//! reference, the operations guide and the files for deployment name those that there are.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::{Agent, skip, wait_for};
use nix::sys::signal::Signal;

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
    std::fs::write(&config, "[metrics]\nper_member = true\n[[handlers]]\ncommand = [\"true\"]\n").expect("written");
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
fn the_reference_names_every_metric_and_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = include_str!("../../src/metrics_reference.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next());
    let told = named(&rows.collect::<Vec<_>>().join("\n"));
    let served = served(folder.path());
    assert_eq!(served.difference(&told).collect::<Vec<_>>(), Vec::<&String>::new(), "not on the page");
    assert_eq!(told.difference(&served).collect::<Vec<_>>(), Vec::<&String>::new(), "on the page, and not served");
}

#[test]
fn the_files_for_deployment_and_the_guide_name_metrics_that_there_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let served = served(folder.path());
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/deploy");
    for file in ["prometheus/headcount.rules.yml", "grafana/headcount.json", "../../src/operations.md"] {
        let text = std::fs::read_to_string(deploy.join(file)).expect("the file");
        // A name that the rules record themselves is no agent's.
        let recorded: BTreeSet<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("- record: ")).collect();
        for name in named(&text).iter().filter(|name| !recorded.contains(name.as_str())) {
            let base = ["_total", "_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
            assert!(served.contains(name) || base.is_some_and(|base| served.contains(base)), "{name} in {file}");
        }
    }
}

/// Returns true if an agent serves a metric of this name, or one of its series has it.
fn is_served(served: &BTreeSet<String>, name: &str) -> bool {
    let base = ["_total", "_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
    served.contains(name) || base.is_some_and(|base| served.contains(base))
}

#[test]
fn the_dashboard_reads_metrics_that_there_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let served = served(folder.path());
    // The page leaves the prefix out.
    let page = include_str!("../../src/dashboard/health.js");
    let readers =
        ["counter(\"", "gauge(\"", "value(\"", "rate(\"", "growth(\"", "quantile(\"", "values.get(\"", "traffic(\""];
    let read = readers.iter().flat_map(|reader| page.split(reader).skip(1)).filter_map(|rest| rest.split('"').next());
    let read: BTreeSet<&str> = read.collect();
    assert!(read.len() >= 18, "{read:?}");
    for name in read {
        let name = format!("headcount_{name}");
        assert!(is_served(&served, &name), "{name} in the dashboard's health");
    }
}

/// Returns the labels of a series, or of a selector, as name and value; operators stay with the name.
fn labels(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut quoted = text.split('"');
    std::iter::from_fn(move || Some((quoted.next()?.trim_start_matches([',', ' ']), quoted.next()?)))
}

#[test]
fn the_files_for_deployment_select_labels_that_there_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let texts = leaders(folder.path()).map(|agent| body(&agent));
    let series = texts.iter().flat_map(|text| text.lines()).filter_map(|line| line.split_once('{'));
    let mut served = BTreeSet::new();
    for (name, rest) in series {
        served.extend(
            labels(rest.split('}').next().unwrap_or_default())
                .map(|(label, value)| (name.to_owned(), label.trim_end_matches('=').to_owned(), value.to_owned())),
        );
    }
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/deploy");
    let (mut compared, mut foreign) = (0, Vec::new());
    for file in ["prometheus/headcount.rules.yml", "grafana/headcount.json"] {
        let text = std::fs::read_to_string(deploy.join(file)).expect("the file").replace("\\\"", "\"");
        for (at, _) in text.match_indices("headcount_") {
            let ends = |letter: char| !(letter.is_ascii_alphanumeric() || letter == '_');
            let name = text[at..].split(ends).next().unwrap_or_default();
            let Some(rest) = text[at + name.len()..].strip_prefix('{') else { continue };
            for (label, values) in labels(rest.split('}').next().unwrap_or_default()) {
                let label = label.trim_end_matches(['=', '~', '!']);
                // The words of these are known beforehand; others are those of a place.
                if !["status", "reason", "view", "event", "method", "subscriber", "queue"].contains(&label) {
                    continue;
                }
                for value in values.split('|').filter(|value| !value.starts_with('$')) {
                    let wanted = (name.to_owned(), label.to_owned(), value.to_owned());
                    compared += 1;
                    if !served.contains(&wanted) {
                        foreign.push((wanted, file));
                    }
                }
            }
        }
    }
    assert_eq!(foreign, []);
    assert!(compared > 15, "{compared} compared");
}

#[test]
fn alerts_that_call_somebody_out_of_bed_are_these() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/deploy/prometheus/headcount.rules.yml");
    let text = std::fs::read_to_string(path).expect("the rules");
    let mut alerts: Vec<(&str, &str)> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("- alert: Headcount") {
            alerts.push((name, ""));
        } else if let (Some(severity), Some(last)) = (line.strip_prefix("severity: "), alerts.last_mut()) {
            last.1 = severity;
        }
    }
    let of = |severity| alerts.iter().filter(|(_, its)| *its == severity).map(|(name, _)| *name).collect::<Vec<_>>();
    let pages = ["Broken", "MembersMissing", "FingerprintsDiffer", "AllAgentsGone", "TwoLeaders", "NoFailureTolerance"];
    assert_eq!(of("page"), pages);
    assert_eq!(of("warning").len(), alerts.len() - pages.len(), "{alerts:?}");
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
        let by = |carrier| agent.metric(&format!("headcount_heartbeats_sent_total{{carrier=\"{carrier}\"}}"));
        wait_for("heartbeats", || (by("heartbeat") > 0.5).then_some(()));
        let text = body(agent);
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("no {name}")).parse().expect("a number")
        };
        let buckets = text.lines().filter(|line| line.starts_with("headcount_round_trip_seconds_bucket{"));
        let counts: Vec<f64> = buckets
            .filter_map(|line| line.rsplit_once(' '))
            .map(|(_, count)| count.parse().expect("a number"))
            .collect();
        assert!(counts.len() > 2 && counts.is_sorted(), "each holds those below: {counts:?}");
        let all = value("headcount_round_trip_seconds_count");
        assert!((counts[counts.len() - 1] - all).abs() < 0.5, "{counts:?}, {all} in all");
        let (sum, most) = (value("headcount_round_trip_seconds_sum"), value("headcount_heartbeat_age_max_seconds"));
        assert!(sum > 0.0 && sum < all * 30.0 && most < 30.0, "{sum} s in all, and silent for {most} s");
    }
    let fingerprint = |agent: &Agent| agent.metric("headcount_view_fingerprint");
    wait_for("one view", || (fingerprint(&a) > 0.5 && (fingerprint(&a) - fingerprint(&b)).abs() < 0.5).then_some(()));
    wait_for("views compared", || (a.metric("headcount_views_compared{view=\"same\"}") > 1.5).then_some(()));

    c.signal(Signal::SIGSTOP);
    // Until it is held as Down: the two are looked at side by side.
    let mut has_shown = [false; 2];
    wait_for("the silence to be shown", || {
        for (agent, has_shown) in [&a, &b].into_iter().zip(&mut has_shown) {
            *has_shown |= agent.metric("headcount_heartbeat_age_max_seconds") > 0.4;
        }
        has_shown.iter().all(|has_shown| *has_shown).then_some(())
    });
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
