//! No supervisor: systems without Unix sockets have none that is told anything.

use std::time::Duration;

/// The way to nobody.
#[derive(Debug, Clone, Default)]
pub(super) struct Supervisor;

#[expect(clippy::unused_self, reason = "as where there is one")]
impl Supervisor {
    pub(super) fn of_this_process() -> Self {
        Self
    }
    pub(super) fn watchdog(&self) -> Option<Duration> {
        None
    }
    pub(super) fn ready(&self) {}
    pub(super) fn reloading(&self) {}
    pub(super) fn stopping(&self) {}
    pub(super) fn status(&self, _line: &str) {}
    pub(super) fn feed_watchdog(&self) {}
    pub(super) fn is_there(&self) -> bool {
        false
    }
}
