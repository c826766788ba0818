//! Crowds that come at one time, and that die at one time. `HEADCOUNT_SIM_CROWD=1000` makes them larger.

use std::time::Duration;

use headcount_campaign::missed_verdicts;
use headcount_core::ChangeKind;
use headcount_core::Profile;
use headcount_sim::{Tcp, World, WorldOptions};

const SECOND: Duration = Duration::from_secs(1);
/// The members that were there before.
const OLD: usize = 10;

fn crowd() -> usize {
    std::env::var("HEADCOUNT_SIM_CROWD").map_or(150, |count| count.parse().expect("a number of nodes"))
}

/// Returns old members, and a crowd of new ones that all know each other since a moment.
fn joined(crowd: usize, tcp: Tcp) -> World {
    let settings = Profile::Local.settings();
    let options = WorldOptions::new(3, OLD, settings);
    let mut world = World::new(options);
    world.run_for(SECOND * 30);
    assert_eq!(world.divergence(), None, "formed");
    for _ in 0..crowd {
        world.add_node();
    }
    let is_all_up = world.run_while(world.now() + SECOND * 60, SECOND / 4, |world| {
        (0..OLD + crowd).any(|node| world.core(node).is_none_or(|core| core.counts()[1] < OLD + crowd))
    });
    assert!(is_all_up, "everybody is a member");
    world.set_tcp(tcp);
    world.watch();
    world
}

/// Checks that all that live hold the dead as Down in time, and nobody that lives.
fn assert_found(mut world: World, dead: &[usize], within: Duration) {
    let by = world.now() + within;
    for node in dead {
        world.power_off(*node);
    }
    world.run_until(by);
    let living: Vec<usize> = (0..world.nodes()).filter(|node| !dead.contains(node)).collect();
    let missed = missed_verdicts(&world, &living, dead, by);
    assert!(missed.is_empty(), "{} missed: {:?}", missed.len(), missed.first());
    let is_wrong = |kind: &ChangeKind| matches!(kind, ChangeKind::DetectedDown(_));
    let wrong = world.sightings().iter().find(|seen| living.contains(&seen.subject) && is_wrong(&seen.kind));
    assert!(wrong.is_none(), "{wrong:?}");
}

#[test]
fn a_crowd_that_dies_as_soon_as_it_came_hides_no_death() {
    let settings = Profile::Local.settings();
    let crowd = crowd();
    for tcp in [Tcp::Open, Tcp::Dropped] {
        let dead: Vec<usize> = (OLD - 1..OLD + crowd).collect();
        assert_found(joined(crowd, tcp), &dead, settings.down_timeout + settings.heartbeat_interval * 2);
    }
}

#[test]
fn one_that_dies_as_soon_as_a_crowd_came_is_found_in_time() {
    let settings = Profile::Local.settings();
    for dead in [OLD - 1, OLD + crowd() - 1] {
        assert_found(joined(crowd(), Tcp::Dropped), &[dead], settings.down_timeout + settings.heartbeat_interval * 2);
    }
}
