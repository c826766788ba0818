//! One seed from start to verdict: a random schedule of faults, healing, a quiet time, and every promise checked
//! throughout.
//!
//! Must not know: what runs it, on how many threads, or where its output is printed.
//!
//! | idea | file |
//! |---|---|
//! | what must hold once all is healed | `checks` |
//! | the same of contenders for leases | `leases` |

mod checks;
mod leases;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::expect::Judged;
use crate::faults::{DiskFate, Operation, Schedule};
use crate::invariants::{ElectoratesReached, Invariant, LeaseReached, Violation};
use crate::plant::{LeftOut, Plant};
use crate::world::World;
use checks::{check_agreement, check_leadership, check_reach, check_what_is_left};
use headcount_core::election::LeaseTiming;
use headcount_core::limits::FOUNDING_RETRIES;
use headcount_core::{Core, Profile, Settings, StopReason};
use headcount_sim::{SealCounts, SecondCluster, WorldOptions};

/// The time within which all nodes start again once two electorates have met.
const RESTARTED_WITHIN: Duration = Duration::from_secs(1);
/// Quiet time after convergence, through which the running nodes must stay one cluster.
const QUIET: Duration = Duration::from_secs(8);

/// The largest error of a clock's rate that leases are designed for, in parts per million: one percent.
const WORST_CLOCK_PPM: u64 = 10_000;

/// The campaigns: each seed gives a schedule in each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Campaign {
    /// Up to nine nodes, and faults close together.
    #[default]
    Small,
    /// Up to 40 nodes and more kinds of faults, most of them after a time of peace.
    Large,
    /// The small one, with everything sealed, a key that is rotated meanwhile, and somebody who plays what was recorded.
    Sealed,
    /// Two electorates that meet.
    Electorates,
}

impl Campaign {
    /// Returns the schedule of a seed.
    pub fn schedule(self, seed: u64) -> Schedule {
        match self {
            Campaign::Small => Schedule::of_seed(seed),
            Campaign::Large => Schedule::large(seed),
            Campaign::Sealed => Schedule::of_seed(seed).with_rotation(seed),
            Campaign::Electorates => Schedule::electorates(seed),
        }
    }
}

/// The result of one seed.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// The campaign that the schedule is of.
    pub campaign: Campaign,
    /// Numbers of expectations that were judged.
    pub judged: Judged,
    /// Number of nodes at the beginning.
    pub nodes: usize,
    /// Number of operations that made sense when their time came.
    pub faults: usize,
    /// The numbers of those operations, by kind.
    pub reached: BTreeMap<&'static str, usize>,
    /// Virtual time that passed.
    pub time: Duration,
    /// Time from the healing to the agreement of all running nodes.
    pub converged_after: Option<Duration>,
    /// Time from the healing until all named one leader, if there are enough voters to elect one.
    pub led_after: Option<Duration>,
    /// Number of terms in which any node claimed to lead.
    pub terms: usize,
    /// Figures of electorates that met.
    pub electorates: ElectoratesReached,
    /// The time after the healing until a lease was first led anew, if there are contenders.
    pub lease_led_after: Option<Duration>,
    /// Figures of contenders.
    pub leases: LeaseReached,
    /// Numbers of packets that were sealed, played again and refused.
    pub seals: SealCounts,
    /// The hash of everything that happened.
    pub trace: u64,
    /// The first promise found broken.
    pub violation: Option<Violation>,
    /// The operations, with their times.
    pub operations: Vec<String>,
    /// Everything that happened, if verbose output was asked for.
    pub lines: Vec<String>,
}

