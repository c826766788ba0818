//! Leading: renewals, the claim that they make, and giving it up.
//!
//! Votes make a leader, not a claim. The claim begins with the first renewal that a majority acknowledged in this term,
//! and lasts from when that renewal was *sent*, less a margin for clocks that run at different rates. A renewal that a
//! majority has not acknowledged is followed by another one soon: a lost packet costs no lease.
//!
//! A leader gives leadership up when it leaves, is told to, is voted out, or finds a voter of a higher priority that has kept
//! up with it for some leases ([`LeaderPolicy`](super::LeaderPolicy)). The voter that is to stand first is named to all.
//!
//! Invariants: a claim only ever grows by an acknowledgement; one that was given up or ran out is never taken up again in
//! its term; voters are released only after all led work has ended.
//!
//! Must not know: what is led.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::electorate::Electorate;
use super::message::{Body, Claim, Renewal};
use super::raw::Identity;
use super::term::Term;
use super::view::{NumberedView, ViewRef};
use super::{Action, ChangeError, Election, LeaseTiming, LossReason, OnResign, Role, Surroundings};
use crate::core::limits::{MAX_RENEWALS_IN_FLIGHT, PREFERENCE_LEASES, RELEASE_PAUSE, RELEASES};
use crate::core::member::NodeId;
use crate::core::time::Time;

/// A term in which this node leads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Leading {
    pub(super) term: Term,
    /// Of the last renewal.
    sequence: u64,
    /// When the renewals were sent that may still be acknowledged, oldest first.
    sent: VecDeque<(u64, Time)>,
    /// The newest renewal that each voter acknowledged.
    acknowledged: BTreeMap<Identity, u64>,
    /// Renewals up to these count no more from voters that left and were freed of their promises.
    freed: BTreeMap<Identity, u64>,
    /// Voters that leave, and the renewal that each acknowledged last.
    leavers: BTreeMap<Identity, (NodeId, u64)>,
    /// The newest view that each voter has on its disk.
    pub(super) accepted: BTreeMap<Identity, ViewRef>,
    /// What is known of each voter by its acknowledgements.
    pub(super) heard: BTreeMap<Identity, Heard>,
    /// Voters that said that they are above this term.
    pub(super) ahead: BTreeMap<Identity, super::behind::Ahead>,
    claim: Option<Held>,
    /// If no claim begins until then, the votes were in vain.
    pub(super) elected_at: Time,
    renew_at: Time,
    resigning: Option<Resigning>,
    /// Leadership is given up as soon as the change that is in flight is settled.
    pub(super) is_leaving: bool,
    pub(super) numbering: super::numbering::Numbering,
}

/// A voter as its leader hears it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Heard {
    /// When it acknowledged anything last.
    pub(super) last: Time,
    /// Since when it was never silent for a lease.
    since: Time,
    priority: u8,
}

/// A claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Held {
    sequence: u64,
    sent: Time,
    until: Time,
}

/// Leadership is being given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Resigning {
    /// Whether all led work has ended; voters are released only then.
    has_work_ended: bool,
    /// Who is to stand first, if somebody said so.
    successor: Option<Identity>,
    /// The voters are released only when the claim has run out.
    lasts_until: Option<Time>,
    releases: u32,
    release_at: Time,
}

impl Leading {
    pub(super) fn has_claim(&self) -> bool {
        self.claim.is_some() && self.resigning.is_none()
    }

    pub(super) fn is_resigning(&self) -> bool {
        self.resigning.is_some()
    }

    /// Whether this voter has acknowledged this renewal, or a later one.
    pub(super) fn has_acknowledged(&self, identity: Identity, sequence: u64) -> bool {
        self.acknowledged.get(&identity).is_some_and(|acknowledged| *acknowledged >= sequence)
    }

    /// Whether a majority of these voters has promised what the claim needs.
    pub(super) fn claim_rests_on(&self, electorate: &Electorate) -> bool {
        self.claim.is_none_or(|claim| electorate.has_majority(|voter| self.has_acknowledged(voter, claim.sequence)))
    }

