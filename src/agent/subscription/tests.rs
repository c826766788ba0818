//! What subscribers get, in which order, and what they are told that they missed.

use std::time::{Duration, SystemTime};

use super::*;
use crate::agent::bus::KEPT_EVENTS;
use crate::agent::clock::Clock;
use crate::agent::directory::Directory;
use crate::agent::directory::tests::{name, record};
use crate::core::{Change, Status};

const KEPT: u64 = KEPT_EVENTS as u64;

fn bus() -> Arc<Bus> {
    Bus::new(Directory::new(name("me"), Clock::start()))
}

fn publish(bus: &Bus, id: &str) {
    let new = record(id, 1, 1, Status::Up);
    for change in Change::between(None, &new, None) {
        bus.publish(&change, SystemTime::now());
    }
}

fn publish_many(bus: &Bus, events: u64) {
    for _ in 0..events {
        publish(bus, "a");
    }
}

async fn recv(subscription: &mut Subscription) -> Result<Event, RecvError> {
    tokio::time::timeout(Duration::from_secs(10), subscription.recv()).await.expect("in time")
}

#[tokio::test]
async fn events_are_numbered_from_one_and_reach_who_waits() {
    let bus = bus();
    let mut subscription = bus.subscribe();
    let waiting = tokio::spawn(async move {
        let first = recv(&mut subscription).await.map(|event| event.sequence);
        let second = recv(&mut subscription).await.map(|event| event.sequence);
        (first, second, recv(&mut subscription).await.map(|event| event.sequence))
    });
    tokio::task::yield_now().await;
    publish_many(&bus, 1);
    tokio::task::yield_now().await;
    publish_many(&bus, 1);
    bus.close();
    assert_eq!(waiting.await.expect("no panic"), (Ok(1), Ok(2), Err(RecvError::Closed)));
}

#[tokio::test]
async fn a_subscriber_exactly_at_the_bound_misses_nothing_and_one_event_later_it_is_told() {
    let bus = bus();
    let mut subscription = bus.subscribe();
    publish_many(&bus, KEPT);
    assert_eq!(recv(&mut subscription).await.map(|event| event.sequence), Ok(1));

    let mut slow = bus.subscribe_after(0).expect("all are kept");
    publish_many(&bus, 1);
    assert_eq!(recv(&mut slow).await.map(|event| event.sequence), Err(RecvError::Lagged { missed: 1 }));
    assert_eq!(recv(&mut slow).await.map(|event| event.sequence), Ok(2), "and goes on with the oldest kept");
    assert_eq!(recv(&mut subscription).await.map(|event| event.sequence), Ok(2), "who kept up is not concerned");
}

#[test]
fn a_filter_by_leases_passes_events_about_their_leaders_alone() {
    let name_of = |text: &str| LeaseName::new(text).expect("a name");
    let elected = |lease: Option<&str>| EventKind::LeaderElected {
        leader: name("a"),
        member: None,
        term: 1,
        lease: lease.map(name_of),
    };
    let filter = Filter::all().leases([name_of("billing")]);
    assert!(filter.matches(&elected(Some("billing"))));
    for other in [elected(Some("default")), elected(None), EventKind::QuorumLost { term: 1 }] {
        assert!(!filter.matches(&other), "{other:?}");
        assert!(Filter::all().matches(&other));
    }
}

#[test]
fn replay_reaches_back_to_the_edge_and_not_beyond() {
    let bus = bus();
    publish_many(&bus, KEPT + 5);
    let mut edge = bus.subscribe_after(5).expect("the edge");
    assert_eq!(edge.try_recv().map(|event| event.map(|event| event.sequence)), Ok(Some(6)));
    assert_eq!(bus.subscribe_after(4).map(|_| ()), Err(Lagged { missed: 1 }));
    assert_eq!(bus.subscribe_after(0).map(|_| ()), Err(Lagged { missed: 5 }));
    let mut now = bus.subscribe_after(KEPT + 5).expect("nothing to replay");
    assert_eq!(now.try_recv(), Ok(None));
    assert_eq!(bus.subscribe_after(KEPT + 6).map(|_| ()), Err(Lagged { missed: 0 }), "not of this run");
}

