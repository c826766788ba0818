//! Event handlers of real agents: commands and webhooks, their order, their bounds, and their end.

mod commands;
mod webhooks;

use std::path::{Path, PathBuf};

use crate::support::{Agent, wait_for};
use nix::sys::signal::Signal;
use serde_json::Value;

/// A directory with a configuration, and what handlers write.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn shown(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Writes the configuration.
    fn configure(&self, text: &str) {
        std::fs::write(self.path("config.toml"), text).expect("written");
    }

    /// Starts an agent with it.
    fn start(&self, name: &str, prefix: &[String]) -> Agent {
        let config = self.shown("config.toml");
        let arguments = ["--config", &config, "--name", name, "--profile", "local", "--bind", "127.0.0.1:0"];
        Agent::start_with(prefix, &[&arguments[..], &["--http", "127.0.0.1:0"]].concat())
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until a file has so many lines.
    fn wait_for(&self, name: &str, count: usize) -> Vec<String> {
        wait_for(&format!("{count} lines in {name}, not {:?}", self.lines(name)), || {
            Some(self.lines(name)).filter(|lines| lines.len() >= count)
        })
    }
}

/// A handler that runs a shell, with these further keys.
fn shell(name: &str, script: &str, keys: &str) -> String {
    format!("[[handlers]]\nname = \"{name}\"\ncommand = [\"sh\", \"-c\", '''{script}''']\n{keys}\n")
}

/// A figure of one handler; figures of this kind are whole numbers.
fn figure(agent: &Agent, name: &str, handler: &str) -> u64 {
    agent.metric(&format!("headcount_handler_{name}{{handler=\"{handler}\"}}")) as u64
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).expect("JSON")
}

/// Returns true if a process of this id is there, and is no zombie.
fn is_alive(id: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(id).join("stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

fn stop(agent: &mut Agent) {
    agent.signal(Signal::SIGTERM);
    let status = agent.wait();
    assert!(status.success(), "{status}: {}", agent.log());
}
