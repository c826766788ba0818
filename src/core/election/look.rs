//! Looks at the machine: what drivers, machines and tests may ask it. Nothing here changes anything.
//!
//! Must not know: why somebody asks.

use std::time::Duration;

use super::{Ballot, Descent, Digest, Election, Electorate, Lineage, NumberedView, Rules, Term, Voter};

impl<R: Rules> Election<R> {
    /// Returns the view with these contents, if this voter holds it.
    pub fn view_of(&self, digest: Digest) -> Option<&NumberedView> {
        let views = [self.ballot.accepted.as_ref(), self.agreed.as_ref(), self.base()];
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

    /// Returns the length of its leases.
    pub fn lease_duration(&self) -> Duration {
        self.timing.lease_duration
    }

    /// Returns the durable state as it is to be.
    pub fn ballot(&self) -> &Ballot {
        &self.ballot
    }

    /// Returns the newest view known to be agreed.
    pub fn agreed(&self) -> Option<&NumberedView> {
        self.agreed.as_ref()
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
}
