//! The virtual network: the fate of each datagram between two nodes.
//!
//! Latency, loss (independent, bursty, per node and direction), duplication, reordering (by jitter), corruption, and
//! cuts between sets of nodes, one-way or two-way, lasting or alternating. Datagrams are byte vectors and nodes are
//! numbers.
//!
//! Invariants: every decision comes from one seeded generator, so the same sends give the same deliveries; a datagram
//! is never delivered before it was sent; nothing sent while its direction is cut is delivered. Must not know: the
//! meaning of the bytes, what a node is, or the time on any clock but its own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::random::{Purpose, Random, nanos};

/// True (virtual) time in nanoseconds since the start of the simulation.
pub type Nanos = u64;

/// One-way latency: `base`, plus up to `jitter`, uniformly; one datagram in a hundred takes up to ten jitters more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latency {
    /// The minimum.
    pub base: Duration,
    /// The largest addition for datagrams that are not stragglers.
    pub jitter: Duration,
}

impl Latency {
    /// One in this many datagrams is a straggler.
    const STRAGGLERS: u64 = 100;

    fn draw(&self, random: &mut Random) -> Nanos {
        let jitter = nanos(self.jitter);
        let mut latency = nanos(self.base).saturating_add(random.below(jitter.saturating_add(1)));
        if jitter > 0 && random.below(Self::STRAGGLERS) == 0 {
            latency = latency.saturating_add(random.below(jitter.saturating_mul(10)));
        }
        latency
    }
}

/// Bursty loss (Gilbert–Elliott): each link, from one node to another, is in a good or a bad state, drawn anew with
/// every datagram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// Chance that a good state turns bad.
    pub begin: f64,
    /// Chance that a bad state turns good.
    pub end: f64,
    /// Chance that a datagram is lost in the bad state.
    pub loss: f64,
}

/// Conditions of the whole network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conditions {
    /// One-way latency of datagrams.
    pub latency: Latency,
    /// Chance that a datagram is lost, independently of all others.
    pub loss: f64,
    /// Bursty loss.
    pub burst: Option<Burst>,
    /// Chance that a datagram arrives twice.
    pub duplicate: f64,
    /// Chance that one to three bytes of a datagram arrive changed.
    pub corrupt: f64,
    /// Datagrams that are delayed for very long, as if they lay in some queue.
    pub late: Option<Late>,
}

/// Datagrams that arrive long after they were sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Late {
    /// Chance that a datagram is late.
    pub chance: f64,
    /// The longest additional delay.
    pub most: Duration,
}

impl Default for Conditions {
    /// Returns the conditions of a quiet local network.
    fn default() -> Self {
        let latency = Latency { base: Duration::from_micros(200), jitter: Duration::from_micros(300) };
        Self { latency, loss: 0.0, burst: None, duplicate: 0.0, corrupt: 0.0, late: None }
    }
}

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

/// Chances that the datagrams of one node are lost, in addition to the losses that all nodes suffer.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct NodeLoss {
    /// Chance that a datagram from the node is lost.
    pub outgoing: f64,
    /// Chance that a datagram to the node is lost.
    pub incoming: f64,
}

