//! Changing the electorate: an operator's wish from the question to its outcome, one voter at a time.
//!
//! ```text
//!  add, replace: who is it? ──▶ it learns ──┐             as soon as no view is in flight
//!  remove ──────────────────────────────────┴──▶ wanted ────────▶ the voters are sounded ────▶ in flight ────▶ agreed
//!                                                   ▲                   │ too few answer          │ too few take it,
//!                                    replace: then the other half       ▼                         ▼ or the leader leaves
//!                                                                    refused                  taken back
//! ```
//!
//! - *Learning.* Who is to be added gets the leader's view and acknowledges a renewal before it votes (Raft, section 4.2.1).
//! - *Sounding.* The majority that removes a voter need not be one of the electorate that comes after it. So before the change
//!   is put to the voters, enough of those that would vote then must acknowledge a renewal that was *sent since*: what was
//!   acknowledged before says nothing of a voter that has fallen silent.
//! - *Put to the voters.* First the leader's own disk takes it. If that fails, or takes longer than [`SLOW_DISK_TIMEOUT`],
//!   nobody was told of it: the leader withdraws it and stands aside, and the voters before the change elect another one.
//! - *In flight.* The change needs a majority before and after it, and may be taken by too few all the same: voters die
//!   between their answer and their disk. Meanwhile the claim rests on the electorate in force, the one before: its leader
//!   leads on.
//! - *Taken back.* [`CHANGE_TIMEOUT`] after the leader told its voters, if the electorate in force is there, or when its
//!   leader leaves, the leader puts that electorate to the voters once more, under the next number. Otherwise whoever has the
//!   change on its disk would need the votes of the new electorate for good, though the old one is there. As long as enough
//!   voters for the change acknowledge renewals, and only their disks are late, it waits for these: for
//!   [`SLOW_DISK_TIMEOUT`] at most, and asks every [`ANSWER_TIMEOUT`] whether they are still there.
//!
//! Why that is safe: electorates that differ by one voter have no two majorities without a voter in common. From when a change
//! is put to the voters until it, or what takes it back, is agreed, nothing else is numbered, and only those two electorates
//! elect anybody. So a majority of either that has promised, voted or accepted keeps the other from deciding otherwise, and
//! the two views are ordered like any two of one term: the one with the higher number, once it is agreed, keeps whoever holds
//! the other from being elected. The next change is not put to the voters before the claim rests on the electorate that it
//! changes.
//!
//! What remains: a leader that *dies* while a change is in flight takes nothing back. That is for some milliseconds, or, if a
//! voter that answered falls silent before it takes the change, for [`CHANGE_TIMEOUT`] and a round (where its disk is
//! slow, for [`SLOW_DISK_TIMEOUT`]). What its successor does depends on who is left:
//!
//! - Nobody who is left has the change on its disk: the electorate of before elects, and the change is gone.
//! - Somebody has it: that one votes for nobody who has it not, and is elected by a majority of the electorate after the change,
//!   which it then carries. If too few of those are left, nobody is elected before one of them returns, although a majority of
//!   the electorate before may be there: of three, where the leader died while it removed a second one and the third has it.
//!   It may have been agreed by then, and the next change begun by those that are away: that one cannot know, and takes
//!   nothing back.
//!
//! A voter may answer, and its disk take nothing: if nothing can be agreed without it, the operator hears its name after
//! [`STORING_TIMEOUT`], or when what takes the change back is not agreed in that time either. That one stays in flight.
//!
//! Invariants: one wish at a time; every wish is answered once; "nothing changed" is only said if nothing can have changed.
//! (But for a write of the leader that failed, is on its disk all the same, and is found there if the leader dies then.)
//!
//! Must not know: why members come and go.

use std::sync::Arc;

use super::electorate::{Electorate, Voter, VoterChange};
use super::view::{MAX_NUMBER, NumberedView};
use super::{Action, ChangeError, Election, Role, Surroundings, Unchanged};
use crate::core::limits::{
    ANSWER_TIMEOUT, CHANGE_TIMEOUT, MAX_VOTERS, SLOW_DISK_TIMEOUT, SOUNDING_TIMEOUT, STORING_TIMEOUT,
};
use crate::core::member::NodeId;
use crate::core::time::Time;

