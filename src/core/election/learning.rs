//! Learning: a voter to be added sends its identity, gets the leader's view onto its disk and acknowledges a renewal
//! before it votes (Raft, section 4.2.1). The majority may need it from that moment on.
//!
//! Invariant: each step ends, by an answer or by its time.
//!
//! Must not know: what happens to the change afterwards (see `changing`).

use super::changing::{ChangeStage, PendingChange};
use super::electorate::{Identity, Voter, VoterChange};
use super::view::ViewRef;
use super::{ChangeError, Context, Election, Role, Rules};
use crate::limits::{IDENTITY_TIMEOUT, LEARNING_TIMEOUT};
use crate::member::NodeId;

impl<R: Rules> Election<R> {
    /// Returns the first step of an addition: the node to add is asked for its identity from now on.
    pub(super) fn asking(&self, context: &Context<'_>, id: NodeId) -> ChangeStage {
        ChangeStage::Ask { id, ask_at: context.now, until: context.now + self.timing.patience().max(IDENTITY_TIMEOUT) }
    }

    /// Asks the node to add for its identity.
    pub(super) fn ask_for_identity(&mut self, context: &Context<'_>) {
        let retry = self.timing.retry();
        let Role::Leading(leading) = &mut self.role else { return };
        let Some(PendingChange { ticket, stage: ChangeStage::Ask { id, ask_at, until }, .. }) =
            &mut leading.numbering.pending
        else {
            return;
        };
        let (ticket, id) = (*ticket, id.clone());
        if context.now >= *until {
            leading.numbering.pending = None;
            return self.refuse(ticket, ChangeError::NoAnswer { id });
        }
        if context.now >= *ask_at {
            *ask_at = context.now + retry;
            self.introduce(&id, true);
        }
    }

    /// Takes an identity, if its sender is the node to add.
    pub(super) fn learner_identified(&mut self, context: &Context<'_>, from: &NodeId, identity: Identity) {
        let patience = self.timing.patience();
        let Role::Leading(leading) = &mut self.role else { return };
        let Some(pending) = &mut leading.numbering.pending else { return };
        if matches!(&pending.stage, ChangeStage::Ask { id, .. } if id == from) {
            let learner = Voter { id: from.clone(), identity };
            let until = context.now + patience.max(LEARNING_TIMEOUT);
            pending.stage = ChangeStage::Teach { learner, ask_at: context.now, until };
            self.teach(context);
        }
    }

    /// Sends the learner what voters are sent, until it acknowledges.
    pub(super) fn teach(&mut self, context: &Context<'_>) {
        let retry = self.timing.retry();
        let Role::Leading(leading) = &mut self.role else { return };
        let Some(PendingChange { ticket, stage: ChangeStage::Teach { learner, ask_at, until }, .. }) =
            &mut leading.numbering.pending
        else {
            return;
        };
        let (ticket, learner) = (*ticket, learner.clone());
        if context.now >= *until {
            leading.numbering.pending = None;
            // The learner may have done its part, and wait for others.
            let has_learnt = leading.accepted.get(&learner.identity).copied() == self.newest();
            let waits_for_others = has_learnt && !self.is_newest_agreed();
            let error =
                if waits_for_others { self.not_stored(context) } else { ChangeError::LearnerSilent { id: learner.id } };
            return self.refuse(ticket, error);
        }
        if context.now >= *ask_at {
            *ask_at = context.now + retry;
            self.inform_of_generation(&learner);
            self.inform(context, &learner.id);
        }
    }

    /// Returns true if this identity is the learner's: it is to be added, and is no voter yet.
    pub(super) fn is_learner(&self, identity: Identity) -> bool {
        self.change_under_way().and_then(PendingChange::learner).is_some_and(|learner| learner.identity == identity)
    }

    /// Returns the learner that is asked, along with the voters, whether it is there.
    pub(super) fn sounded_learner(&self) -> Option<Voter> {
        self.change_under_way().filter(|pending| pending.is_sounding()).and_then(PendingChange::learner).cloned()
    }

    /// Takes a learner's acknowledgement: if the view on its disk is of this term, it may become a voter.
    pub(super) fn hear_learner(&mut self, context: &Context<'_>, speaker: Identity, newest: ViewRef) {
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
