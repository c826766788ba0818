//! The virtual network: the fate of each datagram between two nodes.
//!
//! Latency, loss (independent, bursty, per node and direction), duplication, reordering (by jitter), corruption, and
//! cuts between sets of nodes, one-way or two-way, lasting or alternating. Datagrams are byte vectors and nodes are
//! numbers.
//!
//! Invariants: every decision comes from one seeded generator, so the same sends give the same deliveries; a datagram
//! is never delivered before it was sent; nothing sent while its direction is cut is delivered.
//!
//! | idea | file |
//! |---|---|
//! | latency, loss, bursts, corruption | `conditions` |
//! | sets of nodes, and cuts between them | `cuts` |
//! | the fate of each datagram, drawn | here |
//!
//! Must not know: the meaning of the bytes, what a node is, or the time on any clock but its own.

mod conditions;
mod cuts;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::random::{Purpose, Random, nanos};
pub use conditions::{Burst, Conditions, Late, Latency, NodeLoss};
pub use cuts::{Cut, CutId, CutTraffic, NodeSet};

/// True (virtual) time in nanoseconds since the start of the simulation.
pub type Nanos = u64;

/// The traffic that one node sent, headers of IP and UDP included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Number of datagrams.
    pub packets: u64,
    /// Number of bytes in them.
    pub bytes: u64,
}

/// A datagram that arrives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// Time of arrival.
    pub at: Nanos,
    /// The bytes, as they arrive.
    pub bytes: Vec<u8>,
    /// True if the bytes differ from those sent.
    pub is_corrupt: bool,
}

/// The virtual network.
#[derive(Debug)]
pub struct Network {
    random: Random,
    usual: Conditions,
    conditions: Conditions,
    cuts: BTreeMap<CutId, Cut>,
    next_cut: CutId,
    /// Links that are in the bad state of a burst.
    bursting: BTreeSet<(usize, usize)>,
    per_node: Vec<PerNode>,
    header_bytes: u64,
}

#[derive(Debug, Clone, Default)]
struct PerNode {
    loss: NodeLoss,
    /// Time until which everything that the node sends or receives waits.
    held_until: Nanos,
    sent: Traffic,
}

impl Network {
    /// Creates a network for the run with this seed. `header_bytes` are counted for each datagram: 28 for IPv4, 48 for
    /// IPv6.
    pub fn new(seed: u64, usual: Conditions, header_bytes: u64) -> Self {
        Self {
            random: Random::new(seed, Purpose::Network),
            usual,
            conditions: usual,
            cuts: BTreeMap::new(),
            next_cut: 0,
            bursting: BTreeSet::new(),
            per_node: Vec::new(),
            header_bytes,
        }
    }

    /// Returns the present conditions.
    pub fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// Returns the conditions without any disturbance.
    pub fn usual(&self) -> &Conditions {
        &self.usual
    }

    /// Changes the conditions from now on.
    pub fn set_conditions(&mut self, conditions: Conditions) {
        self.conditions = conditions;
        if conditions.burst.is_none() {
            self.bursting.clear();
        }
    }

    /// Cuts the direction from `from` to `to` until healed.
    pub fn cut(&mut self, from: NodeSet, to: NodeSet) -> CutId {
        self.add_cut(Cut::new(from, to))
    }

    /// Cuts the direction in turns: for one period from now on, then not for the next, and so on, until healed.
    pub fn cut_in_turns(&mut self, now: Nanos, from: NodeSet, to: NodeSet, period: Duration) -> CutId {
        self.add_cut(Cut { turns: Some((now, nanos(period))), ..Cut::new(from, to) })
    }

    /// Adds a cut, which stands until healed.
    pub fn add_cut(&mut self, cut: Cut) -> CutId {
        self.next_cut += 1;
        self.cuts.insert(self.next_cut, cut);
        self.next_cut
    }

    /// Cuts datagrams between two nodes in both directions; connections pass.
    pub fn block_datagrams(&mut self, one: usize, other: usize) {
        for (from, to) in [(one, other), (other, one)] {
            let (from, to) = (NodeSet::of(&[from]), NodeSet::of(&[to]));
            self.add_cut(Cut::new(from, to).stopping(CutTraffic::Datagrams));
        }
    }

    /// Delays everything that a node sends or receives until then; nothing is lost. The caller heals the cut at that
    /// time.
    pub fn hold(&mut self, node: usize, until: Nanos) -> CutId {
        self.per_node(node).held_until = until;
        self.cut(NodeSet::of(&[]), NodeSet::of(&[]))
    }

    /// Removes a cut. An unknown one is no error: it was healed before.
    pub fn heal(&mut self, cut: CutId) -> Option<Cut> {
        self.cuts.remove(&cut)
    }

    /// Sets the chances that datagrams from and to a node are lost.
    pub fn set_node_loss(&mut self, node: usize, loss: NodeLoss) {
        self.per_node(node).loss = loss;
    }

    /// Removes every disturbance.
    pub fn heal_all(&mut self) {
        self.cuts.clear();
        self.conditions = self.usual;
        for node in &mut self.per_node {
            node.loss = NodeLoss::default();
            node.held_until = 0;
        }
        self.bursting.clear();
    }

