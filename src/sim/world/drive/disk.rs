//! Writes to the disks of nodes: how long they take, and when they are acknowledged.
//!
//! Must not know: what is written.

use std::time::Duration;

use crate::node::Stored;
use crate::world::{Event, World};
use headcount_core::Durable;

/// Time that a writer waits before it tries again after a full disk failed a write.
const REWRITE: Duration = Duration::from_millis(100);

impl World {
    /// Begins to store the state that a core wants stored.
    pub(super) fn persist(&mut self, node: usize, durable: Durable) {
        if !self.nodes[node].is_durable {
            // A node without a disk: no write to wait for.
            return self.acknowledge(node, Stored::of(&durable));
        }
        if self.intercept.forgets(node, &durable) {
            self.acknowledge(node, Stored::of(&durable));
        } else if self.nodes[node].disk.write(durable) {
            self.begin_write(node);
        }
    }

    /// Acknowledges a write that is not carried out.
    fn acknowledge(&mut self, node: usize, stored: Stored) {
        if let Some(process) = self.nodes[node].process.as_ref() {
            let event = Event::Acknowledged { node, process: process.number, stored };
            let late = self.lateness(node);
            self.push_after(late, event);
        }
    }

    /// Tries a failed write again.
    pub(super) fn write_again(&mut self, node: usize) {
        if let Some(process) = self.nodes[node].process.as_ref() {
            let event = Event::Written { node, process: process.number };
            self.push_after(REWRITE, event);
        }
    }

    /// Sets the time at which the write under way is done.
    pub(super) fn begin_write(&mut self, node: usize) {
        // Mostly a few milliseconds; now and then a disk takes longer.
        let most = if self.random.below(20) == 0 { 100 } else { 5 };
        let after = self.random.duration(Duration::from_micros(500), Duration::from_millis(most)) + self.lateness(node);
        if let Some(process) = self.nodes[node].process.as_ref() {
            let event = Event::Written { node, process: process.number };
            self.push_after(after, event);
        }
    }
}
