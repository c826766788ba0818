//! Answering candidates: status queries, pre-votes and vote requests.
//!
//! A voter refuses while a promise of its own to another leader stands, refuses a candidate that has accepted less than
//! itself (Raft, section 5.4.1), and votes once in each term. A vote is on disk before the answer is sent (Raft,
//! section 3.4).
//!
//! Terms may have been led in another way, by a lease, before these voters elected anybody, and not all of them know
//! how many. So a voter votes in none that it knows to have been led, and its answers name the highest one: no term is
//! led again that a majority of the voters knows of.
//!
//! A disk may take longer than any attempt to be elected, and a vote that is on its way to it must not be in vain, or voters
//! with slow disks overtake each other in one term after the other. So while its own vote, or that for another, is being
//! written, a voter grants no pre-vote: nobody moves on to a later term because of it (it could not vote before the write has
//! ended, and if its disk hangs, not at all). And whoever has voted leaves the candidate time to lead, from when the vote is
//! on disk: it neither stands nor grants others a pre-vote.
//!
//! Invariants: a query, a pre-vote and a refused vote move no term; only a granted vote does.
//!
//! Must not know: what a candidate does with the answers.

use std::collections::BTreeSet;

use super::electorate::Identity;
use super::message::Body;
use super::term::Term;
use super::view::ViewRef;
use super::{Action, Alarm, Context, Election, LossReason, Rules};
use crate::member::NodeId;

impl<R: Rules> Election<R> {
    /// Answers a status query: has the leader been heard within its lease?
    pub(super) fn answer_query(&mut self, context: &Context<'_>, from: &NodeId, attempt: u32) {
        let hears_leader = self.hears_leader(context);
        self.send(from, Body::QueryReply { attempt, hears_leader, term: self.refuses_up_to() });
    }

    /// Returns the highest term that may have been led, as far as this voter knows: its own, or one that was led in
    /// another way. That must be one of this electorate's terms, and not beyond the reach of any of its voters: nobody
    /// would be elected above it.
    pub(crate) fn highest_led(&self) -> Term {
        let began = self.electorate().map_or(Term(0), |electorate| electorate.began);
        let is_of_ours = |next: &Term| next.generation() == began.generation() && next.is_reachable_from(began);
        let floor = self.floor.next().filter(is_of_ours).map_or(Term(0), |_| self.floor);
        self.ballot.term.max(floor)
    }

    /// Returns the highest term that this voter votes for nobody in, whoever asks. A candidate may know of less.
    fn refuses_up_to(&self) -> Term {
        self.rules.refuses_up_to(self.ballot.term, self.highest_led())
    }

    /// Returns true if a promise of this voter stands: for as long as it does, somebody may lead by it.
    pub(super) fn hears_leader(&self, context: &Context<'_>) -> bool {
        self.volatile.leader.is_some() && context.now < self.promised_until || self.has_claim()
    }

    /// Answers a pre-vote: would the candidate get the vote?
    pub(super) fn answer_pre_vote(
        &mut self,
        context: &Context<'_>,
        speaker: Identity,
        from: &NodeId,
        (attempt, term, newest): (u32, Term, ViewRef),
    ) {
        let is_granted = self.judge_candidate(context, speaker, from, term, newest) && self.may_back(context, speaker);
        if is_granted {
            self.give_way(context, speaker);
            // Two candidates that stand at once may split the votes: a voter that is about to stand waits for this one.
            self.stand_at = self.stand_at.max(context.now + self.timing.patience().mul_f64(0.5 + 0.5 * context.random));
        }
        self.send(from, Body::PreVoteReply { attempt, is_granted, term: self.refuses_up_to() });
    }

    /// Answers a vote request.
    pub(super) fn answer_vote(
        &mut self,
        context: &Context<'_>,
        speaker: Identity,
        from: &NodeId,
        term: Term,
        newest: ViewRef,
    ) {
        let is_repeated = self.ballot.term == term && self.ballot.vote == Some(speaker);
        if is_repeated || self.judge_candidate(context, speaker, from, term, newest) {
            if !is_repeated {
                self.step_down(context, LossReason::Superseded);
                self.vote_for(speaker, term);
                self.follow(context);
            }
            self.volatile.pending_vote = Some((from.clone(), speaker, term));
            return self.send_pending();
        }
        if let Some(newest) = self.newest() {
            self.send(from, Body::VoteReply { term, is_granted: false, newest });
        }
    }

