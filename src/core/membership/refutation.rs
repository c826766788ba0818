//! Refutation: what others hold this node for, and its answer, an incarnation above theirs (SWIM, section 4.2).
//!
//! Invariants:
//! - Only an accusation at an incarnation that is plausible is refuted, and each incarnation once.
//! - A removal is not refuted on one member's word (see `removal`).
//!
//! Must not know: who accuses, beyond whether its word counts.

use std::time::Duration;

use crate::core::counters::DropReason;
use crate::core::doors::{Notice, SelfDoubt};
use crate::core::member::{LeaveReason, Record, Run, Status};
use crate::core::view::Slot;
use crate::core::wire::Note;
use crate::core::{Core, Phase};

impl Core {
    /// Handles the report that others hold this node as `status`, and last heard it so long ago; `by` is the member
    /// that sent it, if it is known. Returns true if our own record is the right answer.
    pub(in crate::core) fn told(
        &mut self,
        by: Option<Slot>,
        run: Run,
        (incarnation, status): (u64, Status),
        age: Duration,
    ) -> bool {
        if run != self.run {
            // Meant for the process that had this address before.
            self.counters.drop(DropReason::Unasked);
            return false;
        }
        if status == Status::Left(LeaveReason::Forced) {
            self.told_removed(by, incarnation);
            return false;
        }
        let mine = self.me();
        if (incarnation, status) <= (mine.incarnation, mine.status) {
            return true;
        }
        if !self.is_plausible(incarnation) {
            self.counters.drop(DropReason::Implausible);
            return false;
        }
        match self.phase {
            // An incarnation that is raised already, and only waits for the disk, is refuted once.
            Phase::Joining(_) | Phase::Up if self.incarnation.covers(incarnation) => return false,
            Phase::Joining(_) | Phase::Up => {
                // Silence observed by others is evidence, their word is not: a newcomer that accuses this node must not
                // make it slow to accuse others, nor must a member that passes that on and hears this node well.
                let is_accusation = matches!(status, Status::Suspect | Status::Down);
                let is_unheard = age >= self.settings.suspect_timeout;
                if is_accusation && is_unheard && by.is_some_and(|by| self.is_elder(by)) {
                    self.doubt_myself(SelfDoubt::Refuted);
                }
                self.refute(incarnation);
            }
            Phase::Leaving => self.announce_left(incarnation),
            Phase::Stopped => return false,
        }
        true
    }

    /// Raises the incarnation above one at which others hold this node as something else.
    pub(super) fn refute(&mut self, incarnation: u64) {
        self.counters.refutations += 1;
        self.raise_incarnation(incarnation + 1);
        self.notice("refuted", Notice::Refuted { incarnation: incarnation + 1 });
    }

    /// Handles a record of this node's own name; `from` is the member that sent it, if it is known.
    pub(super) fn hear_of_myself(&mut self, record: &Record, note: Option<Note>, from: Option<Slot>) {
        let mine = self.me();
        if record.run == mine.run {
            let is_forced = record.status == Status::Left(LeaveReason::Forced);
            if is_forced || record.supersedes(mine) {
                let age = note.map_or(Duration::ZERO, Note::age);
                self.told(from, record.run, (record.incarnation, record.status), age);
            }
            return;
        }
        if !record.supersedes(mine) {
            return;
        }
        let is_live = matches!(record.status, Status::Up | Status::Suspect | Status::Leaving);
        let is_elsewhere = record.address != mine.address;
        if is_live && is_elsewhere && !matches!(self.phase, Phase::Joining(_)) {
            // The name may have lived on both sides of a cut, or another node lies.
            return self.hear_of_rival(record);
        }
        // A report that an earlier run of ours is dead, or that run's last record from this very address.
        self.exceed_earlier_run(record.incarnation);
    }
}