/// A change of the electorate that an operator asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Wish {
    /// `None` once it was answered.
    pub(super) ticket: Option<u64>,
    pub(super) what: What,
    /// When it is looked whether it waits for a voter that does not store.
    look_at: Time,
    /// Who is to be removed as soon as the other one votes.
    in_place_of: Option<Voter>,
    /// The voter that was added already, in the second half of a replacement.
    added: Option<NodeId>,
}

/// How far it has come.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum What {
    /// Who is to be added must say who it is, until then.
    Ask { id: NodeId, ask_at: Time, until: Time },
    /// It must have a view of this term on its disk, and acknowledge it, until then.
    Teach { learner: Voter, ask_at: Time, until: Time },
    /// To be put to the voters, once they were sounded: as soon as no other view is in flight.
    Wanted(VoterChange),
    /// Enough of those that would vote must acknowledge this renewal, or a later one, until then.
    Sounding { change: VoterChange, sequence: u64, until: Time },
    /// In the view in flight: on its way to the leader's own disk, or since this renewal with the voters, until then. Voters
    /// that answer have until `latest`.
    InFlight { change: VoterChange, sequence: u64, until: Time, latest: Time },
    /// The view in flight takes it back, and this is what is answered then.
    TakenBack { change: VoterChange, error: ChangeError, until: Time },
}

impl Wish {
    fn new(ticket: u64, what: What) -> Self {
        Self { ticket: Some(ticket), what, look_at: Time::default(), in_place_of: None, added: None }
    }

    /// When it has something to do.
    pub(super) fn deadline(&self) -> Time {
        match self.what {
            What::Ask { ask_at, until, .. } | What::Teach { ask_at, until, .. } => ask_at.min(until),
            What::Wanted(_) => self.look_at,
            What::Sounding { until, .. } | What::InFlight { until, .. } | What::TakenBack { until, .. } => until,
        }
    }

    /// It is to be put to the voters.
    pub(super) fn want(&mut self, around: &Surroundings<'_>, change: VoterChange) {
        self.what = What::Wanted(change);
        self.look_at = around.now + STORING_TIMEOUT;
    }

    /// Whether the voters are being asked whether they are there.
    pub(super) fn is_sounding(&self) -> bool {
        matches!(self.what, What::Sounding { .. })
    }

    /// Whether a view with the change, or one that takes it back, is in flight.
    fn is_in_flight(&self) -> bool {
        matches!(self.what, What::InFlight { .. } | What::TakenBack { .. })
    }

    /// Who is to be added, before that is put to the voters.
    pub(super) fn learner(&self) -> Option<&Voter> {
        match &self.what {
            What::Teach { learner, .. } => Some(learner),
            What::Wanted(VoterChange::Added(learner)) | What::Sounding { change: VoterChange::Added(learner), .. } => {
                Some(learner)
            }
            _ => None,
        }
    }

    /// What is answered if the change came to nothing for this reason.
    fn unfinished(&self, change: &VoterChange, error: ChangeError) -> ChangeError {
        let (VoterChange::Removed(old), Some(new)) = (change, &self.added) else { return error };
        let (old, new) = (old.id.clone(), new.clone());
        match error {
            ChangeError::NotLeader => ChangeError::HalfReplaced { old, new },
            _ => ChangeError::HalfDone { old, new },
        }
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

impl Election {
    /// An operator wants another voter.
    pub fn add_voter(&mut self, around: &Surroundings<'_>, ticket: u64, id: NodeId) {
        let is_named = self.electorate().is_some_and(|electorate| electorate.named(&id).is_some());
        if is_named {
            return self.refuse(Some(ticket), ChangeError::NoChange { reason: Unchanged::VotesAlready });
        }
        if self.has_claim() && self.is_full() {
            return self.refuse(Some(ticket), ChangeError::NoChange { reason: Unchanged::OutOfBounds });
        }
        let what = self.asking(around, id);
        self.wish(around, Wish::new(ticket, what));
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
                let mut wish = Wish::new(ticket, What::Wanted(VoterChange::Removed(old)));
                wish.added = Some(new.clone());
                self.wish(around, wish);
            }
            Some(_) if self.is_full() => {
                self.refuse(Some(ticket), ChangeError::NoRoom { old: old.clone(), new: new.clone() });
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
                Ok(()) => self.wish(around, Wish::new(ticket, What::Wanted(VoterChange::Removed(voter)))),
                Err(error) => self.refuse(Some(ticket), error),
            },
            None => self.refuse(Some(ticket), ChangeError::NoChange { reason: Unchanged::VotesNot }),
        }
    }

