//! Who observes whom.
//!
//! Up to `observers` + 1 nodes everybody observes everybody. Above that, each node is a neighbour of the next live node
//! in both directions on several rings; each ring is the live names in the order of a hash of their own. The union of
//! the rings is an undirected graph, well mixed (a union of random cycles is an expander: Friedman, "A proof of Alon's
//! second eigenvalue conjecture", 2008; Rapid, ATC 2018, section 4.1, observes by the same kind of graph), and every
//! node computes the same one from the same view. So the load of a node is constant in the size of the cluster.
//!
//! Invariants:
//! - The graph is symmetric: who observes is observed. (While some are doubted, it has more edges; see `walk`.)
//! - Adding a member costs O(rings); removing one that is no neighbour costs O(rings), and a neighbour O(members).
//! - The number of rings depends on the number of live members alone, by integers only: about `observers` / 2 in a large
//!   cluster, more in a small one, where rings overlap.

use std::collections::{BTreeMap, BTreeSet};

use super::detector::probe_after;
use super::limits::MIN_CRASH_PROBE_GAP;
use super::time::Time;
use super::timers::Timer;
use super::view::{Slot, View};
use super::walk::Walk;
use super::{Core, Phase, Status};

/// Rings whose neighbours news is flooded to.
pub(super) const FLOOD_RINGS: usize = 3;

/// This node's place in the graph.
#[derive(Debug)]
pub(super) struct Observers {
    /// The configured number.
    wanted: usize,
    rings: Rings,
    /// The last answer of [`ring_count`], and to what.
    counted: (usize, usize),
    /// What is observed beyond them, while some of them are doubted.
    pub(super) walk: Walk,
    /// Everybody observed by this node: the nearest on the rings, and whom it walks past.
    neighbours: BTreeSet<Slot>,
}

impl Observers {
    pub(super) fn new(wanted: usize, me: u64) -> Self {
        Self { wanted, rings: Rings::new(me), counted: (0, 0), walk: Walk::default(), neighbours: BTreeSet::new() }
    }

    fn ring_count(&mut self, others: usize) -> usize {
        if self.counted.0 != others {
            self.counted = (others, ring_count(others, self.wanted));
        }
        self.counted.1
    }

    /// Whether everybody observes everybody among this many others.
    pub(super) fn is_full_mesh(&self, others: usize) -> bool {
        others <= self.wanted
    }

    /// The neighbours on the first rings, and who answers behind doubted ones.
    pub(super) fn flood_targets(&self) -> BTreeSet<Slot> {
        self.rings.ends.iter().take(FLOOD_RINGS).flat_map(Ends::slots).chain(self.walk.ends()).collect()
    }

    /// The nearest on all rings; none in a full mesh.
    pub(super) fn nearest(&self) -> impl Iterator<Item = Slot> {
        self.rings.ends.iter().flat_map(Ends::slots)
    }

    /// Every ring, by its number among those of its kind.
    pub(super) fn all_rings(&self) -> impl Iterator<Item = (&Rings, usize)> {
        (0..self.rings.ends.len()).map(|ring| (&self.rings, ring))
    }
}

/// The nearest live members on each ring.
#[derive(Debug)]
pub(super) struct Rings {
    /// The hash of this node's name.
    me: u64,
    ends: Vec<Ends>,
}

/// The nearest on one ring, with their distances.
#[derive(Debug, Clone, Copy, Default)]
struct Ends {
    next: Option<(u64, Slot)>,
    previous: Option<(u64, Slot)>,
}

impl Ends {
    fn slots(&self) -> impl Iterator<Item = Slot> + use<> {
        self.next.into_iter().chain(self.previous).map(|(_, slot)| slot)
    }

    /// Takes a candidate if it is nearer, in either direction; says whether it did.
    fn offer(&mut self, ahead: u64, slot: Slot) -> bool {
        let is_next = self.next.is_none_or(|(nearest, _)| ahead < nearest);
        if is_next {
            self.next = Some((ahead, slot));
        }
        let behind = ahead.wrapping_neg();
        let is_previous = self.previous.is_none_or(|(nearest, _)| behind < nearest);
        if is_previous {
            self.previous = Some((behind, slot));
        }
        is_next || is_previous
    }
}

impl Rings {
    fn new(me: u64) -> Self {
        Self { me, ends: Vec::new() }
    }

