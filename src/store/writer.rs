//! Writes state without making the driver wait: one task writes the newest request, and tries failures again.
//!
//! Invariants:
//! - [`StateWriter::persist`] never blocks. A request that is not yet begun is replaced by the next one: only the
//!   newest state is worth a disk's time, and the queue is one deep by construction.
//! - [`StateWriter::written`] reports something as stored only after it is on disk. Without a data directory, bounds
//!   are "stored" at once, and a ballot never is.
//! - A failed write is reported with its reason, once for each failure that no success has followed yet, and tried
//!   again: at once if there is a newer request, so that the failure of that one is known without a wait.
//! - A directory that was removed or replaced is found within [`LOOK_INTERVAL`], also while nothing is to be written.
//! - The task outlives the driver only until its last request is written or has failed, and holds the directory's lock
//!   until then.
//!
//! Must not know: the meaning of the state, or logs: results are returned.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::Store;
use crate::core::Durable;

/// The longest pause after a failed write before the same state is tried again, if no newer one comes first. A full
/// disk seldom has room sooner, and the bound of incarnations is stored far enough ahead to wait.
const MAX_RETRY: Duration = Duration::from_secs(5);
/// Pause between two looks at the directory while nothing is to be written.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// The smallest number of retries in a lease: a voter stands aside until its ballot is stored, and there may be no
/// leader meanwhile.
const RETRIES_IN_LEASE: u32 = 4;
/// The first pause, as a divisor of the longest one; each one after it is twice as long.
const FIRST_RETRY_PART: u32 = 4;

/// Returns the longest pause between two attempts.
fn longest_retry(lease: Duration) -> Duration {
    (lease / RETRIES_IN_LEASE).min(MAX_RETRY)
}

/// Returns the pauses before the attempts after a failed write.
fn retries(longest: Duration) -> impl Iterator<Item = Duration> {
    std::iter::successors(Some(longest / FIRST_RETRY_PART), move |pause| Some((*pause * 2).min(longest)))
}

/// The state on disk, by its versions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    /// The bound that no incarnation in use exceeds.
    pub(crate) incarnation_bound: u64,
    /// The version of the ballot; 0 if none is stored.
    pub(crate) ballot_version: u64,
}

/// The outcome of the requests since the last call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    /// The state that was stored last, if any was.
    pub(crate) stored: Option<Stored>,
    /// The reason why the last write failed, if it did, after that.
    pub(crate) error: Option<Arc<str>>,
}

/// The results of the writing task.
#[derive(Debug, Clone, Default)]
struct Progress {
    stored: Stored,
    writes: u64,
    failures: u64,
    /// The reason why the last write failed; `None` if it succeeded.
    error: Option<Arc<str>>,
}

/// The driver's end of the writing task.
#[derive(Debug)]
pub(crate) struct StateWriter {
    target: Target,
    progress: watch::Receiver<Progress>,
    /// The results at the last call of [`StateWriter::written`].
    told: Progress,
    health: Arc<WriterHealth>,
}

/// The figures of the writing task, for whoever watches it.
#[derive(Debug, Default)]
pub(crate) struct WriterHealth {
    failures: AtomicU64,
    failing: AtomicU64,
}

