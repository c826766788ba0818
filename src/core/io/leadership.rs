//! The outcome of elections, as it is published to every member.

use crate::election::Term;
use crate::member::NodeId;
use crate::time::Time;

/// The state of leadership: is there a leader, and can there be one?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeadershipState {
    /// Leaders are not elected in this cluster.
    Disabled,
    /// There is no leader at the moment.
    Vacant,
    /// There is a leader.
    Led,
    /// There is no leader, and there can be none: too few voters can be reached.
    Unavailable,
}

impl LeadershipState {
    /// Returns the state's name in the JSON contract.
    pub const fn name(self) -> &'static str {
        match self {
            LeadershipState::Disabled => "disabled",
            LeadershipState::Vacant => "vacant",
            LeadershipState::Led => "led",
            LeadershipState::Unavailable => "unavailable",
        }
    }
}

/// The leader and its term, as far as this node knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leadership {
    /// The state: led, vacant, unavailable or disabled.
    pub state: LeadershipState,
    /// The leader, if there is one.
    pub leader: Option<NodeId>,
    /// The latest term known: the fencing token if this node leads.
    pub term: Term,
    /// True if this node leads.
    pub is_me: bool,
    /// End of the time for which this holds, on the clock of the core's inputs: this node's claim, or another's as it
    /// is shown here.
    pub valid_until: Option<Time>,
}

impl Leadership {
    /// The value if leaders are not elected.
    pub const DISABLED: Leadership =
        Leadership { state: LeadershipState::Disabled, leader: None, term: Term(0), is_me: false, valid_until: None };
}
