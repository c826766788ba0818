//! Electorates that meet: one of two ends, and a store outside that takes fencing tokens never hears of it again.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use headcount_campaign::World;
use headcount_campaign::invariants::Invariant;
use headcount_campaign::plant::Plant;
use headcount_campaign::{Campaign, Outcome, run_seed_of};
use headcount_core::election::Term;
use headcount_core::{Command, Profile};
use headcount_sim::network::Conditions;
use headcount_sim::{SecondCluster, WorldOptions};

use super::plant::Bug;
use super::{assert_reached, from_environment, run_all};

const SECOND: Duration = Duration::from_secs(1);
/// Seeds of a usual run.
const SEEDS: u64 = 60;

/// Kinds of operations, and the number of worlds of each hundred in which each must have had an effect.
const REACHED: [(&str, usize); 10] = [
    ("voters", 90),
    ("join command", 40),
    ("cut", 40),
    ("one-way cut", 20),
    ("weather", 40),
    ("crash", 40),
    ("restart", 40),
    ("pause", 40),
    ("staggered restart", 15),
    ("restart of many", 15),
];

#[test]
fn electorates_that_meet_become_one_and_what_ended_writes_nothing_any_more() {
    if let Some(seed) = from_environment("HEADCOUNT_SIM_ELECTORATES_SEED") {
        let outcome = run_seed_of(Campaign::Electorates, seed, true);
        println!("{}\n{outcome}\n{:?}", outcome.lines.join("\n"), outcome.electorates);
        assert!(outcome.violation.is_none(), "{}", outcome.failure().unwrap_or_default());
        return;
    }
    let first = from_environment("HEADCOUNT_SIM_ELECTORATES_FIRST").unwrap_or(0);
    let count = from_environment("HEADCOUNT_SIM_ELECTORATES_SEEDS").unwrap_or(SEEDS);
    let began = Instant::now();
    let outcomes = run_all(Campaign::Electorates, first, count);
    let failures: Vec<String> = outcomes.iter().filter_map(Outcome::failure).collect();
    let virtual_time: Duration = outcomes.iter().map(|outcome| outcome.time).sum();
    let sum = |figure: fn(&Outcome) -> usize| outcomes.iter().map(figure).sum::<usize>();
    let of_joined = sum(|outcome| outcome.electorates.ended[0]);
    let of_recovered = sum(|outcome| outcome.electorates.ended[1]);
    let voters = sum(|outcome| outcome.electorates.voters);
    let settled =
        outcomes.iter().filter(|outcome| outcome.electorates.settled.iter().all(|writes| *writes > 0)).count();
    let both_wrote = outcomes.iter().filter(|outcome| outcome.electorates.both_wrote).count();
    println!(
        "{count} seeds, {:.1} virtual hours in {:.1?}; {of_joined} electorates ended for one that was founded apart, \
         {of_recovered} for a recovery apart, {voters} times a voter's; in {both_wrote} worlds the store had taken writes of \
         both before, in {settled} it refused the one that had ended and took the other; slowest leader {:?} after the healing",
        virtual_time.as_secs_f64() / 3_600.0,
        began.elapsed(),
        outcomes.iter().filter_map(|outcome| outcome.led_after).max(),
    );
    assert!(failures.is_empty(), "{} of {count} seeds failed:\n{}", failures.len(), failures.join("\n"));
    if first == 0 && count >= SEEDS {
        let hundred = |least: usize| least * count as usize / 100;
        assert!(of_joined >= hundred(60) && of_recovered >= hundred(20), "too few electorates have met");
        assert!(both_wrote >= hundred(70) && settled >= hundred(80), "too few electorates wrote");
        assert_reached(&outcomes, &REACHED.map(|(kind, least)| (kind, hundred(least))));
    }
}

/// The way in which two clusters come together.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Meeting {
    /// Both hear everything.
    AtOnce,
    /// Two cuts end while they meet: first the one between them, then one through both.
    AfterCuts,
    /// A quarter of all packets is lost.
    WithLoss,
    /// A node is restarted while they meet, in each world another one.
    WithRestart,
    /// All nodes are killed and start again, one after the other, from the moment on at which they meet: a leader that was
    /// killed is waited for until its lease is over.
    WithKills,
}

/// Two clusters, of three voters and of five, in this profile; those of five are node 3 and all later ones.
fn three_and_five(profile: Profile, seed: u64, bug: Option<Bug>) -> World {
    let second = SecondCluster { nodes: 3..8, voters: 5 };
    let usual = WorldOptions::new(seed, 8, profile.settings());
    let lease = profile.lease_timing();
    let options = WorldOptions { voters: 3, second: Some(second), lease, ..usual };
    let mut world = World::planted(options, false, bug.map(|bug| Box::new(bug) as Box<dyn Plant>));
    world.run_for(SECOND * 30);
    // Their terms differ.
    for nth in 0..seed % 4 {
        let leaders: Vec<usize> = (0..8).filter(|node| world.is_leading(*node)).collect();
        assert_eq!(leaders.len(), 2, "seed {seed}: each is led");
        let ticket = world.ticket();
        assert!(world.command(leaders[(nth + seed / 4) as usize % 2], Command::Resign { ticket, to: None }));
        world.run_for(SECOND * 12);
    }
    world
}

/// Runs until something is so; returns true if it came true before the deadline.
fn run_while(world: &mut World, deadline: Duration, goes_on: impl Fn(&World) -> bool) -> bool {
    while goes_on(world) {
        if world.now() >= deadline || !world.violations().is_empty() {
            return false;
        }
        world.run_for(Duration::from_millis(5));
    }
    true
}

