//! Two checks of any failure of many nodes: all were judged in time, and the reports named both sides before the first death.
//!
//! Must not know: the cause of the failure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use headcount_core::{ChangeKind, NodeId};
use headcount_sim::network::Nanos;
use headcount_sim::{PartitionSighting, World};

/// Returns each pair of one of these observers and one of these dead members that the observer had not reported
/// Down `by` a time; none if all is well. [`World::watch`] must have been called before the failure.
pub fn missed_verdicts(world: &World, observers: &[usize], dead: &[usize], by: Duration) -> Vec<(usize, usize)> {
    let is_in_time = |at: Nanos| Duration::from_nanos(at) <= by;
    let judged: BTreeSet<(usize, usize)> = world
        .sightings()
        .iter()
        .filter(|seen| matches!(seen.kind, ChangeKind::DetectedDown(_)) && is_in_time(seen.at))
        .map(|seen| (seen.observer, seen.subject))
        .collect();
    let all = observers.iter().flat_map(|observer| dead.iter().map(move |subject| (*observer, *subject)));
    all.filter(|pair| !judged.contains(pair)).collect()
}

/// Returns each node on the `near` side that had not named both sides of a cut, whole, before its first report of a
/// member as Down, with its last report until then; none if all is well.
pub fn incomplete_reports(world: &World, near: &[usize], far: &[usize]) -> Vec<(usize, Option<PartitionSighting>)> {
    let names = |side: &[usize]| {
        let mut names: Vec<NodeId> = side.iter().map(|node| world.id(*node).clone()).collect();
        names.sort();
        names
    };
    let (near_names, far_names) = (names(near), names(far));
    let mut first_down: BTreeMap<usize, Nanos> = BTreeMap::new();
    for seen in world.sightings().iter().filter(|seen| matches!(seen.kind, ChangeKind::DetectedDown(_))) {
        first_down.entry(seen.observer).or_insert(seen.at);
    }
    let last_report = |observer: usize| {
        let until = first_down.get(&observer).copied().unwrap_or(Nanos::MAX);
        let mut reports = world.partitions_seen().iter().rev();
        reports.find(|seen| seen.observer == observer && seen.at <= until && !seen.is_over).cloned()
    };
    let reports = near.iter().map(|observer| (*observer, last_report(*observer)));
    let is_whole = |report: &PartitionSighting| report.unreachable == far_names && report.reachable == near_names;
    reports.filter(|(_, report)| !report.as_ref().is_some_and(is_whole)).collect()
}
