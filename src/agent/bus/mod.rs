//! The bus: numbers events, keeps the last [`KEPT_EVENTS`] of them (fewer if they list many names), and wakes who waits.
//!
//! There is no queue per subscriber. A subscription is a position in one ring, so a slow subscriber costs nothing but
//! its own completeness, a dropped one costs nothing at all, and the driver never waits for either.
//!
//! Invariants:
//! - Sequence numbers start at 1 and have no gaps.
//! - Directory and ring change under one lock. Folding the events after [`Snapshot::sequence`] over its members (insert
//!   the event's member, take it out at `NodeRemoved`) therefore always gives the directory, but for members that were
//!   gone before this node was one: those are listed without an event.
//! - The lock is held for moments: to append, to look at one position, to copy pointers. Never across an await, never
//!   while members are looked up (but see [`Bus::listed`]).
//!
//! | idea | file |
//! |---|---|
//! | directory and events under one lock | here |
//! | events, positions, readers | `ring` |
//! | the members at one position | `listed` |
//!
//! Must not know: the core's state, what subscribers do.

mod listed;
mod ring;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::SystemTime;

use super::directory::Directory;
use crate::core::Change;
use crate::event::{Event, EventKind};
use crate::member::Member;
pub(crate) use listed::Listed;
use ring::Ring;
pub(super) use ring::{Entry, Position};
pub use ring::{KEPT_EVENTS, KEPT_LIST_BYTES, Reader, Readers};

/// The members at one position in the stream of events.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The last event that is contained in `members`; 0 if there was none yet.
    pub sequence: u64,
    /// All members, sorted by name, those that left included.
    pub members: Vec<Member>,
}

/// Directory and events of one agent.
#[derive(Debug)]
pub(crate) struct Bus {
    directory: Directory,
    ring: Mutex<Ring>,
}

impl Bus {
    pub(crate) fn new(directory: Directory) -> Arc<Self> {
        Arc::new(Self { directory, ring: Mutex::default() })
    }

    /// The members.
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // Nothing that runs under the lock leaves it half done.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a change into the directory, appends its event, wakes who waits.
    pub(crate) fn publish(&self, change: &Change, at: SystemTime) -> Arc<Event> {
        self.append(at, 0, || self.directory.apply(change, at))
    }

    /// Takes a change into the directory, and tells nobody.
    pub(crate) fn list(&self, change: &Change, at: SystemTime) {
        let mut ring = self.ring();
        ring.untold += 1;
        self.directory.apply(change, at);
    }

    /// Appends an event that changes no member, wakes who waits. A member that it shows is the directory's own.
    pub(crate) fn announce(&self, kind: EventKind, at: SystemTime) -> Arc<Event> {
        self.append(at, kind.list_bytes(), || kind)
    }

    /// `kind` is called under the lock.
    fn append(&self, at: SystemTime, list_bytes: usize, kind: impl FnOnce() -> EventKind) -> Arc<Event> {
        let mut ring = self.ring();
        let kind = kind();
        ring.last += 1;
        if let Some(place) = EventKind::NAMES.iter().position(|name| *name == kind.name()) {
            ring.told[place] += 1;
        }
        let event = Arc::new(Event { sequence: ring.last, at, live_members: self.directory.here(), kind });
        // The forgotten ones are freed after the lock.
        let forgotten = ring.push(Arc::clone(&event), list_bytes);
        let wakers = std::mem::take(&mut ring.wakers);
        drop(ring);
        drop(forgotten);
        wakers.into_values().for_each(Waker::wake);
        event
    }

    /// Ends the stream: subscribers read what is kept and are then told that this is all.
    pub(crate) fn close(&self) {
        let mut ring = self.ring();
        ring.closed = true;
        let wakers = std::mem::take(&mut ring.wakers);
        drop(ring);
        wakers.into_values().for_each(Waker::wake);
    }

    /// The number of the newest event.
    pub(crate) fn last(&self) -> u64 {
        self.ring().last
    }

