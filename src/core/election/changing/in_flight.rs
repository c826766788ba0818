//! Changes in flight: waiting for voters and their disks, taking a change back, and its end.
//!
//! The reason why that is safe: electorates that differ by one voter have no two majorities without a voter in common.
//! From when a change is put to the voters until it, or what takes it back, is agreed, nothing else is numbered, and
//! only those two electorates elect anybody. So a majority of either that has promised, voted or accepted keeps the
//! other from deciding otherwise, and the two views are ordered like any two of one term: the one with the higher
//! number, once it is agreed, keeps whoever holds the other from being elected. The next change is not put to the
//! voters before the claim rests on the electorate that it changes.
//!
//! One case remains: a leader that *dies* while a change is in flight takes nothing back. That is for some
//! milliseconds, or, if a voter that answered falls silent before it takes the change, for [`CHANGE_TIMEOUT`] and a
//! round (where its disk is slow, for [`SLOW_DISK_TIMEOUT`]). Its successor's course depends on who is left:
//!
//! - Nobody who is left has the change on its disk: the electorate of before elects, and the change is gone.
//! - Somebody has it: that one votes for nobody who has it not, and is elected by a majority of the electorate after
//!   the change, which it then carries. If too few of those are left, nobody is elected before one of them returns,
//!   although a majority of the electorate before may be there: of three, where the leader died while it removed a
//!   second one and the third has it. It may have been agreed by then, and the next change begun by those that are
//!   away: that one cannot know, and takes nothing back.
//!
//! A voter may answer, and its disk take nothing: if nothing can be agreed without it, the operator hears its name
//! after [`STORING_TIMEOUT`], or when what takes the change back is not agreed in that time either. That one stays in
//! flight.
//!
//! Invariant: a change that too few take is taken back, as long as the electorate in force is there.
//!
//! Must not know: who asked for a change.
//!
//! [`CHANGE_TIMEOUT`]: crate::limits::CHANGE_TIMEOUT
//! [`SLOW_DISK_TIMEOUT`]: crate::limits::SLOW_DISK_TIMEOUT
//! [`STORING_TIMEOUT`]: crate::limits::STORING_TIMEOUT

use std::sync::Arc;

use super::{ChangeStage, PendingChange};
use crate::election::electorate::VoterChange;
use crate::election::view::{MAX_NUMBER, NumberedView};
use crate::election::{Action, ChangeError, Context, Election, Role, Rules};
use crate::limits::{ANSWER_TIMEOUT, CHANGE_TIMEOUT, SLOW_DISK_TIMEOUT, STORING_TIMEOUT};

impl<R: Rules> Election<R> {
    /// Goes on with the change if its time has come.
    pub(crate) fn continue_change(&mut self, context: &Context<'_>) {
        self.ask_for_identity(context);
        self.teach(context);
        let Some(pending) = self.change_under_way().filter(|pending| context.now >= pending.deadline()) else {
            return;
        };
        match &pending.stage {
            ChangeStage::Sounding { change, sequence, .. } => {
                let error = pending.unfinished(change, self.why_not_backed(change, *sequence));
                self.drop_wish(error);
            }
            ChangeStage::InFlight { .. } if self.awaits_own_disk() => {
                // It may hang for good. Only another term may use this number once more: the change can be on the disk
                // yet.
                self.store_failed(context);
            }
            ChangeStage::InFlight { sequence, latest, .. }
                if context.now < *latest && self.waits_for_disks_alone(*sequence) =>
            {
                self.wait_for_disks(context);
            }
            ChangeStage::InFlight { sequence, .. } => {
                // The electorate of the change may be enough if the one in force is lost, as a later leader finds.
                if self.is_electorate_in_force_there(*sequence) {
                    self.take_back(context, ChangeError::NotCarried);
                } else {
                    self.wait_on(context);
                }
            }
            ChangeStage::TakenBack { .. } => {
                let late = self.who_does_not_store(context);
                let error = late.map_or(ChangeError::Interrupted, |id| ChangeError::Unsettled { id });
                self.answer_early(error);
                self.wait_on(context);
            }
            ChangeStage::Wanted(change) if !self.is_newest_agreed() => {
                let error = pending.unfinished(change, self.not_stored(context));
                self.drop_wish(error);
            }
            ChangeStage::Wanted(_) => {
                if let Some(pending) = self.change_mut() {
                    pending.look_at = context.now + STORING_TIMEOUT;
                }
            }
            ChangeStage::Ask { .. } | ChangeStage::Teach { .. } => {}
        }
    }

