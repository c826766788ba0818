//! One run of a command: the event on its standard input, its end awaited, its group ended.
//!
//! Invariants:
//! - A run ends: after its time, or when the agent has ended, its group gets SIGTERM, and all that it started SIGKILL
//!   [`KILL_AFTER`] later.
//! - Nothing that it started is left when a run has ended, or is given up. (Elsewhere than on Linux, a process that has
//!   made itself a group of its own is out of reach.)
//! - Of what it says on standard error no more than the end is kept, and nothing that it does not read is waited for.
//!
//! Must not know: other events, other handlers.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::event::{MISSED, Notice};
use super::{Context, GROUP_PATIENCE, KILL_AFTER};
use crate::process::{Group, tied, without_the_agents};
use crate::text::visible;

/// The bytes at the end of standard error that are kept.
const MAX_TAIL_BYTES: usize = 1_024;
/// The characters of it that are logged.
const MAX_TAIL_SHOWN: usize = 300;
/// The interval at which the end of killed processes is looked for.
const GROUP_PAUSE: Duration = Duration::from_millis(5);

/// Runs a command for an event; the error says how it failed.
pub(super) async fn run(
    words: &[String],
    notice: &Notice,
    missed: u64,
    context: &Context,
    limit: Duration,
    end: &CancellationToken,
) -> Result<(), String> {
    let mut child = start(words, notice, missed, context).map_err(|error| format!("cannot be started: {error}"))?;
    // Dropped before the command is, which is what ends a run that is given up.
    let mut started = Started { group: child.id().map(Group::of).transpose().ok().flatten() };
    let group = started.group;
    let (input, mut errors) = (child.stdin.take(), child.stderr.take());
    let line = format!("{}\n", notice.json);
    let feed = async move {
        if let Some(mut input) = input {
            // A command that does not read what it is told is free to do so.
            let _ = input.write_all(line.as_bytes()).await;
        }
    };
    let mut tail = Vec::new();
    let (ended, is_out_of_time) = {
        let talk = async { tokio::join!(feed, read_tail(errors.as_mut(), &mut tail)) };
        let mut talk = std::pin::pin!(talk);
        let mut is_said = false;
        let mut waiter = Waiter { group, kill_at: None, deadline: Instant::now() + limit, is_out_of_time: false };
        let ended = loop {
            let next = waiter.next();
            tokio::select! {
                ended = child.wait() => break ended,
                _ = talk.as_mut(), if !is_said => is_said = true,
                () = sleep_until(next) => waiter.out_of_time(),
                () = end.cancelled(), if waiter.kill_at.is_none() => waiter.terminate(),
            }
        };
        started.end_rest().await;
        if !is_said {
            let _ = timeout(GROUP_PATIENCE, talk).await;
        }
        (ended, waiter.is_out_of_time)
    };
    let ended = ended.map_err(|error| format!("cannot be waited for: {error}"))?;
    if ended.success() && !is_out_of_time {
        return Ok(());
    }
    Err(words_of_failure(ended, is_out_of_time.then_some(limit), &tail))
}

fn start(words: &[String], notice: &Notice, missed: u64, context: &Context) -> std::io::Result<Child> {
    let mut command = tied(words)?;
    without_the_agents(&mut command);
    command.envs(notice.variables()).env(MISSED, missed.to_string()).env("HEADCOUNT_NODE", &context.node);
    if let Some(http) = context.http {
        command.env("HEADCOUNT_AGENT", http.to_string());
    }
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    // Not killed when it is dropped: a reaper has to outlive what it kills.
    Command::from(command).spawn()
}

/// The times at which a run is ended.
struct Waiter {
    group: Option<Group>,
    /// Set when the command was told to end.
    kill_at: Option<Instant>,
    deadline: Instant,
    is_out_of_time: bool,
}

impl Waiter {
    fn next(&self) -> Instant {
        self.kill_at.unwrap_or(self.deadline)
    }

    fn out_of_time(&mut self) {
        if self.kill_at.is_none() {
            self.is_out_of_time = true;
            return self.terminate();
        }
        if let Some(group) = self.group {
            group.kill();
        }
        // And again, until it is gone.
        self.kill_at = Some(Instant::now() + GROUP_PATIENCE);
    }

    fn terminate(&mut self) {
        if let Some(group) = self.group {
            group.signal(Signal::SIGTERM);
        }
        self.kill_at = Some(Instant::now() + KILL_AFTER);
    }
}

/// The processes of a run, killed when this is dropped.
struct Started {
    group: Option<Group>,
}