    /// The voters that would be left without this one must be able to elect somebody. Those that acknowledged within a lease
    /// may have died since, and are asked again before it is put to them; who did not is not there.
    fn can_do_without(&self, around: &Surroundings<'_>, gone: &Voter) -> Result<(), ChangeError> {
        let (Role::Leading(leading), Some(electorate)) = (&self.role, self.electorate()) else { return Ok(()) };
        let (lease, me) = (self.timing.lease_duration, self.ballot.identity);
        electorate.can_do_without(&gone.id, |voter| {
            let heard = leading.heard.get(&voter.identity);
            voter.identity == me || heard.is_some_and(|heard| around.now.since(heard.last) < lease)
        })
    }

    /// Whether nobody can be added.
    fn is_full(&self) -> bool {
        self.electorate().is_some_and(|electorate| electorate.voters.len() >= MAX_VOTERS)
    }

    /// Why there is to be no other change now.
    pub(super) fn busy(&self, around: &Surroundings<'_>) -> ChangeError {
        let is_answered = self.wish_under_way().is_some_and(|wish| wish.ticket.is_none());
        let late = self.who_does_not_store(around).filter(|_| is_answered);
        late.map_or(ChangeError::Busy, |id| ChangeError::NotStored { id })
    }

    /// The error, if a view has been in flight for so long that somebody does not store it.
    pub(super) fn is_stuck(&self, around: &Surroundings<'_>) -> Option<ChangeError> {
        let Role::Leading(leading) = &self.role else { return None };
        let put = leading.numbering.last.unwrap_or(leading.elected_at);
        let is_late = around.now.since(put) >= STORING_TIMEOUT;
        (is_late && !self.is_newest_agreed()).then(|| self.not_stored(around))
    }

    /// The reason why the view in flight is not agreed in time.
    pub(super) fn not_stored(&self, around: &Surroundings<'_>) -> ChangeError {
        self.who_does_not_store(around).map_or(ChangeError::NotCarried, |id| ChangeError::NotStored { id })
    }

    /// The node whose disk keeps the view in flight from being agreed: this one, if its own write is pending, or else a voter
    /// that acknowledges renewals and does not have the view. A silent voter is never named, since nothing is known of its
    /// disk.
    fn who_does_not_store(&self, around: &Surroundings<'_>) -> Option<NodeId> {
        let (Role::Leading(leading), newest) = (&self.role, self.newest()) else { return None };
        if self.stored.accepted.as_ref().map(NumberedView::reference) != newest {
            return Some(self.me.clone());
        }
        let put = leading.numbering.last.unwrap_or(leading.elected_at);
        let asked = leading.renewal_sent_before(around.now - ANSWER_TIMEOUT)?;
        let is_late = |voter: &Voter| {
            let has_answered_since = leading.heard.get(&voter.identity).is_some_and(|heard| heard.last >= put);
            has_answered_since
                && leading.has_acknowledged(voter.identity, asked)
                && leading.accepted.get(&voter.identity).copied() != newest
        };
        let late = self.others().into_iter().filter(is_late);
        let last = late.max_by_key(|voter| leading.heard.get(&voter.identity).map(|heard| heard.last));
        last.map(|voter| voter.id)
    }

    fn wish(&mut self, around: &Surroundings<'_>, mut wish: Wish) {
        self.expire(around);
        wish.look_at = around.now + STORING_TIMEOUT;
        let (ticket, interval) = (wish.ticket, self.view_interval);
        match &mut self.role {
            Role::Leading(leading) if leading.has_claim() && leading.numbering.wish.is_none() => {
                leading.numbering.wish = Some(wish);
                leading.numbering.hasten(around.now, interval);
                self.number(around);
            }
            Role::Leading(leading) if leading.has_claim() => self.refuse(ticket, self.busy(around)),
            _ => self.refuse(ticket, ChangeError::NotLeader),
        }
    }

    /// Whether the voters are being asked whether they are there.
    pub(super) fn is_sounding(&self) -> bool {
        self.wish_under_way().is_some_and(Wish::is_sounding)
    }

    /// What an operator asked for, if it is not answered yet.
    pub(super) fn wish_under_way(&self) -> Option<&Wish> {
        let Role::Leading(leading) = &self.role else { return None };
        leading.numbering.wish.as_ref()
    }

