//! Forming the first electorate: every configured voter learns the identities of *all* the others before it votes.
//!
//! Two voters know each other once each has heard the other's identity *and* that the other holds its own. Only then
//! is the other counted in, so that an electorate names identities that all knew of one another at one time: if
//! a voter's disk is lost meanwhile, voters that have not formed yet meet it under its new identity, and those that
//! have formed turn it away. A voter that has formed once never forms again.
//!
//! **The founder alone forms**: the first of the configured names. It names the time of its wall clock as the founding,
//! by which electorates that were founded apart are compared for ever, and tells the others once its electorate is on its
//! disk; they take it over, as whoever comes late does. So all have the same one, also if the founder starts again
//! meanwhile. A founder whose clock is before this program's time forms nothing.
//!
//! **Never beside another one.** A cluster has one electorate, whichever nodes are configured to form one: those voters
//! may have been replaced since, and come back with empty disks. So no voter forms an electorate while it knows of
//! another one, or while a single member reports one; and since each voter counts every other one in, and tells it what
//! it knows, one voter that knows keeps all of them from forming. Members tell a joiner before it is Up, so that it
//! knows in time where there is an electorate, and need not wait where there is none. A voter that finds itself in the
//! existing electorate (another voter has formed it, and names its identity) takes it over; one that is not in it stays
//! outside, and raises an alarm. Voters that come back with empty disks and know each other alone are found by the members
//! that live on before they are Up (see `joining::finders`): here nothing is waited for.
//!
//! Invariants: nobody votes before the electorate is on disk; the names configured must be the same everywhere; an
//! electorate is formed only if every report of an electorate, by a voter or another member, is of this one.
//!
//! Must not know: elections.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

use super::electorate::{Descent, Electorate, Identity, Lineage, Voter};
use super::message::{Body, ElectorateReport, Roster};
use super::view::NumberedView;
use super::{Action, Alarm, Context, Election, Role, Rules};
use crate::limits::{EARLIEST_FOUNDING, IDENTITY_TIMEOUT};
use crate::member::NodeId;
use crate::time::Time;

/// The number of rounds of questions after which, and after as many again, the operator is told which voters have not
/// answered.
const ROUNDS_UNTIL_TOLD: u32 = 8;

/// The answers gathered so far.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Forming {
    /// The last answers of the other configured voters.
    heard: BTreeMap<NodeId, Heard>,
    ask_at: Time,
    /// The number of rounds of questions so far: they become rarer.
    rounds: u32,
    /// The time at which this node becomes an outsider to the known electorate, unless it has turned out to be in it;
    /// `None` while no electorate is known.
    outside_at: Option<Time>,
}

/// The last answer of a configured voter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Heard {
    identity: Identity,
    holds_me: bool,
    /// The electorate that it knows of.
    founded: Option<Descent>,
}

impl Forming {
    pub(super) fn new(now: Time) -> Self {
        Self { heard: BTreeMap::new(), ask_at: now, rounds: 0, outside_at: None }
    }

    pub(super) fn deadline(&self) -> Time {
        self.outside_at.map_or(self.ask_at, |outside_at| outside_at.min(self.ask_at))
    }
}

/// Returns the hash of the names configured as voters.
pub(super) fn hash_of(names: &[NodeId]) -> u64 {
    let text: Vec<&str> = names.iter().map(NodeId::as_str).collect();
    xxh3_64(text.join("\n").as_bytes())
}

