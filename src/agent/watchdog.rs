//! A watchdog that the driver feeds, so that a supervisor restarts a process whose driver stands still.
//!
//! Invariants: it is fed on the driver's own turns and by nobody else, at most once in its interval; feeding does not wait.
//!
//! Must not know: who watches.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A watchdog.
pub(crate) struct Watchdog {
    every_ms: u64,
    /// The time since the agent's start at which it is to be fed next, in milliseconds.
    due_ms: AtomicU64,
    feed: Box<dyn Fn() + Send + Sync>,
}

impl Watchdog {
    /// Returns one that is fed this often, or a little less: the driver turns once a second if nothing happens. `feed` must not wait.
    pub(crate) fn new(every: Duration, feed: impl Fn() + Send + Sync + 'static) -> Self {
        let every_ms = u64::try_from(every.as_millis()).unwrap_or(u64::MAX);
        Self { every_ms, due_ms: AtomicU64::new(0), feed: Box::new(feed) }
    }

    /// Takes note that the driver turns, so many milliseconds after its start.
    pub(super) fn turned(&self, now_ms: u64) {
        if now_ms >= self.due_ms.load(Ordering::Relaxed) {
            self.due_ms.store(now_ms.saturating_add(self.every_ms), Ordering::Relaxed);
            (self.feed)();
        }
    }
}

impl fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchdog").field("every_ms", &self.every_ms).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;

    use super::*;
    use crate::{Agent, Config, Profile};

    #[test]
    fn it_is_fed_once_in_its_interval_however_often_the_driver_turns() {
        let fed = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&fed);
        let watchdog = Watchdog::new(Duration::from_millis(100), move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        for (now, expected) in [(0, 1), (1, 1), (99, 1), (100, 2), (150, 2), (1_000, 3), (1_099, 3)] {
            watchdog.turned(now);
            assert_eq!(fed.load(Ordering::Relaxed), expected, "{now}");
        }
    }

    #[tokio::test]
    async fn the_driver_feeds_it_on_its_own_thread_and_stops_when_it_ends() {
        let mut config = Config::new("a").expect("a name").with_profile(Profile::Local);
        config.bind = "127.0.0.1:0".parse().ok();
        let agent = Agent::start(config).await.expect("it starts");
        let (told, fed) = mpsc::channel();
        agent.feed(Watchdog::new(Duration::from_millis(1), move || {
            let thread = std::thread::current().name().map(str::to_owned);
            let _ = told.send(thread);
        }));
        for _ in 0..10 {
            let thread = fed.recv_timeout(Duration::from_secs(30)).expect("fed");
            assert_eq!(thread.as_deref(), Some("headcount"));
        }
        agent.leave().await;
        while fed.try_recv().is_ok() {}
        assert!(fed.recv_timeout(Duration::from_secs(2)).is_err(), "nobody feeds for a driver that has ended");
    }
}
