//! Agents that share a database.

use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Agent, wait_for};

/// A database of a test's own.
pub struct Database {
    pub url: String,
    directory: TempDir,
    schema: Option<String>,
}

impl Database {
    /// Makes a database in an SQLite file.
    pub fn file() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        Self { url: format!("sqlite://{}", directory.path().join("leases.db").display()), directory, schema: None }
    }

    /// Makes a schema of its own on a server; returns `None`, and prints a reason, where there is no server.
    pub fn schema(name: &str) -> Option<Self> {
        Some(Self::on(&crate::server::shared()?, name))
    }

    /// Makes a schema of its own on this server.
    pub fn on(server: &str, name: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let schema = Some(format!("{name}_{}", std::process::id()));
        Self { url: server.to_owned(), directory, schema }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a configuration file with these lines of `[leadership]`.
    fn config(&self, name: &str, lines: &str) -> PathBuf {
        let schema = self.schema.as_ref().map(|schema| format!("schema = \"{schema}\"\n")).unwrap_or_default();
        let lease = format!("url = \"{}\"\n{schema}leases = [\"default\", \"billing\"]\n", self.url);
        let path = self.path(&format!("{name}.toml"));
        let text = format!("[leadership]\nmode = \"lease\"\n{lines}\n[leadership.lease]\n{lease}");
        std::fs::write(&path, text).expect("a file");
        path
    }

    /// Starts an agent in the local profile: a lease lasts for two seconds.
    pub fn agent(&self, name: &str, seeds: &[&str]) -> Agent {
        self.agent_with(name, seeds, "", &[])
    }

    pub fn agent_with(&self, name: &str, seeds: &[&str], lines: &str, more: &[&str]) -> Agent {
        let config = self.config(name, lines);
        Agent::start(name, seeds, &[&["--config", config.to_str().expect("text")], more].concat())
    }

    /// Runs statements in the file.
    pub fn execute(&self, statements: &str) {
        let connection = rusqlite::Connection::open(self.path("leases.db")).expect("a file");
        connection.busy_timeout(std::time::Duration::from_secs(30)).expect("set");
        connection.execute_batch(statements).expect(statements);
    }

    /// Starts so many agents of one cluster, at once but for the first.
    pub fn agents(&self, count: usize, lines: &str) -> Vec<Agent> {
        let mut agents = vec![self.agent_with("n0", &[], lines, &[])];
        let seed = agents[0].gossip.clone();
        let start = |at: usize| {
            let seed = seed.clone();
            move || self.agent_with(&format!("n{at}"), &[&seed], lines, &[])
        };
        std::thread::scope(|scope| {
            let started: Vec<_> = (1..count).map(|at| scope.spawn(start(at))).collect();
            agents.extend(started.into_iter().map(|thread| thread.join().expect("it starts")));
        });
        agents
    }
}

/// A leader: its place in the list of agents, its name, and its term.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    pub at: usize,
    pub name: String,
    pub term: u64,
}

/// Returns the body of an answer.
pub fn body(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no body: {answer}"));
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

/// Returns an agent's word about the leader.
pub fn leader(agent: &Agent) -> Value {
    body(&agent.get("/v1/leader"))
}

/// A lease that outlasts a database that is busy for a while, with many renewals in it.
pub const STEADY: &str = "lease_duration = \"5s\"\nrenewal_interval = \"500ms\"";

/// Waits until all agents name the same leader, one of them, in a term above this one; nobody else ever says that it
/// leads.
pub fn wait_for_leader(agents: &[Agent], above: u64) -> Leader {
    wait_for("all agree on a leader", || {
        let seen: Vec<Value> = agents.iter().map(leader).collect();
        let mine: Vec<u64> = seen
            .iter()
            .filter(|seen| seen["is_me"] == true)
            .map(|seen| seen["term"].as_u64().expect("a term"))
            .collect();
        let mut terms = mine.clone();
        terms.dedup();
        assert_eq!(terms.len(), mine.len(), "a term that two lead in: {seen:?}");
        let (name, term) = (seen[0]["leader"].as_str()?, seen[0]["term"].as_u64()?);
        let at = agents.iter().position(|agent| agent.name == name)?;
        let is_so = |(other, seen): (usize, &Value)| {
            seen["leader"] == name && seen["term"] == term && seen["is_me"] == (other == at) && seen["mode"] == "lease"
        };
        (term > above && seen.iter().enumerate().all(is_so)).then(|| Leader { at, name: name.to_owned(), term })
    })
}

/// Returns the status of an answer.
pub fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("no status: {answer}"))
}
