//! Changes: the core reports one [`Change`] for every transition of a record that this node observes.
//!
//! Invariant: setting `map[record.id] = record` for every change in order (and removing it for `NodeRemoved`) always
//! gives the view. Public events that are derived from changes inherit that.

use std::sync::Arc;

use super::record::{DetectionMethod, LeaveReason, Record, Status};

/// One observed transition of one member's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The kind of transition.
    pub kind: ChangeKind,
    /// The new record (for [`ChangeKind::Removed`]: the last one).
    pub record: Arc<Record>,
    /// The way in which its silence or death was detected, while it is Suspect or Down.
    pub method: Option<DetectionMethod>,
    /// The record before the transition, if there was one.
    pub previous: Option<Arc<Record>>,
}

/// The kinds of transitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    /// A sponsor sees a joiner, or a node sees itself start.
    Joining,
    /// Up for the first time, again after it was gone, or as a new run.
    Joined,
    /// Up → Suspect.
    Suspected,
    /// Suspect → Up.
    Recovered,
    /// → Down.
    DetectedDown(DetectionMethod),
    /// Up → Leaving, or Suspect → Leaving.
    Leaving,
    /// → Left.
    Left(LeaveReason),
    /// Any other change of its record.
    Updated,
    /// Reaped, or a joiner that gave up.
    Removed,
}

impl Change {
    /// Returns the changes that lead from `held` to `new`, in order: at most three. `method` belongs to `new`.
    ///
    /// A new run of a live name first reports the end of the old run; a record first learnt as Suspect or Leaving is
    /// first reported as joined, so that a reader that counts only joined, left and detected_down keeps a right live
    /// set.
    pub fn between(
        held: Option<&Arc<Record>>,
        new: &Arc<Record>,
        method: Option<DetectionMethod>,
    ) -> impl Iterator<Item = Change> + use<> {
        let mut changes: [Option<Change>; 3] = [const { None }; 3];
        let mut next = changes.iter_mut();
        let mut previous = held.map(Arc::clone);
        let mut report = |kind, record: Arc<Record>, method| {
            let previous = previous.replace(Arc::clone(&record));
            let change = Change { kind, record, method, previous };
            let place = next.next();
            debug_assert!(place.is_some(), "at most three changes lead from one record to another");
            if let Some(place) = place {
                *place = Some(change);
            }
        };
        let mut before = held.map(|held| held.status);
        if let Some(held) = held.filter(|held| held.run != new.run) {
            match held.status {
                Status::Up | Status::Suspect => {
                    let method = DetectionMethod::Restarted;
                    let closed = Arc::new(held.with_status(Status::Down));
                    report(ChangeKind::DetectedDown(method), closed, Some(method));
                    before = Some(Status::Down);
                }
                Status::Leaving => {
                    let left = Status::Left(LeaveReason::Graceful);
                    report(ChangeKind::Left(LeaveReason::Graceful), Arc::new(held.with_status(left)), None);
                    before = Some(left);
                }
                Status::Joining | Status::Down | Status::Left(_) => {}
            }
        }
        let was_listed_live = before.is_some_and(Status::is_member);
        if matches!(new.status, Status::Suspect | Status::Leaving) && !was_listed_live {
            report(ChangeKind::Joined, Arc::new(new.with_status(Status::Up)), None);
            before = Some(Status::Up);
        }
        report(kind_of(before, new.status, method), Arc::clone(new), method);
        changes.into_iter().flatten()
    }
}

/// Returns the kind of one step, both ends of which are the same run or follow each other directly.
fn kind_of(before: Option<Status>, now: Status, method: Option<DetectionMethod>) -> ChangeKind {
    use Status::{Down, Joining, Leaving, Left, Suspect, Up};
    match (before, now) {
        (None, Joining) => ChangeKind::Joining,
        (None | Some(Joining | Down | Left(_)), Up) => ChangeKind::Joined,
        (Some(Suspect), Up) => ChangeKind::Recovered,
        (Some(Up | Leaving), Suspect) => ChangeKind::Suspected,
        (Some(Up | Suspect), Leaving) => ChangeKind::Leaving,
        (None | Some(Joining | Up | Suspect | Leaving | Left(_)), Down) => {
            ChangeKind::DetectedDown(method.unwrap_or(DetectionMethod::HeartbeatTimeout))
        }
        (None | Some(Joining | Up | Suspect | Leaving | Down), Left(reason)) => ChangeKind::Left(reason),
        _ => ChangeKind::Updated,
    }
}
