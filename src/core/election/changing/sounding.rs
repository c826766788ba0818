//! Learning and sounding, before a change is put to the voters: a voter to be added sends its identity, gets the leader's view
//! onto its disk and acknowledges a renewal before it votes (Raft, section 4.2.1: the majority may need it from that moment
//! on); and those that would vote after the change are asked whether they are there.
//!
//! Invariants: each step ends, by an answer or by its time; only what was acknowledged since the question counts.
//!
//! Must not know: what becomes of a change that is in flight.

use std::sync::Arc;

use super::{ChangeStage, PendingChange};
use crate::election::electorate::{Electorate, Identity, Voter, VoterChange};
use crate::election::view::{NumberedView, ViewRef};
use crate::election::{ChangeError, Context, Election, Role, Rules, Unchanged};
use crate::limits::{IDENTITY_TIMEOUT, LEARNING_TIMEOUT, SLOW_DISK_TIMEOUT, SOUNDING_TIMEOUT};
use crate::member::NodeId;

/// Learning.
impl<R: Rules> Election<R> {
    /// Returns the first step of an addition: the node to add is asked for its identity from now on.
    pub(crate) fn asking(&self, context: &Context<'_>, id: NodeId) -> ChangeStage {
        ChangeStage::Ask { id, ask_at: context.now, until: context.now + self.timing.patience().max(IDENTITY_TIMEOUT) }
    }

    /// Asks the node to add for its identity.
    pub(crate) fn ask_for_identity(&mut self, context: &Context<'_>) {
        let retry = self.timing.retry();
        let Some(PendingChange { stage: ChangeStage::Ask { id, ask_at, until }, .. }) = self.change_mut() else {
            return;
        };
        let id = id.clone();
        if context.now >= *until {
            return self.drop_wish(ChangeError::NoAnswer { id });
        }
        if context.now >= *ask_at {
            *ask_at = context.now + retry;
            self.introduce(&id, true);
        }
    }

    /// Takes an identity, if its sender is the node to add.
    pub(crate) fn learner_identified(&mut self, context: &Context<'_>, from: &NodeId, identity: Identity) {
        let patience = self.timing.patience();
        let Some(pending) = self.change_mut() else { return };
        if matches!(&pending.stage, ChangeStage::Ask { id, .. } if id == from) {
            let learner = Voter { id: from.clone(), identity };
            let until = context.now + patience.max(LEARNING_TIMEOUT);
            pending.stage = ChangeStage::Teach { learner, ask_at: context.now, until };
            self.teach(context);
        }
    }

    /// Sends the learner what voters are sent, until it acknowledges.
    pub(crate) fn teach(&mut self, context: &Context<'_>) {
        let retry = self.timing.retry();
        let Some(PendingChange { stage: ChangeStage::Teach { learner, ask_at, until }, .. }) = self.change_mut() else {
            return;
        };
        let learner = learner.clone();
        if context.now >= *until {
            // The learner may have done its part, and wait for others.
            let waits_for_others = self.has_newest(learner.identity) && !self.is_newest_agreed();
            let error =
                if waits_for_others { self.not_stored(context) } else { ChangeError::LearnerSilent { id: learner.id } };
            return self.drop_wish(error);
        }
        if context.now >= *ask_at {
            *ask_at = context.now + retry;
            self.inform_of_generation(&learner);
            self.inform(context, &learner.id);
        }
    }

    /// Returns true if this identity is the learner's: it is to be added, and is no voter yet.
    pub(crate) fn is_learner(&self, identity: Identity) -> bool {
        self.change_under_way().and_then(PendingChange::learner).is_some_and(|learner| learner.identity == identity)
    }

    /// Returns the learner that is asked, along with the voters, whether it is there.
    pub(crate) fn sounded_learner(&self) -> Option<Voter> {
        self.change_under_way().filter(|pending| pending.is_sounding()).and_then(PendingChange::learner).cloned()
    }

