//! Processes that die, and everything that looks like it: links break, ports refuse, and only the dead are Down.

use std::time::Duration;

use headcount_campaign::World;
use headcount_core::{ChangeKind, Command};
use headcount_core::{DetectionMethod, Profile, Status};
use headcount_sim::network::{Conditions, Latency, NodeSet};
use headcount_sim::{Sighting, Tcp, WorldOptions};

const SECOND: Duration = Duration::from_secs(1);

/// Returns a cluster whose neighbours are all linked.
fn linked(seed: u64, nodes: usize, profile: Profile) -> World {
    linked_with(WorldOptions::new(seed, nodes, profile.settings()))
}

fn linked_with(options: WorldOptions) -> World {
    let mut world = World::new(options);
    let nodes = world.nodes();
    let formed = world.run_while(SECOND * 120, SECOND / 10, |world| {
        world.divergence().is_some() || (0..nodes).any(|node| world.links(node) < 10.min(nodes - 1).min(5))
    });
    assert!(formed, "{:?}", world.divergence());
    world.run_for(SECOND * 5);
    world.watch();
    world
}

fn downs(world: &World) -> impl Iterator<Item = &Sighting> {
    world.sightings().iter().filter(|sighting| matches!(sighting.kind, ChangeKind::DetectedDown(_)))
}

/// Returns each report of a node as Down: the observer, the time since this moment, and the way in which it was found
/// out.
fn reports(world: &World, subject: usize, since: Duration) -> Vec<(usize, Duration, ChangeKind)> {
    downs(world)
        .filter(|sighting| sighting.subject == subject)
        .map(|sighting| (sighting.observer, Duration::from_nanos(sighting.at).saturating_sub(since), sighting.kind))
        .collect()
}

fn assert_kept(world: &World) {
    assert!(world.violations().is_empty(), "{:?}", world.violations());
}

#[test]
fn a_killed_process_is_down_everywhere_within_a_second_in_every_profile() {
    for profile in Profile::ALL {
        for nodes in [2, 3, 5, 50] {
            let mut world = linked(7, nodes, profile);
            let at = world.now();
            world.crash(nodes - 1);
            world.run_for(SECOND);
            let reports = reports(&world, nodes - 1, at);
            assert_eq!(reports.len(), nodes - 1, "{profile} {nodes}: {reports:?}");
            for (_, after, kind) in reports {
                assert!(after <= SECOND, "{profile} {nodes}: {after:?}");
                assert_eq!(kind, ChangeKind::DetectedDown(DetectionMethod::ConnectionLost));
            }
            assert_kept(&world);
        }
    }
}

#[test]
fn a_killed_process_is_found_over_a_slow_and_lossy_network() {
    let latency = Latency { base: SECOND / 20, jitter: SECOND / 100 };
    let conditions = Conditions { latency, loss: 0.05, ..Conditions::default() };
    let mut late = Vec::new();
    for seed in 0..20 {
        let mut world =
            linked_with(WorldOptions { conditions, ..WorldOptions::new(seed, 12, Profile::Default.settings()) });
        let at = world.now();
        world.crash(11);
        world.run_for(SECOND * 3);
        let reports = reports(&world, 11, at);
        assert_eq!(reports.len(), 11, "seed {seed}: {reports:?}");
        late.extend(reports.into_iter().map(|(_, after, _)| after).filter(|after| *after > SECOND));
    }
    assert!(late.len() <= 20, "{late:?}");
}

#[test]
fn ten_processes_killed_at_once_are_all_down_within_a_second() {
    let mut world = linked(3, 40, Profile::Default);
    for node in 30..40 {
        world.crash(node);
    }
    world.run_for(SECOND);
    for node in 30..40 {
        assert_eq!(
            reports(&world, node, Duration::ZERO).iter().filter(|(observer, ..)| *observer < 30).count(),
            30,
            "{node}"
        );
    }
    assert_kept(&world);
}

#[test]
fn the_last_survivor_reports_all_others() {
    let mut world = linked(3, 5, Profile::Default);
    for node in 1..5 {
        world.crash(node);
    }
    world.run_for(SECOND * 2);
    for node in 1..5 {
        assert_eq!(reports(&world, node, Duration::ZERO).len(), 1, "{node}");
    }
}

