//! Refutation: what others hold this node for, and its answer, an incarnation above theirs (SWIM, section 4.2).
//!
//! Invariants:
//! - Each incarnation is refuted once.
//! - A removal is obeyed.
//! - A process that reads of itself what it never wrote was copied while it ran, or its memory was set back: it stops, since
//!   two that raise above each other would never end, and its sequence numbers would be used twice.
//!
//! Must not know: who accuses.

use std::time::Duration;

use crate::Core;
use crate::context::Phase;
use crate::counters::DropReason;
use crate::doors::{Notice, SelfDoubt, StopReason};
use crate::member::{LeaveReason, Record, Run, Status};
use crate::wire::Note;

impl Core {
    /// Handles the report that others hold this node as `status`, and last heard it so long ago. Returns true if
    /// our own record is the right answer.
    pub(crate) fn on_held_status(&mut self, run: Run, (incarnation, status): (u64, Status), age: Duration) -> bool {
        if run != self.cx.run {
            // Meant for the process that had this address before.
            self.cx.counters.drop(DropReason::Unasked);
            return false;
        }
        if status == Status::Left(LeaveReason::Forced) {
            self.obey();
            return false;
        }
        let mine = self.me();
        if (incarnation, status) <= (mine.incarnation, mine.status) {
            return true;
        }
        if self.is_of_a_copy(incarnation, status) {
            self.stop(StopReason::SetBack);
            return false;
        }
        match self.cx.phase {
            // An incarnation that is raised already, and only waits for the disk, is refuted once.
            Phase::Joining | Phase::Up if self.incarnation.covers(incarnation) => return false,
            Phase::Joining | Phase::Up => {
                // Silence that others observed is evidence, not the word of one that hears this node well.
                let is_accusation = matches!(status, Status::Suspect | Status::Down);
                let is_unheard = age >= self.cx.settings.suspect_timeout;
                if is_accusation && is_unheard {
                    self.doubt_myself(SelfDoubt::Refuted);
                }
                self.refute(incarnation);
            }
            Phase::Leaving => self.announce_left(incarnation),
            Phase::Stopped => return false,
        }
        true
    }

    /// Returns true if this was written of this node's run by itself, in another process: others write that a member is silent
    /// or gone, and it alone that it is Up.
    fn is_of_a_copy(&self, incarnation: u64, status: Status) -> bool {
        status == Status::Up && incarnation > self.me().incarnation && self.cx.phase.is_up()
    }

    /// Raises the incarnation above one at which others hold this node as something else.
    pub(super) fn refute(&mut self, incarnation: u64) {
        self.cx.counters.refutations += 1;
        self.raise_incarnation(incarnation + 1);
        self.cx.notice("refuted", Notice::Refuted { incarnation: incarnation + 1 });
    }

    /// Handles a record of this node's own name.
    pub(super) fn hear_of_myself(&mut self, record: &Record, note: Option<Note>) {
        let mine = self.me();
        if record.run == mine.run {
            if self.is_of_a_copy(record.incarnation, record.status) && record.address != mine.address {
                return self.stop(StopReason::Copied { address: record.address });
            }
            let is_forced = record.status == Status::Left(LeaveReason::Forced);
            if is_forced || record.supersedes(mine) {
                let age = note.map_or(Duration::ZERO, Note::age);
                self.on_held_status(record.run, (record.incarnation, record.status), age);
            }
            return;
        }
        if !record.supersedes(mine) {
            return;
        }
        let is_live = matches!(record.status, Status::Up | Status::Suspect | Status::Leaving);
        let is_elsewhere = record.address != mine.address;
        if is_live && is_elsewhere && !self.cx.phase.is_joining() {
            // The name may have lived on both sides of a cut.
            return self.hear_of_rival(record);
        }
        // A report that an earlier run of ours is dead, or that run's last record from this very address.
        self.raise_incarnation(record.incarnation + 1);
    }
}
