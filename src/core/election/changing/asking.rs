//! Wishes taken up or refused, and answered once.
//!
//! Invariants: one change at a time; nothing is said by a view that may be taken back; no voter is removed if those
//! that would be left are too few to elect anybody.
//!
//! Must not know: how a change is put to the voters.

use super::{ChangeStage, PendingChange};
use crate::election::electorate::{Electorate, Voter, VoterChange};
use crate::election::view::NumberedView;
use crate::election::{Action, ChangeError, Context, Election, Role, Rules, Unchanged};
use crate::limits::{ANSWER_TIMEOUT, MAX_VOTERS, STORING_TIMEOUT};
use crate::member::NodeId;

impl Electorate {
    /// Refuses to do without a voter if too few of those that would be left are there to elect anybody.
    pub(crate) fn can_do_without(&self, gone: &NodeId, is_there: impl Fn(&Voter) -> bool) -> Result<(), ChangeError> {
        let left = self.voters.iter().filter(|voter| voter.id != *gone);
        let (voters, there) = (left.clone().count(), left.filter(|voter| is_there(voter)).count());
        let needed = voters / 2 + 1;
        if self.named(gone).is_none() || voters == 0 || there >= needed {
            return Ok(());
        }
        let [there, voters, needed] = [there, voters, needed].map(|count| u8::try_from(count).unwrap_or(u8::MAX));
        Err(ChangeError::NoMajorityLeft { id: gone.clone(), there, voters, needed })
    }
}

impl<R: Rules> Election<R> {
    /// Adds a voter that an operator wants.
    pub fn add_voter(&mut self, context: &Context<'_>, ticket: u64, id: NodeId) {
        self.expire(context);
        let is_named = self.electorate().is_some_and(|electorate| electorate.named(&id).is_some());
        if is_named {
            return self.refuse_by_view(context, ticket, ChangeError::NoChange { reason: Unchanged::VotesAlready });
        }
        if self.is_full() {
            return self.refuse_by_view(context, ticket, ChangeError::NoChange { reason: Unchanged::OutOfBounds });
        }
        let stage = self.asking(context, id);
        self.begin_change(context, PendingChange::new(ticket, stage));
    }

    /// Puts a voter in the place of another, as an operator wants. Whatever half of it is done already is not done
    /// again, so that the command may be given again to the next leader.
    pub fn replace_voter(&mut self, context: &Context<'_>, ticket: u64, old: &NodeId, new: &NodeId) {
        self.expire(context);
        let Some(electorate) = self.electorate().filter(|_| self.has_claim()) else {
            return self.refuse(Some(ticket), ChangeError::NotLeader);
        };
        if old == new {
            return self.refuse(Some(ticket), ChangeError::NoChange { reason: Unchanged::VotesAlready });
        }
        let (has_new, held) = (electorate.named(new).is_some(), electorate.named(old).cloned());
        match held {
            Some(old) if has_new => {
                if let Err(error) = self.can_do_without(context, &old) {
                    return self.refuse_by_view(context, ticket, error);
                }
                let mut pending = PendingChange::new(ticket, ChangeStage::Wanted(VoterChange::Removed(old)));
                pending.added = Some(new.clone());
                self.begin_change(context, pending);
            }
            Some(_) if self.is_full() => {
                self.refuse_by_view(context, ticket, ChangeError::NoRoom { old: old.clone(), new: new.clone() });
            }
            Some(old) => {
                let stage = self.asking(context, new.clone());
                self.begin_change(
                    context,
                    PendingChange { in_place_of: Some(old), ..PendingChange::new(ticket, stage) },
                );
            }
            None if has_new && !self.is_changing() => {
                let electorate = electorate.clone();
                self.actions.push_back(Action::Answer { ticket, result: Ok(electorate) });
            }
            None if has_new => self.refuse(Some(ticket), ChangeError::Busy),
            None => self.refuse_by_view(context, ticket, ChangeError::NoSuchVoter { id: old.clone() }),
        }
    }

    /// Removes a voter, as an operator wants.
    pub fn remove_voter(&mut self, context: &Context<'_>, ticket: u64, id: &NodeId) {
        self.expire(context);
        let is_only_one = self.electorate().is_some_and(|electorate| electorate.voters.len() == 1);
        match self.electorate().and_then(|electorate| electorate.named(id)).cloned() {
            Some(_) if is_only_one => {
                self.refuse_by_view(context, ticket, ChangeError::NoChange { reason: Unchanged::LastVoter });
            }
            Some(voter) => match self.can_do_without(context, &voter) {
                Ok(()) => self.begin_change(
                    context,
                    PendingChange::new(ticket, ChangeStage::Wanted(VoterChange::Removed(voter))),
                ),
                Err(error) => self.refuse_by_view(context, ticket, error),
            },
            None => self.refuse_by_view(context, ticket, ChangeError::NoSuchVoter { id: id.clone() }),
        }
    }

    /// Refuses what this leader's newest view speaks against. While that view is in flight it may be taken back, and
    /// nothing is said by it; nor by the view of a node that does not lead.
    fn refuse_by_view(&mut self, context: &Context<'_>, ticket: u64, error: ChangeError) {
        let changes = self.ballot.accepted.as_ref().is_some_and(|view| view.change.is_some());
        let may_be_taken_back = changes && !self.is_newest_agreed() || self.has_change_in_flight();
        let error = match self.has_claim() {
            false => ChangeError::NotLeader,
            true if may_be_taken_back => self.busy(context),
            true => error,
        };
        self.refuse(Some(ticket), error);
    }

