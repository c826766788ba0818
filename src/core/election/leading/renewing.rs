//! Renewals: sent to all voters, acknowledged by them, and what becomes of voters that leave; and the claim: by how many
//! acknowledgements, and until when.
//!
//! Invariants: a renewal that no majority has acknowledged is followed by another one soon; a claim lasts from when its renewal
//! was sent, never from when an acknowledgement came.
//!
//! Must not know: what a claim permits.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::resigning::Trial;
use super::{Heard, Held, Leading};
use crate::election::electorate::{Electorate, Identity};
use crate::election::message::Body;
use crate::election::term::Term;
use crate::election::view::{NumberedView, ViewRef};
use crate::election::{Action, Alarm, ChangeError, Context, Election, LossReason, Role, Rules};
use crate::limits::MAX_RENEWALS_IN_FLIGHT;
use crate::member::NodeId;
use crate::time::Time;

impl<R: Rules> Election<R> {
    /// Begins to lead: the votes are in, and the own one is on disk.
    pub(crate) fn begin_to_lead(&mut self, context: &Context<'_>) {
        let (term, me) = (self.ballot.term, self.ballot.identity);
        let Some(accepted) = self.ballot.accepted.as_ref().filter(|accepted| accepted.term < term) else {
            // Somebody led later, and its view came by.
            return self.follow(context);
        };
        // Under the own term, or it would count for nothing: same number, same members.
        let view = accepted.under(term);
        self.volatile.leader = Some(me);
        self.failures = 0;
        self.volatile.votes = None;
        self.role = Role::Leading(Box::new(Leading {
            term,
            sequence: 0,
            sent: VecDeque::new(),
            acknowledged: BTreeMap::new(),
            freed: BTreeMap::new(),
            leavers: BTreeMap::new(),
            accepted: BTreeMap::new(),
            heard: BTreeMap::new(),
            ahead: BTreeMap::new(),
            claim: None,
            elected_at: context.now,
            renew_at: context.now,
            resigning: None,
            trial: None,
            is_leaving: false,
            numbering: crate::election::numbering::Numbering::new(self.volatile.agreed.clone()),
        }));
        if let Some(sent) = self.rules.claim_by_votes(context.now) {
            self.claim(context, 0, sent);
        }
        self.accept(view);
        self.lead(context);
    }

    pub(crate) fn leading_deadline(&self, leading: &Leading) -> Time {
        let claim = leading.claim.map(|claim| claim.until);
        let over = claim.filter(|_| !leading.may_release());
        let end = Some(leading.elected_at + self.timing.lease_duration).filter(|_| claim.is_none());
        let next = match leading.resigning {
            Some(resigning) => resigning.has_work_ended.then_some(resigning.release_at),
            None => Some(leading.renew_at),
        };
        let may_number = leading.has_claim() && !self.is_proposing();
        let view = leading.numbering.due(may_number).filter(|_| leading.resigning.is_none());
        let trial = leading.trial.as_ref().map(Trial::until).filter(|_| leading.resigning.is_none());
        [over, end, next, view, trial, self.confirms.deadline()]
            .into_iter()
            .flatten()
            .min()
            .expect("a claim or its end")
    }

    /// Renews when it is time, and numbers what has changed.
    pub(crate) fn lead(&mut self, context: &Context<'_>) {
        let Role::Leading(leading) = &self.role else { return };
        if leading.claim.is_none() && context.now >= leading.elected_at + self.timing.lease_duration {
            // Elected, and never heard by a majority since.
            self.set_quorum(false);
            self.actions.push_back(Action::Alarm(Alarm::ElectionFailed { is_answered: false }));
            self.free_myself(context);
            return self.follow(context);
        }
        if leading.resigning.is_some() {
            return self.release(context);
        }
        self.expire_confirms(context);
        self.number(context);
        self.continue_trial(context);
        let Role::Leading(leading) = &self.role else { return };
        if context.now >= leading.renew_at && leading.resigning.is_none() {
            if leading.has_failed_to_renew(context.now, self.timing.renewal_interval) {
                self.actions.push_back(Action::Alarm(Alarm::RenewalFailed));
            }
            self.renew(context);
        }
    }

    /// Sends a renewal to all voters.
    pub(crate) fn renew(&mut self, context: &Context<'_>) {
        let (timing, me) = (self.timing, self.ballot.identity);
        let mut voters = self.others();
        voters.extend(self.sounded_learner());
        let agreed = self.volatile.agreed.as_ref().map(NumberedView::reference);
        let Some(view) = self.view_for_voters().cloned() else { return };
        let Role::Leading(leading) = &mut self.role else { return };
        leading.sequence += 1;
        leading.sent.push_back((leading.sequence, context.now));
        if leading.sent.len() > MAX_RENEWALS_IN_FLIGHT {
            leading.sent.pop_front();
        }
        leading.renew_at = context.now + timing.retry();
        leading.acknowledged.insert(me, leading.sequence);
        let mut renewal = leading.renewal(context.now, timing, view.reference(), agreed);
        let deltas: Vec<_> = voters.iter().map(|voter| leading.delta_for(voter.identity, &view)).collect();
        // A leader promises itself what it asks of others.
        if self.promise(context, timing.lease_duration) {
            self.persist();
        }
        for (voter, delta) in voters.into_iter().zip(deltas) {
            self.inform_of_generation(&voter);
            renewal.delta = delta;
            self.send(&voter.id, Body::Renew(renewal.clone()));
        }
        self.extend_claim(context);
    }

