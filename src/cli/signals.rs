//! Requests from the system to stop and to reload.
//!
//! Invariants:
//! - Listening starts when [`Signals`] is made, so that a signal that comes while a node starts is not lost. That is
//!   before the process has any other thread.
//! - The second request to stop ends the process at once, on the thread that hears it, which nothing else can block. A copy
//!   of the first one is none.
//! - A request to reload never ends the process.

use std::io;
use std::sync::Arc;

use tokio::sync::{Notify, watch};

/// A request from the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    /// Leave and stop: SIGTERM, SIGINT, Ctrl-C.
    Stop,
    /// Read the configuration again: SIGHUP.
    Reload,
}

/// Receives SIGTERM, SIGINT and SIGHUP, or Ctrl-C on systems without signals.
#[derive(Debug)]
pub(super) struct Signals {
    /// True if the process is to stop; never taken back.
    stop: watch::Receiver<bool>,
    /// At most one request waits: one reload covers them all, as it reads the newest configuration.
    reload: Arc<Notify>,
}

/// Sends requests from the thread that hears them, without ever waiting.
struct Told {
    stop: watch::Sender<bool>,
    reload: Arc<Notify>,
}

impl Told {
    /// Passes on a request to stop; returns true if it is not the first one.
    fn stop(&self) -> bool {
        self.stop.send_replace(true)
    }
}

/// The time in which a second signal of the same kind is a copy of the first one: `timeout` sends one to its command, and
/// one to the group that it is in.
#[cfg(unix)]
const COPY: std::time::Duration = std::time::Duration::from_millis(200);

/// Tells signals from copies.
#[cfg(unix)]
#[derive(Debug, Default)]
pub(super) struct Copies(Option<(nix::sys::signal::Signal, std::time::Instant)>);

#[cfg(unix)]
impl Copies {
    /// Takes a signal, unless it is a copy of the one taken last; returns true if it is taken.
    pub(super) fn take(&mut self, signal: nix::sys::signal::Signal, now: std::time::Instant) -> bool {
        let is_copy = self.0.is_some_and(|(last, at)| last == signal && now.duration_since(at) < COPY);
        if !is_copy {
            self.0 = Some((signal, now));
        }
        !is_copy
    }
}

impl Signals {
    fn channel() -> (Told, Self) {
        let (sender, stop) = watch::channel(false);
        let reload = Arc::<Notify>::default();
        (Told { stop: sender, reload: Arc::clone(&reload) }, Self { stop, reload })
    }

    /// Waits for the next request; a request to stop comes before one to reload, and repeats at every call.
    pub(super) async fn recv(&mut self) -> Request {
        tokio::select! {
            biased;
            // An error would mean that the thread is gone, and no request can come any more.
            Ok(_) = self.stop.wait_for(|stop| *stop) => Request::Stop,
            () = self.reload.notified() => Request::Reload,
        }
    }
}

#[cfg(unix)]
impl Signals {
    /// Begins to listen, on a thread of its own. Must be called before any other thread is started: the signals are
    /// blocked in all later ones, and in the processes that they start, until those unblock them.
    pub(super) fn listen() -> io::Result<Self> {
        use std::time::Instant;

        use super::failure::Exit;
        use nix::sys::signal::{SigSet, Signal};

        let signals: SigSet = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().collect();
        signals.thread_block()?;
        // A file at its greatest size is a full disk: the write fails, and the process goes on.
        signal_hook::flag::register(Signal::SIGXFSZ as i32, std::sync::Arc::default())?;
        let (told, heard) = Self::channel();
        let hear = move || {
            let mut copies = Copies::default();
            // An error would be a bug of ours: the set is valid.
            while let Ok(signal) = signals.wait() {
                if signal == Signal::SIGHUP {
                    told.reload.notify_one();
                } else if copies.take(signal, Instant::now()) && told.stop() {
                    // Without exit handlers, which may wait for a lock of a thread that blocks.
                    signal_hook::low_level::exit(i32::from(Exit::SECOND_SIGNAL.code()));
                }
            }
        };
        std::thread::Builder::new().name("headcount-sig".to_owned()).spawn(hear)?;
        Ok(heard)
    }
}

#[cfg(not(unix))]
impl Signals {
    /// Begins to listen, on a thread of its own. The system itself handles a Ctrl-C that comes before that.
    pub(super) fn listen() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (told, heard) = Self::channel();
        let hear = move || {
            while runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
                if told.stop() {
                    std::process::exit(i32::from(super::failure::Exit::SECOND_SIGNAL.code()));
                }
            }
        };
        std::thread::Builder::new().name("headcount-sig".to_owned()).spawn(hear)?;
        Ok(heard)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::time::{Duration, Instant};

    use nix::sys::signal::Signal::{SIGINT, SIGTERM};

    use super::{COPY, Copies};

    #[test]
    fn a_signal_that_comes_twice_at_one_moment_is_one_and_another_kind_or_time_is_not() {
        let mut copies = Copies::default();
        let now = Instant::now();
        let mut takes = |signal, after| copies.take(signal, now + after);
        assert!(takes(SIGTERM, Duration::ZERO));
        assert!(!takes(SIGTERM, COPY / 2));
        assert!(takes(SIGTERM, COPY), "what was no signal makes no later one a copy");
        assert!(takes(SIGINT, COPY));
    }
}
