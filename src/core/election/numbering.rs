//! Numbering: the leader puts views to the voters, one at a time, and counts who has them on disk.
//!
//! Only what a majority accepted *in the leader's own term* is agreed: counted in a later term, a view could be agreed
//! and then lost (Raft, section 5.4.2, figure 8). So a new leader first has the view that it took over accepted under its
//! own term, and numbers nothing new before. Changes of a moment become one view. The electorate changes by one voter at a
//! time, and such a view needs the majorities before and after it. Who is to be added is a learner before (Raft, section
//! 4.2.1): it gets the leader's view and acknowledges a renewal, and only then the change is put to the voters, whose
//! majority may need it from that moment on.
//!
//! Invariants: one view is in flight; its number is one above the last agreed one.
//!
//! Must not know: why members come and go.

use std::sync::Arc;
use std::time::Duration;

use super::electorate::{Electorate, Voter, VoterChange};
use super::leading::Leading;
use super::raw::Identity;
use super::view::{Delta, MAX_NUMBER, NumberedView, ViewRef};
use super::{Action, ChangeError, Election, Role, Surroundings, Unchanged};
use crate::core::limits::{IDENTITY_TIMEOUT, LEARNING_TIMEOUT, MAX_DELTA_BYTES};
use crate::core::member::NodeId;
use crate::core::time::Time;

/// What a leader knows of its views.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Numbering {
    /// Whether a view was agreed in this term: before that, nothing new is numbered.
    is_settled: bool,
    /// The view before the one in flight.
    base: Option<NumberedView>,
    /// When the next view is to be made, if something may have changed.
    due: Option<Time>,
    /// When the last one was.
    last: Option<Time>,
    wish: Option<Wish>,
}

/// A change of the electorate that an operator asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Wish {
    ticket: u64,
    what: What,
    /// Who is to be removed as soon as the other one votes.
    in_place_of: Option<Voter>,
    /// The voter that was added already, in the second half of a replacement.
    added: Option<NodeId>,
}