    /// Takes a learner's acknowledgement: if the view on its disk is of this term, it may become a voter.
    pub(crate) fn hear_learner(&mut self, context: &Context<'_>, speaker: Identity, newest: ViewRef) {
        let interval = self.view_interval;
        let is_taught = self.is_learner(speaker);
        let is_in_flight = !self.is_newest_agreed();
        let Role::Leading(leading) = &mut self.role else { return };
        if !is_taught || newest.term != leading.term {
            return;
        }
        let is_due = leading.numbering.last.is_none_or(|last| context.now >= last + interval);
        if !leading.numbering.is_settled || is_in_flight || !is_due {
            // The learner might die before the change can be proposed to the voters: it is taught until then.
            return;
        }
        if let Some(pending) = &mut leading.numbering.pending
            && let ChangeStage::Teach { learner, .. } = &pending.stage
        {
            let change = VoterChange::Added(learner.clone());
            pending.want(context, change);
            leading.numbering.hasten(context.now, interval);
            self.number(context);
        }
    }
}

/// Sounding.
impl<R: Rules> Election<R> {
    /// Returns true if the voters are being asked whether they are there.
    pub(crate) fn is_sounding(&self) -> bool {
        self.change_under_way().is_some_and(PendingChange::is_sounding)
    }

    /// Asks those that would vote after the change that is wanted, if one is, whether they are there.
    pub(crate) fn sound_voters(&mut self, context: &Context<'_>) {
        let Some(last) = self.last_renewal() else { return };
        let Some(pending) = self.change_mut() else { return };
        if let ChangeStage::Wanted(change) = &pending.stage {
            let (change, until) = (change.clone(), context.now + SOUNDING_TIMEOUT);
            pending.stage = ChangeStage::Sounding { change, sequence: last + 1, until };
            self.renew(context);
        }
    }

    /// Returns true if enough of those that would vote after the change have answered, and the claim rests on those
    /// that vote now.
    pub(crate) fn is_change_backed(&self) -> bool {
        let (Role::Leading(leading), Some(electorate)) = (&self.role, self.electorate()) else { return false };
        let Some(PendingChange { stage: ChangeStage::Sounding { change, sequence, .. }, .. }) =
            &leading.numbering.pending
        else {
            return false;
        };
        let from = self.rules.answers_from(*sequence);
        let has_answered = |identity| leading.has_acknowledged(identity, from);
        let after = electorate.changed(change);
        leading.claim_rests_on(electorate) && after.is_none_or(|after| after.has_majority(has_answered))
    }

    /// Returns the reason why a change was not put to the voters that were asked by this renewal.
    pub(super) fn why_not_backed(&self, change: &VoterChange, sequence: u64) -> ChangeError {
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

    /// Returns the electorate of the next view, and how it changes; `None` if the change is none, which is answered.
    pub(crate) fn change_to_propose(
        &mut self,
        context: &Context<'_>,
        base: &NumberedView,
    ) -> Option<(Arc<Electorate>, Option<VoterChange>)> {
        let last = self.last_renewal()?;
        let Role::Leading(leading) = &mut self.role else { return None };
        let pending = leading.numbering.pending.as_mut();
        let Some(pending) = pending.filter(|pending| pending.is_sounding()) else {
            return Some((Arc::clone(&base.electorate), None));
        };
        let ChangeStage::Sounding { change, .. } = &pending.stage else { return None };
        let change = change.clone();
        let Some(electorate) = base.electorate.changed(&change) else {
            self.drop_wish(ChangeError::NoChange { reason: Unchanged::OutOfBounds });
            return None;
        };
        let until = context.now + SLOW_DISK_TIMEOUT;
        pending.stage = ChangeStage::InFlight { change: change.clone(), sequence: last + 1, until, latest: until };
        Some((Arc::new(electorate), Some(change)))
    }
}
