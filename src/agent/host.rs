//! The agent's own thread and tokio runtime, from its first breath to the word of its end.
//!
//! Purpose: membership must not depend on how busy the user's runtime is, on whether it is polled at all, or on how long its
//! blocking calls take. The core's driver, its sockets, links, lookups and writes all live here.
//!
//! Invariants:
//! - However the driver, its runtime or its thread end, the end is published; a panic anywhere here is an end, too.
//! - What died is in [`Shared::failure`] before anything is waited for.
//! - Nothing waits for lookups and writes that hang: they stay behind, each in a thread of its own.
//! - An agent ends with the runtime that it was started on, although it does not run there.
//!
//! Must not know: how a driver is made, or what it does.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;
use tracing::Level;

use super::Inner;
use super::error::{Failure, StartError, Stop};
use super::shared::Shared;
use super::start::{self, Prepared};
use crate::config::Config;
use crate::core::limits::MAX_SEEDS;
use crate::journal::Journal;

/// The time that helper tasks have for their end: the last write of the state, the last words over links.
const GRACE: Duration = Duration::from_secs(1);

/// The greatest number of threads of one runtime that wait for disks and name servers: more than look-ups can take up, since
/// as many run at one time as there may be seeds.
pub(crate) const MAX_BLOCKING_THREADS: usize = MAX_SEEDS + 8;

/// The time for which a thread waits for further work: for ever. The system may have no other one to give when it is wanted,
/// and tokio panics where a runtime has none at all. After a burst, [`MAX_BLOCKING_THREADS`] may stay; they wait.
const KEPT_FOR: Duration = Duration::from_secs(u32::MAX as u64);

/// The handle of an agent that was started, or why it was not.
type Started = Result<Inner, StartError>;

/// Starts an agent on a thread of its own. Gives up, and leaves nothing behind, when the future is dropped.
pub(super) async fn start(config: Config) -> Started {
    let users = Handle::try_current().map_err(|_| StartError::NoRuntime)?;
    config.check()?;
    let threads = |source| StartError::Threads { error: source };
    let journal = Journal::start(&config.name).map_err(threads)?;
    let (answer, started) = oneshot::channel();
    let thread = std::thread::Builder::new().name("headcount".to_owned());
    let runs_on = users.clone();
    thread.spawn(move || run(config, journal, runs_on, answer)).map_err(threads)?;
    let died = || StartError::Internal(Failure::new("start", "its thread ended unexpectedly"));
    let inner = started.await.map_err(|_| died())??;
    users.spawn(end_with_runtime(Tie(Arc::clone(&inner.shared))));
    Ok(inner)
}

/// The thread. `users`: the runtime that the agent was started on.
fn run(config: Config, journal: Journal, users: Handle, answer: oneshot::Sender<Started>) {
    match Unwaited::build(Builder::new_current_thread().thread_name("headcount-io")) {
        Ok(runtime) => runtime.block_on(live(config, journal, users, answer)),
        Err(source) => {
            let _ = answer.send(Err(StartError::Threads { error: source }));
        }
    }
}

/// A runtime whose end waits for no blocking task, also when it comes by a panic, and that keeps the threads it once had.
#[derive(Debug)]
pub(crate) struct Unwaited(Option<Runtime>);

impl Unwaited {
    /// Builds a runtime, with a first thread for blocking tasks.
    pub(crate) fn build(builder: &mut Builder) -> io::Result<Self> {
        let builder = builder.max_blocking_threads(MAX_BLOCKING_THREADS).thread_keep_alive(KEPT_FOR);
        let runtime = builder.enable_all().build()?;
        // Where there is no thread for it, tokio panics.
        drop(std::thread::Builder::new().spawn(|| ())?.join());
        runtime.spawn_blocking(|| ());
        Ok(Self(Some(runtime)))
    }

    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.0.as_ref().expect("it is taken when this is dropped").block_on(future)
    }
}

