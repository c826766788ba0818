//! Judges what became of the packets of the last minute.

use super::facts::{Facts, Seen};
use super::recent::Tally;
use super::{Reason, State, verb};
use crate::core::{DropReason, Status};
use crate::seal::SealError;

/// Of so many received packets one may be dropped before it is worth a word.
const DROPPED_SHARE: u64 = 100;
/// The least number of dropped packets that is worth a word.
const DROPPED_COUNT: u64 = 100;
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
/// The reason of packets that are sealed with a key that the node lacks.
const UNKNOWN_KEY: &str = "sealed_unknown_key";
/// The reason of sealed packets at a node that takes clear ones alone.
const NO_KEYS: &str = "unknown_key";
/// Reasons for which packets are refused because of their seals: one node that is shut out is worth a word, however many
/// packets the others have.
const SHUT_OUT: [&str; 6] =
    [UNKNOWN_KEY, NO_KEYS, "unsealed", "not_loopback", "sealed_forged", "sealed_unknown_version"];
/// The number of such packets that is worth a word where nobody is missing: a node that joins sends as many in seconds, a
/// change of modes leaves fewer.
const SHUT_OUT_COUNT: u64 = 10;

/// The packets of the last minute that were not used, or lost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Lately {
    pub(super) received: u64,
    /// Those that the kernel dropped.
    pub(super) overflows: u64,
    /// Those that were not used, beside those of normal life, by reason: none without any.
    pub(super) dropped: Vec<(&'static str, u64)>,
}

impl Lately {
    /// Returns what was counted between two tallies.
    pub(super) fn since(now: &Tally, before: &Tally) -> Self {
        let reasons = DropReason::ALL.into_iter().map(DropReason::name).chain(SealError::NAMES);
        let counts = now.dropped.iter().zip(&before.dropped).map(|(now, before)| now.saturating_sub(*before));
        let is_telling = |(reason, count): &(&str, u64)| *count > 0 && !OF_NORMAL_LIFE.contains(reason);
        Self {
            received: now.received.saturating_sub(before.received),
            overflows: now.overflows.saturating_sub(before.overflows),
            dropped: reasons.zip(counts).filter(is_telling).collect(),
        }
    }
}

pub(super) fn judge(facts: &Facts, reasons: &mut Vec<Reason>) {
    let Lately { received, overflows, dropped } = &facts.lately;
    if *overflows > 0 {
        let text =
            format!("the kernel dropped {overflows} packets in the last minute: they came faster than they were read");
        let hint = "raise net.core.rmem_max, give the agent more processor time";
        reasons.push(Reason::new("packets_lost", State::Degraded, text).hint(hint));
    }
    if facts.pages_shrunk > 0 {
        let text = "the members' list did not come in large datagrams when this node joined";
        let hint =
            "the agent's log names the address; the path to it may lose large packets: check its MTU (tunnels, VPNs)";
        reasons.push(Reason::new("small_pages", State::Well, text).hint(hint));
    }
    let most = |of: &dyn Fn(&str) -> bool| {
        let those = dropped.iter().filter(|(reason, _)| of(reason));
        those.max_by_key(|(_, count)| *count).copied()
    };
    let is_missed = facts.status == Status::Joining || facts.members.iter().any(|member| member.status == Status::Down);
    let least = if is_missed { 1 } else { SHUT_OUT_COUNT };
    if let Some((reason, count)) = most(&|reason| SHUT_OUT.contains(&reason)).filter(|(_, count)| *count >= least) {
        let from = facts.refused_from.iter().find(|(of, _)| *of == reason).map(|(_, from)| *from);
        // A member may send from another port after a restart, and from another address hardly.
        let is_sender = |member: &Seen| from.is_some_and(|from| member.address.ip() == from.ip());
        let shut_out = facts.named(|member| member.status == Status::Down && is_sender(member));
        let who = if shut_out.is_empty() {
            "somebody is shut out".to_owned()
        } else {
            format!("{} there, and may live", verb(&shut_out, "is down", "are down"))
        };
        let from = from.map(|from| format!(", the last one from {from}")).unwrap_or_default();
        let key = facts.lacked_key.as_ref().filter(|_| [UNKNOWN_KEY, NO_KEYS].contains(&reason));
        let key = key.map(|key| format!(" (key {key})")).unwrap_or_default();
        let text = format!("{count} packets of the last minute were refused for the reason {reason}{key}{from}: {who}");
        return reasons.push(Reason::new("shut_out", State::Degraded, text).of(&shut_out).hint(advice_on(reason)));
    }
    let total: u64 = dropped.iter().map(|(_, count)| count).sum();
    let is_much = total >= DROPPED_COUNT && total > received / DROPPED_SHARE;
    if let Some((reason, _)) = most(&|_| true).filter(|_| is_much || facts.status == Status::Joining) {
        // A packet may hold many messages, each of which is counted if it is not used.
        let text = format!(
            "{total} packets of the last minute, or messages in them, were not used, most of them for the reason {reason}"
        );
        reasons.push(Reason::new("packets_unused", State::Degraded, text).hint(advice_on(reason)));
    }
}

/// Returns what to do about packets that were dropped for this reason.
fn advice_on(reason: &str) -> &'static str {
    match reason {
        "other_cluster" => "two clusters share a seed or an address: check the cluster names",
        "unknown_version" | "sealed_unknown_version" => "upgrade one side",
        NO_KEYS => "somebody seals packets, and this node takes clear ones alone: give all the same seal.mode and keys",
        UNKNOWN_KEY => {
            "if a node of yours is there: where `headcount keys list` at a member names its key, copy that member's key file here, else \
             copy it there, and send SIGHUP; if not: close this port to it, and never take its key"
        }
        "sealed_forged" => "somebody has the key and another cluster name, or forges",
        "unsealed" => {
            "somebody sends clear packets: give a node of yours the key, or take it to the mode before this one's (`headcount keys \
             list`), and close this port to all others"
        }
        "not_loopback" => {
            "without keys this node hears its own machine alone: give it the cluster's key file, and restart it"
        }
        "rate_limited" => "somebody asks very often: the log names strangers",
        _ => "the operations guide says what each reason of headcount_dropped means",
    }
}