/// Identifies a cut, so that it can be healed.
pub type CutId = u64;

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
    from: NodeSet,
    to: NodeSet,
    stops: CutTraffic,
    /// Start and period of an alternating cut: it stands for one period, is gone for the next, and so on.
    turns: Option<(Nanos, Nanos)>,
    /// Nodes that may be suspected because of the cut; `None` means every node.
    suspectable: Option<Vec<usize>>,
    /// True if the cut also stops packets from outside the cluster.
    includes_outside: bool,
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

    fn lies_between(&self, now: Nanos, from: usize, to: usize) -> bool {
        self.from.contains(from) && self.to.contains(to) && self.holds(now)
    }
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
        if self.is_cut(now, from, to) || self.is_lost(from, to) {
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
        is_cut || self.is_lost(from, to) || self.is_lost(to, from)
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

    fn is_lost(&mut self, from: usize, to: usize) -> bool {
        let loss = self.conditions.loss;
        let (sender_loss, receiver_loss) = (self.per_node(from).loss.outgoing, self.per_node(to).loss.incoming);
        let by_burst = self.conditions.burst.is_some_and(|burst| self.is_lost_in_burst((from, to), burst));
        by_burst || self.random.chance(loss) || self.random.chance(sender_loss) || self.random.chance(receiver_loss)
    }

    fn is_lost_in_burst(&mut self, link: (usize, usize), burst: Burst) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn network(conditions: Conditions) -> Network {
        Network::new(1, conditions, 28)
    }

    fn deliveries(network: &mut Network, from: usize, to: usize, count: usize) -> Vec<(Nanos, Vec<u8>)> {
        let mut arrived = Vec::new();
        for number in 0..count {
            network.send(1_000, from, to, vec![number as u8; 50], |arrival| arrived.push((arrival.at, arrival.bytes)));
        }
        arrived
    }

    #[test]
    fn a_quiet_network_delivers_everything_once_unchanged_and_later() {
        let mut network = network(Conditions::default());
        let arrived = deliveries(&mut network, 0, 1, 200);
        assert_eq!(arrived.len(), 200);
        for (number, (at, bytes)) in arrived.iter().enumerate() {
            assert_eq!(bytes, &vec![number as u8; 50]);
            assert!(*at >= 1_000 + 200_000, "{at}");
        }
        assert!(arrived.windows(2).any(|pair| pair[0].0 > pair[1].0), "jitter reorders");
        assert_eq!(network.sent(0), Traffic { packets: 200, bytes: 200 * 78 });
    }

    #[test]
    fn loss_duplication_and_corruption_happen_about_as_often_as_asked() {
        let usual = Conditions { loss: 0.2, duplicate: 0.1, corrupt: 0.5, ..Conditions::default() };
        let mut network = network(usual);
        let arrived = deliveries(&mut network, 0, 1, 10_000);
        assert!((8_500..9_100).contains(&arrived.len()), "{}", arrived.len());
        let changed = arrived.iter().filter(|(_, bytes)| bytes.iter().any(|byte| *byte != bytes[0])).count();
        assert!((4_000..5_000).contains(&changed), "{changed}");
    }

    #[test]
    fn bursts_lose_datagrams_in_runs() {
        let burst = Burst { begin: 0.02, end: 0.2, loss: 1.0 };
        let mut network = network(Conditions { burst: Some(burst), ..Conditions::default() });
        let mut lost = vec![true; 10_000];
        for lost in &mut lost {
            network.send(0, 0, 1, vec![0], |_| *lost = false);
        }
        let losses = lost.iter().filter(|lost| **lost).count();
        let pairs = lost.windows(2).filter(|pair| pair[0] && pair[1]).count();
        assert!((500..1_500).contains(&losses), "{losses}");
        assert!(pairs * 2 > losses, "losses come together: {pairs} of {losses}");
    }

    #[test]
    fn one_link_in_a_burst_says_nothing_about_another() {
        let burst = Burst { begin: 0.5, end: 0.0, loss: 1.0 };
        let mut network = network(Conditions { burst: Some(burst), ..Conditions::default() });
        deliveries(&mut network, 0, 1, 100);
        assert!(deliveries(&mut network, 0, 1, 10).is_empty(), "this link's burst does not end");
        network.set_conditions(Conditions { burst: Some(Burst { begin: 0.0, ..burst }), ..Conditions::default() });
        assert!(deliveries(&mut network, 0, 1, 10).is_empty());
        assert_eq!(deliveries(&mut network, 1, 0, 10).len(), 10, "the way back is another link");
        assert_eq!(deliveries(&mut network, 2, 1, 10).len(), 10);
    }

    #[test]
    fn loss_may_hit_one_direction_alone() {
        let mut network = network(Conditions::default());
        network.set_node_loss(1, NodeLoss { outgoing: 0.8, incoming: 0.0 });
        assert!((100..300).contains(&deliveries(&mut network, 1, 0, 1_000).len()));
        assert_eq!(deliveries(&mut network, 0, 1, 1_000).len(), 1_000);
    }

    #[test]
    fn a_cut_in_turns_comes_and_goes() {
        let mut network = network(Conditions::default());
        let deaf = NodeSet::of(&[1]);
        let cut = network.cut_in_turns(1_000, deaf.rest(), deaf, Duration::from_nanos(500));
        let is_cut = |network: &Network| [1_000, 1_499, 1_500, 1_999, 2_000].map(|now| network.is_cut(now, 0, 1));
        assert_eq!(is_cut(&network), [true, true, false, false, true]);
        assert!(!network.is_cut(1_000, 1, 0), "one way only");
        assert!(!network.is_calm(), "it will come back");
        network.heal(cut);
        assert_eq!(is_cut(&network), [false; 5]);
    }

    #[test]
    fn a_one_way_cut_stops_one_direction_until_it_is_healed() {
        let mut network = network(Conditions::default());
        let cut = network.cut(NodeSet::of(&[0]), NodeSet::of(&[1]));
        assert!(deliveries(&mut network, 0, 1, 5).is_empty());
        assert_eq!(deliveries(&mut network, 1, 0, 5).len(), 5);
        assert!(!network.is_calm());
        network.heal(cut);
        assert_eq!(deliveries(&mut network, 0, 1, 5).len(), 5);
        assert!(network.is_calm());
    }

    #[test]
    fn a_cut_may_stop_datagrams_or_connections_alone_and_blame_nobody() {
        let mut network = network(Conditions::default());
        let between = || Cut::new(NodeSet::of(&[0]), NodeSet::of(&[1])).limiting_suspicion_to(Vec::new());
        let cut = network.add_cut(between().stopping(CutTraffic::Datagrams));
        assert!(deliveries(&mut network, 0, 1, 5).is_empty() && !network.loses_segment(0, 0, 1));
        assert!(network.is_calm(), "nobody is to blame");
        assert!(network.heal(cut).is_some() && network.heal(cut).is_none());
        network.add_cut(between().stopping(CutTraffic::Connections));
        assert!(deliveries(&mut network, 0, 1, 5).len() == 5 && network.loses_segment(0, 1, 0));
    }

    #[test]
    fn a_late_datagram_arrives_after_minutes() {
        let late = Some(Late { chance: 0.5, most: Duration::from_secs(300) });
        let mut network = network(Conditions { late, ..Conditions::default() });
        let arrived = deliveries(&mut network, 0, 1, 100);
        assert_eq!(arrived.len(), 100, "late is not lost");
        assert!(arrived.iter().any(|(at, _)| *at > nanos(Duration::from_secs(120))));
    }

    #[test]
    fn a_held_node_sends_and_receives_late_and_loses_nothing() {
        let mut network = network(Conditions::default());
        let hold = network.hold(1, 1_000_000_000);
        let arrived = [deliveries(&mut network, 0, 1, 5), deliveries(&mut network, 1, 0, 5)].concat();
        assert_eq!(arrived.len(), 10);
        assert!(arrived.iter().all(|(at, _)| *at > 1_000_000_000));
        assert!(
            deliveries(&mut network, 0, 2, 5).iter().all(|(at, _)| *at < 1_000_000_000),
            "others are not concerned"
        );
        assert!(!network.is_calm());
        network.heal(hold);
        assert!(network.is_calm());
    }

    #[test]
    fn a_partition_holds_for_nodes_that_come_later() {
        let side = NodeSet::of(&[0, 2]);
        assert!(side.contains(2) && !side.contains(1) && !side.contains(9));
        assert!(side.rest().contains(9) && !side.rest().contains(0));
    }

    #[test]
    fn a_lossy_node_suffers_in_both_directions_and_healing_ends_it() {
        let mut network = network(Conditions::default());
        network.set_node_loss(1, NodeLoss { outgoing: 1.0, incoming: 1.0 });
        assert!(deliveries(&mut network, 0, 1, 5).is_empty() && deliveries(&mut network, 1, 0, 5).is_empty());
        assert_eq!(deliveries(&mut network, 0, 2, 5).len(), 5);
        network.heal_all();
        assert_eq!(deliveries(&mut network, 0, 1, 5).len(), 5);
    }
}
