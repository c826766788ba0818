//! Judges modes of sealing and keys, by what comes and is taken. What is refused is judged with the other packets.

use std::net::SocketAddr;
use std::time::Duration;

use super::facts::Facts;
use super::{Reason, State, verb};
use crate::core::NodeId;
use crate::seal::SealMode;
use crate::transport::sealing::Otherwise;

/// The time that a step from clear packets to sealed ones may take before it is a trouble: it ends at all members by hand.
pub(super) const STEP_FOR: Duration = Duration::from_secs(600);
/// The time for which members may seal with another key: a change asks all of them twice, and each answers within seconds.
const ROTATES_FOR: Duration = Duration::from_secs(20);

pub(super) fn judge(facts: &Facts, reasons: &mut Vec<Reason>) {
    if matches!(facts.seal_mode, SealMode::Permit | SealMode::Prefer) {
        let state = if facts.sealed_for < STEP_FOR { State::Unsettled } else { State::Degraded };
        let (clear, _) = senders(facts, |sender| sender.key.is_none());
        let sent = if facts.seal_mode.seals() { "" } else { ", and sends them" };
        let by =
            if clear.is_empty() { String::new() } else { format!("; {}", verb(&clear, "sends some", "send some")) };
        let text =
            format!("{} has a key, and takes clear packets{sent} (seal.mode = {}){by}", facts.me, facts.seal_mode);
        let hint = "whoever can send to it can change the membership: take all members to the next seal.mode, and to require at \
                    last; `headcount keys list` shows who still takes clear packets";
        reasons.push(Reason::new("clear_taken", state, text).of(&clear).hint(hint));
    }
    let (nodes, others) = senders(facts, |sender| sender.key.is_some() && sender.lasted() >= ROTATES_FOR);
    if let ([(_, Otherwise { key: Some(theirs), .. }), ..], Some(ours)) = (&others[..], &facts.key) {
        let who = if nodes.is_empty() { format!("{} seals", others[0].0) } else { verb(&nodes, "seals", "seal") };
        let text =
            format!("{who} with key {theirs}, and {} with {ours}: keys were changed, and not everywhere", facts.me);
        let hint = "`headcount keys list` shows who seals with which; `headcount keys use ID` has all seal with one, or copy the key \
                    file of a member that is right, and send SIGHUP";
        reasons.push(Reason::new("keys_differ", State::Degraded, text).of(&nodes).hint(hint));
    }
}

/// Returns those that seal otherwise in some way, and the members among them.
fn senders(facts: &Facts, is: impl Fn(&Otherwise) -> bool) -> (Vec<NodeId>, Vec<(SocketAddr, Otherwise)>) {
    let mut those = facts.otherwise.clone();
    those.retain(|(_, sender)| is(sender));
    (facts.named(|member| those.iter().any(|(from, _)| *from == member.address)), those)
}