    /// Returns the number of the last renewal, if this node leads.
    pub(crate) fn last_renewal(&self) -> Option<u64> {
        let Role::Leading(leading) = &self.role else { return None };
        Some(leading.sequence)
    }

    /// Tells somebody without a vote what voters are told: who is to be voted in, and who asks since it was voted out,
    /// or its being voted in came to nothing.
    pub(crate) fn inform(&mut self, context: &Context<'_>, id: &NodeId) {
        let (timing, agreed) = (self.timing, self.volatile.agreed.as_ref().map(NumberedView::reference));
        let Some(newest) = self.view_for_voters().map(NumberedView::reference) else { return };
        let Role::Leading(leading) = &self.role else { return };
        if leading.has_claim() {
            let renewal = leading.renewal(context.now, timing, newest, agreed);
            self.send(id, Body::Renew(renewal));
        }
    }

    /// Takes the acknowledgement of a voter.
    pub(crate) fn acknowledged(
        &mut self,
        context: &Context<'_>,
        speaker: Identity,
        (term, sequence): (Term, u64),
        newest: ViewRef,
        priority: u8,
    ) {
        let lease = self.timing.lease_duration;
        let Role::Leading(leading) = &mut self.role else { return self.ignore() };
        if leading.term != term || sequence > leading.sequence || sequence == 0 || leading.is_resigning() {
            return self.ignore();
        }
        let heard = leading.heard.entry(speaker).or_insert(Heard { last: context.now, since: context.now, priority });
        if context.now.since(heard.last) > lease {
            heard.since = context.now;
        }
        (heard.last, heard.priority) = (context.now, priority);
        if leading.freed.get(&speaker).is_none_or(|freed| *freed < sequence) {
            let acknowledged = leading.acknowledged.entry(speaker).or_insert(0);
            *acknowledged = sequence.max(*acknowledged);
        }
        if leading.leavers.get(&speaker).is_some_and(|(_, last)| *last < sequence) {
            // It is back.
            leading.leavers.remove(&speaker);
        }
        let accepted = leading.accepted.entry(speaker).or_insert(newest);
        *accepted = newest.max(*accepted);
        leading.ahead.remove(&speaker);
        self.extend_claim(context);
        self.free_leavers();
        self.count_acceptances(context);
        self.continue_trial(context);
        self.hear_learner(context, speaker, newest);
        if self.is_change_backed() {
            self.number(context);
        }
        self.prefer(context);
        self.resign_to_those_that_store(context);
    }

    /// Lets a voter leave. If the claim stands without it, it is free at once, also after a restart, and what it
    /// acknowledged counts no more.
    pub(crate) fn bid_farewell(&mut self, speaker: Identity, from: &NodeId, term: Term, sequence: u64) {
        let Role::Leading(leading) = &mut self.role else { return self.ignore() };
        if leading.term != term {
            return self.ignore();
        }
        leading.leavers.insert(speaker, (from.clone(), sequence));
        self.free_leavers();
    }

    /// Frees those of the leaving voters that the claim stands without: what they acknowledged counts no more.
    fn free_leavers(&mut self) {
        let Some(electorate) = self.electorate_in_force() else { return };
        let Role::Leading(leading) = &self.role else { return };
        let is_over = leading.resigning.is_some_and(|resigning| resigning.has_work_ended);
        let leavers: Vec<Identity> = leading.leavers.keys().copied().collect();
        for leaver in leavers {
            let Role::Leading(leading) = &mut self.role else { return };
            let stays = |identity: &Identity| *identity != leaver;
            let figure = |identity| Some(identity).filter(stays).and_then(|id| leading.acknowledged.get(&id).copied());
            let without = electorate.reached_by_majority(|identity| figure(identity).unwrap_or(0));
            let is_needed = leading.claim.is_some_and(|claim| self.rules.is_needed(claim.sequence, without));
            if is_needed && !is_over {
                continue;
            }
            leading.acknowledged.remove(&leaver);
            leading.freed.insert(leaver, leading.sequence);
            if let Some((id, sequence)) = leading.leavers.remove(&leaver) {
                let term = leading.term;
                self.send(&id, Body::Freed { term, sequence });
            }
        }
    }
}

/// The claim: by how many acknowledgements, and until when.
impl<R: Rules> Election<R> {
    /// Returns the voters by whose majority this leader's claim is counted: those of the newest view, but for a change
    /// of its own that is not agreed yet.
    pub(super) fn electorate_in_force(&self) -> Option<Electorate> {
        let view = self.ballot.accepted.as_ref()?;
        let former = view.former_electorate().filter(|_| self.is_proposing());
        Some(former.unwrap_or_else(|| (*view.electorate).clone()))
    }