    /// Goes on with the wish if its time has come.
    pub(super) fn tend_change(&mut self, around: &Surroundings<'_>) {
        self.ask_for_identity(around);
        self.teach(around);
        let Some(wish) = self.wish_under_way().filter(|wish| around.now >= wish.deadline()) else {
            return;
        };
        match &wish.what {
            What::Sounding { change, sequence, .. } => {
                let error = wish.unfinished(change, self.why_not_backed(change, *sequence));
                self.drop_wish(error);
            }
            What::InFlight { .. } if self.awaits_own_disk() => {
                // It may hang for good. Only another term may use this number once more: the change can be on the disk yet.
                self.store_failed(around);
            }
            What::InFlight { sequence, latest, .. }
                if around.now < *latest && self.waits_for_disks_alone(*sequence) =>
            {
                self.wait_for_disks(around);
            }
            What::InFlight { sequence, .. } => {
                // Where the electorate in force is lost, that of the change may be enough, as a later leader finds.
                if self.is_electorate_in_force_there(*sequence) {
                    self.take_back(around, ChangeError::NotCarried);
                } else {
                    self.wait_on(around);
                }
            }
            What::TakenBack { .. } => {
                let late = self.who_does_not_store(around);
                let error = late.map_or(ChangeError::Interrupted, |id| ChangeError::Unsettled { id });
                self.answer_early(error);
                self.wait_on(around);
            }
            What::Wanted(change) if !self.is_newest_agreed() => {
                let error = wish.unfinished(change, self.not_stored(around));
                self.drop_wish(error);
            }
            What::Wanted(_) => self.look_later(around),
            What::Ask { .. } | What::Teach { .. } => {}
        }
    }

    /// Asks those that would vote after the change that is wanted, if one is, whether they are there.
    pub(super) fn sound_voters(&mut self, around: &Surroundings<'_>) {
        let Some(last) = self.last_renewal() else { return };
        let Role::Leading(leading) = &mut self.role else { return };
        let Some(wish) = &mut leading.numbering.wish else { return };
        if let What::Wanted(change) = &wish.what {
            let (change, until) = (change.clone(), around.now + SOUNDING_TIMEOUT);
            wish.what = What::Sounding { change, sequence: last + 1, until };
            self.renew(around);
        }
    }

    /// Whether enough of those that would vote after the change have answered, and the claim rests on those that vote now.
    pub(super) fn is_change_backed(&self) -> bool {
        let (Role::Leading(leading), Some(electorate)) = (&self.role, self.electorate()) else { return false };
        let Some(Wish { what: What::Sounding { change, sequence, .. }, .. }) = &leading.numbering.wish else {
            return false;
        };
        let has_answered = |identity| leading.has_acknowledged(identity, *sequence);
        #[cfg(test)]
        let has_answered = |identity| has_answered(identity) || self.has(super::flaw::Flaw::OldAnswersCount);
        let after = electorate.changed(change);
        leading.claim_rests_on(electorate) && after.is_none_or(|after| after.has_majority(has_answered))
    }

    /// The reason why a change was not put to the voters that were asked by this renewal.
    fn why_not_backed(&self, change: &VoterChange, sequence: u64) -> ChangeError {
        let (Role::Leading(leading), Some(electorate)) = (&self.role, self.electorate()) else {
            return ChangeError::NotLeader;
        };
        let has_answered = |voter: &Voter| leading.has_acknowledged(voter.identity, sequence);
        match change {
            VoterChange::Added(learner) if !has_answered(learner) => {
                ChangeError::LearnerSilent { id: learner.id.clone() }
            }
            VoterChange::Removed(gone) => {
                electorate.can_do_without(&gone.id, has_answered).err().unwrap_or(ChangeError::NotCarried)
            }
            VoterChange::Added(_) => ChangeError::NotCarried,
        }
    }

    /// The electorate of the next view, and how it changes; `None` if the change is none, which is answered.
    pub(super) fn change_to_propose(
        &mut self,
        around: &Surroundings<'_>,
        base: &NumberedView,
    ) -> Option<(Arc<Electorate>, Option<VoterChange>)> {
        let last = self.last_renewal()?;
        let Role::Leading(leading) = &mut self.role else { return None };
        let wish = leading.numbering.wish.as_mut();
        let Some(wish) = wish.filter(|wish| wish.is_sounding()) else {
            return Some((Arc::clone(&base.electorate), None));
        };
        let What::Sounding { change, .. } = &wish.what else { return None };
        let change = change.clone();
        let Some(electorate) = base.electorate.changed(&change) else {
            self.drop_wish(ChangeError::NoChange { reason: Unchanged::OutOfBounds });
            return None;
        };
        let until = around.now + SLOW_DISK_TIMEOUT;
        wish.what = What::InFlight { change: change.clone(), sequence: last + 1, until, latest: until };
        Some((Arc::new(electorate), Some(change)))
    }

