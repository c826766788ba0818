//! Writing without making the driver wait: one task, the latest wish wins, failures are tried again.
//!
//! Invariants:
//! - [`Durability::persist`] never blocks. A wish that is not yet begun is replaced by the next one: only the newest
//!   state is worth a disk's time, and the queue is one deep by construction.
//! - [`Durability::stored`] gives a bound only after it is on disk (or at once, where nothing is durable).
//! - The task outlives the driver only until its last wish is written or has failed, and holds the directory's lock
//!   until then.
//!
//! Must not know: what is written.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::Store;
use crate::core::Durable;

/// How long after a failed write the same state is tried again, if no newer one comes first. A full disk seldom
/// empties sooner, and the bound is stored far enough ahead to wait.
const RETRY: Duration = Duration::from_secs(5);

/// The driver's end.
#[derive(Debug)]
pub(crate) struct Durability {
    target: Target,
    stored: watch::Receiver<u64>,
    failures: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Target {
    /// Nothing is durable: everything is "stored" as soon as it is wished for.
    Nowhere(watch::Sender<u64>),
    /// The writer's inbox, one deep.
    Disk(watch::Sender<Option<Durable>>),
}

impl Durability {
    /// Where nothing is durable.
    pub(crate) fn none() -> Self {
        let (sender, stored) = watch::channel(0);
        Self { target: Target::Nowhere(sender), stored, failures: Arc::default() }
    }

    /// Starts the writing task of a store.
    pub(crate) fn of(store: Store, tasks: &TaskTracker) -> Self {
        Self::with_retry(store, tasks, RETRY)
    }

    fn with_retry(store: Store, tasks: &TaskTracker, retry: Duration) -> Self {
        let (wish, wishes) = watch::channel(None);
        let (acknowledge, stored) = watch::channel(0);
        let failures = Arc::<AtomicU64>::default();
        let writer = Writer { store: Arc::new(store), wishes, acknowledge, failures: Arc::clone(&failures), retry };
        tasks.spawn(writer.run());
        Self { target: Target::Disk(wish), stored, failures }
    }

    /// Asks for this state to be stored, in place of any that is still waiting.
    pub(crate) fn persist(&self, durable: Durable) {
        match &self.target {
            Target::Nowhere(stored) => {
                stored.send_replace(durable.incarnation_bound);
            }
            Target::Disk(wish) => {
                wish.send_replace(Some(durable));
            }
        }
    }

    /// Waits for the next bound that is stored. `Err` means that the writing task is dead. Cancel safe.
    pub(crate) async fn stored(&mut self) -> Result<u64, WriterDied> {
        self.stored.changed().await.map_err(|_| WriterDied)?;
        Ok(*self.stored.borrow_and_update())
    }

    /// Writes that failed, shared.
    pub(crate) fn failures(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.failures)
    }
}

/// The writing task ended before the driver did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WriterDied;

struct Writer {
    store: Arc<Store>,
    wishes: watch::Receiver<Option<Durable>>,
    acknowledge: watch::Sender<u64>,
    failures: Arc<AtomicU64>,
    retry: Duration,
}

impl Writer {
    async fn run(mut self) {
        // Ends when the driver is gone and nothing unseen is left.
        while self.wishes.changed().await.is_ok() {
            while !self.write_newest().await {
                match timeout(self.retry, self.wishes.changed()).await {
                    // Time to try the same again, or something newer.
                    Err(_) | Ok(Ok(())) => {}
                    Ok(Err(_)) => return,
                }
            }
        }
    }

    /// Whether the newest wish is on disk.
    async fn write_newest(&mut self) -> bool {
        let Some(durable) = self.wishes.borrow_and_update().clone() else { return true };
        let bound = durable.incarnation_bound;
        let store = Arc::clone(&self.store);
        let error = match tokio::task::spawn_blocking(move || store.write(&durable)).await {
            Ok(Ok(())) => {
                self.acknowledge.send_replace(bound);
                return true;
            }
            Ok(Err(error)) => error.to_string(),
            Err(ended) => ended.to_string(),
        };
        self.failures.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%error, retry_in = ?self.retry, "state not stored; going on with what is stored already");
        false
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::core::NodeId;
    use crate::store::{Remembered, STATE_FILE};

    fn durable(incarnation_bound: u64) -> Durable {
        Durable { incarnation_bound, addresses: Vec::new(), ballot: None }
    }

    fn open(directory: &std::path::Path) -> (Store, Remembered) {
        let name = NodeId::new("a").expect("a name");
        Store::open(directory, &name, &name).expect("opens")
    }

    async fn next_stored(durability: &mut Durability) -> u64 {
        timeout(Duration::from_secs(10), durability.stored()).await.expect("in time").expect("alive")
    }

    #[tokio::test]
    async fn where_nothing_is_durable_everything_is_stored_at_once() {
        let mut durability = Durability::none();
        durability.persist(durable(7));
        assert_eq!(next_stored(&mut durability).await, 7);
    }

    #[tokio::test]
    async fn a_burst_of_wishes_ends_with_the_newest_on_disk() {
        let directory = tempfile::tempdir().expect("a directory");
        let tasks = TaskTracker::new();
        let mut durability = Durability::of(open(directory.path()).0, &tasks);
        for bound in 1..=1_000 {
            durability.persist(durable(bound));
        }
        while next_stored(&mut durability).await != 1_000 {}
        drop(durability);
        tasks.close();
        tasks.wait().await;
        assert_eq!(open(directory.path()).1.incarnation_bound, Some(1_000));
    }

    #[tokio::test]
    async fn the_last_wish_is_written_even_if_the_driver_ends_at_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let tasks = TaskTracker::new();
        let durability = Durability::of(open(directory.path()).0, &tasks);
        durability.persist(durable(9));
        drop(durability);
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
        let mut durability = Durability::with_retry(store, &tasks, Duration::from_millis(5));
        durability.persist(durable(3));
        let failures = durability.failures();
        while failures.load(Ordering::Relaxed) < 2 {
            tokio::task::yield_now().await;
        }
        assert!(!durability.stored.has_changed().expect("alive"), "nothing is acknowledged that is not on disk");
        fs::remove_dir_all(&obstacle).expect("removed");
        assert_eq!(next_stored(&mut durability).await, 3);
    }
}
