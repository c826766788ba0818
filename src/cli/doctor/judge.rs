//! Judgements on what was found: values in, findings out.
//!
//! Invariant: a finding of many members is one line, and names those that differ.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::Clock;
use super::report::{Finding, Level, names};
use crate::cli::human::{self, plain};
use crate::client::Health;
use crate::json::{Info, KeyHolder, Member};
use crate::seal::SealMode;

/// Clocks that differ by more make dates of events hard to compare.
const CLOCKS_APART: f64 = 2.0;
/// Clocks that differ by more are wrong.
const CLOCKS_WRONG: f64 = 60.0;

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
        // Nobody was heard.
        Some(_) if info.status == "joining" => {}
        Some(agreement) => {
            let heard: usize = agreement.fingerprints.iter().map(|group| group.count).sum();
            let found = match heard {
                1 => "one view; this node alone was heard".to_owned(),
                _ => format!("one view, held by all {heard} members that were heard"),
            };
            findings.push(Finding::ok("agreement", found));
        }
        None => {}
    }
    findings
}

/// Judges readiness, which is where an agent says that the address it advertises does not lead to it.
pub(super) fn ready(health: &Health, info: &Info, keys: &[KeyHolder]) -> Finding {
    let reason = plain(&health.reason);
    match (health.is_ok, reason.as_str()) {
        (true, _) => Finding::ok("ready", "the node is a member, and reached at the address that it advertises"),
        (false, "unreachable") => Finding::fail(
            "advertised",
            "others say that this node does not answer at the address that it advertises",
            "set --advertise to an address that all others reach, for UDP and TCP",
        ),
        (false, "joining") => {
            let key = keys.iter().find_map(|holder| holder.keys.as_ref()?.first());
            let key = key.map_or_else(|| "no key".to_owned(), |key| format!("key {}", plain(key)));
            let is_of_keys = info.joining.as_deref().is_some_and(|missing| missing.contains("does not open"));
            let advice = if is_of_keys {
                format!("give both the same key file, and send SIGHUP or restart: this is {key}")
            } else {
                format!(
                    "check its seeds and the firewalls for UDP, and compare with a member: this is cluster {} with {key}; \
                     its log says what seeds answered",
                    plain(&info.cluster)
                )
            };
            let missing = info.joining.as_deref().map(|missing| format!(": {}", plain(missing))).unwrap_or_default();
            Finding::fail("ready", format!("the node joins, and is not a member yet{missing}"), &advice)
        }
        (false, "unavailable") => Finding::fail(
            "ready",
            "the node belongs to a minority: too few voters can be reached for anybody to lead",
            "`headcount voters list` shows them",
        ),
        _ => Finding::fail("ready", format!("the node is not ready: {reason}"), "look at its log"),
    }
}

/// Judges the statuses of members; `is_cut`: the agent suspects a network partition.
pub(super) fn members(members: &[Member], is_cut: bool) -> Vec<Finding> {
    let of = |is: &dyn Fn(&Member) -> bool| -> Vec<String> {
        members.iter().filter(|member| is(member)).map(|member| plain(&member.id)).collect()
    };
    let mut findings = Vec::new();
    let (up, suspect) = (of(&|member| member.status == "up").len(), of(&|member| member.status == "suspect"));
    // While a cut is suspected silence may be that; a connection that its own end closed tells of a death.
    let is_behind = |member: &Member| match member.method.as_deref() {
        Some("network_partition") => true,
        Some("heartbeat_timeout") | None => is_cut,
        Some(_) => false,
    };
    let cut = of(&|member| member.status == "down" && is_behind(member));
    let down = of(&|member| member.status == "down" && !is_behind(member));
    if up == 0 {
        let found = format!("none of {} is up", human::count(members.len(), "member"));
        findings.push(Finding::warn("members", found, Some("see what is said of `ready`")));
    } else if down.is_empty() && cut.is_empty() && suspect.is_empty() {
        findings.push(Finding::ok("members", format!("{up} of {} up", human::count(members.len(), "member"))));
    }
    let draining = of(&|member| member.draining && member.status == "up");
    if !draining.is_empty() {
        let verb = if draining.len() == 1 { "drains" } else { "drain" };
        findings.push(Finding::ok("members", format!("{verb}, and get no new work: {}", names(&draining))));
    }
    if !cut.is_empty() {
        findings.push(Finding::fail(
            "members",
            format!("{} of {} down, as by a network partition: {}", cut.len(), members.len(), names(&cut)),
            "do not remove them: they may be alive on the other side, and would be ended by that; mend the network, and they \
             are back by themselves",
        ));
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

/// Judges members that are down while packets come that are sealed with a key which the agent's node lacks: they may be
/// alive. `unopened`: the number of such packets since the agent's start.
pub(super) fn unheard(members: &[Member], unopened: f64) -> Option<Finding> {
    let down: Vec<String> =
        members.iter().filter(|member| member.status == "down").map(|member| plain(&member.id)).collect();
    if down.is_empty() || unopened < 1.0 {
        return None;
    }
    Some(Finding::warn(
        "keys",
        format!(
            "packets sealed with a key which this node lacks came, since the agent's start: {unopened}; one of those \
             that are down may live, and have other keys ({})",
            names(&down)
        ),
        Some(
            "the agent's log names the key and the address; where a member runs there, copy the key file of one that is up to \
             it, and send SIGHUP there",
        ),
    ))
}

/// Judges clear packets that are taken at an address which others reach. `mode`: that of the agent's own node.
pub(super) fn clear(mode: Option<&str>, reached_at: Option<SocketAddr>) -> Option<Finding> {
    let mode = mode.filter(|mode| *mode != SealMode::Require.name())?;
    let address = reached_at?;
    let advice = if mode == SealMode::Off.name() {
        "right in a network that nobody else can send to; else make a key (`headcount keys generate`) and give it to all nodes \
         (--key-file)"
    } else {
        "finish the change: set seal.mode to the next step, require at last, at all members"
    };
    Some(Finding::warn(
        "sealing",
        format!(
            "clear packets are taken at {address}, which others can reach (seal.mode = {}): whoever can send to it can change \
             the membership",
            plain(mode)
        ),
        Some(advice),
    ))
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
    let silent: Vec<String> =
        holders.iter().filter(|holder| holder.mode.is_none()).map(|holder| plain(&holder.node)).collect();
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
pub(super) fn modes(modes: &[(String, String)]) -> Option<Finding> {
    let advice = "set the same leadership.mode at all nodes (`quorum` with the same voters): one of another mode neither votes \
                  nor knows who leads";
    (modes.len() > 1).then(|| same("leadership", modes, advice))
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