    /// Begins the voters' time: the leader's own disk has the change, and they are told now.
    pub(crate) fn begin_voters_time(&mut self, context: &Context<'_>) {
        let Some(last) = self.last_renewal() else { return };
        // Whoever has a view that leaves its leader out acknowledges nothing of it any more: time for the way back must
        // be left.
        let slow = SLOW_DISK_TIMEOUT.min(self.timing.lease_duration * 3 / 4).max(CHANGE_TIMEOUT);
        let slow = if self.is_voter() { SLOW_DISK_TIMEOUT } else { slow };
        if let Some(PendingChange { stage: ChangeStage::InFlight { sequence, until, latest, .. }, .. }) =
            self.change_mut()
        {
            *sequence = last + 1;
            *until = context.now + CHANGE_TIMEOUT;
            *latest = context.now + slow;
        }
        self.renew(context);
    }

    /// Returns true if enough voters for the change in flight have it, or have acknowledged this renewal or a later
    /// one: then nothing but their disks is late.
    fn waits_for_disks_alone(&self, sequence: u64) -> bool {
        let (Role::Leading(leading), Some(view)) = (&self.role, &self.ballot.accepted) else { return false };
        let is_there = |voter| leading.has_acknowledged(voter, sequence) || self.has_newest(voter);
        view.is_carried_by(true, is_there)
    }

    /// Gives slow disks more time, and asks the voters whether they are still there, unless they could not answer a
    /// leader that is to go.
    fn wait_for_disks(&mut self, context: &Context<'_>) {
        let Some(last) = self.last_renewal() else { return };
        let may_ask = self.is_voter();
        if let Some(PendingChange { stage: ChangeStage::InFlight { sequence, until, latest, .. }, .. }) =
            self.change_mut()
        {
            if may_ask {
                *sequence = last + 1;
            }
            *until = (context.now + ANSWER_TIMEOUT).min(*latest);
        }
        if may_ask {
            self.renew(context);
        }
    }

    /// Puts the electorate in force to the voters once more, in place of the change that is in flight; this is answered
    /// when that is agreed.
    fn take_back(&mut self, context: &Context<'_>, error: ChangeError) {
        let is_proposing = self.is_proposing();
        let (Some(agreed), Some(accepted)) = (self.volatile.agreed.clone(), self.ballot.accepted.as_ref()) else {
            return;
        };
        let is_possible = is_proposing
            && accepted.number < MAX_NUMBER
            && accepted.former_electorate().as_ref() == Some(&*agreed.electorate);
        let number = accepted.number + 1;
        let Role::Leading(leading) = &mut self.role else { return };
        let Some(pending) = &mut leading.numbering.pending else { return };
        let ChangeStage::InFlight { change, .. } = &pending.stage else { return };
        if !self.rules.takes_back(is_possible) {
            return self.wait_on(context);
        }
        let change = change.clone();
        let error = pending.unfinished(&change, error);
        pending.stage = ChangeStage::TakenBack { change, error, until: context.now + STORING_TIMEOUT };
        let electorate = Arc::clone(&agreed.electorate);
        self.put_to_voters(context, agreed, number, (context.members)().into(), (electorate, None));
    }

