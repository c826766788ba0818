//! A command in a process group of its own, which is signalled as a whole, and ended with all that it started.
//!
//! Invariants:
//! - When its end is reported nothing that it started is left, or it is said that there may be: what the command left
//!   behind is killed first. (Elsewhere than on Linux, a process that has made itself a group of its own is out of reach.)
//! - The command is tied to this process, as [`process`](crate::process) says.
//!
//! Must not know: why it runs.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};

use crate::cli::failure::{Exit, Failure};
use crate::cli::human::plain;
use crate::process::{Group, tied};

/// Time for which the end of killed processes is awaited.
const GROUP_PATIENCE: Duration = Duration::from_secs(1);
/// Interval at which it is looked for.
const GROUP_PAUSE: Duration = Duration::from_millis(5);

/// A command that runs.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    group: Group,
}

/// The end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) exit: Exit,
    /// False if processes that the command left behind may still be there, although they were killed.
    pub(super) is_all_gone: bool,
}

impl Running {
    /// Starts the command. Must be called by a thread that lives as long as the command is to: on Linux the command
    /// dies with it.
    pub(super) fn start(command: &[OsString], environment: &[(&str, String)]) -> Result<Self, Failure> {
        let name = command.first().map(|name| plain(&name.to_string_lossy())).unwrap_or_default();
        let cannot = |error: io::Error| Failure::failed(format!("cannot run {name}: {error}"));
        let mut process = tied(command).map_err(cannot)?;
        process.envs(environment.iter().map(|(key, value)| (key, value)));
        if io::stdin().is_terminal() {
            // Only the foreground group may read from a terminal; any other one is stopped when it tries.
            process.stdin(Stdio::null());
        }
        let child = process.spawn().map_err(cannot)?;
        let group = Group::of(child.id()).map_err(cannot)?;
        Ok(Self { child, group })
    }

    /// Signals the whole group.
    pub(super) fn signal(&self, signal: Signal) {
        // The group may be gone.
        let _ = self.group.signal(signal);
    }

    /// Kills the command, and all that it started.
    pub(super) fn kill(&self) {
        let _ = self.group.kill();
    }

    /// Returns the exit code if the command has ended, and whether all that it started is gone, which is killed.
    pub(super) fn ended(&mut self) -> io::Result<Option<Ended>> {
        let Some(status) = self.child.try_wait()? else { return Ok(None) };
        let deadline = Instant::now() + GROUP_PATIENCE;
        let mut is_left = self.group.kill_rest();
        while is_left && Instant::now() < deadline {
            std::thread::sleep(GROUP_PAUSE);
            is_left = self.group.kill_rest();
        }
        // A reaper that gave up, or was killed.
        is_left |= cfg!(target_os = "linux") && status.signal().is_some();
        Ok(Some(Ended { exit: exit_of(status), is_all_gone: !is_left }))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Not after it was waited for: its process id may be reused by then.
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill();
            let _ = self.child.wait();
        }
    }
}

/// Returns the exit code as a shell has it: the command's own, or 128 plus the number of the signal that ended it.
fn exit_of(status: ExitStatus) -> Exit {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Exit::of_command(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(Exit::FAILED.code()))
}

/// Refuses a command that cannot be run, with a shell's exit codes, so that a mistake shows at once and not at the
/// first leadership.
pub(super) fn check(command: &[OsString]) -> Result<(), Failure> {
    let Some(name) = command.first() else { return Err(Failure::usage("no command")) };
    let searched = std::env::var_os("PATH").filter(|_| !name.as_bytes().contains(&b'/'));
    let found: Vec<bool> = match &searched {
        Some(path) => {
            std::env::split_paths(path).filter_map(|directory| is_executable(&directory.join(name))).collect()
        }
        None if name.as_bytes().contains(&b'/') => is_executable(Path::new(name)).into_iter().collect(),
        // Without a `PATH`, the system decides where to look when the command runs.
        None => return Ok(()),
    };
    let (exit, why) = match found.iter().any(|is_executable| *is_executable) {
        true => return Ok(()),
        false if found.is_empty() => (127, "there is no such command"),
        false => (126, "it is no file that may be executed"),
    };
    let text = format!("cannot run {}: {why}", plain(&name.to_string_lossy()));
    Err(Failure::new(Exit::of_command(exit), text).hint("it is looked for where headcount lead runs, in $PATH"))
}

/// Returns true for a file that any user may execute; `None` if there is no such path.
fn is_executable(path: &Path) -> Option<bool> {
    let found = std::fs::metadata(path).ok()?;
    Some(found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Becomes the command, after telling the system to kill it with its parent, and returns only if that fails; or runs it
/// as its reaper.
pub(crate) fn exec(parent: u32, is_reaper: bool, command: &[OsString]) -> Result<Exit, Failure> {
    let refuse = |what: &dyn std::fmt::Display| Failure::failed(format!("cannot tie a command to its leader: {what}"));
    #[cfg(target_os = "linux")]
    if is_reaper {
        return crate::process::reap(parent, command).map(Exit::of_command).map_err(|error| refuse(&error));
    }
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(|error| refuse(&error))?;
    // The parent may have died before.
    if nix::unistd::getppid().as_raw().try_into() != Ok(parent) {
        return Err(refuse(&"the process that asked for it is gone"));
    }
    // Signals stay blocked in the program that a process becomes.
    SigSet::empty().thread_set_mask().map_err(|error| refuse(&error))?;
    let Some((name, arguments)) = command.split_first() else { return Err(refuse(&"no command")) };
    let error = Command::new(name).args(arguments).exec();
    // Exit codes as in shells.
    let exit = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    Err(Failure::new(Exit::of_command(exit), format!("cannot run {}: {error}", plain(&name.to_string_lossy()))))
}
