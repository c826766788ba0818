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
//! [`operations`](crate::operations) says what each metric means; [`Agent::telemetry`] has the figures of single peers.
//!
//! Invariants:
//! - Every metric is read from the agent's published figures at the moment of the scrape; nothing is counted twice or kept
//!   here.
//! - Names start with `headcount_` and carry their unit. Labels have few values: all known beforehand, or with a named
//!   bound; none is a member. So the number of series does not depend on the size of the cluster.
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

use crate::agent::{Agent, WeakAgent};

/// The metrics of one agent, read whenever they are encoded. It does not keep the agent running, and shows nothing once
/// the last handle is gone.
#[derive(Debug, Clone)]
pub struct AgentCollector {
    agent: WeakAgent,
    /// The number of log lines lost outside of the agent.
    log_lines_lost: Arc<AtomicU64>,
}

impl Agent {
    /// Returns this agent's metrics, to be registered in a registry of `prometheus-client`. Names begin with `headcount_`.
    pub fn collector(&self) -> AgentCollector {
        AgentCollector { agent: self.downgrade(), log_lines_lost: Arc::default() }
    }
}

impl AgentCollector {
    /// Adds log lines that are lost outside of the agent, by the writer of the process's log.
    #[must_use]
    pub fn counting_log_lines(mut self, lost: Arc<AtomicU64>) -> Self {
        self.log_lines_lost = lost;
        self
    }
}

impl Collector for AgentCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(agent) = self.agent.upgrade() else { return Ok(()) };
        let mut info = agent.info();
        info.log_lines_lost += self.log_lines_lost.load(Ordering::Relaxed);
        figures::encode(&mut encoder, &agent, &info)?;
        #[cfg(any(feature = "sqlite", feature = "postgres"))]
        leases::encode(&mut encoder, &agent, &info)?;
        Ok(())
    }
}
