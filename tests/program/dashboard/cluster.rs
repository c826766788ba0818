//! Agents whose dashboards are looked at.

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Agent, own_address, wait_for};

pub(crate) const THREE: [&str; 3] = ["a", "b", "c"];

/// Three voters, of which one leads.
pub(crate) struct Cluster {
    pub(crate) agents: Vec<Agent>,
    data: TempDir,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let mut cluster = Self { agents: Vec::new(), data: tempfile::tempdir().expect("a directory") };
        let bind = own_address();
        for name in THREE {
            let agent = cluster.start_node(name, &["--bind", &bind]);
            cluster.agents.push(agent);
        }
        for agent in &cluster.agents {
            agent.wait_for_up(&THREE);
        }
        cluster.leader();
        cluster
    }

    /// Starts a node that has the first one as its seed, if that runs.
    pub(crate) fn start_node(&self, name: &str, more: &[&str]) -> Agent {
        let seeds: Vec<_> = self.agents.first().map(|first| first.gossip.as_str()).into_iter().collect();
        let directory = self.data.path().join(name);
        let voters = THREE.join(",");
        let always = ["--data-dir", directory.to_str().expect("text"), "--voters", &voters];
        Agent::start(name, &seeds, &[&always, more].concat())
    }

    /// Waits until the first node knows a leader; its name and the term.
    pub(crate) fn leader(&self) -> (String, u64) {
        wait_for("somebody leads", || {
            let (_, text) = self.agents[0].client(&["leader", "--format", "json"]);
            let seen: Value = serde_json::from_str(&text).ok()?;
            Some((seen["leader"].as_str()?.to_owned(), seen["term"].as_u64()?))
        })
    }
}
