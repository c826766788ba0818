//! Requests from the system: to stop, and to reload.
//!
//! Invariants:
//! - Listening starts when [`Signals`] is made, so that a signal that comes while a node starts is not lost. That is before
//!   the process has any other thread.
//! - The second request to stop ends the process at once, by the thread that hears it: whatever else blocks, that does not.
//! - A request to reload never ends the process.

use std::io;
use std::sync::Arc;

use tokio::sync::{Notify, watch};

/// What the system asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    /// To leave and stop: SIGTERM, SIGINT, Ctrl-C.
    Stop,
    /// To read the configuration again: SIGHUP.
    Reload,
}

/// SIGTERM, SIGINT and SIGHUP, or Ctrl-C where there are no signals.
#[derive(Debug)]
pub(super) struct Signals {
    /// Whether to stop; never taken back.
    stop: watch::Receiver<bool>,
    /// One waits at the most: whatever it is answered with is the newest configuration.
    reload: Arc<Notify>,
}

/// The way of requests from the thread that hears them, which never waits.
struct Told {
    stop: watch::Sender<bool>,
    reload: Arc<Notify>,
}

impl Told {
    /// Passes a request to stop on, and says whether it is the second one.
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

    /// The next request; stopping comes before reloading, and again and again.
    pub(super) async fn recv(&mut self) -> Request {
        tokio::select! {
            biased;
            // An error would mean that the thread is gone: nobody tells anything any more.
            Ok(_) = self.stop.wait_for(|stop| *stop) => Request::Stop,
            () = self.reload.notified() => Request::Reload,
        }
    }
}

#[cfg(unix)]
impl Signals {
    /// Begins to listen, on a thread of its own. Call it before any other thread is started: the signals are kept from all
    /// later ones, and from the processes that they start, until those want them again.
    pub(super) fn listen() -> io::Result<Self> {
        use super::failure::Exit;
        use nix::sys::signal::{SigSet, Signal};

        let signals: SigSet = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().collect();
        signals.thread_block()?;
        let (told, heard) = Self::channel();
        let hear = move || {
            // An error would be one of ours: the set is a valid one.
            while let Ok(signal) = signals.wait() {
                if signal == Signal::SIGHUP {
                    told.reload.notify_one();
                } else if told.stop() {
                    // Not through exit handlers, which may wait for a lock of whoever blocks.
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
    /// Begins to listen, on a thread of its own. What comes before that has its turn is the system's to answer.
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