    /// Whether the voters are released as soon as the claim, which has run out, is over.
    fn may_release(&self) -> bool {
        self.resigning.is_some_and(|resigning| resigning.has_work_ended && resigning.lasts_until.is_some())
    }

    /// The last renewal as it is said.
    fn renewal(&self, now: Time, timing: LeaseTiming, newest: ViewRef, agreed: Option<ViewRef>) -> Renewal {
        let claim = self.claim.map(|claim| Claim {
            sequence: claim.sequence,
            age_ms: now.since(claim.sent).as_nanos().div_ceil(1_000_000) as u64,
        });
        Renewal {
            term: self.term,
            sequence: self.sequence,
            // Rounded up: no voter may be free before the claim that it was asked for ends.
            lease_ms: timing.lease_duration.as_nanos().div_ceil(1_000_000) as u64,
            claim,
            newest,
            delta: None,
            agreed: agreed.filter(|agreed| agreed.term == self.term),
        }
    }

    /// The newest renewal that was sent by then; the oldest that is remembered, if all were sent since.
    pub(super) fn renewal_sent_before(&self, time: Time) -> Option<u64> {
        let sent = self.sent.iter().rev().find(|(_, at)| *at <= time);
        sent.or(self.sent.front()).map(|(sequence, _)| *sequence)
    }

    fn sent_at(&self, sequence: u64) -> Option<Time> {
        self.sent.iter().find(|(sent, _)| *sent == sequence).map(|(_, at)| *at)
    }
}

