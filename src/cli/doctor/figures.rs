//! Findings from an agent's metrics: its disk, its packets, its event handlers and its machine.
//!
//! Invariant: a metric that is missing is no failure: agents of other versions have others.

use std::collections::BTreeMap;

use super::report::Finding;
use crate::cli::human::plain;

/// The share of received packets that may be dropped before it is worth a word.
const DROPPED_SHARE: f64 = 0.01;
/// The least number of dropped packets that is worth a word.
const DROPPED_COUNT: f64 = 100.0;
/// The reasons for which packets are dropped in a cluster that is well, restarts and pauses included.
const OF_NORMAL_LIFE: [&str; 9] = [
    "own",
    "outdated",
    "duplicate",
    "wrong_state",
    "unasked",
    "unknown_run",
    "claimed",
    "sealed_replayed",
    "sealed_misdirected",
];
/// The number of dropped packets, by reason.
const DROPPED: &str = "headcount_dropped";
/// The reason of packets that are sealed with a key that the node lacks.
const UNKNOWN_KEY: &str = "sealed_unknown_key";
/// The reason of sealed packets at a node that takes clear ones alone.
const NO_KEYS: &str = "unknown_key";
/// Reasons for which packets are refused because of their seals: one node that is shut out is worth a word, however many
/// packets the others have.
const SHUT_OUT: [&str; 6] =
    [UNKNOWN_KEY, NO_KEYS, "unsealed", "not_loopback", "sealed_forged", "sealed_unknown_version"];
/// The number of such packets that is worth a word: a node that joins sends as many in seconds, a change of modes leaves fewer.
const SHUT_OUT_COUNT: f64 = 10.0;
/// The health score from which a node doubts itself.
const DOUBTFUL_SCORE: f64 = 3.0;

/// Figures by name, `_total` left out, each with its labels as they stand.
pub(super) type Figures = BTreeMap<String, Vec<(String, f64)>>;

/// Reads figures in the text format of OpenMetrics or Prometheus; lines of other forms are skipped.
pub(super) fn parse(text: &str) -> Figures {
    let mut figures = Figures::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((series, value)) = line.rsplit_once(' ') else { continue };
        let Ok(value) = value.parse::<f64>() else { continue };
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let name = name.strip_suffix("_total").unwrap_or(name);
        figures.entry(name.to_owned()).or_default().push((labels.trim_end_matches('}').to_owned(), value));
    }
    figures
}

fn sum(figures: &Figures, name: &str) -> f64 {
    figures.get(name).map_or(0.0, |series| series.iter().map(|(_, value)| value).sum())
}

/// Returns true if the agent suspects a network partition.
pub(super) fn is_cut(figures: &Figures) -> bool {
    sum(figures, "headcount_partition_unreachable") >= 1.0
}

/// Returns true if the agent's node stands aside as a voter.
pub(super) fn is_aside(figures: &Figures) -> bool {
    sum(figures, "headcount_voter_aside") > 0.0
}