impl Drop for Unwaited {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

async fn live(config: Config, journal: Journal, users: Handle, mut answer: oneshot::Sender<Started>) {
    let begun = tokio::select! {
        biased;
        begun = start::begin(config, journal, users) => begun,
        // Nobody wants the agent any more. A disk that hangs is left to itself.
        () = answer.closed() => return,
    };
    match begun {
        Ok(Prepared { inner, driver, tasks }) => {
            let shared = Arc::clone(&inner.shared);
            // If nobody takes the handle, the driver ends by its being dropped.
            let _ = answer.send(Ok(inner));
            // On the heap: the future of the driver is large.
            Box::pin(supervise(driver.run(), tasks, shared)).await;
        }
        Err(error) => {
            let _ = answer.send(Err(error));
        }
    }
}

/// Runs the driver and tells how it ended, a panic included, once everything it held is released.
async fn supervise(driver: impl Future<Output = Stop> + Send + 'static, tasks: TaskTracker, shared: Arc<Shared>) {
    let unexpected = Unpublished(&shared);
    let stop = match tokio::spawn(driver).await {
        Ok(stop) => stop,
        Err(ended) => Stop::Failed(Failure::of("driver", ended)),
    };
    if let Stop::Failed(failure) = &stop {
        shared.report(failure.clone());
    }
    shared.close_publishers();
    tasks.close();
    let unfinished = tokio::time::timeout(GRACE, tasks.wait()).await.is_err();
    shared.finish(stop);
    drop(unexpected);
    if unfinished {
        let text = "stopped although the last state is not written, or the last words are not sent: the disk or a peer \
                    does not answer";
        shared.journal.say(Level::WARN, text);
    }
}

/// Publishes an end where nobody else did.
struct Unpublished<'a>(&'a Shared);

impl Drop for Unpublished<'_> {
    fn drop(&mut self) {
        self.0.finish(Stop::Failed(Failure::new("agent", "its own runtime ended before its driver did")));
    }
}

/// Ends the agent when the runtime that this runs on is shut down: whoever shuts it down wants its parts gone.
async fn end_with_runtime(tie: Tie) {
    // An error would mean that the sender is gone, which is held here.
    let _ = tie.0.stop().wait_for(Option::is_some).await;
}

/// Made before the task is: one that is shut down may never have been polled.
struct Tie(Arc<Shared>);

impl Drop for Tie {
    fn drop(&mut self) {
        let cause = "the tokio runtime that the agent was started on was shut down";
        // Without effect on one that has ended.
        self.0.end(Stop::Failed(Failure::new("runtime", cause)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::bus::Bus;
    use crate::agent::clock::Clock;
    use crate::agent::directory::Directory;
    use crate::agent::directory::tests::name;

    fn shared() -> Arc<Shared> {
        let clock = Clock::start();
        let bus = Bus::new(Directory::new(name("me"), clock));
        let journal = Journal::start(&name("me")).expect("a thread");
        Arc::new(Shared::new(bus, clock, Arc::default(), Arc::default(), Arc::default(), journal))
    }

    fn failed(shared: &Shared) -> Failure {
        let Some(Stop::Failed(failure)) = shared.stop().borrow().clone() else { panic!("not failed") };
        failure
    }

    #[tokio::test]
    async fn a_driver_that_panics_is_a_failure_that_everybody_sees() {
        let shared = shared();
        let mut events = shared.bus.subscribe();
        supervise(async { panic!("by the test") }, TaskTracker::new(), Arc::clone(&shared)).await;
        let failure = failed(&shared);
        assert_eq!((failure.task, failure.cause.as_str()), ("driver", "it panicked: by the test"));
        assert_eq!(shared.failure(), Some(failure));
        assert_eq!(events.recv().await, Err(crate::agent::RecvError::Closed));
    }

    #[tokio::test(start_paused = true)]
    async fn what_died_is_known_before_helpers_are_waited_for_and_they_are_not_waited_for_long() {
        let shared = shared();
        let tasks = TaskTracker::new();
        let hanging = tasks.spawn(std::future::pending::<()>());
        let supervised = supervise(async { panic!("by the test") }, tasks, Arc::clone(&shared));
        let mut supervised = std::pin::pin!(supervised);
        let early = tokio::time::timeout(GRACE / 2, supervised.as_mut()).await;
        assert!(early.is_err() && shared.failure().is_some(), "health says so meanwhile");
        assert_eq!(*shared.stop().borrow(), None);
        tokio::time::timeout(GRACE, supervised).await.expect("the hanging task is left behind");
        assert_eq!(failed(&shared).task, "driver");
        hanging.abort();
    }

    #[test]
    fn a_runtime_that_is_shut_down_under_the_driver_is_an_end_that_everybody_sees() {
        let shared = shared();
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.spawn(supervise(std::future::pending(), TaskTracker::new(), Arc::clone(&shared)));
        runtime.block_on(tokio::task::yield_now());
        assert_eq!(*shared.stop().borrow(), None);
        runtime.shutdown_background();
        assert_eq!(failed(&shared).task, "agent");
    }

    #[test]
    fn the_end_that_was_published_first_stands() {
        let shared = shared();
        shared.finish(Stop::Dropped);
        shared.finish(Stop::Failed(Failure::new("late", "too late")));
        assert_eq!(*shared.stop().borrow(), Some(Stop::Dropped));
        assert_eq!(shared.failure(), None, "nothing failed");
    }
}
