//! Looks at the machine: what drivers, machines and tests may ask it, and how the voters stand, for operators. Nothing here
//! changes anything.
//!
//! Invariant: nothing unknown is reported. Only a leader hears from all voters.
//!
//! Must not know: why somebody asks, or who is up.

use std::time::Duration;

use super::{
    Ballot, Descent, Digest, Election, Electorate, Identity, LeaseTiming, Lineage, NumberedView, Role, Rules, Term,
    ViewRef, Voter,
};
use crate::time::Time;

/// The standing of one voter.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "findings, each by itself")]
pub struct VoterStanding {
    /// The voter.
    pub voter: Voter,
    /// True for a learner: it is to become a voter, and is being taught.
    pub is_learner: bool,
    /// True for the node that reports this, if it has a claim.
    pub is_leader: bool,
    /// The time at which the leader received its last acknowledgement of a renewal.
    pub acknowledged: Option<Time>,
    /// The number of views that it is behind the leader's newest.
    pub lag: Option<u64>,
    /// True if the node of its name has another identity: the voter's disk is lost. It says so itself.
    pub has_lost_disk: bool,
    /// True if the voter stands aside: its disk does not take its ballot. It says so itself.
    pub is_aside: bool,
    /// True if the voter votes, as far as that is known without acknowledgements: `None` for others, `false` for a
    /// voter that stands aside.
    pub votes: Option<bool>,
}

/// The standings of the voters, as one node knows them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct VoterStandings {
    /// True if they are known from acknowledgements, as on the leader.
    pub are_heard: bool,
    /// The lease: a voter counts as heard if it acknowledged within this time.
    pub lease: Duration,
    /// The voters by name, then the learners.
    pub voters: Vec<VoterStanding>,
}

impl VoterStanding {
    /// Returns the standing of a voter of which nothing is known.
    pub const fn unknown(voter: Voter) -> Self {
        Self {
            voter,
            is_learner: false,
            is_leader: false,
            acknowledged: None,
            lag: None,
            has_lost_disk: false,
            is_aside: false,
            votes: None,
        }
    }
}

impl VoterStandings {
    /// Returns the standings of these voters, of which nothing is known.
    pub fn unknown(lease: Duration, voters: impl IntoIterator<Item = Voter>) -> Self {
        Self { are_heard: false, lease, voters: voters.into_iter().map(VoterStanding::unknown).collect() }
    }

    /// Returns true if this voter votes now; `None` if that is not known.
    pub fn votes(&self, standing: &VoterStanding, now: Time) -> Option<bool> {
        if standing.is_learner || standing.votes == Some(false) {
            return Some(false);
        }
        if !self.are_heard || standing.is_leader {
            return standing.votes;
        }
        Some(standing.acknowledged.is_some_and(|at| now.since(at) < self.lease))
    }

    /// Returns the number of voters that acknowledge their leader now, itself included; `None` if that is not known.
    pub fn acknowledging(&self, now: Time) -> Option<usize> {
        let voters = self.voters.iter().filter(|standing| !standing.is_learner);
        self.are_heard.then(|| voters.filter(|standing| self.votes(standing, now) == Some(true)).count())
    }

    /// Returns the number of further voters that may fail before nobody leads; `None` if that is not known. Those that stand aside
    /// keep the leader that they have, and elect none after it.
    pub fn failure_tolerance(&self, now: Time) -> Option<usize> {
        let voters = self.voters.iter().filter(|standing| !standing.is_learner);
        let is_aside = |standing: &&VoterStanding| standing.is_aside && self.votes(standing, now) == Some(true);
        let aside = voters.clone().filter(is_aside).count();
        let needed = voters.count() / 2 + 1 + aside;
        self.acknowledging(now).map(|acknowledging| acknowledging.saturating_sub(needed))
    }
}

