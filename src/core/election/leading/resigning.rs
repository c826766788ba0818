//! Giving leadership up: on the way out, on command, or for a voter that is preferred.
//!
//! Invariants: voters are released only when all led work has ended; the voter that is to stand first has the newest
//! view; every command is answered once.
//!
//! Must not know: why somebody leaves.

use std::sync::Arc;

use super::{Heard, Resigning};
use crate::election::electorate::Identity;
use crate::election::message::Body;
use crate::election::term::Term;
use crate::election::view::MAX_NUMBER;
use crate::election::{Action, ChangeError, Context, Election, LossReason, OnResign, Role, Rules};
use crate::limits::{PREFERENCE_LEASES, RELEASE_PAUSE, RELEASES, SLOW_DISK_TIMEOUT};
use crate::member::NodeId;
use crate::time::Time;

/// An operator's command that this leader is to resign, until enough others have stored something.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Trial {
    ticket: u64,
    /// The voter that is to stand first, if one was named.
    to: Option<Identity>,
    /// The number of the view that was agreed last when this began: a later one is a proof.
    above: u64,
    until: Time,
}

impl Trial {
    pub(super) fn until(&self) -> Time {
        self.until
    }
}

impl<R: Rules> Election<R> {
    /// Gives leadership up, as when leaving: at once no claim, and the voters are released when all led work has ended.
    /// Returns true if there is anything to give up. A change of the electorate that is in flight is settled before.
    pub fn resign(&mut self, context: &Context<'_>) -> bool {
        self.expire(context);
        self.settles_first(context) || self.resign_for(context, None)
    }

    /// Acts for an operator that wants the leader of this term to give leadership up, perhaps to this voter. Answered
    /// once others have stored something, so that one of them can be elected (see `try_to_resign`): the claim is over then, and
    /// the voters are released when all led work has ended.
    pub fn resign_to(&mut self, context: &Context<'_>, ticket: u64, term: Term, to: Option<&NodeId>) {
        self.expire(context);
        let successor = match self.may_resign_to(context, term, to) {
            Ok(successor) => successor,
            Err(error) => return self.refuse(Some(ticket), error),
        };
        self.try_to_resign(context, ticket, successor);
    }

    /// Returns the voter that is to stand first, if that can be: it votes, was heard within half a lease, and holds the
    /// newest view, since nobody would vote for it otherwise.
    fn may_resign_to(
        &self,
        context: &Context<'_>,
        term: Term,
        to: Option<&NodeId>,
    ) -> Result<Option<Identity>, ChangeError> {
        let Role::Leading(leading) = &self.role else { return Err(ChangeError::NotLeader) };
        if !leading.has_claim() || leading.term != term {
            return Err(ChangeError::NotLeader);
        }
        if self.has_change_in_flight() || leading.trial.is_some() {
            return Err(self.busy(context));
        }
        if let Some(error) = self.is_stuck(context) {
            return Err(error);
        }
        let Some(id) = to else { return Ok(None) };
        if *id == self.me {
            return Err(ChangeError::LeadsAlready { id: id.clone() });
        }
        let Some(voter) = self.electorate().and_then(|electorate| electorate.named(id)) else {
            return Err(ChangeError::NotVoter { id: id.clone() });
        };
        if self.draining.contains(id) {
            return Err(ChangeError::Draining { id: id.clone() });
        }
        let lately = self.timing.lease_duration / 2;
        let is_heard = leading.heard.get(&voter.identity).is_some_and(|heard| context.now.since(heard.last) <= lately);
        if !is_heard || !self.has_newest(voter.identity) {
            return Err(ChangeError::NotCaughtUp { id: id.clone() });
        }
        Ok(Some(voter.identity))
    }

    pub(crate) fn resign_for(&mut self, context: &Context<'_>, successor: Option<Identity>) -> bool {
        self.expire(context);
        let Role::Leading(leading) = &mut self.role else { return false };
        if leading.resigning.is_some() {
            return true;
        }
        let (term, had_claim) = (leading.term, leading.has_claim());
        let lasts_until = leading.claim.map(|claim| claim.until).filter(|_| self.policy.on_resign == OnResign::Expire);
        // Without a claim nothing was led, and yet some may have promised something.
        let resigning = Resigning {
            has_work_ended: !had_claim,
            successor,
            stays: leading.trial.is_some(),
            lasts_until,
            releases: 0,
            release_at: context.now,
        };
        leading.resigning = Some(resigning);
        self.fail_confirmations();
        self.interrupt_change();
        if had_claim {
            self.actions.push_back(Action::Lost { term, reason: LossReason::Resigned });
            self.end_trial(Ok(()));
        } else {
            self.release(context);
        }
        true
    }

