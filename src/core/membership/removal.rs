//! Forced removals: what a removal of one run does, to whom it concerns and to whom holds it.
//!
//! A removal is a record like any other, believed of any member, and holds for the run: whoever holds it answers any later
//! record of that run, which had raised its incarnation before it was told, or was found dead elsewhere, by the same removal at
//! that incarnation. The removed process stops at the first word of it. A later run of the name is free.
//!
//! (Precedence cannot do this: if a removal beat any incarnation of its run, three records of one name could beat each other in
//! a circle.)
//!
//! Must not know: the reason for a removal.

use std::sync::Arc;

use crate::Core;
use crate::doors::Notice;
use crate::member::{LeaveReason, Record, Status};
use crate::view::Slot;

impl Core {
    /// Removes a removed run again, at the incarnation that it has raised meanwhile.
    pub(super) fn remove_again(&mut self, slot: Slot, record: &Record) {
        let record = Arc::new(record.with_status(Status::Left(LeaveReason::Forced)));
        let hash = record.hash();
        self.supersede(slot, record, hash, None, None);
    }

    /// Tells who removed a live member, and the member itself.
    pub(super) fn note_removal(&mut self, slot: Slot, was_live: bool, from: Option<Slot>) {
        if let Some(from) = from.filter(|_| was_live) {
            let (id, by) = (self.view.record(slot).id.clone(), self.view.record(from).id.clone());
            self.cx.notice("member removed", Notice::MemberRemoved { id, by });
        }
        if from.is_none() {
            self.view.peer_mut(slot).rare_mut().last_told = None;
            self.tell_evicted(slot);
        }
    }
}
