//! The ballot: everything that a voter must not forget. It is on disk before anything that rests on it leaves the
//! process.
//!
//! | remembered | if it were forgotten, the voter would |
//! |---|---|
//! | identity | vote twice in one term under one name |
//! | term, vote | vote twice in one term (Raft, section 3.4: `currentTerm`, `votedFor`) |
//! | promise | vote while a leader still counts on its acknowledgement |
//! | newest accepted view | lose a view that was agreed by its acceptance |
//! | electorate that it knows of | form another one beside it, in terms that were led already; vote on in one that ended |
//! | electorate that ended | (nothing: it is kept for an operator) |
//!
//! Invariants: whatever changes in the ballot is given out under a new version; what rests on a version waits until the
//! disk has it.
//!
//! Must not know: files.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::electorate::{Descent, Electorate, EndedElectorate, Identity, VoterChange};
use super::term::Term;
use super::view::{Digest, NumberedView, ViewRef};
use super::{Action, Alarm, Context, Election, Role, Rules};
use crate::member::NodeId;
use crate::settings::MAX_LEASE;
use crate::time::whole_ms;

/// The durable state of a voter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ballot {
    /// The number of writes so far, so that the disk can say which ballot it has.
    pub version: u64,
    /// The voter's identity, drawn once.
    pub identity: Identity,
    /// The latest term in which it voted, or acknowledged a leader.
    pub term: Term,
    /// The node that it voted for (or followed) in that term.
    pub vote: Option<Identity>,
    /// The longest lease that may still bind it: after a restart it does not vote for that long.
    pub promise: Duration,
    /// The newest view that it accepted; the first one is the founding view of its electorate.
    pub accepted: Option<NumberedView>,
    /// The electorate of the cluster, as reported by its voters. Kept by a node that does not vote.
    pub known: Option<Descent>,
    /// The electorate that it voted in until that ended for the one that it knows of, kept aside for an operator.
    pub ended: Option<EndedElectorate>,
}

impl Ballot {
    /// Returns the ballot of a voter at its first start.
    pub fn blank(identity: Identity) -> Self {
        let (term, promise) = (Term(0), Duration::ZERO);
        Self { version: 0, identity, term, vote: None, promise, accepted: None, known: None, ended: None }
    }

    /// Returns true if the ballot holds nothing that could be undone: no term, vote, promise or accepted view.
    pub fn is_blank(&self) -> bool {
        self.term == Term(0) && self.vote.is_none() && self.promise.is_zero() && self.accepted.is_none()
    }

    /// Returns true if it is a vote for this voter in this term.
    pub(super) fn has_vote(&self, term: Term, candidate: Identity) -> bool {
        self.term == term && self.vote == Some(candidate)
    }

    /// Returns the highest term that this node knows by its ballot.
    pub fn highest_term(&self) -> Term {
        let accepted = self.accepted.as_ref().map(|view| view.term.max(view.electorate.began));
        let known = self.known.map(|known| known.began);
        [accepted, known].into_iter().flatten().fold(self.term, Term::max)
    }

    /// Returns the electorate that this node knows of: its own, or the one that stands over it.
    pub fn founded(&self) -> Option<Descent> {
        let own = self.accepted.as_ref().map(|view| view.electorate.descent());
        own.into_iter().chain(self.known).max_by_key(Descent::rank)
    }

    /// Returns true if the invariants hold. Asked of what was read from a disk.
    pub fn is_well_formed(&self) -> bool {
        let is_accepted_well_formed = self.accepted.as_ref().is_none_or(NumberedView::is_well_formed);
        let is_known_well_formed = self.known.as_ref().is_none_or(Descent::is_well_formed);
        let is_ended_well_formed = self.ended.as_ref().is_none_or(EndedElectorate::is_well_formed);
        let are_electorates_well_formed = is_accepted_well_formed && is_known_well_formed && is_ended_well_formed;
        self.term.is_in_bounds() && self.promise <= MAX_LEASE && are_electorates_well_formed
    }
}

/// A ballot as it is stored on a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Saved {
    version: u64,
    identity: Identity,
    term: Term,
    vote: Option<Identity>,
    promise_ms: u64,
    accepted: Option<SavedView>,
    known: Option<Descent>,
    ended: Option<EndedElectorate>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SavedView {
    term: Term,
    number: u64,
    digest: Digest,
    members: Vec<NodeId>,
    electorate: Electorate,
    change: Option<VoterChange>,
}

