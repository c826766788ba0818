//! Forming the first electorate: every configured voter learns the identities of *all* the others before it votes.
//!
//! Two voters know each other once each has heard the other's identity *and* that the other holds its own. Only then does
//! either count the other in, so that an electorate names identities that all knew of one another at one time: a voter
//! whose disk is lost meanwhile is met under its new identity by who has not formed yet, and turned away by who has.
//! Whoever has formed once never forms again.
//!
//! Invariants: nothing is voted before the electorate is on disk; the names configured must be the same everywhere.
//!
//! Must not know: elections.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

use super::electorate::{Electorate, Voter};
use super::message::{Body, Roster};
use super::raw::Identity;
use super::view::NumberedView;
use super::{Action, Alarm, Election, Role, Surroundings};
use crate::core::id::NodeId;
use crate::core::time::Time;

/// What is known so far.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Forming {
    /// Of the other configured voters that spoke: who they are, and whether they hold our identity.
    heard: BTreeMap<NodeId, (Identity, bool)>,
    ask_at: Time,
    /// Rounds of questions so far: they become rarer.
    rounds: u32,
}

impl Forming {
    pub(super) fn new(now: Time) -> Self {
        Self { heard: BTreeMap::new(), ask_at: now, rounds: 0 }
    }

    pub(super) fn deadline(&self) -> Time {
        self.ask_at
    }
}

/// The hash of the names configured as voters.
pub(super) fn hash_of(names: &[NodeId]) -> u64 {
    let text: Vec<&str> = names.iter().map(NodeId::as_str).collect();
    xxh3_64(text.join("\n").as_bytes())
}

impl Election {
    /// Asks the configured voters who they are, until the electorate is formed.
    pub(super) fn form(&mut self, around: &Surroundings<'_>) {
        let (retry, most) = (self.timing.retry(), self.timing.lease_duration / 4);
        let Role::Forming(forming) = &mut self.role else { return };
        if around.now >= forming.ask_at {
            let pause = (retry * 2u32.pow(forming.rounds.min(8))).min(most.max(retry));
            forming.rounds += 1;
            forming.ask_at = around.now + pause.mul_f64(0.75 + 0.5 * around.luck);
            let unknown: Vec<NodeId> =
                self.configured.iter().filter(|id| **id != self.me && !self.is_known(id)).cloned().collect();
            for id in unknown {
                self.introduce(&id, true);
            }
        }
        self.form_if_complete(around);
    }

    fn is_known(&self, id: &NodeId) -> bool {
        matches!(&self.role, Role::Forming(forming) if forming.heard.get(id).is_some_and(|(_, holds_me)| *holds_me))
    }

    /// Tells a node this one's identity, and what is held of it.
    pub(super) fn introduce(&mut self, to: &NodeId, asks: bool) {
        let holds = match &self.role {
            Role::Forming(forming) => forming.heard.get(to).map(|(identity, _)| *identity),
            _ => self.electorate().and_then(|electorate| electorate.named(to)).map(|voter| voter.identity),
        };
        let roster = Roster { names: hash_of(&self.configured), holds, asks };
        self.send(to, Body::Roster(roster));
    }

    /// A node said who it is.
    pub(super) fn hear_roster(
        &mut self,
        around: &Surroundings<'_>,
        from: &NodeId,
        identity: Identity,
        roster: &Roster,
    ) {
        self.hear_candidate_for_voting(around, from, identity);
        self.hear_survivor(from, identity);
        let me = self.ballot.identity;
        if let Role::Forming(forming) = &mut self.role
            && self.configured.binary_search(from).is_ok()
        {
            if roster.names != hash_of(&self.configured) {
                self.actions.push_back(Action::Alarm(Alarm::VotersDiffer { with: from.clone() }));
                return;
            }
            if roster.holds.is_some_and(|held| held != me) {
                // It may have formed its electorate with who had our name before our disk was lost.
                self.actions.push_back(Action::Alarm(Alarm::Stranger));
            }
            forming.heard.insert(from.clone(), (identity, roster.holds == Some(me)));
        }
        if roster.asks {
            self.introduce(from, false);
        }
        self.form_if_complete(around);
    }

    fn form_if_complete(&mut self, around: &Surroundings<'_>) {
        let Role::Forming(forming) = &self.role else { return };
        let is_complete = self.configured.iter().all(|id| *id == self.me || self.is_known(id));
        if !is_complete {
            return;
        }
        let others = forming.heard.iter().map(|(id, (identity, _))| Voter { id: id.clone(), identity: *identity });
        let me = Voter { id: self.me.clone(), identity: self.ballot.identity };
        let electorate = Electorate::founded_by(others.chain([me]).collect());
        if !electorate.is_well_formed() {
            return;
        }
        // Who knows us not yet to know it learns it now, rather than at its next question.
        let others: Vec<NodeId> = self.configured.iter().filter(|id| **id != self.me).cloned().collect();
        for id in others {
            self.introduce(&id, false);
        }
        self.ballot.accepted = Some(NumberedView::founding(electorate));
        self.persist();
        self.follow(around);
    }
}
