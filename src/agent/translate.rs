//! From the core's changes to the public events.
//!
//! Must not know: where members are kept, who reads events.

use crate::core::{Change, ChangeKind};
use crate::event::EventKind;
use crate::member::Member;

/// The public event for a change. `previous` is the member as it was listed until now.
pub(super) fn event_kind(change: &Change, member: Member, previous: Option<Member>) -> EventKind {
    match change.kind {
        ChangeKind::Joining => EventKind::NodeJoining { member },
        ChangeKind::Joined => EventKind::NodeJoined { member },
        ChangeKind::Suspected => EventKind::NodeSuspected { member },
        ChangeKind::Recovered => EventKind::NodeRecovered { member },
        ChangeKind::DetectedDown(method) => EventKind::NodeDetectedDown { member, method },
        ChangeKind::Leaving => EventKind::NodeLeaving { member },
        ChangeKind::Left(reason) => EventKind::NodeLeft { member, reason },
        ChangeKind::Updated => {
            let previous = previous.unwrap_or_else(|| member.clone());
            EventKind::NodeUpdated { member, previous }
        }
        ChangeKind::Removed => EventKind::NodeRemoved { member },
    }
}
