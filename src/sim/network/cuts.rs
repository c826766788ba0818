//! Cuts: no traffic of some kind from one set of nodes to another, for good or in turns.
//!
//! Must not know: who cuts, and when it is healed.

use super::Nanos;

/// A set of nodes, given by its members or by those not in it. Nodes added later belong to a set of the second kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSet {
    members: Vec<bool>,
    inverted: bool,
}

impl NodeSet {
    /// Returns the set of exactly these nodes.
    pub fn of(nodes: &[usize]) -> Self {
        let mut members = vec![false; nodes.iter().max().map_or(0, |most| most + 1)];
        for &node in nodes {
            members[node] = true;
        }
        Self { members, inverted: false }
    }

    /// Returns the set of all other nodes.
    #[must_use]
    pub fn rest(&self) -> Self {
        Self { members: self.members.clone(), inverted: !self.inverted }
    }

    /// Returns true if a node is in the set.
    pub fn contains(&self, node: usize) -> bool {
        self.members.get(node).copied().unwrap_or(false) != self.inverted
    }
}

/// Identifies a cut, so that it can be healed.
pub type CutId = u64;

/// The kinds of traffic that a cut stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CutTraffic {
    /// Datagrams and connections.
    #[default]
    Everything,
    /// Datagrams alone.
    Datagrams,
    /// Connections alone; data sent over them wait.
    Connections,
}

/// A cut: no traffic of some kind passes from one set of nodes to another.
#[derive(Debug, Clone)]
pub struct Cut {
    pub(super) from: NodeSet,
    pub(super) to: NodeSet,
    pub(super) stops: CutTraffic,
    /// Start and period of an alternating cut: it stands for one period, is gone for the next, and so on.
    pub(super) turns: Option<(Nanos, Nanos)>,
    /// Nodes that may be suspected because of the cut; `None` means every node.
    pub(super) suspectable: Option<Vec<usize>>,
    /// True if the cut also stops packets from outside the cluster.
    pub(super) includes_outside: bool,
}

impl Cut {
    /// Returns a cut of all traffic from `from` to `to`.
    pub fn new(from: NodeSet, to: NodeSet) -> Self {
        Self { from, to, stops: CutTraffic::Everything, turns: None, suspectable: None, includes_outside: false }
    }

    /// Restricts the cut to these kinds of traffic.
    #[must_use]
    pub fn stopping(self, stops: CutTraffic) -> Self {
        Self { stops, ..self }
    }

    /// Stops packets from outside the cluster as well.
    #[must_use]
    pub fn including_outside(self) -> Self {
        Self { includes_outside: true, ..self }
    }

    /// States that no other nodes than these may be suspected because of the cut: all others hear each other well
    /// enough.
    #[must_use]
    pub fn limiting_suspicion_to(self, nodes: Vec<usize>) -> Self {
        Self { suspectable: Some(nodes), ..self }
    }

    /// Returns the nodes that may be suspected because of the cut; `None` means every node.
    pub(crate) fn suspectable(&self) -> Option<&[usize]> {
        self.suspectable.as_deref()
    }

    fn holds(&self, now: Nanos) -> bool {
        self.turns.is_none_or(|(since, period)| (now.saturating_sub(since) / period.max(1)).is_multiple_of(2))
    }

    /// Returns true if it stops traffic of its kinds from one node to another now.
    pub(super) fn lies_between(&self, now: Nanos, from: usize, to: usize) -> bool {
        self.from.contains(from) && self.to.contains(to) && self.holds(now)
    }
}