impl Outcome {
    /// Returns the report of a broken promise: which one, and how to reproduce it.
    pub fn failure(&self) -> Option<String> {
        self.violation.as_ref().map(|violation| {
            let seed = self.seed;
            let operations = self.operations.join("\n  ");
            let (variable, test) = match self.campaign {
                Campaign::Small => ("HEADCOUNT_SIM_SEED", "random_faults"),
                Campaign::Large => ("HEADCOUNT_SIM_LARGE_SEED", "larger_clusters"),
                Campaign::Sealed => ("HEADCOUNT_SIM_SEALED_SEED", "sealed_clusters"),
                Campaign::Electorates => ("HEADCOUNT_SIM_ELECTORATES_SEED", "electorates_that_meet"),
            };
            format!(
                "seed {seed}: {violation}\n  {operations}\n\
                 replay: {variable}={seed} cargo test --test simulation -- --nocapture {test}"
            )
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, faults, time, trace, .. } = self;
        write!(f, "seed {seed}: {faults} faults in {time:.0?}, trace {trace:016x}, ")?;
        match &self.violation {
            None => f.write_str("all promises kept"),
            Some(violation) => write!(f, "{violation}"),
        }
    }
}

/// Returns the settings of a campaign: the fastest profile, and the shortest `reap_after` that is allowed.
pub fn campaign_settings() -> Settings {
    Settings { reap_after: Duration::from_secs(60), ..Profile::Local.settings() }
}

/// Returns the longest time from the healing to the agreement of all running nodes.
pub fn convergence_bound(settings: &Settings) -> Duration {
    settings.retry_interval * 2 + Duration::from_secs(2)
}

/// Runs one seed of the small campaign.
pub fn run_seed(seed: u64, verbose: bool) -> Outcome {
    run_seed_of(Campaign::Small, seed, verbose)
}

/// Runs one seed of a campaign.
pub fn run_seed_of(campaign: Campaign, seed: u64, verbose: bool) -> Outcome {
    run_schedule(seed, &campaign.schedule(seed), verbose, None)
}

/// Runs one schedule, optionally with a planted bug.
pub fn run_schedule(seed: u64, schedule: &Schedule, verbose: bool, plant: Option<Box<dyn Plant>>) -> Outcome {
    let diskless = if seed.is_multiple_of(4) { 0.3 } else { 0.0 };
    let variation = &schedule.variation;
    let usual = campaign_settings();
    let settings = Settings { observers: variation.observers.unwrap_or(usual.observers), ..usual };
    let options = WorldOptions {
        mixed: variation.mixed.clone(),
        clock_error_ppm: variation.clock_error_ppm,
        ipv6: variation.ipv6,
        reaping_spread: variation.longest_pause,
        diskless,
        verbose,
        voters: schedule.voters,
        second: variation.second.clone(),
        lease: Profile::Local.lease_timing(),
        voter_clock_error_ppm: WORST_CLOCK_PPM,
        hanging_work: 0.1,
        leases: leases::options(seed, schedule),
        sealed: variation.sealed,
        // A packet comes out of a seal as it went in, so nothing is spared.
        forging: variation.sealed,
        ..WorldOptions::new(seed, schedule.nodes, settings)
    };
    let mut run = Run::default();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        run.operations
            .push(format!("{} nodes, {} of them vote{}", schedule.nodes, schedule.voters, schedule.variation));
        let left_out = variation.flaw.map(|flaw| Box::new(LeftOut(flaw)) as Box<dyn Plant>);
        run.world = Some(World::planted(options, variation.is_large, plant.or(left_out)));
        if let Some(world) = run.world.as_mut().filter(|_| variation.sealed) {
            world.start_recorder(None);
        }
        run.through(schedule);
    }))
    .err()
    .map(|panic| Violation {
        invariant: Invariant::NoPanic,
        node: None,
        time: run.world.as_ref().map_or(Duration::ZERO, |world| world.now()),
        detail: said(panic.as_ref()),
    });
    let world = run.world.as_ref();
    Outcome {
        seed,
        campaign: match (variation.is_large, variation.sealed) {
            _ if variation.is_meeting => Campaign::Electorates,
            (true, _) => Campaign::Large,
            (_, true) => Campaign::Sealed,
            _ => Campaign::Small,
        },
        judged: world.map_or_else(Judged::default, World::judged),
        nodes: schedule.nodes,
        faults: run.reached.values().sum(),
        reached: run.reached,
        time: world.map_or(Duration::ZERO, |world| world.now()),
        converged_after: run.converged_after,
        led_after: run.led_after,
        terms: world.map_or(0, World::terms_claimed),
        lease_led_after: run.lease_led_after,
        electorates: world.map_or_else(ElectoratesReached::default, World::electorates_reached),
        leases: world.map_or_else(LeaseReached::default, World::leases_reached),
        seals: world.map_or_else(SealCounts::default, |world| world.seal_counts()),
        trace: world.map_or(0, |world| world.trace()),
        violation: panicked.or_else(|| world.and_then(|world| world.violations().first().cloned())),
        lines: world.map(|world| world.lines().to_vec()).unwrap_or_default(),
        operations: run.operations,
    }
}

#[derive(Default)]
struct Run {
    world: Option<World>,
    reached: BTreeMap<&'static str, usize>,
    operations: Vec<String>,
    converged_after: Option<Duration>,
    led_after: Option<Duration>,
    lease_led_after: Option<Duration>,
}

impl Run {
    fn through(&mut self, schedule: &Schedule) {
        let Some(world) = self.world.as_mut() else { return };
        for (at, operation) in &schedule.operations {
            world.run_until(*at);
            if !world.violations().is_empty() {
                return;
            }
            let made_sense = operation.apply(world);
            *self.reached.entry(operation.kind()).or_default() += usize::from(made_sense);
            let mark = if made_sense { "" } else { " (no effect)" };
            self.operations.push(format!("{:9.4}s {operation}{mark}", at.as_secs_f64()));
            world.say(|| format!("*** {operation}{mark}"));
        }
        world.run_until(schedule.heal_at);
        if !world.violations().is_empty() {
            return;
        }
        let can_join_at_once = has_seed_that_is_up(world);
        world.hand_latest_keys();
        world.heal_all();
        restart_what_is_needed(world, schedule.variation.is_meeting);
        self.operations.push(format!("{:9.4}s heal everything", schedule.heal_at.as_secs_f64()));
        world.say(|| "*** heal everything".to_owned());
        self.settle(schedule, can_join_at_once);
    }

