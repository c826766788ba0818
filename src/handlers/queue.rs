//! The queue of one handler: what waits, in which order it may begin, and what is dropped.
//!
//! Invariants:
//! - Of the entries about one subject at most one is under way, and they begin in the order in which they came.
//! - No more than `concurrency` are under way, and no more than [`MAX_QUEUED_EVENTS`] or [`MAX_QUEUED_BYTES`] wait; the
//!   oldest make room.
//! - Whatever was dropped is told to the next run, and again until a run succeeds.
//!
//! Must not know: what an entry is, how it is handled. There is no clock here.

use std::collections::{BTreeSet, VecDeque};

/// The greatest number of events that wait for one handler.
pub(super) const MAX_QUEUED_EVENTS: usize = 1_024;
/// The greatest number of bytes that wait for one handler.
pub(super) const MAX_QUEUED_BYTES: usize = 4 * 1024 * 1024;

/// The subject of an event: a node, or nothing in particular.
pub(super) type Subject = Option<String>;

/// Entries that wait for a handler.
#[derive(Debug)]
pub(super) struct Queue<T> {
    waiting: VecDeque<Entry<T>>,
    bytes: usize,
    /// The subjects of entries that are under way.
    busy: BTreeSet<Subject>,
    concurrency: usize,
    missed: u64,
}

#[derive(Debug)]
struct Entry<T> {
    subject: Subject,
    bytes: usize,
    what: T,
}

/// An entry that begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Job<T> {
    pub(super) subject: Subject,
    pub(super) what: T,
    /// The number of events that were dropped, and that no successful run was told of.
    pub(super) missed: u64,
}

impl<T> Queue<T> {
    pub(super) fn new(concurrency: usize) -> Self {
        Self { waiting: VecDeque::new(), bytes: 0, busy: BTreeSet::new(), concurrency, missed: 0 }
    }

    /// Sets the number of entries that may be under way from now on.
    pub(super) fn set_concurrency(&mut self, concurrency: usize) {
        self.concurrency = concurrency;
    }

    /// Adds an entry of so many bytes; returns the number of those that were dropped for it.
    pub(super) fn push(&mut self, subject: Subject, bytes: usize, what: T) -> u64 {
        self.bytes += bytes;
        self.waiting.push_back(Entry { subject, bytes, what });
        let mut dropped = 0;
        // An entry that is larger than all the room is kept alone.
        while self.waiting.len() > MAX_QUEUED_EVENTS || self.bytes > MAX_QUEUED_BYTES && self.waiting.len() > 1 {
            if let Some(entry) = self.waiting.pop_front() {
                self.bytes -= entry.bytes;
                dropped += 1;
            }
        }
        self.missed += dropped;
        dropped
    }

    /// Notes events that were lost before they came here, or told to a run in vain.
    pub(super) fn miss(&mut self, events: u64) {
        self.missed += events;
    }

    /// Returns the oldest entry that may begin now.
    pub(super) fn next(&mut self) -> Option<Job<T>> {
        if self.busy.len() >= self.concurrency {
            return None;
        }
        let at = self.waiting.iter().position(|entry| !self.busy.contains(&entry.subject))?;
        let Entry { subject, bytes, what } = self.waiting.remove(at)?;
        self.bytes -= bytes;
        self.busy.insert(subject.clone());
        Some(Job { subject, what, missed: std::mem::take(&mut self.missed) })
    }

    /// Notes that the entry about this subject is done.
    pub(super) fn done(&mut self, subject: &Subject) {
        self.busy.remove(subject);
    }

    /// Drops everything that waits; returns the number.
    pub(super) fn clear(&mut self) -> u64 {
        let dropped = self.waiting.len() as u64;
        self.waiting.clear();
        self.bytes = 0;
        self.missed += dropped;
        dropped
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn running(&self) -> usize {
        self.busy.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "it is the type of a subject")]
    fn about(node: &str) -> Subject {
        Some(node.to_owned())
    }

    fn begun(queue: &mut Queue<u64>) -> Vec<u64> {
        std::iter::from_fn(|| queue.next()).map(|job| job.what).collect()
    }

    #[test]
    fn one_node_waits_for_itself_alone() {
        let mut queue = Queue::new(3);
        for (what, node) in (1..).zip(["a", "a", "b", "a", "c", "d"]) {
            assert_eq!(queue.push(about(node), 1, what), 0);
        }
        assert_eq!(begun(&mut queue), [1, 3, 5], "one about each, three in all");
        queue.done(&about("b"));
        assert_eq!(begun(&mut queue), [6], "a is busy");
        queue.done(&about("a"));
        assert_eq!(begun(&mut queue), [2], "in order");
        queue.done(&about("a"));
        assert_eq!(begun(&mut queue), [4]);
        assert_eq!((queue.waiting(), queue.running()), (0, 3));
    }

    #[test]
    fn events_about_no_node_keep_their_order() {
        let mut queue = Queue::new(8);
        queue.push(None, 1, 1);
        queue.push(None, 1, 2);
        assert_eq!(begun(&mut queue), [1]);
        queue.done(&None);
        assert_eq!(begun(&mut queue), [2]);
    }

    #[test]
    fn with_one_at_a_time_everything_is_in_order() {
        let mut queue = Queue::new(1);
        for (what, node) in (1..).zip(["a", "b", "a"]) {
            queue.push(about(node), 1, what);
        }
        let mut order = Vec::new();
        while let Some(job) = queue.next() {
            assert_eq!(queue.next(), None);
            queue.done(&job.subject);
            order.push(job.what);
        }
        assert_eq!(order, [1, 2, 3]);
    }

    #[test]
    fn at_the_bound_nothing_is_dropped_and_above_it_the_oldest_is_and_the_next_run_is_told() {
        let mut queue = Queue::new(1);
        for what in 0..MAX_QUEUED_EVENTS as u64 {
            assert_eq!(queue.push(about("a"), 1, what), 0);
        }
        assert_eq!(queue.push(about("a"), 1, 9_999), 1);
        assert_eq!(queue.waiting(), MAX_QUEUED_EVENTS);
        let job = queue.next().expect("one");
        assert_eq!((job.what, job.missed), (1, 1));
        queue.done(&job.subject);
        assert_eq!(queue.next().map(|job| job.missed), Some(0), "told once");
    }

    #[test]
    fn bytes_are_bounded_too_and_one_entry_always_fits() {
        let mut queue = Queue::new(1);
        assert_eq!(queue.push(None, MAX_QUEUED_BYTES - 1, 1), 0);
        assert_eq!(queue.push(None, 1, 2), 0);
        assert_eq!(queue.push(None, 1, 3), 1);
        assert_eq!(queue.push(None, 2 * MAX_QUEUED_BYTES, 4), 2);
        let job = queue.next().expect("the last");
        assert_eq!((job.what, job.missed), (4, 3));
        queue.done(&None);
        assert_eq!(queue.push(None, MAX_QUEUED_BYTES, 5), 0, "its bytes were given back");
    }

    #[test]
    fn a_run_that_failed_was_told_in_vain() {
        let mut queue = Queue::new(1);
        queue.miss(3);
        queue.push(None, 1, 1);
        let job = queue.next().expect("one");
        assert_eq!(job.missed, 3);
        queue.done(&job.subject);
        queue.miss(job.missed);
        queue.push(None, 1, 2);
        assert_eq!(queue.next().map(|job| job.missed), Some(3));
    }
}