    /// Hands over to a voter of a higher priority, if it has kept up for some leases: a voter that comes and goes gets
    /// nothing. It follows that this node has led for as long, so that leadership moves at most once in this time.
    pub(super) fn prefer(&mut self, context: &Context<'_>) {
        let (Role::Leading(leading), Some(electorate)) = (&self.role, self.electorate()) else { return };
        let is_at_rest = leading.numbering.is_settled && !self.is_changing() && leading.trial.is_none();
        if !leading.has_claim() || !is_at_rest {
            return;
        }
        let lease = self.timing.lease_duration;
        let is_preferred = |(identity, heard): &(&Identity, &Heard)| {
            heard.priority > self.policy.priority
                && context.now.since(heard.last) <= lease / 2
                // Of those that came at about the same time the best one is waited for.
                && context.now.since(heard.since) >= lease * (PREFERENCE_LEASES - 1)
                && electorate.contains(**identity)
        };
        let preferred = leading.heard.iter().filter(is_preferred);
        let Some((best, heard)) = preferred.max_by_key(|(identity, heard)| (heard.priority, **identity)) else {
            return;
        };
        let has_kept_up = context.now.since(heard.since) >= lease * PREFERENCE_LEASES;
        let best = *best;
        if has_kept_up && self.has_newest(best) {
            self.resign_for(context, Some(best));
        }
    }

    /// Takes note that all that was led in this term has ended.
    pub fn work_ended(&mut self, context: &Context<'_>, term: Term) {
        self.expire(context);
        if let Role::Leading(leading) = &mut self.role
            && leading.term == term
            && let Some(resigning) = &mut leading.resigning
        {
            resigning.has_work_ended = true;
            resigning.release_at = resigning.lasts_until.map_or(context.now, |until| until.max(context.now));
            self.release(context);
        }
    }

    /// Returns true if this node is giving leadership up and has not released the voters yet.
    pub fn is_resigning(&self) -> bool {
        matches!(&self.role, Role::Leading(leading) if leading.is_resigning())
    }

    /// Returns true if the end of its leadership is still to be waited for by who wants to leave: for a change that is
    /// in flight, for the end of led work, and for the releases, but not for a claim that is to run out.
    pub fn is_handing_over(&self) -> bool {
        let Role::Leading(leading) = &self.role else { return false };
        if leading.is_resigning() { !leading.may_release() } else { leading.is_leaving }
    }

    /// Frees the voters of their promises, a few times over since packets get lost.
    pub(super) fn release(&mut self, context: &Context<'_>) {
        let (retry, me) = (self.timing.retry(), self.ballot.identity);
        let best = self.successor();
        let Role::Leading(leading) = &mut self.role else { return };
        let term = leading.term;
        let Some(resigning) = leading.resigning.as_mut().filter(|resigning| resigning.has_work_ended) else { return };
        if context.now < resigning.release_at {
            return;
        }
        let successor = resigning.successor.or(best);
        let is_first = resigning.releases == 0;
        resigning.releases += 1;
        resigning.release_at = context.now + retry.min(RELEASE_PAUSE);
        let (is_last, stays) = (resigning.releases >= RELEASES, resigning.stays);
        self.send_to_all(&Body::Release { term, successor: successor.unwrap_or(me) });
        if is_first {
            self.forget_promises(context);
            self.actions.push_back(Action::Released { term });
        }
        if is_last {
            // Nobody counts on its promise to itself any more.
            self.promised_until = context.now;
            self.volatile.leader = None;
            self.follow(context);
            self.step_back(context, stays);
        }
    }

    /// Steps back: whoever gave leadership up stands again only in case nobody else does. Where no other voter may stand
    /// nobody would, for as long as it waits, if it is to lead again.
    pub(super) fn step_back(&mut self, context: &Context<'_>, stays: bool) {
        if !stays || self.others().iter().any(|voter| !self.draining.contains(&voter.id)) {
            self.stand_at = self.stand_at.max(context.now + self.timing.lease_duration);
        }
    }

