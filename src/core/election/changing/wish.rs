//! Wishes of operators, and how far each has come.
//!
//! Must not know: what is done next.

use crate::core::election::electorate::{Voter, VoterChange};
use crate::core::election::{ChangeError, Surroundings};
use crate::core::limits::STORING_TIMEOUT;
use crate::core::member::NodeId;
use crate::core::time::Time;

/// A change of the electorate that an operator asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::core::election) struct Wish {
    /// `None` once it was answered.
    pub(in crate::core::election) ticket: Option<u64>,
    pub(in crate::core::election) what: What,
    /// The time of the next look for a voter that does not store.
    pub(super) look_at: Time,
    /// The voter that is to be removed as soon as the other one votes.
    pub(super) in_place_of: Option<Voter>,
    /// The voter that was added already, in the second half of a replacement.
    pub(super) added: Option<NodeId>,
}

/// The stages of a wish.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::core::election) enum What {
    /// The node that is to be added must say who it is, until then.
    Ask { id: NodeId, ask_at: Time, until: Time },
    /// It must have a view of this term on its disk, and acknowledge it, until then.
    Teach { learner: Voter, ask_at: Time, until: Time },
    /// To be put to the voters, once they were sounded: as soon as no other view is in flight.
    Wanted(VoterChange),
    /// Enough of those that would vote must acknowledge this renewal, or a later one, until then.
    Sounding { change: VoterChange, sequence: u64, until: Time },
    /// The change is in the view in flight: on its way to the leader's own disk, or since this renewal with the voters, until then. Voters
    /// that answer have until `latest`.
    InFlight { change: VoterChange, sequence: u64, until: Time, latest: Time },
    /// The view in flight takes it back, and this is what is answered then.
    TakenBack { change: VoterChange, error: ChangeError, until: Time },
}

impl Wish {
    pub(super) fn new(ticket: u64, what: What) -> Self {
        Self { ticket: Some(ticket), what, look_at: Time::default(), in_place_of: None, added: None }
    }

    /// Returns the time at which it has something to do.
    pub(in crate::core::election) fn deadline(&self) -> Time {
        match self.what {
            What::Ask { ask_at, until, .. } | What::Teach { ask_at, until, .. } => ask_at.min(until),
            What::Wanted(_) => self.look_at,
            What::Sounding { until, .. } | What::InFlight { until, .. } | What::TakenBack { until, .. } => until,
        }
    }

    /// Has it put to the voters.
    pub(in crate::core::election) fn want(&mut self, around: &Surroundings<'_>, change: VoterChange) {
        self.what = What::Wanted(change);
        self.look_at = around.now + STORING_TIMEOUT;
    }

    /// Returns true if the voters are being asked whether they are there.
    pub(in crate::core::election) fn is_sounding(&self) -> bool {
        matches!(self.what, What::Sounding { .. })
    }

    /// Returns true if a view with the change, or one that takes it back, is in flight.
    pub(super) fn is_in_flight(&self) -> bool {
        matches!(self.what, What::InFlight { .. } | What::TakenBack { .. })
    }

    /// Returns the node that is to be added, before that is put to the voters.
    pub(in crate::core::election) fn learner(&self) -> Option<&Voter> {
        match &self.what {
            What::Teach { learner, .. } => Some(learner),
            What::Wanted(VoterChange::Added(learner)) | What::Sounding { change: VoterChange::Added(learner), .. } => {
                Some(learner)
            }
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