    /// The nearest in one direction.
    pub(super) fn end(&self, ring: usize, is_ahead: bool) -> Option<Slot> {
        let ends = self.ends[ring];
        if is_ahead { ends.next } else { ends.previous }.map(|(_, slot)| slot)
    }

    /// Whether a member has a place on them.
    pub(super) fn holds(&self, _view: &View, _slot: Slot) -> bool {
        true
    }

    /// The way to a name in one direction.
    pub(super) fn distance(&self, name: u64, ring: usize, is_ahead: bool) -> u64 {
        let ahead = place(name, ring).wrapping_sub(place(self.me, ring));
        if is_ahead { ahead } else { ahead.wrapping_neg() }
    }

    /// Finds a place for a new member; says whether it became a neighbour.
    fn offer(&mut self, slot: Slot, name: u64) -> bool {
        let mut is_neighbour = false;
        for (ring, ends) in self.ends.iter_mut().enumerate() {
            is_neighbour |= ends.offer(place(name, ring).wrapping_sub(place(self.me, ring)), slot);
        }
        is_neighbour
    }

    /// Looks for new neighbours on the rings where this one was; says whether there were any.
    fn withdraw(&mut self, slot: Slot, live: &(impl Iterator<Item = (Slot, u64)> + Clone)) -> bool {
        let mut was_neighbour = false;
        for ring in 0..self.ends.len() {
            if self.ends[ring].slots().any(|end| end == slot) {
                self.ends[ring] = self.scan(ring, live.clone());
                was_neighbour = true;
            }
        }
        was_neighbour
    }

    fn rebuild(&mut self, rings: usize, live: &(impl Iterator<Item = (Slot, u64)> + Clone)) {
        self.ends = (0..rings).map(|ring| self.scan(ring, live.clone())).collect();
    }

    fn scan(&self, ring: usize, live: impl Iterator<Item = (Slot, u64)>) -> Ends {
        let mut ends = Ends::default();
        let me = place(self.me, ring);
        for (slot, name) in live {
            ends.offer(place(name, ring).wrapping_sub(me), slot);
        }
        ends
    }
}

