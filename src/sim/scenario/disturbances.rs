//! Scenarios in which nodes, or the network, do badly for a while and go on.

use std::time::Duration;

use super::acts::settle;
use super::outcome::Outcome;
use super::stage::Stage;
use crate::World;
use crate::network::{Burst, Conditions, NodeLoss, NodeSet};
use crate::report::Report;
use headcount_core::Settings;
use headcount_core::election::LeaseTiming;

/// Duration of each cut, and of each time without one, of a link that flips and flops.
const FLIP_FLOP: Duration = Duration::from_secs(20);

/// Returns the time for which a disturbance lasts if it says nothing else.
pub(super) fn usual(settings: &Settings, _: LeaseTiming) -> Duration {
    settings.down_timeout * 4
}

/// Returns the time of three cuts, each with a time without one.
pub(super) fn six_flips(_: &Settings, _: LeaseTiming) -> Duration {
    FLIP_FLOP * 6
}

pub(super) fn slow(stage: &mut Stage<'_>, report: &mut Report) -> Outcome {
    let (slow, lasting) = (one_in(&stage.world, 5), usual_in(&stage.world));
    let by = stage.world.options().settings.heartbeat_interval / 2;
    disturb(stage, report, slow, lasting, |world, node| {
        world.slow(node, by, lasting);
    })
}

pub(super) fn one_way_loss(stage: &mut Stage<'_>, report: &mut Report) -> Outcome {
    let (lossy, lasting) = (one_in(&stage.world, 100), usual_in(&stage.world));
    let loss = NodeLoss { outgoing: 0.8, incoming: 0.0 };
    disturb(stage, report, lossy, lasting, |world, node| world.set_node_loss(node, loss, lasting))
}

pub(super) fn flip_flop(stage: &mut Stage<'_>, report: &mut Report) -> Outcome {
    let (deaf, lasting) = (one_in(&stage.world, 100), FLIP_FLOP * 6);
    disturb(stage, report, deaf, lasting, |world, node| {
        let deaf = NodeSet::of(&[node]);
        world.cut_in_turns(deaf.rest(), deaf, FLIP_FLOP, lasting);
    })
}

pub(super) fn bursts(stage: &mut Stage<'_>, report: &mut Report) -> Outcome {
    // One datagram in twelve is lost, mostly in a row.
    let burst = Some(Burst { begin: 0.02, end: 0.2, loss: 0.9 });
    let conditions = Conditions { burst, ..*stage.world.network.usual() };
    let lasting = usual_in(&stage.world);
    stage.world.disturb(conditions, lasting);
    stage.run_for(lasting);
    Outcome { goes_on: true, ..settle(stage, report) }
}

fn usual_in(world: &World) -> Duration {
    usual(&world.options().settings, world.options().lease)
}

/// Returns one node of each group of this size, at least one node in all; the last one of each group, so that the first
/// seed is spared.
fn one_in(world: &World, group: usize) -> Vec<usize> {
    let group = group.min(world.nodes());
    (0..world.nodes()).filter(|node| node % group == group - 1).collect()
}

/// Disturbs some nodes for a while; they go on running.
fn disturb(
    stage: &mut Stage<'_>,
    report: &mut Report,
    nodes: Vec<usize>,
    lasting: Duration,
    fault: impl Fn(&mut World, usize),
) -> Outcome {
    for node in &nodes {
        fault(&mut stage.world, *node);
    }
    stage.run_for(lasting);
    Outcome { disturbed: nodes.into_iter().collect(), goes_on: true, ..settle(stage, report) }
}
