//! Processes that nobody waits for: those that this process inherits as the first one of a container.
//!
//! Purpose: whatever runs in a container and puts a process into the background leaves it to the first process, which has
//! to wait for it when it ends, or the system keeps it as a zombie. (What a command leaves goes to its reaper.)
//!
//! Invariant: whoever waits for a command of its own gets its end. Only what has stayed a zombie from one look to the
//! next is taken for a stray: those that wait for a command do so within milliseconds.
//!
//! Must not know: the commands that this process has started.

use std::collections::BTreeSet;
use std::time::Duration;

use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

/// The interval at which strays are looked for.
const INTERVAL: Duration = Duration::from_secs(5);

/// Waits for strays from now on, on a thread of its own, if this is the first process.
pub(crate) fn wait_for_strays() {
    if std::process::id() == 1 {
        // Without a thread there will be zombies, and an agent.
        let _ = std::thread::Builder::new().name("strays".to_owned()).spawn(look);
    }
}

fn look() {
    let mut before = BTreeSet::new();
    loop {
        std::thread::sleep(INTERVAL);
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        // It costs nothing to find that there are none.
        let are_there = matches!(waitid(Id::All, flags), Ok(ended) if ended != WaitStatus::StillAlive);
        let mut zombies = if are_there { zombies_of(std::process::id()) } else { BTreeSet::new() };
        for id in zombies.intersection(&before) {
            let _ = waitpid(Pid::from_raw(*id), Some(WaitPidFlag::WNOHANG));
        }
        zombies.retain(|id| !before.contains(id));
        before = zombies;
    }
}

/// Returns the children of a process that have ended and were not waited for.
fn zombies_of(parent: u32) -> BTreeSet<i32> {
    let zombies = super::table::processes().filter(|process| process.is_zombie && process.parent == parent);
    zombies.map(|process| process.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_ended_is_a_zombie_until_it_was_waited_for() {
        let mut child = std::process::Command::new("true").spawn().expect("it is there");
        let id = i32::try_from(child.id()).expect("an id");
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        while !zombies_of(std::process::id()).contains(&id) {
            assert!(std::time::Instant::now() < deadline, "it ends");
            std::thread::sleep(Duration::from_millis(5));
        }
        child.wait().expect("waited for");
        assert!(!zombies_of(std::process::id()).contains(&id));
    }
}
