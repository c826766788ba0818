//! Whole clusters in virtual time: hundreds of random schedules of faults, and planted bugs that the checks must catch.
//!
//! `HEADCOUNT_SIM_SEED=17` replays one seed and prints what happened; `HEADCOUNT_SIM_SEEDS=5000` runs more of them, and
//! `HEADCOUNT_SIM_FIRST=1000` begins elsewhere; `HEADCOUNT_SIM_PROGRESS=1` prints each verdict as it comes. The larger
//! clusters have `HEADCOUNT_SIM_LARGE_SEED`, `HEADCOUNT_SIM_LARGE_SEEDS` and `HEADCOUNT_SIM_LARGE_FIRST`, the sealed ones
//! the same with `SEALED`, and electorates that meet with `ELECTORATES`.
//! `HEADCOUNT_SIM_GOLDEN=write` writes the golden traces down anew (see `golden`).

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use headcount_core::Profile;

mod caught;
mod clocks;
mod contending;
mod crashes;
mod crowds;
mod cuts;
mod databases;
mod deaf;
mod electorates;
mod golden;
mod hosts;
mod joining;
mod large;
mod late;
mod leading;
mod plant;
mod planted;
mod scale;
mod seals;
mod snapshots;
mod traffic;

use headcount_campaign::World;
use headcount_campaign::faults::Schedule;
use headcount_campaign::{Campaign, Outcome, campaign_settings, run_schedule, run_seed, run_seed_of};
use headcount_sim::WorldOptions;
use headcount_sim::network::Conditions;
use headcount_sim::report::Alarms;
use headcount_sim::scenario::{Scenario, ScenarioOptions, run_scenario};

/// Seeds of a usual run.
const SEEDS: u64 = 80;
/// So many seeds must have reached each kind of operation.
const SEEDS_FOR_ALL: u64 = 1_000;
/// The number of threads that share them.
const THREADS: usize = 2;

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn random_faults_break_no_promise() {
    if let Some(seed) = from_environment("HEADCOUNT_SIM_SEED") {
        let outcome = run_seed(seed, true);
        println!("{}\n{outcome}", outcome.lines.join("\n"));
        assert!(outcome.violation.is_none(), "{}", outcome.failure().unwrap_or_default());
        return;
    }
    let first = from_environment("HEADCOUNT_SIM_FIRST").unwrap_or(0);
    let count = from_environment("HEADCOUNT_SIM_SEEDS").unwrap_or(SEEDS);
    let began = Instant::now();
    let outcomes = run_all(Campaign::Small, first, count);
    let failures: Vec<String> = outcomes.iter().filter_map(Outcome::failure).collect();
    let virtual_time: Duration = outcomes.iter().map(|outcome| outcome.time).sum();
    let faults: usize = outcomes.iter().map(|outcome| outcome.faults).sum();
    println!(
        "{count} seeds, {faults} faults, {:.1} virtual hours in {:.1?}; slowest agreement {:?}; \
         leaders named by all in {} seeds, {} terms, slowest {:?} after the healing",
        virtual_time.as_secs_f64() / 3_600.0,
        began.elapsed(),
        outcomes.iter().filter_map(|outcome| outcome.converged_after).max(),
        outcomes.iter().filter(|outcome| outcome.led_after.is_some()).count(),
        outcomes.iter().map(|outcome| outcome.terms).sum::<usize>(),
        outcomes.iter().filter_map(|outcome| outcome.led_after).max(),
    );
    assert!(failures.is_empty(), "{} of {count} seeds failed:\n{}", failures.len(), failures.join("\n"));
    if first == 0 && count >= SEEDS_FOR_ALL {
        assert_reached(&outcomes, &REACHED);
    }
}

/// Kinds of operations, and the number of worlds in which each must have had an effect.
const REACHED: [(&str, usize); 25] = [
    ("crash", 100),
    ("restart", 100),
    ("pause", 100),
    ("slow node", 100),
    ("cut", 100),
    ("one-way cut", 100),
    ("weather", 100),
    ("duplicates", 50),
    ("departure", 100),
    ("removal", 100),
    ("tags", 100),
    ("join command", 100),
    ("newcomer", 100),
    ("lossy node", 100),
    ("flip-flop", 100),
    ("crash of many", 100),
    ("staggered restart", 100),
    ("restart of many", 100),
    ("power off", 100),
    ("links reset", 100),
    ("firewall", 100),
    ("move", 40),
    ("exchange of addresses", 15),
    ("wrong address", 40),
    ("translation", 40),
];

