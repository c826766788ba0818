//! [`Telemetry`]: what a node measures of its peers, for programs in the same process.
//!
//! Invariant: reading it never asks the driver. The histograms are those that `/metrics` shows; what is known of single
//! peers is shown there only if that is asked for (`metrics.per_member`), since labels of metrics have to be few.
//!
//! Must not know: forms of export.

use std::time::Duration;

use super::Agent;
use crate::core::{Counters, DetectionMethod, Histogram, NodeId};

/// The round trips, heartbeat ages and detection latency that a node measures.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Telemetry {
    /// The other live members that were heard, sorted by name.
    pub peers: Vec<Peer>,
    /// The age of the last sign of life of the observed member that has been silent for longest; `None` if this node
    /// observes nobody.
    pub oldest_heartbeat: Option<Duration>,
    /// All round trips measured since the start: at most one for each packet sent.
    pub round_trips: Histogram,
    /// The age that the last sign of life of an observed member had reached when the next one came, since the start.
    pub heartbeat_ages: Histogram,
    counters: Counters,
}

/// The measurements of one peer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peer {
    /// The member's name.
    pub id: NodeId,
    /// The smoothed round-trip time; `None` if it was not measured yet.
    pub round_trip: Option<Duration>,
    /// The time since its last packet.
    pub heartbeat_age: Duration,
    /// True if this node observed it at its last packet. Others are heard by chance, and their age means nothing.
    pub is_observed: bool,
}

impl Telemetry {
    /// Returns the times from the last sign of life of a member to its being held as Down here, whoever found it out, for
    /// each method by which that is found out after a silence.
    pub fn detection_latency(&self) -> impl Iterator<Item = (DetectionMethod, &Histogram)> {
        self.counters.detection_latency()
    }
}

impl Agent {
    /// Returns what this node measures of its peers: the figures behind `/metrics`, and those of each peer.
    ///
    /// ```
    /// # use headcount::{Agent, Config, Profile};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let mut config = Config::new("a")?.with_profile(Profile::Local);
    /// # config.bind = Some("127.0.0.1:0".parse()?);
    /// # let agent = Agent::start(config).await?;
    /// for peer in agent.telemetry().peers {
    ///     println!("{}: heard {:?} ago, round trip {:?}", peer.id, peer.heartbeat_age, peer.round_trip);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn telemetry(&self) -> Telemetry {
        let shared = &self.inner.shared;
        let figures = shared.figures();
        Telemetry {
            peers: shared.directory().peers(),
            oldest_heartbeat: figures.oldest_sign.map(|sign| shared.clock.now().since(sign)),
            round_trips: figures.counters.round_trips.clone(),
            heartbeat_ages: figures.counters.heartbeat_ages.clone(),
            counters: figures.counters,
        }
    }
}

#[cfg(all(test, feature = "metrics"))]
mod tests {
    use std::time::SystemTime;

    use prometheus_client::registry::Registry;

    use super::*;
    use crate::agent::directory::Sign;
    use crate::agent::directory::tests::{name, record};
    use crate::core::{Change, Profile, Status};
    use crate::metrics::AgentCollector;
    use crate::{Agent, Config};

    async fn agent() -> Agent {
        named("me").await
    }

    async fn named(name: &str) -> Agent {
        let config = Config::new(name).expect("a name").with_profile(Profile::Local);
        Agent::start(config.with_bind("127.0.0.1:0".parse().expect("an address"))).await.expect("started")
    }

    /// Has the agent list a member that it has heard. (Its core knows nothing of it.)
    fn list(agent: &Agent, place: u64) {
        let shared = &agent.inner.shared;
        let record = record(&format!("n{place:04}"), place + 2, 1, Status::Up);
        for change in Change::between(None, &record, None) {
            shared.publish(&change, SystemTime::now());
        }
        let sign = Sign {
            rtt: Some(Duration::from_millis(place)),
            fingerprint: Some(place),
            is_observed: true,
            ..Sign::default()
        };
        shared.directory().heard(&record.id, shared.clock.now(), sign);
    }

    fn series(agent: &Agent) -> Vec<String> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(agent.collector()));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.filter_map(|line| line.rsplit_once(' ')).map(|(series, _)| series.to_owned()).collect()
    }

    #[tokio::test]
    async fn a_thousand_members_have_no_more_series_than_one() {
        let agent = agent().await;
        let alone = series(&agent);
        for place in 0..1_000 {
            list(&agent, place);
        }
        assert_eq!(agent.info().members[Status::Up.index()], 1_001);
        assert_eq!(series(&agent), alone);
        assert!(alone.len() < 300, "{} series", alone.len());
        let peers = agent.telemetry().peers;
        assert_eq!((peers.len(), &peers[7].id), (1_000, &name("n0007")));
        assert_eq!((peers[7].round_trip, peers[7].is_observed), (Some(Duration::from_millis(7)), true));
    }

    #[tokio::test]
    async fn agents_of_one_process_share_the_description_of_each_metric() {
        let (one, other) = (agent().await, named("you").await);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(AgentCollector::of([&one, &other])));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
        let described: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE ")).collect();
        assert_eq!(described.len(), described.iter().collect::<std::collections::BTreeSet<_>>().len());
        let own = |agent: &Agent| series(agent).len();
        let of_all: Vec<&str> = text.lines().filter(|line| line.contains("cluster=\"headcount\",node=\"")).collect();
        assert_eq!(of_all.len(), own(&one) + own(&other));
        for node in ["me", "you"] {
            let series = format!("headcount_members{{cluster=\"headcount\",node=\"{node}\",status=\"up\"}} ");
            assert_eq!(text.matches(&series).count(), 1, "{text}");
        }
    }

    #[tokio::test]
    async fn a_registry_does_not_keep_its_agent_running() {
        let agent = agent().await;
        let mut registry = Registry::default();
        registry.register_collector(Box::new(agent.collector()));
        drop(agent);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
        assert_eq!(text, "# EOF\n");
    }

    #[tokio::test]
    async fn lines_lost_outside_of_the_agents_are_counted_once() {
        let (one, other) = (agent().await, named("you").await);
        let mut registry = Registry::default();
        let lost = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(3));
        registry.register_collector(Box::new(AgentCollector::of([&one, &other]).counting_log_lines(lost)));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
        let lines = text.lines().filter(|line| line.starts_with("headcount_log_lines_lost_total"));
        assert_eq!(lines.map(|line| line.rsplit_once(' ').expect("a value").1).collect::<Vec<_>>(), ["3", "0"]);
    }
}
