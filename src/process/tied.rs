//! The commands: made by way of this program, which ties them to itself.
//!
//! Must not know: process groups beyond their making.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// The name of the hidden command by which this program becomes the command to run.
pub(crate) const EXEC: &str = "lead-exec";

/// The option of it that has this program stay, as the reaper of the command.
pub(crate) const REAP: &str = "reap";

/// True in the program `headcount`, and not where it is a library of another one.
static IS_THIS_PROGRAM: AtomicBool = AtomicBool::new(false);

/// Notes that this process runs this program's command line, so that [`EXEC`] is known to it.
pub(crate) fn know_this_program() {
    IS_THIS_PROGRAM.store(true, Ordering::Relaxed);
}

/// Returns true if commands can be run by way of this program.
pub(crate) fn is_this_programs() -> bool {
    IS_THIS_PROGRAM.load(Ordering::Relaxed)
}

/// Returns a command in a group of its own, by way of this program, which unblocks its signals and ties it to its
/// parent. On Linux the process is the command's reaper, which is killed by [`Group::kill`](super::Group::kill) alone.
pub(crate) fn tied(command: &[impl AsRef<OsStr>]) -> io::Result<Command> {
    this_program(cfg!(target_os = "linux"), command)
}

/// Takes from a command what is meant for the agent alone: variables of the supervisor, in whose eyes the command would
/// speak for the agent, and the agent's own configuration, which may hold keys and passwords.
pub(crate) fn without_the_agents(command: &mut Command) {
    const OF_THE_SUPERVISOR: [&str; 6] =
        ["NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID"];
    for name in OF_THE_SUPERVISOR {
        command.env_remove(name);
    }
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"HEADCOUNT_") {
            command.env_remove(name);
        }
    }
}

/// Returns a command by way of this program, which becomes it or stays as its reaper: of the file that runs, even if
/// another version has taken its name since.
pub(super) fn this_program(is_reaper: bool, command: &[impl AsRef<OsStr>]) -> io::Result<Command> {
    let running = Path::new("/proc/self/exe");
    let is_there = cfg!(target_os = "linux") && running.exists();
    let mut process = Command::new(if is_there { running.to_owned() } else { std::env::current_exe()? });
    process.arg0("headcount").arg(EXEC).arg(std::process::id().to_string());
    process.args(is_reaper.then(|| format!("--{REAP}"))).arg("--").args(command).process_group(0);
    Ok(process)
}
