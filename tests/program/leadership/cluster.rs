//! Clusters of voters, and what they say of their leader.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Agent, Watch, own_address, wait_for};

pub(crate) const FIVE: [&str; 5] = ["a", "b", "c", "d", "e"];
pub(crate) const VOTERS: &str = "a,b,c,d,e";

/// Agents with data directories.
pub(crate) struct Cluster {
    pub(crate) agents: Vec<Agent>,
    pub(crate) data: TempDir,
}

/// Starts one that keeps its state below `data`.
pub(crate) fn start(data: &Path, name: &str, seeds: &[&str], voters: &str, more: &[&str]) -> Agent {
    let directory = data.join(name);
    let directory = directory.to_str().expect("text");
    Agent::start(name, seeds, &[&["--data-dir", directory, "--voters", voters], more].concat())
}

impl Cluster {
    /// Starts five voters, and waits until one of them leads.
    pub(crate) fn of_five() -> (Self, Leader) {
        let data = tempfile::tempdir().expect("a directory");
        let bind = own_address();
        let first = start(data.path(), "a", &[], VOTERS, &["--bind", &bind]);
        let seed = first.gossip.clone();
        let mut agents = vec![first];
        agents.extend(FIVE[1..].iter().map(|name| start(data.path(), name, &[&seed], VOTERS, &["--bind", &bind])));
        let cluster = Self { agents, data };
        let leader = cluster.wait_for_leader(0);
        (cluster, leader)
    }

    /// Waits until all agents name the same leader, one of them, in a term above this one.
    pub(crate) fn wait_for_leader(&self, above: u64) -> Leader {
        wait_for("all agree on a leader", || {
            let seen: Vec<Value> = self.agents.iter().map(leader).collect();
            let (name, term) = (seen[0]["leader"].as_str()?, seen[0]["term"].as_u64()?);
            let at = self.agents.iter().position(|agent| agent.name == name)?;
            let is_so = |(other, seen): (usize, &Value)| {
                seen["leader"] == name && seen["term"] == term && seen["is_me"] == (other == at)
            };
            (term > above && seen.iter().enumerate().all(is_so)).then(|| Leader { at, name: name.to_owned(), term })
        })
    }

    pub(crate) fn other_than(&self, leader: &Leader) -> &Agent {
        self.agents.iter().find(|agent| agent.name != leader.name).expect("five")
    }
}

/// A leader: its place in the list of agents, its name, and its term.
#[derive(Debug)]
pub(crate) struct Leader {
    pub(crate) at: usize,
    pub(crate) name: String,
    pub(crate) term: u64,
}

/// Returns an agent's word about the leader.
pub(crate) fn leader(agent: &Agent) -> Value {
    body(&agent.get("/v1/leader"))
}

/// Returns the JSON that a client command prints.
pub(crate) fn json_of(agent: &Agent, command: &[&str]) -> Value {
    let (status, text) = agent.client(&[command, &["--format", "json"]].concat());
    assert!(status.success(), "{command:?}: {text}\n{}", agent.log());
    serde_json::from_str(&text).expect("json")
}

/// Returns the body of an answer.
pub(crate) fn body(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no body: {answer}"));
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

pub(crate) fn wait_for_event(watch: &Watch, kind: &str, node: &str) -> Value {
    wait_for(&format!("{kind} of {node}"), || {
        watch.events().into_iter().find(|event| event["event"] == kind && event["node"] == node)
    })
}

/// Returns a whole number among the metrics.
pub(crate) fn figure(agent: &Agent, name: &str) -> u64 {
    agent.metric(name) as u64
}

pub(crate) fn voters_of(agent: &Agent) -> Vec<String> {
    let voters = body(&agent.get("/v1/voters"));
    let list = voters["voters"].as_array().expect("a list");
    list.iter().map(|voter| voter["id"].as_str().expect("a text").to_owned()).collect()
}