impl Wish {
    fn new(ticket: u64, what: What) -> Self {
        Self { ticket, what, in_place_of: None, added: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum What {
    /// Who is to be added must say who it is, until then.
    Ask { id: NodeId, ask_at: Time, until: Time },
    /// It must have a view of this term on its disk, and acknowledge it, until then.
    Teach { learner: Voter, ask_at: Time, until: Time },
    /// To be put to the voters with the next view.
    Ready(VoterChange),
    /// In the view in flight.
    InFlight,
}

impl Numbering {
    pub(super) fn new(base: Option<NumberedView>) -> Self {
        Self { is_settled: false, base, due: None, last: None, wish: None }
    }

    /// Whether this leader has settled its term, and no operator waits for a change.
    pub(super) fn is_at_rest(&self) -> bool {
        self.is_settled && self.wish.is_none()
    }

    /// The next view is not to wait for other changes; it still keeps its distance from the last one.
    fn hasten(&mut self, now: Time, interval: Duration) {
        self.due = Some(self.last.map_or(now, |last| now.max(last + interval)));
    }

    /// Who is to be added, and is being taught.
    pub(super) fn learner(&self) -> Option<&Voter> {
        match self.wish.as_ref().map(|wish| &wish.what) {
            Some(What::Teach { learner, .. }) => Some(learner),
            _ => None,
        }
    }

    /// When it has something to do; `may_number`: no view is in flight.
    pub(super) fn due(&self, may_number: bool) -> Option<Time> {
        let ask = self.wish.as_ref().and_then(|wish| match wish.what {
            What::Ask { ask_at, until, .. } | What::Teach { ask_at, until, .. } => Some(ask_at.min(until)),
            _ => None,
        });
        self.due.filter(|_| may_number && self.is_settled).into_iter().chain(ask).min()
    }
}

impl Electorate {
    /// Refuses to do without a voter if too few of those that would be left are there to elect anybody.
    pub(in crate::core) fn can_do_without(
        &self,
        gone: &NodeId,
        is_there: impl Fn(&Voter) -> bool,
    ) -> Result<(), ChangeError> {
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

impl Leading {
    /// How the view differs from what this voter has, if that is known and short.
    pub(super) fn delta_for(&self, voter: Identity, view: &NumberedView) -> Option<Delta> {
        let base = self.numbering.base.as_ref()?;
        let newest = view.reference();
        let held = self.accepted.get(&voter);
        if held.is_some_and(|held| held.digest == newest.digest || held.digest != base.reference().digest) {
            return None;
        }
        if base.reference().digest == newest.digest {
            return None;
        }
        let delta = view.since(base);
        let names = delta.added.iter().chain(&delta.removed);
        let bytes: usize = names.map(|id| id.as_str().len() + 1).sum();
        (bytes <= MAX_DELTA_BYTES).then_some(delta)
    }
}

impl Election {
    /// The members may have changed.
    pub fn members_changed(&mut self, around: &Surroundings<'_>) {
        let interval = self.view_interval;
        if let Role::Leading(leading) = &mut self.role {
            let numbering = &mut leading.numbering;
            let not_before = numbering.last.map_or(around.now, |last| last + interval);
            numbering.due.get_or_insert(not_before.max(around.now + interval));
        }
    }

    /// Makes the next view if it is time and the last one is agreed.
    pub(super) fn number(&mut self, around: &Surroundings<'_>) {
        self.ask_for_identity(around);
        self.teach(around);
        let Role::Leading(leading) = &self.role else { return };
        let Some(accepted) = &self.ballot.accepted else { return };
        let is_in_flight = self.agreed.as_ref().map(NumberedView::reference) != Some(accepted.reference());
        let is_due = leading.numbering.due.is_some_and(|due| around.now >= due);
        let is_ready = leading.numbering.is_settled && !is_in_flight;
        #[cfg(test)]
        let is_ready = is_ready || self.has(super::flaw::Flaw::UnsettledElectorate);
        if !is_ready || !is_due || !leading.has_claim() {
            return;
        }
        let members: Arc<[NodeId]> = (around.members)().into();
        let change = match leading.numbering.wish.as_ref().map(|wish| &wish.what) {
            Some(What::Ready(change)) => Some(change.clone()),
            _ => None,
        };
        let electorate = match &change {
            Some(change) => accepted.electorate.changed(change).map(Arc::new),
            None => Some(Arc::clone(&accepted.electorate)),
        };
        let base = accepted.clone();
        let Role::Leading(leading) = &mut self.role else { return };
        let numbering = &mut leading.numbering;
        numbering.due = None;
        let Some(electorate) = electorate else {
            let ticket = numbering.wish.take().map(|wish| wish.ticket);
            return self.refuse(ticket, ChangeError::NoChange { reason: Unchanged::OutOfBounds });
        };
        if members == base.members && change.is_none() || base.number >= MAX_NUMBER {
            return;
        }
        if let Some(wish) = numbering.wish.as_mut().filter(|_| change.is_some()) {
            wish.what = What::InFlight;
        }
        numbering.last = Some(around.now);
        numbering.base = Some(base.clone());
        let view = NumberedView::new(leading.term, base.number + 1, members, electorate, change.map(Arc::new));
        self.accept(view);
        self.renew(around);
        self.count_acceptances(around);
    }

    /// Whether a view of this leader's own is in flight.
    pub(super) fn is_proposing(&self) -> bool {
        let Role::Leading(leading) = &self.role else { return false };
        let agreed = self.agreed.as_ref().map(NumberedView::reference);
        leading.numbering.is_settled && agreed != self.newest()
    }

    /// Whether a view is in flight, or an operator's change is to be.
    pub(super) fn is_changing(&self) -> bool {
        let Role::Leading(leading) = &self.role else { return false };
        leading.numbering.wish.is_some() || self.is_proposing()
    }

    /// Whether the view in flight is agreed.
    pub(super) fn count_acceptances(&mut self, around: &Surroundings<'_>) {
        let interval = self.view_interval;
        let Role::Leading(leading) = &self.role else { return };
        let Some(view) = &self.ballot.accepted else { return };
        let newest = view.reference();
        if self.agreed.as_ref().is_some_and(|agreed| agreed.reference() == newest) {
            return;
        }
        let me = self.ballot.identity;
        let own = self.stored.accepted.as_ref().map(NumberedView::reference);
        #[cfg(test)]
        let own = if self.has(super::flaw::Flaw::OwnAcceptanceBeforeDisk) { Some(newest) } else { own };
        let held = |identity| if identity == me { own } else { leading.accepted.get(&identity).copied() };
        let has_accepted = |identity: Identity| held(identity) == Some(newest);
        let is_agreed = view.is_carried_by(self.is_proposing(), has_accepted);
        #[cfg(test)]
        let is_agreed = is_agreed
            || self.has(super::flaw::Flaw::CountedInLaterTerm)
                && view.is_carried_by(true, |identity| held(identity).is_some_and(|held| held.digest == newest.digest))
            || self.has(super::flaw::Flaw::UnsettledElectorate) && view.electorate.has_majority(has_accepted);
        if !is_agreed {
            return;
        }
        let view = view.clone();
        self.agreed = Some(view.clone());
        self.actions.push_back(Action::Agreed(view.clone()));
        let Role::Leading(leading) = &mut self.role else { return };
        let numbering = &mut leading.numbering;
        if !std::mem::replace(&mut numbering.is_settled, true) {
            numbering.due = Some(around.now);
        }
        if let Some(mut wish) = numbering.wish.take_if(|wish| wish.what == What::InFlight) {
            if let (Some(old), Some(VoterChange::Added(new))) = (wish.in_place_of.take(), view.change.as_deref()) {
                // The first half is done.
                wish.added = Some(new.id.clone());
                wish.what = What::Ready(VoterChange::Removed(old));
                numbering.hasten(around.now, interval);
                numbering.wish = Some(wish);
            } else {
                let electorate = (*view.electorate).clone();
                self.actions.push_back(Action::Answer { ticket: wish.ticket, result: Ok(electorate) });
            }
        }
        if !self.is_voter() {
            // Voted out by the view that has just been agreed.
            self.resign(around);
            return;
        }
        self.number(around);
    }

    /// The view before the one in flight: voters may ask for it.
    pub(super) fn base(&self) -> Option<&NumberedView> {
        match &self.role {
            Role::Leading(leading) => leading.numbering.base.as_ref(),
            _ => None,
        }
    }

    /// An operator wants another voter.
    pub fn add_voter(&mut self, around: &Surroundings<'_>, ticket: u64, id: NodeId) {
        let is_named = self.electorate().is_some_and(|electorate| electorate.named(&id).is_some());
        if is_named {
            return self.refuse(Some(ticket), ChangeError::NoChange { reason: Unchanged::VotesAlready });
        }
        let what = self.asking(around, id);
        self.wish(around, Wish::new(ticket, what));
    }

    fn asking(&self, around: &Surroundings<'_>, id: NodeId) -> What {
        What::Ask { id, ask_at: around.now, until: around.now + self.timing.patience().max(IDENTITY_TIMEOUT) }
    }

    /// An operator wants a voter in the place of another. Whatever half of it is done already is not done again, so that the
    /// command may be given again to the next leader.
    pub fn replace_voter(&mut self, around: &Surroundings<'_>, ticket: u64, old: &NodeId, new: &NodeId) {
        self.expire(around);
        let Some(electorate) = self.electorate().filter(|_| self.has_claim()) else {
            return self.refuse(Some(ticket), ChangeError::NotLeader);
        };
        if old == new {
            return self.refuse(Some(ticket), ChangeError::NoChange { reason: Unchanged::VotesAlready });
        }
        let (has_new, held) = (electorate.named(new).is_some(), electorate.named(old).cloned());
        match held {
            Some(old) if has_new => {
                if let Err(error) = self.can_do_without(around, &old) {
                    return self.refuse(Some(ticket), error);
                }
                let mut wish = Wish::new(ticket, What::Ready(VoterChange::Removed(old)));
                wish.added = Some(new.clone());
                self.wish(around, wish);
            }
            Some(old) => {
                let what = self.asking(around, new.clone());
                self.wish(around, Wish { in_place_of: Some(old), ..Wish::new(ticket, what) });
            }
            None if has_new && !self.is_changing() => {
                let electorate = electorate.clone();
                self.actions.push_back(Action::Answer { ticket, result: Ok(electorate) });
            }
            None if has_new => self.refuse(Some(ticket), ChangeError::Busy),
            None => self.refuse(Some(ticket), ChangeError::NoChange { reason: Unchanged::VotesNot }),
        }
    }

    /// An operator wants a voter less.
    pub fn remove_voter(&mut self, around: &Surroundings<'_>, ticket: u64, id: &NodeId) {
        match self.electorate().and_then(|electorate| electorate.named(id)).cloned() {
            Some(voter) => match self.can_do_without(around, &voter) {
                Ok(()) => self.wish(around, Wish::new(ticket, What::Ready(VoterChange::Removed(voter)))),
                Err(error) => self.refuse(Some(ticket), error),
            },
            None => self.refuse(Some(ticket), ChangeError::NoChange { reason: Unchanged::VotesNot }),
        }
    }

    /// The voters that would be left without this one must be able to elect somebody: the majority that removes a voter need
    /// not be one of the electorate that comes after it. Those count that acknowledged within a lease.
    fn can_do_without(&self, around: &Surroundings<'_>, gone: &Voter) -> Result<(), ChangeError> {
        let (Role::Leading(leading), Some(electorate)) = (&self.role, self.electorate()) else { return Ok(()) };
        let (lease, me) = (self.timing.lease_duration, self.ballot.identity);
        electorate.can_do_without(&gone.id, |voter| {
            let heard = leading.heard.get(&voter.identity);
            voter.identity == me || heard.is_some_and(|heard| around.now.since(heard.last) < lease)
        })
    }

    fn wish(&mut self, around: &Surroundings<'_>, wish: Wish) {
        self.expire(around);
        let (ticket, interval) = (wish.ticket, self.view_interval);
        match &mut self.role {
            Role::Leading(leading) if leading.has_claim() && leading.numbering.wish.is_none() => {
                leading.numbering.wish = Some(wish);
                leading.numbering.hasten(around.now, interval);
                self.number(around);
            }
            Role::Leading(leading) if leading.has_claim() => self.refuse(Some(ticket), ChangeError::Busy),
            _ => self.refuse(Some(ticket), ChangeError::NotLeader),
        }
    }

    /// Asks who the voter is that is to be added.
    fn ask_for_identity(&mut self, around: &Surroundings<'_>) {
        let retry = self.timing.retry();
        let Role::Leading(leading) = &mut self.role else { return };
        let Some(Wish { ticket, what: What::Ask { id, ask_at, until }, .. }) = &mut leading.numbering.wish else {
            return;
        };
        let (ticket, id) = (*ticket, id.clone());
        if around.now >= *until {
            leading.numbering.wish = None;
            return self.refuse(Some(ticket), ChangeError::NoAnswer { id });
        }
        if around.now >= *ask_at {
            *ask_at = around.now + retry;
            self.introduce(&id, true);
        }
    }

    /// Somebody said who it is: perhaps the voter that is to be added.
    pub(super) fn hear_candidate_for_voting(&mut self, around: &Surroundings<'_>, from: &NodeId, identity: Identity) {
        let patience = self.timing.patience();
        let Role::Leading(leading) = &mut self.role else { return };
        let Some(wish) = &mut leading.numbering.wish else { return };
        if matches!(&wish.what, What::Ask { id, .. } if id == from) {
            let learner = Voter { id: from.clone(), identity };
            let until = around.now + patience.max(LEARNING_TIMEOUT);
            wish.what = What::Teach { learner, ask_at: around.now, until };
            self.teach(around);
        }
    }

    /// Sends the voter that is to be added what voters are sent, until it acknowledges.
    fn teach(&mut self, around: &Surroundings<'_>) {
        let retry = self.timing.retry();
        let Role::Leading(leading) = &mut self.role else { return };
        let Some(Wish { ticket, what: What::Teach { learner, ask_at, until }, .. }) = &mut leading.numbering.wish
        else {
            return;
        };
        let (ticket, learner) = (*ticket, learner.clone());
        if around.now >= *until {
            leading.numbering.wish = None;
            return self.refuse(Some(ticket), ChangeError::LearnerSilent { id: learner.id });
        }
        if around.now >= *ask_at {
            *ask_at = around.now + retry;
            self.tell_heir(&learner);
            self.inform(around, &learner.id);
        }
    }

    /// Whether this one is to be added, and is being taught.
    pub(super) fn is_learner(&self, identity: Identity) -> bool {
        let Role::Leading(leading) = &self.role else { return false };
        let wish = leading.numbering.wish.as_ref().map(|wish| &wish.what);
        matches!(wish, Some(What::Teach { learner, .. }) if learner.identity == identity)
    }

    /// Somebody has this view on its disk: if it was being taught, and the view is of this term, it may vote.
    pub(super) fn hear_learner(&mut self, around: &Surroundings<'_>, speaker: Identity, newest: ViewRef) {
        let interval = self.view_interval;
        let is_taught = self.is_learner(speaker);
        let is_in_flight = self.agreed.as_ref().map(NumberedView::reference) != self.newest();
        let Role::Leading(leading) = &mut self.role else { return };
        if !is_taught || newest.term != leading.term {
            return;
        }
        let is_due = leading.numbering.last.is_none_or(|last| around.now >= last + interval);
        if !leading.numbering.is_settled || is_in_flight || !is_due {
            // It might die before the change can be put to the voters: it is taught until then.
            return;
        }
        if let Some(wish) = &mut leading.numbering.wish
            && let What::Teach { learner, .. } = &wish.what
        {
            wish.what = What::Ready(VoterChange::Added(learner.clone()));
            leading.numbering.hasten(around.now, interval);
            self.number(around);
        }
    }

    /// Leadership ends before the change was agreed.
    pub(super) fn interrupt_change(&mut self) {
        let in_flight = self.ballot.accepted.as_ref().and_then(|view| match view.change.as_deref() {
            Some(VoterChange::Removed(voter)) => Some(voter.id.clone()),
            _ => None,
        });
        if let Role::Leading(leading) = &mut self.role
            && let Some(wish) = leading.numbering.wish.take()
        {
            let removed = match wish.what {
                What::Ready(VoterChange::Removed(old)) => Some(old.id),
                _ => in_flight,
            };
            let error = match (removed, wish.added) {
                (Some(old), Some(new)) => ChangeError::HalfReplaced { old, new },
                _ => ChangeError::Interrupted,
            };
            self.refuse(Some(wish.ticket), error);
        }
    }

    /// Answers an operator that nothing is done.
    pub(in crate::core) fn refuse(&mut self, ticket: Option<u64>, error: ChangeError) {
        if let Some(ticket) = ticket {
            self.actions.push_back(Action::Answer { ticket, result: Err(error) });
        }
    }
}
