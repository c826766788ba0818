//! One node that hears badly, or is heard badly, among many: whom the others suspect for it.

use std::time::Duration;

use headcount_core::ChangeKind;
use headcount_core::Profile;
use headcount_sim::network::NodeSet;
use headcount_sim::{World, WorldOptions};

const ILL: usize = 41;
const NODES: usize = 100;

fn formed(seed: u64) -> World {
    let options = WorldOptions::new(seed, NODES, Profile::Lan.settings());
    let mut world = World::formed(options);
    world.run_for(Duration::from_secs(3));
    assert_eq!(world.divergence(), None, "formed");
    world.watch();
    world
}

/// Returns the number of suspicions of healthy members that healthy observers believed.
fn false_suspicions(world: &World) -> usize {
    let is_false = |kind: ChangeKind| matches!(kind, ChangeKind::Suspected | ChangeKind::DetectedDown(_));
    let about_the_well =
        world.sightings().iter().filter(|sighting| sighting.observer != ILL && sighting.subject != ILL);
    about_the_well.filter(|sighting| is_false(sighting.kind)).count()
}

/// Returns the number of deaths of the ill node that the healthy reported.
fn deaths_of_the_ill(world: &World) -> usize {
    let of_the_ill = world.sightings().iter().filter(|sighting| sighting.subject == ILL && sighting.observer != ILL);
    of_the_ill.filter(|sighting| matches!(sighting.kind, ChangeKind::DetectedDown(_))).count()
}

/// Lets one node ail for five minutes; returns the false suspicions per healthy observer.
fn false_suspicions_while(ail: impl Fn(&mut World, NodeSet, Duration)) -> (World, f64) {
    let lasting = Duration::from_secs(300);
    let mut world = formed(1);
    ail(&mut world, NodeSet::of(&[ILL]), lasting);
    world.run_for(lasting);
    let average = false_suspicions(&world) as f64 / (NODES - 2) as f64;
    (world, average)
}

#[test]
fn a_node_that_hears_nobody_makes_nobody_suspect_the_well() {
    let (world, average) = false_suspicions_while(|world, ill, lasting| world.cut(ill.rest(), ill, Some(lasting)));
    assert!(average <= 0.1, "{average} per observer; it was 60 when the deaf still spoke of others");
    assert_eq!(deaths_of_the_ill(&world), NODES - 1, "it is Down, once, everywhere");
}

#[test]
fn a_node_that_hears_now_and_then_makes_nobody_suspect_the_well() {
    let period = Duration::from_secs(20);
    let (_, average) =
        false_suspicions_while(|world, ill, lasting| world.cut_in_turns(ill.rest(), ill, period, lasting));
    assert!(average <= 0.5, "{average} per observer; it was 149 when the deaf still spoke of others");
}

#[test]
fn a_node_that_is_heard_now_and_then_makes_nobody_suspect_the_well() {
    // From spells in which it suspects hardly anybody to spells in which the others bury it.
    for period in [3, 7, 20].map(Duration::from_secs) {
        let (_, average) =
            false_suspicions_while(|world, ill, lasting| world.cut_in_turns(ill.clone(), ill.rest(), period, lasting));
        assert!(average <= 0.1, "{average} per observer with spells of {period:?}; it was 11.5 with spells of 20 s");
    }
}