    /// Returns true if a majority of those that voted before the change in flight has acknowledged this renewal, or a
    /// later one.
    fn is_electorate_in_force_there(&self, sequence: u64) -> bool {
        let (Role::Leading(leading), Some(agreed)) = (&self.role, &self.volatile.agreed) else { return false };
        agreed.electorate.has_majority(|voter| leading.has_acknowledged(voter, sequence))
    }

    /// Withdraws a change that the leader's own disk did not take: no voter was told of it, and none will be.
    pub(crate) fn withdraw_change(&mut self) {
        let Some(base) = self.base().filter(|_| self.awaits_own_disk()).cloned() else { return };
        self.ballot.accepted = Some(base);
        self.persist();
        let Some(pending) = self.change_under_way() else { return };
        let ChangeStage::InFlight { change, .. } = &pending.stage else { return };
        let error = pending.unfinished(change, ChangeError::OwnDisk { id: self.me.clone() });
        self.drop_wish(error);
    }

    /// Gives what is in flight more time; a leader that wants to leave leaves now.
    fn wait_on(&mut self, context: &Context<'_>) {
        if matches!(&self.role, Role::Leading(leading) if leading.is_leaving) {
            self.resign_for(context, None);
        } else if let Some(ChangeStage::InFlight { until, .. } | ChangeStage::TakenBack { until, .. }) =
            self.change_mut().map(|pending| &mut pending.stage)
        {
            *until = context.now + CHANGE_TIMEOUT;
        }
    }

    /// Takes back a change in flight before a leader that leaves gives leadership up: those that are left may not
    /// be enough to elect anybody by it. Returns true if that is under way.
    pub(crate) fn settles_first(&mut self, context: &Context<'_>) -> bool {
        let is_aside = self.is_aside;
        let Role::Leading(leading) = &mut self.role else { return false };
        let is_in_flight = leading.numbering.pending.as_ref().is_some_and(PendingChange::is_in_flight);
        if !self.rules.settles_first(is_in_flight) || is_aside || !leading.has_claim() {
            return false;
        }
        leading.is_leaving = true;
        self.take_back(context, ChangeError::NotLeader);
        true
    }

    /// Returns true if a change, or what takes it back, is in flight.
    pub(crate) fn has_change_in_flight(&self) -> bool {
        self.change_under_way().is_some_and(PendingChange::is_in_flight)
    }

    /// Answers a change whose view in flight was agreed.
    pub(crate) fn end_change(&mut self, context: &Context<'_>, view: &NumberedView) {
        let interval = self.view_interval;
        let Role::Leading(leading) = &mut self.role else { return };
        let Some(mut pending) = leading.numbering.pending.take_if(|pending| pending.is_in_flight()) else { return };
        let result = match (pending.stage, pending.in_place_of.take()) {
            (ChangeStage::TakenBack { error, .. }, _) => Err(error),
            (ChangeStage::InFlight { change: VoterChange::Added(new), .. }, Some(old)) => {
                // The first half is done.
                pending.added = Some(new.id);
                pending.stage = ChangeStage::Wanted(VoterChange::Removed(old));
                pending.look_at = context.now + STORING_TIMEOUT;
                leading.numbering.pending = Some(pending);
                return leading.numbering.hasten(context.now, interval);
            }
            _ => Ok((*view.electorate).clone()),
        };
        if let Some(ticket) = pending.ticket {
            self.actions.push_back(Action::Answer { ticket, result });
        }
    }

    /// Answers a change whose leader leads no more before the change was agreed.
    pub(crate) fn interrupt_change(&mut self) {
        let Some(pending) = self.change_under_way() else { return };
        let error = match &pending.stage {
            ChangeStage::Wanted(change)
            | ChangeStage::Sounding { change, .. }
            | ChangeStage::InFlight { change, .. }
            | ChangeStage::TakenBack { change, .. }
                if pending.added.is_some() =>
            {
                pending.unfinished(change, ChangeError::NotLeader)
            }
            _ => ChangeError::Interrupted,
        };
        self.drop_wish(error);
    }
}
