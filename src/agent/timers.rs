//! Timers for what handles wait for: on a thread of their own, one for all agents of the process.
//!
//! Those of the caller will not do: its executor need not be tokio's, its runtime may have none, and the time of a test may be
//! paused. Nor will the agent's own: what has to end in time is also what waits for a driver that stands still.
//!
//! Must not know: what is waited for.

use std::future::pending;
use std::io;
use std::sync::{LazyLock, mpsc};
use std::thread;

use tokio::runtime::{Builder, Handle};

static TIMERS: LazyLock<io::Result<Handle>> = LazyLock::new(start);

fn start() -> io::Result<Handle> {
    let (answer, started) = mpsc::channel();
    // Made there: a runtime may not be dropped where an asynchronous caller stands.
    let run = move || match Builder::new_current_thread().enable_time().build() {
        Ok(runtime) => {
            let _ = answer.send(Ok(runtime.handle().clone()));
            runtime.block_on(pending::<()>());
        }
        Err(error) => _ = answer.send(Err(error)),
    };
    thread::Builder::new().name("headcount-timers".to_owned()).spawn(run)?;
    started.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

/// Returns the runtime that has them; the agent's own, if the system gives no thread for it.
pub(super) fn timers(own: &Handle) -> &Handle {
    TIMERS.as_ref().unwrap_or(own)
}
