//! A table with one entry for each node that has one, by the node's number: it is asked several times a step.
//!
//! Must not know: what the entries are.

use std::iter;

/// Entries by the numbers of nodes.
#[derive(Debug)]
pub(super) struct PerNode<T>(Vec<Option<Box<T>>>);

impl<T> Default for PerNode<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> PerNode<T> {
    /// Returns the entry of a node.
    pub(super) fn get(&self, node: usize) -> Option<&T> {
        self.0.get(node)?.as_deref()
    }

    /// Returns the entry of a node, to change it.
    pub(super) fn get_mut(&mut self, node: usize) -> Option<&mut T> {
        self.0.get_mut(node)?.as_deref_mut()
    }

    /// Replaces the entry of a node.
    pub(super) fn insert(&mut self, node: usize, entry: T) {
        let missing = (node + 1).saturating_sub(self.0.len());
        self.0.extend(iter::repeat_with(|| None).take(missing));
        self.0[node] = Some(Box::new(entry));
    }

    /// Removes the entry of a node, and returns it.
    pub(super) fn remove(&mut self, node: usize) -> Option<T> {
        self.0.get_mut(node)?.take().map(|entry| *entry)
    }
}
