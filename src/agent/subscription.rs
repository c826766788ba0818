//! A subscriber's end of the bus: a position, a filter, and the ways to read.
//!
//! Invariants: events come in order, each once; whoever falls behind what is kept is told how many it missed, and goes
//! on with the oldest that is kept. Dropping a subscription, or a future that waits on it, leaves nothing behind.
//!
//! Must not know: how events come about.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_core::Stream;

use super::bus::{Bus, Entry, Position, Reader, Snapshot};
use crate::core::NodeId;
use crate::event::{Event, EventKind};
use crate::lease::LeaseName;

/// Events were dropped before they were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("events are no longer kept ({missed}): take a snapshot, and read faster")]
#[non_exhaustive]
pub struct Lagged {
    /// The number of events, filtered ones included; 0 if it is unknown, because the number asked for is not of this run.
    pub missed: u64,
}

/// Why there is no event to receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecvError {
    /// This subscriber was too slow. The next call gives the oldest event that is still kept.
    #[error("events were missed ({missed}): resync, and read faster")]
    Lagged {
        /// The number of events, filtered ones included.
        missed: u64,
    },
    /// The agent has stopped, and everything was read.
    #[error("the agent has stopped")]
    Closed,
}

impl Bus {
    /// A subscription to everything after now.
    pub(crate) fn subscribe(self: &Arc<Self>) -> Subscription {
        Subscription::new(self, self.enter())
    }

    /// A subscription to everything after `sequence`, kept events included.
    pub(crate) fn subscribe_after(self: &Arc<Self>, sequence: u64) -> Result<Subscription, Lagged> {
        let entry = self.enter_after(sequence).map_err(|missed| Lagged { missed })?;
        Ok(Subscription::new(self, entry))
    }

    /// The members, and a subscription to everything that is not contained in them.
    pub(crate) fn subscribe_from_snapshot(self: &Arc<Self>) -> (Snapshot, Subscription) {
        let snapshot = self.snapshot();
        let subscription = Subscription::new(self, self.enter_from(&snapshot));
        (snapshot, subscription)
    }
}

/// A stream of events. Also a [`Stream`] of `Result<Event, Lagged>`.
#[derive(Debug)]
pub struct Subscription {
    bus: Arc<Bus>,
    /// Its name among those that wait.
    id: u64,
    /// The number of the next event to look at.
    next: u64,
    filter: Filter,
    reader: Reader,
}

impl Subscription {
    fn new(bus: &Arc<Bus>, Entry { id, next }: Entry) -> Self {
        let bus = Arc::clone(bus);
        Self { bus, id, next, filter: Filter::default(), reader: Reader::Program }
    }

    /// Counts this subscription as one of another kind of reader.
    #[cfg(feature = "agent")]
    #[must_use]
    pub(crate) fn read_by(mut self, reader: Reader) -> Self {
        self.bus.hand_over(self.reader, reader);
        self.reader = reader;
        self
    }

    /// Returns this subscription, restricted to the events that the filter lets through.
    #[must_use]
    pub fn filtered(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// Waits for the next event. Cancel safe: an event is only passed when it is returned.
    pub async fn recv(&mut self) -> Result<Event, RecvError> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// The next event if there is one now.
    pub fn try_recv(&mut self) -> Result<Option<Event>, RecvError> {
        self.advance(None)
    }

    /// Polls for the next event.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Result<Event, RecvError>> {
        match self.advance(Some(context.waker())).transpose() {
            Some(received) => Poll::Ready(received),
            None => Poll::Pending,
        }
    }

    /// Starts again from the members as they are now: the cure after [`RecvError::Lagged`].
    pub fn resync(&mut self) -> Snapshot {
        let snapshot = self.bus.snapshot();
        self.next = snapshot.sequence + 1;
        snapshot
    }

    /// The number of the last event that was returned or passed over; 0 before the first.
    pub fn position(&self) -> u64 {
        self.next - 1
    }

    /// The number of the event in the middle of those that are kept.
    #[cfg(feature = "agent")]
    pub(crate) fn middle(&self) -> u64 {
        self.bus.middle()
    }

    fn advance(&mut self, waker: Option<&Waker>) -> Result<Option<Event>, RecvError> {
        loop {
            match self.bus.at(self.next, waker.map(|waker| (self.id, waker))) {
                Position::Event(event) => {
                    self.next += 1;
                    if self.filter.matches(&event.kind) {
                        return Ok(Some(Arc::unwrap_or_clone(event)));
                    }
                }
                Position::Gone { missed, oldest } => {
                    self.next = oldest;
                    self.bus.missed(self.reader, missed);
                    return Err(RecvError::Lagged { missed });
                }
                Position::Future => return Ok(None),
                Position::Closed => return Err(RecvError::Closed),
            }
        }
    }
}

impl Stream for Subscription {
    type Item = Result<Event, Lagged>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_recv(context).map(|received| match received {
            Ok(event) => Some(Ok(event)),
            Err(RecvError::Lagged { missed }) => Some(Err(Lagged { missed })),
            Err(RecvError::Closed) => None,
        })
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.bus.forget(self.id, self.reader);
    }
}

/// The events that a subscriber wants: by kind, by node, both or neither. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    kinds: Option<Arc<[&'static str]>>,
    nodes: Option<Arc<[NodeId]>>,
    leases: Option<Arc<[LeaseName]>>,
}

/// Returns the items in their order, each once.
fn sorted<T: Ord>(items: BTreeSet<T>) -> Arc<[T]> {
    items.into_iter().collect()
}

impl Filter {
    /// Everything.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only these kinds, by their names in [`EventKind::NAMES`].
    pub fn kinds<K: AsRef<str>>(mut self, kinds: impl IntoIterator<Item = K>) -> Result<Self, UnknownKind> {
        let known = |kind: K| {
            let kind = kind.as_ref();
            let name = EventKind::NAMES.iter().copied().find(|name| *name == kind);
            name.ok_or_else(|| UnknownKind { kind: kind.to_owned() })
        };
        self.kinds = Some(sorted(kinds.into_iter().map(known).collect::<Result<_, _>>()?));
        Ok(self)
    }

    /// Only events about these nodes, and about partitions that have one of them on either side.
    #[must_use]
    pub fn nodes(mut self, nodes: impl IntoIterator<Item = NodeId>) -> Self {
        self.nodes = Some(sorted(nodes.into_iter().collect()));
        self
    }

    /// Only events about leaders by these leases.
    #[must_use]
    pub fn leases(mut self, leases: impl IntoIterator<Item = LeaseName>) -> Self {
        self.leases = Some(sorted(leases.into_iter().collect()));
        self
    }

    /// Returns true if an event passes.
    pub fn matches(&self, kind: &EventKind) -> bool {
        let is_of = |leases: &Arc<[LeaseName]>| kind.lease().is_some_and(|lease| leases.binary_search(lease).is_ok());
        self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&kind.name()))
            && self.nodes.as_ref().is_none_or(|nodes| nodes.iter().any(|node| kind.concerns(node)))
            && self.leases.as_ref().is_none_or(is_of)
    }
}

/// A name that is no event's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no event is of kind {kind:?}; there are: {}", EventKind::NAMES.join(", "))]
pub struct UnknownKind {
    /// The name.
    pub kind: String,
}
