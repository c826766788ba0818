//! Many gone at once: every survivor knows of every death in time, and of a cut both sides are named before the first.

use std::time::Duration;

use headcount_campaign::{incomplete_reports, missed_verdicts};
use headcount_core::ChangeKind;
use headcount_core::{DetectionMethod, Profile};
use headcount_sim::{World, WorldOptions};

const SECOND: Duration = Duration::from_secs(1);

/// Returns a cluster in which everybody has heard their neighbours.
fn formed(seed: u64, nodes: usize, profile: Profile) -> World {
    let options = WorldOptions::new(seed, nodes, profile.settings());
    let mut world = World::formed(options);
    world.run_for(profile.settings().heartbeat_interval * 2 + SECOND * 5);
    world.watch();
    world
}

/// Cuts the first nodes off from the others, and looks at both sides.
fn assert_cut_is_seen(seed: u64, nodes: usize, cut_off: usize, profile: Profile) {
    let mut world = formed(seed, nodes, profile);
    let (few, many): (Vec<usize>, Vec<usize>) = (0..nodes).partition(|node| *node < cut_off);
    let settings = profile.settings();
    let by = world.now() + settings.down_timeout + settings.heartbeat_interval;
    world.partition(&few, None);
    world.run_until(by + SECOND);
    let case = format!("{cut_off} of {nodes}, {profile}, seed {seed}");
    for (near, far) in [(&few, &many), (&many, &few)] {
        let late = missed_verdicts(&world, near, far, by);
        assert!(
            late.is_empty(),
            "{case}: {} of {} late: {:?}",
            late.len(),
            near.len() * far.len(),
            &late[..late.len().min(3)]
        );
        if far.len() >= 2 && far.len() * 3 >= nodes {
            let incomplete = incomplete_reports(&world, near, far);
            assert!(
                incomplete.is_empty(),
                "{case}: {} reports are not whole, such as {:?}",
                incomplete.len(),
                incomplete[0]
            );
        }
    }
    let wrong = world.sightings().iter().find(|seen| {
        matches!(seen.kind, ChangeKind::DetectedDown(_)) && (seen.observer < cut_off) == (seen.subject < cut_off)
    });
    assert!(wrong.is_none(), "{case}: {wrong:?}");
}

#[test]
fn one_node_cut_off_judges_all_others_in_time_and_names_them() {
    for profile in Profile::ALL {
        for nodes in [12, 30] {
            assert_cut_is_seen(1, nodes, 1, profile);
        }
    }
    assert_cut_is_seen(2, 100, 1, Profile::Lan);
    assert_cut_is_seen(2, 100, 1, Profile::Local);
    assert_cut_is_seen(2, 100, 1, Profile::Fast);
}

#[test]
fn one_node_cut_off_from_three_hundred_judges_them_in_time() {
    assert_cut_is_seen(1, 300, 1, Profile::Lan);
}

#[test]
fn both_sides_of_any_cut_judge_the_other_in_time_and_name_it() {
    for (nodes, cut_off) in [(100, 50), (30, 2), (60, 5)] {
        assert_cut_is_seen(3, nodes, cut_off, Profile::Lan);
    }
    for (nodes, cut_off, profile) in [(100, 33, Profile::Local), (60, 30, Profile::Default), (60, 12, Profile::Wan)] {
        assert_cut_is_seen(4, nodes, cut_off, profile);
    }
    for (seed, (nodes, cut_off)) in (1..).zip([(12, 4), (30, 10), (100, 33)]) {
        assert_cut_is_seen(seed, nodes, cut_off, Profile::Fast);
    }
}

#[test]
fn a_cut_that_is_over_in_time_evicts_nobody_in_the_profile_fast_though_turns_are_further_apart_than_its_timeout() {
    for (seed, (nodes, cut_off)) in (1..=3).flat_map(|seed| [(12, 4), (30, 10), (30, 1)].map(|cut| (seed, cut))) {
        let mut world = formed(seed, nodes, Profile::Fast);
        world.run_for(SECOND * 15);
        let few: Vec<usize> = (0..cut_off).collect();
        world.partition(&few, Some(SECOND * 8 / 5));
        world.run_for(SECOND * 10);
        let down = world.sightings().iter().find(|seen| matches!(seen.kind, ChangeKind::DetectedDown(_)));
        assert!(down.is_none(), "{cut_off} of {nodes}, seed {seed}: {down:?}");
        assert!(world.sightings().iter().any(|seen| seen.kind == ChangeKind::Suspected), "seed {seed}: it is noticed");
    }
}

/// Returns a cluster whose neighbours are linked, as some time after it formed.
fn linked(seed: u64, nodes: usize, profile: Profile) -> World {
    let mut world = formed(seed, nodes, profile);
    world.run_for(SECOND * 5);
    world
}

/// Kills all but the first, and looks at these after two seconds.
fn assert_deaths_are_known(seed: u64, nodes: usize, survivors: usize, profile: Profile) {
    let mut world = linked(seed, nodes, profile);
    let (living, dead): (Vec<usize>, Vec<usize>) = (0..nodes).partition(|node| *node < survivors);
    let by = world.now() + SECOND * 2;
    for node in &dead {
        world.crash(*node);
    }
    world.run_until(by);
    let case = format!("{} of {nodes} killed, {profile}, seed {seed}", dead.len());
    let late = missed_verdicts(&world, &living, &dead, by);
    assert!(
        late.is_empty(),
        "{case}: {} of {} late: {:?}",
        late.len(),
        living.len() * dead.len(),
        &late[..late.len().min(3)]
    );
    for seen in world.sightings().iter().filter(|seen| seen.observer < survivors) {
        if let ChangeKind::DetectedDown(method) = seen.kind {
            assert_eq!(method, DetectionMethod::ConnectionLost, "{case}");
            assert!(seen.subject >= survivors, "{case}: {seen:?}");
        }
    }
}

#[test]
fn nearly_all_processes_killed_at_once_are_down_at_the_survivors_within_two_seconds() {
    for profile in Profile::ALL {
        assert_deaths_are_known(5, 40, 3, profile);
        assert_deaths_are_known(5, 40, 1, profile);
    }
    for profile in [Profile::Local, Profile::Default, Profile::Lan] {
        assert_deaths_are_known(6, 100, 10, profile);
        assert_deaths_are_known(6, 100, 25, profile);
    }
}

#[test]
fn half_of_the_processes_killed_at_once_are_down_within_two_seconds() {
    for nodes in [20, 60, 100] {
        assert_deaths_are_known(7, nodes, nodes / 2, Profile::Default);
    }
}
