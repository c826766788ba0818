//! Requests from the system to stop and to reload.
//!
//! Invariants:
//! - Listening starts when [`Signals`] is made, so that a signal that comes while a node starts is not lost. That is
//!   before the process has any other thread.
//! - The second request to stop ends the process at once, on the thread that hears it, which nothing else can block.
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
        use super::failure::Exit;
        use nix::sys::signal::{SigSet, Signal};

        let signals: SigSet = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().collect();
        signals.thread_block()?;
        let (told, heard) = Self::channel();
        let hear = move || {
            // An error would be a bug of ours: the set is valid.
            while let Ok(signal) = signals.wait() {
                if signal == Signal::SIGHUP {
                    told.reload.notify_one();
                } else if told.stop() {
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
