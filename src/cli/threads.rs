//! Threads: whether the system gives this process as many as it needs.
//!
//! Purpose: libraries panic where a thread is missing, in the middle of something. Asked at the start, that is a failure
//! like any other.

use std::io;
use std::sync::RwLock;
use std::thread::{Builder, scope};

use super::failure::Failure;

/// The threads of an agent: its own, those of HTTP, logs, signals and output, and some that wait for disks.
pub(super) const AGENT_THREADS: usize = 12;
/// The threads of a client: one of each call, one that waits for signals, one that follows events, and last words.
pub(super) const CLIENT_THREADS: usize = 4;

/// Fails if the system does not give this process so many further threads.
pub(super) fn check(count: usize) -> Result<(), Failure> {
    start_and_end(count, Builder::new).map_err(|error| {
        let what = format!("cannot start threads ({count}): {error}");
        Failure::failed(what).hint(
            "raise the limit on this user's or container's processes (ulimit -u, LimitNPROC= or TasksMax= of systemd, \
             pids of a container)",
        )
    })
}

/// Starts so many threads, and ends them when all are there.
fn start_and_end(count: usize, thread: fn() -> Builder) -> io::Result<()> {
    let gate = RwLock::new(());
    scope(|scope| {
        let closed = gate.write();
        let start = |_| thread().spawn_scoped(scope, || drop(gate.read()));
        let started: io::Result<Vec<_>> = (0..count).map(start).collect();
        drop(closed);
        // They count for the system until they have ended.
        started?.into_iter().for_each(|thread| drop(thread.join()));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_are_not_there_are_an_error() {
        assert!(start_and_end(AGENT_THREADS, Builder::new).is_ok());
        // No system has room for such stacks.
        assert!(start_and_end(AGENT_THREADS, || Builder::new().stack_size(1 << 60)).is_err());
    }
}
