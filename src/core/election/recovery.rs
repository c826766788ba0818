//! Recovery: an operator's way past a majority that is lost for good, and the only one.
//!
//! It begins a new generation with an electorate of those that are left, under a lineage that is drawn. It refuses while a
//! majority of the old electorate answers. Whoever belonged to the old electorate and hears of it votes no
//! more, unless it was named; of two recoveries on two sides of a cut neither ever counts the other's words.
//!
//! Must not know: why the majority is lost.

use std::collections::{BTreeMap, BTreeSet};

use super::electorate::{Electorate, Voter};
use super::message::{Body, Roster};
use super::raw::{Identity, Lineage};
use super::term::Term;
use super::view::{MAX_NUMBER, NumberedView};
use super::{Action, Alarm, ChangeError, Election, LossReason, Role, Surroundings, Unchanged};
use crate::core::id::NodeId;
use crate::core::limits::{IDENTITY_TIMEOUT, MAX_VOTERS};
use crate::core::time::Time;

/// A recovery under way: who is left is being asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Recovery {
    ticket: u64,
    /// Drawn by whoever asked.
    lineage: Lineage,
    named: Vec<NodeId>,
    identities: BTreeMap<NodeId, Identity>,
    /// Voters of the old electorate that answered.
    answered: BTreeSet<Identity>,
    ask_at: Time,
    until: Time,
}

impl Recovery {
    pub(super) fn deadline(&self) -> Time {
        self.ask_at.min(self.until)
    }
}

impl Election {
    /// An operator wants a new generation with these voters, this node among them. `lineage` is a fresh random number.
    pub fn recover(&mut self, around: &Surroundings<'_>, ticket: u64, mut named: Vec<NodeId>, lineage: u64) {
        self.expire(around);
        named.push(self.me.clone());
        named.sort_unstable();
        named.dedup();
        if named.len() > MAX_VOTERS {
            return self.refuse(Some(ticket), ChangeError::NoChange { reason: Unchanged::TooMany });
        }
        if self.recovery.is_some() || self.owed_recovery.is_some() {
            return self.refuse(Some(ticket), ChangeError::Busy);
        }
        if !self.is_voter() {
            return self.refuse(Some(ticket), ChangeError::NoVoter);
        }
        if self.hears_majority(around) {
            return self.refuse(Some(ticket), ChangeError::MajorityAnswers);
        }
        self.recovery = Some(Recovery {
            ticket,
            lineage: Lineage(lineage),
            named,
            identities: BTreeMap::from([(self.me.clone(), self.ballot.identity)]),
            answered: BTreeSet::from([self.ballot.identity]),
            ask_at: around.now,
            until: around.now + self.timing.patience().max(IDENTITY_TIMEOUT),
        });
        self.tend_recovery(around);
    }

    /// Whether a leader's lease stands by this voter.
    fn hears_majority(&self, around: &Surroundings<'_>) -> bool {
        self.has_claim() || self.leader.is_some() && around.now < self.promised_until
    }

    /// Asks again, or ends.
    pub(super) fn tend_recovery(&mut self, around: &Surroundings<'_>) {
        let retry = self.timing.retry();
        let configured = super::forming::hash_of(&self.configured);
        let Some(recovery) = &mut self.recovery else { return };
        if around.now >= recovery.until {
            return self.end_recovery(around);
        }
        if around.now < recovery.ask_at {
            return;
        }
        recovery.ask_at = around.now + retry;
        let named = recovery.named.clone();
        let me = self.me.clone();
        // An attempt of its own would use the same questions; nobody waits for the answers to this one.
        self.send_to_all(&Body::Query { attempt: 0 });
        for id in named.iter().filter(|id| **id != me) {
            self.send(id, Body::Roster(Roster { names: configured, holds: None, asks: true }));
        }
    }

    /// Who is left said who it is.
    pub(super) fn hear_survivor(&mut self, from: &NodeId, identity: Identity) {
        if let Some(recovery) = &mut self.recovery
            && recovery.named.contains(from)
        {
            recovery.identities.insert(from.clone(), identity);
        }
    }

    /// A voter of the old electorate answered.
    pub(super) fn hear_survivor_vote(&mut self, speaker: Identity) {
        if let Some(recovery) = &mut self.recovery {
            recovery.answered.insert(speaker);
        }
    }