    /// Returns true if the network is undisturbed, apart from cuts that may bring suspicion on some nodes only.
    pub fn is_calm(&self) -> bool {
        self.cuts.values().all(|cut| cut.suspectable.is_some())
            && self.conditions == self.usual
            && self.per_node.iter().all(|node| node.loss == NodeLoss::default())
    }

    /// Returns true if datagrams from one node to another are cut off now.
    pub fn is_cut(&self, now: Nanos, from: usize, to: usize) -> bool {
        self.cuts.values().any(|cut| cut.stops != CutTraffic::Connections && cut.lies_between(now, from, to))
    }

    /// Returns true if a node is cut off from outside the cluster.
    pub fn is_cut_off_from_outside(&self, node: usize) -> bool {
        self.cuts.values().any(|cut| cut.includes_outside && cut.to.contains(node))
    }

    /// Returns true if segments from one node to another are cut off now.
    fn is_connection_cut(&self, now: Nanos, from: usize, to: usize) -> bool {
        self.cuts.values().any(|cut| cut.stops != CutTraffic::Datagrams && cut.lies_between(now, from, to))
    }

    /// Returns the traffic that a node has sent so far.
    pub fn sent(&self, node: usize) -> Traffic {
        self.per_node.get(node).map_or_else(Traffic::default, |node| node.sent)
    }

    /// Sends a datagram; `deliver` is called with each arrival: none, one or two.
    pub fn send(&mut self, now: Nanos, from: usize, to: usize, bytes: Vec<u8>, mut deliver: impl FnMut(Arrival)) {
        self.send_to_nobody(from, &bytes);
        if self.is_cut(now, from, to) || self.draw_loss(from, to) {
            return;
        }
        let leaves = now.max(self.per_node(from).held_until).max(self.per_node(to).held_until);
        let copy = self.random.chance(self.conditions.duplicate).then(|| bytes.clone());
        for bytes in std::iter::once(bytes).chain(copy) {
            let (bytes, is_corrupt) = self.corrupted(bytes);
            let at = leaves + self.conditions.latency.draw(&mut self.random).max(1) + self.lateness();
            deliver(Arrival { at, bytes, is_corrupt });
        }
    }

    /// Draws the additional delay of a datagram, mostly zero.
    fn lateness(&mut self) -> Nanos {
        match self.conditions.late {
            Some(late) if self.random.chance(late.chance) => self.random.below(nanos(late.most)),
            _ => 0,
        }
    }

    /// Draws the time of arrival for something that is sent now.
    pub(crate) fn latency(&mut self, now: Nanos) -> Nanos {
        now + self.conditions.latency.draw(&mut self.random).max(1)
    }

    /// Returns true if a segment of a connection, or its acknowledgement, is lost, by a cut or by chance.
    pub(crate) fn loses_segment(&mut self, now: Nanos, from: usize, to: usize) -> bool {
        let is_cut = self.is_connection_cut(now, from, to) || self.is_connection_cut(now, to, from);
        is_cut || self.draw_loss(from, to) || self.draw_loss(to, from)
    }

    /// Returns the number of header bytes of a datagram.
    pub(crate) fn header_bytes(&self) -> u64 {
        self.header_bytes
    }

    /// Sends a datagram to an address without a node: it is only counted.
    pub fn send_to_nobody(&mut self, from: usize, bytes: &[u8]) {
        self.count(from, bytes.len());
    }

    /// Counts a datagram that a node sends, with its headers.
    pub(crate) fn count(&mut self, from: usize, bytes: usize) {
        let header_bytes = self.header_bytes;
        let sent = &mut self.per_node(from).sent;
        sent.packets += 1;
        sent.bytes += bytes as u64 + header_bytes;
    }

    fn draw_loss(&mut self, from: usize, to: usize) -> bool {
        let loss = self.conditions.loss;
        let (sender_loss, receiver_loss) = (self.per_node(from).loss.outgoing, self.per_node(to).loss.incoming);
        let by_burst = self.conditions.burst.is_some_and(|burst| self.draw_burst_loss((from, to), burst));
        by_burst || self.random.chance(loss) || self.random.chance(sender_loss) || self.random.chance(receiver_loss)
    }

    fn draw_burst_loss(&mut self, link: (usize, usize), burst: Burst) -> bool {
        let was_bad = self.bursting.contains(&link);
        let turns = self.random.chance(if was_bad { burst.end } else { burst.begin });
        let is_bad = was_bad != turns;
        if is_bad {
            self.bursting.insert(link);
        } else {
            self.bursting.remove(&link);
        }
        is_bad && self.random.chance(burst.loss)
    }

    fn corrupted(&mut self, mut bytes: Vec<u8>) -> (Vec<u8>, bool) {
        let is_corrupt = !bytes.is_empty() && self.random.chance(self.conditions.corrupt);
        if is_corrupt {
            for _ in 0..self.random.between(1, 3) {
                let position = self.random.index(bytes.len());
                // Never zero, so that the byte does change.
                bytes[position] ^= self.random.between(1, 255) as u8;
            }
        }
        (bytes, is_corrupt)
    }

    fn per_node(&mut self, node: usize) -> &mut PerNode {
        if node >= self.per_node.len() {
            self.per_node.resize_with(node + 1, PerNode::default);
        }
        &mut self.per_node[node]
    }
}
