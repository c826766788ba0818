//! Figures of handlers, for whoever shows them.
//!
//! Invariant: reading waits for nobody but another reader. A handler that is replaced by one of the same name goes on
//! counting.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The counters of one handler.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    runs: AtomicU64,
    failures: AtomicU64,
    retries: AtomicU64,
    missed: AtomicU64,
    busy_micros: AtomicU64,
    waiting: AtomicUsize,
    running: AtomicUsize,
}

/// The figures of one handler at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Figures {
    /// Runs that have ended.
    pub(crate) runs: u64,
    /// Runs that failed.
    pub(crate) failures: u64,
    /// Tries at a web address after the first one.
    pub(crate) retries: u64,
    /// Events that were dropped because too many waited, or that nobody could run for.
    pub(crate) missed: u64,
    /// The time that ended runs took together.
    pub(crate) busy: Duration,
    /// Events that wait.
    pub(crate) waiting: usize,
    /// Runs under way.
    pub(crate) running: usize,
}

impl Counters {
    pub(super) fn ended(&self, took: Duration, failed: bool) {
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.failures.fetch_add(u64::from(failed), Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.busy_micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(super) fn retried(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn missed(&self, events: u64) {
        self.missed.fetch_add(events, Ordering::Relaxed);
    }

    pub(super) fn set_load(&self, waiting: usize, running: usize) {
        self.waiting.store(waiting, Ordering::Relaxed);
        self.running.store(running, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Figures {
        Figures {
            runs: self.runs.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            retries: self.retries.load(Ordering::Relaxed),
            missed: self.missed.load(Ordering::Relaxed),
            busy: Duration::from_micros(self.busy_micros.load(Ordering::Relaxed)),
            waiting: self.waiting.load(Ordering::Relaxed),
            running: self.running.load(Ordering::Relaxed),
        }
    }
}

/// The figures of all handlers, by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Board(Arc<Mutex<Named>>);

type Named = Vec<(String, Arc<Counters>)>;

impl Board {
    /// Returns the counters of a name, new ones if there are none.
    pub(super) fn add(&self, name: &str) -> Arc<Counters> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, counters)) = all.iter().find(|(known, _)| known == name) {
            return Arc::clone(counters);
        }
        let counters = Arc::<Counters>::default();
        all.push((name.to_owned(), Arc::clone(&counters)));
        counters
    }

    /// Forgets all other names.
    pub(super) fn keep(&self, is_kept: impl Fn(&str) -> bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|(name, _)| is_kept(name));
    }

    /// Returns the figures of all handlers.
    pub(crate) fn figures(&self) -> Vec<(String, Figures)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(name, counters)| (name.clone(), counters.get())).collect()
    }
}
