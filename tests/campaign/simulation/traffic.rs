//! The cost of an idle cluster on the wire, whatever its size.

use std::time::Duration;

use headcount_core::Profile;
use headcount_sim::network::Conditions;
use headcount_sim::{World, WorldOptions};

/// Returns the bytes that one node sends per second while nothing happens, headers included, in a cluster that all have joined long
/// ago.
fn idle(nodes: usize, profile: Profile, loss: f64, sealed: bool) -> f64 {
    let conditions = Conditions { loss, ..Conditions::default() };
    let mut world =
        World::formed(WorldOptions { conditions, sealed, ..WorldOptions::new(1, nodes, profile.settings()) });
    world.run_for(Duration::from_secs(30));
    let sent = |world: &World| (0..nodes).map(|node| world.sent(node).bytes).sum::<u64>();
    let before = sent(&world);
    world.run_for(Duration::from_secs(60));
    (sent(&world) - before) as f64 / 60.0 / nodes as f64
}

#[test]
fn an_idle_node_of_a_sealed_cluster_sends_little_more() {
    for (profile, budget) in [(Profile::Default, 300.0), (Profile::Lan, 400.0), (Profile::Fast, 300.0)] {
        for nodes in [10, 50, 100] {
            let (sealed, clear) = (idle(nodes, profile, 0.0, true), idle(nodes, profile, 0.0, false));
            println!("{nodes} nodes, {profile}: {sealed:.0} B/s sealed, {clear:.0} B/s clear");
            assert!(sealed <= budget && sealed > clear, "{nodes} nodes, {profile}: {sealed:.0} B/s");
        }
    }
}

#[test]
fn an_idle_node_sends_little_at_every_size_and_on_a_lossy_network() {
    for (profile, budget) in [(Profile::Default, 255.0), (Profile::Lan, 330.0), (Profile::Fast, 345.0)] {
        for nodes in [10, 50, 100] {
            let (quiet, lossy) = (idle(nodes, profile, 0.0, false), idle(nodes, profile, 0.05, false));
            println!("{nodes} nodes, {profile}: {quiet:.0} B/s, {lossy:.0} B/s at 5 % loss");
            assert!(quiet.max(lossy) <= budget, "{nodes} nodes, {profile}: {quiet:.0} B/s, {lossy:.0} at 5 % loss");
        }
    }
}