impl Started {
    /// Ends what the command left behind. Once it was waited for.
    async fn end_rest(&mut self) {
        let Some(group) = self.group.take() else { return };
        let deadline = Instant::now() + GROUP_PATIENCE;
        while group.kill_rest() && Instant::now() < deadline {
            sleep(GROUP_PAUSE).await;
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            group.kill();
        }
    }
}

/// Reads to the end, and keeps the last bytes.
async fn read_tail(source: Option<&mut (impl AsyncRead + Unpin)>, tail: &mut Vec<u8>) {
    let Some(source) = source else { return };
    let mut buffer = [0; MAX_TAIL_BYTES];
    while let Ok(read @ 1..) = source.read(&mut buffer).await {
        tail.extend_from_slice(&buffer[..read]);
        let beyond = tail.len().saturating_sub(MAX_TAIL_BYTES);
        tail.drain(..beyond);
    }
}

fn words_of_failure(ended: ExitStatus, out_of_time: Option<Duration>, tail: &[u8]) -> String {
    let how = match (out_of_time, ended.code(), ended.signal()) {
        (Some(limit), _, _) => format!("was ended after {}", humantime::format_duration(limit)),
        // Shells and reapers return 128 and the signal's number for a command that a signal ended.
        (None, Some(code), _) => match Signal::try_from(code - 128) {
            Ok(signal) => format!("ended with {code} ({signal})"),
            Err(_) => format!("ended with {code}"),
        },
        (None, None, Some(_)) if cfg!(target_os = "linux") => {
            "may have left processes that cannot be killed".to_owned()
        }
        (None, None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None, None) => "failed".to_owned(),
    };
    let said = String::from_utf8_lossy(tail);
    let said = said.trim();
    if said.is_empty() {
        return how;
    }
    let skipped = said.chars().count().saturating_sub(MAX_TAIL_SHOWN);
    let end: String = said.chars().skip(skipped).collect();
    format!("{how}: {}{}", if skipped > 0 { "…" } else { "" }, visible(&end, 2 * MAX_TAIL_SHOWN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_failure_end_with_what_it_said_last() {
        let failed = |raw: i32, tail: &str| words_of_failure(ExitStatus::from_raw(raw), None, tail.as_bytes());
        assert_eq!(failed(3 << 8, ""), "ended with 3");
        assert_eq!(failed(143 << 8, " oh\nno\n"), "ended with 143 (SIGTERM): oh\\nno");
        let long = format!("{}end", "x".repeat(MAX_TAIL_SHOWN));
        let told = failed(1 << 8, &long);
        assert!(told.starts_with("ended with 1: …xxx") && told.ends_with("xend"), "{told}");
        let late = words_of_failure(ExitStatus::from_raw(9), Some(Duration::from_secs(2)), b"");
        assert_eq!(late, "was ended after 2s");
    }

    #[tokio::test]
    async fn a_run_that_is_given_up_leaves_no_process_behind() {
        let folder = tempfile::tempdir().expect("a directory");
        let ids = folder.path().join("ids");
        // A child of its own: this test is not the program that ties commands to itself.
        let script = format!("sleep 1000 & echo $! >> {0}; echo $$ >> {0}; wait", ids.display());
        let mut command = std::process::Command::new("sh");
        std::os::unix::process::CommandExt::process_group(command.args(["-c", &script]), 0);
        let mut command = Command::from(command);
        let child = command.kill_on_drop(true).spawn().expect("a shell");
        let started = Started { group: child.id().and_then(|id| Group::of(id).ok()) };
        let deadline = Instant::now() + Duration::from_secs(30);
        let read = || std::fs::read_to_string(&ids).unwrap_or_default();
        while read().lines().count() < 2 {
            assert!(Instant::now() < deadline, "both run");
            sleep(GROUP_PAUSE).await;
        }
        drop(started);
        drop(child);
        let lives = |id: &str| {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
        };
        while read().lines().any(lives) {
            assert!(Instant::now() < deadline, "neither is left");
            sleep(GROUP_PAUSE).await;
        }
    }

    #[tokio::test]
    async fn no_more_than_the_end_of_what_it_says_is_kept() {
        let mut tail = Vec::new();
        let said = [vec![b'a'; 5 * MAX_TAIL_BYTES], b"last".to_vec()].concat();
        read_tail(Some(&mut said.as_slice()), &mut tail).await;
        assert_eq!(tail.len(), MAX_TAIL_BYTES);
        assert!(tail.ends_with(b"aalast"));
    }
}
