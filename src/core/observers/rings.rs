//! The rings that the graph of observers is made of, as one node sees them.
//!
//! Each ring is a set of names in the order of a hash of its own; of each ring, only the two names nearest to one name
//! are kept, one in each direction. Must not know: which members are on a ring, and what being near means.

use crate::view::Slot;

/// The number of rings along which news is flooded to the neighbours.
pub(super) const FLOOD_RINGS: usize = 3;

/// The nearest live members on each ring.
#[derive(Debug, Clone)]
pub(super) struct Rings {
    /// The hash of this node's name.
    me: u64,
    pub(super) ends: Vec<Ends>,
}

/// The nearest members on one ring, with their distances.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ends {
    next: Option<(u64, Slot)>,
    previous: Option<(u64, Slot)>,
}

impl Ends {
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> + use<> {
        self.next.into_iter().chain(self.previous).map(|(_, slot)| slot)
    }

    /// Takes a candidate if it is nearer, in either direction; returns true if it did.
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
    pub(crate) fn new(me: u64) -> Self {
        Self { me, ends: Vec::new() }
    }

    /// Returns the number of rings.
    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    /// Returns the nearest members on all rings.
    pub(super) fn nearest(&self) -> impl Iterator<Item = Slot> {
        self.ends.iter().flat_map(Ends::slots)
    }

    /// Returns the nearest member in one direction.
    pub(super) fn end(&self, ring: usize, is_ahead: bool) -> Option<Slot> {
        let ends = self.ends[ring];
        if is_ahead { ends.next } else { ends.previous }.map(|(_, slot)| slot)
    }

    /// Returns the distance to a name in one direction.
    pub(super) fn distance(&self, name: u64, ring: usize, is_ahead: bool) -> u64 {
        let ahead = place(name, ring).wrapping_sub(place(self.me, ring));
        if is_ahead { ahead } else { ahead.wrapping_neg() }
    }

    /// Finds a place for a new member; returns true if it became a neighbour.
    pub(super) fn offer(&mut self, slot: Slot, name: u64) -> bool {
        let mut is_neighbour = false;
        for (ring, ends) in self.ends.iter_mut().enumerate() {
            is_neighbour |= ends.offer(place(name, ring).wrapping_sub(place(self.me, ring)), slot);
        }
        is_neighbour
    }

    /// Makes room for a member with this name, or looks for the member behind one that is gone; returns true if the
    /// nearest members are others now.
    pub(super) fn update(
        &mut self,
        rings: usize,
        slot: Slot,
        name: Option<u64>,
        all: &(impl Iterator<Item = (Slot, u64)> + Clone),
    ) -> bool {
        if rings != self.ends.len() {
            self.rebuild(rings, all);
            return true;
        }
        match name {
            Some(name) => self.offer(slot, name),
            None => self.withdraw(slot, all),
        }
    }

    /// Looks for new neighbours on the rings where this one was; returns true if there were any.
    pub(super) fn withdraw(&mut self, slot: Slot, live: &(impl Iterator<Item = (Slot, u64)> + Clone)) -> bool {
        let mut was_neighbour = false;
        for ring in 0..self.ends.len() {
            if self.ends[ring].slots().any(|end| end == slot) {
                self.ends[ring] = self.scan(ring, live.clone());
                was_neighbour = true;
            }
        }
        was_neighbour
    }

    pub(super) fn rebuild(&mut self, rings: usize, live: &(impl Iterator<Item = (Slot, u64)> + Clone)) {
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

/// Returns the place of a name on a ring: a permutation of 64-bit numbers for each ring (the finaliser of SplitMix64).
fn place(name: u64, ring: usize) -> u64 {
    let mut z = name.wrapping_add((ring as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the number of rings that give each of `others` + 1 nodes about `wanted` distinct neighbours: each ring
/// leaves a given member out with a chance of 1 − 2 / others, and half a neighbour less than wanted is near enough.
pub(super) fn ring_count(others: usize, wanted: usize) -> usize {
    let one: u128 = 1 << 32;
    let (others, wanted) = (others as u128, wanted as u128);
    let (mut left_out, mut rings) = (one, 0);
    while others * (one - left_out) * 2 < (wanted * 2 - 1) * one {
        left_out = left_out * (others - 2) / others;
        rings += 1;
    }
    rings
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand::seq::SliceRandom;

    use super::*;

    const WANTED: usize = 10;

    /// Returns the whole graph over these names.
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

    /// Returns the number of those present that are outside of the largest connected part.
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
            // The number of rings is whole: one more adds up to two neighbours, and chance overlaps take a few away.
            let mean = graph.iter().map(BTreeSet::len).sum::<usize>() as f64 / n as f64;
            prop_assert!((mean - WANTED as f64).abs() <= 2.0, "mean {mean} of {n} on {rings} rings");
        }

        #[test]
        fn the_graph_stays_connected_without_a_random_quarter(n in 12usize..300, salt: u64) {
            let graph = graph(&names(n, salt));
            let mut by_lot: Vec<usize> = (0..n).collect();
            by_lot.shuffle(&mut rand_chacha::ChaCha8Rng::seed_from_u64(salt));
            let present: BTreeSet<Slot> = by_lot[n / 4..].iter().map(|slot| *slot as Slot).collect();
            // All ten observers of one node are among the removed about once in a million nodes.
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
