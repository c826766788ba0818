//! Sounding: those that would vote after a change are asked whether they are there before it is put to the voters.
//!
//! Invariant: only what was acknowledged since the question counts.
//!
//! Must not know: what becomes of a change that is in flight.

use std::sync::Arc;

use super::pending::{ChangeStage, PendingChange};
use crate::election::electorate::{Electorate, Voter, VoterChange};
use crate::election::view::NumberedView;
use crate::election::{ChangeError, Context, Election, Role, Rules, Unchanged};
use crate::limits::{SLOW_DISK_TIMEOUT, SOUNDING_TIMEOUT};

impl<R: Rules> Election<R> {
    /// Returns true if the voters are being asked whether they are there.
    pub(crate) fn is_sounding(&self) -> bool {
        self.change_under_way().is_some_and(PendingChange::is_sounding)
    }

    /// Asks those that would vote after the change that is wanted, if one is, whether they are there.
    pub(crate) fn sound_voters(&mut self, context: &Context<'_>) {
        let Some(last) = self.last_renewal() else { return };
        let Role::Leading(leading) = &mut self.role else { return };
        let Some(pending) = &mut leading.numbering.pending else { return };
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
