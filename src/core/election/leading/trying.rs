//! Resigning at an operator's command: not before others have stored what was put to them since.
//!
//! Nobody writes anything while a leader leads on, so that full disks show only when somebody is to be elected, and then
//! nobody is. So the leader first puts its view to the voters once more, under the next number, and gives leadership up
//! when that is agreed and on the disk of a voter that may stand. If it is not in time it leads on, and says why.
//!
//! Invariant: every such command is answered once.
//!
//! Must not know: who asked.

use std::sync::Arc;

use crate::election::electorate::Identity;
use crate::election::view::MAX_NUMBER;
use crate::election::{Action, ChangeError, Context, Election, Role, Rules};
use crate::limits::SLOW_DISK_TIMEOUT;
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
    /// Begins to find out whether others store, and resigns if they do; a voter that is alone resigns at once.
    pub(super) fn try_to_resign(&mut self, context: &Context<'_>, ticket: u64, to: Option<Identity>) {
        let above = self.agreed.as_ref().map_or(0, |agreed| agreed.number);
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
        let agreed = self.agreed.as_ref().filter(|_| self.is_newest_agreed());
        let is_stored = agreed.is_some_and(|agreed| agreed.number > trial.above);
        let newest = self.newest();
        let may_stand = |identity: &Identity| leading.accepted.get(identity).copied() == newest;
        let others = self.others();
        let mut standing = others.iter().filter(|voter| !self.draining.contains(&voter.id));
        let can_succeed = match &trial.to {
            Some(to) => may_stand(to),
            // Where all others drain nobody else is to lead.
            None => standing.clone().count() == 0 || standing.any(|voter| may_stand(&voter.identity)),
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
