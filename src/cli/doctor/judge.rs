//! Judgements on what was found: values in, findings out.
//!
//! Invariant: a finding of many members is one line, and names those that differ.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::Clock;
use super::report::{Finding, Level, names};
use crate::cli::human::{self, plain};
use crate::json::{Info, KeyHolder, Member, Pace, Reason, Verdict};
use crate::seal::SealMode;

/// Clocks that differ by more make dates of events hard to compare.
const CLOCKS_APART: f64 = 2.0;
/// Clocks that differ by more are wrong.
const CLOCKS_WRONG: f64 = 60.0;

/// Says who the agent is.
pub(super) fn agent(info: &Info) -> Finding {
    let uptime = human::duration(Duration::from_millis(info.uptime_ms));
    let (node, cluster, version) = (plain(&info.node), plain(&info.cluster), plain(&info.version));
    Finding::ok("agent", format!("{node} of cluster {cluster}, version {version}, up {uptime}"))
}

/// Says what the agent finds itself, of all that it knows: one finding for each reason.
pub(super) fn verdict(verdict: &Verdict) -> Vec<Finding> {
    let finding = |reason: &Reason| Finding {
        check: plain(&reason.code).into(),
        level: match reason.state.as_str() {
            "well" => Level::Ok,
            "broken" => Level::Fail,
            _ => Level::Warn,
        },
        found: plain(&reason.text),
        advice: reason.hint.as_deref().map(plain),
    };
    let mut findings: Vec<Finding> = verdict.reasons.iter().map(finding).collect();
    if verdict.state == "well" {
        findings.insert(0, Finding::ok("verdict", "the agent finds its node and its cluster well"));
    }
    findings
}

/// Judges clear packets alone that are taken at an address which others reach: that may be meant. `mode`: that of the agent's
/// own node.
pub(super) fn clear(mode: Option<&str>, reached_at: Option<SocketAddr>) -> Option<Finding> {
    mode.filter(|mode| *mode == SealMode::Off.name())?;
    let found = format!(
        "clear packets are taken at {}, which others can reach (seal.mode = off): whoever can send to it can change the membership",
        reached_at?
    );
    let advice = "right in a network that nobody else can send to; else make a key (`headcount keys generate`) and give it to all \
                  nodes (--key-file)";
    Some(Finding::warn("sealing", found, Some(advice)))
}

/// Says that connections to a member's host are accepted at a port on which nobody listens.
pub(super) fn proxy(member: &str, timing: &Pace) -> Finding {
    let (host, all) =
        (Duration::from_millis(timing.host_down_timeout_ms), Duration::from_millis(timing.down_timeout_ms));
    let found = format!(
        "something answers for the host of {} at a port on which nobody listens (a proxy): a host that is gone is found after \
         down_timeout ({}), not after host_down_timeout ({})",
        plain(member),
        human::duration(all),
        human::duration(host)
    );
    Finding::warn(
        "proxy",
        found,
        Some("let connections to the port of gossip go past it; nothing else depends on that"),
    )
}

/// Judges a loopback address that others are told; `listens_at`: another address of this machine at which the node's port
/// is taken, too.
pub(super) fn own_address(info: &Info, members: &[Member], listens_at: Option<SocketAddr>) -> Option<Finding> {
    let is_loopback = |address: &str| address.parse().ok().map(|address: SocketAddr| address.ip().is_loopback());
    if is_loopback(&info.address) != Some(true) {
        return None;
    }
    let elsewhere = members.iter().find(|member| is_loopback(&member.address) == Some(false));
    let why = match (elsewhere, listens_at) {
        (Some(member), _) => format!("{} is at {}", plain(&member.id), plain(&member.address)),
        (None, Some(address)) => format!("it listens at {address}, too"),
        (None, None) => return None,
    };
    Some(Finding::warn(
        "advertised",
        format!("others are told {}, which is each machine's own, while {why}", plain(&info.address)),
        Some(
            "set advertise to an address that all others reach; if all nodes are to stay on this machine, bind a loopback address",
        ),
    ))
}

/// Judges the modes of sealing, and the keys that members seal with.
pub(super) fn keys(holders: &[KeyHolder], is_joining: bool) -> Vec<Finding> {
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
    findings.push(match known(&sealing).as_slice() {
        [(_, key)] if is_joining => Finding::warn(
            "keys",
            format!("{key} here, compared with nobody: no member has answered"),
            Some("`headcount keys list` at a member shows which key it is to be"),
        ),
        all => same("keys", all, "finish the rotation: `headcount keys list`, `headcount keys use ID`"),
    });
    // Members that are down or joining are not asked.
    let is_asked = |holder: &&KeyHolder| ["up", "suspect"].contains(&holder.status.as_str());
    let silent = holders.iter().filter(is_asked).filter(|holder| holder.mode.is_none());
    let silent: Vec<String> = silent.map(|holder| plain(&holder.node)).collect();
    if !silent.is_empty() {
        let they = if silent.len() == 1 { "it holds" } else { "they hold" };
        let found = format!("{} did not say which keys {they}", names(&silent));
        findings.push(Finding::warn("keys", found, Some("`headcount keys list` says why")));
    }
    findings
}

/// Judges a value that should be the same everywhere.
pub(super) fn same(check: &'static str, values: &[(String, String)], advice: &str) -> Finding {
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, value) in values {
        groups.entry(value).or_default().push(name.clone());
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
    match groups.as_slice() {
        [] => Finding::ok(check, "there is nothing to compare"),
        [(value, all)] if all.len() == 1 => {
            Finding::ok(check, format!("{value} at {}; no other member to compare it with", names(all)))
        }
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

/// Judges a value that must be the same everywhere.
fn fails(check: &'static str, values: &[(String, String)], advice: &str) -> Finding {
    let finding = same(check, values, advice);
    if finding.level == Level::Warn { Finding { level: Level::Fail, ..finding } } else { finding }
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

/// Judges the modes of leadership of several agents, each with the node's name.
pub(super) fn modes(modes: &[(String, String)]) -> Finding {
    let advice = "set the same leadership.mode at all nodes (`quorum` with the same voters): one of another mode neither votes \
                  nor knows who leads";
    same("leadership", modes, advice)
}

/// Judges the lineages of electorates that several agents follow, each with the node's name.
pub(super) fn lineages(lineages: &[(String, String)]) -> Option<Finding> {
    let advice = "one of the two electorates ends by itself, within seconds: if both still lead in a minute, mend the network \
                  between the two sides";
    (lineages.len() > 1).then(|| fails("electorates", lineages, advice))
}

/// Judges what several agents say of their cluster.
pub(super) fn infos(infos: &[Info]) -> Vec<Finding> {
    if infos.len() < 2 {
        return Vec::new();
    }
    let by = |value: &dyn Fn(&Info) -> String| -> Vec<(String, String)> {
        infos.iter().map(|info| (plain(&info.node), value(info))).collect()
    };
    vec![
        fails("clusters", &by(&|info| plain(&info.cluster)), "these are different clusters: name agents of one"),
        same("profiles", &by(&|info| plain(&info.profile)), "give all nodes the same profile"),
        same(
            "views",
            &by(&|info| info.fingerprint.clone()),
            "normal for seconds after a change; if it stays, they are islands: `headcount join`",
        ),
    ]
}
