//! Recovery: an operator's way past a majority that is lost for good, and the only one.
//!
//! It begins a new generation with an electorate of the voters that are left, under a lineage that is drawn. It refuses
//! while a majority of the old electorate answers, and while any voter that answers hears a leader: then the majority
//! is out of this voter's reach, and not lost.
//!
//! **Generations converge.** Each electorate names its root, the one that was founded first, and the term at which its
//! generation began, which is drawn, so that no two recoveries share terms. A node that receives a message of an
//! electorate that it does not know answers with its own generation, and a voter that is told of one of its root that
//! stands over its own goes over to it, as a voter if it is named: it may be needed before anybody leads there. Until they
//! meet, each counts only the messages of its own electorate. A candidate or leader of the generation tells it, with each
//! question, to every voter that it has not heard from yet. Where two that were begun apart have leaders the lower one
//! ends like any electorate that meets one that stands over it (see `ending`).
//!
//! **Founding anew** is for when no voter is left with its data. Any node that knows of the former electorate, as every
//! member does, begins the next generation of it on an operator's explicit command: of the same root, so that members
//! follow it, and above every term that was led before, since a generation is. If a voter of the old one comes back
//! after all, the two converge like any recoveries. It is refused while anybody knows of a leader, and if a voter that
//! is asked has its data.
//!
//! Invariants: a term never falls by going over; a leader gives up its claim before it goes over; a generation is told
//! of by nobody whose disk does not have it.
//!
//! Must not know: why the majority is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::electorate::{Electorate, Identity, Lineage, Voter};
use super::io::LostElectorate;
use super::message::{Body, Roster};
use super::term::Term;
use super::view::{MAX_NUMBER, NumberedView};
use super::{Action, Alarm, Ballot, ChangeError, Context, Election, LossReason, Role, Rules, Unchanged, Volatile};
use crate::limits::{IDENTITY_TIMEOUT, MAX_VOTERS};
use crate::member::NodeId;
use crate::time::Time;

/// A recovery under way: the nodes that are left are being asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Recovery {
    ticket: u64,
    /// The lineage of the new electorate, drawn by the caller.
    lineage: Lineage,
    named: Vec<NodeId>,
    identities: BTreeMap<NodeId, Identity>,
    /// The voters of the old electorate that answered.
    answered: BTreeSet<Identity>,
    /// The voter that said that it hears a leader: then a majority is there, if out of this voter's reach.
    led_as_told_by: Option<NodeId>,
    /// The electorate that is founded anew, of which no voter is left; `None` in a recovery by a voter.
    anew: Option<LostElectorate>,
    /// A voter of that electorate that is left all the same.
    left: Option<NodeId>,
    ask_at: Time,
    until: Time,
}

impl Recovery {
    pub(super) fn deadline(&self) -> Time {
        self.ask_at.min(self.until)
    }

    pub(super) fn ticket(&self) -> u64 {
        self.ticket
    }
}

impl<R: Rules> Election<R> {
    /// Begins a new generation with these voters and this node, on an operator's command; `anew`: of an electorate of which no
    /// voter is left, and this node only knows of it. On a voter that is a recovery like any other. `lineage` is a fresh
    /// random number.
    pub fn recover(
        &mut self,
        context: &Context<'_>,
        ticket: u64,
        mut named: Vec<NodeId>,
        lineage: u64,
        anew: Option<LostElectorate>,
    ) {
        let anew = anew.filter(|_| !self.is_voter());
        self.expire(context);
        named.push(self.me.clone());
        named.sort_unstable();
        named.dedup();
        if named.len() > MAX_VOTERS {
            return self.refuse(Some(ticket), ChangeError::NoChange { reason: Unchanged::TooMany });
        }
        if self.recovery.is_some() || self.pending_recovery.is_some() {
            return self.refuse(Some(ticket), ChangeError::Busy);
        }
        if !self.is_voter() && anew.is_none() {
            return self.refuse(Some(ticket), ChangeError::NoVoter);
        }
        if let Some(error) = self.standing_lease(context) {
            return self.refuse(Some(ticket), error);
        }
        self.recovery = Some(Recovery {
            ticket,
            lineage: Lineage(lineage),
            named,
            identities: BTreeMap::from([(self.me.clone(), self.ballot.identity)]),
            answered: BTreeSet::from([self.ballot.identity]),
            led_as_told_by: None,
            anew,
            left: None,
            ask_at: context.now,
            until: context.now + self.timing.patience().max(IDENTITY_TIMEOUT),
        });
        self.continue_recovery(context);
    }