/// Has the two meet; returns the time from the first packet across, or from the end of the last cut, until all name one leader,
/// whose writes are taken by a store that both wrote to.
fn meets(world: &mut World, seed: u64, meeting: Meeting) -> Duration {
    let (one, other) = (seed as usize % 3, 3 + seed as usize % 5);
    let conditions = Conditions { loss: 0.25, ..Conditions::default() };
    let mut cut_until = Duration::ZERO;
    match meeting {
        Meeting::AfterCuts => {
            world.partition(&[0, 1, 2], Some(SECOND * 6));
            world.partition(&[0, 3, 4], Some(SECOND * 9));
            cut_until = world.now() + SECOND * 9;
        }
        Meeting::WithLoss => world.disturb(conditions, SECOND * 120),
        Meeting::AtOnce | Meeting::WithRestart | Meeting::WithKills => {}
    }
    let about = format!("{meeting:?}, seed {seed}");
    // The command asks once; where no answer comes an operator repeats it.
    let has_joined = |world: &World| world.core(other).is_some_and(|core| core.record(world.id(one)).is_some());
    while !has_joined(world) {
        let (ticket, addresses) = (world.ticket(), vec![world.address(one)]);
        assert!(world.command(other, Command::Join { ticket, addresses }) && world.now() < SECOND * 180, "{about}");
        let patience = world.now() + SECOND;
        run_while(world, patience, |world| !has_joined(world));
    }
    let met_at = world.met_at().expect("they met");
    let restarted = match meeting {
        Meeting::WithRestart => 1,
        Meeting::WithKills => 8,
        _ => 0,
    };
    for node in (0..restarted).map(|nth| (nth * 3 + seed as usize) % 8) {
        world.run_for(Duration::from_millis(50 + seed % 5 * 50));
        if meeting == Meeting::WithKills {
            world.crash(node);
        } else {
            world.command(node, Command::Leave);
            let patience = world.now() + SECOND * 2;
            assert!(run_while(world, patience, |world| world.core(node).is_some()), "{about}: {node} leaves");
        }
        assert!(world.start(node), "{about}");
    }
    let met_at = met_at.max(cut_until);
    let is_one = run_while(world, met_at + SECOND * 60, |world| !world.is_led_in_order() || world.now() < cut_until);
    assert!(
        is_one && world.violations().is_empty(),
        "{about}: {:?}, {:?}",
        world.leadership_divergence(),
        world.violations()
    );
    let took = world.now().saturating_sub(met_at);
    world.settle_store();
    world.run_for(SECOND * 20);
    assert!(world.is_led_in_order(), "{about}: {:?}", world.leadership_divergence());
    for core in (0..8).filter_map(|node| world.core(node)) {
        assert_eq!(core.other_electorate(), None, "{about}: {} still tells of it", core.me().id);
    }
    took
}

#[test]
fn clusters_of_three_and_of_five_that_are_joined_have_one_leader_within_three_seconds_of_the_first_packet() {
    let bounds = [
        (Meeting::AtOnce, SECOND * 3),
        (Meeting::AfterCuts, SECOND * 3),
        (Meeting::WithLoss, SECOND * 10),
        (Meeting::WithRestart, SECOND * 3),
        (Meeting::WithKills, SECOND * 3 + Profile::Lan.lease_timing().lease_duration + SECOND * 2),
    ];
    for (meeting, bound) in bounds {
        let mut slowest = Duration::ZERO;
        for seed in 0..8 {
            let mut world = three_and_five(Profile::Lan, seed, None);
            let took = meets(&mut world, seed, meeting);
            println!("{meeting:?}, seed {seed}: {took:?}, {:?}", world.electorates_reached());
            slowest = slowest.max(took);
            let reached = world.electorates_reached();
            assert_eq!(world.violations(), [], "{meeting:?}, seed {seed}");
            assert!(reached.led == 2 && reached.ended == [1, 0], "{meeting:?}, seed {seed}: {reached:?}");
            assert!(reached.settled.iter().all(|writes| *writes > 0), "{meeting:?}, seed {seed}: {reached:?}");
            assert!(took <= bound, "{meeting:?}, seed {seed}: {took:?}");
        }
        println!("{meeting:?}: {slowest:?} at most");
    }
}

fn found(world: &World) -> Vec<Invariant> {
    world.violations().iter().map(|violation| violation.invariant).collect()
}

pub(crate) fn an_end_that_the_disk_forgets() -> Vec<Invariant> {
    let bug = Bug::forgetful();
    let armed = bug.alarm();
    let mut world = three_and_five(Profile::Lan, 0, Some(bug));
    armed.store(true, Ordering::Relaxed);
    meets(&mut world, 0, Meeting::AtOnce);
    for node in 0..8 {
        world.crash(node);
        world.start(node);
    }
    found(&world)
}

pub(crate) fn a_leader_that_uses_an_old_token() -> Vec<Invariant> {
    let bug = Bug::leadership(|_, told| {
        if told.is_me {
            told.term = Term(0);
        }
    });
    let armed = bug.alarm();
    let mut world = three_and_five(Profile::Lan, 0, Some(bug));
    meets(&mut world, 0, Meeting::AtOnce);
    armed.store(true, Ordering::Relaxed);
    world.run_for(SECOND * 5);
    found(&world)
}
