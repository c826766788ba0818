//! The bus alone: events and directory move together, and only so many events are kept.

use std::collections::BTreeMap;

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
    let merge = (id.clone(), 1..3u64, 1..6u64, status).prop_map(|(id, run, n, s)| Step::Merge(record(id, run, n, s)));
    let others = prop_oneof![Just(Step::Snapshot), Just(Step::Partition)];
    prop_oneof![8 => merge, 1 => id.prop_map(|id| Step::Remove(name(id))), 2 => others]
}

fn listing(members: &[Member]) -> BTreeMap<NodeId, Member> {
    members.iter().map(|member| (member.id.clone(), member.clone())).collect()
}

/// Brings a listing of members up to date with an event, as every user of events may.
fn fold(members: &mut BTreeMap<NodeId, Member>, kind: &EventKind) {
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
        let directory = bus.snapshot().members;
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
                let live = members.values().filter(|member| member.is_here()).count();
                prop_assert_eq!(event.live_members, live, "as the view was then");
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
        if let (Some(a), Some(c)) = (members.get(&name("a")), members.get(&name("c"))) {
            let is_one_moment = c.incarnation == a.incarnation + 2 || a.incarnation == c.incarnation + 1;
            assert!(is_one_moment, "{} and {} were never listed together", a.incarnation, c.incarnation);
        }
        while let Some(event) = subscription.try_recv().expect("2,286 events are kept") {
            fold(&mut members, &event.kind);
        }
        assert_eq!(members, listing(&bus.snapshot().members), "from {}", snapshot.sequence);
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

/// Both sides of a partition, of this many names, each of the longest that is stored inline.
fn partition(names: usize) -> EventKind {
    let unreachable = (0..names).map(|n| name(&format!("n{n:020}"))).collect();
    EventKind::PartitionSuspected { unreachable, reachable: Vec::new() }
}

#[test]
fn lists_of_names_are_kept_up_to_the_bound_and_who_is_behind_is_told_of_the_gap() {
    let bus = bus();
    let one = partition(1_000);
    let fit = KEPT_LIST_BYTES / one.list_bytes();
    let mut slow = bus.subscribe();
    for _ in 0..fit {
        bus.announce(one.clone(), SystemTime::now());
    }
    assert_eq!(bus.ring().events.len(), fit, "as many as fit");
    assert_eq!(bus.ring().list_bytes, fit * one.list_bytes());
    bus.publish(&View::default().merge(&record("a", 1, 1, Status::Up))[0], SystemTime::now());
    assert_eq!(bus.ring().events.len(), fit + 1, "one without a list costs nothing");
    bus.announce(one.clone(), SystemTime::now());
    assert_eq!(bus.ring().events.len(), fit + 1, "the oldest made room");
    assert!(bus.ring().list_bytes <= KEPT_LIST_BYTES);
    let Err(crate::agent::RecvError::Lagged { missed: 1 }) = slow.try_recv() else { panic!("not told") };
    assert_eq!(slow.try_recv().map(|event| event.map(|event| event.sequence)), Ok(Some(2)));
    let middle = bus.ring().middle();
    assert_eq!(middle, bus.last() - (fit as u64).div_ceil(2), "a listing of this age is followed by kept events");
}

#[test]
fn the_newest_event_is_kept_whatever_its_size() {
    let bus = bus();
    let small = partition(2);
    bus.announce(small.clone(), SystemTime::now());
    let large = partition(KEPT_LIST_BYTES / size_of::<NodeId>() + 1);
    let mut quick = bus.subscribe();
    bus.announce(large.clone(), SystemTime::now());
    assert_eq!(bus.ring().events.len(), 1);
    assert_eq!(quick.try_recv().map(|event| event.map(|event| event.kind == large)), Ok(Some(true)));
    bus.announce(small.clone(), SystemTime::now());
    assert_eq!(bus.ring().events.len(), 1, "it goes with the next one");
    assert_eq!(bus.ring().list_bytes, small.list_bytes());
    assert_eq!(bus.snapshot().sequence, 3);
}

#[test]
fn a_long_name_costs_its_text_too() {
    let unreachable = vec![name(&"x".repeat(NodeId::MAX_BYTES))];
    let kind = EventKind::PartitionHealed { unreachable, reachable: vec![name("a")] };
    assert!(kind.list_bytes() >= 2 * size_of::<NodeId>() + NodeId::MAX_BYTES);
    assert_eq!(EventKind::QuorumLost { term: 1 }.list_bytes(), 0);
}
