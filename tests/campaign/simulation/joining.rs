//! Many joiners at one seed.

use std::time::Duration;

use headcount_core::Profile;
use headcount_sim::{World, WorldOptions};

use super::from_environment;

/// Nodes of a usual run: the work grows with their square. `HEADCOUNT_SIM_CROWD=1000` for the figure that is promised.
const NODES: u64 = 350;
/// "1,000 nodes join through one seed: all agree ≤ 4 s, the seed sends ≤ 5 MB", and so many bytes for each of them.
const SEED_BYTES_PER_NODE: u64 = 5_000;

#[test]
fn a_crowd_joins_through_one_seed_in_a_few_seconds() {
    let nodes = from_environment("HEADCOUNT_SIM_CROWD").unwrap_or(NODES) as usize;
    let options = WorldOptions { seeds: 1, ..WorldOptions::new(1, nodes, Profile::Lan.settings()) };
    let mut world = World::new(options);
    let agreed =
        world.run_while(Duration::from_secs(4), Duration::from_millis(50), |world| world.divergence().is_some());
    println!("{nodes} nodes agreed after {:?}, the seed sent {:?}", world.now(), world.sent(0));
    assert!(agreed, "{}", world.divergence().unwrap_or_default());
    assert!(world.sent(0).bytes <= SEED_BYTES_PER_NODE * nodes as u64, "the seed sent {:?}", world.sent(0));
}
