//! Judgements on the answers of addresses: who is reached from here, and what those say of themselves.
//!
//! Invariants:
//! - Targets with the same trouble share one finding, so that the report of a large cluster can be read.
//! - A way that was not tried is never said to work.

use super::judge::same;
use super::probe::Udp;
use super::report::{Finding, Level, names};
use super::{MAX_PROBED, Manner, Probed};
use crate::cli::human::{self, plain};
use crate::core::ProtocolRange;

/// Drops addresses of a name that need not answer, since another one does: an agent that listens on one family of
/// addresses is reached by it, whatever else the name of this machine stands for.
pub(super) fn forgive(probed: &mut Vec<Probed>) {
    let well: Vec<String> = probed.iter().filter(|one| is_well(one)).map(|one| one.target.name.clone()).collect();
    probed.retain(|one| is_well(one) || !(one.target.address.ip().is_loopback() && well.contains(&one.target.name)));
}

/// Returns true if a target answers as it should, by every way that was tried. A system takes TCP connections for a
/// process that stands still: of one that is Down that alone is no answer.
fn is_well(Probed { target, probe }: &Probed) -> bool {
    let answers = match probe.udp {
        Udp::Member(_) | Udp::Somebody => true,
        Udp::Untried => !target.is_down,
        _ => false,
    };
    probe.tcp.is_ok() && answers
}

/// Returns true if a target is down for the agent, and answers in no way from here either.
fn is_gone(Probed { target, probe }: &Probed) -> bool {
    target.is_down && probe.tcp.is_err() && matches!(probe.udp, Udp::Silent | Udp::Untried | Udp::Failed(_))
}

