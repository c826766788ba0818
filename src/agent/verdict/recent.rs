//! The recent past: what a verdict needs and no figure of the present tells.
//!
//! Invariant: it is written by the driver, at most once in [`INTERVAL`], and has a bound.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use super::Reason;
use crate::core::{Counters, DropReason, Time};
use crate::lease::LeaseName;
use crate::seal::SealError;

/// The time between two notes.
const INTERVAL: Duration = Duration::from_secs(1);
/// The time between two tallies that are kept.
const TALLY_INTERVAL: Duration = Duration::from_secs(5);
/// The time for which they are kept.
const WINDOW: Duration = Duration::from_secs(60);

/// Counts of packets, since the start.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    pub(super) received: u64,
    pub(super) overflows: u64,
    /// By reason: those of the core, then those of seals.
    pub(super) dropped: [u64; DropReason::ALL.len() + SealError::COUNT],
}

impl Tally {
    pub(crate) fn new(counters: &Counters, seals: [u64; SealError::COUNT], overflows: u64) -> Self {
        let mut dropped = DropReason::ALL.into_iter().map(|reason| counters.dropped(reason)).chain(seals);
        let dropped = std::array::from_fn(|_| dropped.next().unwrap_or_default());
        Self { received: counters.packets_received, overflows, dropped }
    }
}

/// The memory.
#[derive(Default)]
pub(crate) struct Recent {
    notes: Mutex<Notes>,
    outside: OnceLock<Box<dyn Fn() -> Vec<Reason> + Send + Sync>>,
}

#[derive(Debug, Default)]
struct Notes {
    noted: Option<Time>,
    tallies: VecDeque<(Time, Tally)>,
    /// The leaderships that nobody has, each since when.
    vacant: BTreeMap<LeaseName, Time>,
}

impl Past {
    /// Returns the time for which nobody has had this leadership.
    pub(super) fn vacant_for(&self, lease: &LeaseName) -> Duration {
        self.vacant.get(lease).map_or(Duration::ZERO, |since| self.now.since(*since))
    }
}

/// The recent past as of one moment.
#[derive(Debug)]
pub(super) struct Past {
    /// The counts of a minute ago; none, if the agent is younger.
    pub(super) before: Tally,
    vacant: BTreeMap<LeaseName, Time>,
    now: Time,
}

impl Recent {
    fn notes(&self) -> std::sync::MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how things are, if that is due: the leaderships that nobody has, and counts.
    pub(crate) fn note(&self, now: Time, vacant: impl FnOnce() -> Vec<LeaseName>, tally: impl FnOnce() -> Tally) {
        let mut notes = self.notes();
        if notes.noted.is_some_and(|noted| now.since(noted) < INTERVAL) {
            return;
        }
        notes.noted = Some(now);
        let since = |notes: &Notes, lease: &LeaseName| notes.vacant.get(lease).copied().unwrap_or(now);
        notes.vacant = vacant().into_iter().map(|lease| (lease.clone(), since(&notes, &lease))).collect();
        if notes.tallies.back().is_none_or(|(at, _)| now.since(*at) >= TALLY_INTERVAL) {
            // The newest of those that are old enough is kept: counts are compared with it.
            while notes.tallies.get(1).is_some_and(|(at, _)| now.since(*at) >= WINDOW) {
                notes.tallies.pop_front();
            }
            notes.tallies.push_back((now, tally()));
        }
    }

    pub(super) fn at(&self, now: Time) -> Past {
        let notes = self.notes();
        let old = notes.tallies.iter().rev().find(|(at, _)| now.since(*at) >= WINDOW);
        Past { before: old.map(|(_, tally)| tally.clone()).unwrap_or_default(), vacant: notes.vacant.clone(), now }
    }

    #[cfg(feature = "agent")]
    pub(super) fn also_judged_by(&self, judge: Box<dyn Fn() -> Vec<Reason> + Send + Sync>) {
        let _ = self.outside.set(judge);
    }

    pub(super) fn outside(&self) -> Vec<Reason> {
        self.outside.get().map(|judge| judge()).unwrap_or_default()
    }
}

impl fmt::Debug for Recent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recent").field("notes", &self.notes).finish_non_exhaustive()
    }
}
