//! Numbering: the leader proposes views to the voters, one at a time, and counts the voters that have them on disk.
//!
//! Only a view that a majority accepted *in the leader's own term* is agreed: counted in a later term, a view could be
//! agreed and then lost (Raft, section 5.4.2, figure 8). So a new leader first has the view that it took over accepted
//! under its own term, and numbers nothing new before. Changes at about the same time become one view. The electorate
//! changes by one voter at a time (see `changing`), and such a view needs the majorities before and after it.
//!
//! Invariants: one view is in flight; its number is one above the last one that was proposed to the voters.
//!
//! Must not know: why members come and go.

use std::sync::Arc;
use std::time::Duration;

use super::changing::PendingChange;
use super::electorate::{Electorate, Identity, VoterChange};
use super::view::{MAX_NUMBER, NumberedView};
use super::{Action, Context, Election, Role, Rules};
use crate::member::NodeId;
use crate::time::Time;

/// The state of a leader's views.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Numbering {
    /// True once a view was agreed in this term: before that, nothing new is numbered.
    pub(super) is_settled: bool,
    /// The view before the one in flight.
    pub(super) base: Option<NumberedView>,
    /// The time at which the next view is to be made, if something may have changed.
    due: Option<Time>,
    /// The time at which the last view was made.
    pub(super) last: Option<Time>,
    pub(super) pending: Option<PendingChange>,
}

impl Numbering {
    pub(super) fn new(base: Option<NumberedView>) -> Self {
        Self { is_settled: false, base, due: None, last: None, pending: None }
    }

    /// Makes the next view due without waiting for other changes; it still keeps its distance from the last one.
    pub(super) fn hasten(&mut self, now: Time, interval: Duration) {
        self.due = Some(self.last.map_or(now, |last| now.max(last + interval)));
    }

    /// Returns the time at which there is something to do; `may_number` is true if no view is in flight.
    pub(super) fn due(&self, may_number: bool) -> Option<Time> {
        let pending = self.pending.as_ref();
        let is_due = may_number && self.is_settled && !pending.is_some_and(PendingChange::is_sounding);
        self.due.filter(|_| is_due).into_iter().chain(pending.map(PendingChange::deadline)).min()
    }
}

impl<R: Rules> Election<R> {
    /// Makes a new view due, since the members may have changed.
    pub fn members_changed(&mut self, context: &Context<'_>) {
        let interval = self.view_interval;
        if let Role::Leading(leading) = &mut self.role {
            let numbering = &mut leading.numbering;
            let not_before = numbering.last.map_or(context.now, |last| last + interval);
            numbering.due.get_or_insert(not_before.max(context.now + interval));
        }
    }

    /// Makes the next view if it is due and the last one is agreed.
    pub(super) fn number(&mut self, context: &Context<'_>) {
        self.continue_change(context);
        let Role::Leading(leading) = &self.role else { return };
        let is_in_flight = !self.is_newest_agreed();
        let is_due = leading.numbering.due.is_some_and(|due| context.now >= due);
        let is_ready = self.rules.may_number(leading.numbering.is_settled, is_in_flight);
        if !is_ready || !is_due || !leading.has_claim() {
            return;
        }
        self.sound_voters(context);
        let (Role::Leading(leading), Some(base)) = (&self.role, self.ballot.accepted.clone()) else { return };
        if leading.numbering.pending.as_ref().is_some_and(PendingChange::is_sounding) && !self.is_change_backed() {
            return;
        }
        let members: Arc<[NodeId]> = (context.members)().into();
        let Role::Leading(leading) = &mut self.role else { return };
        leading.numbering.due = None;
        if base.number >= MAX_NUMBER {
            return;
        }
        let Some((electorate, change)) = self.change_to_propose(context, &base) else { return };
        if members == base.members && change.is_none() {
            return;
        }
        self.put_to_voters(context, base.clone(), base.number + 1, members, (electorate, change));
    }

