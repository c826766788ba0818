//! The bus: numbers events, keeps the last [`KEPT_EVENTS`] of them, and wakes who waits.
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
//!   while members are copied (but see [`Bus::snapshot`]).
//!
//! Must not know: the core's state, what subscribers do.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::SystemTime;

use super::directory::Directory;
use crate::core::Change;
use crate::event::{Event, EventKind};
use crate::member::Member;

/// Events kept for replay and for subscribers that are behind.
pub const KEPT_EVENTS: usize = 4_096;

/// The members at one position in the stream of events.
#[derive(Debug, Clone, PartialEq, Eq)]
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

#[derive(Debug, Default)]
struct Ring {
    /// The newest is numbered `last`, and there are no gaps.
    events: VecDeque<Arc<Event>>,
    last: u64,
    /// Changes of the directory that no event tells of.
    untold: u64,
    closed: bool,
    /// One per subscription that waits right now.
    wakers: BTreeMap<u64, Waker>,
    subscriptions: u64,
    /// The number of events by kind, in the order of [`EventKind::NAMES`].
    told: [u64; EventKind::NAMES.len()],
    /// The subscriptions there are, and the events that they missed, by reader.
    readers: [Readers; Reader::ALL.len()],
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
pub(super) struct Entry {
    /// Its name among those that wait.
    pub(super) id: u64,
    /// The number of the first event that it reads.
    pub(super) next: u64,
}

/// The thing at a position of the stream of events.
pub(super) enum Position {
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

    fn at(&self, sequence: u64) -> Position {
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

    fn enter(&mut self, next: u64) -> Entry {
        self.subscriptions += 1;
        self.readers[Reader::Program as usize].open += 1;
        Entry { id: self.subscriptions, next }
    }

    /// All events after `sequence`, if they are still there.
    fn after(&self, sequence: u64) -> Option<Vec<Arc<Event>>> {
        let skipped = (sequence + 1).checked_sub(self.oldest())?;
        Some(self.events.iter().skip(skipped as usize).map(Arc::clone).collect())
    }
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
        self.append(at, || self.directory.apply(change, at))
    }

    /// Takes a change into the directory, and tells nobody.
    pub(crate) fn list(&self, change: &Change, at: SystemTime) {
        let mut ring = self.ring();
        ring.untold += 1;
        self.directory.apply(change, at);
    }

    /// Appends an event that changes no member, wakes who waits. A member that it shows is the directory's own.
    pub(crate) fn announce(&self, kind: EventKind, at: SystemTime) -> Arc<Event> {
        self.append(at, || kind)
    }