    /// Extends the claim: it lasts from when the newest renewal was sent that a majority acknowledged.
    pub(super) fn extend_claim(&mut self, context: &Context<'_>) {
        let (Some(in_force), Some(view)) = (self.electorate_in_force(), &self.ballot.accepted) else { return };
        let Role::Leading(leading) = &self.role else { return };
        if self.stored.term != leading.term || self.stored.promise < self.timing.lease_duration {
            return;
        }
        let figure = |identity: Identity| leading.acknowledged.get(&identity).copied().unwrap_or(0);
        let sequence = self.rules.claimed_by(&in_force, &view.electorate, figure);
        let is_news = leading.claim.is_none_or(|claim| claim.sequence < sequence);
        let sent = leading.sent_at(sequence).map(|sent| self.rules.claim_begins(sent, context.now));
        if let Some(sent) = sent.filter(|_| is_news && !leading.is_resigning()) {
            self.claim(context, sequence, sent);
        }
    }

    pub(super) fn claim(&mut self, context: &Context<'_>, sequence: u64, sent: Time) {
        let (timing, until) = (self.timing, sent + self.timing.claim());
        if until <= context.now {
            // Acknowledged so late that it is over already.
            return;
        }
        self.set_quorum(true);
        let Role::Leading(leading) = &mut self.role else { return };
        let is_first = leading.claim.is_none();
        leading.claim = Some(Held { sequence, sent, until });
        let term = leading.term;
        self.actions.push_back(Action::Claimed { term, sequence, sent, until });
        if is_first && sequence > 0 {
            // Whoever follows learns at once that this is a claim.
            self.renew(context);
        }
        self.confirmed(context, sequence, until);
        let is_asking = !self.confirms.is_empty() || self.is_sounding();
        if let Role::Leading(leading) = &mut self.role
            && !is_asking
        {
            // Renewals sent since are under way as well: the next one is due as if this had been the last.
            leading.renew_at = leading.renew_at.max(sent + timing.renewal_interval);
        }
    }

    /// Returns the time for which the claim lasts, if there is one.
    pub fn claim_left(&self, now: Time) -> Option<Duration> {
        let Role::Leading(leading) = &self.role else { return None };
        leading.claim.filter(|_| leading.has_claim()).map(|claim| claim.until.since(now))
    }

    /// Ends a claim whose time is past. Called before any input is looked at: a process that was stopped must not act
    /// on a claim that ran out meanwhile.
    pub fn expire(&mut self, context: &Context<'_>) {
        let Role::Leading(leading) = &self.role else { return };
        if leading.claim.is_some_and(|claim| context.now >= claim.until) {
            if leading.may_release() {
                return self.release(context);
            }
            if leading.is_resigning() {
                // Its led work has not ended in time. Whoever did not want to lead lets others stand first.
                let stays = leading.resigning.is_some_and(|resigning| resigning.stays);
                self.end_own_promise(context);
                self.follow(context);
                return self.step_back(context, stays);
            }
            // A process that stood still has asked nobody: it knows nothing of the voters.
            let has_asked = context.now.since(leading.renew_at) < self.timing.spread();
            if has_asked {
                self.set_quorum(false);
                self.actions.push_back(Action::Alarm(Alarm::RenewalFailed));
            }
            let reason = if has_asked { LossReason::QuorumLost } else { LossReason::Expired };
            self.rules.end_with_claim(self, context, reason);
        }
    }

    /// Ends leadership, whatever it was that ended it.
    pub(crate) fn step_down(&mut self, context: &Context<'_>, reason: LossReason) {
        if matches!(self.role, Role::Leading(_)) {
            self.free_myself(context);
            self.give_claim_up(context, reason);
        }
    }

    /// Ends leadership before the time of the claim is past. What was led may use that time to end: this node stays
    /// bound by its promise to itself, like its voters by theirs.
    pub(crate) fn give_claim_up(&mut self, context: &Context<'_>, reason: LossReason) {
        let Role::Leading(leading) = &self.role else { return };
        if leading.has_claim() {
            self.actions.push_back(Action::Lost { term: leading.term, reason });
        }
        self.interrupt_change();
        self.end_trial(Err(ChangeError::Interrupted));
        self.follow(context);
    }

    /// Frees a leader of its promise to itself, which is worth as much as its claim: that is over, or never began. The
    /// voters for which it gave leadership up wait for its led work, and are released by it (see [`Election::resign`]).
    pub(crate) fn free_myself(&mut self, context: &Context<'_>) {
        if !self.is_resigning() {
            self.end_own_promise(context);
        }
    }

    fn end_own_promise(&mut self, context: &Context<'_>) {
        self.promised_until = self.promised_until.min(context.now);
        self.forget_promises(context);
    }
}
