//! From a broken link to a verdict: a process that died is reported within a second, in every profile.
//!
//! ```text
//! link broke ─▶ opened again at once ──connected──▶ nothing happened
//!                    │ refused  (as the first link to a newcomer may be, too)
//!                    ▼
//!      three probes, and at each "I cannot reach it" to the other observers
//!                    │                          ├── heard by anybody since the refusal ──▶ it lives; looked into again
//!                    │ none answered                                                      twice, a moment later
//!                    ▼
//!      sure ── and a second observer is sure, or there is no other ──▶ Suspect, and at once Down (`connection_lost`)
//! ```
//!
//! Each step needs positive evidence: a connection that breaks is no verdict, nor is one that cannot be opened because
//! nobody answers (a firewall does that), and a refused one is none alone (a proxy that died refuses for a living node,
//! whose datagrams then refute it).
//!
//! Invariants:
//! - Only an observer that was refused itself, and whose own probes stayed unanswered, may pronounce.
//! - An observer that is alone has nobody to ask, and probes longer.
//! - One packet of the subject's run that this node, or any member, received after the refusal ends the case.
//! - Silence is judged by the timeouts as always if nothing is decided.
//!
//! Signs of life are compared with the moment of the refusal, not of the break: packets may still have been under way
//! then. And each has to be news: a packet's number above all that were known. On a busy machine the last packets of a
//! dead process are read late, by one observer after the other, and the reports of that arrive later still; but it
//! sends no new ones.
//!
//! | idea | file |
//! |---|---|
//! | the cases, the evidence, the verdict: a machine of its own | `machine` |
//! | the steps that are taken for it | `wiring::judging` |
//!
//! Must not know: how links are opened, or how packets find their way.

mod machine;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

pub(crate) use machine::{Audience, CrashFacts, CrashStep, Crashes, Observer};

use super::DetectorFacts;
use crate::member::Status;
use crate::view::Slot;

impl DetectorFacts<'_> {
    /// Returns what a case is decided by.
    pub(crate) fn crash_facts(&self, crashes: &Crashes, subject: Slot) -> CrashFacts {
        let observer = |slot: &Slot| {
            let entry = self.view.entry(*slot);
            Observer { run: entry.record.run, is_suspect: entry.status == Status::Suspect }
        };
        let others = if crashes.is_decided_next(self.view.record(subject).run) {
            let observers = self.observers.observers_of(self.view, subject);
            let unresponsive = self.observers.walk.unresponsive().iter().filter(|slot| **slot != subject);
            observers.iter().chain(unresponsive).map(observer).collect()
        } else {
            Vec::new()
        };
        let gap = self.patience_with(std::iter::once(subject));
        CrashFacts { gap, is_walking: self.observers.walk.is_on(), others }
    }
}