    /// The leader's own disk has the change: the voters are told now, and their time begins.
    pub(super) fn begin_voters_time(&mut self, around: &Surroundings<'_>) {
        let Some(last) = self.last_renewal() else { return };
        // Whoever has a view that leaves its leader out acknowledges nothing of it any more: time for the way back must be left.
        let slow = SLOW_DISK_TIMEOUT.min(self.timing.lease_duration * 3 / 4).max(CHANGE_TIMEOUT);
        let slow = if self.is_voter() { SLOW_DISK_TIMEOUT } else { slow };
        let Role::Leading(leading) = &mut self.role else { return };
        if let Some(Wish { what: What::InFlight { sequence, until, latest, .. }, .. }) = &mut leading.numbering.wish {
            *sequence = last + 1;
            *until = around.now + CHANGE_TIMEOUT;
            *latest = around.now + slow;
        }
        self.renew(around);
    }

    /// Whether enough voters for the change in flight have it, or have acknowledged this renewal or a later one: then nothing
    /// but their disks is late.
    fn waits_for_disks_alone(&self, sequence: u64) -> bool {
        let (Role::Leading(leading), Some(view)) = (&self.role, &self.ballot.accepted) else { return false };
        let newest = Some(view.reference());
        let is_there =
            |voter| leading.has_acknowledged(voter, sequence) || leading.accepted.get(&voter).copied() == newest;
        view.is_carried_by(true, is_there)
    }

    /// Gives slow disks more time, and asks the voters whether they are still there, unless they could not answer a leader
    /// that is to go.
    fn wait_for_disks(&mut self, around: &Surroundings<'_>) {
        let Some(last) = self.last_renewal() else { return };
        let may_ask = self.is_voter();
        let Role::Leading(leading) = &mut self.role else { return };
        if let Some(Wish { what: What::InFlight { sequence, until, latest, .. }, .. }) = &mut leading.numbering.wish {
            if may_ask {
                *sequence = last + 1;
            }
            *until = (around.now + ANSWER_TIMEOUT).min(*latest);
        }
        if may_ask {
            self.renew(around);
        }
    }

    /// Puts the electorate in force to the voters once more, in place of the change that is in flight; this is answered when
    /// that is agreed.
    fn take_back(&mut self, around: &Surroundings<'_>, error: ChangeError) {
        let is_proposing = self.is_proposing();
        let (Some(agreed), Some(accepted)) = (self.agreed.clone(), self.ballot.accepted.as_ref()) else { return };
        let is_possible = is_proposing
            && accepted.number < MAX_NUMBER
            && accepted.former_electorate().as_ref() == Some(&*agreed.electorate);
        #[cfg(test)]
        let is_possible = is_possible && !self.has(super::flaw::Flaw::TakesNothingBack);
        let number = accepted.number + 1;
        let Role::Leading(leading) = &mut self.role else { return };
        let Some(wish) = &mut leading.numbering.wish else { return };
        let What::InFlight { change, .. } = &wish.what else { return };
        if !is_possible {
            return self.wait_on(around);
        }
        let change = change.clone();
        let error = wish.unfinished(&change, error);
        wish.what = What::TakenBack { change, error, until: around.now + STORING_TIMEOUT };
        let electorate = Arc::clone(&agreed.electorate);
        self.put_to_voters(around, agreed, number, (around.members)().into(), (electorate, None));
    }

    /// Whether a majority of those that voted before the change in flight has acknowledged this renewal, or a later one.
    fn is_electorate_in_force_there(&self, sequence: u64) -> bool {
        let (Role::Leading(leading), Some(agreed)) = (&self.role, &self.agreed) else { return false };
        agreed.electorate.has_majority(|voter| leading.has_acknowledged(voter, sequence))
    }

    /// The leader's disk did not take the change: no voter was told of it, and none will be.
    pub(super) fn withdraw_change(&mut self) {
        let Some(base) = self.base().filter(|_| self.awaits_own_disk()).cloned() else { return };
        self.ballot.accepted = Some(base);
        self.persist();
        let Some(Wish { what: What::InFlight { change, .. }, .. }) = self.wish_under_way() else { return };
        let error = ChangeError::OwnDisk { id: self.me.clone() };
        let error = self.wish_under_way().map_or(ChangeError::Interrupted, |wish| wish.unfinished(change, error));
        self.drop_wish(error);
    }

