//! A campaign for election: status query, pre-vote, vote, one after the other, each answered by a majority or given up.
//!
//! The first two move nobody's term, so that a voter that was cut off, or hears badly, disturbs nobody: it goes on only
//! if a majority, itself included, has not heard the leader for a lease either (Raft, section 9.6, and `LeaderStatusQuery`
//! of the Cluster Specification, see headcount's page `requirements`). Answers carry the sender's term. Nobody adopts it from them, but
//! a candidate stands above all terms that it heard of, since it would be refused below.
//!
//! The successor that a leader named when it resigned knows that nobody leads, and does not wait for lost packets as
//! long as others: it asks again after [`RELEASE_PAUSE`], then after twice as long, and so on up to the usual pause. A
//! voter that refuses it a pre-vote may not have heard of the release yet, and is asked again, too, until it should
//! have.
//!
//! Two candidates that stand at the same time would each vote for itself, and where messages take long many stand
//! before they hear of each other. So a candidate that would vote for the other one, and has not voted for itself yet,
//! gives way if its own identity is the higher one, at most [`MOST_WAYS_GIVEN`] times until a leader is heard: then
//! chance decides as it would have anyway.
//!
//! Votes for a candidate count for as long as its term has not moved, also after it has given the attempt up (Raft: a
//! candidate stays one until its term moves): a disk may take longer than any attempt.
//!
//! Invariants: a voter votes for itself as for any other, on disk first; it leads only once its own vote is on disk.
//! Attempts in vain become rarer, up to a quarter of the lease. The votes that are counted are of one term, that in which this
//! voter voted for itself, and it has not led in it.
//!
//! Must not know: what a leader does.

use std::collections::BTreeMap;
use std::time::Duration;

use super::electorate::Identity;
use super::message::Body;
use super::term::Term;
use super::view::ViewRef;
use super::{Action, Alarm, Context, Election, Role, Rules};
use crate::limits::{FUTILE_ATTEMPTS, MOST_WAYS_GIVEN, RELEASE_PAUSE, RELEASES};
use crate::member::NodeId;
use crate::time::Time;

/// An attempt to be elected.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Campaign {
    stage: Stage,
    attempt: u32,
    /// This voter's term when the attempt began: if it moves, the attempt is over.
    began_in: Term,
    /// The term to stand in.
    term: Term,
    /// The voters that answered in this stage; true if in favour.
    answers: BTreeMap<Identity, bool>,
    /// In a campaign of a named successor: the number of times that this stage's question was asked, as far as it
    /// matters.
    asked: Option<u32>,
    ask_at: Time,
    give_up_at: Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Query,
    PreVote,
    Vote,
}

impl Campaign {
    pub(super) fn deadline(&self) -> Time {
        self.ask_at.min(self.give_up_at)
    }

    /// Returns true if a refusal may only mean that its voter has not heard yet that the last leader resigned.
    fn may_be_premature(&self) -> bool {
        self.stage == Stage::PreVote && self.asked.is_some_and(|asked| asked <= RELEASES)
    }

    /// Counts one more asking of the question; returns how long its answers are waited for.
    fn next_pause(&mut self, retry: Duration) -> Duration {
        let Some(asked) = &mut self.asked else { return retry };
        let pause = (RELEASE_PAUSE * (1 << *asked)).min(retry);
        *asked = (*asked + 1).min(RELEASES + 1);
        pause
    }
}

impl<R: Rules> Election<R> {
    /// Begins an attempt in a term above this one, and above this voter's own.
    pub(super) fn stand_above(&mut self, context: &Context<'_>, above: Term) {
        // A view may have arrived from a leader whose renewals did not.
        let seen = self.newest().map_or(above, |newest| newest.term.max(above)).max(self.highest_led());
        let Some(term) = seen.next() else {
            self.actions.push_back(Action::Alarm(Alarm::TermLimit { id: self.me.clone() }));
            self.stand_at = context.now + self.timing.lease_duration;
            return;
        };
        self.attempts = self.attempts.wrapping_add(1);
        // The successor that the last leader named knows that nobody leads.
        let is_successor = std::mem::take(&mut self.is_successor);
        let stage = if is_successor { Stage::PreVote } else { Stage::Query };
        self.role = Role::Candidate(Campaign {
            stage,
            attempt: self.attempts,
            began_in: self.ballot.term,
            term,
            answers: BTreeMap::new(),
            asked: is_successor.then_some(0),
            ask_at: context.now,
            give_up_at: context.now + self.patience(),
        });
        self.rules.begin_attempt(self, context, term);
    }