/// A trouble of one target: how bad it is, the sentence about the target without its name, and a thing to try.
type Trouble = (Level, String, &'static str);

/// Returns the trouble of a target that is not well.
fn trouble(Probed { target, probe }: &Probed, cluster: &str) -> Trouble {
    match (&probe.udp, &probe.tcp) {
        (Udp::Untried, Ok(())) => (
            Level::Warn,
            "is down, as the agent says, and takes TCP connections; UDP was not tried: no key is at hand here"
                .to_owned(),
            "its process may hang, since a system takes connections for one that stands still: restart it; do not remove it \
             before, it may be alive behind a cut (--key-file or --config names a key to ask it with)",
        ),
        (Udp::Untried, tcp) => {
            let error = tcp.as_ref().err().map(String::as_str).unwrap_or_default();
            (
                Level::Fail,
                format!("does not answer from here by TCP ({error})"),
                "is an agent running there? check the address, its bind, and firewalls; by UDP it answers nobody without its key",
            )
        }
        (Udp::Member(_) | Udp::Somebody, tcp) => {
            let error = tcp.as_ref().err().map(String::as_str).unwrap_or_default();
            (
                Level::Warn,
                format!("answers by UDP, and not by TCP ({error})"),
                "open the port for TCP: without it a crash is noticed by silence alone, and large messages are not carried",
            )
        }
        (Udp::OtherCluster, _) => (
            Level::Fail,
            "belongs to another cluster".to_owned(),
            "check the cluster's name on both sides (--cluster), and the address",
        ),
        (Udp::OtherVersion(speaks), _) => {
            let ours = ProtocolRange::OURS.max;
            let found = format!("speaks versions {} to {} of the protocol, and this is {ours}", speaks.min, speaks.max);
            (Level::Fail, found, "upgrade one side")
        }
        (Udp::Sealed, _) => (
            Level::Warn,
            "seals its packets, and cannot be asked without its key".to_owned(),
            "its agent's own figures tell more: ask it by --http",
        ),
        (Udp::Silent | Udp::Failed(_), Ok(())) => match target.manner {
            Manner::Sealed(key) => (
                Level::Fail,
                format!(
                    "takes TCP connections, and does not answer a question by UDP that is sealed with key {key} for cluster {}",
                    plain(cluster)
                ),
                "compare the key and the cluster's name with those of a member (`headcount keys list`, `headcount info` \
                 there): who has others is not answered; or open the port for UDP, both ways; if others get no answer from \
                 it either, its process hangs: restart it",
            ),
            _ if target.is_down => (
                Level::Fail,
                "takes TCP connections, and does not answer by UDP".to_owned(),
                "its process may hang, since a system takes connections for one that stands still: restart it; if it does its \
                 work, open the port for UDP, both ways",
            ),
            _ => (
                Level::Fail,
                "takes TCP connections, and does not answer by UDP".to_owned(),
                "if members have a key, this node needs it, too (seal.key_file): who has none gets no answer; or open the port for \
                 UDP, both ways; if others get no answer from it either, its process hangs: restart it",
            ),
        },
        (udp, Err(error)) => {
            let why = if let Udp::Failed(why) = udp { why } else { error };
            (
                Level::Fail,
                format!("does not answer from here, neither by UDP nor by TCP ({why})"),
                "is an agent running there? check the address, its bind, and firewalls",
            )
        }
    }
}

/// Judges how targets answer this machine; `all`: the number of those that there are.
pub(super) fn reach(check: &'static str, cluster: &str, probed: &[Probed], all: usize) -> Vec<Finding> {
    let asked = probed.len();
    // Of a member that is down no answer is expected: the agent's verdict says what to do about it.
    let (gone, probed): (Vec<&Probed>, Vec<&Probed>) = probed.iter().partition(|one| is_gone(one));
    let well: Vec<&Probed> = probed.iter().copied().filter(|one| is_well(one)).collect();
    let mut groups: Vec<(Trouble, Vec<String>)> = Vec::new();
    for one in probed.iter().filter(|one| !is_well(one)) {
        let mut trouble = trouble(one, cluster);
        if one.target.is_down {
            // How bad that is the agent's verdict says.
            trouble.0 = Level::Warn;
        }
        if trouble.0 == Level::Fail && well.iter().any(|other| other.target.name == one.target.name) {
            trouble.0 = Level::Warn;
            trouble.1 += "; another address of this name does";
        }
        let who = format!("{} at {}", one.target.name, one.target.address);
        match groups.iter_mut().find(|(other, _)| *other == trouble) {
            Some((_, others)) => others.push(who),
            None => groups.push((trouble, vec![who])),
        }
    }
    let told = |((level, what, advice), who): (Trouble, Vec<String>)| {
        let found = match who.as_slice() {
            [one] => format!("{one} {what}"),
            several => format!("each of {} {what}: {}", several.len(), names(several)),
        };
        Finding { check: check.into(), level, found, advice: Some(advice.to_owned()) }
    };
    let mut findings: Vec<Finding> = groups.into_iter().map(told).collect();
    findings.extend(alive(check, &well));
    if !gone.is_empty() {
        let gone: Vec<String> = gone.iter().map(|one| one.target.name.clone()).collect();
        findings
            .push(Finding::ok(check, format!("down, as the agent says, and silent from here, too: {}", names(&gone))));
    }
    if well.len() == probed.len() && !well.is_empty() {
        findings.push(Finding::ok(check, ways(&well)));
    }
    if all > asked && asked >= MAX_PROBED {
        // In such a cluster that is always so, and no trouble.
        let found =
            format!("{MAX_PROBED} of {all} were asked from here; `headcount doctor` at other agents asks others");
        findings.push(Finding::ok(check, found));
    }
    findings
}

/// Returns the finding that members are alive which the agent holds as dead.
fn alive(check: &'static str, well: &[&Probed]) -> Option<Finding> {
    let alive: Vec<String> = well.iter().filter(|one| one.target.is_down).map(|one| one.target.name.clone()).collect();
    (!alive.is_empty()).then(|| {
        Finding::warn(
            check,
            format!("down, as the agent says, and yet reached from here: {}", names(&alive)),
            Some("do not remove them: they are alive, or about to be back; look at the network between them and the agent's node"),
        )
    })
}

/// Says by which ways targets answered that are well.
fn ways(well: &[&Probed]) -> String {
    let (all, untried) = (well.len(), well.iter().filter(|one| matches!(one.probe.udp, Udp::Untried)).count());
    let sealed = "sealed packets alone, and no key is at hand here (--key-file or --config names one), so that neither their timing \
                  nor their versions are compared";
    match (well, untried) {
        ([one], 0) => format!("{} answers from here, by UDP and TCP", one.target.name),
        ([one], _) => {
            format!("{} takes TCP connections from here; UDP was not tried: it takes {sealed}", one.target.name)
        }
        (_, 0) => format!("all {all} answer from here, by UDP and TCP"),
        (_, untried) if untried == all => {
            format!("all {all} take TCP connections from here; UDP was not tried: they take {sealed}")
        }
        (_, untried) => format!(
            "{} of {all} answer from here, by UDP and TCP; {untried} take TCP connections, and UDP was not tried: they take \
             {sealed}",
            all - untried
        ),
    }
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
        Finding::ok(
            "protocol",
            match known.as_slice() {
                [_] => format!("version {oldest}"),
                _ => format!("all {} speak version {oldest}", known.len()),
            },
        )
    } else {
        Finding::fail("protocol", "not all members have a version of the protocol in common", "upgrade the oldest")
    });
    findings
}
