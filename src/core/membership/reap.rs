//! Reaping: Down and Left records are forgotten at age `reap_after`, everywhere at the same age, since their ages
//! travel with them. A tombstone stays as long again, so that a late copy is not merged as a new member.
//!
//! Invariants: nobody is forgotten who is neither Down nor Left; a tombstone outlives the records that it covers.
//!
//! Must not know: why a member is gone.

use super::settle::{Cause, Transition};
use crate::Core;
use crate::limits::MAX_GONE;
use crate::member::{LeaveReason, Status};
use crate::time::Time;
use crate::view::{Slot, View};

impl Core {
    /// Forgets those that are gone the longest, before their time, if there are more than [`MAX_GONE`] and than four for each
    /// member of the largest cluster that this node has seen: a process that crashes again and again under fresh names fills
    /// nobody's memory, and the far side of a cut is not forgotten. Nor is a removal, which its subject may not know yet.
    pub(crate) fn reap_the_longest_gone(&mut self) {
        let live = self.view.live().len() + 1;
        let most = MAX_GONE.max(4 * self.arrivals.note_live(live));
        if self.view.len() - live <= most {
            return;
        }
        let is_spare = |status: Status| !status.is_live() && status != Status::Left(LeaveReason::Forced);
        let gone = self.view.iter().filter(|(slot, entry)| *slot != View::ME && is_spare(entry.status));
        let mut gone: Vec<(Time, Slot)> = gone.map(|(slot, entry)| (entry.peer.last_sign(), slot)).collect();
        let spare = gone.len().saturating_sub(most);
        if spare < gone.len() {
            gone.select_nth_unstable(spare);
        }
        for (_, slot) in gone.into_iter().take(spare) {
            self.reap(slot);
        }
    }

    /// Removes a member from the view for good.
    pub(crate) fn reap(&mut self, slot: Slot) {
        self.tombstones.insert(self.cx.now, self.view.record(slot));
        self.drop_from_view(slot);
    }

    /// Removes a member from the view, and nothing prevents that it is met again.
    pub(crate) fn drop_from_view(&mut self, slot: Slot) {
        let held = self.view.remove(slot);
        self.settle(Transition { slot, before: Some(held), listed: None, method: None, cause: Cause::Own });
    }
}