    /// The number of the event in the middle of those that are kept.
    #[cfg(feature = "agent")]
    pub(super) fn middle(&self) -> u64 {
        self.ring().middle()
    }

    /// The numbers of events by kind, in the order of [`EventKind::NAMES`].
    pub(super) fn told(&self) -> [u64; EventKind::NAMES.len()] {
        self.ring().told
    }

    /// The subscriptions by reader, in the order of [`Reader::ALL`].
    pub(super) fn readers(&self) -> [Readers; Reader::ALL.len()] {
        self.ring().readers
    }

    /// A subscription is read by another kind of reader from now on.
    #[cfg(feature = "agent")]
    pub(super) fn hand_over(&self, from: Reader, to: Reader) {
        let mut ring = self.ring();
        ring.readers[from as usize].open -= 1;
        ring.readers[to as usize].open += 1;
    }

    /// A subscription missed so many events.
    pub(super) fn missed(&self, reader: Reader, events: u64) {
        self.ring().readers[reader as usize].missed += events;
    }

    /// Enters a subscription to everything after now.
    pub(super) fn enter(&self) -> Entry {
        let mut ring = self.ring();
        let next = ring.last + 1;
        ring.enter(next)
    }

    /// Enters a subscription to everything after `sequence`, kept events included; the error is the number of events that are
    /// not kept, 0 if it is unknown.
    pub(super) fn enter_after(&self, sequence: u64) -> Result<Entry, u64> {
        let mut ring = self.ring();
        if sequence > ring.last {
            // A number that was never given out is another run's: what lies between is unknown.
            return Err(0);
        }
        match ring.at(sequence + 1) {
            Position::Gone { missed, .. } => Err(missed),
            _ => Ok(ring.enter(sequence + 1)),
        }
    }

    /// Enters a subscription that goes on after a snapshot that was taken here, whatever is still kept.
    pub(super) fn enter_from(&self, snapshot: &Snapshot) -> Entry {
        self.ring().enter(snapshot.sequence + 1)
    }

    /// The members at one position, to be copied one after the other.
    ///
    /// A hundred thousand members take a while to look up, and the driver must not wait for it: that is done without the
    /// lock, and the events that happened meanwhile are folded over it. That they may be contained in it already does no
    /// harm, since each carries its member whole. Only when more happened than is kept, or something of which no event
    /// tells, is the lock held.
    pub(crate) fn listed(&self) -> Listed {
        let before = {
            let ring = self.ring();
            (ring.last, ring.untold)
        };
        let mut listed = Listed::of(&self.directory, before.0);
        let ring = self.ring();
        listed.sequence = ring.last;
        // A change that no event tells of cannot be folded over the copy.
        let Some(meanwhile) = ring.after(before.0).filter(|_| ring.untold == before.1) else {
            return Listed::of(&self.directory, ring.last);
        };
        drop(ring);
        for event in meanwhile {
            listed.fold(&event.kind);
        }
        listed
    }

    /// Copies of the members at one position.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let listed = self.listed();
        Snapshot { sequence: listed.sequence, members: listed.into_members().collect() }
    }

    /// Returns the thing at a position; where that is nothing yet, `waker` is called once there is.
    pub(super) fn at(&self, sequence: u64, waiting: Option<(u64, &Waker)>) -> Position {
        let mut ring = self.ring();
        let position = ring.at(sequence);
        let mut replaced = None;
        if let (Position::Future, Some((subscription, waker))) = (&position, waiting) {
            replaced = ring.wakers.insert(subscription, waker.clone());
        }
        // A waker is somebody else's code, and is dropped after the lock.
        drop(ring);
        drop(replaced);
        position
    }

    /// A subscription is gone.
    pub(super) fn forget(&self, subscription: u64, reader: Reader) {
        let mut ring = self.ring();
        ring.readers[reader as usize].open -= 1;
        let waker = ring.wakers.remove(&subscription);
        drop(ring);
        drop(waker);
    }
}
