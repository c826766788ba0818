//! Following a leader: acknowledging its renewals, which is a promise; accepting its views; being released.
//!
//! An acknowledgement is a promise not to vote, not even for oneself, for the length that the renewal names, counted
//! from its receipt: a leader may act for as long as a majority is bound by it (leases: Gray & Cheriton 1989; Raft,
//! section 6.4.1). The longest promise is on disk before the first acknowledgement that rests on it is sent.
//!
//! **Promises.** The longest one that may still bind is on disk, since a restarted voter does not know when it made it. Two
//! events shorten it there:
//!
//! - A leader that gives leadership up releases its voters, and promises made before it was elected are over (its own
//!   voters were free of them): nothing binds any more, and a restart waits for nothing.
//! - Leases have become shorter: once only shorter promises were made for as long as the longest one lasts, that one is
//!   over, and the longest of the shorter ones takes its place.
//!
//! Invariants: a term is adopted only from its leader, which a majority has voted for; everything acknowledged is on
//! disk; the promise on disk is never shorter than the one that binds.
//!
//! Must not know: how a leader counts.

use std::sync::Arc;
use std::time::Duration;

use super::electorate::Identity;
use super::message::{Body, Renewal};
use super::term::Term;
use super::view::{NumberedView, ViewRef};
use super::{Action, Alarm, Context, Election, LossReason, Role, Rules};
use crate::member::NodeId;
use crate::settings::{MAX_LEASE, MIN_LEASE};
use crate::time::Time;

/// An acknowledgement that waits for the disk, or may be sent again with a newer view.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PendingAck {
    leader: Identity,
    name: NodeId,
    term: Term,
    sequence: u64,
    /// The view that the leader proposed.
    proposed: ViewRef,
    /// The newest view that the leader knows to be agreed.
    agreed: Option<ViewRef>,
    /// The newest view that was acknowledged already.
    said: Option<ViewRef>,
}

/// The promises made since the longest one: all of them shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Shorter {
    since: Time,
    longest: Duration,
}

/// The difference between the promises on disk and those that bind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct StoredPromise {
    /// The promises shorter than the longest one on disk, if no others were made for a while.
    pub(super) shorter: Option<Shorter>,
    /// The disk holds promises that bind no more.
    pub(super) is_disk_outdated: bool,
}

impl<R: Rules> Election<R> {
    /// Handles a leader's renewal of its lease.
    pub(super) fn renewed(&mut self, context: &Context<'_>, leader: Identity, from: &NodeId, renewal: &Renewal) {
        let lease = Duration::from_millis(renewal.lease_ms);
        let term = renewal.term;
        self.not_preferred_until.take_if(|until| context.now >= *until);
        if !term.is_usable() || renewal.newest.term != term || !(MIN_LEASE..=MAX_LEASE).contains(&lease) {
            return self.ignore();
        }
        if self.electorate().is_none_or(|electorate| !electorate.contains(leader)) {
            // The leader is ahead of this node: its newest view shows whether it may be one.
            if term >= self.ballot.term || self.electorate().is_none() {
                self.volatile.invited_to = Some(renewal.newest).filter(|_| self.electorate().is_none());
                self.actions.push_back(Action::Wanted { view: renewal.newest, from: from.clone() });
            } else if term.generation() == self.ballot.term.generation() {
                // It may be one, and this voter above its term.
                self.send(from, Body::Behind { term: self.ballot.term });
            }
            return self.ignore();
        }
        // The renewal was sent before its leader gave leadership up: nobody leads by a promise made now.
        let is_over = self.released_in == Some(term);
        if is_over || term.generation() != self.ballot.term.generation() {
            return self.ignore();
        }
        if !term.is_reachable_from(self.ballot.term) {
            self.ignore();
            self.actions.push_back(Action::Alarm(Alarm::TermLimit { id: from.clone() }));
            return;
        }
        if term < self.ballot.term {
            // Terms never fall: the leader has to come above this one.
            self.send(from, Body::Behind { term: self.ballot.term });
            return self.ignore();
        }
        if term == self.ballot.term && self.volatile.leader.is_some_and(|known| known != leader) {
            // Impossible among voters that follow the rules.
            self.actions.push_back(Action::Alarm(Alarm::OtherElectorate { id: from.clone() }));
            return;
        }
        if self.acked.is_some_and(|(acked, newest)| acked == term && renewal.sequence < newest) {
            // A later one overtook it: it may have been on its way until long after its leader gave up.
            return self.ignore();
        }
        // It had its time to lead, and leads: whoever it names as its successor is not to wait for the rest of that.
        self.elected = None;
        self.obey(context, leader, term, lease);
        if let Some(claim) = renewal.claim {
            let sent = context.now - Duration::from_millis(claim.age_ms);
            let (leader, sequence) = (from.clone(), claim.sequence);
            self.actions.push_back(Action::Followed { term, leader, sequence, sent, lease });
        }
        let (name, sequence, proposed) = (from.clone(), renewal.sequence, renewal.newest);
        let agreed = renewal.agreed;
        self.volatile.pending_ack = Some(PendingAck { leader, name, term, sequence, proposed, agreed, said: None });
        self.consider(from, renewal);
        if let Some(agreed) = renewal.agreed {
            self.learn_agreed(agreed);
        }
        self.send_pending();
    }

