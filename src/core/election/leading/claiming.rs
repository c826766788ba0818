//! The claim: by how many acknowledgements, and until when.
//!
//! Invariant: a claim lasts from when its renewal was sent, never from when an acknowledgement came.
//!
//! Must not know: what is led by it.

use std::time::Duration;

use super::state::Held;
use crate::election::electorate::{Electorate, Identity};
use crate::election::{Action, Alarm, ChangeError, Context, Election, LossReason, Role, Rules};
use crate::time::Time;

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

    /// Ends the claim if its time is past.
    pub(crate) fn expire_claim(&mut self, context: &Context<'_>) {
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
