//! Requests to stop, from the system.
//!
//! Invariant: listening starts when [`Signals`] is made, so that a signal that comes while a node starts is not lost.

use std::io;

/// SIGTERM and SIGINT, or Ctrl-C where there are no signals.
#[derive(Debug)]
pub(super) struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// The next one.
    pub(super) async fn recv(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(not(unix))]
impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    /// The next one.
    pub(super) async fn recv(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