    /// Accepts this leader for this term, and promises it the lease.
    fn obey(&mut self, context: &Context<'_>, leader: Identity, term: Term, lease: Duration) {
        if term > self.ballot.term {
            if matches!(self.role, Role::Leading(_)) {
                self.step_down(context, LossReason::Superseded);
            }
            self.vote_for(leader, term);
        }
        self.volatile.leader = Some(leader);
        if self.promise(context, self.rules.promised(lease, self.timing.lease_duration)) {
            self.persist();
        }
        self.failures = 0;
        self.is_successor = false;
        self.set_quorum(true);
        self.follow(context);
    }

    /// Accepts the view that the leader proposes, or asks for its contents.
    fn consider(&mut self, from: &NodeId, renewal: &Renewal) {
        let Some(accepted) = &self.ballot.accepted else { return };
        let proposed = renewal.newest;
        if proposed <= accepted.reference() {
            return;
        }
        let by_delta = || {
            let delta = renewal.delta.as_ref()?;
            let agreed = self.volatile.agreed.as_ref().and_then(|agreed| agreed.changed_by(delta, proposed));
            accepted.changed_by(delta, proposed).or(agreed)
        };
        let view = if proposed.digest == accepted.reference().digest && proposed.number == accepted.number {
            Some(accepted.under(proposed.term))
        } else {
            by_delta()
        };
        match view {
            Some(view) if self.would_be_left_out(&view, renewal.agreed) => self.ignore(),
            Some(view) => self.accept(view),
            None => self.actions.push_back(Action::Wanted { view: proposed, from: from.clone() }),
        }
    }

    /// Takes the contents of a view that was [wanted](Action::Wanted): that a leader proposed, or that shows that a leader or
    /// candidate is ahead of this node.
    pub fn contents(&mut self, context: &Context<'_>, view: &NumberedView) {
        self.expire(context);
        // A voter whose disk was put back may propose a view behind the one that was agreed without it.
        let is_over = |agreed: &NumberedView| {
            agreed.electorate.lineage == view.electorate.lineage
                && (agreed.number > view.number
                    || agreed.number == view.number && agreed.reference().digest != view.reference().digest)
        };
        if !view.is_well_formed() || self.volatile.agreed.as_ref().is_some_and(is_over) {
            return self.ignore();
        }
        let is_proposed = self.volatile.pending_ack.as_ref().is_some_and(|owed| {
            owed.proposed == view.reference() && owed.term == self.ballot.term && view.term == owed.term
        });
        let is_ahead = match &self.ballot.accepted {
            None => self.may_begin_with(view),
            Some(accepted) if view.electorate.lineage != accepted.electorate.lineage && self.has_never_voted() => {
                view.electorate.contains(self.ballot.identity) && view.term.is_usable()
            }
            Some(accepted) => {
                view.electorate.lineage == accepted.electorate.lineage
                    && view.electorate.began == accepted.electorate.began
                    && view.term.generation() == self.ballot.term.generation()
                    && view.reference() > accepted.reference()
            }
        };
        // A voter whose electorate ended may be above the leader that now counts on it, which goes on above it when it hears so.
        let is_named = view.electorate.contains(self.ballot.identity);
        let is_reached = view.term >= self.ballot.term || self.ballot.accepted.is_none() && is_named;
        let agreed = self.volatile.pending_ack.as_ref().and_then(|owed| owed.agreed);
        if is_proposed && self.would_be_left_out(view, agreed) {
            self.ignore();
        } else if is_proposed && is_ahead {
            self.accept(view.clone());
        } else if is_ahead && is_reached && !matches!(self.role, Role::Leading(_)) {
            // The view restricts whom this node votes for, and shows who may lead it; it counts for nobody until a
            // leader asks. A node with a blank ballot joins the current generation.
            self.ballot.term = self.ballot.term.max(view.electorate.began);
            self.accept(view.clone());
            let was_forming = matches!(self.role, Role::Forming(_));
            self.follow(context);
            if was_forming && matches!(self.role, Role::Outside) {
                self.actions.push_back(Action::Alarm(Alarm::ElectorateExists));
            }
        } else {
            let is_blank = self.ballot.accepted.is_none();
            if is_blank && view.electorate.named(&self.me).is_some_and(|voter| voter.identity != self.ballot.identity) {
                self.actions.push_back(Action::Alarm(Alarm::IdentityMismatch));
                self.strange_to = Some(Arc::clone(&view.electorate));
            }
            self.ignore();
        }
        self.send_pending();
    }

