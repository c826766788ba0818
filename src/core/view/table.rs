//! Look-ups on the hot path: open addressing with fixed hashes, since a tree would read a cache line for each level.
//!
//! Linear probing (Knuth, volume 3, section 6.4). A cell holds a tag, which also determines its place, and an index
//! into a collection of its user, so that growing reads nothing but the cells themselves.
//!
//! Invariants:
//! - At most [`MOST_FULL`] of the cells are taken, so that a search ends.
//! - Nothing ever depends on the order of the cells.
//! - The tag of a key that others choose is hashed with a key of the core's own (see [`Key`]): they cannot choose its
//!   place.
//!
//! Must not know: the values, or the bound of their number; the bounds are the users'.

use super::Slot;

/// The greatest share of the cells that may be taken: at three quarters, a successful search reads two or three cells.
const MOST_FULL: (usize, usize) = (3, 4);
/// The smallest table, in cells.
const FEWEST_CELLS: usize = 16;
/// The size in cells below which a table costs little memory, and so may be emptier.
const SMALL: usize = 1_024;

#[derive(Debug, Clone, Copy)]
struct Cell {
    tag: u32,
    index: u32,
}

impl Cell {
    const EMPTY: Cell = Cell { tag: 0, index: u32::MAX };

    fn is_empty(self) -> bool {
        self.index == u32::MAX
    }
}

/// A map from tags to indices.
#[derive(Debug, Default)]
pub(super) struct Cells {
    cells: Vec<Cell>,
    len: usize,
}

impl Cells {
    /// Returns the first index with this tag (mostly there is one or none) that `is_it` accepts.
    pub(super) fn find(&self, tag: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = self.home(tag);
        loop {
            let cell = self.cells.get(at).filter(|cell| !cell.is_empty())?;
            if cell.tag == tag && is_it(cell.index) {
                return Some(cell.index);
            }
            at = self.next(at);
        }
    }

    /// Reads the cell at which a search for this tag begins (see `ahead`).
    pub(in crate::core) fn touch(&self, tag: u32) -> u64 {
        self.cells.get(self.home(tag)).map_or(0, |cell| cell.index.into())
    }

    /// Adds an index that is not there yet.
    pub(in crate::core) fn insert(&mut self, tag: u32, index: u32) {
        debug_assert!(index != Cell::EMPTY.index);
        if (self.len + 1) * MOST_FULL.1 > self.cells.len() * MOST_FULL.0 {
            self.grow();
        }
        self.len += 1;
        self.put(Cell { tag, index });
    }

    /// Removes an index that is there.
    pub(in crate::core) fn remove(&mut self, tag: u32, index: u32) {
        if let Some(at) = self.position(tag, index) {
            self.len -= 1;
            self.close_gap(at);
        }
    }

    /// Replaces an index by the one that its value moved to.
    fn moved(&mut self, tag: u32, from: u32, to: u32) {
        if let Some(at) = self.position(tag, from) {
            self.cells[at].index = to;
        }
    }

    fn clear(&mut self) {
        self.cells.fill(Cell::EMPTY);
        self.len = 0;
    }

    fn position(&self, tag: u32, index: u32) -> Option<usize> {
        let mut at = self.home(tag);
        while self.cells.get(at).is_some_and(|cell| !cell.is_empty()) {
            if self.cells[at].index == index && self.cells[at].tag == tag {
                return Some(at);
            }
            at = self.next(at);
        }
        debug_assert!(false, "whoever changes an index knows that it is there");
        None
    }

    /// Returns the cell at which a search begins: tags are spread over the table in their order.
    fn home(&self, tag: u32) -> usize {
        ((u64::from(tag) * self.cells.len() as u64) >> 32) as usize
    }

    fn next(&self, at: usize) -> usize {
        if at + 1 == self.cells.len() { 0 } else { at + 1 }
    }

    fn put(&mut self, cell: Cell) {
        let mut at = self.home(cell.tag);
        while !self.cells[at].is_empty() {
            at = self.next(at);
        }
        self.cells[at] = cell;
    }

    /// Grows the table. A small one doubles; a large one grows by a quarter, since doubling would leave up to half of
    /// it unused.
    fn grow(&mut self) {
        let share = if self.cells.len() < SMALL { 1 } else { 4 };
        let cells = (self.cells.len() + self.cells.len() / share).max(FEWEST_CELLS);
        let before = std::mem::replace(&mut self.cells, vec![Cell::EMPTY; cells]);
        for cell in before.into_iter().filter(|cell| !cell.is_empty()) {
            self.put(cell);
        }
    }

    /// Moves up the cells behind a gap that a search would no longer find.
    fn close_gap(&mut self, mut gap: usize) {
        let cells = self.cells.len();
        let distance = |from: usize, to: usize| if to >= from { to - from } else { to + cells - from };
        let mut at = gap;
        loop {
            at = self.next(at);
            let cell = self.cells[at];
            if cell.is_empty() {
                break;
            }
            if distance(self.home(cell.tag), at) >= distance(gap, at) {
                self.cells[gap] = cell;
                gap = at;
            }
        }
        self.cells[gap] = Cell::EMPTY;
    }
}