    fn end_recovery(&mut self, around: &Surroundings<'_>) {
        let Some(recovery) = self.recovery.take() else { return };
        let ticket = Some(recovery.ticket);
        let Some(accepted) = &self.ballot.accepted else { return };
        let is_majority_there = accepted.electorate.has_majority(|identity| recovery.answered.contains(&identity));
        if is_majority_there || self.hears_majority(around) {
            return self.refuse(ticket, ChangeError::MajorityAnswers);
        }
        if let Some(missing) = recovery.named.iter().find(|id| !recovery.identities.contains_key(*id)) {
            return self.refuse(ticket, ChangeError::NoAnswer { id: missing.clone() });
        }
        let generation = self.ballot.term.generation() + 1;
        let (number, voters) = ((accepted.number + 1).min(MAX_NUMBER), recovery.identities);
        let voters = voters.into_iter().map(|(id, identity)| Voter { id, identity }).collect();
        let succeeds = accepted.electorate.lineage;
        let electorate = Electorate { lineage: recovery.lineage, succeeds, voters };
        if generation > Term::MAX_GENERATION || !electorate.is_well_formed() {
            return self.refuse(ticket, ChangeError::NoChange { reason: Unchanged::NoGenerations });
        }
        self.begin_generation(around, electorate, number, generation);
        self.owed_recovery = Some(recovery.ticket);
    }

    /// The new generation is on disk: now the others and the operator may know.
    pub(super) fn announce_recovery(&mut self) {
        let Some(ticket) = self.owed_recovery.take() else { return };
        self.tell_generation();
        if let Some(electorate) = self.electorate().cloned() {
            self.actions.push_back(Action::Answer { ticket, result: Ok(electorate) });
        }
    }

    /// An operator began a new generation elsewhere.
    pub(super) fn hear_of_recovery(
        &mut self,
        around: &Surroundings<'_>,
        electorate: &Electorate,
        number: u64,
        generation: u64,
    ) {
        let is_named = electorate.voters.iter().any(|voter| voter.identity == self.ballot.identity);
        let is_heir = self.electorate().map_or(is_named, |mine| mine.lineage == electorate.succeeds);
        let is_later = generation > self.ballot.term.generation() && generation <= Term::MAX_GENERATION;
        let is_later = is_later && number <= MAX_NUMBER;
        if !is_heir || !is_later || !electorate.is_well_formed() {
            self.ignored += 1;
            return;
        }
        if self.has_claim() {
            // Its majority is not lost after all; but an operator has said that it is, and others act on that.
            self.resign(around);
            return;
        }
        self.begin_generation(around, electorate.clone(), number, generation);
    }

    fn begin_generation(&mut self, around: &Surroundings<'_>, electorate: Electorate, number: u64, generation: u64) {
        let founding = NumberedView::founding(electorate, generation).numbered(number);
        self.step_down(around, LossReason::Superseded);
        self.ballot.term = Term::zeroth_of(generation);
        self.ballot.vote = None;
        self.leader = None;
        self.agreed = None;
        self.role = Role::Follower;
        self.accept(founding);
        self.actions.push_back(Action::Alarm(Alarm::Recovered { generation }));
        self.follow(around);
    }

    /// Tells the other voters of the generation.
    fn tell_generation(&mut self) {
        if let Some(body) = self.generation() {
            self.send_to_all(&body);
        }
    }

    fn generation(&self) -> Option<Body> {
        let generation = self.ballot.term.generation();
        let accepted = self.ballot.accepted.as_ref().filter(|_| generation > 0)?;
        Some(Body::Recovered { electorate: (*accepted.electorate).clone(), number: accepted.number, generation })
    }

    /// A word of another lineage: of one that an operator ended, or of an electorate that should not be here.
    pub(super) fn meet_other_lineage(&mut self, from: &NodeId, theirs: Lineage) {
        let Some(electorate) = self.electorate() else { return };
        if electorate.succeeds == theirs {
            if let Some(body) = self.generation() {
                self.send(from, body);
            }
        } else if electorate.lineage != theirs {
            self.actions.push_back(Action::Alarm(Alarm::OtherElectorate { id: from.clone() }));
        }
    }
}