/// Checks that each kind of operation had an effect in so many worlds.
fn assert_reached(outcomes: &[Outcome], least: &[(&str, usize)]) {
    let worlds =
        |kind: &str| outcomes.iter().filter(|outcome| outcome.reached.get(kind).is_some_and(|n| *n > 0)).count();
    let found: Vec<String> = least.iter().map(|(kind, _)| format!("{kind} {}", worlds(kind))).collect();
    println!("worlds with: {}", found.join(", "));
    for (kind, least) in least {
        let found = worlds(kind);
        assert!(found >= *least, "{found} worlds, and not {least}, have seen: {kind}");
    }
}

fn run_all(campaign: Campaign, first: u64, count: u64) -> Vec<Outcome> {
    let next = AtomicU64::new(first);
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        break;
                    }
                    let outcome = run_seed_of(campaign, seed, false);
                    if from_environment("HEADCOUNT_SIM_PROGRESS").is_some() {
                        println!("{outcome}");
                    }
                    outcomes.lock().expect("no thread panics while it holds this").push(outcome);
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().expect("all threads are done");
    outcomes.sort_by_key(|outcome| outcome.seed);
    outcomes
}

#[test]
fn equal_seeds_give_equal_traces_and_different_seeds_different_ones() {
    let traces: Vec<u64> = [11, 11, 12].into_iter().map(|seed| run_seed(seed, false).trace).collect();
    assert_eq!(traces[0], traces[1]);
    assert_ne!(traces[0], traces[2]);
}

#[test]
fn checking_and_telling_change_nothing() {
    fn trace(world: &mut headcount_sim::World) -> u64 {
        world.run_for(Duration::from_secs(3));
        world.crash(3);
        world.run_for(Duration::from_secs(5));
        world.trace()
    }
    let options = |verbose| WorldOptions { verbose, ..WorldOptions::new(5, 4, campaign_settings()) };
    let plain = trace(&mut headcount_sim::World::new(options(false)));
    assert_eq!(plain, trace(&mut World::new(options(false))));
    assert_eq!(plain, trace(&mut headcount_sim::World::new(options(true))));
}

/// News that no checksum catches may mislead an unsealed cluster, but it must neither end a process nor start a storm.
#[test]
fn forged_news_make_neither_a_panic_nor_a_storm() {
    let time = Duration::from_secs(30);
    for seed in 0..60 {
        let conditions = Conditions { corrupt: 0.05, ..Conditions::default() };
        let options = WorldOptions { conditions, forging: true, ..WorldOptions::new(seed, 5, campaign_settings()) };
        let mut world = headcount_sim::World::new(options);
        world.run_until(time);
        for node in 0..world.nodes() {
            let packets = world.sent(node).packets;
            assert!(packets < 300 * time.as_secs(), "seed {seed}: node {node} sent {packets} datagrams");
        }
    }
}

#[test]
fn a_schedule_has_enough_faults_that_make_sense() {
    let outcome = run_schedule(3, &Schedule::random(3), false, None);
    assert!(outcome.faults >= 15, "{outcome}");
}

#[test]
fn every_scenario_measures_what_it_is_about() {
    for scenario in Scenario::ALL {
        let report = run_scenario(&ScenarioOptions::new(scenario, 8, Profile::Local));
        println!("{report}");
        assert!(report.formed_after.is_some(), "{report}");
        assert!(report.converged_after.is_some(), "{report}");
        assert_eq!(report.false_alarms, Alarms::default(), "{report}");
        assert!(report.idle.bytes > 0.0, "{report}");
        if let Scenario::Crash | Scenario::PowerOff | Scenario::MassCrash = scenario {
            let all = if scenario == Scenario::MassCrash { 16 } else { 7 };
            let down = report.down.expect("somebody noticed");
            assert_eq!((down.reports, down.expected), (all, all), "{report}");
        }
        if scenario == Scenario::Contenders {
            let succession = report.succession.expect("it is about that");
            let claimed = succession.claimed.expect("most of ten");
            assert!(claimed.reports >= 8, "{report}");
        }
        if scenario.is_about_leaders() {
            let succession = report.succession.expect("it is about that");
            let (claimed, known) = (succession.claimed.expect("ten"), succession.known.expect("all"));
            assert_eq!((claimed.reports, known.reports), (10, known.expected), "{report}");
            assert_eq!(scenario == Scenario::LeaderPartition, succession.stopped.is_some());
            if let Some(stopped) = succession.stopped {
                let is_before =
                    stopped.first < claimed.first && stopped.median < claimed.median && stopped.last < claimed.last;
                assert!(is_before, "the old leader stops before there is a new one: {report}");
            }
        }
        assert_eq!(report.trace, run_scenario(&ScenarioOptions::new(scenario, 8, Profile::Local)).trace);
    }
}
