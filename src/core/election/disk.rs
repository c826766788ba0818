//! The disk: the ballot that is to be written, and what rests on its being there.
//!
//! Invariants: whatever changes in the ballot is given out under a new version; what rests on a version waits until the
//! disk has it.
//!
//! Must not know: files.

use super::{Action, Alarm, Context, Election, NumberedView, Role, Rules, ViewRef};

impl<R: Rules> Election<R> {
    /// Gives the changed ballot to the disk.
    pub(super) fn persist(&mut self) {
        self.ballot.version += 1;
        self.stored_promise.is_disk_outdated = false;
        // From now on the disk may hold either: what rests on a longer promise waits for this one.
        self.stored.promise = self.stored.promise.min(self.ballot.promise);
        self.actions.push_back(Action::Persist(self.ballot.clone()));
    }

    /// Returns true if the disk has the ballot as it is to be.
    pub fn is_stored(&self) -> bool {
        self.stored.version == self.ballot.version
    }

    /// Takes note that the disk has the ballot of this version, or a newer one that was given out.
    pub fn stored(&mut self, context: &Context<'_>, version: u64) {
        self.expire(context);
        if version != self.ballot.version {
            // An older one: what rests on the newer one still waits.
            return;
        }
        if self.is_aside {
            self.is_aside = false;
            self.actions.push_back(Action::Alarm(Alarm::AsideNoMore));
        }
        let awaited_own_disk = self.awaits_own_disk();
        let before = std::mem::replace(&mut self.stored, self.ballot.clone());
        self.announce_end(before.ended.as_ref());
        if awaited_own_disk {
            self.begin_voters_time(context);
        }
        let pending_vote = self.pending_vote.clone();
        self.send_pending();
        if let Some((_, candidate, _)) = pending_vote.filter(|_| self.pending_vote.is_none()) {
            self.leave_time_to_lead(context, candidate);
        }
        self.count_late_votes(context);
        self.announce_generation();
        self.tick(context);
        if let Role::Candidate(_) = self.role {
            self.advance(context);
        }
        if let Role::Leading(_) = self.role {
            self.count_acceptances(context);
            self.continue_trial(context);
        }
    }

    /// Takes note that the disk did not take what it was given last, which is tried again by whoever writes. If it has
    /// the ballot already, it was something else that was not taken, and nothing that a voter does rests on that:
    /// renewals write nothing. If the ballot is still to be written, this voter stands aside; a leader does if that
    /// leaves enough others.
    pub fn store_failed(&mut self, context: &Context<'_>) {
        self.expire(context);
        if self.is_stored() {
            return;
        }
        if !self.is_aside {
            self.is_aside = true;
            self.actions.push_back(Action::Alarm(Alarm::Aside));
        }
        match &self.role {
            Role::Leading(_) if self.is_change_unstored() => {
                self.withdraw_change();
                self.resign_for(context, None);
            }
            Role::Leading(_) => self.resign_to_those_that_store(context),
            Role::Candidate(_) => self.follow(context),
            _ => {}
        }
    }

    /// Gives leadership up if this leader's disk takes nothing and those of enough others for an election do: what is
    /// in flight is on them. Where too few disks work, nobody else could be elected, and a leader writes nothing to
    /// lead on.
    pub(super) fn resign_to_those_that_store(&mut self, context: &Context<'_>) {
        let (Role::Leading(leading), Some(view)) = (&self.role, &self.ballot.accepted) else { return };
        let (me, newest) = (self.ballot.identity, Some(view.reference()));
        let stores = |voter| voter != me && leading.accepted.get(&voter).copied() == newest;
        let can_elect = view.is_carried_by(self.is_proposing(), stores);
        if self.is_aside && self.rules.resigns_to_others(can_elect) {
            self.resign_for(context, None);
        }
    }

    /// Returns the reference of the newest accepted view.
    pub(super) fn newest(&self) -> Option<ViewRef> {
        self.ballot.accepted.as_ref().map(NumberedView::reference)
    }
}
