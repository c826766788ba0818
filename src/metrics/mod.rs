//! Metrics for Prometheus: an agent's figures as a [`Collector`], for `/metrics` and for registries of programs.
//!
//! ```
//! # use headcount::{Agent, Config, Profile};
//! use prometheus_client::registry::Registry;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let mut config = Config::new("a")?.with_profile(Profile::Local);
//! # config.bind = Some("127.0.0.1:0".parse()?);
//! # let agent = Agent::start(config).await?;
//! let mut registry = Registry::default();
//! registry.register_collector(Box::new(agent.collector()));
//! let mut text = String::new();
//! prometheus_client::encoding::text::encode(&mut text, &registry)?;
//! assert!(text.contains("headcount_members{status=\"up\"} 1"));
//! # Ok(())
//! # }
//! ```
//!
//! Several agents of one process go into one collector, [`AgentCollector::of`].
//!
//! [`metrics_reference`](crate::metrics_reference) says what each metric means; [`Agent::telemetry`] has the figures of single peers.
//!
//! Invariants:
//! - Every metric is read from the agent's published figures at the moment of the scrape; nothing is counted twice or kept
//!   here.
//! - Names start with `headcount_` and carry their unit. Labels have few values: all known beforehand, or with a named
//!   bound; none is a member, but for the agents of this process. So the number of series does not depend on the size of the cluster.
//!
//! Must not know: HTTP.

// | idea | file |
// |---|---|
// | membership, detection, traffic, messages, leadership | `figures` |
// | leases in a database | `leases` |
// | counters, gauges, families, histograms | `shapes` |

mod figures;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod leases;
pub(crate) mod shapes;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use self::shapes::Families;
use crate::agent::{Agent, WeakAgent};

/// The metrics of agents, read whenever they are encoded: of one ([`Agent::collector`]), or of several of one process
/// ([`AgentCollector::of`]). It does not keep agents running, and shows nothing of one whose last handle is gone.
#[derive(Debug, Clone)]
pub struct AgentCollector {
    agents: Vec<WeakAgent>,
    /// True if labels say which agent a value is of.
    is_labelled: bool,
    /// The number of log lines lost outside of the agents.
    log_lines_lost: Arc<AtomicU64>,
}

impl Agent {
    /// Returns this agent's metrics, to be registered in a registry of `prometheus-client`. Names begin with `headcount_`.
    ///
    /// A registry describes a metric once for each collector, so it takes this of one agent. Of several, it takes
    /// [`AgentCollector::of`].
    pub fn collector(&self) -> AgentCollector {
        AgentCollector { agents: vec![self.downgrade()], is_labelled: false, log_lines_lost: Arc::default() }
    }
}

impl AgentCollector {
    /// Returns the metrics of several agents of one process: every value has the labels `cluster` and `node`.
    pub fn of<'a>(agents: impl IntoIterator<Item = &'a Agent>) -> Self {
        let agents = agents.into_iter().map(Agent::downgrade).collect();
        Self { agents, is_labelled: true, log_lines_lost: Arc::default() }
    }

    /// Adds log lines that are lost outside of the agents, by the writer of the process's log: to the first agent's own.
    #[must_use]
    pub fn counting_log_lines(mut self, lost: Arc<AtomicU64>) -> Self {
        self.log_lines_lost = lost;
        self
    }
}

impl Collector for AgentCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families::default();
        let mut log_lines_lost = self.log_lines_lost.load(Ordering::Relaxed);
        for agent in self.agents.iter().filter_map(WeakAgent::upgrade) {
            let mut info = agent.info();
            info.log_lines_lost += std::mem::take(&mut log_lines_lost);
            if self.is_labelled {
                families.label(vec![("cluster", info.cluster.to_string()), ("node", info.me.id.to_string())]);
            }
            figures::encode(&mut families, &agent, &info);
            #[cfg(any(feature = "sqlite", feature = "postgres"))]
            leases::encode(&mut families, &agent, &info);
        }
        families.encode(&mut encoder)
    }
}
