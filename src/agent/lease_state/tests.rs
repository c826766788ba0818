//! What the desk of leases knows of each lease, and whom it asks.

use super::*;

fn name(text: &str) -> LeaseName {
    LeaseName::new(text).expect("a name")
}

#[tokio::test]
async fn so_many_declined_requests_wait_to_be_looked_at_and_the_oldest_gives_way() {
    let (leases, _receivers) = Leases::open(LeadershipPublisher::new(), Clock::start(), &[], BTreeMap::new());
    for (count, lost) in [(MAX_DECLINED, 0), (MAX_DECLINED + 1, 1)] {
        let mut declined = leases.declined();
        (0..count as u64).for_each(|nonce| leases.decline(nonce));
        let first = declined.try_recv();
        assert_eq!(matches!(first, Err(broadcast::error::TryRecvError::Lagged(1))), lost == 1, "{first:?}");
        assert_eq!(first.or_else(|_| declined.try_recv()), Ok(lost), "the oldest that is left");
    }
}

#[tokio::test]
async fn there_are_so_many_publishers_and_each_lease_has_one() {
    let (publisher, runtime) = (LeadershipPublisher::new(), Handle::current());
    let (leases, _receivers) =
        Leases::open(Arc::clone(&publisher), Clock::start(), &[name("billing")], BTreeMap::new());
    let leases = Arc::new(leases);
    assert!(Arc::ptr_eq(&leases.publisher(&LeaseName::default()).expect("always"), &publisher));
    let billing = leases.publisher(&name("billing")).expect("configured");
    assert!(Arc::ptr_eq(&leases.hold(&runtime, &name("billing")).expect("there").1, &billing));
    assert_eq!(billing.watch().get().state, LeadershipState::Vacant);
    assert!(leases.publisher(&name("other")).is_none());
    let hold = |at: usize| leases.hold(&runtime, &name(&format!("l{at}")));
    let mut holds: Vec<_> = (2..MAX_LEASES).map(|at| hold(at).expect("room").0).collect();
    assert_eq!(hold(1).err(), Some(TooManyLeases));
    holds.pop();
    assert_eq!(hold(1).err(), Some(TooManyLeases), "something of it may still be held");
    assert!(leases.forget(&name(&format!("l{}", MAX_LEASES - 1))));
    assert!(hold(1).is_ok());
}

#[tokio::test]
async fn the_task_hears_of_the_first_handle_and_of_the_last_unless_the_lease_is_configured() {
    let (leases, mut receivers) =
        Leases::open(LeadershipPublisher::new(), Clock::start(), &[name("billing")], BTreeMap::new());
    let (leases, runtime) = (Arc::new(leases), Handle::current());
    let mut told = || std::iter::from_fn(|| receivers.asks.try_recv().ok()).count();
    drop(leases.hold(&runtime, &name("billing")).expect("there"));
    assert_eq!((told(), leases.is_wanted(&name("billing"))), (0, true));
    assert!(!leases.forget(&name("billing")), "never");
    let (first, publisher) = leases.hold(&runtime, &name("other")).expect("room");
    let (second, _) = leases.hold(&runtime, &name("other")).expect("room");
    assert_eq!((told(), leases.is_wanted(&name("other"))), (1, true));
    drop(first);
    assert_eq!(told(), 0);
    assert!(!leases.forget(&name("other")), "one is left");
    drop(second);
    assert_eq!((told(), leases.is_wanted(&name("other"))), (1, false));
    assert!(leases.forget(&name("other")) && leases.publisher(&name("other")).is_none());
    assert_eq!(publisher.watch().changed().await, None, "who still looks is told that this is all");
    // The cluster's is shown also where nobody contends for it.
    drop(leases.hold(&runtime, &LeaseName::default()).expect("there"));
    assert!(leases.forget(&LeaseName::default()) && leases.publisher(&LeaseName::default()).is_some());
}

#[tokio::test]
async fn a_term_that_an_earlier_run_left_is_shown_from_the_beginning() {
    let terms = BTreeMap::from([(LeaseName::default(), 7), (name("billing"), 3), (name("later"), 5)]);
    let (leases, _receivers) = Leases::open(LeadershipPublisher::new(), Clock::start(), &[name("billing")], terms);
    let (leases, runtime) = (Arc::new(leases), Handle::current());
    let shown = |lease: &LeaseName| leases.hold(&runtime, lease).expect("few enough").1.watch().get().term;
    let names = [LeaseName::default(), name("billing"), name("later"), name("new")];
    assert_eq!(names.each_ref().map(shown), [7, 3, 5, 0]);
}

#[test]
fn asks_beyond_the_bound_wait_at_the_door() {
    let (leases, _receivers) = Leases::open(LeadershipPublisher::new(), Clock::start(), &[], BTreeMap::new());
    let asker = leases.asker();
    for _ in 0..MAX_ASKS {
        asker.try_send(Ask::Resign(LeaseName::default())).expect("room");
    }
    assert!(asker.try_send(Ask::Resign(LeaseName::default())).is_err());
}

#[test]
fn words_that_nobody_takes_are_lost_and_keep_nobody_waiting() {
    let (leases, mut receivers) = Leases::open(LeadershipPublisher::new(), Clock::start(), &[], BTreeMap::new());
    let lease = crate::NodeId::new("default").expect("a name");
    for term in 0..=MAX_WORDS as u64 {
        let (lease, node) = (lease.clone(), lease.clone());
        leases.hear(LeaseUpdate { lease, node, term, kind: LeaseUpdate::LED, nonce: 0 }, true);
    }
    let taken = std::iter::from_fn(|| receivers.words.try_recv().ok()).count();
    assert_eq!(taken, MAX_WORDS);
}
