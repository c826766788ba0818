//! A host that is gone, and a process that hangs: told apart by the host's kernel, in the profile `fast`.

use std::collections::BTreeMap;
use std::time::Duration;

use headcount_campaign::World;
use headcount_core::{ChangeKind, DetectionMethod, Profile};
use headcount_sim::network::Conditions;
use headcount_sim::{Tcp, WorldOptions};

const SECOND: Duration = Duration::from_secs(1);
const SEEDS: std::ops::Range<u64> = 0..10;
const HOST_DOWN: Duration = Duration::from_millis(2_600);
const DOWN: Duration = Duration::from_millis(4_200);
/// Four heartbeats: the last ones before the silence may have been lost.
const LOST: Duration = Duration::from_millis(4 * 320);
/// The longest pauses that evict nobody.
const PROCESS_PAUSE: Duration = Duration::from_millis(3_500);
const HOST_PAUSE: Duration = Duration::from_secs(2);

/// Returns who held the last of so many nodes as Down at last, how long after `act` began and by which method, at 5 % loss.
fn found_down(
    seed: u64,
    nodes: usize,
    act: impl FnOnce(&mut World, usize),
) -> BTreeMap<usize, (Duration, DetectionMethod)> {
    let conditions = Conditions { loss: 0.05, ..Conditions::default() };
    let mut world =
        World::formed(WorldOptions { conditions, ..WorldOptions::new(seed, nodes, Profile::Fast.settings()) });
    world.run_for(SECOND * 20 + Duration::from_millis(seed * 137));
    world.watch();
    let (it, began) = (nodes - 1, world.now());
    act(&mut world, it);
    world.run_for(DOWN * 2);
    let mut found = BTreeMap::new();
    for sighting in world.sightings().iter().filter(|sighting| sighting.observer != it) {
        assert_eq!(sighting.subject, it, "seed {seed}: {sighting:?}");
        if let ChangeKind::DetectedDown(method) = sighting.kind {
            let after = Duration::from_nanos(sighting.at).saturating_sub(began);
            found.insert(sighting.observer, (after, method));
        }
    }
    found
}

#[test]
fn a_host_without_power_is_down_everywhere_by_the_silence_of_its_kernel() {
    for (seed, nodes) in SEEDS.flat_map(|seed| [2, 5, 30].map(|nodes| (seed, nodes))) {
        let found = found_down(seed, nodes, |world, it| _ = world.power_off(it));
        assert_eq!(found.len(), nodes - 1, "seed {seed}");
        for (after, method) in found.into_values() {
            assert_eq!(method, DetectionMethod::HostSilent, "seed {seed}, {nodes} nodes");
            assert!(after <= HOST_DOWN + SECOND / 20 && after + LOST >= HOST_DOWN, "seed {seed}: {after:?}");
        }
    }
}

#[test]
fn a_process_that_hangs_has_its_whole_down_timeout_for_its_kernel_answers() {
    for (seed, nodes) in SEEDS.flat_map(|seed| [5, 30].map(|nodes| (seed, nodes))) {
        let short = found_down(seed, nodes, |world, it| _ = world.pause(it, PROCESS_PAUSE));
        assert_eq!(short, BTreeMap::new(), "seed {seed}, {nodes} nodes");
        let found = found_down(seed, nodes, |world, it| _ = world.pause(it, SECOND * 20));
        assert_eq!(found.len(), nodes - 1, "seed {seed}");
        assert!(found.values().any(|(_, method)| *method == DetectionMethod::ProcessStalled), "seed {seed}");
        for (after, method) in found.into_values() {
            assert_ne!(method, DetectionMethod::HostSilent, "seed {seed}");
            assert!(after <= DOWN + SECOND / 20 && after + LOST >= DOWN, "seed {seed}: {after:?}");
        }
    }
}

#[test]
fn a_host_whose_process_was_started_again_at_once_is_down_as_early() {
    for (seed, nodes) in SEEDS.flat_map(|seed| [5, 30].map(|nodes| (seed, nodes))) {
        let found = found_down(seed, nodes, |world, it| {
            world.crash(it);
            world.start(it);
            world.run_for(SECOND * 20);
            world.power_off(it);
        });
        let silent = found.values().filter(|(_, method)| *method == DetectionMethod::HostSilent).count();
        assert_eq!(silent, nodes - 1, "seed {seed}, {nodes} nodes: {found:?}");
    }
}

#[test]
fn a_whole_host_that_pauses_for_less_than_its_timeout_is_not_evicted() {
    for (seed, nodes) in SEEDS.flat_map(|seed| [5, 30].map(|nodes| (seed, nodes))) {
        let found = found_down(seed, nodes, |world, it| _ = world.pause_host(it, HOST_PAUSE));
        assert_eq!(found, BTreeMap::new(), "seed {seed}, {nodes} nodes");
    }
}

#[test]
fn the_silence_of_a_kernel_behind_a_firewall_means_nothing() {
    let settings = Profile::Fast.settings();
    for seed in SEEDS {
        let mut world = World::new(WorldOptions::new(seed, 5, settings.clone()));
        world.set_tcp(Tcp::Dropped);
        assert!(world.run_while(SECOND * 20, SECOND / 10, |world| world.divergence().is_some()), "seed {seed}");
        world.run_for(SECOND * 40);
        world.watch();
        world.pause(4, PROCESS_PAUSE);
        world.run_for(DOWN * 2);
        let downs = world.sightings().iter().filter(|seen| matches!(seen.kind, ChangeKind::DetectedDown(_))).count();
        assert_eq!(downs, 0, "seed {seed}");
    }
}

#[test]
fn a_process_that_hangs_on_a_host_that_is_switched_off_then_is_down_by_the_host() {
    for seed in SEEDS {
        let found = found_down(seed, 5, |world, it| {
            world.pause(it, SECOND * 20);
            world.run_for(SECOND * 2);
            world.power_off(it);
        });
        assert_eq!(found.len(), 4, "seed {seed}");
        for (after, method) in found.into_values() {
            assert_eq!(method, DetectionMethod::HostSilent, "seed {seed}");
            assert!(after > HOST_DOWN && after < DOWN, "seed {seed}: {after:?}");
        }
    }
}
