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

    /// Kills what a command left behind; returns true while any of it may still run. Only after the command itself was
    /// waited for.
    pub(crate) fn kill_rest(self) -> bool {
        let may_run = self.signal(Signal::SIGKILL) && !self.has_ended();
        // The first process of a container inherits them, and they stay until it has waited for them. After the look at
        // them: what ended during it is not looked at again.
        let any = Pid::from_raw(-self.0.as_raw());
        while matches!(waitpid(any, Some(WaitPidFlag::WNOHANG)), Ok(ended) if ended != WaitStatus::StillAlive) {}
        may_run
    }

    /// Returns true if all processes of the group have ended, and some other process has yet to wait for them: that may
    /// take long, and they do nothing meanwhile. A signal reaches them still.
    #[cfg(target_os = "linux")]
    fn has_ended(self) -> bool {
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let stats = ids.filter_map(|id| std::fs::read_to_string(format!("/proc/{id}/stat")).ok());
        let mut zombies = 0;
        for is_zombie in stats.filter_map(|stat| zombie_of(&stat, self.0)) {
            if !is_zombie {
                return false;
            }
            zombies += 1;
        }
        // Whoever sees none of the group cannot say that all of it has ended.
        zombies > 0
    }

    #[cfg(not(target_os = "linux"))]
    fn has_ended(self) -> bool {
        false
    }
}

/// Reads a line of `/proc/…/stat`: whether the process has ended, if it is in this group. The name of the command is in
/// brackets, and may have any characters in it. A process whose first thread alone has ended runs on.
#[cfg(target_os = "linux")]
fn zombie_of(stat: &str, group: Pid) -> Option<bool> {
    let behind: Vec<&str> = stat.rsplit(')').next()?.split_ascii_whitespace().collect();
    let (state, its_group, threads) = (behind.first()?, behind.get(2)?, behind.get(17)?);
    let is_in_it = its_group.parse() == Ok(group.as_raw());
    is_in_it.then(|| matches!(*state, "Z" | "X") && threads.parse::<u32>().is_ok_and(|threads| threads <= 1))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    /// Starts a process that never waits for what it has started: a command in a group of its own. Returns the process,
    /// and the group.
    fn careless_parent_of(command: &str) -> (Child, Group) {
        let script = format!("setsid {command} & echo $!; exec sleep 600");
        let mut parent = Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(parent.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        (parent, Group::of(line.trim().parse().expect("an id")).expect("a group"))
    }

    #[test]
    fn a_group_that_was_killed_is_gone_though_its_parent_never_waits_for_it() {
        let (mut parent, group) = careless_parent_of("sleep 600");
        let deadline = Instant::now() + Duration::from_secs(30);
        let (mut began, mut ended) = (false, false);
        while !ended && Instant::now() < deadline {
            // Until it has a group of its own there is none to kill.
            began |= group.signal(Signal::SIGCONT);
            ended = began && !group.kill_rest();
            std::thread::sleep(Duration::from_millis(5));
        }
        let is_kept = group.signal(Signal::SIGCONT);
        parent.kill().expect("killed");
        parent.wait().expect("waited for");
        assert!(ended, "it runs no more");
        assert!(is_kept, "nobody has waited for it");
    }

    #[test]
    #[expect(clippy::zombie_processes, reason = "whether it is waited for is the question")]
    fn what_this_process_inherited_of_a_group_is_no_zombie_once_the_group_is_gone() {
        for _ in 0..50 {
            let start = |group: i32| Command::new("sleep").arg("600").process_group(group).spawn().expect("it starts");
            let mut command = start(0);
            let group = Group::of(command.id()).expect("a group");
            let inherited = start(group.0.as_raw());
            let id = Pid::from_raw(i32::try_from(inherited.id()).expect("an id"));
            command.kill().expect("killed");
            command.wait().expect("waited for");
            while group.kill_rest() {}
            assert_eq!(waitpid(id, Some(WaitPidFlag::WNOHANG)), Err(Errno::ECHILD), "it was waited for");
        }
    }

    #[test]
    fn a_group_has_not_ended_while_one_of_it_runs() {
        let group = Pid::from_raw(12);
        let stat = |state: &str, of: i32, threads: u32| {
            format!("14 (a) S) {state} 1 {of} 12 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 {threads} 0 77 0 0")
        };
        assert_eq!(zombie_of(&stat("Z", 12, 1), group), Some(true));
        assert_eq!(zombie_of(&stat("S", 12, 1), group), Some(false));
        assert_eq!(zombie_of(&stat("D", 12, 1), group), Some(false));
        assert_eq!(zombie_of(&stat("Z", 12, 2), group), Some(false), "other threads of it run");
        assert_eq!(zombie_of(&stat("Z", 13, 1), group), None, "it is of another group");
        assert_eq!(zombie_of("", group), None);
    }
}
