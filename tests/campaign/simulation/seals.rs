//! Sealed clusters: keys are rotated under them, one node is down meanwhile, and somebody plays again everything that it
//! recorded, without a key and with an old one. What a rule prevents is done by hand, and noticed.

use std::time::Duration;

use headcount_campaign::World;
use headcount_campaign::invariants::Invariant;
use headcount_campaign::{Campaign, Outcome, campaign_settings, run_seed_of};
use headcount_core::Command;
use headcount_core::{Profile, Settings};
use headcount_seal::SealError;
use headcount_sim::{Misdirection, WorldOptions, key_of};

use super::{from_environment, run_all};

const SECOND: Duration = Duration::from_secs(1);
const NODES: usize = 8;
const VOTERS: usize = 3;
/// The node that is down while keys are rotated.
const AWAY: usize = NODES - 1;

fn sealed(seed: u64) -> World {
    let settings = Settings { observers: 5, ..campaign_settings() };
    let lease = Profile::Local.lease_timing();
    World::new(WorldOptions { sealed: true, voters: VOTERS, lease, ..WorldOptions::new(seed, NODES, settings) })
}

/// Returns the first promise that is broken, or that the nodes differ.
fn trouble(world: &World) -> Option<String> {
    world.violations().first().map(ToString::to_string).or_else(|| world.divergence())
}

fn refused(world: &World, error: SealError) -> u64 {
    world.seal_counts().refused[error.index()]
}

fn on_all(world: &mut World, but: Option<usize>, step: impl Fn(&mut World, usize)) {
    for node in (0..world.nodes()).filter(|node| Some(*node) != but) {
        step(world, node);
        // Some have taken the step, others have not.
        world.run_for(SECOND / 10);
    }
}

/// A cluster's life from its first key to its second: a node is down meanwhile, another one restarts, and an old key is
/// used by somebody else. Returns the first promise that was broken. If removed keys are kept, the last node's file still
/// holds the old one, and is put in the place of all others.
fn rotated(seed: u64, keeps_removed: bool) -> Result<World, String> {
    let mut world = sealed(seed);
    let unbroken = |world: &World, when: &str| match trouble(world) {
        Some(trouble) => Err(format!("{when}: {trouble}")),
        None => Ok(()),
    };
    world.run_for(SECOND * 8);
    unbroken(&world, "formed")?;
    world.start_recorder(None);
    world.run_for(SECOND * 4);
    world.crash(AWAY);
    world.run_for(SECOND * 4);
    on_all(&mut world, Some(AWAY), |world, node| world.add_key(node, 2));
    on_all(&mut world, Some(AWAY), |world, node| world.use_key(node, 2));
    world.run_for(SECOND * 4);
    unbroken(&world, "the second key seals")?;
    // Who was away hears nobody, and would learn from its log which key it lacks.
    let before = refused(&world, SealError::UnknownKey(key_of(2).id()));
    world.start(AWAY);
    world.run_for(SECOND * 6);
    let hears = (0..AWAY).find(|other| {
        let held = world.core(AWAY).and_then(|core| core.record(world.id(*other)));
        held.is_some_and(|held| held.status.is_live())
    });
    if let Some(other) = hears {
        return Err(format!("a node without the key knows of {other}"));
    }
    if refused(&world, SealError::UnknownKey(key_of(2).id())) == before {
        return Err("a node without the key is not told so".to_owned());
    }
    world.add_key(AWAY, 2);
    world.use_key(AWAY, 2);
    world.run_for(SECOND * 6);
    unbroken(&world, "the node that was away has the key")?;
    on_all(&mut world, keeps_removed.then_some(AWAY), |world, node| world.remove_key(node, 1));
    if keeps_removed {
        world.use_key(AWAY, 2);
        world.hand_latest_keys();
    }
    world.run_for(SECOND * 4);
    unbroken(&world, "the first key is removed")?;
    // A restart finds the second key; somebody has the first one.
    world.start_recorder(Some(1));
    world.crash(4);
    world.run_for(SECOND * 3);
    world.start(4);
    world.run_for(SECOND * 8);
    unbroken(&world, "a member has restarted, and somebody has the old key")?;
    Ok(world)
}

