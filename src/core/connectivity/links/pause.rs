//! Pauses: how long a link waits for its next step. Most are spread by a random number, which whoever drives the
//! machine draws: the machine itself has none.
//!
//! Must not know: what is waited for.

use std::time::Duration;

use crate::limits::{
    LINK_BACKOFF, LINK_COURTESY, LINK_FIRST_PAUSE, LINK_MESH_SETTLE, LINK_NEWCOMER_COURTESY, LINK_SETTLE,
    MAX_LINK_BACKOFF,
};

/// The time until the next step of a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pause {
    /// This long, always.
    Exact(Duration),
    /// `after`, and so many times `unit`: `from`, and a random part of `spread` more.
    Spread { after: Duration, unit: Duration, from: f64, spread: f64 },
}

impl Pause {
    fn spread(unit: Duration, from: f64, spread: f64) -> Self {
        Self::Spread { after: Duration::ZERO, unit, from, spread }
    }

    /// Returns the pause before this node, which is newly Up, opens: its neighbours are all there already.
    pub(crate) fn at_first() -> Self {
        Self::spread(LINK_FIRST_PAUSE, 1.0, 1.0)
    }

    /// Returns the pause before this node opens a link to a neighbour that stays one.
    pub(crate) fn for_good() -> Self {
        Self::spread(LINK_MESH_SETTLE, 0.0, 1.0)
    }

    /// Returns the pause before this node opens a link to a neighbour that the next joiner may displace.
    pub(crate) fn settling() -> Self {
        Self::spread(LINK_SETTLE, 0.0, 1.0)
    }

    /// Returns the time that a newcomer has to open the link itself.
    pub(crate) fn for_newcomer() -> Self {
        Self::spread(LINK_NEWCOMER_COURTESY, 1.0, 0.5)
    }

    /// Returns the time that the other end has to open the link itself.
    pub(crate) fn courtesy() -> Self {
        Self::Spread { after: LINK_COURTESY, unit: LINK_SETTLE, from: 0.0, spread: 1.0 }
    }

    /// Returns no pause at all. It is drawn like the others, so that whatever comes next has the same random number.
    pub(crate) fn none() -> Self {
        Self::spread(Duration::ZERO, 0.0, 1.0)
    }

    /// Returns the pause after so many attempts that failed: it doubles, and is spread, so that a node that comes back is
    /// not stormed.
    pub(crate) fn after_failures(failures: u32) -> Self {
        Self::spread(doubled(LINK_BACKOFF, failures.saturating_sub(1)), 0.5, 1.0)
    }

    /// Returns the time that this pause takes with this random share, at least 0 and below 1, which is drawn only if it matters.
    pub(crate) fn with(self, share: impl FnOnce() -> f64) -> Duration {
        match self {
            Self::Exact(pause) => pause,
            Self::Spread { after, unit, from, spread } => after + unit.mul_f64(from + share() * spread),
        }
    }
}

/// Returns a pause that was doubled so often, up to the longest there is.
fn doubled(pause: Duration, times: u32) -> Duration {
    (pause * 2_u32.saturating_pow(times.min(16))).min(MAX_LINK_BACKOFF)
}
