//! Scenarios for users who choose settings: what would a crash, a pause, a cut look like at my size and in my network?
//!
//! Each forms a cluster, watches it idle for a while, lets one thing happen, and measures from outside, by true time.
//! Must not know: how the figures are shown.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::faults::{DiskFate, Operation};
use super::network::{Conditions, Latency, Traffic};
use super::random::{Purpose, Random};
use super::report::{Rate, Report, Spread};
use super::world::{World, WorldOptions};
use crate::core::{ChangeKind, OutOfRange, Profile, Run, Settings};

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum Scenario {
    /// One more node joins.
    Join,
    /// One node dies without a word.
    #[default]
    Crash,
    /// One node stands still for one and a half down timeouts.
    Pause,
    /// Half of the nodes are cut off from the other half until they have declared each other Down.
    Partition,
    /// Nodes crash, return, leave, join and change their tags, one every few seconds.
    Churn,
}

impl Scenario {
    /// All of them, in the order in which they are documented.
    pub const ALL: [Scenario; 5] =
        [Scenario::Join, Scenario::Crash, Scenario::Pause, Scenario::Partition, Scenario::Churn];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Scenario::Join => "join",
            Scenario::Crash => "crash",
            Scenario::Pause => "pause",
            Scenario::Partition => "partition",
            Scenario::Churn => "churn",
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Scenario {
    type Err = UnknownScenario;
    fn from_str(name: &str) -> Result<Self, UnknownScenario> {
        let found = Self::ALL.into_iter().find(|scenario| scenario.name() == name);
        found.ok_or_else(|| UnknownScenario { found: name.to_owned() })
    }
}

/// There is no scenario of that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown scenario {found:?}: there are join, crash, pause, partition and churn")]
pub struct UnknownScenario {
    /// The name found.
    pub found: String,
}

/// What to simulate.
#[derive(Debug, Clone, PartialEq)]
pub struct ScenarioOptions {
    /// What happens.
    pub scenario: Scenario,
    /// Nodes at the beginning, 2–20,000.
    pub nodes: usize,
    /// Where `settings` came from, for the report.
    pub profile: Profile,
    /// Pace and sizes of every node.
    pub settings: Settings,
    /// Chance that a datagram is lost, 0–0.9.
    pub loss: f64,
    /// Least time a datagram is under way, one way.
    pub latency: Duration,
    /// What most datagrams take more, at most.
    pub jitter: Duration,
    /// Whether the nodes talk IPv6, whose headers are larger.
    pub ipv6: bool,
    /// Seeds every random choice.
    pub seed: u64,
}

impl ScenarioOptions {
    /// A scenario in a quiet local network.
    pub fn new(scenario: Scenario, nodes: usize, profile: Profile) -> Self {
        let Latency { base, jitter } = Conditions::default().latency;
        let settings = profile.settings();
        Self { scenario, nodes, profile, settings, loss: 0.0, latency: base, jitter, ipv6: false, seed: 1 }
    }