impl Serialize for Ballot {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let accepted = self.accepted.as_ref().map(|view| SavedView {
            term: view.term,
            number: view.number,
            digest: view.reference().digest,
            members: view.members.to_vec(),
            electorate: (*view.electorate).clone(),
            change: view.change.as_deref().cloned(),
        });
        let Self { version, identity, term, vote, promise, known, .. } = *self;
        let ended = self.ended.clone();
        let promise_ms = whole_ms(promise);
        Saved { version, identity, term, vote, promise_ms, accepted, known, ended }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Ballot {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::try_from(Saved::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl TryFrom<Saved> for Ballot {
    type Error = &'static str;

    fn try_from(saved: Saved) -> Result<Self, Self::Error> {
        let Saved { version, identity, term, vote, promise_ms, accepted, known, ended } = saved;
        let accepted = match accepted {
            None => None,
            Some(saved) => {
                let change = saved.change.map(Arc::new);
                let electorate = Arc::new(saved.electorate);
                let view = NumberedView::new(saved.term, saved.number, saved.members.into(), electorate, change);
                let named = ViewRef { term: saved.term, number: saved.number, digest: saved.digest };
                if view.reference() != named {
                    return Err("the accepted view is not what it was");
                }
                Some(view)
            }
        };
        let promise = Duration::from_millis(promise_ms);
        let ballot = Self { version, identity, term, vote, promise, accepted, known, ended };
        if ballot.is_well_formed() { Ok(ballot) } else { Err("the ballot is out of bounds") }
    }
}

/// The disk.
impl<R: Rules> Election<R> {
    /// Gives the changed ballot to the disk.
    pub(super) fn persist(&mut self) {
        self.ballot.version += 1;
        self.stored_promise.is_disk_outdated = false;
        // From now on the disk may hold either: what rests on a longer promise waits for this one.
        self.stored.promise = self.stored.promise.min(self.ballot.promise);
        self.actions.push_back(Action::Persist(self.ballot.clone()));
    }

    /// Returns true if the disk has the ballot as it is to be.
    pub fn is_stored(&self) -> bool {
        self.stored.version == self.ballot.version
    }

    /// Takes note that the disk has the ballot of this version, or a newer one that was given out.
    pub fn stored(&mut self, context: &Context<'_>, version: u64) {
        self.expire(context);
        if version != self.ballot.version {
            // An older one: what rests on the newer one still waits.
            return;
        }
        if self.is_aside {
            self.is_aside = false;
            self.actions.push_back(Action::Alarm(Alarm::AsideNoMore));
        }
        let awaited_own_disk = self.awaits_own_disk();
        let before = std::mem::replace(&mut self.stored, self.ballot.clone());
        self.announce_end(before.ended.as_ref());
        if awaited_own_disk {
            self.begin_voters_time(context);
        }
        let pending_vote = self.volatile.pending_vote.clone();
        self.send_pending();
        if let Some((_, candidate, _)) = pending_vote.filter(|_| self.volatile.pending_vote.is_none()) {
            self.leave_time_to_lead(context, candidate);
        }
        self.count_late_votes(context);
        self.announce_generation();
        self.tick(context);
        if let Role::Candidate(_) = self.role {
            self.advance(context);
        }
        if let Role::Leading(_) = self.role {
            self.count_acceptances(context);
            self.continue_trial(context);
        }
    }

    /// Takes note that the disk did not take what it was given last, which is tried again by whoever writes. If it has
    /// the ballot already, it was something else that was not taken, and nothing that a voter does rests on that:
    /// renewals write nothing. If the ballot is still to be written, this voter stands aside; a leader does if that
    /// leaves enough others.
    pub fn store_failed(&mut self, context: &Context<'_>) {
        self.expire(context);
        if self.is_stored() {
            return;
        }
        if !self.is_aside {
            self.is_aside = true;
            self.actions.push_back(Action::Alarm(Alarm::Aside));
        }
        match &self.role {
            Role::Leading(_) if self.is_change_unstored() => {
                self.withdraw_change();
                self.resign_for(context, None);
            }
            Role::Leading(_) => self.resign_to_those_that_store(context),
            Role::Candidate(_) => self.follow(context),
            _ => {}
        }
    }

    /// Gives leadership up if this leader's disk takes nothing and those of enough others for an election do: what is
    /// in flight is on them. Where too few disks work, nobody else could be elected, and a leader writes nothing to
    /// lead on.
    pub(super) fn resign_to_those_that_store(&mut self, context: &Context<'_>) {
        let Some(view) = &self.ballot.accepted else { return };
        let stores = |voter| voter != self.ballot.identity && self.has_newest(voter);
        let can_elect = view.is_carried_by(self.is_proposing(), stores);
        if self.is_aside && self.rules.resigns_to_others(can_elect) {
            self.resign_for(context, None);
        }
    }

    /// Returns the reference of the newest accepted view.
    pub(super) fn newest(&self) -> Option<ViewRef> {
        self.ballot.accepted.as_ref().map(NumberedView::reference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::electorate::Voter;
    use crate::limits::EARLIEST_FOUNDING;

    #[test]
    fn a_ballot_comes_back_from_the_disk_as_it_was_with_its_promise_no_shorter() {
        let voter = Voter { id: NodeId::new("a").expect("a name"), identity: Identity(7) };
        let founding = NumberedView::founding(Electorate::founded_by(vec![voter], EARLIEST_FOUNDING));
        let promise = Duration::from_micros(5_000_001);
        let vote = Some(Identity(7));
        let electorate = Electorate::clone(&founding.electorate);
        let (accepted, ended) = (Some(founding), Some(EndedElectorate { electorate, term: Term(3), number: 5 }));
        let blank = Ballot::blank(Identity(7));
        let ballot = Ballot { version: 3, term: Term(4), vote, promise, accepted, ended, ..blank };
        let bytes = postcard::to_allocvec(&ballot).expect("encodes");
        let read: Ballot = postcard::from_bytes(&bytes).expect("decodes");
        assert_eq!(read.promise, Duration::from_millis(5_001));
        assert_eq!(Ballot { promise, ..read }, ballot);
    }

    #[test]
    fn a_ballot_out_of_bounds_is_not_read() {
        for ballot in [
            Ballot { term: Term(u64::MAX), ..Ballot::blank(Identity(1)) },
            Ballot { promise: MAX_LEASE * 2, ..Ballot::blank(Identity(1)) },
        ] {
            let bytes = postcard::to_allocvec(&ballot).expect("encodes");
            assert!(postcard::from_bytes::<Ballot>(&bytes).is_err(), "{ballot:?}");
        }
    }
}