impl Election {
    /// The votes are in, and the own one is on disk.
    pub(super) fn begin_to_lead(&mut self, around: &Surroundings<'_>) {
        let (term, me) = (self.ballot.term, self.ballot.identity);
        let Some(accepted) = self.ballot.accepted.as_ref().filter(|accepted| accepted.term < term) else {
            // Somebody led later, and its view came by.
            return self.follow(around);
        };
        // Under the own term, or it would count for nothing: same number, same members.
        let view = accepted.under(term);
        self.leader = Some(me);
        self.failures = 0;
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
            elected_at: around.now,
            renew_at: around.now,
            resigning: None,
            is_leaving: false,
            numbering: super::numbering::Numbering::new(self.agreed.clone()),
        }));
        #[cfg(test)]
        if self.has(super::flaw::Flaw::ClaimWithVotes) {
            self.claim(around, 0, around.now);
        }
        self.accept(view);
        self.lead(around);
    }

    pub(super) fn leading_deadline(&self, leading: &Leading) -> Time {
        let claim = leading.claim.map(|claim| claim.until);
        let over = claim.filter(|_| !leading.may_release());
        let end = Some(leading.elected_at + self.timing.lease_duration).filter(|_| claim.is_none());
        let next = match leading.resigning {
            Some(resigning) => resigning.has_work_ended.then_some(resigning.release_at),
            None => Some(leading.renew_at),
        };
        let may_number = leading.has_claim() && !self.is_proposing();
        let view = leading.numbering.due(may_number).filter(|_| leading.resigning.is_none());
        [over, end, next, view, self.confirms.deadline()].into_iter().flatten().min().expect("a claim or its end")
    }

    /// Renews when it is time, and numbers what has changed.
    pub(super) fn lead(&mut self, around: &Surroundings<'_>) {
        let Role::Leading(leading) = &self.role else { return };
        if leading.claim.is_none() && around.now >= leading.elected_at + self.timing.lease_duration {
            // Elected, and never heard by a majority since.
            self.set_quorum(false);
            self.free_myself(around);
            return self.follow(around);
        }
        if leading.resigning.is_some() {
            return self.release(around);
        }
        self.expire_confirms(around);
        self.number(around);
        let Role::Leading(leading) = &self.role else { return };
        if around.now >= leading.renew_at && leading.resigning.is_none() {
            self.renew(around);
        }
    }

    /// Sends a renewal to all voters.
    pub(super) fn renew(&mut self, around: &Surroundings<'_>) {
        let (timing, me) = (self.timing, self.ballot.identity);
        let mut voters = self.others();
        voters.extend(self.sounded_learner());
        let agreed = self.agreed.as_ref().map(NumberedView::reference);
        let Some(view) = self.view_for_voters().cloned() else { return };
        let Role::Leading(leading) = &mut self.role else { return };
        leading.sequence += 1;
        leading.sent.push_back((leading.sequence, around.now));
        if leading.sent.len() > MAX_RENEWALS_IN_FLIGHT {
            leading.sent.pop_front();
        }
        leading.renew_at = around.now + timing.retry();
        leading.acknowledged.insert(me, leading.sequence);
        let mut renewal = leading.renewal(around.now, timing, view.reference(), agreed);
        let deltas: Vec<_> = voters.iter().map(|voter| leading.delta_for(voter.identity, &view)).collect();
        // What it asks of others, it promises itself.
        if self.promise(around, timing.lease_duration) {
            self.persist();
        }
        for (voter, delta) in voters.into_iter().zip(deltas) {
            self.tell_heir(&voter);
            renewal.delta = delta;
            self.send(&voter.id, Body::Renew(renewal.clone()));
        }
        self.extend_claim(around);
    }

    /// Tells somebody without a vote what voters are told: who is to be voted in, and who asks since it was voted out, or
    /// its being voted in came to nothing.
    pub(super) fn inform(&mut self, around: &Surroundings<'_>, id: &NodeId) {
        let (timing, agreed) = (self.timing, self.agreed.as_ref().map(NumberedView::reference));
        let Some(newest) = self.view_for_voters().map(NumberedView::reference) else { return };
        let Role::Leading(leading) = &self.role else { return };
        if leading.has_claim() {
            let renewal = leading.renewal(around.now, timing, newest, agreed);
            self.send(id, Body::Renew(renewal));
        }
    }

    /// A voter acknowledged a renewal.
    pub(super) fn acknowledged(
        &mut self,
        around: &Surroundings<'_>,
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
        let heard = leading.heard.entry(speaker).or_insert(Heard { last: around.now, since: around.now, priority });
        if around.now.since(heard.last) > lease {
            heard.since = around.now;
        }
        (heard.last, heard.priority) = (around.now, priority);
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
        self.extend_claim(around);
        self.free_leavers();
        self.count_acceptances(around);
        self.hear_learner(around, speaker, newest);
        if self.is_change_backed() {
            self.number(around);
        }
        self.prefer(around);
    }

    /// Hands over to a voter of a higher priority, if it has kept up for some leases: who comes and goes gets nothing. That
    /// this node has led for as long follows, so that leadership moves at most once in this time.
    fn prefer(&mut self, around: &Surroundings<'_>) {
        let (Role::Leading(leading), Some(electorate)) = (&self.role, self.electorate()) else { return };
        if !leading.has_claim() || !leading.numbering.is_at_rest() || self.is_proposing() {
            return;
        }
        let lease = self.timing.lease_duration;
        let is_preferred = |(identity, heard): &(&Identity, &Heard)| {
            heard.priority > self.policy.priority
                && around.now.since(heard.last) <= lease / 2
                // Of those that came at about the same time the best one is waited for.
                && around.now.since(heard.since) >= lease * (PREFERENCE_LEASES - 1)
                && electorate.contains(**identity)
        };
        let preferred = leading.heard.iter().filter(is_preferred);
        let Some((best, heard)) = preferred.max_by_key(|(identity, heard)| (heard.priority, **identity)) else {
            return;
        };
        let has_kept_up = around.now.since(heard.since) >= lease * PREFERENCE_LEASES;
        if has_kept_up && leading.accepted.get(best).copied() == self.newest() {
            let best = *best;
            self.resign_for(around, Some(best));
        }
    }

    /// A voter leaves. If the claim stands without it, it is free at once, also after a restart, and what it acknowledged
    /// counts no more.
    pub(super) fn bid_farewell(&mut self, speaker: Identity, from: &NodeId, term: Term, sequence: u64) {
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
            let is_needed = leading.claim.is_some_and(|claim| without < claim.sequence);
            #[cfg(test)]
            let is_needed = is_needed && self.flaw != Some(super::flaw::Flaw::FreesWhoIsNeeded);
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

    /// The voters by whose majority this leader's claim is counted: those of the newest view, but for a change of its own that
    /// is not agreed yet.
    fn electorate_in_force(&self) -> Option<Electorate> {
        let view = self.ballot.accepted.as_ref()?;
        let former = view.former_electorate().filter(|_| self.is_proposing());
        Some(former.unwrap_or_else(|| (*view.electorate).clone()))
    }

    /// The claim lasts from when the newest renewal was sent that a majority acknowledged.
    fn extend_claim(&mut self, around: &Surroundings<'_>) {
        let Some(electorate) = self.electorate_in_force() else { return };
        let Role::Leading(leading) = &self.role else { return };
        if self.stored.term != leading.term || self.stored.promise < self.timing.lease_duration {
            return;
        }
        let figure = |identity: Identity| leading.acknowledged.get(&identity).copied().unwrap_or(0);
        let sequence = electorate.reached_by_majority(figure);
        #[cfg(test)]
        let sequence = match &self.ballot.accepted {
            Some(view) if self.has(super::flaw::Flaw::ClaimNeedsTheNewcomers) => {
                sequence.min(view.electorate.reached_by_majority(figure))
            }
            _ => sequence,
        };
        #[cfg(test)]
        let sequence = if self.has(super::flaw::Flaw::NoQuorumCheck) { leading.sequence } else { sequence };
        let is_news = leading.claim.is_none_or(|claim| claim.sequence < sequence);
        let sent = leading.sent_at(sequence);
        #[cfg(test)]
        let sent = if self.has(super::flaw::Flaw::LeaseFromReceipt) { sent.map(|_| around.now) } else { sent };
        if let Some(sent) = sent.filter(|_| is_news && !leading.is_resigning()) {
            self.claim(around, sequence, sent);
        }
    }

    fn claim(&mut self, around: &Surroundings<'_>, sequence: u64, sent: Time) {
        let (timing, until) = (self.timing, sent + self.timing.claim());
        if until <= around.now {
            // Acknowledged, but so late that it entitles to nothing.
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
            self.renew(around);
        }
        self.confirmed(around, sequence, until);
        let is_asking = !self.confirms.is_empty() || self.is_sounding();
        if let Role::Leading(leading) = &mut self.role
            && !is_asking
        {
            // Those sent since are under way as well: the next one is due as if this had been the last.
            leading.renew_at = leading.renew_at.max(sent + timing.renewal_interval);
        }
    }

    /// Ends the claim if its time is past.
    pub(super) fn expire_claim(&mut self, around: &Surroundings<'_>) {
        #[cfg(test)]
        if self.has(super::flaw::Flaw::LeadsOnInItsTerm) {
            return self.lose_claim_and_lead_on(around);
        }
        let Role::Leading(leading) = &self.role else { return };
        if leading.claim.is_some_and(|claim| around.now >= claim.until) {
            if leading.may_release() {
                return self.release(around);
            }
            if leading.is_resigning() {
                // Its led work has not ended in time. Whoever did not want to lead lets others stand first.
                self.follow(around);
                return self.step_back(around);
            }
            // A process that stood still has asked nobody: it knows nothing of the voters.
            let has_asked = around.now.since(leading.renew_at) < self.timing.spread();
            if has_asked {
                self.set_quorum(false);
            }
            let reason = if has_asked { LossReason::QuorumLost } else { LossReason::Expired };
            self.step_down(around, reason);
        }
    }

    #[cfg(test)]
    fn lose_claim_and_lead_on(&mut self, around: &Surroundings<'_>) {
        let Role::Leading(leading) = &mut self.role else { return };
        if leading.claim.take_if(|claim| around.now >= claim.until).is_some() {
            leading.elected_at = around.now;
            self.actions.push_back(Action::Lost { term: leading.term, reason: LossReason::QuorumLost });
        }
    }

    /// Is no longer the leader, whatever it was that ended it.
    pub(super) fn step_down(&mut self, around: &Surroundings<'_>, reason: LossReason) {
        let Role::Leading(leading) = &self.role else { return };
        if leading.has_claim() {
            self.actions.push_back(Action::Lost { term: leading.term, reason });
        }
        self.free_myself(around);
        self.interrupt_change();
        self.follow(around);
    }

    /// What a leader promises itself is worth as much as its claim: that is over, or never began. Those whom it gave
    /// leadership up for wait for its led work, and are released by it (see [`Election::resign`]).
    fn free_myself(&mut self, around: &Surroundings<'_>) {
        if !self.is_resigning() {
            self.promised_until = self.promised_until.min(around.now);
            self.forget_promises(around);
        }
    }

    /// Gives leadership up, as when leaving: at once no claim, and the voters are released when all led work has ended.
    /// Says whether there is anything to give up. A change of the electorate that is in flight is settled before.
    pub fn resign(&mut self, around: &Surroundings<'_>) -> bool {
        self.expire(around);
        self.settles_first(around) || self.resign_for(around, None)
    }

    /// An operator wants the leader of this term to give leadership up, perhaps to this voter. Answered at once: the claim is
    /// over then, and the voters are released when all led work has ended.
    pub fn resign_to(&mut self, around: &Surroundings<'_>, ticket: u64, term: Term, to: Option<&NodeId>) {
        self.expire(around);
        let successor = match self.may_resign_to(around, term, to) {
            Ok(successor) => successor,
            Err(error) => return self.refuse(Some(ticket), error),
        };
        self.resign_for(around, successor);
        if let Some(electorate) = self.electorate().cloned() {
            self.actions.push_back(Action::Answer { ticket, result: Ok(electorate) });
        }
    }

    /// Who is to stand first, if that can be: it votes, was heard within half a lease, and holds the newest view, since
    /// nobody would vote for it otherwise.
    fn may_resign_to(
        &self,
        around: &Surroundings<'_>,
        term: Term,
        to: Option<&NodeId>,
    ) -> Result<Option<Identity>, ChangeError> {
        let Role::Leading(leading) = &self.role else { return Err(ChangeError::NotLeader) };
        if !leading.has_claim() || leading.term != term {
            return Err(ChangeError::NotLeader);
        }
        if self.has_change_in_flight() {
            return Err(self.busy(around));
        }
        if let Some(error) = self.is_stuck(around) {
            return Err(error);
        }
        let Some(id) = to else { return Ok(None) };
        if *id == self.me {
            return Err(ChangeError::LeadsAlready { id: id.clone() });
        }
        let Some(voter) = self.electorate().and_then(|electorate| electorate.named(id)) else {
            return Err(ChangeError::NotVoter { id: id.clone() });
        };
        let lately = self.timing.lease_duration / 2;
        let is_heard = leading.heard.get(&voter.identity).is_some_and(|heard| around.now.since(heard.last) <= lately);
        if !is_heard || leading.accepted.get(&voter.identity).copied() != self.newest() {
            return Err(ChangeError::NotCaughtUp { id: id.clone() });
        }
        Ok(Some(voter.identity))
    }

    pub(super) fn resign_for(&mut self, around: &Surroundings<'_>, successor: Option<Identity>) -> bool {
        self.expire(around);
        let Role::Leading(leading) = &mut self.role else { return false };
        if leading.resigning.is_some() {
            return true;
        }
        let (term, had_claim) = (leading.term, leading.has_claim());
        let lasts_until = leading.claim.map(|claim| claim.until).filter(|_| self.policy.on_resign == OnResign::Expire);
        // Without a claim nothing was led, and yet some may have promised something.
        let resigning =
            Resigning { has_work_ended: !had_claim, successor, lasts_until, releases: 0, release_at: around.now };
        leading.resigning = Some(resigning);
        self.confirm_nothing();
        self.interrupt_change();
        if had_claim {
            self.actions.push_back(Action::Lost { term, reason: LossReason::Resigned });
        } else {
            self.release(around);
        }
        true
    }

    /// All that was led in this term has ended.
    pub fn work_ended(&mut self, around: &Surroundings<'_>, term: Term) {
        self.expire(around);
        if let Role::Leading(leading) = &mut self.role
            && leading.term == term
            && let Some(resigning) = &mut leading.resigning
        {
            resigning.has_work_ended = true;
            resigning.release_at = resigning.lasts_until.map_or(around.now, |until| until.max(around.now));
            self.release(around);
        }
    }

    /// The number of the last renewal, if this node leads.
    pub(super) fn last_renewal(&self) -> Option<u64> {
        let Role::Leading(leading) = &self.role else { return None };
        Some(leading.sequence)
    }

    /// Whether this node is giving leadership up and has not released the voters yet.
    pub fn is_resigning(&self) -> bool {
        matches!(&self.role, Role::Leading(leading) if leading.is_resigning())
    }

    /// Whether the end of its leadership is still to be waited for by who wants to leave: for a change that is in
    /// flight, for the end of led work, and for the releases, but not for a claim that is to run out.
    pub fn is_handing_over(&self) -> bool {
        let Role::Leading(leading) = &self.role else { return false };
        if leading.is_resigning() { !leading.may_release() } else { leading.is_leaving }
    }

    /// Frees the voters of their promises, a few times over since packets get lost.
    fn release(&mut self, around: &Surroundings<'_>) {
        let (retry, me) = (self.timing.retry(), self.ballot.identity);
        let best = self.successor();
        let Role::Leading(leading) = &mut self.role else { return };
        let term = leading.term;
        let Some(resigning) = leading.resigning.as_mut().filter(|resigning| resigning.has_work_ended) else { return };
        if around.now < resigning.release_at {
            return;
        }
        let successor = resigning.successor.or(best);
        let is_first = resigning.releases == 0;
        resigning.releases += 1;
        resigning.release_at = around.now + retry.min(RELEASE_PAUSE);
        let is_last = resigning.releases >= RELEASES;
        self.send_to_all(&Body::Release { term, successor: successor.unwrap_or(me) });
        if is_first {
            self.forget_promises(around);
            self.actions.push_back(Action::Released { term });
        }
        if is_last {
            // Nobody counts on its promise to itself any more.
            self.promised_until = around.now;
            self.leader = None;
            self.follow(around);
            self.step_back(around);
        }
    }

    /// Who gave leadership up stands again only in case nobody else does.
    fn step_back(&mut self, around: &Surroundings<'_>) {
        self.stand_at = self.stand_at.max(around.now + self.timing.lease_duration);
    }

    /// Who is to stand first: a voter that has the newest view and was heard lately; of those the one of the highest priority,
    /// then the one that was heard last.
    fn successor(&self) -> Option<Identity> {
        let Role::Leading(leading) = &self.role else { return None };
        let electorate = self.electorate()?;
        let voters = leading.heard.iter().filter(|(identity, _)| electorate.contains(**identity));
        let newest = voters.clone().map(|(_, heard)| heard.last).max()?;
        let lately = self.timing.lease_duration / 2;
        let rank = |(identity, heard): &(&Identity, &Heard)| {
            let is_there = newest.since(heard.last) <= lately;
            (
                leading.accepted.get(identity).copied(),
                is_there,
                heard.priority,
                leading.acknowledged.get(identity).copied(),
            )
        };
        voters.max_by_key(rank).map(|(identity, _)| *identity)
    }

    /// How long the claim lasts, if there is one.
    pub fn claim_left(&self, now: Time) -> Option<Duration> {
        let Role::Leading(leading) = &self.role else { return None };
        leading.claim.filter(|_| leading.has_claim()).map(|claim| claim.until.since(now))
    }
}
