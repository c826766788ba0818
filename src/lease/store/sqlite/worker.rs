//! The thread that calls SQLite, and the requests of its callers.
//!
//! Invariants: at most one request waits while one runs. A caller that gives up on a request that has not begun takes
//! it back: it will not run later. A request that has begun may have an effect, and its caller is told so.
//!
//! Must not know: what a request does.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::database::Database;
use crate::lease::store::{StoreError, StoreOptions};

/// The time that a caller grants beyond the wait for locks: for the transaction itself and the disk.
const DISK_GRACE: Duration = Duration::from_secs(1);
/// The longest wait for the thread to end when the store is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The number of requests that may wait while one runs.
const WAITING: usize = 1;

type Job = Box<dyn FnOnce(&mut Database) + Send>;

/// The thread's handle. When it is dropped, the thread ends after its current request.
#[derive(Debug)]
pub(super) struct Worker {
    place: String,
    patience: Duration,
    jobs: SyncSender<Job>,
    ended: oneshot::Receiver<()>,
}

impl Worker {
    pub(super) fn start(file: &Path, options: StoreOptions) -> Result<Self, StoreError> {
        let place = file.display().to_string();
        let patience = options.statement_timeout() + DISK_GRACE;
        let (jobs, queue) = sync_channel::<Job>(WAITING);
        let (ending, ended) = oneshot::channel();
        let mut database = Database::new(file, options);
        let run = move || {
            serve(&queue, &mut database);
            drop(database);
            let _ = ending.send(());
        };
        let started = std::thread::Builder::new().name(String::from("headcount-sqlite")).spawn(run);
        if let Err(error) = started {
            return Err(StoreError::Failed { place, reason: format!("no thread could be started: {error}") });
        }
        Ok(Self { place, patience, jobs, ended })
    }

    /// Runs a request on the thread.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        request: impl FnOnce(&mut Database) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let turn = Arc::new(Turn::default());
        let theirs = Arc::clone(&turn);
        let job = Box::new(move |database: &mut Database| {
            // A caller that is gone without giving up was cancelled.
            if !reply.is_closed() && theirs.begin() {
                let _ = reply.send(request(database));
            }
        });
        let place = self.place.clone();
        match self.jobs.try_send(job) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                return Err(StoreError::Busy { place, reason: String::from("earlier requests have not ended yet") });
            }
            Err(TrySendError::Disconnected(_)) => return Err(self.is_dead()),
        }
        match timeout(self.patience, answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(self.is_dead()),
            Err(_) => {
                let reason = format!("no answer within {:?}", self.patience);
                Err(if turn.take_back() {
                    StoreError::Busy { place, reason }
                } else {
                    StoreError::OutcomeUnknown { place, reason }
                })
            }
        }
    }

    fn is_dead(&self) -> StoreError {
        StoreError::Failed { place: self.place.clone(), reason: String::from("its thread has died") }
    }

    pub(super) async fn close(self) {
        drop(self.jobs);
        let _ = timeout(CLOSE_TIMEOUT, self.ended).await;
    }
}

fn serve(queue: &Receiver<Job>, database: &mut Database) {
    while let Ok(job) = queue.recv() {
        job(database);
    }
}

/// The settlement of a race between a caller that takes a request back and the thread that begins it.
#[derive(Debug, Default)]
struct Turn(AtomicU8);

const WAITS: u8 = 0;
const BEGUN: u8 = 1;
const TAKEN_BACK: u8 = 2;

impl Turn {
    fn begin(&self) -> bool {
        self.0.compare_exchange(WAITS, BEGUN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn take_back(&self) -> bool {
        self.0.compare_exchange(WAITS, TAKEN_BACK, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker() -> (Worker, tempfile::TempDir) {
        let directory = tempfile::tempdir().expect("a directory");
        let options = StoreOptions::new("c").expect("a name");
        (Worker::start(&directory.path().join("x.db"), options).expect("a thread"), directory)
    }

    #[test]
    fn a_request_is_begun_or_taken_back_never_both() {
        let turn = Turn::default();
        assert!(turn.begin() && !turn.take_back() && !turn.begin());
        let turn = Turn::default();
        assert!(turn.take_back() && !turn.begin());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_hangs_is_given_up_and_what_waits_behind_it_never_runs() {
        let (worker, _directory) = worker();
        let (release, hang) = std::sync::mpsc::channel::<()>();
        let (ran, has_run) = std::sync::mpsc::channel::<()>();
        let (begin, has_begun) = std::sync::mpsc::channel::<()>();
        let error = {
            let mut hanging = std::pin::pin!(worker.ask(move |_| {
                let _ = begin.send(());
                let _ = hang.recv();
                Ok(())
            }));
            // The request is asked, and begun before time goes on.
            tokio::select! {
                biased;
                _ = &mut hanging => unreachable!("it hangs"),
                () = std::future::ready(()) => {}
            }
            has_begun.recv().expect("its turn has come");
            hanging.await.expect_err("it hangs")
        };
        assert!(!error.is_outcome_known(), "{error}");

        let waiting = worker.ask(move |_| {
            let _ = ran.send(());
            Ok(())
        });
        let error = waiting.await.expect_err("its turn does not come");
        assert!(matches!(error, StoreError::Busy { .. }), "{error}");
        let third = worker.ask(|_| Ok(())).await.expect_err("there is no room");
        assert!(matches!(third, StoreError::Busy { .. }), "{third}");

        drop(release);
        worker.close().await;
        assert!(has_run.recv().is_err(), "what was taken back ran");
    }
}