    /// Returns the voter that is to stand first: one that does not drain, has the newest view and was heard lately; of
    /// those the one of the highest priority, then the one that was heard last.
    fn successor(&self) -> Option<Identity> {
        let Role::Leading(leading) = &self.role else { return None };
        let electorate = self.electorate()?;
        let voters = leading.heard.iter().filter(|(identity, _)| electorate.contains(**identity));
        let newest = voters.clone().map(|(_, heard)| heard.last).max()?;
        let lately = self.timing.lease_duration / 2;
        let rank = |(identity, heard): &(&Identity, &Heard)| {
            let is_there = newest.since(heard.last) <= lately;
            let voter = electorate.identified(**identity);
            let would_stand = voter.is_some_and(|voter| !self.draining.contains(&voter.id));
            (
                would_stand,
                leading.accepted.get(identity).copied(),
                is_there,
                heard.priority,
                leading.acknowledged.get(identity).copied(),
            )
        };
        voters.max_by_key(rank).map(|(identity, _)| *identity)
    }
}

/// Resigning at an operator's command: not before others have stored what was put to them since.
///
/// Nobody writes anything while a leader leads on, so that full disks show only when somebody is to be elected, and then
/// nobody is. So the leader first puts its view to the voters once more, under the next number, and gives leadership up
/// when that is agreed and on the disk of a voter that may stand. If it is not in time it leads on, and says why.
impl<R: Rules> Election<R> {
    /// Begins to find out whether others store, and resigns if they do; a voter that is alone resigns at once.
    pub(super) fn try_to_resign(&mut self, context: &Context<'_>, ticket: u64, to: Option<Identity>) {
        let above = self.volatile.agreed.as_ref().map_or(0, |agreed| agreed.number);
        let (is_alone, is_last_number) = (self.others().is_empty(), above >= MAX_NUMBER);
        let Role::Leading(leading) = &mut self.role else { return };
        leading.trial = Some(Trial { ticket, to, above, until: context.now + SLOW_DISK_TIMEOUT });
        if self.rules.resigns_untried(is_alone) || is_last_number {
            self.resign_for(context, to);
        } else {
            self.continue_trial(context);
        }
    }

    /// Puts a view to the voters, resigns once it is stored, or gives that up.
    pub(crate) fn continue_trial(&mut self, context: &Context<'_>) {
        let Role::Leading(leading) = &self.role else { return };
        let Some(trial) = leading.trial.clone().filter(|_| leading.has_claim()) else { return };
        let agreed = self.volatile.agreed.as_ref().filter(|_| self.is_newest_agreed());
        let is_stored = agreed.is_some_and(|agreed| agreed.number > trial.above);
        let others = self.others();
        let mut standing = others.iter().filter(|voter| !self.draining.contains(&voter.id));
        let can_succeed = match &trial.to {
            Some(to) => self.has_newest(*to),
            // Where all others drain nobody else is to lead.
            None => standing.clone().count() == 0 || standing.any(|voter| self.has_newest(voter.identity)),
        };
        // A change that was wanted meanwhile is carried out first, unless that takes too long.
        let has_time = leading.numbering.pending.is_none() || context.now >= trial.until;
        if is_stored && can_succeed && has_time {
            self.resign_for(context, trial.to);
        } else if context.now >= trial.until {
            let error = match others.iter().find(|voter| is_stored && Some(voter.identity) == trial.to) {
                Some(voter) => ChangeError::NotCaughtUp { id: voter.id.clone() },
                None => self.not_stored(context),
            };
            self.end_trial(Err(error));
        } else if agreed.is_some() && !is_stored && leading.numbering.is_settled {
            let Some(base) = self.ballot.accepted.clone() else { return };
            let (members, electorate) = ((context.members)().into(), Arc::clone(&base.electorate));
            let number = base.number + 1;
            self.put_to_voters(context, base, number, members, (electorate, None));
        }
    }

    /// Answers the operator, if one waits.
    pub(crate) fn end_trial(&mut self, result: Result<(), ChangeError>) {
        let electorate = self.electorate().cloned();
        let Role::Leading(leading) = &mut self.role else { return };
        let Some(Trial { ticket, .. }) = leading.trial.take() else { return };
        let result = result.and_then(|()| electorate.ok_or(ChangeError::Interrupted));
        self.actions.push_back(Action::Answer { ticket, result });
    }
}
