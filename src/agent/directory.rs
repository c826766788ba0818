//! The published members: readable from any thread, at any time, without asking the driver.
//!
//! Invariants:
//! - Only the driver writes. [`Directory::apply`] is called with the bus's lock held, so that events and directory move
//!   together; [`Directory::heard`] and [`Directory::sent`] need no lock, because what they touch is in no event's
//!   contract.
//! - No lock lives across an await, and none is visible outside: readers get copies. Whoever holds a reference into the map
//!   touches the map nowhere else: its parts have a lock each, which one thread does not take twice.
//! - Readers hold a lock for as long as it takes to copy pointers: the driver never waits while a listing of a thousand
//!   members is put together. Only [`Bus::listed`](super::bus::Bus::listed) makes a listing that shows one moment.
//! - An entry is small: the record is shared with the core, and a [`Member`] is only made for somebody who asks.
//!
//! Must not know: the core, sockets, subscribers.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use dashmap::DashMap;

use super::agreement::Agreement;
use super::clock::Clock;
use super::telemetry::Peer;
use super::translate::event_kind;
#[cfg(feature = "metrics")]
use super::verdict::Seen;
use crate::core::{Change, ChangeKind, DetectionMethod, NodeId, Record, Status, Time};
use crate::event::EventKind;
use crate::member::Member;

/// All members as this node sees them.
#[derive(Debug)]
pub(crate) struct Directory {
    me: NodeId,
    clock: Clock,
    /// Entries are replaced, never changed in place but for their signs of life.
    members: DashMap<NodeId, Place>,
    by_status: [AtomicUsize; Status::NAMES.len()],
}

/// The place of a member. It has a lock of its own, because whoever writes to the map waits until nobody reads there, which
/// busy readers can put off for long; changing a member in its place waits only for whoever copies that pointer.
type Place = RwLock<Arc<Entry>>;

/// One member as it is published.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) record: Arc<Record>,
    method: Option<DetectionMethod>,
    since: SystemTime,
    /// Its packets.
    heard: Signs,
    /// The heartbeats to it.
    sent: Signs,
    /// Microseconds, 0 for never measured.
    rtt: AtomicU32,
    /// Of its view, in its last packet.
    fingerprint: AtomicU64,
    /// The [`Time`] since which its packets have told of another view than this node held then, 0 if the last one did not.
    differs_since: AtomicU64,
    /// True if this node observed it at its last packet.
    is_observed: AtomicBool,
}

/// The last of the packets one way, in nanoseconds.
#[derive(Debug, Default)]
struct Signs {
    /// [`Time`], 0 for never.
    last: AtomicU64,
    /// The time since the one before, 0 if there was none.
    interval: AtomicU64,
}

impl Signs {
    /// Only the driver calls it.
    fn note(&self, now: Time) {
        let before = self.last.swap(now.as_nanos(), Ordering::Relaxed);
        if before != 0 {
            self.interval.store(now.since(Time::from_nanos(before)).as_nanos().max(1) as u64, Ordering::Relaxed);
        }
    }

    fn take_over(&self, other: &Self) {
        self.last.store(other.last.load(Ordering::Relaxed), Ordering::Relaxed);
        self.interval.store(other.interval.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    fn last(&self) -> Option<Time> {
        nonzero(self.last.load(Ordering::Relaxed)).map(Time::from_nanos)
    }

    fn interval(&self) -> Option<Duration> {
        nonzero(self.interval.load(Ordering::Relaxed)).map(Duration::from_nanos)
    }
}

fn nonzero(value: u64) -> Option<u64> {
    (value != 0).then_some(value)
}

/// The news in a member's packet.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sign {
    /// The smoothed round-trip time, if it was ever measured.
    pub(crate) rtt: Option<Duration>,
    /// The fingerprint of the member's view.
    pub(crate) fingerprint: Option<u64>,
    /// The fingerprint of this node's own view.
    pub(crate) own_fingerprint: u64,
    /// True if this node observes the member.
    pub(crate) is_observed: bool,
}

impl Entry {
    fn new(record: Arc<Record>, method: Option<DetectionMethod>, since: SystemTime) -> Self {
        let (heard, sent, rtt, fingerprint, differs_since, is_observed) = Default::default();
        Self { record, method, since, heard, sent, rtt, fingerprint, differs_since, is_observed }
    }

