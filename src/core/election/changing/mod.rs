//! Changing the electorate: an operator's request from the question to its outcome, one voter at a time.
//!
//! ```text
//!  add, replace: who is it? ──▶ it learns ──┐             as soon as no view is in flight
//!  remove ──────────────────────────────────┴──▶ wanted ────────▶ the voters are sounded ────▶ in flight ────▶ agreed
//!                                                   ▲                   │ too few answer          │ too few take it,
//!                                    replace: then the other half       ▼                         ▼ or the leader leaves
//!                                                                    refused                  taken back
//! ```
//!
//! - *Learning.* The node to be added gets the leader's view and acknowledges a renewal before it votes (Raft, 4.2.1).
//! - *Sounding.* The majority that removes a voter need not be one of the electorate that comes after it. So before the
//!   change is put to the voters, enough of those that would vote then must acknowledge a renewal that was *sent
//!   since*: what was acknowledged before says nothing of a voter that has fallen silent.
//! - *Put to the voters.* First the leader's own disk takes it. If that fails, or takes longer than
//!   `SLOW_DISK_TIMEOUT`, nobody was told of it: the leader withdraws it and stands aside, and the voters before the
//!   change elect another one.
//! - *In flight.* The change needs a majority before and after it, and may be taken by too few all the same: voters die
//!   between their answer and their disk. Meanwhile the claim rests on the electorate in force, the one before: its
//!   leader leads on.
//! - *Taken back.* `CHANGE_TIMEOUT` after the leader told its voters, if the electorate in force is there, or when
//!   its leader leaves, the leader puts that electorate to the voters once more, under the next number. Otherwise
//!   whoever has the change on its disk would need the votes of the new electorate for good, though the old one is
//!   there. As long as enough voters for the change acknowledge renewals, and only their disks are late, it waits for
//!   these: for `SLOW_DISK_TIMEOUT` at most, and asks every `ANSWER_TIMEOUT` whether they are still there.
//!
//! Why that is safe, and the one case in which nothing is taken back: `in_flight`.
//!
//! Invariants: one change at a time; every change is answered once; "nothing changed" is only said if nothing can have
//! changed. (But for a write of the leader that failed, is on its disk all the same, and is found there if the leader
//! dies then.)
//!
//! | idea | file |
//! |---|---|
//! | an operator's request, and how far it has come | this page |
//! | changes: taken up or refused, and answered | `asking` |
//! | before it is put to the voters: the one to be added learns, and those that would vote are sounded | `sounding` |
//! | in flight: waiting, taking back, and the end | `in_flight` |
//!
//! Must not know: why members come and go.

mod asking;
mod in_flight;
mod sounding;

use crate::election::electorate::{Voter, VoterChange};
use crate::election::{ChangeError, Context};
use crate::limits::STORING_TIMEOUT;
use crate::member::NodeId;
use crate::time::Time;

/// A change of the electorate that an operator asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PendingChange {
    /// `None` once it was answered.
    pub(crate) ticket: Option<u64>,
    pub(crate) stage: ChangeStage,
    /// The time of the next look for a voter that does not store.
    look_at: Time,
    /// The voter that is to be removed as soon as the other one votes.
    in_place_of: Option<Voter>,
    /// The voter that was added already, in the second half of a replacement.
    added: Option<NodeId>,
}

/// The stages of a change.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ChangeStage {
    /// The node that is to be added must say who it is until this time.
    Ask { id: NodeId, ask_at: Time, until: Time },
    /// The learner must have a view of this term on its disk, and acknowledge it, until this time.
    Teach { learner: Voter, ask_at: Time, until: Time },
    /// The change is to be put to the voters, once they were sounded: as soon as no other view is in flight.
    Wanted(VoterChange),
    /// Enough of those that would vote must acknowledge this renewal, or a later one, until this time.
    Sounding { change: VoterChange, sequence: u64, until: Time },
    /// The change is in the view in flight: on its way to the leader's own disk, or since this renewal with the voters,
    /// until this time. Voters that answer have until `latest`.
    InFlight { change: VoterChange, sequence: u64, until: Time, latest: Time },
    /// The view in flight takes the change back, and this error is the answer then.
    TakenBack { change: VoterChange, error: ChangeError, until: Time },
}

impl PendingChange {
    fn new(ticket: u64, stage: ChangeStage) -> Self {
        Self { ticket: Some(ticket), stage, look_at: Time::default(), in_place_of: None, added: None }
    }

    /// Returns the time at which it has something to do.
    pub(crate) fn deadline(&self) -> Time {
        match self.stage {
            ChangeStage::Ask { ask_at, until, .. } | ChangeStage::Teach { ask_at, until, .. } => ask_at.min(until),
            ChangeStage::Wanted(_) => self.look_at,
            ChangeStage::Sounding { until, .. }
            | ChangeStage::InFlight { until, .. }
            | ChangeStage::TakenBack { until, .. } => until,
        }
    }

    /// Has it put to the voters.
    pub(crate) fn want(&mut self, context: &Context<'_>, change: VoterChange) {
        self.stage = ChangeStage::Wanted(change);
        self.look_at = context.now + STORING_TIMEOUT;
    }

    /// Returns true if the voters are being asked whether they are there.
    pub(crate) fn is_sounding(&self) -> bool {
        matches!(self.stage, ChangeStage::Sounding { .. })
    }

    /// Returns true if a view with the change, or one that takes it back, is in flight.
    fn is_in_flight(&self) -> bool {
        matches!(self.stage, ChangeStage::InFlight { .. } | ChangeStage::TakenBack { .. })
    }

    /// Returns the node that is to be added, before that is put to the voters.
    pub(crate) fn learner(&self) -> Option<&Voter> {
        match &self.stage {
            ChangeStage::Teach { learner, .. }
            | ChangeStage::Wanted(VoterChange::Added(learner))
            | ChangeStage::Sounding { change: VoterChange::Added(learner), .. } => Some(learner),
            _ => None,
        }
    }

    /// Returns the answer if the change came to nothing for this reason.
    fn unfinished(&self, change: &VoterChange, error: ChangeError) -> ChangeError {
        let (VoterChange::Removed(old), Some(new)) = (change, &self.added) else { return error };
        let (old, new) = (old.id.clone(), new.clone());
        match error {
            ChangeError::NotLeader => ChangeError::HalfReplaced { old, new },
            _ => ChangeError::HalfDone { old, new },
        }
    }
}