#[tokio::test]
async fn a_lagging_subscriber_may_start_again_from_a_snapshot() {
    let bus = bus();
    let mut subscription = bus.subscribe();
    publish_many(&bus, KEPT + 100);
    assert!(matches!(subscription.try_recv(), Err(RecvError::Lagged { missed: 100 })));
    let snapshot = subscription.resync();
    assert_eq!((snapshot.sequence, snapshot.members.len()), (KEPT + 100, 1));
    assert_eq!(subscription.try_recv(), Ok(None));
    publish(&bus, "b");
    assert_eq!(recv(&mut subscription).await.map(|event| event.sequence), Ok(KEPT + 101));
}

#[tokio::test]
async fn a_dropped_subscriber_leaves_nothing_behind() {
    let bus = bus();
    let mut subscription = bus.subscribe();
    let waiting = tokio::time::timeout(Duration::from_millis(1), subscription.recv()).await;
    assert!(waiting.is_err());
    drop(subscription);
    assert_eq!(Arc::strong_count(&bus), 1);
    publish(&bus, "a");
}

#[tokio::test]
async fn filters_pass_what_was_asked_for() {
    let bus = bus();
    let by_kind = Filter::all().kinds(["node_joined"]).expect("known");
    let by_node = by_kind.clone().nodes([name("b")]);
    let mut joined = bus.subscribe().filtered(by_kind);
    let mut b = bus.subscribe().filtered(by_node);
    let mut nothing = bus.subscribe().filtered(Filter::all().kinds(["node_left"]).expect("known"));
    publish(&bus, "a");
    publish(&bus, "b");
    assert_eq!(recv(&mut joined).await.map(|event| event.sequence), Ok(1));
    assert_eq!(recv(&mut b).await.map(|event| event.sequence), Ok(2));
    assert_eq!(nothing.try_recv(), Ok(None));
    assert_eq!(nothing.position(), 2, "what it did not want it has passed");
    let error = Filter::all().kinds(["node_exploded"]).expect_err("unknown");
    assert!(error.to_string().contains("node_exploded"));
}

#[test]
fn partitions_are_numbered_replayed_and_filtered_like_all_events() {
    let bus = bus();
    publish(&bus, "a");
    let (unreachable, reachable) = (vec![name("b"), name("c")], vec![name("a"), name("me")]);
    let suspected = EventKind::PartitionSuspected { unreachable, reachable };
    let published = bus.announce(suspected.clone(), SystemTime::now());
    publish(&bus, "b");
    let replayed = |filter| {
        let mut subscription = bus.subscribe_after(0).expect("all are kept").filtered(filter);
        std::iter::from_fn(move || subscription.try_recv().expect("nothing is lost")).map(|event| event.sequence)
    };
    assert_eq!((published.sequence, &published.kind), (2, &suspected));
    assert!(replayed(Filter::all()).eq([1, 2, 3]));
    assert!(replayed(Filter::all().kinds(["partition_suspected"]).expect("known")).eq([2]));
    assert!(replayed(Filter::all().nodes([name("c")])).eq([2]), "on the far side");
    assert!(replayed(Filter::all().nodes([name("me")])).eq([2]), "on the near side");
    assert!(replayed(Filter::all().nodes([name("d")])).next().is_none());
}

#[tokio::test]
async fn as_a_stream_it_ends_with_the_agent() {
    let bus = bus();
    let mut subscription = bus.subscribe();
    publish(&bus, "a");
    bus.close();
    let mut next = async || poll_fn(|context| Pin::new(&mut subscription).poll_next(context)).await;
    assert_eq!(next().await.map(|event| event.map(|event| event.sequence)), Some(Ok(1)));
    assert_eq!(next().await, None);
}