/// Where a name is on a ring: a permutation of 64-bit numbers for each ring (the finaliser of SplitMix64).
fn place(name: u64, ring: usize) -> u64 {
    let mut z = name.wrapping_add((ring as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// How many rings give each of `others` + 1 nodes about `wanted` distinct neighbours: each ring leaves a given member
/// out with a chance of 1 − 2 / others, and half a neighbour less than wanted is near enough.
fn ring_count(others: usize, wanted: usize) -> usize {
    let one: u128 = 1 << 32;
    let (others, wanted) = (others as u128, wanted as u128);
    let (mut left_out, mut rings) = (one, 0);
    while others * (one - left_out) * 2 < (wanted * 2 - 1) * one {
        left_out = left_out * (others - 2) / others;
        rings += 1;
    }
    rings
}

impl Core {
    /// A member's liveness may have changed: finds the own place in the graph again.
    pub(super) fn reobserve(&mut self, slot: Slot) {
        if slot == View::ME {
            return;
        }
        let others = self.view.live().len();
        let view = &self.view;
        let live = view.live().iter().map(|slot| (*slot, view.entry(*slot).name_hash));
        if self.observers.is_full_mesh(others) {
            self.observers.rings.ends.clear();
        } else {
            let rings = self.observers.ring_count(others);
            let live_entry = view.get(slot).filter(|entry| entry.record.status.is_live());
            let has_changed = if rings != self.observers.rings.ends.len() {
                self.observers.rings.rebuild(rings, &live);
                true
            } else if let Some(entry) = live_entry {
                self.observers.rings.offer(slot, entry.name_hash)
            } else {
                self.observers.rings.withdraw(slot, &live)
            };
            // Most members of a large cluster are nobody's neighbours here.
            if !has_changed && !self.observers.neighbours.contains(&slot) {
                return;
            }
        }
        self.observers.walk.forget(slot);
        if self.observers.walk.is_on() {
            self.timers.set_by(Timer::Walk, self.now + MIN_CRASH_PROBE_GAP);
        }
        self.renew_neighbours(&BTreeMap::new());
    }

    /// Observes those who are neighbours now. Some are taken over who `lived` at a time that others than this node know of.
    pub(super) fn renew_neighbours(&mut self, lived: &BTreeMap<Slot, Time>) {
        let after: BTreeSet<Slot> = if self.observers.is_full_mesh(self.view.live().len()) {
            self.view.live().iter().copied().collect()
        } else {
            self.observers.nearest().chain(self.observers.walk.passed()).collect()
        };
        let before = std::mem::take(&mut self.observers.neighbours);
        let stopped: Vec<Slot> = before.difference(&after).copied().collect();
        let started: Vec<Slot> = after.difference(&before).copied().collect();
        self.observers.neighbours = after;
        for slot in stopped {
            self.stop_observing(slot);
        }
        for slot in started {
            self.start_observing(slot, lived.get(&slot).copied());
        }
    }

    /// A new observer probes its subject at once: what it has not heard itself must not count as heard, and an orphan of
    /// a mass failure must not be forgiven a whole timeout once more. Who `lived` at a certain time because nobody accused
    /// it until then is not forgiven more than that.
    fn start_observing(&mut self, slot: Slot, lived: Option<Time>) {
        let entry = self.view.entry(slot);
        let is_new = entry.peer.session.is_none() && entry.peer.last_sign == self.now;
        if !is_new && entry.record.status == Status::Up {
            let demanded = self.demanded_silence(slot);
            // What is long ago says nothing of this silence.
            let lived = lived.filter(|lived| self.now.since(*lived) <= demanded * 5 / 4);
            let probed_at_once = lived.unwrap_or(self.now - probe_after(demanded));
            let peer = self.view.peer_mut(slot);
            peer.last_sign = peer.last_sign.max(probed_at_once);
        }
        self.watch(slot);
        self.plan_link(slot);
    }

    fn stop_observing(&mut self, slot: Slot) {
        if self.view.get(slot).is_some() {
            let run = self.view.record(slot).run;
            self.timers.cancel(Timer::Heartbeat(run));
            self.inquiries.forget(run);
            self.watch(slot);
            self.plan_link(slot);
        }
    }

    /// Whether everybody observes everybody.
    pub(super) fn is_full_mesh(&self) -> bool {
        self.observers.is_full_mesh(self.view.live().len())
    }

    /// Everybody observed by this node.
    pub(super) fn neighbours(&self) -> impl Iterator<Item = Slot> {
        self.observers.neighbours.iter().copied()
    }

    /// Whether this node observes a member (and is observed by it).
    pub(super) fn observes(&self, slot: Slot) -> bool {
        self.observers.neighbours.contains(&slot)
    }

    /// A member's other observers, by this node's view: who might have heard it. Above the full mesh they are the nearest
    /// that this node does not doubt, since those walk past the others, too.
    pub(super) fn observers_of(&self, subject: Slot) -> BTreeSet<Slot> {
        let others = self.view.live().len();
        let live = self.view.live().iter().copied().filter(|slot| *slot != subject);
        if self.observers.is_full_mesh(others) {
            return live.collect();
        }
        let doubted = self.observers.walk.doubted();
        let live: Vec<Slot> = live.filter(|slot| doubted.is_empty() || !doubted.contains(slot)).collect();
        let live = live.into_iter();
        let named = live.map(|slot| (slot, self.view.entry(slot).name_hash));
        let with_me = named.chain([(View::ME, self.view.entry(View::ME).name_hash)]);
        let mut rings = Rings::new(self.view.entry(subject).name_hash);
        rings.rebuild(ring_count(others, self.observers.wanted), &with_me);
        let mut observers: BTreeSet<Slot> = rings.ends.iter().flat_map(Ends::slots).collect();
        observers.remove(&View::ME);
        observers
    }

    /// Whom gossip goes round: the neighbours. (A joiner has none.)
    pub(super) fn gossip_peers(&self) -> Vec<Slot> {
        if matches!(self.phase, Phase::Joining(_)) {
            return Vec::new();
        }
        self.observers.neighbours.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand::seq::SliceRandom;

    use super::*;

    const WANTED: usize = 10;

    /// The whole graph over these names.
    fn graph(names: &[u64]) -> Vec<BTreeSet<Slot>> {
        let others = names.len() - 1;
        let all_but = |me: usize| {
            names.iter().enumerate().filter(move |(slot, _)| *slot != me).map(|(slot, name)| (slot as Slot, *name))
        };
        let rings_of = |me: usize| {
            let mut rings = Rings::new(names[me]);
            rings.rebuild(ring_count(others, WANTED), &all_but(me));
            rings.ends.iter().flat_map(Ends::slots).collect()
        };
        (0..names.len()).map(rings_of).collect()
    }

    fn names(n: usize, salt: u64) -> Vec<u64> {
        (0..n as u64).map(|i| xxhash_rust::xxh3::xxh3_64_with_seed(&i.to_le_bytes(), salt)).collect()
    }

    /// How many of those present are outside of the largest connected part.
    fn left_out(graph: &[BTreeSet<Slot>], present: &BTreeSet<Slot>) -> usize {
        let mut unseen = present.clone();
        let mut largest = 0;
        while let Some(first) = unseen.pop_first() {
            let (mut size, mut frontier) = (1, vec![first]);
            while let Some(slot) = frontier.pop() {
                for next in graph[slot as usize].iter().filter(|next| unseen.remove(next)) {
                    size += 1;
                    frontier.push(*next);
                }
            }
            largest = largest.max(size);
        }
        present.len() - largest
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn the_graph_is_symmetric_and_its_degree_is_about_the_observers(n in 12usize..300, salt: u64) {
            let graph = graph(&names(n, salt));
            let rings = ring_count(n - 1, WANTED);
            for (slot, neighbours) in graph.iter().enumerate() {
                prop_assert!(neighbours.iter().all(|other| graph[*other as usize].contains(&(slot as Slot))));
                prop_assert!(neighbours.len() >= 5, "{} of {n}", neighbours.len());
                prop_assert!(neighbours.len() <= 2 * rings, "{} of {n} on {rings} rings", neighbours.len());
            }
            // Rings come whole: one more adds up to two neighbours, and chance overlaps take a few away.
            let mean = graph.iter().map(BTreeSet::len).sum::<usize>() as f64 / n as f64;
            prop_assert!((mean - WANTED as f64).abs() <= 2.0, "mean {mean} of {n} on {rings} rings");
        }

        #[test]
        fn the_graph_stays_connected_without_a_random_quarter(n in 12usize..300, salt: u64) {
            let graph = graph(&names(n, salt));
            let mut by_lot: Vec<usize> = (0..n).collect();
            by_lot.shuffle(&mut rand_chacha::ChaCha8Rng::seed_from_u64(salt));
            let present: BTreeSet<Slot> = by_lot[n / 4..].iter().map(|slot| *slot as Slot).collect();
            // All of one node's ten observers are among the removed about once in a million nodes.
            prop_assert!(left_out(&graph, &present) <= 1);
        }

        #[test]
        fn one_more_member_changes_little(n in 60usize..300, salt: u64) {
            let names = names(n + 1, salt);
            let (before, after) = (graph(&names[..n]), graph(&names));
            let rings = ring_count(n, WANTED);
            prop_assume!(rings == ring_count(n - 1, WANTED));
            let changed: usize = (0..n).map(|slot| before[slot].symmetric_difference(&after[slot]).count()).sum();
            // On each ring two edges (four ends) replace one (two ends).
            prop_assert!(changed <= 4 * rings, "{changed} ends changed on {rings} rings");
        }

        #[test]
        fn neighbours_found_one_by_one_are_those_of_a_fresh_look(n in 20usize..80, salt: u64, gone in 1usize..15) {
            let names = names(n, salt);
            let others: Vec<(Slot, u64)> = (1..n).map(|slot| (slot as Slot, names[slot])).collect();
            let mut grown = Rings::new(names[0]);
            grown.rebuild(5, &std::iter::empty());
            for (slot, name) in &others {
                grown.offer(*slot, *name);
            }
            let mut left = others.clone();
            for _ in 0..gone {
                let (slot, _) = left.remove(salt as usize % left.len());
                grown.withdraw(slot, &left.iter().copied());
            }
            let mut fresh = Rings::new(names[0]);
            fresh.rebuild(5, &left.iter().copied());
            for (one, other) in grown.ends.iter().zip(&fresh.ends) {
                prop_assert_eq!(one.slots().collect::<Vec<_>>(), other.slots().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_large_cluster_needs_half_as_many_rings_as_observers() {
        assert_eq!(ring_count(10_000, WANTED), WANTED / 2);
        assert!(ring_count(11, WANTED) >= WANTED, "just above the full mesh rings overlap");
    }
}