#[test]
fn a_process_that_restarts_at_once_is_reported_as_restarted_and_joins() {
    let mut world = linked(5, 5, Profile::Default);
    world.crash(4);
    world.start(4);
    let deadline = world.now() + SECOND * 10;
    let settled = world.run_while(deadline, SECOND / 100, |world| world.divergence().is_some());
    assert!(settled, "{:?}", world.divergence());
    for observer in 0..4 {
        let kinds: Vec<ChangeKind> = world
            .sightings()
            .iter()
            .filter(|sighting| sighting.observer == observer && sighting.subject == 4)
            .map(|sighting| sighting.kind)
            .filter(|kind| !matches!(kind, ChangeKind::Joining))
            .collect();
        assert_eq!(kinds, [ChangeKind::DetectedDown(DetectionMethod::Restarted), ChangeKind::Joined], "{observer}");
    }
    assert_kept(&world);
}

/// Checks that nobody is suspected, now or later, and that all links come back.
fn assert_nothing_happened(world: &mut World, lasting: Duration) {
    world.run_for(lasting);
    let accusations: Vec<&Sighting> = world
        .sightings()
        .iter()
        .filter(|sighting| matches!(sighting.kind, ChangeKind::DetectedDown(_) | ChangeKind::Suspected))
        .collect();
    assert!(accusations.is_empty(), "{accusations:?}");
    assert!(world.divergence().is_none());
    assert_kept(world);
}

#[test]
fn links_reset_in_the_middle_take_nobody_down() {
    let mut world = linked(1, 8, Profile::Local);
    for node in 0..8 {
        world.reset_links(node);
        world.run_for(SECOND / 3);
    }
    assert_nothing_happened(&mut world, SECOND * 10);
    assert!((0..8).all(|node| world.links(node) == 7), "links come back");
}

#[test]
fn a_firewall_that_rejects_links_takes_nobody_down() {
    for nodes in [2, 8, 30] {
        let mut world = linked(2, nodes, Profile::Local);
        world.set_tcp(Tcp::Rejected);
        assert_nothing_happened(&mut world, SECOND * 20);
        assert!((0..nodes).all(|node| world.links(node) == 0));
        world.set_tcp(Tcp::Open);
        assert_nothing_happened(&mut world, SECOND * 120);
        assert!((0..nodes).all(|node| world.links(node) > 0), "links come back");
    }
}

#[test]
fn a_firewall_that_rejects_links_takes_nobody_down_where_datagrams_are_lost() {
    for seed in 0..40 {
        let conditions = Conditions { loss: 0.25, ..Conditions::default() };
        let mut world = linked_with(WorldOptions { conditions, ..WorldOptions::new(seed, 5, Profile::Lan.settings()) });
        world.set_tcp(Tcp::Rejected);
        world.run_for(SECOND * 20);
        let wrong = downs(&world).count();
        assert_eq!(wrong, 0, "seed {seed}");
    }
}

#[test]
fn where_tcp_is_blocked_everything_else_works() {
    let mut world = World::new(WorldOptions::new(4, 12, Profile::Local.settings()));
    world.set_tcp(Tcp::Dropped);
    let agreed = world.run_while(SECOND * 20, SECOND / 10, |world| world.divergence().is_some());
    assert!(agreed);
    world.watch();
    world.run_for(SECOND * 20);
    assert!((0..12).all(|node| world.links(node) == 0));
    assert_eq!(downs(&world).count(), 0);
    let at = world.now();
    world.crash(11);
    world.run_for(SECOND * 3);
    let reports = reports(&world, 11, at);
    assert_eq!(reports.len(), 11);
    let timeout = Profile::Local.settings().down_timeout;
    for (_, after, kind) in reports {
        assert_eq!(kind, ChangeKind::DetectedDown(DetectionMethod::HeartbeatTimeout));
        assert!(after <= timeout + SECOND / 2, "{after:?}");
    }
}

#[test]
fn a_host_without_power_is_judged_by_its_silence() {
    let mut world = linked(6, 6, Profile::Local);
    let at = world.now();
    world.power_off(5);
    world.run_for(SECOND * 4);
    let reports = reports(&world, 5, at);
    assert_eq!(reports.len(), 5);
    for (_, after, kind) in reports {
        assert_eq!(kind, ChangeKind::DetectedDown(DetectionMethod::HeartbeatTimeout));
        assert!(after > SECOND && after <= SECOND * 5 / 2, "{after:?}");
    }
}

