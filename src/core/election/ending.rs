//! The end of an electorate: another one that stands over it is in the cluster (see `electorate`), and has a leader.
//!
//! A leader stops leading as soon as it hears of that leader. Once its node holds a view that the other electorate has
//! agreed on, as every voter's node does then, the voter ends: it votes no more and is as blank as any node without a
//! vote, and sure of the other electorate. What it voted in is kept aside on its disk, and the end is told once that is there.
//! A voter that the other electorate names gets that one's view from its leader, like any blank voter.
//!
//! The electorate that stands is led above every term of the one that ended: fencing tokens of the latter may have been
//! seen where those of the former are used. Members that know of a higher term say so, and a leader goes on above it.
//!
//! Invariants: what ended does not come back by a restart; a term never falls by an end; no electorate ends for one that
//! does not stand over it.
//!
//! Must not know: how one hears of another electorate.

use super::electorate::{Descent, EndedElectorate};
use super::view::NumberedView;
use super::{Action, Alarm, ChangeError, Context, Election, LossReason, Role, Rules, Volatile};

impl<R: Rules> Election<R> {
    /// Gives the claim up, since a leader lives of an electorate that stands over this one. This node keeps the promise to
    /// itself, so that nobody leads in its place before it can hear of that electorate.
    pub fn stop_leading(&mut self, context: &Context<'_>) {
        self.expire(context);
        if matches!(self.role, Role::Leading(_)) {
            self.give_claim_up(context, LossReason::Superseded);
        }
    }

    /// Returns true if this node goes over to another electorate that is led: if that stands over the one that it is sure
    /// of, or, once, if it formed or took over a first one in which it never voted. Nothing was decided there by this node,
    /// and the others that it names may be gone without having heard of it.
    pub fn yields_to(&self, other: &Descent) -> bool {
        let Some(own) = self.founded() else { return true };
        let is_idle = self.has_never_voted() && self.lineage() == Some(own.lineage) && self.ballot.ended.is_none();
        self.rules.ends_for(&own, other) || is_idle && own.lineage != other.lineage
    }

    /// Ends this voter's electorate if it yields to the other one, which has led; returns true if it did.
    pub(super) fn end_for(&mut self, context: &Context<'_>, other: &Descent) -> bool {
        if self.ballot.accepted.is_none() || !self.yields_to(other) {
            return false;
        }
        self.interrupt(context);
        self.keep_electorate_aside(other);
        self.volatile = Volatile::default();
        self.role = Role::Outside;
        true
    }

    /// Ends what this node leads or was told to do: its electorate is not its own any more.
    fn interrupt(&mut self, context: &Context<'_>) {
        self.step_down(context, LossReason::Superseded);
        let commands = [self.recovery.take().map(|recovery| recovery.ticket()), self.pending_recovery.take()];
        for ticket in commands.into_iter().flatten() {
            self.refuse(Some(ticket), ChangeError::Interrupted);
        }
    }

    /// Keeps the electorate aside that this voter has, and has no more from now on. One for another of the same root, as an
    /// operator began it, is not kept instead of one that ended for a stranger.
    pub(super) fn keep_electorate_aside(&mut self, other: &Descent) {
        let Some(view) = self.ballot.accepted.take() else { return };
        let is_kept = |ended: &EndedElectorate| {
            ended.electorate.root == view.electorate.root || view.electorate.root != other.root
        };
        if self.ballot.ended.as_ref().is_none_or(is_kept) {
            let (electorate, term) = ((*view.electorate).clone(), self.ballot.term);
            self.ballot.ended = Some(EndedElectorate { electorate, term, number: view.number });
        }
    }

    /// Says that the electorate in which this node voted has ended, if its disk knows of that and did not before.
    pub(super) fn announce_end(&mut self, before: Option<&EndedElectorate>) {
        let voted = |ended: &&EndedElectorate| ended.electorate.contains(self.ballot.identity);
        let ended = self.ballot.ended.as_ref().filter(|ended| Some(*ended) != before).filter(voted);
        let by =
            self.founded().filter(|by| ended.is_some_and(|ended| !self.is_voter() || ended.electorate.root != by.root));
        if let Some(by) = by {
            self.actions.push_back(Action::Alarm(Alarm::ElectorateEnded { by: by.lineage }));
        }
    }

    /// Returns true if an agreed view leaves this voter out without its disk knowing: that was put back from a snapshot, say.
    /// Numbers are compared, not terms: others whose disks were put back may have elected it in any term since, but an agreed
    /// number has one content for ever.
    pub fn is_left_out_by(&self, view: &NumberedView) -> bool {
        let me = self.ballot.identity;
        let own = self.ballot.accepted.as_ref().filter(|own| own.electorate.contains(me));
        let is_later =
            |own: &NumberedView| own.electorate.lineage == view.electorate.lineage && own.number < view.number;
        !view.electorate.contains(me) && own.is_some_and(is_later)
    }

    /// Takes an agreed view that leaves this voter out: it ends as one does that was voted out.
    pub fn leave_electorate(&mut self, context: &Context<'_>, view: &NumberedView) {
        self.interrupt(context);
        self.volatile = Volatile { agreed: Some(view.clone()), ..Volatile::default() };
        self.ballot.accepted = Some(view.clone());
        self.persist();
        self.role = self.role_at_rest();
    }
}