    /// Returns the refusal of a recovery while a lease stands: this node's own, although its majority may be gone, or one
    /// that it has promised.
    fn standing_lease(&self, context: &Context<'_>) -> Option<ChangeError> {
        let whole_seconds = |rest: Duration| rest.as_nanos().div_ceil(1_000_000_000) as u64;
        if let Some(rest) = self.claim_left(context.now) {
            return Some(ChangeError::StillLeads { seconds: whole_seconds(rest) });
        }
        // The leader that it is promised to may be gone.
        let is_promised = self.volatile.leader.is_some() && context.now < self.promised_until;
        let seconds = || whole_seconds(self.promised_until.since(context.now));
        is_promised.then(|| ChangeError::LeasePromised { seconds: seconds() })
    }

    /// Asks again, or ends the recovery.
    pub(super) fn continue_recovery(&mut self, context: &Context<'_>) {
        let retry = self.timing.retry();
        let Some(recovery) = &mut self.recovery else { return };
        if context.now >= recovery.until {
            return self.end_recovery(context);
        }
        if context.now < recovery.ask_at {
            return;
        }
        recovery.ask_at = context.now + retry;
        let lost = recovery.anew.as_ref().map(|lost| lost.voters.clone());
        let asked: BTreeSet<NodeId> = recovery.named.iter().cloned().chain(lost.iter().flatten().cloned()).collect();
        if lost.is_none() {
            // An attempt of this node to be elected would use the same questions; nobody waits for the answers to this
            // one.
            if let Some(newest) = self.newest() {
                self.send_to_all(&Body::Query { attempt: 0, newest });
            }
        }
        for id in asked.into_iter().filter(|id| *id != self.me).collect::<Vec<_>>() {
            self.introduce(&id, true);
        }
    }

    /// Takes the identity of a node that is left.
    pub(super) fn hear_survivor(&mut self, from: &NodeId, identity: Identity, roster: &Roster) {
        let Some(recovery) = &mut self.recovery else { return };
        let root = recovery.anew.as_ref().map(|lost| lost.descent.root);
        let votes_in = roster.founded.filter(|_| roster.newest.is_some()).map(|founded| founded.descent.root);
        if root.is_some() && votes_in == root {
            recovery.left.get_or_insert_with(|| from.clone());
        }
        if recovery.named.contains(from) {
            recovery.identities.insert(from.clone(), identity);
        }
    }

    /// Returns true if an electorate is being founded anew.
    pub fn is_founding_anew(&self) -> bool {
        self.recovery.as_ref().is_some_and(|recovery| recovery.anew.is_some())
    }

    /// Ends a founding anew, since a member knows of a leader: no electorate is founded beside it.
    pub fn hear_of_leader(&mut self, by: &NodeId) {
        if let Some(recovery) = self.recovery.take_if(|recovery| recovery.anew.is_some()) {
            self.refuse(Some(recovery.ticket), ChangeError::LeaderHeard { by: by.clone() });
        }
    }

    /// Notes that a voter of the old electorate answered.
    pub(super) fn survivor_answered(&mut self, speaker: Identity, from: &NodeId, hears_leader: bool) {
        if let Some(recovery) = &mut self.recovery {
            recovery.answered.insert(speaker);
            if hears_leader {
                recovery.led_as_told_by.get_or_insert_with(|| from.clone());
            }
        }
    }

    fn end_recovery(&mut self, context: &Context<'_>) {
        let Some(recovery) = self.recovery.take() else { return };
        let ticket = Some(recovery.ticket);
        let (before, number) = match (&recovery.anew, &self.ballot.accepted) {
            (Some(lost), _) => (lost.descent, lost.number),
            (None, Some(accepted)) => (accepted.electorate.descent(), accepted.number),
            (None, None) => return,
        };
        let accepted = self.ballot.accepted.as_ref().filter(|_| recovery.anew.is_none());
        let is_majority_there =
            accepted.is_some_and(|accepted| self.rules.is_majority_there(&accepted.electorate, &recovery.answered));
        if is_majority_there || self.hears_leader(context) {
            return self.refuse(ticket, ChangeError::MajorityAnswers);
        }
        if let Some(id) = recovery.left {
            return self.refuse(ticket, ChangeError::VoterLeft { id });
        }
        if let Some(by) = recovery.led_as_told_by {
            return self.refuse(ticket, ChangeError::LeaderHeard { by });
        }
        if let Some(missing) = recovery.named.iter().find(|id| !recovery.identities.contains_key(*id)) {
            return self.refuse(ticket, ChangeError::NoAnswer { id: missing.clone() });
        }
        let (number, voters) = ((number + 1).min(MAX_NUMBER), recovery.identities);
        let voters = voters.into_iter().map(|(id, identity)| Voter { id, identity }).collect();
        let draw = self.rules.drawn_beginning(recovery.lineage);
        let generation = self.rules.begins_above(self.ballot.term, before.began).generation() + 1;
        let began = Term::beginning_of(generation, draw);
        let electorate =
            Electorate { lineage: recovery.lineage, root: before.root, began, founded: before.founded, voters };
        if !electorate.is_well_formed() {
            return self.refuse(ticket, ChangeError::NoChange { reason: Unchanged::NoGenerations });
        }
        self.begin_generation(context, electorate, number);
        self.pending_recovery = Some(recovery.ticket);
    }