    /// Waits for an election; returns true if there are enough voters to elect a leader.
    fn elects(&mut self, healed_at: Duration, settled_after: Duration) -> bool {
        let Some(world) = self.world.as_mut().filter(|world| world.options().voters > 0) else { return false };
        if !world.can_elect() {
            return false;
        }
        let deadline = healed_at + settled_after + election_time(world.options().lease);
        let step = Duration::from_millis(20);
        if world.run_while(deadline, step, |world| world.leadership_divergence().is_some()) {
            self.led_after = Some(world.now().saturating_sub(healed_at));
        }
        true
    }

    fn settle(&mut self, schedule: &Schedule, can_join_at_once: bool) {
        let Some(world) = self.world.as_mut() else { return };
        let settings = &slowest(world.options());
        let mut bound = convergence_bound(settings);
        if !can_join_at_once {
            // Seeds that find no other seed Up wait for this time before one of them starts a cluster.
            bound += settings.retry_interval * FOUNDING_RETRIES;
        }
        if schedule.variation.second.is_some() {
            join_clusters(world);
            let step = Duration::from_millis(50);
            if !world.run_while(schedule.heal_at + bound, step, |world| world.divergence().is_some()) {
                // Whoever was told while it was not up yet is told again.
                join_clusters(world);
                bound += convergence_bound(settings);
            }
        }
        let deadline = schedule.heal_at + bound;
        let step = Duration::from_millis(50);
        if world.run_while(deadline, step, |world| world.divergence().is_some()) {
            self.converged_after = Some(world.now().saturating_sub(schedule.heal_at));
        }
        let elects = self.elects(schedule.heal_at, bound);
        let Some(world) = self.world.as_mut() else { return };
        // Agreement must last once it is reached.
        world.run_until(deadline);
        check_agreement(world, &format!("{bound:?} after everything was healed"));
        if elects && world.can_elect() {
            let patience = election_time(world.options().lease);
            world.run_until(deadline + patience);
            check_leadership(world, "when there had been time for an election");
            world.settle_store();
            world.run_for(QUIET);
            check_leadership(world, &format!("{QUIET:?} later"));
            if schedule.variation.is_meeting {
                let all: Vec<usize> = (0..world.nodes()).collect();
                world.restart_in_turns(&all, RESTARTED_WITHIN);
                let founding = settings.retry_interval * FOUNDING_RETRIES;
                world.run_for(RESTARTED_WITHIN + founding + convergence_bound(settings));
                // Their seeds are each other's no more than before.
                join_clusters(world);
                world.run_for(convergence_bound(settings) + patience);
                check_leadership(world, "after a restart of all");
            }
        }
        let Some(world) = self.world.as_mut() else { return };
        world.run_until(deadline + QUIET);
        check_agreement(world, &format!("{:?} after everything was healed", bound + QUIET));
        check_what_is_left(world);
        self.lease_led_after = leases::settle(world, schedule.heal_at);
        if schedule.has_talk() {
            check_reach(world);
        }
    }
}

/// Returns the settings of the nodes that take longest.
fn slowest(options: &WorldOptions) -> Settings {
    let slowest = options.mixed.iter().max_by_key(|settings| settings.retry_interval);
    slowest.unwrap_or(&options.settings).clone()
}

/// Returns the longest time from the settling of the members until a leader leads and all of them know it.
fn election_time(lease: LeaseTiming) -> Duration {
    lease.lease_duration * 2 + Duration::from_secs(1)
}

/// Has nodes of one of two clusters told of nodes of the other.
fn join_clusters(world: &mut World) {
    let Some(second) = world.options().second.clone() else { return };
    for (nth, node) in second.voters().enumerate() {
        Operation::Contact(node, nth % world.options().voters).apply(world);
    }
}

/// Returns true if a node that starts now finds a seed that lets it in. Paused seeds do not count: a command to leave
/// may be waiting for them.
fn has_seed_that_is_up(world: &World) -> bool {
    let is_up = |seed: usize| !world.is_paused(seed) && world.core(seed).is_some_and(Core::is_up);
    let clusters = [Some(world.options().seeds_of(0)), world.options().second.as_ref().map(SecondCluster::voters)];
    clusters.into_iter().flatten().all(|mut seeds| seeds.any(is_up))
}

/// Restarts nodes as needed: crashed nodes may stay away, but not all the seeds, since a cluster that cannot be found
/// is not healed; and nobody, where electorates are to meet, each of which needs its voters.
fn restart_what_is_needed(world: &mut World, needs_all: bool) {
    for node in 0..world.nodes() {
        let is_seed = needs_all || node < world.options().seeds.max(world.options().voters);
        let has_crashed = world.core(node).is_none() && world.ended(node).is_none();
        let was_removed = matches!(world.ended(node), Some(StopReason::Removed));
        if has_crashed && (is_seed || node % 2 == 0) || was_removed && node == 0 {
            Operation::Restart(node, DiskFate::Kept).apply(world);
        }
    }
    let seeds = 0..world.options().seeds;
    if seeds.clone().all(|seed| world.core(seed).is_none()) {
        Operation::Restart(seeds.start, DiskFate::Kept).apply(world);
    }
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without words".to_owned())
}