impl<R: Rules> Election<R> {
    /// Asks the configured voters for their identities, until the electorate is formed.
    pub(super) fn form(&mut self, context: &Context<'_>) {
        let (retry, most) = (self.timing.retry(), self.timing.lease_duration / 4);
        let patience = self.timing.patience().max(IDENTITY_TIMEOUT);
        let Role::Forming(forming) = &mut self.role else { return };
        if self.ballot.known.is_some() && context.now >= *forming.outside_at.get_or_insert(context.now + patience) {
            self.role = Role::Outside;
            self.actions.push_back(Action::Alarm(Alarm::ElectorateExists));
            return;
        }
        let is_told = forming.rounds > 0 && forming.rounds.is_multiple_of(ROUNDS_UNTIL_TOLD);
        if context.now >= forming.ask_at && is_told {
            let is_missing = |id: &&NodeId| **id != self.me && !forming.heard.contains_key(*id);
            let ids: Vec<NodeId> = self.configured.iter().filter(is_missing).cloned().collect();
            if !ids.is_empty() {
                self.actions.push_back(Action::Alarm(Alarm::VotersMissing { ids }));
            } else if let Some(id) = self.configured.first().filter(|id| **id != self.me) {
                // The founder names its reason in its own log alone.
                self.actions.push_back(Action::Alarm(Alarm::FounderWaits { id: id.clone() }));
            }
        }
        if context.now >= forming.ask_at {
            let pause = (retry * 2u32.pow(forming.rounds.min(8))).min(most.max(retry));
            forming.rounds += 1;
            forming.ask_at = context.now + pause.mul_f64(0.75 + 0.5 * context.random);
            // Voters that are known are asked as well: they may have formed since, or have heard of an electorate.
            self.introduce_to_all(true);
        }
        self.form_if_complete(context);
    }

    /// Returns true if this node is the one that forms the first electorate of those configured.
    pub(super) fn is_founder(&self) -> bool {
        self.configured.first() == Some(&self.me)
    }

    /// Takes what is known of an electorate in this cluster: `sure` by an agreed view; `rumoured` by the report of a member,
    /// with whether that member is sure of it.
    pub fn learn_of(&mut self, context: &Context<'_>, sure: Option<Descent>, rumoured: Option<ElectorateReport>) {
        self.expire(context);
        let before = (self.founded(), self.rumoured);
        self.rumoured = rumoured;
        let has_ended = sure.is_some_and(|sure| self.end_for(context, &sure));
        let is_news = |sure: &Descent| has_ended || self.founded().is_none_or(|founded| sure.stands_over(&founded));
        if let Some(sure) = sure.filter(is_news) {
            self.ballot.known = Some(sure);
            self.persist();
        }
        if context.is_up && self.is_forming() {
            if before != (self.founded(), self.rumoured) {
                // Other voters may have counted this node in: they must know before they form.
                self.introduce_to_all(false);
            }
            self.form(context);
        }
    }

    /// Returns this node's report of the electorate that it knows of: of one that it formed itself once that is on its disk.
    /// Hearsay that was passed on to it already is not passed on again.
    pub fn electorate_report(&self) -> Option<ElectorateReport> {
        let stored = self.stored.accepted.as_ref().map(|view| view.electorate.descent());
        let sure = stored.into_iter().chain(self.ballot.known).max_by_key(Descent::rank);
        let sure = sure.map(|descent| ElectorateReport { descent, is_sure: true });
        let told = || self.rumoured.filter(|told| told.is_sure).map(|told| ElectorateReport { is_sure: false, ..told });
        sure.or_else(told)
    }

    /// Returns true if this node is to form an electorate with others, and has none.
    pub fn is_forming(&self) -> bool {
        matches!(self.role, Role::Forming(_))
    }

    fn introduce_to_all(&mut self, asks: bool) {
        let others: Vec<NodeId> = self.configured.iter().filter(|id| **id != self.me).cloned().collect();
        for id in others {
            self.introduce(&id, asks);
        }
    }

    /// Sends a node this node's identity, and the identity that it holds of the other.
    pub(super) fn introduce(&mut self, to: &NodeId, asks: bool) {
        let holds = match &self.role {
            // A voter that must not be counted in yet counts nobody in.
            Role::Forming(_) if self.rumoured.is_some_and(|told| !told.is_sure) => None,
            Role::Forming(forming) => forming.heard.get(to).map(|heard| heard.identity),
            _ => self.electorate().and_then(|electorate| electorate.named(to)).map(|voter| voter.identity),
        };
        // Nobody takes an electorate over that its founder may have forgotten when it starts again.
        let newest = self.newest().filter(|_| self.is_voter() && self.stored.accepted.is_some());
        let founded = self.electorate_report();
        self.send(to, Body::Roster(Roster { names: hash_of(&self.configured), holds, asks, founded, newest }));
    }

