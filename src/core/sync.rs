//! Repair: what flooding and gossip missed is noticed by fingerprints that stay different.
//!
//! When a live peer's fingerprint still differs at a gossip tick, and the view stood still for [`SYNC_QUIET`] or has
//! differed for [`SYNC_PATIENCE`], this node pulls the peer's records and merges them; the peer does the same for its
//! side. What is learnt that way spreads like any other news.

use super::limits::{SYNC_BACKOFF, SYNC_INTERVAL, SYNC_PATIENCE, SYNC_QUIET};
use super::peer::is_due;
use super::time::Time;
use super::view::Slot;
use super::{Core, Phase, Run};

/// Who was last seen with another view.
#[derive(Debug, Default)]
pub(super) struct Disagreement {
    with: Option<(Run, Time)>,
    last_sync: Option<Time>,
    /// Our and their fingerprint when the present or last repair began.
    began: (u64, u64),
    /// The two fingerprints of a repair that ended without a change, and when: the difference is a record that one side
    /// has reaped, say, and another repair would merge nothing either.
    fruitless: Option<((u64, u64), Time)>,
}

impl Core {
    /// Compares a peer's fingerprint with ours; says whether they differ.
    pub(super) fn compare(&mut self, slot: Slot, fingerprint: u64) -> bool {
        let run = self.view.record(slot).run;
        let differs = fingerprint != self.view.fingerprint();
        match self.disagreement.with {
            Some((with, since)) if differs && with != run => self.disagreement.with = Some((run, since)),
            None if differs => self.disagreement.with = Some((run, self.now)),
            Some((with, _)) if !differs && with == run => self.disagreement.with = None,
            _ => {}
        }
        differs
    }

    /// At a gossip tick: begins a repair if the peer last seen with another view still has it.
    pub(super) fn repair(&mut self) {
        let Some((run, since)) = self.disagreement.with else { return };
        let Some(slot) = self.view.slot_of_run(run).filter(|slot| self.view.record(*slot).status.is_live()) else {
            self.disagreement.with = None;
            return;
        };
        let session = self.view.entry(slot).peer.session.as_ref();
        let ours = self.view.fingerprint();
        let Some(theirs) = session.map(|session| session.fingerprint).filter(|theirs| *theirs != ours) else {
            self.disagreement.with = None;
            return;
        };
        let is_fruitless = self
            .disagreement
            .fruitless
            .is_some_and(|(pair, at)| pair == (ours, theirs) && self.now.since(at) < SYNC_BACKOFF);
        let is_quiet = self.now.since(self.changed_at) >= SYNC_QUIET;
        let is_late = self.now.since(since) >= SYNC_PATIENCE;
        let may_sync = is_due(self.now, self.disagreement.last_sync, SYNC_INTERVAL) && self.transfer.is_none();
        if may_sync && !is_fruitless && (is_quiet || is_late) && matches!(self.phase, Phase::Up) {
            self.disagreement.with = None;
            self.disagreement.last_sync = Some(self.now);
            self.disagreement.began = (ours, theirs);
            self.counters.syncs += 1;
            let address = self.view.record(slot).address;
            self.pull_from(address, run);
        }
    }

    /// A repair has ended: if it changed nothing, the next one with the same two views waits.
    pub(super) fn repaired(&mut self) {
        let began = self.disagreement.began;
        if began.0 == self.view.fingerprint() {
            self.disagreement.fruitless = Some((began, self.now));
        }
    }
}
