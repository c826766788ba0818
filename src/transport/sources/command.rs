//! A command whose output is a list of seeds.
//!
//! Invariant: it ends within its time, with all that it started.

use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::list::{Seeds, parse, read_bounded};
use crate::text::{MAX_SHOWN, visible};

/// The time that a command for seeds has.
pub(super) const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// The interval at which the end of a command is looked for.
const COMMAND_PAUSE: Duration = Duration::from_millis(20);
/// The time that the end of its output has after its own.
const OUTPUT_PATIENCE: Duration = Duration::from_secs(1);

/// Runs a command and reads its output.
pub(super) fn run(words: &[String], limit: Duration) -> Result<Seeds, String> {
    let mut command = command(words).map_err(|error| error.to_string())?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("it cannot be run: {error}"))?;
    let output = child.stdout.take().map(read_aside);
    let errors = child.stderr.take().map(read_aside);
    let deadline = Instant::now() + limit;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Ok(status),
            Ok(None) if Instant::now() >= deadline => {
                break Err(format!("it did not end within {} s", limit.as_secs_f32()));
            }
            Ok(None) => std::thread::sleep(COMMAND_PAUSE),
            Err(error) => break Err(error.to_string()),
        }
    };
    end(&mut child);
    // Nobody holds the other ends any more, but for a process that has left the group.
    let read = |from: Option<mpsc::Receiver<Vec<u8>>>| from.and_then(|from| from.recv_timeout(OUTPUT_PATIENCE).ok());
    let (output, errors) = (read(output), read(errors));
    let status = status?;
    if status.success() {
        let output = output.ok_or("a process that it left running holds its output open")?;
        return parse(&output);
    }
    let errors = errors.unwrap_or_default();
    let said = String::from_utf8_lossy(&errors);
    let last = said.trim().lines().last().unwrap_or_default();
    Err(format!("it failed ({status}): {}", visible(last, MAX_SHOWN)))
}

/// Reads up to a bound, and lets the rest go by.
fn read_aside(mut source: impl std::io::Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (tell, told) = mpsc::channel();
    // Without a thread there is nobody who tells, and the command fails by its output.
    let _ = std::thread::Builder::new().spawn(move || {
        let _ = tell.send(read_bounded(source.by_ref()).unwrap_or_default());
        // Else the command would be ended by what it says.
        let _ = std::io::copy(&mut source, &mut std::io::sink());
    });
    told
}

/// Returns the command in a process group of its own, so that it can be ended with all that it started.
#[cfg_attr(not(all(unix, feature = "agent")), expect(clippy::unnecessary_wraps, reason = "as in the agent"))]
fn command(words: &[String]) -> std::io::Result<Command> {
    #[cfg(all(unix, feature = "agent"))]
    if crate::process::is_this_programs() {
        let mut command = crate::process::tied(words)?;
        crate::process::without_the_agents(&mut command);
        return Ok(command);
    }
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    Ok(command)
}

/// Ends a command, and what it left behind.
fn end(child: &mut Child) {
    #[cfg(unix)]
    let group = crate::process::Group::of(child.id()).ok();
    #[cfg(unix)]
    if let Some(group) = group {
        let _ = group.kill();
    }
    #[cfg(not(unix))]
    let _ = child.kill();
    let _ = child.wait();
    #[cfg(unix)]
    if let Some(group) = group {
        group.kill_rest();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeds(seeds: &[&str]) -> Vec<String> {
        seeds.iter().map(|seed| (*seed).to_owned()).collect()
    }

    #[cfg(unix)]
    #[test]
    fn the_output_of_a_command_is_such_a_list_and_a_failure_says_why() {
        let shell = |script: &str| run(&seeds(&["sh", "-c", script]), COMMAND_TIMEOUT);
        assert_eq!(shell("echo a:1; echo b:2").map(|read| read.seeds), Ok(seeds(&["a:1", "b:2"])));
        let failed = shell("echo a:1; echo no such cluster >&2; exit 3").expect_err("it failed");
        assert!(failed.contains("exit status: 3") && failed.contains("no such cluster"), "{failed}");
        assert!(run(&seeds(&["/nonexistent/seeds"]), COMMAND_TIMEOUT).is_err());
        let endless = shell("yes '#' | head -c 200000; echo a:1").expect_err("too long");
        assert!(endless.contains("more than 65536 bytes"), "{endless}");
        let chatty = "head -c 1000000 /dev/zero >&2; echo a:1";
        assert_eq!(shell(chatty).map(|read| read.seeds), Ok(seeds(&["a:1"])), "what goes by ends nothing");
        if cfg!(target_os = "linux") {
            // The command ends once the daemon has a group of its own: until then it ends with it.
            let ready = tempfile::NamedTempFile::new().expect("a file");
            let path = ready.path().display();
            let script = format!(
                "setsid sh -c 'echo yes > {path}; exec sleep 20' & until [ -s {path} ]; do sleep 0.01; done; echo a:1"
            );
            let daemon = shell(&script).expect_err("its output is open still");
            assert!(daemon.contains("holds its output open"), "{daemon}");
        }
        // A process that it leaves behind holds nothing up.
        let began = Instant::now();
        assert_eq!(shell("sleep 1000 & echo a:1").map(|read| read.seeds), Ok(seeds(&["a:1"])));
        assert!(began.elapsed() < COMMAND_TIMEOUT);
        // One that hangs is ended after its time.
        let began = Instant::now();
        let hung = run(&seeds(&["sh", "-c", "sleep 1000; echo a:1"]), Duration::from_millis(300));
        assert_eq!(hung, Err("it did not end within 0.3 s".to_owned()));
        assert!(began.elapsed() < Duration::from_secs(100));
    }
}