    /// Refuses if the voters that would be left without this one are not able to elect somebody. Voters that
    /// acknowledged within a lease may have died since, and are asked again before the change is put to them; a voter
    /// that did not is taken for gone.
    pub(super) fn can_do_without(&self, context: &Context<'_>, gone: &Voter) -> Result<(), ChangeError> {
        let (Role::Leading(leading), Some(electorate)) = (&self.role, self.electorate()) else { return Ok(()) };
        let (lease, me) = (self.timing.lease_duration, self.ballot.identity);
        electorate.can_do_without(&gone.id, |voter| {
            let heard = leading.heard.get(&voter.identity);
            voter.identity == me || heard.is_some_and(|heard| context.now.since(heard.last) < lease)
        })
    }

    /// Returns true if nobody can be added.
    fn is_full(&self) -> bool {
        self.electorate().is_some_and(|electorate| electorate.voters.len() >= MAX_VOTERS)
    }

    /// Returns the reason why there is to be no other change now.
    pub(crate) fn busy(&self, context: &Context<'_>) -> ChangeError {
        let is_answered = self.change_under_way().is_some_and(|pending| pending.ticket.is_none());
        let late = self.who_does_not_store(context).filter(|_| is_answered);
        late.map_or(ChangeError::Busy, |id| ChangeError::NotStored { id })
    }

    /// Returns the error, if a view has been in flight for so long that somebody does not store it.
    pub(crate) fn is_stuck(&self, context: &Context<'_>) -> Option<ChangeError> {
        let Role::Leading(leading) = &self.role else { return None };
        let put = leading.numbering.last.unwrap_or(leading.elected_at);
        let is_late = context.now.since(put) >= STORING_TIMEOUT;
        (is_late && !self.is_newest_agreed()).then(|| self.not_stored(context))
    }

    /// Returns the reason why the view in flight is not agreed in time.
    pub(crate) fn not_stored(&self, context: &Context<'_>) -> ChangeError {
        self.who_does_not_store(context).map_or(ChangeError::NotCarried, |id| ChangeError::NotStored { id })
    }

    /// Returns the node whose disk keeps the view in flight from being agreed: this one, if its own write is pending,
    /// or else a voter that acknowledges renewals and does not have the view. A silent voter is never named, since
    /// nothing is known of its disk.
    pub(super) fn who_does_not_store(&self, context: &Context<'_>) -> Option<NodeId> {
        let Role::Leading(leading) = &self.role else { return None };
        if self.stored.accepted.as_ref().map(NumberedView::reference) != self.newest() {
            return Some(self.me.clone());
        }
        let put = leading.numbering.last.unwrap_or(leading.elected_at);
        let asked = leading.renewal_sent_before(context.now - ANSWER_TIMEOUT)?;
        let is_late = |voter: &Voter| {
            let has_answered_since = leading.heard.get(&voter.identity).is_some_and(|heard| heard.last >= put);
            has_answered_since && leading.has_acknowledged(voter.identity, asked) && !self.has_newest(voter.identity)
        };
        let late = self.others().into_iter().filter(is_late);
        let last = late.max_by_key(|voter| leading.heard.get(&voter.identity).map(|heard| heard.last));
        last.map(|voter| voter.id)
    }

    pub(super) fn begin_change(&mut self, context: &Context<'_>, mut pending: PendingChange) {
        self.expire(context);
        pending.look_at = context.now + STORING_TIMEOUT;
        let (ticket, interval) = (pending.ticket, self.view_interval);
        match &mut self.role {
            Role::Leading(leading) if leading.has_claim() && leading.numbering.pending.is_none() => {
                leading.numbering.pending = Some(pending);
                leading.numbering.hasten(context.now, interval);
                self.number(context);
            }
            Role::Leading(leading) if leading.has_claim() => self.refuse(ticket, self.busy(context)),
            _ => self.refuse(ticket, ChangeError::NotLeader),
        }
    }

    /// Returns the operator's change, if it is not answered yet.
    pub(crate) fn change_under_way(&self) -> Option<&PendingChange> {
        let Role::Leading(leading) = &self.role else { return None };
        leading.numbering.pending.as_ref()
    }

    /// Returns the operator's change, to be written.
    pub(super) fn change_mut(&mut self) -> Option<&mut PendingChange> {
        let Role::Leading(leading) = &mut self.role else { return None };
        leading.numbering.pending.as_mut()
    }

    /// Says what is to be said of a change that goes on.
    pub(super) fn answer_early(&mut self, error: ChangeError) {
        let ticket = self.change_mut().and_then(|pending| pending.ticket.take());
        self.refuse(ticket, error);
    }

    /// Answers a change that came to nothing.
    pub(super) fn drop_wish(&mut self, error: ChangeError) {
        let Role::Leading(leading) = &mut self.role else { return };
        let ticket = leading.numbering.pending.take().and_then(|pending| pending.ticket);
        self.refuse(ticket, error);
    }

    /// Answers an operator that nothing is done.
    pub(crate) fn refuse(&mut self, ticket: Option<u64>, error: ChangeError) {
        if let Some(ticket) = ticket {
            self.actions.push_back(Action::Answer { ticket, result: Err(error) });
        }
    }
}