    /// Says what is to be said of a wish that goes on.
    fn answer_early(&mut self, error: ChangeError) {
        let Role::Leading(leading) = &mut self.role else { return };
        let ticket = leading.numbering.wish.as_mut().and_then(|wish| wish.ticket.take());
        self.refuse(ticket, error);
    }

    fn look_later(&mut self, around: &Surroundings<'_>) {
        let Role::Leading(leading) = &mut self.role else { return };
        if let Some(wish) = &mut leading.numbering.wish {
            wish.look_at = around.now + STORING_TIMEOUT;
        }
    }

    /// What is in flight takes longer: whoever wants to leave leaves now.
    fn wait_on(&mut self, around: &Surroundings<'_>) {
        let Role::Leading(leading) = &mut self.role else { return };
        if leading.is_leaving {
            self.resign_for(around, None);
        } else if let Some(Wish { what: What::InFlight { until, .. } | What::TakenBack { until, .. }, .. }) =
            &mut leading.numbering.wish
        {
            *until = around.now + CHANGE_TIMEOUT;
        }
    }

    /// A leader that leaves takes a change back that is in flight, before it gives leadership up: those that are left may not
    /// be enough to elect anybody by it. Says whether that is under way.
    pub(super) fn settles_first(&mut self, around: &Surroundings<'_>) -> bool {
        let is_aside = self.is_aside;
        let Role::Leading(leading) = &mut self.role else { return false };
        let is_in_flight = leading.numbering.wish.as_ref().is_some_and(Wish::is_in_flight);
        #[cfg(test)]
        let is_in_flight = is_in_flight && self.flaw != Some(super::flaw::Flaw::LeavesAtOnce);
        if !is_in_flight || is_aside || !leading.has_claim() {
            return false;
        }
        leading.is_leaving = true;
        self.take_back(around, ChangeError::NotLeader);
        true
    }

    /// Whether a change, or what takes it back, is in flight.
    pub(super) fn has_change_in_flight(&self) -> bool {
        self.wish_under_way().is_some_and(Wish::is_in_flight)
    }

    /// The view in flight was agreed: what its wish came to.
    pub(super) fn end_change(&mut self, around: &Surroundings<'_>, view: &NumberedView) {
        let interval = self.view_interval;
        let Role::Leading(leading) = &mut self.role else { return };
        let Some(mut wish) = leading.numbering.wish.take_if(|wish| wish.is_in_flight()) else { return };
        let result = match (wish.what, wish.in_place_of.take()) {
            (What::TakenBack { error, .. }, _) => Err(error),
            (What::InFlight { change: VoterChange::Added(new), .. }, Some(old)) => {
                // The first half is done.
                wish.added = Some(new.id);
                wish.what = What::Wanted(VoterChange::Removed(old));
                wish.look_at = around.now + STORING_TIMEOUT;
                leading.numbering.wish = Some(wish);
                return leading.numbering.hasten(around.now, interval);
            }
            _ => Ok((*view.electorate).clone()),
        };
        if let Some(ticket) = wish.ticket {
            self.actions.push_back(Action::Answer { ticket, result });
        }
    }

    /// Leadership ends before the change was agreed.
    pub(super) fn interrupt_change(&mut self) {
        let Some(wish) = self.wish_under_way() else { return };
        let error = match &wish.what {
            What::Wanted(change)
            | What::Sounding { change, .. }
            | What::InFlight { change, .. }
            | What::TakenBack { change, .. }
                if wish.added.is_some() =>
            {
                wish.unfinished(change, ChangeError::NotLeader)
            }
            _ => ChangeError::Interrupted,
        };
        self.drop_wish(error);
    }

    /// The wish came to nothing.
    fn drop_wish(&mut self, error: ChangeError) {
        let Role::Leading(leading) = &mut self.role else { return };
        let ticket = leading.numbering.wish.take().and_then(|wish| wish.ticket);
        self.refuse(ticket, error);
    }

    /// Answers an operator that nothing is done.
    pub(in crate::core) fn refuse(&mut self, ticket: Option<u64>, error: ChangeError) {
        if let Some(ticket) = ticket {
            self.actions.push_back(Action::Answer { ticket, result: Err(error) });
        }
    }
}