/// Judges the figures; `is_joining`: the node has not been let in yet.
pub(super) fn judge(figures: &Figures, is_joining: bool) -> Vec<Finding> {
    let mut findings = vec![packets(figures, is_joining), disk(figures)];
    findings.extend(streams(figures));
    findings.extend(handlers(figures));
    let troubles: [(&str, f64, &'static str, &str, &str); 6] = [
        (
            "headcount_health_score",
            DOUBTFUL_SCORE,
            "machine",
            "the node doubts its own observation: its timers are late, or its links bad",
            "headcount_tick_lateness_seconds tells a starved machine from a bad network",
        ),
        (
            "headcount_links_degraded",
            1.0,
            "network",
            "others hear a member that this node does not hear",
            "the agent's log names both; look at the network between them",
        ),
        (
            "headcount_pages_shrunk",
            1.0,
            "network",
            "the members' list did not come in large datagrams when this node joined",
            "the agent's log names the address; the path to it may lose large packets: check its MTU (tunnels, VPNs)",
        ),
        (
            "headcount_partition_unreachable",
            1.0,
            "network",
            "members of a suspected partition are missing",
            "`headcount watch --kind partition_suspected,partition_healed --snapshot` names both sides",
        ),
        (
            "headcount_log_lines_lost",
            1.0,
            "log",
            "lines of the log were lost",
            "whatever reads standard error is too slow, or its disk is full",
        ),
        ("headcount_http_panics", 1.0, "agent", "connections ended because of a bug", "please report it, with the log"),
    ];
    for (name, least, check, found, advice) in troubles {
        let value = sum(figures, name);
        if value >= least {
            findings.push(Finding::warn(check, format!("{found} ({name} is {value})"), Some(advice)));
        }
    }
    findings
}

fn packets(figures: &Figures, is_joining: bool) -> Finding {
    let received = sum(figures, "headcount_packets_received");
    if is_joining && received < 1.0 {
        return none_taken(figures);
    }
    let overflows = sum(figures, "headcount_receive_buffer_overflows");
    if overflows > 0.0 {
        let found =
            format!("the kernel dropped {overflows} of {received} packets: they came faster than they were read");
        return Finding::warn("packets", found, Some("raise net.core.rmem_max, give the agent more processor time"));
    }
    // A packet may hold many messages, each of which is counted if it is not used.
    let (all, total) = (sum(figures, DROPPED), telling(figures).map(|(_, count)| count).sum::<f64>());
    if total >= DROPPED_COUNT && total > received * DROPPED_SHARE {
        let reason = most_frequent(figures).unwrap_or_default();
        let found = format!(
            "{total} packets, or messages in them, were not used since the agent's start ({received} packets were taken), most of them for the reason {reason}"
        );
        return Finding::warn("packets", found, Some(advice_on(&reason)));
    }
    let shut_out = telling(figures).filter(|(reason, _)| SHUT_OUT.contains(&reason.as_str()));
    let most = shut_out.max_by(|one, other| one.1.total_cmp(&other.1));
    if let Some((reason, count)) = most.filter(|(_, count)| *count >= SHUT_OUT_COUNT) {
        let found = format!(
            "{count} packets were refused since the agent's start for the reason {reason}: somebody is, or was, shut out"
        );
        return Finding::warn("packets", found, Some(advice_on(&reason)));
    }
    Finding::ok("packets", format!("{received} received; {all} packets, or messages in them, not used"))
}

/// Returns the reasons for which packets were dropped, beside those of normal life, each with its number.
fn telling(figures: &Figures) -> impl Iterator<Item = (String, f64)> {
    let dropped = figures.get(DROPPED).into_iter().flatten();
    dropped
        .map(|(labels, count)| (labels.split('"').nth(1).unwrap_or("unknown").to_owned(), *count))
        .filter(|(reason, count)| *count > 0.0 && !OF_NORMAL_LIFE.contains(&reason.as_str()))
}

/// Returns the reason for which most packets were dropped, if any were.
fn most_frequent(figures: &Figures) -> Option<String> {
    telling(figures).max_by(|one, other| one.1.total_cmp(&other.1)).map(|(reason, _)| reason)
}

/// Returns the finding that a node that joins has taken no packet, with the reason if packets came.
fn none_taken(figures: &Figures) -> Finding {
    let Some(reason) = most_frequent(figures) else {
        let found = "none was taken from anybody: no seed answered, or none whose packets this node can open";
        return Finding::warn("packets", found, Some("see what is said of `ready`"));
    };
    let total: f64 = telling(figures).map(|(_, count)| count).sum();
    let found =
        format!("none was taken from anybody: {total} came and were dropped, most of them for the reason {reason}");
    Finding::warn("packets", found, Some(advice_on(&reason)))
}

/// Returns the number of packets that were sealed with a key that this node lacks.
pub(super) fn of_unknown_key(figures: &Figures) -> f64 {
    telling(figures).filter(|(reason, _)| reason == UNKNOWN_KEY || reason == NO_KEYS).map(|(_, count)| count).sum()
}

/// Returns what to do about packets that were dropped for this reason.
fn advice_on(reason: &str) -> &'static str {
    match reason {
        "other_cluster" => "two clusters share a seed or an address: check the cluster names",
        "unknown_version" | "sealed_unknown_version" => "upgrade one side",
        NO_KEYS => "somebody seals packets, and this node takes clear ones alone: give all the same seal.mode and keys",
        UNKNOWN_KEY => {
            "somebody has another key: the log names it and the address; compare with `headcount keys list` at a member, copy \
             that member's key file to the node that has another one, and send SIGHUP there"
        }
        "sealed_forged" => "somebody has the key and another cluster name, or forges: the log names the address",
        "unsealed" => {
            "somebody sends clear packets: the log names the address; give it the key, or take it to the mode before this \
             one's (`headcount keys list`), or close this port to it"
        }
        "not_loopback" => {
            "without keys this node hears its own machine alone: give it the cluster's key file, and restart it"
        }
        "rate_limited" => "somebody asks very often: the log names strangers",
        _ => "the operations guide says what each reason of headcount_dropped means",
    }
}