    /// Tells the voters and the operator of the new generation, which is on disk now.
    pub(super) fn announce_generation(&mut self) {
        for id in std::mem::take(&mut self.volatile.to_be_told) {
            self.tell_generation_to(&id);
        }
        let Some(ticket) = self.pending_recovery.take() else { return };
        if let Some(electorate) = self.electorate().cloned() {
            self.actions.push_back(Action::Answer { ticket, result: Ok(electorate) });
        }
    }

    /// Takes over a generation that began elsewhere. A sender whose generation is older than this node's is
    /// told so.
    pub(super) fn hear_of_recovery(
        &mut self,
        context: &Context<'_>,
        from: &NodeId,
        electorate: &Electorate,
        number: u64,
    ) {
        let is_named = electorate.contains(self.ballot.identity);
        let is_known = self.ballot.known.is_none_or(|known| !known.stands_over(&electorate.descent()));
        let is_heir = self
            .electorate()
            .map_or(is_named && is_known, |mine| self.rules.takes_place_of(electorate, mine, is_named));
        if !is_heir || !electorate.is_well_formed() || number > MAX_NUMBER {
            self.ignore();
            if electorate.is_well_formed() && self.electorate().is_some_and(|mine| mine.succeeds(electorate)) {
                self.tell_generation_to(from);
            }
            return;
        }
        if self.has_claim() {
            self.actions.push_back(Action::Alarm(Alarm::OtherElectorate { id: from.clone() }));
        }
        self.begin_generation(context, electorate.clone(), number);
    }

    fn begin_generation(&mut self, context: &Context<'_>, electorate: Electorate, number: u64) {
        let generation = electorate.began.generation();
        self.step_down(context, LossReason::Superseded);
        let former = self.others();
        // Of two generations that began at once, the later one may begin below a term that was led in the other: terms
        // never fall.
        self.ballot.term = self.ballot.term.max(electorate.began);
        self.ballot.vote = None;
        self.keep_electorate_aside(&electorate.descent());
        self.volatile = Volatile::default();
        self.role = Role::Follower;
        self.ballot.accepted = Some(NumberedView::founding(electorate).numbered(number));
        // The voters of the former electorate may not know of the new one. The voters of the new one may know of a
        // later one, and answer with it: who told this node may not have told it, and a node that is not named in the
        // new one asks nobody any more.
        // Of the first one its founder tells all.
        if generation > 0 {
            self.volatile.to_be_told = former.into_iter().chain(self.others()).map(|voter| voter.id).collect();
            self.actions.push_back(Action::Alarm(Alarm::Recovered { generation }));
        }
        self.persist();
        self.follow(context);
    }

    /// Notes that a voter of this electorate, which has sent a message, knows of its generation.
    pub(super) fn note_informed(&mut self, speaker: Identity) {
        let is_recovered = self.electorate().is_some_and(|mine| mine.began > Term(0) && mine.contains(speaker));
        if is_recovered {
            self.volatile.informed.insert(speaker);
        }
    }

    /// Tells a voter of the generation before it is asked for anything, if it has sent nothing yet: it may not know of
    /// it, since what it was told once may have been lost.
    pub(super) fn inform_of_generation(&mut self, voter: &Voter) {
        let is_recovered = self.electorate().is_some_and(|mine| mine.began > Term(0));
        if is_recovered && !self.volatile.informed.contains(&voter.identity) {
            self.tell_generation_to(&voter.id);
        }
    }

    fn tell_generation_to(&mut self, id: &NodeId) {
        if let Some(body) = self.generation() {
            self.send(id, body);
        }
    }

    /// Returns the message about this node's generation. While that is not on its disk, there is none: the generation might
    /// be forgotten here and stand elsewhere.
    fn generation(&self) -> Option<Body> {
        let lineage_of = |ballot: &Ballot| ballot.accepted.as_ref().map(|accepted| accepted.electorate.lineage);
        let may_tell = self.rules.may_tell(lineage_of(&self.stored), lineage_of(&self.ballot));
        let accepted = self.ballot.accepted.as_ref().filter(|_| may_tell)?;
        Some(Body::Generation { electorate: (*accepted.electorate).clone(), number: accepted.number })
    }

    /// Handles a message of another lineage: of an electorate that an operator ended, of one that ended this one, or of
    /// one that should not be here. A recovered node answers with its generation: of two, the later one stands.
    pub(super) fn meet_other_lineage(&mut self, from: &NodeId, theirs: Lineage) {
        let Some(electorate) = self.electorate() else { return };
        // A node that was never recovered is told by the others, and knows no more than that they are others.
        let is_told = electorate.began > Term(0);
        if is_told {
            self.tell_generation_to(from);
        } else if electorate.lineage != theirs {
            self.actions.push_back(Action::Alarm(Alarm::OtherElectorate { id: from.clone() }));
        }
    }
}
