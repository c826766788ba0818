//! Settling: what follows from a change of the table of members, whoever made it, in one order.
//!
//! A change is made in `merging`: another node's word, this node's verdict, its own record, or a record that is forgotten.
//! Everything else hears of it here: nobody keeps a list of its own of what has to be done about it.
//!
//! Must not know: why a record was changed.

use std::sync::Arc;

use crate::Core;
use crate::io::Output;
use crate::member::{Change, ChangeKind, DetectionMethod, LeaveReason, Record, Run, Status};
use crate::membership::accusation::date_accusation;
use crate::timers::Timer;
use crate::view::{Slot, View};

/// A change of the table that was just made.
#[derive(Debug)]
pub(crate) struct Transition {
    /// The member's place, which is free again if it was forgotten.
    pub(crate) slot: Slot,
    /// The record that was held; `None` if the name is new.
    pub(crate) before: Option<Arc<Record>>,
    /// The record as which programs were told of it, if it was listed before it was held: a joiner's.
    pub(crate) listed: Option<Arc<Record>>,
    /// How the member was found out, if it is accused or Down.
    pub(crate) method: Option<DetectionMethod>,
    pub(crate) cause: Cause,
}

/// The origin of a change: whose word it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Another node's: a member's, or a stranger's. This node may have let the member in.
    Told { from: Option<Slot>, is_brought_in: bool },
    /// This node's, about another or about itself; or it forgets a record.
    Own,
}

impl Core {
    /// Settles a change.
    pub(crate) fn settle(&mut self, change: Transition) {
        let Transition { slot, before, listed, method, cause } = change;
        let after = self.view.get(slot).map(|entry| Arc::clone(&entry.record));
        let was_live = before.as_ref().is_some_and(|held| held.status.is_live());
        let is_live = after.as_ref().is_some_and(|held| held.status.is_live());
        // Programs are told.
        match (&before, &after) {
            (_, Some(after)) => {
                let shown = method.filter(|_| matches!(after.status, Status::Suspect | Status::Down));
                self.cx.report(before.as_ref().or(listed.as_ref()), after, shown);
            }
            (Some(held), None) => self.report_forgotten(held),
            (None, None) => {}
        }
        self.gossip.view_changed(self.cx.now);
        if slot != View::ME {
            if after.is_some() {
                date_accusation(self.cx.now, &mut self.view, slot, before.as_deref());
            } else {
                self.forget_slot(slot);
            }
            // The run that is gone or over is linked, asked about and written to no more.
            let over = before.as_ref().filter(|held| after.as_ref().is_none_or(|after| after.run != held.run));
            if let Some(held) = &before
                && (over.is_some() || was_live && !is_live)
            {
                match &after {
                    Some(_) => self.dismiss_gone(slot, held.run),
                    None => self.drop_link(held.run),
                }
                self.process_answers(held.run);
            }
            // Others may observe, and be observed, in its place.
            if was_live != is_live || over.is_some() {
                self.reobserve(slot);
                if before.is_some() && after.is_some() {
                    // It may be observed as before; the link to a new member is planned as it comes to be observed.
                    self.plan_link(slot);
                }
            } else if before
                .as_ref()
                .is_some_and(|held| after.as_ref().is_some_and(|after| after.status != held.status))
            {
                self.doubts_changed(slot);
            }
            if let Some(held) = before.as_ref().filter(|_| over.is_some() || !is_up(after.as_deref())) {
                self.detector.inquiries.forget(held.run);
            }
            if let Some(held) = over {
                self.forget_run(held.run, after.is_none());
            }
        }
        let Some(after) = &after else { return };
        if slot != View::ME {
            self.watch(slot);
            if before.as_ref().is_some_and(|held| held.run == after.run && held.address != after.address) {
                self.follow_by_link(slot);
            }
        }
        self.send_on(slot, cause);
        if let Cause::Told { from, is_brought_in } = cause {
            if is_brought_in && after.status == Status::Up {
                self.lease_updates.teach(&mut outbox!(self), after.address, after.run);
                self.observe_besides(after.run);
            }
            if before.is_some() && after.status == Status::Left(LeaveReason::Forced) {
                self.note_removal(slot, was_live, from);
            }
        }
    }

    /// Tells programs that a member is not listed any more.
    fn report_forgotten(&mut self, held: &Arc<Record>) {
        if held.status.is_live() {
            // A reader that counts live members by joined, left and down must not keep it among them.
            let down = Arc::new(held.with_status(Status::Down));
            self.cx.report(Some(held), &down, Some(DetectionMethod::HeartbeatTimeout));
        }
        let (record, previous) = (Arc::clone(held), Some(Arc::clone(held)));
        self.cx.output(Output::Change(Change { kind: ChangeKind::Removed, record, method: None, previous }));
    }

    /// Forgets a place in everything that remembers places, before the table gives it to somebody else.
    fn forget_slot(&mut self, slot: Slot) {
        self.gossip.forget(slot);
        self.arrivals.forget(slot);
    }

    /// Forgets a run that is over, because another one has its name, or nobody has.
    fn forget_run(&mut self, run: Run, is_forgotten: bool) {
        self.cx.timers.cancel(Timer::Judge(run));
        self.cx.timers.cancel(Timer::Heartbeat(run));
        if is_forgotten {
            self.partition.account_for(&mut self.cx, run, true);
        }
    }

    /// Sends the record on to others, but for a verdict that is withheld, which goes nowhere, and while this node is no member
    /// itself.
    fn send_on(&mut self, slot: Slot, cause: Cause) {
        if self.cx.phase.is_joining() || self.out().is_withheld(slot) {
            return;
        }
        let from = if let Cause::Told { from, .. } = cause { from } else { None };
        self.gossip.spread(&mut self.cx, slot, from, cause == Cause::Own);
    }
}

fn is_up(record: Option<&Record>) -> bool {
    record.is_some_and(|record| record.status == Status::Up)
}
