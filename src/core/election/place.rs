//! The place of a node among the voters: by what it has accepted or by its configuration, and for how long it waits
//! there for a leader.
//!
//! Invariant: who is not eligible never stands.
//!
//! Must not know: how an election goes.

use super::forming::Forming;
use super::{Action, Alarm, Context, Election, NodeId, NumberedView, Role, Rules};

impl<R: Rules> Election<R> {
    /// Finds its place: by what it has accepted, or else by the configuration.
    pub(super) fn take_place(&mut self, context: &Context<'_>) {
        match self.electorate() {
            None if self.configured.contains(&self.me) => self.role = Role::Forming(Forming::new(context.now)),
            None => self.role = Role::Outside,
            Some(electorate) => {
                let names: Vec<NodeId> = electorate.voters.iter().map(|voter| voter.id.clone()).collect();
                let is_stranger = electorate.named(&self.me).is_some() && !self.is_voter();
                if names != self.configured && !self.configured.is_empty() {
                    self.actions.push_back(Action::Alarm(Alarm::ConfigurationOutdated));
                }
                if is_stranger {
                    self.actions.push_back(Action::Alarm(Alarm::IdentityMismatch));
                }
                self.follow(context);
            }
        }
    }

    /// Waits for a leader.
    pub(super) fn follow(&mut self, context: &Context<'_>) {
        self.role = self.role_at_rest();
        self.fail_confirmations();
        self.wait_for_leader(context);
    }

    pub(super) fn role_at_rest(&self) -> Role {
        if self.is_eligible() { Role::Follower } else { Role::Outside }
    }

    /// Returns true if this node may stand: also if it was voted out by a view of which it does not know that it is
    /// agreed. It may be the only one that has this view, and then nobody else is elected (Raft, section 4.2.2).
    pub(super) fn is_eligible(&self) -> bool {
        let Some(view) = &self.ballot.accepted else { return false };
        let is_agreed = self.agreed.as_ref().map(NumberedView::reference) == Some(view.reference());
        let me = self.ballot.identity;
        view.electorate.contains(me) || !is_agreed && view.former_electorate().is_some_and(|former| former.contains(me))
    }

    /// Stands a little after no promise keeps it from it.
    pub(super) fn wait_for_leader(&mut self, context: &Context<'_>) {
        self.stand_at = self.promised_until.max(context.now) + self.timing.spread().mul_f64(context.random);
    }

    pub(super) fn may_stand(&self) -> bool {
        self.is_eligible() && !self.is_aside && !self.is_draining() && self.is_stored()
    }

    /// Returns true if this voter stands aside and has not said yet that it sees no leader.
    pub(super) fn must_report_no_leader(&self) -> bool {
        self.is_aside && self.reaches_quorum && self.is_eligible()
    }

    pub(super) fn set_quorum(&mut self, is_reached: bool) {
        if self.reaches_quorum != is_reached {
            self.reaches_quorum = is_reached;
            self.actions.push_back(Action::Quorum { is_reached });
        }
    }
}
