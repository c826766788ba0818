//! Machines that are put back to a snapshot of their memory or their disk, and disks that are copied.

use std::time::Duration;

use headcount_core::Profile;
use headcount_core::{ChangeKind, Command, Core, StopReason, Tags};
use headcount_sim::{World, WorldOptions};

const SEEDS: u64 = 16;
const SECOND: Duration = Duration::from_secs(1);

fn world(seed: u64, nodes: usize) -> World {
    let options = WorldOptions::new(seed, nodes, Profile::Local.settings());
    let mut world = World::new(WorldOptions { ..options });
    world.run_for(SECOND * 5);
    assert_eq!(world.divergence(), None, "seed {seed}");
    world
}

/// Changes a node's tags: its incarnation rises.
fn restate(world: &mut World, node: usize, value: u64) {
    let ticket = world.ticket();
    let tags = Tags::from_operator([("value".to_owned(), value.to_string())].into()).expect("short");
    assert!(world.command(node, Command::SetTags { ticket, tags }));
    world.run_for(SECOND);
}

/// Asserts that nobody but this node was reported as gone, and that all agree once it runs.
fn assert_nobody_else_suffers(world: &mut World, node: usize, about: &str) {
    world.run_for(SECOND * 10);
    let is_down = |kind: ChangeKind| matches!(kind, ChangeKind::DetectedDown(_));
    let wrong =
        world.sightings().iter().find(|seen| is_down(seen.kind) && seen.subject != node && seen.observer != node);
    assert!(wrong.is_none(), "{about}: {wrong:?}");
    if world.core(node).is_none() {
        // A supervisor starts it again.
        assert!(world.start(node), "{about}");
        world.run_for(SECOND * 10);
    }
    assert_eq!(world.divergence(), None, "{about}");
    assert!((0..world.nodes()).all(|node| world.core(node).is_some_and(Core::is_up)), "{about}: all are Up");
}

#[test]
fn a_process_whose_memory_is_put_back_stops_or_goes_on_and_nobody_else_suffers() {
    let (mut stopped, mut went_on) = (0, 0);
    for seed in 0..SEEDS {
        let nodes = [2, 3, 5, 12][seed as usize % 4];
        let node = seed as usize % nodes;
        for (has_raised, since) in [(false, 1), (false, 30), (true, 1), (true, 30)] {
            let about = format!("seed {seed}, {nodes} nodes, raised {has_raised}, {since} s");
            let mut world = world(seed, nodes);
            restate(&mut world, node, 1);
            let memory = world.memory(node).expect("it runs");
            world.run_for(SECOND * since);
            if has_raised {
                restate(&mut world, node, 2);
            }
            world.watch();
            assert!(world.put_memory_back(node, memory), "{about}");
            world.run_for(SECOND * 10);
            match world.ended(node) {
                // It meets a record of its own run above its incarnation, which it does not remember to have written.
                Some(StopReason::SetBack) => stopped += 1,
                other => {
                    assert_eq!(other, None, "{about}");
                    went_on += 1;
                }
            }
            assert_nobody_else_suffers(&mut world, node, &about);
        }
    }
    assert!(stopped > SEEDS && went_on > SEEDS, "{stopped} stopped, {went_on} went on");
}

#[test]
fn a_node_with_an_old_disk_or_another_nodes_comes_back_under_its_name() {
    for seed in 0..SEEDS {
        let nodes = [2, 3, 5, 12][seed as usize % 4];
        let (node, other) = (seed as usize % nodes, (seed as usize + 1) % nodes);
        for is_own in [true, false] {
            let about = format!("seed {seed}, {nodes} nodes, its own: {is_own}");
            let mut world = world(seed, nodes);
            let disk = world.disk(if is_own { node } else { other });
            for value in 1..4 {
                restate(&mut world, node, value);
            }
            assert!(world.crash(node));
            world.run_for(SECOND * (1 + seed as u32 % 7));
            world.watch();
            world.put_disk(node, disk);
            assert!(world.start(node), "{about}");
            assert_nobody_else_suffers(&mut world, node, &about);
        }
    }
}