    /// Returns true if a leader proposes a view by which this voter neither votes nor may stand, and that is not agreed:
    /// one that takes its addition back. Others may hold the view that adds it, and count on its vote, which it would
    /// refuse them; and if the leader is lost, nobody else has the newer view. Until that is agreed, the voter goes on as
    /// if it had not heard of it.
    fn would_be_left_out(&self, view: &NumberedView, agreed: Option<ViewRef>) -> bool {
        let me = self.ballot.identity;
        let may_stand = view.electorate.contains(me) || view.former_electorate().is_some_and(|it| it.contains(me));
        self.is_voter() && !may_stand && self.rules.waits_until_agreed(view.reference(), agreed)
    }

    /// Returns true if this may be the first view that this node ever accepts: one that names it, whoever sent it; or
    /// one that a leader teaches it, unless another identity votes under its name.
    fn may_begin_with(&self, view: &NumberedView) -> bool {
        let is_learner =
            self.volatile.invited_to == Some(view.reference()) && view.electorate.named(&self.me).is_none();
        let descent = view.electorate.descent();
        // This node votes in the electorate, and in the generation, that it is sure of, should there be two.
        let is_it = self.ballot.known.is_none_or(|known| !known.stands_over(&descent));
        is_it && (view.electorate.contains(self.ballot.identity) || is_learner)
    }

    /// Returns true if this voter has neither voted nor followed anybody since it formed the first electorate: nothing
    /// was ever decided by it.
    pub(super) fn has_never_voted(&self) -> bool {
        self.ballot.term == Term(0) && self.ballot.vote.is_none()
    }

    /// Accepts a view if it is newer than every view this voter has accepted; an older one changes nothing.
    pub(super) fn accept(&mut self, view: NumberedView) {
        if Some(view.reference()) <= self.newest() {
            return self.ignore();
        }
        self.ballot.accepted = Some(view);
        self.persist();
        if matches!(self.role, Role::Follower | Role::Outside) {
            self.role = self.role_at_rest();
        }
    }

    /// Notes that, as the leader reports, this view is agreed.
    fn learn_agreed(&mut self, agreed: ViewRef) {
        let Some(view) = &self.ballot.accepted else { return };
        let is_it = view.reference() == agreed;
        let is_news = self.volatile.agreed.as_ref().is_none_or(|known| known.reference() < agreed);
        if is_it && is_news {
            let view = view.clone();
            self.volatile.agreed = Some(view.clone());
            self.actions.push_back(Action::Agreed(view));
            if matches!(self.role, Role::Follower) {
                self.role = self.role_at_rest();
            }
        }
    }

    /// Acknowledges what is on disk, once, and once more when the proposed view is on disk.
    pub(super) fn pay_ack(&mut self) {
        let Some(owed) = &self.volatile.pending_ack else { return };
        if owed.term != self.ballot.term {
            self.volatile.pending_ack = None;
            return;
        }
        let stored = self.rules.acknowledged(&self.stored, &self.ballot);
        let is_promise_stored = stored.term == owed.term
            && self.volatile.leader == Some(owed.leader)
            && stored.promise >= self.ballot.promise;
        let Some(newest) = stored.accepted.as_ref().map(NumberedView::reference) else { return };
        if !is_promise_stored || owed.said == Some(newest) {
            return;
        }
        let (name, term, sequence) = (owed.name.clone(), owed.term, owed.sequence);
        if let Some(owed) = &mut self.volatile.pending_ack {
            owed.said = Some(newest);
        }
        let would_not_stand = self.is_aside || self.is_draining() || self.not_preferred_until.is_some();
        let priority = if would_not_stand { 0 } else { self.policy.priority };
        self.acked = Some((term, sequence));
        self.send(&name, Body::RenewalAck { term, sequence, newest, priority });
    }