    /// Asks again the voters that have not answered, or gives up.
    pub(super) fn stand_on(&mut self, context: &Context<'_>) {
        let retry = self.timing.retry();
        let Role::Candidate(campaign) = &mut self.role else { return };
        if context.now >= campaign.give_up_at {
            return self.give_up(context);
        }
        if context.now < campaign.ask_at {
            return;
        }
        let could_change = campaign.may_be_premature();
        campaign.ask_at = context.now + campaign.next_pause(retry);
        let (stage, attempt, term) = (campaign.stage, campaign.attempt, campaign.term);
        let may_change = campaign.may_be_premature();
        let is_final = |is_in_favour: bool| is_in_favour || !may_change;
        let answered = campaign.answers.iter().filter(|(_, answer)| is_final(**answer));
        let answered: Vec<Identity> = answered.map(|(identity, _)| *identity).collect();
        let Some(newest) = self.newest() else { return };
        let body = match stage {
            Stage::Query => Body::Query { attempt, newest },
            Stage::PreVote => Body::PreVote { attempt, term, newest },
            Stage::Vote => Body::Vote { term, newest },
        };
        for voter in self.others() {
            if !answered.contains(&voter.identity) {
                self.inform_of_generation(&voter);
                self.send(&voter.id, body.clone());
            }
        }
        if could_change && !may_change {
            self.advance(context);
        }
    }

    /// Counts a voter's answer to the question of this stage: whether it hears no leader, or would vote for this node.
    pub(super) fn hear_answer(
        &mut self,
        context: &Context<'_>,
        (speaker, from): (Identity, &NodeId),
        (stage, attempt): (Stage, u32),
        is_in_favour: bool,
        term: Term,
    ) {
        let Role::Candidate(campaign) = &mut self.role else { return self.ignore() };
        if campaign.stage != stage || campaign.attempt != attempt {
            return self.ignore();
        }
        if term >= campaign.term && term.generation() == campaign.began_in.generation() {
            match term.next().filter(|above| above.is_reachable_from(self.ballot.term)) {
                // The stages that follow are about this one.
                Some(above) if stage == Stage::Query => campaign.term = above,
                // The pre-votes so far were about another term: the next attempt is above it.
                Some(_) => {}
                None => self.actions.push_back(Action::Alarm(Alarm::TermLimit { id: from.clone() })),
            }
        }
        self.count(context, speaker, is_in_favour);
    }

    /// Counts a vote, or the refusal of one.
    pub(super) fn hear_vote(
        &mut self,
        context: &Context<'_>,
        speaker: Identity,
        term: Term,
        is_granted: bool,
        newest: ViewRef,
    ) {
        // No voter votes for a candidate that has accepted less than itself: such an answer is false.
        let is_sound = !(is_granted && self.rules.is_false_vote(newest, self.newest()));
        let is_noted = is_granted && is_sound && self.note_vote(speaker, term);
        match &self.role {
            Role::Candidate(campaign) if campaign.stage == Stage::Vote && campaign.term == term && is_sound => {
                self.count(context, speaker, is_granted);
            }
            _ if is_noted => self.count_late_votes(context),
            _ => self.ignore(),
        }
    }

    fn count(&mut self, context: &Context<'_>, speaker: Identity, is_in_favour: bool) {
        if let Role::Candidate(campaign) = &mut self.role {
            campaign.answers.insert(speaker, is_in_favour);
        }
        self.advance(context);
    }

    /// Goes on to the next stage if a majority is in favour, this voter included.
    pub(super) fn advance(&mut self, context: &Context<'_>) {
        let Some(electorate) = self.electorate() else { return };
        let Role::Candidate(campaign) = &self.role else { return };
        let me = self.ballot.identity;
        if campaign.began_in != self.ballot.term && campaign.stage != Stage::Vote {
            return self.give_up(context);
        }
        let is_own_counted =
            campaign.stage != Stage::Vote || self.rules.counts_own_vote(&self.stored, campaign.term, me);
        let favours = |identity| {
            if identity == me { is_own_counted } else { campaign.answers.get(&identity) == Some(&true) }
        };
        let is_carried = is_own_counted && context.is_up && self.rules.has_won(electorate, favours);
        let has_answers =
            electorate.has_majority(|identity| identity == me || campaign.answers.contains_key(&identity));
        let is_lost = has_answers
            && !campaign.may_be_premature()
            && electorate.has_majority(|identity| campaign.answers.get(&identity) == Some(&false));
        let (stage, term) = (campaign.stage, campaign.term);
        if has_answers && self.failures < FUTILE_ATTEMPTS {
            self.set_quorum(true);
        }
        if is_carried {
            match stage {
                Stage::Query => self.enter(context, Stage::PreVote),
                Stage::PreVote => {
                    self.vote_for(me, term);
                    self.enter(context, Stage::Vote);
                }
                Stage::Vote => self.begin_to_lead(context),
            }
        } else if is_lost {
            self.give_up(context);
        }
    }

