//! Conditions of the network: latency and losses, as figures.
//!
//! Must not know: which datagram meets them.

use std::time::Duration;

use super::Nanos;
use crate::random::{Random, nanos};

/// One-way latency: `base`, plus up to `jitter`, uniformly; one datagram in a hundred takes up to ten jitters more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latency {
    /// The minimum.
    pub base: Duration,
    /// The largest addition for datagrams that are not stragglers.
    pub jitter: Duration,
}

impl Latency {
    /// One in this many datagrams is a straggler.
    const STRAGGLERS: u64 = 100;

    /// Draws the latency of one datagram.
    pub(super) fn draw(&self, random: &mut Random) -> Nanos {
        let jitter = nanos(self.jitter);
        let mut latency = nanos(self.base).saturating_add(random.below(jitter.saturating_add(1)));
        if jitter > 0 && random.below(Self::STRAGGLERS) == 0 {
            latency = latency.saturating_add(random.below(jitter.saturating_mul(10)));
        }
        latency
    }
}

/// Bursty loss (Gilbert–Elliott): each link, from one node to another, is in a good or a bad state, drawn anew with
/// every datagram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// Chance that a good state turns bad.
    pub begin: f64,
    /// Chance that a bad state turns good.
    pub end: f64,
    /// Chance that a datagram is lost in the bad state.
    pub loss: f64,
}

/// Conditions of the whole network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conditions {
    /// One-way latency of datagrams.
    pub latency: Latency,
    /// Chance that a datagram is lost, independently of all others.
    pub loss: f64,
    /// Bursty loss.
    pub burst: Option<Burst>,
    /// Chance that a datagram arrives twice.
    pub duplicate: f64,
    /// Chance that one to three bytes of a datagram arrive changed.
    pub corrupt: f64,
    /// Datagrams that are delayed for very long, as if they lay in some queue.
    pub late: Option<Late>,
}

/// Datagrams that arrive long after they were sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Late {
    /// Chance that a datagram is late.
    pub chance: f64,
    /// The longest additional delay.
    pub most: Duration,
}

impl Default for Conditions {
    /// Returns the conditions of a quiet local network.
    fn default() -> Self {
        let latency = Latency { base: Duration::from_micros(200), jitter: Duration::from_micros(300) };
        Self { latency, loss: 0.0, burst: None, duplicate: 0.0, corrupt: 0.0, late: None }
    }
}

/// Chances that the datagrams of one node are lost, in addition to the losses that all nodes suffer.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct NodeLoss {
    /// Chance that a datagram from the node is lost.
    pub outgoing: f64,
    /// Chance that a datagram to the node is lost.
    pub incoming: f64,
}