#[test]
fn a_paused_process_keeps_its_links_and_is_not_taken_for_dead() {
    let mut world = linked(8, 5, Profile::Default);
    world.pause(4, SECOND * 8);
    assert_nothing_happened(&mut world, SECOND * 30);
}

#[test]
fn who_cannot_reach_a_process_alone_is_overruled_by_those_who_hear_it() {
    let mut world = linked(9, 10, Profile::Local);
    // Between these two nothing passes, and their links break.
    for (from, to) in [(0, 9), (9, 0)] {
        world.cut(NodeSet::of(&[from]), NodeSet::of(&[to]), None);
    }
    world.reset_links(9);
    world.run_for(SECOND * 20);
    assert_eq!(downs(&world).count(), 0);
    assert_kept(&world);
}

#[test]
fn a_leaving_process_is_not_taken_for_a_crash() {
    let mut world = linked(10, 6, Profile::Default);
    world.command(5, Command::Leave);
    world.run_for(SECOND * 3);
    assert_eq!(downs(&world).count(), 0);
    assert!((0..5).all(|node| world.core(node).is_some_and(|core| {
        core.record(world.id(5)).is_some_and(|record| matches!(record.status, Status::Left(_)))
    })));
    assert_kept(&world);
}

/// Only a refusal is evidence: a connection that nobody answers says nothing about the process behind it.
#[test]
fn a_firewall_that_drops_links_takes_no_paused_process_down() {
    let mut world = linked(11, 5, Profile::Default);
    world.set_tcp(Tcp::Dropped);
    world.reset_links(4);
    world.pause(4, SECOND * 8);
    assert_nothing_happened(&mut world, SECOND * 30);
}

#[test]
fn links_that_are_not_needed_any_more_end_with_a_goodbye() {
    let mut world = linked(12, 12, Profile::Local);
    for _ in 0..20 {
        world.add_node();
        world.run_for(SECOND * 2);
    }
    world.command(31, Command::Leave);
    // Until the last newcomer is settled, there are two graphs, and whoever was displaced then is kept for a while.
    world.run_for(SECOND * 220);
    for node in 0..31 {
        let counters = world.core(node).expect("it runs").counters();
        assert_eq!(counters.links_lost, 0, "node {node}");
        assert!((5..=20).contains(&world.links(node)), "node {node} has {} links", world.links(node));
    }
    assert_kept(&world);
}

#[test]
fn where_datagrams_are_blocked_links_keep_neighbours_alive() {
    let mut world = linked(13, 2, Profile::Local);
    world.block_datagrams(0, 1);
    assert_nothing_happened(&mut world, SECOND * 20);
}

/// On a busy machine the last packets of the dead are read late, and the word of that arrives later still.
#[test]
fn a_killed_process_is_found_by_observers_that_are_late_with_everything() {
    for seed in 0..20 {
        let mut world = linked(seed, 12, Profile::Default);
        for node in 0..11 {
            world.slow(node, SECOND * 3 / 10, SECOND * 20);
        }
        world.run_for(SECOND);
        let at = world.now();
        world.crash(11);
        world.run_for(SECOND * 5);
        let reports = reports(&world, 11, at);
        assert_eq!(reports.len(), 11, "seed {seed}: {reports:?}");
        assert!(reports.iter().all(|(.., kind)| *kind == ChangeKind::DetectedDown(DetectionMethod::ConnectionLost)));
    }
}

/// A kernel may close the connections of a dead process before its port, which then takes new ones for a moment.
#[test]
fn a_port_that_outlives_its_process_for_a_moment_hides_no_crash() {
    for nodes in [2, 5, 30] {
        let mut world = linked(14, nodes, Profile::Default);
        let at = world.now();
        world.crash_with_lingering_port(nodes - 1, SECOND / 200);
        world.run_for(SECOND);
        let reports = reports(&world, nodes - 1, at);
        assert_eq!(reports.len(), nodes - 1, "{nodes}: {reports:?}");
        assert!(reports.iter().all(|(.., kind)| *kind == ChangeKind::DetectedDown(DetectionMethod::ConnectionLost)));
    }
}
