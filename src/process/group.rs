//! Process groups: a command, and all that it started, as long as that stays with it; or a command's reaper, and all
//! that it started.
//!
//! Must not know: why a command runs.

use std::io;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// A process group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    id: Pid,
    /// The signal that kills all of it.
    kill: Signal,
}

impl Group {
    /// Returns the group of the process with this id, which was started in one of its own; by [`tied`](super::tied), if
    /// this process runs this program.
    pub(crate) fn of(process: u32) -> io::Result<Self> {
        let id = Pid::from_raw(i32::try_from(process).map_err(io::Error::other)?);
        #[cfg(all(target_os = "linux", feature = "agent"))]
        if super::is_this_programs() {
            return Ok(Self { id, kill: super::reaper::KILL_ALL });
        }
        Ok(Self { id, kill: Signal::SIGKILL })
    }

    /// Signals all processes of the group; returns true if there are any. Only before the command is waited for, or to
    /// end what it left behind: the id may be reused after that.
    pub(crate) fn signal(self, signal: Signal) -> bool {
        killpg(self.id, signal) != Err(Errno::ESRCH)
    }

    /// Kills the command, and all that it started; returns true if there is anything of it. Under the same condition.
    pub(crate) fn kill(self) -> bool {
        let is_there = self.signal(self.kill);
        // A reaper that stands still kills nobody.
        is_there && (self.kill == Signal::SIGKILL || self.signal(Signal::SIGCONT))
    }

    /// Kills what a command left behind; returns true while any of it may still run. Only after the command itself was
    /// waited for.
    pub(crate) fn kill_rest(self) -> bool {
        let may_run = self.kill();
        // The first process of a container inherits them, and they stay until it has waited for them.
        let any = Pid::from_raw(-self.id.as_raw());
        while matches!(waitpid(any, Some(WaitPidFlag::WNOHANG)), Ok(ended) if ended != WaitStatus::StillAlive) {}
        may_run
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use super::*;

    #[test]
    #[expect(clippy::zombie_processes, reason = "whether it is waited for is the question")]
    fn what_this_process_inherited_of_a_group_is_no_zombie_once_the_group_is_gone() {
        for _ in 0..50 {
            let start = |group: i32| Command::new("sleep").arg("600").process_group(group).spawn().expect("it starts");
            let mut command = start(0);
            let group = Group::of(command.id()).expect("a group");
            let inherited = start(group.id.as_raw());
            let id = Pid::from_raw(i32::try_from(inherited.id()).expect("an id"));
            command.kill().expect("killed");
            command.wait().expect("waited for");
            while group.kill_rest() {}
            assert_eq!(waitpid(id, Some(WaitPidFlag::WNOHANG)), Err(Errno::ECHILD), "it was waited for");
        }
    }
}