    /// Takes the identity that a node sent.
    pub(super) fn hear_roster(&mut self, context: &Context<'_>, from: &NodeId, identity: Identity, roster: &Roster) {
        self.learner_identified(context, from, identity);
        self.hear_survivor(from, identity, roster);
        let me = self.ballot.identity;
        if let Role::Forming(forming) = &mut self.role
            && self.configured.binary_search(from).is_ok()
        {
            if roster.names != hash_of(&self.configured) {
                self.actions.push_back(Action::Alarm(Alarm::VotersDiffer { with: from.clone() }));
                return;
            }
            if roster.holds.is_some_and(|held| held != me) {
                // The other voter may have formed its electorate with the identity that had this node's name before its
                // disk was lost.
                self.actions.push_back(Action::Alarm(Alarm::IdentityMismatch));
            }
            let founded = roster.founded.map(|founded| founded.descent);
            forming.heard.insert(from.clone(), Heard { identity, holds_me: roster.holds == Some(me), founded });
        }
        if roster.asks {
            // The founder need not wait for its next question to hear from who has just come.
            let is_new = self.is_forming() && self.is_founder() && roster.holds.is_none();
            self.introduce(from, is_new);
        }
        self.form_if_complete(context);
        if let (Role::Forming(_), Some(view)) = (&self.role, roster.newest)
            && roster.holds == Some(me)
        {
            // The sender votes in an electorate that seems to name this node.
            self.actions.push_back(Action::Wanted { view, from: from.clone() });
        }
    }

    /// Returns true if an electorate other than this one is reported.
    fn is_another_known_of(&self, lineage: Lineage) -> bool {
        let Role::Forming(forming) = &self.role else { return false };
        let told = forming.heard.values().filter_map(|heard| heard.founded);
        let rumoured = self.rumoured.map(|told| told.descent);
        self.ballot
            .known
            .into_iter()
            .chain(rumoured)
            .chain(told)
            .any(|founded| self.rules.is_another(founded.lineage, lineage))
    }

    /// Takes the wall clock anew: it was set, perhaps.
    pub fn set_wall_clock(&mut self, context: &Context<'_>, now: u64) {
        self.wall_clock = (now, context.now);
    }

    fn form_if_complete(&mut self, context: &Context<'_>) {
        let Role::Forming(forming) = &self.role else { return };
        let is_known = |id: &NodeId| forming.heard.get(id).is_some_and(|heard| heard.holds_me);
        let is_complete = self.configured.iter().all(|id| *id == self.me || is_known(id));
        if !is_complete || !self.is_founder() {
            return;
        }
        let (wall_clock, began) = self.wall_clock;
        let founded = wall_clock.saturating_add(context.now.since(began).as_millis() as u64);
        if founded < EARLIEST_FOUNDING {
            return self.actions.push_back(Action::Alarm(Alarm::ClockBehind));
        }
        let others = forming.heard.iter().map(|(id, heard)| Voter { id: id.clone(), identity: heard.identity });
        let me = Voter { id: self.me.clone(), identity: self.ballot.identity };
        let electorate = Electorate::founded_by(others.chain([me]).collect(), founded);
        if !electorate.is_well_formed() || self.is_another_known_of(electorate.lineage) {
            return;
        }
        self.ballot.accepted = Some(NumberedView::founding(electorate));
        // They take it over, once it is on this disk.
        self.volatile.to_be_told = self.others().into_iter().map(|voter| voter.id).collect();
        self.persist();
        self.follow(context);
    }
}
