//! What must hold once all is healed: one view, a leader that all know, messages that reach all, and nothing left over.
//!
//! Must not know: the faults before.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::faults::Talk;
use crate::invariants::Invariant;
use crate::world::World;
use headcount_core::{Core, MessageId};
use headcount_sim::network::Conditions;

/// The time within which a broadcast reaches every node, if it ever does.
const REACH_WITHIN: Duration = Duration::from_secs(12);

pub(super) fn check_leadership(world: &mut World, when: &str) {
    if !world.violations().is_empty() {
        return;
    }
    if let Some(difference) = world.leadership_divergence() {
        world.report(None, Invariant::LeaderIsElected, format!("{when}: {difference}"));
    }
}

pub(super) fn check_agreement(world: &mut World, when: &str) {
    if !world.violations().is_empty() {
        return;
    }
    if let Some(difference) = world.divergence() {
        world.report(None, Invariant::Converges, format!("{when}: {difference}"));
    }
}

/// Checks that every running node's broadcasts reach all of them, although a fifth of all packets is lost.
pub(super) fn check_reach(world: &mut World) {
    if !world.violations().is_empty() {
        return;
    }
    let running: Vec<usize> = (0..world.nodes()).filter(|node| world.core(*node).is_some_and(Core::is_up)).collect();
    let before: Vec<BTreeSet<MessageId>> = running.iter().map(|node| world.heard(*node)).collect();
    world.disturb(Conditions { loss: 0.2, ..Conditions::default() }, REACH_WITHIN);
    for node in &running {
        Talk::Broadcast(*node, 20, 40).apply(world);
    }
    world.run_for(REACH_WITHIN);
    let heard: Vec<BTreeSet<MessageId>> = running.iter().map(|node| world.heard(*node)).collect();
    let new: BTreeSet<MessageId> =
        heard.iter().zip(&before).flat_map(|(heard, before)| heard.difference(before)).copied().collect();
    let reached = heard.iter().all(|heard| new.iter().all(|id| heard.contains(id)));
    if !reached || new.len() < 20 * running.len() {
        let detail = format!("{} of {} messages, or not everywhere", new.len(), 20 * running.len());
        world.report(None, Invariant::BroadcastsReach, detail);
    }
}

/// Checks that nodes that have agreed for a while keep nothing but members in their tables.
pub(super) fn check_what_is_left(world: &mut World) {
    if !world.is_timely() || !world.violations().is_empty() {
        return;
    }
    if let Some((node, left)) = world.left_over() {
        world.report(Some(node), Invariant::TablesAreBounded, format!("all is quiet, and it keeps {left}"));
    }
}