    /// Makes a copy, with ages as they are at this time.
    pub(super) fn member(&self, me: &NodeId, now: Time) -> Member {
        let mut member = Member::from_record(&self.record, self.method, self.since, self.record.id == *me);
        member.last_heard = self.heard.last().map(|heard| now.since(heard));
        member.heard_interval = self.heard.interval();
        member.last_sent = self.sent.last().map(|sent| now.since(sent));
        member.sent_interval = self.sent.interval();
        member.rtt = nonzero(self.rtt.load(Ordering::Relaxed).into()).map(Duration::from_micros);
        member
    }

    /// The entry after the change. `since` is when the *status* changed: a new tag does not make a node younger.
    fn updated(&self, change: &Change, at: SystemTime) -> Self {
        let since = if self.record.status == change.record.status { self.since } else { at };
        let next = Self::new(Arc::clone(&change.record), change.method, since);
        // Signs of life stay with the process that gave them. Only the driver writes, here and there, so none gets lost.
        if self.record.run == change.record.run {
            next.heard.take_over(&self.heard);
            next.sent.take_over(&self.sent);
            next.rtt.store(self.rtt.load(Ordering::Relaxed), Ordering::Relaxed);
            next.fingerprint.store(self.fingerprint.load(Ordering::Relaxed), Ordering::Relaxed);
            next.differs_since.store(self.differs_since.load(Ordering::Relaxed), Ordering::Relaxed);
            next.is_observed.store(self.is_observed.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        next
    }
}

impl Directory {
    /// An empty directory of the node `me`.
    pub(crate) fn new(me: NodeId, clock: Clock) -> Self {
        Self { me, clock, members: DashMap::new(), by_status: Default::default() }
    }

    /// The node whose directory it is.
    pub(super) fn me(&self) -> &NodeId {
        &self.me
    }

    /// The member of this name, if it is listed.
    pub(crate) fn member(&self, id: &NodeId) -> Option<Member> {
        Some(self.entry(id)?.member(&self.me, self.clock.now()))
    }

    /// All entries, sorted by name, and the time at which they were looked up. Changes made meanwhile are in it or not.
    pub(super) fn all(&self) -> (Vec<Arc<Entry>>, Time) {
        let mut entries: Vec<_> = self.members.iter().map(|place| held(&place)).collect();
        entries.sort_unstable_by(|a, b| a.record.id.cmp(&b.record.id));
        (entries, self.clock.now())
    }

    /// The numbers of members by status, in the order of [`Status::NAMES`].
    pub(crate) fn by_status(&self) -> [usize; Status::NAMES.len()] {
        std::array::from_fn(|index| self.by_status[index].load(Ordering::Relaxed))
    }

    /// The number of members that are here, Up or Suspect.
    pub(crate) fn here(&self) -> usize {
        [Status::Up, Status::Suspect].map(|status| self.by_status[status.index()].load(Ordering::Relaxed)).iter().sum()
    }

    /// Returns the views of this node, with its own fingerprint, and of the live members that it heard within this time.
    pub(super) fn agreement(&self, own: u64, within: Duration) -> Agreement {
        let (entries, now) = self.all();
        let mut agreement = Agreement::of(own, self.me.clone());
        for entry in entries.iter().filter(|entry| entry.record.id != self.me && entry.record.status.is_live()) {
            if entry.heard.last().is_some_and(|heard| now.since(heard) <= within) {
                let fingerprint = entry.fingerprint.load(Ordering::Relaxed);
                agreement.add(fingerprint, &entry.record.id);
                let since = nonzero(entry.differs_since.load(Ordering::Relaxed)).filter(|_| fingerprint != own);
                let differs_for = since.map_or(Duration::ZERO, |since| now.since(Time::from_nanos(since)));
                agreement.differs_for = agreement.differs_for.max(differs_for);
            } else {
                agreement.unheard += 1;
            }
        }
        agreement
    }

    /// Returns all members that have not left, sorted by name, as they are judged.
    #[cfg(feature = "metrics")]
    pub(super) fn seen(&self) -> Vec<Seen> {
        let (entries, _) = self.all();
        let here = entries.iter().filter(|entry| !matches!(entry.record.status, Status::Left(_)));
        let seen = |entry: &Arc<Entry>| Seen {
            id: entry.record.id.clone(),
            address: entry.record.address,
            status: entry.record.status,
            method: entry.method,
            is_draining: entry.record.is_draining(),
        };
        here.map(seen).collect()
    }

    /// Returns what this node measures of each other live member that it has heard, sorted by name.
    pub(super) fn peers(&self) -> Vec<Peer> {
        let (entries, now) = self.all();
        let others = entries.iter().filter(|entry| entry.record.id != self.me && entry.record.status.is_live());
        let peer = |entry: &Arc<Entry>| {
            let member = entry.member(&self.me, now);
            Some(Peer {
                heartbeat_age: member.last_heard?,
                round_trip: member.rtt,
                is_observed: entry.is_observed.load(Ordering::Relaxed),
                id: member.id,
            })
        };
        others.filter_map(peer).collect()
    }

    /// A packet of this member was a sign of life.
    pub(crate) fn heard(&self, id: &NodeId, now: Time, sign: Sign) {
        if let Some(entry) = self.entry(id) {
            let fingerprint = sign.fingerprint.unwrap_or_default();
            // Of a member that was silent for longer nobody knows whether it agreed meanwhile.
            let silence = entry.record.timing.longest_quiet();
            let is_first = entry.heard.last().is_none_or(|heard| now.since(heard) > silence);
            if fingerprint == sign.own_fingerprint {
                entry.differs_since.store(0, Ordering::Relaxed);
            } else if is_first || entry.differs_since.load(Ordering::Relaxed) == 0 {
                entry.differs_since.store(now.as_nanos(), Ordering::Relaxed);
            }
            entry.heard.note(now);
            entry.fingerprint.store(fingerprint, Ordering::Relaxed);
            entry.is_observed.store(sign.is_observed, Ordering::Relaxed);
            if let Some(rtt) = sign.rtt {
                let micros = u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX).max(1);
                entry.rtt.store(micros, Ordering::Relaxed);
            }
        }
    }

    /// A heartbeat went to this member.
    pub(crate) fn sent(&self, id: &NodeId, now: Time) {
        if let Some(entry) = self.entry(id) {
            entry.sent.note(now);
        }
    }

    /// Takes a change in and says it in public words.
    pub(super) fn apply(&self, change: &Change, at: SystemTime) -> EventKind {
        let now = self.clock.now();
        let fresh = || Arc::new(Entry::new(Arc::clone(&change.record), change.method, at));
        let id = &change.record.id;
        let held = self.entry(id);
        let status = held.as_ref().map(|held| held.record.status);
        if change.kind == ChangeKind::Removed {
            self.members.remove(id);
            self.count(status, None);
            return event_kind(change, held.unwrap_or_else(fresh).member(&self.me, now), None);
        }
        let entry = held.as_ref().map_or_else(fresh, |held| Arc::new(held.updated(change, at)));
        let member = entry.member(&self.me, now);
        if let Some(place) = self.members.get(id) {
            *place.write().unwrap_or_else(PoisonError::into_inner) = entry;
        } else {
            self.members.insert(id.clone(), RwLock::new(entry));
        }
        self.count(status, Some(change.record.status));
        event_kind(change, member, held.map(|held| held.member(&self.me, now)))
    }

    fn entry(&self, id: &NodeId) -> Option<Arc<Entry>> {
        self.members.get(id).map(|place| held(&place))
    }

    /// Counts one member out of a status and into another; `None` is not being listed.
    fn count(&self, from: Option<Status>, to: Option<Status>) {
        if let Some(from) = from {
            self.by_status[from.index()].fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(to) = to {
            self.by_status[to.index()].fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The entry in a place. A reader that panicked cannot have left it half-written.
fn held(place: &Place) -> Arc<Entry> {
    Arc::clone(&place.read().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::core::{LeaveReason, ProtocolRange, Run, Settings, Tags};

    pub(crate) fn name(text: &str) -> NodeId {
        NodeId::new(text).expect("a name")
    }

    pub(crate) fn record(id: &str, run: u64, incarnation: u64, status: Status) -> Arc<Record> {
        Arc::new(Record {
            id: name(id),
            run: Run(run),
            incarnation,
            status,
            address: "10.0.0.1:7117".parse().expect("an address"),
            api_address: None,
            tags: Tags::default(),
            timing: Settings::default().timing().expect("the default"),
            version: "0.1.0".into(),
            protocol: ProtocolRange::OURS,
        })
    }

    /// The changes that lead from what is held to `new`.
    fn changes(held: Option<&Arc<Record>>, new: &Arc<Record>) -> Vec<Change> {
        Change::between(held, new, None).collect()
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn directory() -> Directory {
        Directory::new(name("me"), Clock::start())
    }

    #[test]
    fn since_moves_with_the_status_and_not_with_the_record() {
        let directory = directory();
        let first = record("a", 1, 1, Status::Up);
        let renewed = record("a", 1, 2, Status::Up);
        let down = record("a", 1, 2, Status::Down);
        directory.apply(&changes(None, &first)[0], at(1));
        let updated = directory.apply(&changes(Some(&first), &renewed)[0], at(2));
        let EventKind::NodeUpdated { member, previous } = updated else { panic!("{updated:?}") };
        assert_eq!((member.since, member.incarnation), (at(1), 2));
        assert_eq!((previous.since, previous.incarnation), (at(1), 1));
        directory.apply(&changes(Some(&renewed), &down)[0], at(3));
        assert_eq!(directory.member(&name("a")).expect("listed").since, at(3));
    }

    #[test]
    fn signs_of_life_show_in_the_listing_until_another_process_takes_the_name() {
        let directory = directory();
        let first = record("a", 1, 1, Status::Up);
        directory.apply(&changes(None, &first)[0], at(1));
        let listed = || directory.member(&name("a")).expect("listed");
        assert_eq!((listed().last_heard, listed().rtt), (None, None));
        let sign = Sign { rtt: Some(Duration::from_millis(3)), is_observed: true, ..Sign::default() };
        let now = directory.clock.now();
        directory.heard(&name("a"), now, sign);
        directory.sent(&name("a"), now);
        let intervals = || (listed().heard_interval, listed().sent_interval);
        assert_eq!(intervals(), (None, None), "one is not two");
        directory.heard(&name("a"), now + Duration::from_secs(2), sign);
        directory.sent(&name("a"), now + Duration::from_secs(3));
        let renewed = record("a", 1, 2, Status::Up);
        directory.apply(&changes(Some(&first), &renewed)[0], at(1));
        assert_eq!(intervals(), (Some(Duration::from_secs(2)), Some(Duration::from_secs(3))));
        let peers = directory.peers();
        assert_eq!((peers.len(), peers[0].round_trip, peers[0].is_observed), (1, listed().rtt, true));
        assert!(listed().last_heard.is_some_and(|age| age < Duration::from_secs(60)));
        assert!(listed().last_sent.is_some_and(|age| age < Duration::from_secs(60)));
        assert_eq!(listed().rtt, Some(Duration::from_millis(3)));
        for change in changes(Some(&renewed), &record("a", 2, 3, Status::Up)) {
            directory.apply(&change, at(2));
        }
        assert_eq!((listed().last_heard, listed().last_sent, listed().rtt), (None, None, None));
        assert_eq!(intervals(), (None, None));
    }

    #[test]
    fn views_are_compared_of_the_living_that_were_heard_lately() {
        let directory = directory();
        for (place, id) in ["me", "a", "b", "c", "d", "e"].into_iter().enumerate() {
            let status = if id == "d" { Status::Down } else { Status::Up };
            directory.apply(&changes(None, &record(id, place as u64 + 1, 1, status))[0], at(1));
        }

        let then = directory.clock.now() - Duration::from_secs(1);
        for (id, fingerprint) in [("a", 7), ("b", 8), ("c", 7), ("d", 9)] {
            directory.heard(&name(id), then, Sign { fingerprint: Some(fingerprint), ..Sign::default() });
        }
        let agreement = directory.agreement(7, Duration::from_secs(60));
        let groups: Vec<_> = agreement.groups.iter().map(|group| (group.fingerprint, group.count)).collect();
        assert_eq!((groups, agreement.unheard), (vec![(7, 3), (8, 1)], 1), "{agreement:?}");
        assert_eq!(agreement.groups[0].members, [name("me"), name("a"), name("c")]);
        assert_eq!(directory.agreement(7, Duration::ZERO).unheard, 4, "they were heard before");
    }

    #[test]
    fn a_view_differs_since_the_first_of_the_packets_that_all_told_of_another_one() {
        let directory = directory();
        for (place, id) in ["me", "a"].into_iter().enumerate() {
            directory.apply(&changes(None, &record(id, place as u64 + 1, 1, Status::Up))[0], at(1));
        }
        let now = directory.clock.now();
        // A packet of so many seconds ago, and both fingerprints then.
        let heard = |ago: u64, fingerprint, own_fingerprint| {
            let sign = Sign { fingerprint: Some(fingerprint), own_fingerprint, ..Sign::default() };
            directory.heard(&name("a"), now - Duration::from_secs(ago), sign);
        };
        let differs_for = |own| directory.agreement(own, Duration::from_secs(60)).differs_for.as_secs();
        heard(100, 7, 8);
        heard(11, 7, 8);
        assert_eq!(differs_for(8), 11, "it was silent for too long before");
        heard(8, 7, 9);
        assert_eq!((differs_for(9), differs_for(7)), (11, 0), "also of another one than before");
        heard(7, 9, 9);
        assert_eq!(differs_for(8), 0, "this node's changed a moment ago");
        heard(6, 9, 10);
        assert_eq!(differs_for(10), 6);
    }

    #[test]
    fn members_are_sorted_counted_and_know_who_asks() {
        let directory = directory();
        for id in ["z", "me", "a"] {
            directory.apply(&changes(None, &record(id, 1, 1, Status::Up))[0], at(1));
        }
        let (entries, now) = directory.all();
        let members = entries.iter().map(|entry| entry.member(directory.me(), now));
        let listed: Vec<_> = members.map(|m| (m.id.to_string(), m.is_me)).collect();
        assert_eq!(listed, [("a".to_owned(), false), ("me".to_owned(), true), ("z".to_owned(), false)]);
        assert_eq!(directory.by_status(), [0, 3, 0, 0, 0, 0]);
        let left = record("a", 1, 1, Status::Left(LeaveReason::Graceful));
        directory.apply(&changes(Some(&record("a", 1, 1, Status::Up)), &left)[0], at(2));
        assert_eq!(directory.by_status(), [0, 2, 0, 0, 0, 1]);
        let removed = Change { kind: ChangeKind::Removed, record: left, method: None, previous: None };
        let kind = directory.apply(&removed, at(3));
        assert_eq!(kind.member().expect("about one").since, at(2), "the event shows it as it was last");
        assert_eq!(directory.by_status(), [0, 2, 0, 0, 0, 0]);
        assert_eq!(directory.member(&name("a")), None);
        directory.apply(&removed, at(3));
        assert_eq!(directory.by_status(), [0, 2, 0, 0, 0, 0], "removing a stranger changes no count");
    }
}