/// Types that can be keys of a [`Table`].
pub(in crate::core) trait Key: Copy + Ord {
    /// Returns half of a hash, keyed if others choose the value.
    fn tag(self, key: u64) -> u32;
}

impl Key for Slot {
    fn tag(self, _: u64) -> u32 {
        // Slots are counted up by this core: an odd factor (from the golden ratio) spreads them evenly.
        self.wrapping_mul(0x9e37_79b1)
    }
}

/// A small map in which each look-up begins at the hash of the key.
#[derive(Debug)]
pub(in crate::core) struct Table<K, V> {
    cells: Cells,
    entries: Vec<(K, V)>,
    key: u64,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { cells: Cells::default(), entries: Vec::new(), key: 0 }
    }
}

impl<K: Key, V: Copy> Table<K, V> {
    pub(in crate::core) fn new(key: u64) -> Self {
        Self { key, ..Self::default() }
    }

    pub(in crate::core) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(in crate::core) fn contains(&self, key: K) -> bool {
        self.find(key).is_some()
    }

    pub(in crate::core) fn get(&self, key: K) -> Option<V> {
        self.find(key).map(|index| self.entries[index as usize].1)
    }

    /// Reads the cell at which a search for this key begins (see `ahead`).
    pub(in crate::core) fn touch(&self, key: K) -> u64 {
        self.cells.touch(key.tag(self.key))
    }

    /// Sets a value; returns the one before.
    pub(in crate::core) fn insert(&mut self, key: K, value: V) -> Option<V> {
        if let Some(index) = self.find(key) {
            return Some(std::mem::replace(&mut self.entries[index as usize].1, value));
        }
        self.cells.insert(key.tag(self.key), self.entries.len() as u32);
        self.entries.push((key, value));
        None
    }

    pub(in crate::core) fn remove(&mut self, key: K) -> Option<V> {
        let index = self.find(key)?;
        self.cells.remove(key.tag(self.key), index);
        let (_, value) = self.entries.swap_remove(index as usize);
        if let Some((moved, _)) = self.entries.get(index as usize) {
            self.cells.moved(moved.tag(self.key), self.entries.len() as u32, index);
        }
        Some(value)
    }

    /// Changes all values, in no particular order.
    pub(in crate::core) fn for_each_mut(&mut self, mut change: impl FnMut(&mut V)) {
        for (_, value) in &mut self.entries {
            change(value);
        }
    }

    pub(in crate::core) fn clear(&mut self) {
        self.cells.clear();
        self.entries.clear();
    }

    /// Removes all entries, and returns them in the order of the keys.
    pub(in crate::core) fn take_sorted(&mut self) -> Vec<(K, V)> {
        let mut entries = self.entries.clone();
        entries.sort_unstable_by_key(|(key, _)| *key);
        self.clear();
        entries
    }

    fn find(&self, key: K) -> Option<u32> {
        self.cells.find(key.tag(self.key), |index| self.entries[index as usize].0 == key)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// A key that shares most of its tags with others, crowded at the end of the table.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    struct Crowded(u32);

    impl Key for Crowded {
        fn tag(self, _: u64) -> u32 {
            u32::MAX - self.0 % 7 * 0x0100_0000
        }
    }

    fn is_a_map<K: Key + std::fmt::Debug>(
        steps: Vec<(u32, u8)>,
        key_of: impl Fn(u32) -> K,
    ) -> Result<(), TestCaseError> {
        let (mut table, mut model) = (Table::default(), BTreeMap::new());
        for (i, (number, step)) in steps.into_iter().enumerate() {
            let key = key_of(number);
            if step == 0 {
                prop_assert_eq!(table.remove(key), model.remove(&key));
            } else {
                prop_assert_eq!(table.insert(key, i), model.insert(key, i));
            }
            prop_assert_eq!(table.len(), model.len());
            prop_assert_eq!(table.cells.cells.iter().filter(|cell| !cell.is_empty()).count(), model.len());
        }
        for number in 0..300 {
            prop_assert_eq!(table.get(key_of(number)), model.get(&key_of(number)).copied());
        }
        prop_assert!(table.take_sorted().into_iter().eq(model));
        prop_assert!(table.len() == 0 && !(0..300).any(|number| table.contains(key_of(number))));
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0..300u32, 0..3u8), 0..1_500)) {
            is_a_map(steps.clone(), |number| number as Slot)?;
            is_a_map(steps, Crowded)?;
        }
    }

    #[test]
    fn a_large_table_is_at_most_three_quarters_full_and_not_half_empty() {
        let mut cells = Cells::default();
        for slot in 0..100_000 as Slot {
            cells.insert(slot.tag(0), slot);
            assert!(cells.len * 4 <= cells.cells.len() * 3);
        }
        assert!(cells.cells.len() < 2 * cells.len, "{} cells", cells.cells.len());
    }
}