impl WriterHealth {
    /// Returns the number of failed writes.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Returns the number of writes that failed since the last one that succeeded.
    pub(crate) fn failing(&self) -> u64 {
        self.failing.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
enum Target {
    /// Without a data directory: everything is "stored" as soon as it is requested.
    Nowhere(watch::Sender<Progress>),
    /// The writer's inbox, one deep.
    Disk(watch::Sender<Option<Durable>>),
}

impl StateWriter {
    /// Creates the driver's end without a data directory.
    pub(crate) fn none() -> Self {
        let (sender, progress) = watch::channel(Progress::default());
        Self::new(Target::Nowhere(sender), progress, Arc::default())
    }

    fn new(target: Target, progress: watch::Receiver<Progress>, health: Arc<WriterHealth>) -> Self {
        Self { target, progress, told: Progress::default(), health }
    }

    /// Starts the writing task of a store, which retries failed writes at intervals that depend on this lease.
    pub(crate) fn of(store: Store, tasks: &TaskTracker, lease: Duration) -> Self {
        Self::with_pauses(store, tasks, longest_retry(lease), LOOK_INTERVAL)
    }

    fn with_pauses(store: Store, tasks: &TaskTracker, retry: Duration, look: Duration) -> Self {
        let (request, requests) = watch::channel(None);
        let (acknowledge, progress) = watch::channel(Progress::default());
        let health = Arc::<WriterHealth>::default();
        let writer = Writer { store: Arc::new(store), requests, acknowledge, health: Arc::clone(&health), retry, look };
        tasks.spawn(writer.run());
        Self::new(Target::Disk(request), progress, health)
    }

    /// Requests that this state be stored, in place of any that still waits.
    pub(crate) fn persist(&self, durable: Durable) {
        match &self.target {
            Target::Nowhere(progress) => {
                // Nothing outlives the process, so no ballot is ever acknowledged here.
                let stored = Stored { incarnation_bound: durable.incarnation_bound, ballot_version: 0 };
                progress.send_modify(|progress| progress.succeed(stored));
            }
            Target::Disk(request) => {
                request.send_replace(Some(durable));
            }
        }
    }

    /// Waits until something is stored, or failed to be. `Err` means that the writing task is dead. Cancel safe.
    pub(crate) async fn written(&mut self) -> Result<Written, WriterDied> {
        self.progress.changed().await.map_err(|_| WriterDied)?;
        let now = self.progress.borrow_and_update().clone();
        let before = std::mem::replace(&mut self.told, now.clone());
        let error = now.error.filter(|_| now.failures > before.failures);
        Ok(Written { stored: (now.writes > before.writes).then_some(now.stored), error })
    }

    /// Returns the shared figures of the writing task.
    pub(crate) fn health(&self) -> Arc<WriterHealth> {
        Arc::clone(&self.health)
    }
}

impl Progress {
    fn succeed(&mut self, stored: Stored) {
        *self = Self { stored, writes: self.writes + 1, failures: self.failures, error: None };
    }

    fn fail(&mut self, error: Arc<str>) {
        self.failures += 1;
        self.error = Some(error);
    }
}

/// Error: the writing task ended before the driver did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WriterDied;

struct Writer {
    store: Arc<Store>,
    requests: watch::Receiver<Option<Durable>>,
    acknowledge: watch::Sender<Progress>,
    health: Arc<WriterHealth>,
    /// The longest pause between two attempts.
    retry: Duration,
    /// The pause between two looks at the directory.
    look: Duration,
}

impl Writer {
    async fn run(mut self) {
        // Ends when the driver is gone and no request is left.
        while self.await_work().await {
            let mut pauses = retries(self.retry);
            while !self.write_newest().await {
                let pause = pauses.next().unwrap_or(self.retry);
                match timeout(pause, self.requests.changed()).await {
                    // Time to try the same again, or something newer.
                    Err(_) | Ok(Ok(())) => {}
                    Ok(Err(_)) => return,
                }
            }
        }
    }

    /// Waits for a request, or until what was written last is no longer where it was, and is to be written again: that
    /// fails, and says why. Returns false if the driver is gone.
    async fn await_work(&mut self) -> bool {
        loop {
            match timeout(self.look, self.requests.changed()).await {
                Ok(changed) => return changed.is_ok(),
                Err(_) if self.is_directory_held().await => {}
                Err(_) => return true,
            }
        }
    }

    async fn is_directory_held(&self) -> bool {
        let store = Arc::clone(&self.store);
        tokio::task::spawn_blocking(move || store.check_held().is_ok()).await.unwrap_or(false)
    }

    /// Writes the newest request; returns true if it is on disk.
    async fn write_newest(&mut self) -> bool {
        let Some(durable) = self.requests.borrow_and_update().clone() else { return true };
        let ballot_version = durable.ballot.as_ref().map_or(0, |ballot| ballot.version);
        let stored = Stored { incarnation_bound: durable.incarnation_bound, ballot_version };
        let store = Arc::clone(&self.store);
        let error = match tokio::task::spawn_blocking(move || store.write(&durable)).await {
            Ok(Ok(())) => {
                self.health.failing.store(0, Ordering::Relaxed);
                self.acknowledge.send_modify(|progress| progress.succeed(stored));
                return true;
            }
            Ok(Err(error)) => error.to_string(),
            Err(ended) => ended.to_string(),
        };
        self.health.failures.fetch_add(1, Ordering::Relaxed);
        self.health.failing.fetch_add(1, Ordering::Relaxed);
        self.acknowledge.send_modify(|progress| progress.fail(error.into()));
        false
    }
}
