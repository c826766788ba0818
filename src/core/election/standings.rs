//! How the voters stand, for operators: what a leader knows of those who follow it, and every voter of itself.
//!
//! Invariant: what is not known is not said. Only a leader hears from all voters.
//!
//! Must not know: who is up.

use std::time::Duration;

use super::electorate::Voter;
use super::raw::Identity;
use super::view::{NumberedView, ViewRef};
use super::{Election, Role};
use crate::core::time::Time;

/// How one voter stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoterStanding {
    /// The voter.
    pub voter: Voter,
    /// Whether it is to become a voter, and is being taught.
    pub is_learner: bool,
    /// Whether this is the node that says so, and has a claim.
    pub is_leader: bool,
    /// When it acknowledged a renewal last, as the leader heard it.
    pub acknowledged: Option<Time>,
    /// How many views it is behind the leader's.
    pub lag: Option<u64>,
    /// Whether it votes as far as is known without its acknowledgements: `None` of others, `false` of who stands aside.
    pub votes: Option<bool>,
}

/// How the voters stand, as one node knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoterStandings {
    /// Whether they are known from their acknowledgements, as on the leader.
    pub are_heard: bool,
    /// A voter is heard if it acknowledged within this time.
    pub lease: Duration,
    /// Voters by name, then learners.
    pub voters: Vec<VoterStanding>,
}

impl VoterStandings {
    /// Whether this voter votes now, as far as is known.
    pub fn votes(&self, standing: &VoterStanding, now: Time) -> Option<bool> {
        if standing.is_learner || standing.votes == Some(false) {
            return Some(false);
        }
        if !self.are_heard || standing.is_leader {
            return standing.votes;
        }
        Some(standing.acknowledged.is_some_and(|at| now.since(at) < self.lease))
    }

    /// How many voters acknowledge their leader now, itself included; `None` where that is not known.
    pub fn acknowledging(&self, now: Time) -> Option<usize> {
        let voters = self.voters.iter().filter(|standing| !standing.is_learner);
        self.are_heard.then(|| voters.filter(|standing| self.votes(standing, now) == Some(true)).count())
    }

    /// How many more voters may fail before nobody leads; `None` where that is not known.
    pub fn failure_tolerance(&self, now: Time) -> Option<usize> {
        let voters = self.voters.iter().filter(|standing| !standing.is_learner).count();
        self.acknowledging(now).map(|acknowledging| acknowledging.saturating_sub(voters / 2 + 1))
    }
}

impl Election {
    /// How the voters stand, as far as this node knows.
    pub fn standings(&self) -> Option<VoterStandings> {
        let electorate = self.electorate()?;
        let leading = match &self.role {
            Role::Leading(leading) if leading.has_claim() => Some(leading),
            _ => None,
        };
        let newest = self.ballot.accepted.as_ref().map_or(0, |view| view.number);
        let me = self.ballot.identity;
        let of = |voter: &Voter, is_learner: bool| {
            let is_me = voter.identity == me;
            let held = |identity: Identity| match leading {
                Some(_) if is_me => self.stored.accepted.as_ref().map(NumberedView::reference),
                Some(leading) => leading.accepted.get(&identity).copied(),
                None => None,
            };
            let behind = |held: ViewRef| newest.saturating_sub(held.number);
            VoterStanding {
                voter: voter.clone(),
                is_learner,
                is_leader: is_me && leading.is_some(),
                acknowledged: leading.and_then(|leading| leading.heard.get(&voter.identity)).map(|heard| heard.last),
                lag: held(voter.identity).map(behind),
                votes: is_me.then_some(!self.is_aside && !is_learner),
            }
        };
        let mut voters: Vec<VoterStanding> = electorate.voters.iter().map(|voter| of(voter, false)).collect();
        for standing in &mut voters {
            // Another one has this node's name, and had its vote.
            let is_stranger = standing.voter.id == self.me && standing.voter.identity != me;
            standing.votes = standing.votes.filter(|_| !is_stranger).or(is_stranger.then_some(false));
        }
        voters.extend(
            leading.and_then(|leading| leading.numbering.wish.as_ref()?.learner()).map(|learner| of(learner, true)),
        );
        Some(VoterStandings { are_heard: leading.is_some(), lease: self.timing.lease_duration, voters })
    }
}
