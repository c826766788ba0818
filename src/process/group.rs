//! Process groups: a command, and all that it started, as long as that stays with it.
//!
//! Must not know: why a command runs.

use std::io;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// A process group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group(Pid);

impl Group {
    /// Returns the group of the process with this id, which was started in one of its own.
    pub(crate) fn of(process: u32) -> io::Result<Self> {
        i32::try_from(process).map(|id| Self(Pid::from_raw(id))).map_err(io::Error::other)
    }

    /// Signals all processes of the group; returns true if there are any. Only before the command is waited for, or to
    /// end what it left behind: the id may be reused after that.
    pub(crate) fn signal(self, signal: Signal) -> bool {
        killpg(self.0, signal) != Err(Errno::ESRCH)
    }

    /// Kills what a command left behind; returns true while there is anything. Only after the command itself was waited
    /// for.
    pub(crate) fn kill_rest(self) -> bool {
        let is_there = self.signal(Signal::SIGKILL);
        // The first process of a container inherits them, and they stay until it has waited for them.
        let any = Pid::from_raw(-self.0.as_raw());
        while matches!(waitpid(any, Some(WaitPidFlag::WNOHANG)), Ok(ended) if ended != WaitStatus::StillAlive) {}
        is_there
    }
}
