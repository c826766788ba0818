//! One node that hears now and then among many: whom the others suspect for it.

use std::time::Duration;

use headcount_core::ChangeKind;
use headcount_core::Profile;
use headcount_sim::network::NodeSet;
use headcount_sim::{World, WorldOptions};

const ILL: usize = 41;
const NODES: usize = 100;

/// Returns the number of suspicions of healthy members that healthy observers believed.
fn false_suspicions(world: &World) -> usize {
    let is_false = |kind: ChangeKind| matches!(kind, ChangeKind::Suspected | ChangeKind::DetectedDown(_));
    let about_the_well =
        world.sightings().iter().filter(|sighting| sighting.observer != ILL && sighting.subject != ILL);
    about_the_well.filter(|sighting| is_false(sighting.kind)).count()
}

#[test]
fn a_node_that_hears_now_and_then_makes_nobody_suspect_the_well() {
    let (period, lasting) = (Duration::from_secs(20), Duration::from_secs(300));
    let mut world = World::formed(WorldOptions::new(1, NODES, Profile::Lan.settings()));
    world.run_for(Duration::from_secs(3));
    assert_eq!(world.divergence(), None, "formed");
    world.watch();
    let ill = NodeSet::of(&[ILL]);
    world.cut_in_turns(ill.rest(), ill, period, lasting);
    world.run_for(lasting);
    let average = false_suspicions(&world) as f64 / (NODES - 2) as f64;
    assert!(average <= 0.5, "{average} per observer; it was 149 when the deaf still spoke of others");
}
