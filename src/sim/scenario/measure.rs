//! The measurements of a scenario: the latencies of detection, and the false alarms.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::outcome::{Failure, Outcome};
use crate::network::Traffic;
use crate::report::{Alarms, Distribution, Rate, Report};
use crate::{Sighting, World};
use headcount_core::{ChangeKind, Run};

/// Returns the time from each failure to each observer's first report of it with a change that matches `is_it`.
fn latencies(world: &World, failures: &[Failure], is_it: impl Fn(ChangeKind) -> bool) -> Vec<Duration> {
    let by_run: BTreeMap<(usize, Run), &Failure> =
        failures.iter().filter_map(|failure| Some(((failure.subject, failure.run?), failure))).collect();
    let mut reported = BTreeSet::new();
    let mut found = Vec::new();
    for sighting in world.sightings().iter().filter(|sighting| is_it(sighting.kind)) {
        let Some(failure) = by_run.get(&(sighting.subject, sighting.run)) else { continue };
        let at = Duration::from_nanos(sighting.at);
        let mut is_first = || reported.insert((sighting.subject, sighting.run, sighting.observer));
        if sighting.observer != sighting.subject && at >= failure.at && is_first() {
            found.push(at.saturating_sub(failure.at));
        }
    }
    found
}

fn is_down(kind: ChangeKind) -> bool {
    matches!(kind, ChangeKind::DetectedDown(_))
}

/// Returns the time from the failures until the last observer reported the last of them as Down, if all have.
pub(super) fn known_to_all_after(world: &World, failures: &[Failure]) -> Option<Duration> {
    let reported = latencies(world, failures, is_down);
    let expected: usize = failures.iter().map(|failure| failure.observers).sum();
    (reported.len() >= expected).then(|| reported.into_iter().max()).flatten()
}

pub(super) fn detection(world: &World, failures: &[Failure], report: &mut Report) {
    let expected = failures.iter().map(|failure| failure.observers).sum();
    report.suspected = latencies(world, failures, |kind| kind == ChangeKind::Suspected);
    report.downed = latencies(world, failures, is_down);
    for figures in [&mut report.suspected, &mut report.downed] {
        figures.sort_unstable();
    }
    report.suspect = Distribution::of(report.suspected.clone(), expected);
    report.down = Distribution::of(report.downed.clone(), expected);
}

/// Counts false alarms. An alarm is false if its subject had been well for as long as an observer needs to see that. It
/// is one alarm however many nodes believe it; those beliefs are counted besides.
pub(super) fn false_alarms(world: &World, outcome: &Outcome, report: &mut Report) {
    let enough = world.options().settings.suspect_timeout;
    let is_false = |sighting: &&Sighting| {
        let well_for = if outcome.goes_on { sighting.running_for } else { sighting.healthy_for };
        well_for >= Some(enough) && !outcome.disturbed.contains(&sighting.subject)
    };
    let by_well = |sighting: &Sighting| !outcome.disturbed.contains(&sighting.observer);
    report.disturbed = outcome.disturbed.len();
    report.false_alarms = count(world.sightings().iter().filter(is_false).filter(|sighting| by_well(sighting)));
    report.alarms_of_disturbed = count(world.sightings().iter().filter(is_false).filter(|sighting| !by_well(sighting)));
}

fn count<'a>(sightings: impl Iterator<Item = &'a Sighting>) -> Alarms {
    let (mut suspicions, mut deaths, mut believed) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for sighting in sightings {
        let alarm = (sighting.subject, sighting.run, sighting.incarnation);
        match sighting.kind {
            ChangeKind::Suspected => suspicions.insert(alarm),
            kind if is_down(kind) => deaths.insert(alarm),
            _ => continue,
        };
        believed.insert((alarm, sighting.observer));
    }
    Alarms { suspicions: suspicions.len(), deaths: deaths.len(), believed: believed.len() }
}

pub(super) fn rate(before: Traffic, after: Traffic, time: Duration, nodes: usize) -> Rate {
    let node_seconds = time.as_secs_f64() * nodes as f64;
    if node_seconds <= 0.0 {
        return Rate::default();
    }
    Rate {
        packets: (after.packets - before.packets) as f64 / node_seconds,
        bytes: (after.bytes - before.bytes) as f64 / node_seconds,
    }
}
