//! A shell that a reader of a page types commands into.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

use super::PATIENCE;

/// Returns a program with these words before it, in this directory, with nothing of the tester's own settings.
pub fn program(prefix: &[String], words: &[&str], checkout: &Path) -> Command {
    let mut all = prefix.iter().map(String::as_str).chain(words.iter().copied());
    let mut command = Command::new(all.next().expect("a program"));
    command.args(all).current_dir(checkout);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HEADCOUNT_")) {
        command.env_remove(name);
    }
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", checkout.join("bin").display()));
    command
}

/// A shell that a reader types into.
pub struct Terminal {
    pub shell: Child,
    pub input: ChildStdin,
    pub lines: Receiver<String>,
    /// Everything it showed.
    pub log: Vec<String>,
}

impl Terminal {
    const MARK: &'static str = "@@@";

    pub fn open(prefix: &[String], checkout: &Path) -> Self {
        let mut command = program(prefix, &["bash", "--norc", "--noprofile"], checkout);
        let mut shell = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("bash runs");
        let mut input = shell.stdin.take().expect("piped");
        writeln!(input, "exec 2>&1; set -m; shopt -s expand_aliases").expect("it reads");
        let (sender, lines) = channel();
        let output = BufReader::new(shell.stdout.take().expect("piped"));
        std::thread::spawn(move || output.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok()));
        Self { shell, input, lines, log: Vec::new() }
    }

    /// Types a line, and waits for nothing.
    pub fn type_in(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("the shell reads");
    }

    /// Returns the next line, unless it takes too long. Lines of the shell about its jobs are passed over.
    pub fn line(&mut self, deadline: Instant) -> Option<String> {
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.log.push(line.clone());
                    if !is_about_jobs(&line) {
                        return Some(line);
                    }
                }
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => panic!("the shell has ended:\n{}", self.log.join("\n")),
            }
        }
    }

    /// Runs a command to its end, or into the background; returns what is shown until then, and its exit code.
    pub fn run(&mut self, command: &str) -> (Vec<String>, i32) {
        self.type_in(command);
        // The last line that it prints may have no end.
        self.type_in(&format!("printf '\\n{} %s\\n' $?", Self::MARK));
        let deadline = Instant::now() + PATIENCE;
        let mut lines = Vec::new();
        loop {
            let line = self.line(deadline);
            let line = line.unwrap_or_else(|| panic!("{command} does not end:\n{}", self.log.join("\n")));
            match line.strip_prefix(Self::MARK) {
                Some(code) => return (lines, code.trim().parse().expect("an exit code")),
                None if line.is_empty() => {}
                None => lines.push(line),
            }
        }
    }
}

/// Returns true if the shell says how a job of its own fares.
fn is_about_jobs(line: &str) -> bool {
    let number = line.strip_prefix('[').map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    line.starts_with("bash: line ") || number.is_some_and(|rest| rest.starts_with(']'))
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
