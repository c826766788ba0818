//! Members in the order of their names, four bytes each.
//!
//! The names are in the records already, so only slots are kept: in blocks of bounded length, each in order and one
//! after the other. Finding a name takes as many comparisons as in a tree, adding one moves at most a block; callers
//! pass a function from a slot to its name.
//!
//! Invariant: no block is empty, and none is longer than [`BLOCK`].

use super::Slot;

/// The greatest number of slots in a block: at most two kilobytes are moved.
const BLOCK: usize = 512;

/// A position in the order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    block: usize,
    at: usize,
}

/// The order. Its methods take a function that returns the name of a slot.
#[derive(Debug, Default)]
pub(super) struct Order {
    blocks: Vec<Vec<Slot>>,
    len: usize,
}

impl Order {
    pub(in crate::core) fn len(&self) -> usize {
        self.len
    }

    /// Returns all slots in order.
    pub(in crate::core) fn iter(&self) -> impl Iterator<Item = Slot> {
        self.blocks.iter().flatten().copied()
    }

    /// Returns the slot of a name.
    pub(super) fn find<'a>(&self, name: &str, name_of: impl Fn(Slot) -> &'a str) -> Option<Slot> {
        let (block, found) = self.position(name, name_of);
        found.ok().map(|at| self.blocks[block][at])
    }

    /// Returns the position of the first name after this one, for [`Order::from`].
    pub(in crate::core) fn after<'a>(&self, name: &str, name_of: impl Fn(Slot) -> &'a str) -> Place {
        let (block, found) = self.position(name, name_of);
        Place { block, at: found.map_or_else(|at| at, |at| at + 1) }
    }

    /// Returns the slots from a position on, in order.
    pub(super) fn from(&self, place: Place) -> impl Iterator<Item = Slot> {
        self.blocks.iter().skip(place.block).flatten().skip(place.at).copied()
    }

    /// Adds the slot of a name that is not there yet.
    pub(in crate::core) fn insert<'a>(&mut self, slot: Slot, name: &str, name_of: impl Fn(Slot) -> &'a str) {
        let (mut block, found) = self.position(name, name_of);
        let Err(mut at) = found else {
            debug_assert!(false, "a name is added once");
            return;
        };
        self.len += 1;
        match self.blocks.get_mut(block) {
            None => self.blocks.push(Vec::new()),
            Some(slots) if slots.len() == BLOCK => {
                // Names added in ascending order fill the blocks: only the slots behind the position go to the next
                // block.
                let split = if at == BLOCK { BLOCK } else { BLOCK / 2 };
                let upper = slots.split_off(split);
                self.blocks.insert(block + 1, upper);
                if at >= split {
                    (block, at) = (block + 1, at - split);
                }
            }
            Some(_) => {}
        }
        self.blocks[block].insert(at, slot);
    }

    /// Removes a name.
    pub(in crate::core) fn remove<'a>(&mut self, name: &str, name_of: impl Fn(Slot) -> &'a str) {
        let (block, found) = self.position(name, name_of);
        if let Ok(at) = found {
            self.len -= 1;
            self.blocks[block].remove(at);
            if self.blocks[block].is_empty() {
                self.blocks.remove(block);
            }
        }
    }

    /// Returns the block of a name, and its position there: where it is, or where it belongs.
    fn position<'a>(&self, name: &str, name_of: impl Fn(Slot) -> &'a str) -> (usize, Result<usize, usize>) {
        // The last block that begins at or before the name, or else the first.
        let begin_before =
            self.blocks.partition_point(|slots| slots.first().is_some_and(|first| name_of(*first) <= name));
        let block = begin_before.saturating_sub(1);
        let found =
            self.blocks.get(block).map_or(Err(0), |slots| slots.binary_search_by(|slot| name_of(*slot).cmp(name)));
        (block, found)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn names() -> Vec<String> {
        (0..5_000).map(|i| format!("n{i:04}")).collect()
    }

    #[test]
    fn names_in_order_fill_their_blocks() {
        let names = names();
        let name_of = |slot: Slot| names[slot as usize].as_str();
        let mut order = Order::default();
        for slot in 0..names.len() as Slot {
            order.insert(slot, name_of(slot), name_of);
        }
        assert_eq!(order.blocks.len(), names.len().div_ceil(BLOCK));
        assert!(order.iter().eq(0..names.len() as Slot));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]

        #[test]
        fn it_is_a_sorted_set(steps in prop::collection::vec((0..5_000u32, 0..4u8), 0..5_000)) {
            let names = names();
            let name_of = |slot: Slot| names[slot as usize].as_str();
            let (mut order, mut model) = (Order::default(), BTreeSet::new());
            for (slot, step) in steps {
                if step == 0 {
                    order.remove(name_of(slot), name_of);
                    model.remove(&slot);
                } else if model.insert(slot) {
                    order.insert(slot, name_of(slot), name_of);
                }
                prop_assert_eq!(order.find(name_of(slot), name_of), model.get(&slot).copied());
            }
            prop_assert!(order.iter().eq(model.iter().copied()));
            prop_assert_eq!(order.len(), model.len());
            prop_assert!(order.from(order.after("n2500", name_of)).eq(model.range(2_501..).copied()));
            prop_assert!(order.from(order.after("", name_of)).eq(model.iter().copied()));
            prop_assert!(order.blocks.iter().all(|slots| (1..=BLOCK).contains(&slots.len())));
        }
    }
}