    pub(super) fn enter(&mut self, context: &Context<'_>, stage: Stage) {
        let patience = self.patience();
        let Role::Candidate(campaign) = &mut self.role else { return };
        campaign.stage = stage;
        campaign.answers.clear();
        campaign.asked = campaign.asked.map(|_| 0);
        campaign.ask_at = context.now;
        campaign.give_up_at = context.now + patience;
        self.stand_on(context);
        self.advance(context);
    }

    /// Returns the time that a stage may take: longer after each attempt in vain, since the other voters may be far
    /// away.
    pub(super) fn patience(&self) -> Duration {
        (self.timing.patience() * 2u32.pow(self.failures.min(6))).min(self.timing.lease_duration / 2)
    }

    /// Gives way to another candidate that would get this one's vote.
    pub(super) fn give_way(&mut self, context: &Context<'_>, to: Identity) {
        let Role::Candidate(campaign) = &self.role else { return };
        // A named successor is in a hurry, and stands alone.
        let is_open = campaign.stage != Stage::Vote && campaign.asked.is_none();
        if is_open && to < self.ballot.identity && self.failures < MOST_WAYS_GIVEN {
            self.failures += 1;
            self.follow(context);
        }
    }

    /// Ends the attempt; the next one comes later, and later each time.
    fn give_up(&mut self, context: &Context<'_>) {
        if let (Role::Candidate(campaign), Some(electorate)) = (&self.role, self.electorate()) {
            let me = self.ballot.identity;
            let is_reached =
                electorate.has_majority(|identity| identity == me || campaign.answers.contains_key(&identity));
            // Voters may answer and yet not vote: those whose disks are full. While a leader is heard, nobody is asked
            // for votes.
            let is_futile = campaign.stage != Stage::Query && self.failures + 1 >= FUTILE_ATTEMPTS;
            // A majority that answers the first question with no hears a leader, and a term that moved may have one.
            let has_term_moved = campaign.stage != Stage::Vote && campaign.began_in != self.ballot.term;
            let is_failure = !has_term_moved && (campaign.stage != Stage::Query || !is_reached);
            self.set_quorum(is_reached && !is_futile);
            if is_failure {
                self.actions.push_back(Action::Alarm(Alarm::ElectionFailed { is_answered: is_reached }));
            }
        }
        let most = self.timing.lease_duration / 4;
        let pause = (self.timing.spread() * 2u32.pow(self.failures.min(6))).min(most);
        // A voter that was voted out stands only in case nobody else can.
        let pause = if self.is_voter() { pause } else { self.timing.lease_duration };
        self.failures += 1;
        self.follow(context);
        self.stand_at = self.promised_until.max(context.now) + pause.mul_f64(0.5 + context.random);
    }

    /// Counts a vote; returns true if it may still carry this voter.
    fn note_vote(&mut self, speaker: Identity, term: Term) -> bool {
        let is_open = self.ballot.has_vote(term, self.ballot.identity);
        let votes = self.volatile.votes.as_mut().filter(|_| is_open);
        votes.map(|votes| votes.insert(speaker)).is_some()
    }

    /// Leads if a majority has voted for this voter, although it has given that attempt up.
    pub(super) fn count_late_votes(&mut self, context: &Context<'_>) {
        let (Some(votes), Some(electorate)) = (&self.volatile.votes, self.electorate()) else { return };
        let (me, term) = (self.ballot.identity, self.ballot.term);
        let is_open = self.rules.counts_late_votes(&self.ballot, term) && self.stored.has_vote(term, me);
        let may_lead = matches!(self.role, Role::Follower | Role::Candidate(_)) && context.is_up;
        let may_lead = may_lead && !self.is_aside && !self.is_draining();
        let has_voted = |identity| identity == me || votes.contains(&identity);
        if is_open && may_lead && electorate.has_majority(has_voted) {
            self.begin_to_lead(context);
        }
    }
}