    /// Proposes a view to the voters; `base` is the one that they are expected to hold.
    pub(super) fn put_to_voters(
        &mut self,
        context: &Context<'_>,
        base: NumberedView,
        number: u64,
        members: Arc<[NodeId]>,
        (electorate, change): (Arc<Electorate>, Option<VoterChange>),
    ) {
        let Role::Leading(leading) = &mut self.role else { return };
        leading.numbering.last = Some(context.now);
        leading.numbering.base = Some(base);
        let view = NumberedView::new(leading.term, number, members, electorate, change.map(Arc::new));
        self.accept(view);
        if !self.awaits_own_disk() {
            self.renew(context);
            self.count_acceptances(context);
        }
    }

    /// Returns true if a change of the electorate is in flight that this leader's own disk does not have yet: no voter
    /// is told of it before. If the disk fails, the leader stands aside, and a voter that had accepted the change would
    /// wait for its vote.
    pub(super) fn awaits_own_disk(&self) -> bool {
        self.rules.awaits_own_disk(self.is_change_unstored())
    }

    /// Returns true if a change of the electorate is in flight that this leader's own disk does not have.
    pub(super) fn is_change_unstored(&self) -> bool {
        let own = self.stored.accepted.as_ref().map(NumberedView::reference);
        let changes = self.ballot.accepted.as_ref().is_some_and(|view| view.change.is_some());
        changes && own != self.newest() && self.is_proposing()
    }

    /// Returns the newest view that may be proposed to the voters.
    pub(super) fn view_for_voters(&self) -> Option<&NumberedView> {
        if self.awaits_own_disk() { self.base() } else { self.ballot.accepted.as_ref() }
    }

    /// Returns true if a view of this leader's own is in flight.
    pub(super) fn is_proposing(&self) -> bool {
        let Role::Leading(leading) = &self.role else { return false };
        leading.numbering.is_settled && !self.is_newest_agreed()
    }

    /// Returns true if no view is in flight.
    pub(super) fn is_newest_agreed(&self) -> bool {
        self.volatile.agreed.as_ref().map(NumberedView::reference) == self.newest()
    }

    /// Returns true if a view is in flight, or an operator's change is under way.
    pub(super) fn is_changing(&self) -> bool {
        let Role::Leading(leading) = &self.role else { return false };
        leading.numbering.pending.is_some() || self.is_proposing()
    }

    /// Counts the acceptances of the view in flight, and agrees it if there are enough.
    pub(super) fn count_acceptances(&mut self, context: &Context<'_>) {
        let Role::Leading(leading) = &self.role else { return };
        let Some(view) = &self.ballot.accepted else { return };
        let newest = view.reference();
        if self.volatile.agreed.as_ref().is_some_and(|agreed| agreed.reference() == newest) {
            return;
        }
        let me = self.ballot.identity;
        let own = self.rules.counted_as_own(&self.stored, &self.ballot).accepted.as_ref().map(NumberedView::reference);
        let held = |identity| if identity == me { own } else { leading.accepted.get(&identity).copied() };
        let has_accepted = |identity: Identity| self.rules.has_accepted(held(identity), newest);
        if !self.rules.is_agreed(view, self.is_proposing(), has_accepted) {
            return;
        }
        let view = view.clone();
        self.volatile.agreed = Some(view.clone());
        self.actions.push_back(Action::Agreed(view.clone()));
        let Role::Leading(leading) = &mut self.role else { return };
        let numbering = &mut leading.numbering;
        if !std::mem::replace(&mut numbering.is_settled, true) {
            numbering.due = Some(context.now);
        }
        self.end_change(context, &view);
        let is_leaving = matches!(&self.role, Role::Leading(leading) if leading.is_leaving);
        if is_leaving || !self.is_voter() {
            // This leader was voted out by the view that has just been agreed, or what kept it from leaving is settled.
            self.resign_for(context, None);
            return;
        }
        self.number(context);
    }

    /// Returns the view before the one in flight: voters may ask for it.
    pub(super) fn base(&self) -> Option<&NumberedView> {
        match &self.role {
            Role::Leading(leading) => leading.numbering.base.as_ref(),
            _ => None,
        }
    }
}
