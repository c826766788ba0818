//! Clusters of sealed agents, and what is asked of them.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{self, Agent};

/// The token of agents whose keys are changed by command.
pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef\n";

/// Key files of a test, in a directory of their own.
pub(crate) struct Files(TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Has the command line make a key, in a file of this name.
    pub(crate) fn generate(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        support::generate_key(&path);
        path
    }

    /// Copies a key file, as an operator does.
    pub(crate) fn copy(&self, from: &Path, name: &str) -> PathBuf {
        let to = self.path(name);
        std::fs::copy(from, &to).expect("copied");
        to
    }
}

/// Starts an agent with these keys; beside them there is a token, without which nobody changes them.
pub(crate) fn start(name: &str, seeds: &[&str], keys: &Path, more: &[&str]) -> Agent {
    let token = keys.with_extension("token");
    std::fs::write(&token, TOKEN).expect("written");
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).expect("changed");
    let keys = keys.to_str().expect("a text");
    let arguments = [&["--key-file", keys], more].concat();
    Agent::start_asking(name, seeds, Some(&token), &arguments)
}

/// A cluster of three, each with a key file of its own that holds one key.
pub(crate) fn three(files: &Files) -> [Agent; 3] {
    let key = files.generate("cluster.key");
    let file = |name: &str| files.copy(&key, name);
    let bind = ["--bind", &support::own_address()];
    let a = start("a", &[], &file("a"), &bind);
    let b = start("b", &[&a.gossip], &file("b"), &bind);
    let c = start("c", &[&a.gossip], &file("c"), &bind);
    for agent in [&a, &b, &c] {
        agent.wait_for_up(&["a", "b", "c"]);
    }
    [a, b, c]
}

pub(crate) fn address(agent: &Agent) -> SocketAddr {
    agent.gossip.parse().expect("an address")
}

pub(crate) fn dropped(agent: &Agent, reason: &str) -> f64 {
    agent.metric(&format!("headcount_dropped_total{{reason=\"{reason}\"}}"))
}

pub(crate) fn logged(agent: &Agent, text: &str) {
    agent.wait_for_log(text);
}

/// The keys as an agent lists them, by id: where each seals, and who holds it.
pub(crate) fn keys(agent: &Agent) -> Vec<(String, Vec<String>, Vec<String>)> {
    let (status, text) = agent.client(&["keys", "list", "--format", "json"]);
    assert!(status.success(), "{text}\n{}", agent.log());
    let keys: Value = serde_json::from_str(&text).expect("json");
    let names = |names: &Value| -> Vec<String> {
        names.as_array().expect("a list").iter().map(|name| name.as_str().expect("a name").to_owned()).collect()
    };
    let key =
        |key: &Value| (key["id"].as_str().expect("an id").to_owned(), names(&key["sealing"]), names(&key["held_by"]));
    keys["keys"].as_array().expect("a list").iter().map(key).collect()
}

/// The only key that all of these hold and seal with.
pub(crate) fn only_key(agent: &Agent, names: &[&str]) -> String {
    let keys = keys(agent);
    let [(id, sealing, held_by)] = keys.as_slice() else { panic!("one key: {keys:?}") };
    assert!(sealing == names && held_by == names, "{keys:?}");
    id.clone()
}

/// The key beside this one.
pub(crate) fn other_key(agent: &Agent, old: &str) -> String {
    keys(agent).into_iter().map(|(id, ..)| id).find(|id| id != old).expect("another key")
}