#[test]
fn keys_are_rotated_while_everything_recorded_is_played_again_and_no_promise_breaks() {
    for seed in 1..=4 {
        let world = rotated(seed, false).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        let counts = world.seal_counts();
        println!("seed {seed}: {counts:?}");
        assert!(counts.sealed > 1_000 && counts.frames > 50 && counts.played > 3_000, "{counts:?}");
        for error in [SealError::Replayed, SealError::Unsealed, SealError::UnknownKey(key_of(1).id())] {
            assert!(refused(&world, error) > 100, "{error}: {counts:?}");
        }
        let all_have = (0..world.nodes()).all(|node| world.keys(node) == [key_of(2).id()]);
        assert!(all_have, "seed {seed}");
    }
}

pub(crate) fn a_nonce_that_is_used_twice() -> Vec<Invariant> {
    let mut world = sealed(1);
    // Numbers well above those of the core, and then the core's own again.
    world.skip_numbers(0, 100);
    world.run_for(SECOND * 2);
    world.begin_seals(0);
    world.run_for(SECOND * 6);
    world.violations().iter().map(|violation| violation.invariant).collect()
}

#[test]
fn a_removed_key_that_is_still_accepted_is_noticed() {
    let noticed = rotated(1, true).err().unwrap_or_default();
    assert!(noticed.contains("with a key that was removed"), "{noticed}");
}

/// Whatever may make a node forget what it has opened, while everything recorded is played again: thousands of runs of long ago,
/// before and after members crash, leave and lose their power, are forgotten, and come back; and a sender whose numbers are
/// far ahead by now. If a node forgets, it knows at once of nothing any more that it has opened.
fn forgotten(seed: u64, forgets: bool) -> Result<World, String> {
    let [crashed, left, dark] = [4, 5, 6];
    let mut world = sealed(seed);
    world.start_recorder(None);
    world.run_for(SECOND * 8);
    for node in 0..3 {
        world.play_of_old_runs(node, 1..10_000);
    }
    if forgets {
        world.begin_seals(1);
    }
    world.skip_numbers(1, 1 << 17);
    world.run_for(SECOND * 4);
    world.crash(crashed);
    world.command(left, Command::Leave);
    world.power_off(dark);
    world.run_for(campaign_settings().reap_after + SECOND * 20);
    for node in 0..3 {
        world.play_of_old_runs(node, 10_000..15_000);
    }
    world.run_for(SECOND * 4);
    for node in [crashed, left, dark] {
        world.start(node);
    }
    world.run_for(SECOND * 10);
    trouble(&world).map_or(Ok(world), Err)
}

#[test]
fn nothing_is_opened_twice_whatever_came_between() {
    for seed in 1..=2 {
        let world = forgotten(seed, false).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        assert!(refused(&world, SealError::Replayed) > 1_000, "{:?}", world.seal_counts());
    }
    let noticed = forgotten(1, true).err().unwrap_or_default();
    assert!(noticed.contains("was opened before"), "{noticed}");
}

/// A host loses its power, and whoever recorded what it sent plays each datagram to those whom it was not meant for, with
/// its address. Returns the time until all others have found it gone.
fn dead_played(mut world: World) -> (World, Duration) {
    const DEAD: usize = 5;
    world.run_for(SECOND * 8);
    world.misdirect(Misdirection::AfterDeath(DEAD));
    world.run_for(SECOND * 6);
    world.power_off(DEAD);
    let began = world.now();
    let is_taken_for_live = |world: &headcount_sim::World| {
        (0..NODES).filter(|node| *node != DEAD).any(|node| {
            let held = world.core(node).and_then(|core| core.record(world.id(DEAD)));
            held.is_some_and(|held| held.status.is_live())
        })
    };
    world.run_while(began + SECOND * 10, SECOND / 10, is_taken_for_live);
    let took = world.now().saturating_sub(began);
    world.run_until(began + SECOND * 10);
    (world, took)
}

