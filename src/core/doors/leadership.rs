//! The outcome of elections, as every member is told it.

use crate::core::election::Term;
use crate::core::member::NodeId;
use crate::core::time::Time;

/// Whether there is a leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LeadershipState {
    /// Leaders are not elected here.
    Disabled,
    /// Nobody leads at the moment.
    Vacant,
    /// Somebody leads.
    Led,
    /// Nobody leads, and nobody can: too few voters are there.
    Unavailable,
}

impl LeadershipState {
    /// Its name in the JSON contract.
    pub const fn name(self) -> &'static str {
        match self {
            LeadershipState::Disabled => "disabled",
            LeadershipState::Vacant => "vacant",
            LeadershipState::Led => "led",
            LeadershipState::Unavailable => "unavailable",
        }
    }
}

/// Who leads, as far as this node knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leadership {
    /// Whether there is a leader.
    pub state: LeadershipState,
    /// Who.
    pub leader: Option<NodeId>,
    /// The latest term known: the fencing token if this node leads.
    pub term: Term,
    /// Whether this node leads.
    pub is_me: bool,
    /// Until when that holds, on the clock of the core's inputs: this node's claim, or another's as it is shown here.
    pub valid_until: Option<Time>,
}

impl Leadership {
    /// Where leaders are not elected.
    pub const DISABLED: Leadership =
        Leadership { state: LeadershipState::Disabled, leader: None, term: Term(0), is_me: false, valid_until: None };
}
