//! Judgements on what was found: values in, findings out.
//!
//! Invariant: a finding of many members is one line, and names those that differ.

use std::collections::BTreeMap;
use std::time::Duration;

use super::probe::Udp;
use super::report::{Finding, Level};
use super::{Clock, MAX_PROBED, Probed};
use crate::cli::human::{self, plain};
use crate::client::Health;
use crate::core::ProtocolRange;
use crate::json::{Info, KeyHolder, Leader, Member};

/// The longest list of names in one line.
const MAX_NAMES: usize = 6;
/// Clocks that differ by more make dates of events hard to compare.
const CLOCKS_APART: f64 = 2.0;
/// Clocks that differ by more are wrong.
const CLOCKS_WRONG: f64 = 60.0;

fn names(names: &[String]) -> String {
    let shown = names.iter().take(MAX_NAMES).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Judges what the agent says of itself.
pub(super) fn agent(info: &Info) -> Vec<Finding> {
    let uptime = human::duration(Duration::from_millis(info.uptime_ms));
    let mut findings = vec![if info.tasks == "ok" {
        let (node, cluster, version) = (plain(&info.node), plain(&info.cluster), plain(&info.version));
        Finding::ok("agent", format!("{node} of cluster {cluster}, version {version}, up {uptime}"))
    } else {
        Finding::fail(
            "agent",
            format!("a part of it has died: {}", plain(&info.tasks)),
            "restart it, and report the log",
        )
    }];
    match &info.agreement {
        Some(agreement) if agreement.fingerprints.len() > 1 => {
            let others: Vec<String> = agreement
                .fingerprints
                .iter()
                .skip(1)
                .flat_map(|group| group.members.iter().map(|name| plain(name)))
                .collect();
            let found = format!(
                "{} views are held; {} differ from {}",
                agreement.fingerprints.len(),
                names(&others),
                plain(&info.node)
            );
            findings.push(Finding::warn(
                "agreement",
                found,
                Some("normal for seconds after a change; if it stays, look at the links between them"),
            ));
        }
        Some(agreement) => {
            let heard: usize = agreement.fingerprints.iter().map(|group| group.count).sum();
            findings.push(Finding::ok("agreement", format!("one view, held by all {heard} members that were heard")));
        }
        None => {}
    }
    findings
}

/// Judges readiness, which is where an agent says that the address it advertises does not lead to it.
pub(super) fn ready(health: &Health) -> Finding {
    let reason = plain(&health.reason);
    match (health.is_ok, reason.as_str()) {
        (true, _) => Finding::ok("ready", "the node is a member, and reached at the address that it advertises"),
        (false, "unreachable") => Finding::fail(
            "advertised",
            "others say that nothing answers at the address that this node advertises",
            "set --advertise to an address that all others reach, for UDP and TCP",
        ),
        (false, "joining") => Finding::fail(
            "ready",
            "the node joins, and is not a member yet",
            "check its seeds; its log says what they answered",
        ),
        (false, "unavailable") => Finding::fail(
            "ready",
            "the node belongs to a minority: too few voters can be reached for anybody to lead",
            "`headcount voters list` shows them",
        ),
        _ => Finding::fail("ready", format!("the node is not ready: {reason}"), "look at its log"),
    }
}

/// Judges whether somebody leads, where somebody should.
pub(super) fn leader(leader: &Leader) -> Finding {
    match (leader.state.as_str(), &leader.leader) {
        ("disabled", _) => Finding::ok("leader", "nobody is elected here (leadership.mode = \"none\")"),
        (_, Some(name)) => Finding::ok("leader", format!("{} leads in term {}", plain(name), leader.term)),
        ("unavailable", None) => Finding::fail(
            "leader",
            "nobody can lead",
            "`headcount voters list`, or `headcount leader --nodes`, shows who is missing",
        ),
        (state, None) => Finding::warn(
            "leader",
            format!("nobody leads ({})", plain(state)),
            Some("normal for a lease after a leader is gone"),
        ),
    }
}

/// Judges the statuses of members, and their software.
pub(super) fn members(members: &[Member]) -> Vec<Finding> {
    let of = |status: &str| -> Vec<String> {
        members.iter().filter(|member| member.status == status).map(|member| plain(&member.id)).collect()
    };
    let mut findings = Vec::new();
    let (up, down, suspect) = (of("up").len(), of("down"), of("suspect"));
    if down.is_empty() && suspect.is_empty() {
        findings.push(Finding::ok("members", format!("{up} of {} up", members.len())));
    }
    if !down.is_empty() {
        let advice = "restart them, or `headcount remove NAME` if they are gone for good";
        findings.push(Finding::warn(
            "members",
            format!("{} of {} down: {}", down.len(), members.len(), names(&down)),
            Some(advice),
        ));
    }
    if !suspect.is_empty() {
        let advice = "they are silent: see if their machines stand still, or their network";
        findings.push(Finding::warn(
            "members",
            format!("{} suspect: {}", suspect.len(), names(&suspect)),
            Some(advice),
        ));
    }
    findings
}

/// Judges the modes of sealing, and the keys that members seal with.
pub(super) fn keys(holders: &[KeyHolder]) -> Vec<Finding> {
    let known = |value: &dyn Fn(&KeyHolder) -> Option<String>| -> Vec<(String, String)> {
        holders.iter().filter_map(|holder| Some((plain(&holder.node), value(holder)?))).collect()
    };
    let modes = known(&|holder| holder.mode.as_deref().map(plain));
    if modes.iter().all(|(_, mode)| mode == "off") {
        // Nothing is sealed, nor is to be.
        return Vec::new();
    }
    let advice = "finish the change: `headcount keys list` shows who is left; seal.mode is read at a reload";
    let mut findings = vec![same("sealing", &modes, advice)];
    let sealing = |holder: &KeyHolder| holder.keys.as_ref().and_then(|keys| keys.first()).map(|id| plain(id));
    findings.push(same(
        "keys",
        &known(&sealing),
        "finish the rotation: `headcount keys list`, `headcount keys use ID`",
    ));
    let silent: Vec<String> =
        holders.iter().filter(|holder| holder.mode.is_none()).map(|holder| plain(&holder.node)).collect();
    if !silent.is_empty() {
        let found = format!("{} did not say which keys they hold", names(&silent));
        findings.push(Finding::warn("keys", found, Some("`headcount keys list` says why")));
    }
    findings
}

/// Drops addresses of a name that need not answer, since another one does: an agent that listens on one family of
/// addresses is reached by it, whatever else the name of this machine stands for.
pub(super) fn forgive(probed: &mut Vec<Probed>) {
    let well: Vec<String> = probed.iter().filter(|one| is_well(one)).map(|one| one.target.name.clone()).collect();
    probed.retain(|one| is_well(one) || !(one.target.address.ip().is_loopback() && well.contains(&one.target.name)));
}

/// Returns true if a target answers as it should.
fn is_well(Probed { target, probe }: &Probed) -> bool {
    let answers = matches!(probe.udp, Udp::Member(_) | Udp::Somebody);
    // Without a key nobody is answered there; that datagrams come through is seen by its agent.
    let need_not = target.is_sealed && matches!(probe.udp, Udp::Silent | Udp::Sealed);
    probe.tcp.is_ok() && (answers || need_not)
}

/// Judges how targets answer this machine; `all`: the number of those that there are.
pub(super) fn reach(check: &'static str, probed: &[Probed], all: usize) -> Vec<Finding> {
    let mut findings = Vec::new();
    let well: Vec<&Probed> = probed.iter().filter(|one| is_well(one)).collect();
    for Probed { target, probe } in probed.iter().filter(|one| !is_well(one)) {
        let (name, at) = (&target.name, target.address);
        let whole = format!("{name} at {at}");
        let mut finding = match (&probe.udp, &probe.tcp) {
            (Udp::Member(_) | Udp::Somebody, Ok(())) => continue,
            (Udp::Silent, Err(error)) if target.is_sealed => Finding::fail(
                check,
                format!("{whole} does not answer from here by TCP ({error})"),
                "is an agent running there? check the address, its bind, and firewalls; by UDP it answers nobody without its key",
            ),
            (Udp::Member(_) | Udp::Somebody, Err(error)) => Finding::warn(
                check,
                format!("{whole} answers by UDP, and not by TCP ({error})"),
                Some(
                    "open the port for TCP: without it a crash is noticed by silence alone, and large messages are not carried",
                ),
            ),
            (Udp::OtherCluster, _) => Finding::fail(
                check,
                format!("{whole} belongs to another cluster"),
                "check the cluster's name on both sides (--cluster), and the address",
            ),
            (Udp::OtherVersion(speaks), _) => Finding::fail(
                check,
                format!(
                    "{whole} speaks versions {} to {} of the protocol, and this is {}",
                    speaks.min,
                    speaks.max,
                    ProtocolRange::OURS.max
                ),
                "upgrade one side",
            ),
            (Udp::Sealed, _) => Finding::warn(
                check,
                format!("{whole} seals its packets, and cannot be asked without its key"),
                Some("its agent's own figures tell more: ask it by --http"),
            ),
            (Udp::Silent | Udp::Failed(_), Ok(())) => Finding::fail(
                check,
                format!("{whole} takes TCP connections, and does not answer by UDP"),
                "open the port for UDP, both ways; where packets are sealed with a key, strangers get no answer",
            ),
            (udp, Err(error)) => {
                let why = if let Udp::Failed(why) = udp { why } else { error };
                Finding::fail(
                    check,
                    format!("{whole} does not answer from here, neither by UDP nor by TCP ({why})"),
                    "is an agent running there? check the address, its bind, and firewalls",
                )
            }
        };
        if finding.level == Level::Fail && well.iter().any(|other| other.target.name == *name) {
            finding.level = Level::Warn;
            finding.found += "; another address of this name does";
        }
        findings.push(finding);
    }
    if well.len() == probed.len() && !well.is_empty() {
        let sealed = well.iter().filter(|one| one.target.is_sealed).count();
        let sealed = if sealed == 0 {
            String::new()
        } else {
            format!("; {sealed} take sealed packets alone, so that UDP was not tried there")
        };
        findings.push(Finding::ok(check, format!("all {} answer from here, by UDP and TCP{sealed}", well.len())));
    }
    if all > probed.len() && probed.len() >= MAX_PROBED {
        let found = format!("{MAX_PROBED} of {all} were asked from here, the first ones by name");
        findings.push(Finding::warn(check, found, Some("`headcount doctor` on another machine asks from there")));
    }
    findings
}

/// Judges the records of those that introduced themselves: addresses, timing, versions.
pub(super) fn records(probed: &[Probed]) -> Vec<Finding> {
    let record = |probed: &Probed| match &probed.probe.udp {
        Udp::Member(record) => Some((probed.target.clone(), record.clone())),
        _ => None,
    };
    let known: Vec<_> = probed.iter().filter_map(record).collect();
    if known.is_empty() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (target, record) in &known {
        let is_other_host = record.address.ip().to_canonical() != target.address.ip().to_canonical();
        if is_other_host && record.address.ip().is_loopback() {
            findings.push(Finding::fail(
                "advertised",
                format!(
                    "{} is at {}, and tells others {}, which is each machine's own",
                    record.id, target.address, record.address
                ),
                "set advertise there",
            ));
        } else if is_other_host {
            findings.push(Finding::warn(
                "advertised",
                format!("{} answers at {}, and advertises {}", record.id, target.address, record.address),
                Some(
                    "right behind an address translation if all others reach the second one; else set advertise there",
                ),
            ));
        }
    }
    let by = |value: &dyn Fn(&crate::core::Record) -> String| -> Vec<(String, String)> {
        known.iter().map(|(_, record)| (record.id.to_string(), value(record))).collect()
    };
    let timing = by(&|record| {
        let timing = &record.timing;
        let (beat, suspect, down) = (timing.heartbeat_interval(), timing.suspect_timeout(), timing.down_timeout());
        format!(
            "heartbeat {}, suspect {}, down {}",
            human::duration(beat),
            human::duration(suspect),
            human::duration(down)
        )
    });
    findings.push(same("timing", &timing, "give all nodes the same profile: each is judged by its own timing"));
    let versions = by(&|record| plain(&record.version));
    findings.push(same("versions", &versions, "normal during an upgrade; finish it"));
    let ours: Vec<ProtocolRange> = known.iter().map(|(_, record)| record.protocol).collect();
    let newest = ours.iter().map(|range| range.min).max().unwrap_or(0);
    let oldest = ours.iter().map(|range| range.max).min().unwrap_or(0);
    findings.push(if newest <= oldest {
        Finding::ok("protocol", format!("all {} speak version {oldest}", known.len()))
    } else {
        Finding::fail("protocol", "not all members have a version of the protocol in common", "upgrade the oldest")
    });
    findings
}

/// Judges a value that should be the same everywhere.
fn same(check: &'static str, values: &[(String, String)], advice: &str) -> Finding {
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, value) in values {
        groups.entry(value).or_default().push(name.clone());
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
    match groups.as_slice() {
        [] => Finding::ok(check, "there is nothing to compare"),
        [(value, all)] => Finding::ok(check, format!("{value}: the same at all {}", all.len())),
        [(value, most), rest @ ..] => {
            let rest: Vec<String> = rest.iter().map(|(value, some)| format!("{value} at {}", names(some))).collect();
            Finding::warn(
                check,
                format!("{value} at {} of {}; {}", most.len(), values.len(), rest.join("; ")),
                Some(advice),
            )
        }
    }
}

/// Judges the clocks of agents against that of this machine.
pub(super) fn clocks(clocks: &[Clock]) -> Finding {
    let off = |limit: f64| clocks.iter().filter(move |clock| clock.ahead.abs() - clock.error > limit);
    let told = |clock: &Clock| {
        let way = if clock.ahead < 0.0 { "behind" } else { "ahead" };
        format!("{} is {} s {way}", clock.name, clock.ahead.abs().round())
    };
    let wrong: Vec<String> = off(CLOCKS_WRONG).map(told).collect();
    let apart: Vec<String> = off(CLOCKS_APART).map(told).collect();
    let advice = "let a time service (chrony, ntpd) run on all machines";
    if clocks.is_empty() {
        return Finding::warn("clocks", "no agent told its time", None);
    }
    if !wrong.is_empty() {
        return Finding::fail("clocks", format!("against this machine, {}", names(&wrong)), advice);
    }
    if !apart.is_empty() {
        return Finding::warn("clocks", format!("against this machine, {}", names(&apart)), Some(advice));
    }
    let others = if clocks.len() == 1 { "; --also ADDR compares more agents" } else { "" };
    Finding::ok(
        "clocks",
        format!("{} within {CLOCKS_APART} s of this machine{others}", human::count(clocks.len(), "agent")),
    )
}

/// Judges what several agents say of their cluster.
pub(super) fn infos(infos: &[Info]) -> Vec<Finding> {
    if infos.len() < 2 {
        return Vec::new();
    }
    let by = |value: &dyn Fn(&Info) -> String| -> Vec<(String, String)> {
        infos.iter().map(|info| (plain(&info.node), value(info))).collect()
    };
    let mut cluster =
        same("clusters", &by(&|info| plain(&info.cluster)), "these are different clusters: name agents of one");
    if cluster.level == Level::Warn {
        cluster.level = Level::Fail;
    }
    vec![
        cluster,
        same("profiles", &by(&|info| plain(&info.profile)), "give all nodes the same profile"),
        same(
            "views",
            &by(&|info| info.fingerprint.clone()),
            "normal for seconds after a change; if it stays, they are islands: `headcount join`",
        ),
    ]
}
