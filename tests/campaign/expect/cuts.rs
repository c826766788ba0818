//! Cuts that must be known on both sides by the down timeout, and reported whole before the first death by silence.
//!
//! Must not know: deaths that come alone.

use std::collections::BTreeMap;
use std::time::Duration;

use super::PEACE;
use crate::checks::Checks;
use crate::invariants::Invariant;
use headcount_core::limits::MIN_PARTITION;
use headcount_core::{ChangeKind, DetectionMethod, NodeId, Output};
use headcount_sim::network::Nanos;
use headcount_sim::{World, nanos};

/// A cut whose reports are being collected.
#[derive(Debug)]
pub(super) struct CutWatch {
    side: Vec<usize>,
    /// The nodes that ran when the cut began.
    there: Vec<usize>,
    upheavals: u64,
    at: Nanos,
    due: Nanos,
    /// The last report of each node.
    reported: BTreeMap<usize, (Vec<NodeId>, Vec<NodeId>)>,
    /// Nodes that have reported a first death by silence, and were judged then.
    judged: Vec<usize>,
}

impl Checks {
    /// Expects that a cut of some nodes from all others is known and reported in time. Returns the time after which that is judged.
    pub(super) fn expect_partition(
        &mut self,
        world: &World,
        side: &[usize],
        lasting: Option<Duration>,
    ) -> Option<Duration> {
        if !self.is_timely {
            return None;
        }
        let began = self.expectations.began(world);
        let bound = (0..world.nodes()).map(|node| Self::silence_bound(world, node)).max().unwrap_or_default();
        let is_promised = began.is_calm && began.peace >= nanos(PEACE) && lasting.is_none_or(|lasting| lasting > bound);
        if !is_promised || world.divergence().is_some() {
            return None;
        }
        let there = (0..world.nodes()).filter(|node| world.core(*node).is_some()).collect();
        let (side, at, upheavals) = (side.to_vec(), nanos(world.now()), self.expectations.upheavals);
        let (due, reported, judged) = (at + nanos(bound), BTreeMap::new(), Vec::new());
        self.expectations.cut = Some(CutWatch { side, there, upheavals, at, due, reported, judged });
        Some(bound)
    }

    pub(crate) fn judge_cut(&mut self, world: &World) {
        let (now, upheavals) = (nanos(world.now()), self.expectations.upheavals);
        let is_due = |watch: &mut CutWatch| watch.upheavals == upheavals && watch.due <= now;
        let Some(watch) = self.expectations.cut.take_if(is_due) else { return };
        self.expectations.judged.cuts += 1;
        let after = Duration::from_nanos(now - watch.at);
        for &node in &watch.there {
            let is_inside = watch.side.contains(&node);
            let Some(core) = world.core(node) else { continue };
            let across = watch.there.iter().filter(|other| watch.side.contains(other) != is_inside);
            let listed: Vec<String> = across
                .filter_map(|other| core.record(world.id(*other)).filter(|held| held.status.is_live()))
                .map(|held| format!("{} {}", held.id, held.status))
                .collect();
            if !listed.is_empty() {
                let detail = format!("{after:.1?} after the cut it still lists {}", listed.join(", "));
                return self.report(world, Some(node), Invariant::CutIsKnown, detail);
            }
        }
    }

    /// Takes note of a node's reports about a cut that is being watched.
    pub(crate) fn compare_with_expectations(&mut self, world: &World, node: usize, output: &Output) {
        let upheavals = self.expectations.upheavals;
        let Some(watch) = self.expectations.cut.as_mut().filter(|watch| watch.upheavals == upheavals) else { return };
        match output {
            Output::PartitionSuspected { unreachable, reachable } => {
                // Nodes that were gone before may still be named as missing.
                let there: Vec<&NodeId> = watch.there.iter().map(|there| world.id(*there)).collect();
                let honest = |ids: &[NodeId]| ids.iter().filter(|id| there.contains(id)).cloned().collect();
                watch.reported.insert(node, (honest(unreachable), honest(reachable)));
            }
            Output::Change(change)
                if matches!(
                    change.kind,
                    ChangeKind::DetectedDown(DetectionMethod::HeartbeatTimeout | DetectionMethod::NetworkPartition)
                ) && !watch.judged.contains(&node)
                    && watch.there.iter().any(|there| *world.id(*there) == change.record.id) =>
            {
                watch.judged.push(node);
                self.judge_report(world, node);
            }
            _ => {}
        }
    }

    /// Judges a node's report of a cut at its first report of a death by silence.
    fn judge_report(&mut self, world: &World, node: usize) {
        let Some(watch) = &self.expectations.cut else { return };
        let is_inside = watch.side.contains(&node);
        let names = |is_near: bool| {
            let nodes = watch.there.iter().filter(|other| (watch.side.contains(other) == is_inside) == is_near);
            let mut names: Vec<NodeId> = nodes.map(|other| world.id(*other).clone()).collect();
            names.sort();
            names
        };
        let (far, near) = (names(false), names(true));
        let members = watch.there.len();
        // Fewer are no cut; and if timings differ, nodes with short timeouts are gone before those with long ones are
        // missed.
        if far.len() < MIN_PARTITION || far.len() * 3 < members || !has_one_pace(world) {
            return;
        }
        let reported = watch.reported.get(&node);
        self.expectations.judged.reports += 1;
        let is_whole = reported.is_some_and(|(unreachable, reachable)| *unreachable == far && *reachable == near);
        if !is_whole {
            let short = |ids: &[NodeId]| ids.iter().map(NodeId::as_str).collect::<Vec<_>>().join(" ");
            let told = reported.map_or_else(
                || "nothing".to_owned(),
                |(unreachable, reachable)| {
                    format!("{} unreachable ({}), {} reachable", unreachable.len(), short(unreachable), reachable.len())
                },
            );
            let detail = format!("first Down, and it reported {told}; cut off are {} of {members}", far.len());
            self.report(world, Some(node), Invariant::CutIsReportedWhole, detail);
        }
    }
}

fn has_one_pace(world: &World) -> bool {
    (1..world.nodes()).all(|node| world.settings(node - 1).timing() == world.settings(node).timing())
}