    /// Returns true if this voter may vote for a candidate that has accepted this view, in a term later than any
    /// before; raises an alarm if the term is out of reach.
    fn judge_candidate(
        &mut self,
        context: &Context<'_>,
        candidate: Identity,
        from: &NodeId,
        term: Term,
        newest: ViewRef,
    ) -> bool {
        let is_of_ours = term.is_usable() && term.generation() == self.ballot.term.generation();
        if !is_of_ours || !term.is_reachable_from(self.ballot.term) {
            self.actions.push_back(Action::Alarm(Alarm::TermLimit { id: from.clone() }));
            return false;
        }
        let Some(mine) = self.newest() else { return false };
        // A promise protects the leader that it was made to: it keeps no voter from voting for that leader once more.
        let is_over = self.rules.is_promise_over(context.now, self.promised_until);
        let is_free = is_over || self.volatile.leader == Some(candidate);
        let is_later = self.rules.may_vote_in(term, self.refuses_up_to());
        // No voter has accepted a view of the term that it stands in, or of a later one.
        let is_sound = newest.term < term && mine.term < term;
        let is_newest = self.rules.has_accepted_enough(newest, mine);
        let may_vote = is_free && !self.is_aside && is_later && is_sound && is_newest;
        if !may_vote {
            self.rules.refused(self, context, term);
        }
        may_vote
    }

    /// Notes the vote, and gives it to the disk.
    pub(super) fn vote_for(&mut self, candidate: Identity, term: Term) {
        assert!(term >= self.ballot.term, "terms never fall");
        self.ballot.term = term;
        self.ballot.vote = Some(candidate);
        self.volatile.leader = None;
        let is_own = candidate == self.ballot.identity;
        self.volatile.votes = is_own.then(BTreeSet::new);
        if is_own {
            // A leader is its own voter, and makes itself the promise that others make it, from a time on that is not known yet.
            self.stored_promise.shorter = None;
            self.ballot.promise = self.ballot.promise.max(self.timing.lease_duration);
        }
        self.persist();
    }

    /// Sends the answers that had to wait for the disk, if it has what they rest on.
    pub(super) fn send_pending(&mut self) {
        self.pay_vote();
        self.pay_ack();
    }

    fn pay_vote(&mut self) {
        let Some((name, candidate, term)) = self.volatile.pending_vote.clone() else { return };
        let is_stored = self.rules.may_send_vote(&self.stored, term, candidate);
        let is_still_meant = self.ballot.has_vote(term, candidate);
        if !is_still_meant {
            self.volatile.pending_vote = None;
            return;
        }
        if let (true, Some(newest)) = (is_stored, self.newest()) {
            self.volatile.pending_vote = None;
            self.send(&name, Body::VoteReply { term, is_granted: true, newest });
        }
    }

    /// Returns true if a pre-vote for this candidate takes nothing away from a vote that was given, or is being
    /// written.
    pub(super) fn may_back(&self, context: &Context<'_>, candidate: Identity) -> bool {
        let is_taken = self.elected.is_some_and(|(elected, until)| elected != candidate && context.now < until);
        !is_taken && !self.is_vote_being_written()
    }

    /// Returns true if the disk does not have the newest vote, or the newest term, yet.
    fn is_vote_being_written(&self) -> bool {
        self.rules.is_vote_being_written(&self.stored, &self.ballot)
    }

    /// Leaves the candidate that got this voter's vote time to lead, from now on.
    pub(super) fn leave_time_to_lead(&mut self, context: &Context<'_>, candidate: Identity) {
        self.elected = Some((candidate, context.now + self.rules.time_to_lead(self.timing.patience())));
        self.stand_at = self.stand_at.max(context.now + self.rules.time_to_lead(self.patience()));
    }
}