/// Judges the event streams, which dashboards, `top` and `watch` need; of an agent that does not tell its limit nothing.
fn streams(figures: &Figures) -> Option<Finding> {
    let (open, most) = (sum(figures, "headcount_http_streams"), sum(figures, "headcount_http_streams_max"));
    (most > 0.0 && open >= most).then(|| {
        Finding::warn(
            "streams",
            format!("all event streams are taken ({most}): dashboards and `headcount watch` get none"),
            Some("see who holds them, or raise http.max_streams"),
        )
    })
}

/// Judges the event handlers; of an agent that has none, nothing. Failures and missed events are counted since its start: a
/// handler that works again is still named, so that nobody takes a machine whose restart was missed for a handled one.
fn handlers(figures: &Figures) -> Option<Finding> {
    let runs = figures.get("headcount_handler_runs")?;
    let of = |name: &str, labels: &str| {
        let series = figures.get(name).and_then(|all| all.iter().find(|(other, _)| other == labels));
        series.map_or(0.0, |(_, value)| *value)
    };
    let troubles: Vec<String> = runs
        .iter()
        .filter_map(|(labels, runs)| {
            let failures = of("headcount_handler_failures", labels);
            let missed = of("headcount_handler_missed_events", labels);
            let name = plain(labels.split('"').nth(1).unwrap_or("unknown"));
            (failures + missed > 0.0)
                .then(|| format!("runs of {name} that failed: {failures} of {runs}, events that it missed: {missed}"))
        })
        .collect();
    let advice =
        "the agent's log has the reason of each failure; what fails again and again is to be mended at the handler";
    if troubles.is_empty() {
        return Some(Finding::ok("handlers", "no run of an event handler failed, and none missed an event"));
    }
    Some(Finding::warn("handlers", format!("since the agent's start {}", troubles.join("; ")), Some(advice)))
}

fn disk(figures: &Figures) -> Finding {
    if is_aside(figures) {
        return Finding::fail(
            "disk",
            "the voter stands aside: its disk refuses its ballot",
            "free space, check the disk; the log has the error",
        );
    }
    if sum(figures, "headcount_state_unwritten") > 0.0 {
        return Finding::fail(
            "disk",
            "the agent cannot write its state",
            "check the data directory and its disk: space, permissions, mount options, or removed; the log has the error",
        );
    }
    let failures = sum(figures, "headcount_state_write_failures");
    if failures > 0.0 {
        let found = format!(
            "the agent's state is written; writes that failed before the last one, since its start: {failures}"
        );
        return Finding::ok("disk", found);
    }
    Finding::ok("disk", "no write of the agent's state failed")
}
