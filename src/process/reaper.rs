//! The process that stands between this one and a command on Linux: the reaper of whatever the command starts.
//!
//! ```text
//!   headcount ──▶ reaper ──▶ command, in a group of its own ──▶ what it starts, in whatever group or session
//!                   ▲──────── orphans of these ─────────────────┘
//! ```
//!
//! Invariants:
//! - The reaper ends after everything that the command has started. It kills the rest when the command has ended, when
//!   its own parent has, and on [`KILL_ALL`].
//! - It ends by an exit code, the command's as a shell has it, unless something may be left: then by a signal.
//! - Every other signal goes on to the command's group. If the reaper is killed, the command dies with it.
//!
//! Must not know: why a command runs, and for how long it may.

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::prctl::{set_child_subreaper, set_pdeathsig};
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getppid};

use super::table;
use super::tied::this_program;

/// The signal that has the reaper kill everything: one that nobody else sends.
pub(super) const KILL_ALL: Signal = Signal::SIGVTALRM;
/// The time that killed processes have to be gone.
const PATIENCE: Duration = Duration::from_secs(1);
/// The interval at which it is looked for what is left.
const PAUSE: Duration = Duration::from_millis(1);

/// Runs a command as its reaper, for the process with the id `parent`. Returns the command's exit code when nothing of
/// it is left.
pub(crate) fn reap(parent: u32, command: &[OsString]) -> io::Result<u8> {
    // Inherited by the command, which unblocks them.
    SigSet::all().thread_block()?;
    // Whoever started this program may have had it ignored, and it would never come.
    signal_hook::flag::register(signal_hook::consts::SIGCHLD, Arc::default())?;
    set_pdeathsig(KILL_ALL)?;
    // The parent may have died before.
    if getppid().as_raw().try_into() != Ok(parent) {
        return Err(io::Error::other("the process that asked for it is gone"));
    }
    set_child_subreaper(true)?;
    let started = this_program(false, command)?.spawn()?;
    let id = i32::try_from(started.id()).map_err(io::Error::other)?;
    let mut children = Children { command: Pid::from_raw(id), code: None };
    while children.reap() && children.code.is_none() {
        match SigSet::all().wait() {
            Ok(KILL_ALL) => break,
            // An error stands for a real-time signal.
            Ok(Signal::SIGCHLD) | Err(_) => {}
            Ok(signal) => drop(killpg(children.command, signal)),
        }
    }
    let deadline = Instant::now() + PATIENCE;
    while children.reap() {
        if Instant::now() >= deadline {
            // Something cannot be killed: a program of another user, or one that a broken disk holds.
            kill(Pid::this(), Signal::SIGKILL)?;
        }
        // The children of those become children of this process, which alone waits for them: no id is used anew
        // meanwhile. The latest first: one that forks and ends all the time is no longer there a moment later.
        for child in table::processes().rev().filter(|process| process.parent == std::process::id()) {
            let _ = kill(Pid::from_raw(child.id), Signal::SIGKILL);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(children.code.unwrap_or(SIGNALLED))
}

/// What a shell adds to the number of the signal that ended a command.
const SIGNALLED: u8 = 128;

/// The children of this process: a command, and orphans of what it has started.
struct Children {
    command: Pid,
    /// The exit code of the command, once it has ended.
    code: Option<u8>,
}

impl Children {
    /// Waits for those that have ended; returns true if there are others.
    fn reap(&mut self) -> bool {
        loop {
            let (child, code) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(child, code)) => (child, code.to_le_bytes()[0]),
                Ok(WaitStatus::Signaled(child, signal, _)) => (child, SIGNALLED + signal as u8),
                Ok(WaitStatus::StillAlive) => return true,
                Err(Errno::ECHILD) => return false,
                // Ended by a real-time signal; it is not said who.
                Err(Errno::EINVAL) if kill(self.command, None) == Err(Errno::ESRCH) => (self.command, SIGNALLED),
                Ok(_) | Err(_) => continue,
            };
            if child == self.command {
                self.code.get_or_insert(code);
            }
        }
    }
}
