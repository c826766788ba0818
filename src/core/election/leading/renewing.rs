//! Renewals: sent to all voters, acknowledged by them, and what becomes of voters that leave.
//!
//! Invariant: a renewal that no majority has acknowledged is followed by another one soon.
//!
//! Must not know: what a claim permits.

use std::collections::{BTreeMap, VecDeque};

use super::state::{Heard, Leading};
use super::trying::Trial;
use crate::election::electorate::Identity;
use crate::election::message::Body;
use crate::election::term::Term;
use crate::election::view::{NumberedView, ViewRef};
use crate::election::{Action, Alarm, Context, Election, Role, Rules};
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
        self.leader = Some(me);
        self.failures = 0;
        self.votes = None;
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
            numbering: crate::election::numbering::Numbering::new(self.agreed.clone()),
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
        let agreed = self.agreed.as_ref().map(NumberedView::reference);
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
        let (timing, agreed) = (self.timing, self.agreed.as_ref().map(NumberedView::reference));
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
        let Role::Leading(leading) = &mut self.role else {
            self.ignored += 1;
            return;
        };
        if leading.term != term || sequence > leading.sequence || sequence == 0 || leading.is_resigning() {
            self.ignored += 1;
            return;
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
        let Role::Leading(leading) = &mut self.role else {
            self.ignored += 1;
            return;
        };
        if leading.term != term {
            self.ignored += 1;
            return;
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
