//! The ring: the last events of an agent, each at its number, and who waits for the next one.
//!
//! Invariants:
//! - The newest event is numbered `last`, and there are no gaps before it, as far back as events are kept.
//! - At most [`KEPT_EVENTS`] are kept, and at most [`KEPT_LIST_BYTES`] of lists of names in them; the newest always is.
//!
//! Must not know: the directory, the lock that it is under.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use crate::event::{Event, EventKind};

/// Events kept for replay and for subscribers that are behind.
pub const KEPT_EVENTS: usize = 4_096;
/// The greatest size of the lists of names in kept events together, in bytes: both sides of a partition of the largest
/// cluster. The newest event is kept whatever its size.
pub const KEPT_LIST_BYTES: usize = 4 * 1024 * 1024;

/// The newest events of an agent, and the subscriptions to them.
#[derive(Debug, Default)]
pub(super) struct Ring {
    /// The newest is numbered `last`, and there are no gaps.
    pub(super) events: VecDeque<Arc<Event>>,
    pub(super) last: u64,
    /// The kept events with lists of names, by number, and the size of those lists.
    lists: VecDeque<(u64, usize)>,
    /// The size of all of them together.
    pub(super) list_bytes: usize,
    /// Changes of the directory that no event tells of.
    pub(super) untold: u64,
    pub(super) closed: bool,
    /// One per subscription that waits right now.
    pub(super) wakers: BTreeMap<u64, Waker>,
    subscriptions: u64,
    /// The number of events by kind, in the order of [`EventKind::NAMES`].
    pub(super) told: [u64; EventKind::NAMES.len()],
    /// The subscriptions there are, and the events that they missed, by reader.
    pub(super) readers: [Readers; Reader::ALL.len()],
}

/// The subscriptions of one kind of reader.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Readers {
    /// The number of subscriptions there are.
    pub open: usize,
    /// The number of events that subscriptions missed because they were too slow.
    pub missed: u64,
}

/// The kinds of readers of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reader {
    /// A program in this process.
    Program,
    /// An event stream of the HTTP interface.
    Http,
    /// The event handlers of the configuration.
    Handler,
}

impl Reader {
    /// All kinds.
    pub const ALL: [Reader; 3] = [Reader::Program, Reader::Http, Reader::Handler];

    /// Returns the kind's name as a metric label.
    pub const fn name(self) -> &'static str {
        match self {
            Reader::Program => "program",
            Reader::Http => "http",
            Reader::Handler => "handler",
        }
    }
}

/// A subscription as the bus knows it, read by [`Reader::Program`] until it is handed over.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Its name among those that wait.
    pub(crate) id: u64,
    /// The number of the first event that it reads.
    pub(crate) next: u64,
}

/// The thing at a position of the stream of events.
pub(crate) enum Position {
    /// An event.
    Event(Arc<Event>),
    /// Nothing any more: this many events are missed, the oldest kept one is `oldest`.
    Gone { missed: u64, oldest: u64 },
    /// Nothing yet.
    Future,
    /// Nothing ever.
    Closed,
}

impl Ring {
    fn oldest(&self) -> u64 {
        self.last + 1 - self.events.len() as u64
    }

    /// Appends the event numbered `last`, whose lists of names have this size. Returns the events that are no longer
    /// kept.
    pub(super) fn push(&mut self, event: Arc<Event>, list_bytes: usize) -> Vec<Arc<Event>> {
        self.events.push_back(event);
        if list_bytes > 0 {
            self.lists.push_back((self.last, list_bytes));
            self.list_bytes += list_bytes;
        }
        let mut forgotten = Vec::new();
        while self.events.len() > KEPT_EVENTS || (self.list_bytes > KEPT_LIST_BYTES && self.events.len() > 1) {
            forgotten.extend(self.events.pop_front());
            let oldest = self.oldest();
            if let Some((_, bytes)) = self.lists.front().copied().filter(|(sequence, _)| *sequence < oldest) {
                self.lists.pop_front();
                self.list_bytes -= bytes;
            }
        }
        forgotten
    }

    /// Returns the number of the event in the middle of those that are kept.
    #[cfg(any(test, feature = "agent"))]
    pub(super) fn middle(&self) -> u64 {
        self.last - self.events.len() as u64 / 2
    }

    /// Returns the thing at a position.
    pub(super) fn at(&self, sequence: u64) -> Position {
        let oldest = self.oldest();
        if sequence < oldest {
            return Position::Gone { missed: oldest - sequence, oldest };
        }
        match self.events.get((sequence - oldest) as usize) {
            Some(event) => Position::Event(Arc::clone(event)),
            None if self.closed => Position::Closed,
            None => Position::Future,
        }
    }

    /// Enters a subscription that begins with this event.
    pub(super) fn enter(&mut self, next: u64) -> Entry {
        self.subscriptions += 1;
        self.readers[Reader::Program as usize].open += 1;
        Entry { id: self.subscriptions, next }
    }

    /// All events after `sequence`, if they are still there.
    pub(super) fn after(&self, sequence: u64) -> Option<Vec<Arc<Event>>> {
        let skipped = (sequence + 1).checked_sub(self.oldest())?;
        Some(self.events.iter().skip(skipped as usize).map(Arc::clone).collect())
    }
}
