//! What is on the disk, after each way in which a write may end.

use std::fs;

use super::*;
use crate::core::NodeId;
use crate::core::election::{Ballot, Identity};
use crate::store::{Remembered, STATE_FILE};

const LEASE: Duration = Duration::from_secs(2);
/// Longer than any test.
const NEVER: Duration = Duration::from_secs(1_000);

#[test]
fn a_failed_write_is_tried_again_several_times_in_a_lease_and_every_five_seconds_at_least() {
    let pauses = |lease_ms| {
        let longest = longest_retry(Duration::from_millis(lease_ms));
        retries(longest).take(4).map(|pause| pause.as_millis()).collect::<Vec<_>>()
    };
    assert_eq!(pauses(2_000), [125, 250, 500, 500]);
    assert_eq!(pauses(20_000), [1_250, 2_500, 5_000, 5_000]);
    assert_eq!(pauses(60_000), [1_250, 2_500, 5_000, 5_000]);
}

fn durable(incarnation_bound: u64) -> Durable {
    Durable { incarnation_bound, addresses: Vec::new(), ballot: None }
}

fn open(directory: &std::path::Path) -> (Store, Remembered) {
    let name = NodeId::new("a").expect("a name");
    let opened = Store::open(directory, &name, &name).expect("opens");
    (opened.store, opened.remembered)
}

async fn next_stored(state_writer: &mut StateWriter) -> u64 {
    stored(&next_written(state_writer).await).incarnation_bound
}

async fn next_written(state_writer: &mut StateWriter) -> Written {
    timeout(Duration::from_secs(10), state_writer.written()).await.expect("in time").expect("alive")
}

fn stored(written: &Written) -> Stored {
    written.stored.expect("it was stored")
}

fn voters(incarnation_bound: u64, version: u64) -> Durable {
    Durable { ballot: Some(Ballot { version, ..Ballot::blank(Identity(7)) }), ..durable(incarnation_bound) }
}

#[tokio::test]
async fn a_ballot_is_acknowledged_by_its_version_and_never_where_nothing_is_durable() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut state_writer = StateWriter::of(open(directory.path()).0, &TaskTracker::new(), LEASE);
    state_writer.persist(voters(1, 5));
    let expected = Stored { incarnation_bound: 1, ballot_version: 5 };
    assert_eq!(stored(&next_written(&mut state_writer).await), expected);
    let mut nowhere = StateWriter::none();
    nowhere.persist(voters(1, 5));
    assert_eq!(stored(&next_written(&mut nowhere).await), Stored { ballot_version: 0, ..expected });
}

#[tokio::test]
async fn where_nothing_is_durable_everything_is_stored_at_once() {
    let mut state_writer = StateWriter::none();
    state_writer.persist(durable(7));
    assert_eq!(next_stored(&mut state_writer).await, 7);
}

#[tokio::test]
async fn a_burst_of_wishes_ends_with_the_newest_on_disk() {
    let directory = tempfile::tempdir().expect("a directory");
    let tasks = TaskTracker::new();
    let mut state_writer = StateWriter::of(open(directory.path()).0, &tasks, LEASE);
    for bound in 1..=1_000 {
        state_writer.persist(durable(bound));
    }
    while next_stored(&mut state_writer).await != 1_000 {}
    drop(state_writer);
    tasks.close();
    tasks.wait().await;
    assert_eq!(open(directory.path()).1.incarnation_bound, Some(1_000));
}

#[tokio::test]
async fn the_last_wish_is_written_even_if_the_driver_ends_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let tasks = TaskTracker::new();
    let state_writer = StateWriter::of(open(directory.path()).0, &tasks, LEASE);
    state_writer.persist(durable(9));
    drop(state_writer);
    tasks.close();
    tasks.wait().await;
    assert_eq!(open(directory.path()).1.incarnation_bound, Some(9), "and the lock is free again");
}

#[tokio::test]
async fn a_failing_write_is_counted_not_acknowledged_and_tried_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let obstacle = directory.path().join(STATE_FILE);
    let (store, _) = open(directory.path());
    fs::create_dir_all(obstacle.join("in the way")).expect("created");
    let tasks = TaskTracker::new();
    let mut state_writer = StateWriter::with_pauses(store, &tasks, Duration::from_millis(5), NEVER);
    state_writer.persist(durable(3));
    let health = state_writer.health();
    while health.failures() < 2 {
        tokio::task::yield_now().await;
    }
    assert!(health.failing() >= 2);
    let written = next_written(&mut state_writer).await;
    assert_eq!(written.stored, None, "nothing is acknowledged that is not on disk");
    assert!(written.error.is_some_and(|error| error.contains(&*obstacle.to_string_lossy())), "it says what failed");
    fs::remove_dir_all(&obstacle).expect("removed");
    let mut last = next_written(&mut state_writer).await;
    while last.stored.is_none() {
        last = next_written(&mut state_writer).await;
    }
    assert_eq!(last.error, None);
    assert_eq!(stored(&last).incarnation_bound, 3);
    assert_eq!(health.failing(), 0, "what failed before is over");
}

#[tokio::test]
async fn a_directory_that_is_gone_is_told_of_while_nothing_is_to_be_written() {
    let parent = tempfile::tempdir().expect("a directory");
    let directory = parent.path().join("data");
    let look = Duration::from_millis(5);
    let (store, tasks) = (open(&directory).0, TaskTracker::new());
    let mut state_writer = StateWriter::with_pauses(store, &tasks, look, look);
    state_writer.persist(durable(3));
    assert_eq!(next_stored(&mut state_writer).await, 3);
    fs::rename(&directory, parent.path().join("elsewhere")).expect("moved");
    let error = next_written(&mut state_writer).await.error.expect("it is told");
    assert!(error.contains(&*directory.to_string_lossy()), "{error}");
    assert!(state_writer.health().failing() > 0);
    fs::rename(parent.path().join("elsewhere"), &directory).expect("moved back");
    while next_written(&mut state_writer).await.stored.is_none() {}
    assert_eq!(state_writer.health().failing(), 0);
}

#[tokio::test]
async fn a_wish_on_a_disk_that_is_known_to_fail_is_told_to_have_failed_without_waiting_for_the_next_try() {
    let directory = tempfile::tempdir().expect("a directory");
    let (store, _) = open(directory.path());
    fs::create_dir_all(directory.path().join(STATE_FILE).join("in the way")).expect("created");
    // Within this test no retry is due.
    let mut state_writer = StateWriter::with_pauses(store, &TaskTracker::new(), NEVER, NEVER);
    for version in 1..=3 {
        state_writer.persist(voters(1, version));
        assert!(next_written(&mut state_writer).await.error.is_some(), "ballot {version}");
    }
}