#[test]
fn nobody_takes_the_dead_for_alive_by_what_they_said_to_others() {
    for seed in 1..=4 {
        let (world, took) = dead_played(sealed(seed));
        assert_eq!(trouble(&world), None, "seed {seed}");
        assert!(took <= SECOND * 5 / 2, "seed {seed}: found after {took:?}");
        assert!(refused(&world, SealError::Misdirected) > 300, "{:?}", world.seal_counts());
        let clear = World::new(WorldOptions { sealed: false, ..sealed(seed).options().clone() });
        let (_, took) = dead_played(clear);
        assert!(took > SECOND * 4, "seed {seed}: unsealed, they are believed: {took:?}");
    }
}

/// Leaders crash again and again, and those who are left are cut in two, while everything that a voter on one side is told is
/// told to one on the other side, too.
fn votes_played(seed: u64) -> Result<World, String> {
    let settings = Settings { observers: 5, ..campaign_settings() };
    let lease = Profile::Local.lease_timing();
    let mut world = World::new(WorldOptions { sealed: true, voters: 5, lease, ..WorldOptions::new(seed, 5, settings) });
    world.run_for(SECOND * 8);
    for _ in 0..3 {
        let Some(leader) = world.leader() else { return Err("nobody leads".to_owned()) };
        world.crash(leader);
        // Two and two: neither side has a majority, and both have candidates for the same terms.
        let rest: Vec<usize> = (0..5).filter(|voter| *voter != leader).collect();
        world.misdirect(Misdirection::Between(rest[0], rest[2]));
        world.partition(&rest[..2], Some(SECOND * 6));
        world.run_for(SECOND * 7);
        world.start(leader);
        world.run_for(SECOND * 6);
    }
    trouble(&world).map_or(Ok(world), Err)
}

#[test]
fn no_vote_counts_for_another_candidate_than_the_one_that_it_was_given() {
    for seed in 1..=6 {
        let world = votes_played(seed).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        assert!(refused(&world, SealError::Misdirected) > 200, "{:?}", world.seal_counts());
    }
}

/// Lets somebody in without a key who plays what it recorded, and says it in the clear; returns the first promise that was broken.
fn without_key(takes_clear: bool) -> World {
    let mut world = sealed(1);
    world.run_for(SECOND * 8);
    if takes_clear {
        world.prefer_seals();
    }
    world.start_recorder(None);
    world.run_for(SECOND * 4);
    world
}

#[test]
fn whoever_has_no_key_is_not_even_answered() {
    let world = without_key(false);
    assert_eq!(trouble(&world), None);
    assert!(refused(&world, SealError::Unsealed) > 100, "{:?}", world.seal_counts());
}

pub(crate) fn answers_to_somebody_who_never_asked() -> Vec<Invariant> {
    let world = without_key(true);
    world.violations().iter().map(|violation| violation.invariant).collect()
}

#[test]
fn random_faults_break_no_promise_of_sealed_clusters_whose_key_is_rotated() {
    if let Some(seed) = from_environment("HEADCOUNT_SIM_SEALED_SEED") {
        let outcome = run_seed_of(Campaign::Sealed, seed, true);
        println!("{}\n{outcome}", outcome.lines.join("\n"));
        assert!(outcome.violation.is_none(), "{}", outcome.failure().unwrap_or_default());
        return;
    }
    let first = from_environment("HEADCOUNT_SIM_SEALED_FIRST").unwrap_or(0);
    let count = from_environment("HEADCOUNT_SIM_SEALED_SEEDS").unwrap_or(40);
    let outcomes = run_all(Campaign::Sealed, first, count);
    let failures: Vec<_> = outcomes.iter().filter_map(Outcome::failure).collect();
    let rotated = outcomes.iter().filter(|outcome| outcome.reached.get("key leaked") == Some(&1)).count() as u64;
    let outdated: u64 = outcomes.iter().map(|outcome| outcome.seals.outdated).sum();
    let unknown = SealError::UnknownKey(key_of(2).id()).index();
    let refused: u64 = outcomes.iter().map(|outcome| outcome.seals.refused[unknown]).sum();
    println!("{count} seeds, {outdated} processes without the key in use, {refused} packets refused for their key");
    assert!(failures.is_empty(), "{} of {count} sealed seeds failed:\n{}", failures.len(), failures.join("\n"));
    let clear: u64 = outcomes.iter().map(|outcome| outcome.seals.refused[SealError::Unsealed.index()]).sum();
    assert!(rotated == count && outdated > count / 4 && refused > 100 * count && clear > 100 * count);
}