impl<R: Rules> Election<R> {
    /// Returns the view with these contents, if this voter holds it.
    pub fn view_of(&self, digest: Digest) -> Option<&NumberedView> {
        let views = [self.ballot.accepted.as_ref(), self.volatile.agreed.as_ref(), self.base()];
        views.into_iter().flatten().find(|view| view.reference().digest == digest)
    }

    /// Returns true if it stands aside because its disk does not take the ballot.
    pub fn is_aside(&self) -> bool {
        self.is_aside
    }

    /// Returns the latest term it knows of.
    pub fn term(&self) -> Term {
        self.ballot.term
    }

    /// Returns the timing of its leases.
    pub fn timing(&self) -> LeaseTiming {
        self.timing
    }

    /// Returns the durable state as it is to be.
    pub fn ballot(&self) -> &Ballot {
        &self.ballot
    }

    /// Returns the newest view known to be agreed.
    pub fn agreed(&self) -> Option<&NumberedView> {
        self.volatile.agreed.as_ref()
    }

    /// Returns the lineage of its electorate, if it knows one.
    pub fn lineage(&self) -> Option<Lineage> {
        self.electorate().map(|electorate| electorate.lineage)
    }

    /// Returns true if a majority answered when last asked; true where nobody was asked yet.
    pub fn reaches_quorum(&self) -> bool {
        self.reaches_quorum
    }

    /// Returns the number of messages ignored because they did not fit the own state, or came from nobody who counts.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Returns the electorate of the newest accepted view: what every majority of this voter is counted by.
    pub fn electorate(&self) -> Option<&Electorate> {
        self.ballot.accepted.as_ref().map(|view| &*view.electorate)
    }

    /// Returns the electorate that this node knows of: its own, or the one that others vote in.
    pub fn founded(&self) -> Option<Descent> {
        self.ballot.founded()
    }

    /// Returns the electorate in which another identity has this node's name, as a voter of it said while this node knew
    /// none.
    pub fn strange_to(&self) -> Option<&Electorate> {
        self.strange_to.as_deref().filter(|_| self.ballot.accepted.is_none())
    }

    /// Returns true if a voter of this electorate has this node's name, under another identity: this node's disk was lost.
    pub fn has_lost_its_vote_in(&self, electorate: &Electorate) -> bool {
        let is_other = |voter: &Voter| voter.identity != self.ballot.identity;
        !self.is_voter() && electorate.named(&self.me).is_some_and(is_other)
    }

    /// Returns true if this node votes, as far as it knows.
    pub fn is_voter(&self) -> bool {
        self.electorate().is_some_and(|electorate| electorate.contains(self.ballot.identity))
    }

    /// Returns the standings of the voters, as far as this node knows them; `known`: the electorate that it has heard of,
    /// which is all that a voter has whose disk is lost.
    pub fn standings(&self, known: Option<&Electorate>) -> Option<VoterStandings> {
        let electorate = self.electorate().or(known)?;
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
                is_learner,
                is_leader: is_me && leading.is_some(),
                acknowledged: leading.and_then(|leading| leading.heard.get(&voter.identity)).map(|heard| heard.last),
                lag: held(voter.identity).map(behind),
                votes: is_me.then_some(!self.is_aside && !is_learner),
                ..VoterStanding::unknown(voter.clone())
            }
        };
        let mut voters: Vec<VoterStanding> = electorate.voters.iter().map(|voter| of(voter, false)).collect();
        for standing in &mut voters {
            // Another identity has this node's name, and its vote.
            let is_stranger = standing.voter.id == self.me && standing.voter.identity != me;
            standing.votes = standing.votes.filter(|_| !is_stranger).or(is_stranger.then_some(false));
        }
        voters.extend(
            leading.and_then(|leading| leading.numbering.pending.as_ref()?.learner()).map(|learner| of(learner, true)),
        );
        Some(VoterStandings { are_heard: leading.is_some(), lease: self.timing.lease_duration, voters })
    }
}
