//! Requests from the system: to stop, and to reload.
//!
//! Invariants:
//! - Listening starts when [`Signals`] is made, so that a signal that comes while a node starts is not lost. That is before
//!   the process has any other thread.
//! - The second request to stop ends the process at once, by the thread that hears it: whatever else blocks, that does not.
//! - A request to reload never ends the process.

use std::io;

use tokio::sync::mpsc;

/// Requests that may wait to be looked at.
const MAX_QUEUED: usize = 8;

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
    requests: mpsc::Receiver<Request>,
}

impl Signals {
    /// The next request.
    pub(super) async fn recv(&mut self) -> Request {
        match self.requests.recv().await {
            Some(request) => request,
            None => std::future::pending().await,
        }
    }
}

#[cfg(unix)]
impl Signals {
    /// Begins to listen, on a thread of its own. Call it before any other thread is started: the signals are kept from all
    /// later ones. (A process that is started by this one begins with all signals again.)
    pub(super) fn listen() -> io::Result<Self> {
        use super::failure::Exit;
        use nix::sys::signal::{SigSet, Signal};

        let signals: SigSet = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().collect();
        signals.thread_block()?;
        let (tell, requests) = mpsc::channel(MAX_QUEUED);
        let hear = move || {
            let mut is_stopping = false;
            // An error would be one of ours: the set is a valid one.
            while let Ok(signal) = signals.wait() {
                if signal == Signal::SIGHUP {
                    // One that waits already is answered by the newest configuration, too.
                    let _ = tell.try_send(Request::Reload);
                } else if std::mem::replace(&mut is_stopping, true) {
                    // Not through exit handlers, which may wait for a lock of whoever blocks.
                    signal_hook::low_level::exit(i32::from(Exit::SECOND_SIGNAL.code()));
                } else {
                    let _ = tell.blocking_send(Request::Stop);
                }
            }
        };
        std::thread::Builder::new().name("headcount-sig".to_owned()).spawn(hear)?;
        Ok(Self { requests })
    }
}

#[cfg(not(unix))]
impl Signals {
    /// Begins to listen, on a thread of its own.
    pub(super) fn listen() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (tell, requests) = mpsc::channel(MAX_QUEUED);
        let hear = move || {
            let mut is_stopping = false;
            while runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
                if std::mem::replace(&mut is_stopping, true) {
                    std::process::exit(i32::from(super::failure::Exit::SECOND_SIGNAL.code()));
                }
                let _ = tell.send(Request::Stop);
            }
        };
        std::thread::Builder::new().name("headcount-sig".to_owned()).spawn(hear)?;
        Ok(Self { requests })
    }
}
