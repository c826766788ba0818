//! The nodes' reports of partitions.
//!
//! Must not know: the cause of the failure.

use super::World;
use crate::network::Nanos;
use headcount_core::{NodeId, Output};

/// One node's report of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionSighting {
    /// True time of the report.
    pub at: Nanos,
    /// The node that reports.
    pub observer: usize,
    /// True for a report of the end.
    pub is_over: bool,
    /// The unreachable side, in the order of names.
    pub unreachable: Vec<NodeId>,
    /// The reachable side, which includes the observer.
    pub reachable: Vec<NodeId>,
}

impl World {
    /// Returns the reports of partitions since [`World::watch`].
    pub fn partitions_seen(&self) -> &[PartitionSighting] {
        self.partitions_seen.as_deref().unwrap_or_default()
    }

    pub(super) fn saw_partition(&mut self, observer: usize, output: Output) {
        let Some(seen) = &mut self.partitions_seen else { return };
        let (is_over, unreachable, reachable) = match output {
            Output::PartitionSuspected { unreachable, reachable } => (false, unreachable, reachable),
            Output::PartitionHealed { unreachable, reachable } => (true, unreachable, reachable),
            _ => return,
        };
        seen.push(PartitionSighting { at: self.now, observer, is_over, unreachable, reachable });
    }
}
