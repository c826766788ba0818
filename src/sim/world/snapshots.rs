//! Snapshots: a process's memory, or a node's disk, is put back to what it was.
//!
//! Promises are not checked in such a world: what the process knew is known no more.
//!
//! Must not know: what becomes of it.

use super::World;
use crate::node::{Disk, Waiting};
use headcount_core::{Core, LinkId};

/// The memory of a process.
#[derive(Debug)]
pub struct Memory {
    core: Core,
    links: Vec<LinkId>,
}

/// The image of a disk.
#[derive(Debug)]
pub struct DiskImage(Disk);

impl World {
    /// Returns a copy of a process's memory; `None` if none runs.
    pub fn memory(&self, node: usize) -> Option<Memory> {
        let process = self.nodes[node].running()?;
        let links = self.streams.of_process(node, process.number).into_iter().map(|end| end.link).collect();
        Some(Memory { core: process.core.clone(), links })
    }

    /// Puts a process's memory back: its host is a virtual machine that is set back to a snapshot. None of its connections
    /// stands any more. Returns false if no process runs.
    ///
    /// # Panics
    /// In a world that is watched.
    pub fn put_memory_back(&mut self, node: usize, memory: Memory) -> bool {
        assert!(self.watch.is_none(), "what it knew is known no more");
        let Some(process) = self.nodes[node].process.as_mut().filter(|process| process.stopped.is_none()) else {
            return false;
        };
        process.core = memory.core;
        process.waiting.clear();
        process.waiting_packets = 0;
        process.wake_at = None;
        process.wake_epoch += 1;
        let number = process.number;
        self.vanish_streams(node, number);
        for link in memory.links {
            self.offer(node, Waiting::Closed { link });
        }
        self.drain_first_outputs(node);
        true
    }

    /// Returns a copy of a node's disk.
    pub fn disk(&self, node: usize) -> DiskImage {
        DiskImage(self.nodes[node].disk.clone())
    }

    /// Puts a copy of a disk into a node that does not run: an old one of its own, or another node's.
    ///
    /// # Panics
    /// In a world that is watched, or if the node runs.
    pub fn put_disk(&mut self, node: usize, DiskImage(disk): DiskImage) {
        assert!(self.watch.is_none() && self.nodes[node].process.is_none(), "its process is gone");
        self.nodes[node].disk = disk;
    }
}
