//! Wishes of operators, and how far each has come.
//!
//! Must not know: what is done next.

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
    pub(super) look_at: Time,
    /// The voter that is to be removed as soon as the other one votes.
    pub(super) in_place_of: Option<Voter>,
    /// The voter that was added already, in the second half of a replacement.
    pub(super) added: Option<NodeId>,
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
    pub(super) fn new(ticket: u64, stage: ChangeStage) -> Self {
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
    pub(super) fn is_in_flight(&self) -> bool {
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
    pub(super) fn unfinished(&self, change: &VoterChange, error: ChangeError) -> ChangeError {
        let (VoterChange::Removed(old), Some(new)) = (change, &self.added) else { return error };
        let (old, new) = (old.id.clone(), new.clone());
        match error {
            ChangeError::NotLeader => ChangeError::HalfReplaced { old, new },
            _ => ChangeError::HalfDone { old, new },
        }
    }
}