    /// Checks every figure; the error names the key, the value and what is allowed.
    pub fn check(&self) -> Result<(), OutOfRange> {
        self.settings.check()?;
        let out_of_range = |key, found: String, allowed: &str| OutOfRange { key, found, allowed: allowed.to_owned() };
        if !(2..=20_000).contains(&self.nodes) {
            return Err(out_of_range("nodes", self.nodes.to_string(), "2 to 20000"));
        }
        if !(0.0..=0.9).contains(&self.loss) {
            return Err(out_of_range("loss", self.loss.to_string(), "0 to 0.9"));
        }
        let most = Duration::from_secs(5);
        if self.latency > most || self.jitter > most {
            return Err(out_of_range("latency", format!("{:?}", self.latency.max(self.jitter)), "0 to 5s"));
        }
        Ok(())
    }
}

/// A failure whose detection is measured.
struct Failure {
    at: Duration,
    subject: usize,
    run: Option<Run>,
    /// Who could have noticed.
    observers: usize,
}

/// Runs a scenario to its end.
pub fn run_scenario(options: &ScenarioOptions) -> Report {
    let latency = Latency { base: options.latency, jitter: options.jitter };
    let mut world = World::new(WorldOptions {
        conditions: Conditions { latency, loss: options.loss, ..Conditions::default() },
        ipv6: options.ipv6,
        checked: false,
        ..WorldOptions::new(options.seed, options.nodes, options.settings.clone())
    });
    let mut report = Report::empty(options);
    report.formed_after = agreement(&mut world, patience(&options.settings));
    world.run_for(options.settings.suspect_timeout);
    world.watch();
    let watched_from = world.now();
    let before = sent(&world);
    let idle = (options.settings.heartbeat_interval * 6).max(Duration::from_secs(10));
    world.run_for(idle);
    report.idle = rate(before, sent(&world), idle, world.nodes());

    let (before, began) = (sent(&world), world.now());
    let failures = match options.scenario {
        Scenario::Join => join(&mut world, &mut report),
        Scenario::Crash => crash(&mut world, &mut report),
        Scenario::Pause => pause(&mut world, &mut report),
        Scenario::Partition => partition(&mut world, &mut report),
        Scenario::Churn => churn(&mut world, &mut report),
    };
    report.busy = rate(before, sent(&world), world.now().saturating_sub(began), world.nodes());
    measure_detection(&world, &failures, &mut report);
    count_false_alarms(&world, &mut report);
    report.node_time = world.now().saturating_sub(watched_from) * world.nodes() as u32;
    report.time = world.now();
    report.trace = world.trace();
    report
}

/// How long an agreement may take before it is given up.
fn patience(settings: &Settings) -> Duration {
    settings.retry_interval * 20 + settings.down_timeout * 4 + Duration::from_secs(30)
}

/// Runs until all agree; how long that took.
fn agreement(world: &mut World, patience: Duration) -> Option<Duration> {
    let began = world.now();
    let agreed = world.run_while(began + patience, Duration::from_millis(10), |world| world.divergence().is_some());
    agreed.then(|| world.now().saturating_sub(began))
}

fn join(world: &mut World, report: &mut Report) -> Vec<Failure> {
    world.add_node();
    report.converged_after = agreement(world, patience(&world.options().settings.clone()));
    Vec::new()
}

fn failure(world: &World, subject: usize, observers: usize) -> Failure {
    let run = world.core(subject).map(|core| core.me().run);
    Failure { at: world.now(), subject, run, observers }
}

/// One that is not a seed, where there is one.
fn victim(world: &World) -> usize {
    world.nodes() - 1
}

fn crash(world: &mut World, report: &mut Report) -> Vec<Failure> {
    let subject = victim(world);
    let failure = failure(world, subject, world.nodes() - 1);
    world.crash(subject);
    world.run_for(world.options().settings.down_timeout * 2 + Duration::from_secs(2));
    let all_know = downs(world, &failure).len() >= failure.observers;
    report.converged_after = all_know.then(|| downs(world, &failure).into_iter().max()).flatten();
    vec![failure]
}

fn pause(world: &mut World, report: &mut Report) -> Vec<Failure> {
    let subject = victim(world);
    let failure = failure(world, subject, world.nodes() - 1);
    let lasting = world.options().settings.down_timeout * 3 / 2;
    world.pause(subject, lasting);
    world.run_for(lasting + Duration::from_millis(1));
    report.converged_after = agreement(world, patience(&world.options().settings.clone()));
    world.run_for(world.options().settings.down_timeout);
    vec![failure]
}

fn partition(world: &mut World, report: &mut Report) -> Vec<Failure> {
    let side: Vec<usize> = (0..world.nodes() / 2).collect();
    let rest = world.nodes() - side.len();
    // Every node of one side is lost to every node of the other.
    let failures = (0..world.nodes())
        .map(|subject| failure(world, subject, if subject < side.len() { rest } else { side.len() }))
        .collect();
    let lasting = world.options().settings.down_timeout + world.options().settings.suspect_timeout;
    world.partition(&side, Some(lasting));
    world.run_for(lasting);
    report.converged_after = agreement(world, patience(&world.options().settings.clone()));
    failures
}

fn churn(world: &mut World, report: &mut Report) -> Vec<Failure> {
    let mut random = Random::new(world.options().seed, Purpose::Scenario);
    let settings = world.options().settings.clone();
    let mut failures = Vec::new();
    for step in 0..20_u64 {
        let node = random.index(world.nodes());
        let running = (0..world.nodes()).filter(|node| world.core(*node).is_some()).count();
        let operation = match (world.core(node).is_some(), step % 4) {
            (false, _) => Operation::Restart(node, DiskFate::Kept),
            (true, 0) if running > 2 => {
                failures.push(failure(world, node, running - 1));
                Operation::Crash(node)
            }
            (true, 1) if running > 2 => Operation::Leave(node),
            (true, 2) => Operation::Join,
            (true, _) => Operation::SetTags(node, step),
        };
        operation.apply(world);
        world.run_for(random.duration(settings.suspect_timeout / 4, settings.down_timeout));
    }
    world.run_for(settings.down_timeout);
    report.converged_after = agreement(world, patience(&settings));
    failures
}

fn downs(world: &World, failure: &Failure) -> Vec<Duration> {
    latencies(world, failure, |kind| matches!(kind, ChangeKind::DetectedDown(_)))
}

/// When each observer first reported this of a failure, counted from the failure.
fn latencies(world: &World, failure: &Failure, is_it: impl Fn(ChangeKind) -> bool) -> Vec<Duration> {
    let mut reported = BTreeSet::new();
    let about = world.sightings().iter().filter(|sighting| {
        sighting.subject == failure.subject
            && Some(sighting.run) == failure.run
            && sighting.observer != failure.subject
            && Duration::from_nanos(sighting.at) >= failure.at
            && is_it(sighting.kind)
    });
    about
        .filter(|sighting| reported.insert(sighting.observer))
        .map(|sighting| Duration::from_nanos(sighting.at).saturating_sub(failure.at))
        .collect()
}

fn measure_detection(world: &World, failures: &[Failure], report: &mut Report) {
    let expected = failures.iter().map(|failure| failure.observers).sum();
    let all = |is_it: fn(ChangeKind) -> bool| {
        failures.iter().flat_map(|failure| latencies(world, failure, is_it)).collect::<Vec<_>>()
    };
    report.suspect = Spread::of(all(|kind| kind == ChangeKind::Suspected), expected);
    report.down = Spread::of(all(|kind| matches!(kind, ChangeKind::DetectedDown(_))), expected);
}

/// An alarm is false if its subject had been well for as long as an observer needs to see that. However many report it,
/// it is one alarm.
fn count_false_alarms(world: &World, report: &mut Report) {
    let enough = world.options().settings.suspect_timeout;
    let (mut suspicions, mut deaths) = (BTreeSet::new(), BTreeSet::new());
    for sighting in world.sightings().iter().filter(|sighting| sighting.healthy_for >= Some(enough)) {
        let alarm = (sighting.subject, sighting.run, sighting.incarnation);
        match sighting.kind {
            ChangeKind::Suspected => suspicions.insert(alarm),
            ChangeKind::DetectedDown(_) => deaths.insert(alarm),
            _ => false,
        };
    }
    report.false_suspicions = suspicions.len();
    report.false_deaths = deaths.len();
}

fn sent(world: &World) -> Traffic {
    (0..world.nodes()).map(|node| world.sent(node)).fold(Traffic::default(), |sum, sent| Traffic {
        packets: sum.packets + sent.packets,
        bytes: sum.bytes + sent.bytes,
    })
}

fn rate(before: Traffic, after: Traffic, time: Duration, nodes: usize) -> Rate {
    let node_seconds = time.as_secs_f64() * nodes as f64;
    if node_seconds <= 0.0 {
        return Rate::default();
    }
    Rate {
        packets: (after.packets - before.packets) as f64 / node_seconds,
        bytes: (after.bytes - before.bytes) as f64 / node_seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_is_known_by_its_name() {
        for scenario in Scenario::ALL {
            assert_eq!(scenario.name().parse(), Ok(scenario));
        }
        let error = "crush".parse::<Scenario>().expect_err("there is no such scenario");
        assert!(error.to_string().contains("crash"), "{error}");
    }

    #[test]
    fn each_figure_out_of_range_is_refused_by_name() {
        let good = ScenarioOptions::new(Scenario::Crash, 5, Profile::Local);
        assert_eq!(good.check(), Ok(()));
        let refused = |options: ScenarioOptions| options.check().expect_err("out of range").key;
        assert_eq!(refused(ScenarioOptions { nodes: 1, ..good.clone() }), "nodes");
        assert_eq!(refused(ScenarioOptions { loss: f64::NAN, ..good.clone() }), "loss");
        assert_eq!(refused(ScenarioOptions { latency: Duration::from_secs(6), ..good }), "latency");
    }
}