    /// Ends the promise of this leaving voter: the leader's claim stands without it.
    pub(super) fn freed(&mut self, context: &Context<'_>, speaker: Identity, term: Term, sequence: u64) {
        let is_from_leader = term == self.ballot.term && self.volatile.leader == Some(speaker);
        // A voter that acknowledges again has promised again.
        let is_meant = !context.is_up && self.acked == Some((term, sequence));
        if !is_meant || !is_from_leader || speaker == self.ballot.identity {
            return self.ignore();
        }
        self.promised_until = context.now;
        self.forget_promises(context);
    }

    /// Handles the leader's release: it has resigned.
    pub(super) fn released(&mut self, context: &Context<'_>, speaker: Identity, term: Term, successor: Identity) {
        let is_from_leader = self.rules.is_released_by((speaker, term), (self.volatile.leader, self.ballot.term));
        if !is_from_leader || speaker == self.ballot.identity {
            return self.ignore();
        }
        self.volatile.leader = None;
        self.released_in = Some(term);
        self.volatile.pending_ack = None;
        self.promised_until = context.now;
        self.forget_promises(context);
        self.actions.push_back(Action::Released { term });
        self.follow(context);
        if successor == self.ballot.identity {
            self.is_successor = true;
            self.stand_at = context.now;
            self.tick(context);
        } else {
            self.stand_at = context.now + self.timing.patience().mul_f64(0.5 + 0.5 * context.random);
        }
    }
}

/// Promises.
impl<R: Rules> Election<R> {
    /// Promises, from now on, not to vote for others for the lease; returns true if the disk has to learn of it.
    pub(super) fn promise(&mut self, context: &Context<'_>, lease: Duration) -> bool {
        self.promised_until = self.promised_until.max(context.now + lease);
        let before = self.ballot.promise;
        if lease >= before {
            self.stored_promise.shorter = None;
            self.ballot.promise = lease;
            return lease > before;
        }
        let shorter = self.stored_promise.shorter.get_or_insert(Shorter { since: context.now, longest: lease });
        shorter.longest = shorter.longest.max(lease);
        let is_over = context.now.since(shorter.since) > before;
        let longest = shorter.longest;
        if is_over {
            self.stored_promise.shorter = None;
            self.ballot.promise = longest;
        }
        is_over
    }

    /// Ends all promises, also after a restart. The disk learns of it with the next vote, which most often follows at
    /// once, or when this node leaves: until then it holds more than binds, which is safe.
    pub(super) fn forget_promises(&mut self, context: &Context<'_>) {
        self.stored_promise.shorter = None;
        self.stored_promise.is_disk_outdated |= self.ballot.promise > Duration::ZERO;
        self.ballot.promise = Duration::ZERO;
        if !context.is_up {
            self.persist_relief();
        }
    }

    /// Removes the ended promises from the disk as well, if that has not been done yet.
    fn persist_relief(&mut self) {
        if self.stored_promise.is_disk_outdated {
            self.persist();
        }
    }

    /// Returns true if the leader of this term may count on a promise of this voter: not if this process came into the
    /// term, and has acknowledged nothing to that leader yet. (Promises to earlier leaders are over since this one was
    /// elected.) Whoever led in it itself counts on its own.
    pub(super) fn has_acknowledged(&self) -> bool {
        let is_of_this_term = self.acked.is_some_and(|(term, _)| term == self.ballot.term);
        let is_led_by_another = self.volatile.leader.is_some_and(|leader| leader != self.ballot.identity);
        let may_be_forgotten = is_led_by_another && self.ballot.term > self.born_in;
        is_of_this_term || !may_be_forgotten
    }

    /// Tells the leader that this node leaves and acknowledges nothing any more: it may be able to do without its
    /// promise.
    pub(super) fn say_farewell(&mut self) {
        self.volatile.pending_ack = None;
        self.persist_relief();
        let leader = self.volatile.leader.filter(|leader| *leader != self.ballot.identity);
        let acked = self.acked.filter(|(term, _)| *term == self.ballot.term);
        let (Some(leader), Some((term, sequence)), Some(electorate)) = (leader, acked, self.electorate()) else {
            return;
        };
        if let Some(leader) = electorate.identified(leader).map(|leader| leader.id.clone()) {
            self.send(&leader, Body::Farewell { term, sequence });
        }
    }
}
