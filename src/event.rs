//! [`Event`]: what subscribers receive.

use std::time::SystemTime;

use crate::core::election::LossReason;
use crate::core::{DetectionMethod, LeaveReason, NodeId};
use crate::lease::LeaseName;
use crate::member::Member;

/// One observed transition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its number in this run, from 1, without gaps.
    pub sequence: u64,
    /// When this node observed it.
    pub at: SystemTime,
    /// What happened.
    pub kind: EventKind,
}

/// What happened. Each transition is reported once per node that observes it, in order, events about oneself included;
/// folding the events over a snapshot always gives the view.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// A sponsor sees a joiner.
    NodeJoining {
        /// The joiner.
        member: Member,
    },
    /// A member is Up: for the first time, after it was gone, or as a new run.
    NodeJoined {
        /// The member.
        member: Member,
    },
    /// A member says goodbye.
    NodeLeaving {
        /// The member.
        member: Member,
    },
    /// A member left on purpose.
    NodeLeft {
        /// The member.
        member: Member,
        /// Whose purpose.
        reason: LeaveReason,
    },
    /// A member is gone without a word.
    NodeDetectedDown {
        /// The member.
        member: Member,
        /// How it was found out.
        method: DetectionMethod,
    },
    /// A member is silent for its suspect timeout.
    NodeSuspected {
        /// The member.
        member: Member,
    },
    /// A suspected member refuted.
    NodeRecovered {
        /// The member.
        member: Member,
    },
    /// Any other change of a record.
    NodeUpdated {
        /// The member as it is now.
        member: Member,
        /// The member as it was.
        previous: Member,
    },
    /// A member that was gone is forgotten, or a joiner gave up.
    NodeRemoved {
        /// The member as it was last.
        member: Member,
    },
    /// At least two members, and at least a third of the live ones, fell silent within one suspect timeout: it looks like a
    /// cut in the network (or like that many hosts that lost power together, which nobody can tell apart). Said again if
    /// more join them. Their deaths are reported with [`DetectionMethod::NetworkPartition`].
    PartitionSuspected {
        /// Those that are silent or gone, sorted.
        unreachable: Vec<NodeId>,
        /// The other live members, this node included, sorted.
        reachable: Vec<NodeId>,
    },
    /// A suspected partition is over: all of its members are back or gone for good, or the few that are still missing
    /// would be no partition and stay away although the others have found each other again.
    PartitionHealed {
        /// Those that did not come back, sorted.
        unreachable: Vec<NodeId>,
        /// The live members, this node included, sorted.
        reachable: Vec<NodeId>,
    },
    /// Somebody leads from now on, perhaps this node. For how long is in
    /// [`Agent::leadership`](crate::Agent::leadership).
    LeaderElected {
        /// Who.
        leader: NodeId,
        /// The same as it is listed now, if it is.
        member: Option<Member>,
        /// The fencing token of its leadership.
        term: u64,
        /// The lease in a database by which it leads; `None`: voters elected it.
        lease: Option<LeaseName>,
    },
    /// Whoever led does so no more, perhaps this node.
    LeaderLost {
        /// Who.
        leader: NodeId,
        /// The same as it is listed now, if it is.
        member: Option<Member>,
        /// The term that ended.
        term: u64,
        /// Why.
        reason: LossReason,
        /// The lease in a database by which it led; `None`: voters had elected it.
        lease: Option<LeaseName>,
    },
    /// Too few voters can be reached: nobody can be elected.
    QuorumLost {
        /// The latest term known.
        term: u64,
    },
    /// Enough voters can be reached again.
    QuorumRegained {
        /// The latest term known.
        term: u64,
    },
    /// The voters agreed on who the members are: nobody ever sees others under this number. See
    /// [`Agent::agreed_view`](crate::Agent::agreed_view).
    ViewAgreed {
        /// In which term it was put to the voters, last.
        term: u64,
        /// Its number.
        number: u64,
    },
}

impl EventKind {
    /// Its name in the JSON contract, for example `node_joined`.
    pub const fn name(&self) -> &'static str {
        match self {
            EventKind::NodeJoining { .. } => "node_joining",
            EventKind::NodeJoined { .. } => "node_joined",
            EventKind::NodeLeaving { .. } => "node_leaving",
            EventKind::NodeLeft { .. } => "node_left",
            EventKind::NodeDetectedDown { .. } => "node_detected_down",
            EventKind::NodeSuspected { .. } => "node_suspected",
            EventKind::NodeRecovered { .. } => "node_recovered",
            EventKind::NodeUpdated { .. } => "node_updated",
            EventKind::NodeRemoved { .. } => "node_removed",
            EventKind::PartitionSuspected { .. } => "partition_suspected",
            EventKind::PartitionHealed { .. } => "partition_healed",
            EventKind::LeaderElected { .. } => "leader_elected",
            EventKind::LeaderLost { .. } => "leader_lost",
            EventKind::QuorumLost { .. } => "quorum_lost",
            EventKind::QuorumRegained { .. } => "quorum_regained",
            EventKind::ViewAgreed { .. } => "view_agreed",
        }
    }

    /// All names.
    pub const NAMES: [&'static str; 16] = [
        "node_joining",
        "node_joined",
        "node_leaving",
        "node_left",
        "node_detected_down",
        "node_suspected",
        "node_recovered",
        "node_updated",
        "node_removed",
        "partition_suspected",
        "partition_healed",
        "leader_elected",
        "leader_lost",
        "quorum_lost",
        "quorum_regained",
        "view_agreed",
    ];

    /// The member it is about, if it is about one: folding these over a snapshot gives the view.
    pub const fn member(&self) -> Option<&Member> {
        match self {
            EventKind::NodeJoining { member }
            | EventKind::NodeJoined { member }
            | EventKind::NodeLeaving { member }
            | EventKind::NodeLeft { member, .. }
            | EventKind::NodeDetectedDown { member, .. }
            | EventKind::NodeSuspected { member }
            | EventKind::NodeRecovered { member }
            | EventKind::NodeUpdated { member, .. }
            | EventKind::NodeRemoved { member } => Some(member),
            EventKind::LeaderElected { member, .. } | EventKind::LeaderLost { member, .. } => member.as_ref(),
            EventKind::PartitionSuspected { .. }
            | EventKind::PartitionHealed { .. }
            | EventKind::QuorumLost { .. }
            | EventKind::QuorumRegained { .. }
            | EventKind::ViewAgreed { .. } => None,
        }
    }

    /// The name of the node it is about, if it is about one.
    pub fn node(&self) -> Option<&NodeId> {
        match self {
            EventKind::LeaderElected { leader, .. } | EventKind::LeaderLost { leader, .. } => Some(leader),
            kind => kind.member().map(|member| &member.id),
        }
    }

    /// Whether it is about this node: as its member, or on either side of a partition.
    pub fn concerns(&self, id: &NodeId) -> bool {
        match self {
            EventKind::PartitionSuspected { unreachable, reachable }
            | EventKind::PartitionHealed { unreachable, reachable } => {
                unreachable.binary_search(id).is_ok() || reachable.binary_search(id).is_ok()
            }
            kind => kind.node() == Some(id),
        }
    }
}
