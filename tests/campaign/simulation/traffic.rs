//! The cost of an idle cluster on the wire, whatever its size.

use headcount_core::Profile;
use headcount_sim::scenario::{Scenario, ScenarioOptions, run_scenario};

/// Returns the bytes that one node sends per second while nothing happens, headers included.
fn idle(nodes: usize, profile: Profile, loss: f64) -> f64 {
    run_scenario(&ScenarioOptions { loss, ..ScenarioOptions::new(Scenario::Join, nodes, profile) }).idle.bytes
}

#[test]
fn an_idle_node_of_a_sealed_cluster_sends_little_more() {
    for (profile, budget) in [(Profile::Default, 300.0), (Profile::Lan, 540.0)] {
        for nodes in [10, 50, 100] {
            let options = ScenarioOptions { sealed: true, ..ScenarioOptions::new(Scenario::Join, nodes, profile) };
            let (sealed, clear) = (run_scenario(&options).idle.bytes, idle(nodes, profile, 0.0));
            println!("{nodes} nodes, {profile}: {sealed:.0} B/s sealed, {clear:.0} B/s clear");
            assert!(sealed <= budget && sealed > clear, "{nodes} nodes, {profile}: {sealed:.0} B/s");
        }
    }
}

#[test]
fn an_idle_node_sends_little_at_every_size_and_on_a_lossy_network() {
    for (profile, budget) in [(Profile::Default, 250.0), (Profile::Lan, 450.0)] {
        for nodes in [10, 50, 100] {
            let (quiet, lossy) = (idle(nodes, profile, 0.0), idle(nodes, profile, 0.05));
            println!("{nodes} nodes, {profile}: {quiet:.0} B/s, {lossy:.0} B/s at 5 % loss");
            assert!(quiet.max(lossy) <= budget, "{nodes} nodes, {profile}: {quiet:.0} B/s, {lossy:.0} at 5 % loss");
        }
    }
}
