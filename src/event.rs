//! [`Event`]: the changes that subscribers receive.

use std::fmt;
use std::time::SystemTime;

use crate::core::election::LossReason;
use crate::core::{DetectionMethod, LeaveReason, NodeId};
use crate::lease::LeaseName;
use crate::member::Member;

/// One observed transition.
///
/// Its JSON, as HTTP has it, is `json::Event::new(agent.run(), &event)` (feature `client`).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// The event's number in this run, from 1, without gaps.
    pub sequence: u64,
    /// Time of observation by this node.
    pub at: SystemTime,
    /// The number of members that are Up or Suspect after the event, this node included: as many as
    /// [`Agent::live_members`](crate::Agent::live_members) had at that moment.
    pub live_members: usize,
    /// The transition.
    pub kind: EventKind,
}

/// A transition. Each is reported once per node that observes it, in order, events about oneself included; folding the
/// events over a snapshot always gives the view.
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
    /// A member is leaving, and said so.
    NodeLeaving {
        /// The member.
        member: Member,
    },
    /// A member left, by itself or by an operator's removal.
    NodeLeft {
        /// The member.
        member: Member,
        /// Graceful (it left by itself) or forced (an operator removed it).
        reason: LeaveReason,
    },
    /// A member went Down without leaving; or this node stood still for longer than `reap_after`, and forgets all members
    /// before it joins anew.
    NodeDetectedDown {
        /// The member.
        member: Member,
        /// The way in which it was detected.
        method: DetectionMethod,
    },
    /// A member has been silent for its suspect timeout.
    NodeSuspected {
        /// The member.
        member: Member,
    },
    /// A suspected member refuted the suspicion.
    NodeRecovered {
        /// The member.
        member: Member,
    },
    /// Any other change of a record.
    NodeUpdated {
        /// The member after the change.
        member: Member,
        /// The member before the change.
        previous: Member,
    },
    /// A member that was gone is reaped, a joiner gave up, or this node forgets all members before it joins anew.
    NodeRemoved {
        /// The member's last state.
        member: Member,
    },
    /// At least two members, and at least a third of the live ones, fell silent within one suspect timeout: this looks
    /// like a cut in the network (or like that many hosts that lost power together, which cannot be told apart).
    /// Reported again if more members join them, in clusters of thousands after a pause. Their deaths are reported with
    /// [`DetectionMethod::NetworkPartition`].
    PartitionSuspected {
        /// The members that are silent or gone, sorted.
        unreachable: Vec<NodeId>,
        /// The other live members, this node included, sorted.
        reachable: Vec<NodeId>,
    },
    /// A suspected partition is over: all of its members are back or gone for good, or the few that are still missing
    /// would be no partition and stay away although the others have found each other again.
    PartitionHealed {
        /// The members that did not come back, sorted.
        unreachable: Vec<NodeId>,
        /// The live members, this node included, sorted.
        reachable: Vec<NodeId>,
    },
    /// A node leads from now on, perhaps this one. The length of its claim is in
    /// [`Agent::leadership`](crate::Agent::leadership).
    LeaderElected {
        /// The leader's name.
        leader: NodeId,
        /// The leader as a member, if it is listed.
        member: Option<Member>,
        /// The fencing token of its leadership.
        term: u64,
        /// The lease in a database by which it leads; `None`: voters elected it.
        lease: Option<LeaseName>,
    },
    /// A node no longer leads, perhaps this one.
    LeaderLost {
        /// The former leader's name.
        leader: NodeId,
        /// The former leader as a member, if it is listed.
        member: Option<Member>,
        /// The term that ended.
        term: u64,
        /// The reason for the loss.
        reason: LossReason,
        /// The lease in a database by which it led; `None`: voters had elected it.
        lease: Option<LeaseName>,
    },
    /// Too few voters can be reached to elect a leader.
    QuorumLost {
        /// The latest term known, as [`Leadership::term`](crate::agent::Leadership::term) has it.
        term: u64,
    },
    /// Enough voters can be reached again.
    QuorumRegained {
        /// The latest term known, as [`Leadership::term`](crate::agent::Leadership::term) has it.
        term: u64,
    },
    /// The electorate in which this node voted has ended for another one, which stands over it: this node votes no more. Told
    /// at each start as well, until it votes again.
    ElectorateEnded,
    /// The voters agreed on a view: no other members are ever agreed under this number. See
    /// [`Agent::agreed_view`](crate::Agent::agreed_view).
    ViewAgreed {
        /// The term in which the view was put to the voters last.
        term: u64,
        /// The view's number.
        number: u64,
    },
}

/// The kind's name.
impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl EventKind {
    /// Returns the kind's name in the JSON contract, for example `node_joined`.
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
            EventKind::ElectorateEnded => "electorate_ended",
            EventKind::ViewAgreed { .. } => "view_agreed",
        }
    }

    /// The names of all kinds.
    pub const NAMES: &'static [&'static str] = &[
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
        "electorate_ended",
        "view_agreed",
    ];

    /// Returns the member that the event is about, if there is one: folding these over a snapshot gives the view.
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
            | EventKind::ElectorateEnded
            | EventKind::ViewAgreed { .. } => None,
        }
    }

    /// Returns the name of the node that the event is about, if there is one.
    pub fn node(&self) -> Option<&NodeId> {
        match self {
            EventKind::LeaderElected { leader, .. } | EventKind::LeaderLost { leader, .. } => Some(leader),
            kind => kind.member().map(|member| &member.id),
        }
    }

    /// Returns the lease that the event is about, if there is one.
    pub const fn lease(&self) -> Option<&LeaseName> {
        match self {
            EventKind::LeaderElected { lease, .. } | EventKind::LeaderLost { lease, .. } => lease.as_ref(),
            _ => None,
        }
    }

    /// Returns the memory that the event's lists of names take, in bytes; nothing else in an event grows with the cluster.
    pub(crate) fn list_bytes(&self) -> usize {
        match self {
            EventKind::PartitionSuspected { unreachable, reachable }
            | EventKind::PartitionHealed { unreachable, reachable } => {
                unreachable.iter().chain(reachable).map(NodeId::memory).sum()
            }
            _ => 0,
        }
    }

    /// Returns true if the event concerns this node: as its member, or on either side of a partition.
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