    /// `kind` is called under the lock.
    fn append(&self, at: SystemTime, kind: impl FnOnce() -> EventKind) -> Arc<Event> {
        let mut ring = self.ring();
        let kind = kind();
        ring.last += 1;
        if let Some(place) = EventKind::NAMES.iter().position(|name| *name == kind.name()) {
            ring.told[place] += 1;
        }
        let event = Arc::new(Event { sequence: ring.last, at, kind });
        // The forgotten one is freed after the lock.
        let forgotten = if ring.events.len() == KEPT_EVENTS { ring.events.pop_front() } else { None };
        ring.events.push_back(Arc::clone(&event));
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

    /// The members at one position.
    ///
    /// A hundred thousand members take a while to copy, and the driver must not wait for it: the copy is made without
    /// the lock, and the events that happened meanwhile are folded over it. That they may be contained in it already
    /// does no harm, since each carries its member whole. Only when more happened than is kept, or something of which no event
    /// tells, is the lock held.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let before = {
            let ring = self.ring();
            (ring.last, ring.untold)
        };
        let mut members = self.directory.by_id();
        let ring = self.ring();
        let sequence = ring.last;
        // A change that no event tells of cannot be folded over the copy.
        let Some(meanwhile) = ring.after(before.0).filter(|_| ring.untold == before.1) else {
            return Snapshot { sequence, members: self.directory.members() };
        };
        drop(ring);
        for event in meanwhile {
            fold(&mut members, &event.kind);
        }
        Snapshot { sequence, members: members.into_values().collect() }
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

/// Brings a listing of members up to date with an event, as every user of events may.
pub(super) fn fold(members: &mut BTreeMap<crate::core::NodeId, Member>, kind: &EventKind) {
    match kind {
        EventKind::NodeRemoved { member } => {
            members.remove(&member.id);
        }
        kind => {
            if let Some(member) = kind.member() {
                members.insert(member.id.clone(), member.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::agent::clock::Clock;
    use crate::agent::directory::tests::{name, record};
    use crate::core::{ChangeKind, LeaveReason, NodeId, Record, Status};

    fn bus() -> Arc<Bus> {
        Bus::new(Directory::new(name("me"), Clock::start()))
    }

    /// A view that changes as the core's does: records win by precedence, and some are forgotten.
    #[derive(Default)]
    struct View(BTreeMap<NodeId, Arc<Record>>);

    impl View {
        fn merge(&mut self, new: &Arc<Record>) -> Vec<Change> {
            let held = self.0.get(&new.id);
            if held.is_some_and(|held| !new.supersedes(held)) {
                return Vec::new();
            }
            let changes = Change::between(held, new, None).collect();
            self.0.insert(new.id.clone(), Arc::clone(new));
            changes
        }

        fn remove(&mut self, id: &NodeId) -> Option<Change> {
            let record = self.0.remove(id)?;
            Some(Change { kind: ChangeKind::Removed, previous: Some(Arc::clone(&record)), record, method: None })
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Merge(Arc<Record>),
        Remove(NodeId),
        Partition,
        Snapshot,
    }

    fn step() -> impl Strategy<Value = Step> {
        let status = prop::sample::select(vec![
            Status::Joining,
            Status::Up,
            Status::Suspect,
            Status::Leaving,
            Status::Down,
            Status::Left(LeaveReason::Graceful),
            Status::Left(LeaveReason::Forced),
        ]);
        let id = prop::sample::select(vec!["a", "b", "me"]);
        let merge =
            (id.clone(), 1..3u64, 1..6u64, status).prop_map(|(id, run, n, s)| Step::Merge(record(id, run, n, s)));
        let others = prop_oneof![Just(Step::Snapshot), Just(Step::Partition)];
        prop_oneof![8 => merge, 1 => id.prop_map(|id| Step::Remove(name(id))), 2 => others]
    }

    fn listing(members: &[Member]) -> BTreeMap<NodeId, Member> {
        members.iter().map(|member| (member.id.clone(), member.clone())).collect()
    }

    proptest! {
        #[test]
        fn folding_the_events_over_any_snapshot_gives_the_directory(steps in prop::collection::vec(step(), 1..80)) {
            let bus = bus();
            let mut view = View::default();
            let mut followers = vec![bus.subscribe_from_snapshot()];
            for step in steps {
                let changes = match step {
                    Step::Merge(new) => view.merge(&new),
                    Step::Remove(id) => view.remove(&id).into_iter().collect(),
                    Step::Partition => {
                        let (unreachable, reachable) = (vec![name("a"), name("b")], vec![name("me")]);
                        bus.announce(EventKind::PartitionSuspected { unreachable, reachable }, SystemTime::now());
                        Vec::new()
                    }
                    Step::Snapshot => {
                        followers.push(bus.subscribe_from_snapshot());
                        Vec::new()
                    }
                };
                for change in changes {
                    bus.publish(&change, SystemTime::now());
                }
            }
            let directory = bus.directory().members();
            let expected: Vec<_> = view.0.values().map(|record| (record.id.clone(), record.status)).collect();
            let listed: Vec<_> = directory.iter().map(|member| (member.id.clone(), member.status)).collect();
            prop_assert_eq!(listed, expected);
            let counts = bus.directory().by_status();
            for (index, name) in Status::NAMES.into_iter().enumerate() {
                prop_assert_eq!(counts[index], directory.iter().filter(|m| m.status.name() == name).count(), "{}", name);
            }
            for (snapshot, mut subscription) in followers {
                let mut members = listing(&snapshot.members);
                let mut sequence = snapshot.sequence;
                while let Some(event) = subscription.try_recv().expect("nothing is lost") {
                    sequence += 1;
                    prop_assert_eq!(event.sequence, sequence, "no gap, no overlap");
                    fold(&mut members, &event.kind);
                }
                prop_assert_eq!(&members, &listing(&directory));
            }
        }
    }

    #[test]
    fn snapshots_taken_while_events_happen_have_no_gap_and_no_overlap() {
        let bus = bus();
        let publisher = {
            let bus = Arc::clone(&bus);
            std::thread::spawn(move || {
                let mut view = View::default();
                for n in 0..2_000u64 {
                    let new = record(["a", "b", "c"][n as usize % 3], 1, 1 + n, Status::Up);
                    view.merge(&new).iter().for_each(|change| drop(bus.publish(change, SystemTime::UNIX_EPOCH)));
                    if n % 7 == 0 {
                        view.remove(&name("b")).iter().for_each(|c| drop(bus.publish(c, SystemTime::UNIX_EPOCH)));
                    }
                }
            })
        };
        let mut followers = Vec::new();
        while !publisher.is_finished() && followers.len() < 500 {
            followers.push(bus.subscribe_from_snapshot());
        }
        publisher.join().expect("no panic");
        for (snapshot, mut subscription) in followers {
            let mut members = listing(&snapshot.members);
            while let Some(event) = subscription.try_recv().expect("2,286 events are kept") {
                fold(&mut members, &event.kind);
            }
            assert_eq!(members, listing(&bus.directory().members()), "from {}", snapshot.sequence);
        }
    }

    #[test]
    fn no_more_than_the_bound_is_kept() {
        let bus = bus();
        for n in 1..=KEPT_EVENTS as u64 + 10 {
            let changes = View::default().merge(&record("a", 1, n, Status::Up));
            assert_eq!(bus.publish(&changes[0], SystemTime::now()).sequence, n);
        }
        assert_eq!(bus.ring().events.len(), KEPT_EVENTS);
        assert_eq!(bus.snapshot().sequence, KEPT_EVENTS as u64 + 10);
    }

    #[test]
    fn a_snapshot_is_right_even_if_more_happened_than_is_kept() {
        let bus = bus();
        for n in 1..=KEPT_EVENTS as u64 + 2 {
            bus.publish(&View::default().merge(&record("a", 1, n, Status::Up))[0], SystemTime::now());
        }
        assert!(bus.ring().after(0).is_none(), "the way that holds the lock is taken");
        assert_eq!(bus.ring().after(2).map(|events| events.len()), Some(KEPT_EVENTS));
    }
}
