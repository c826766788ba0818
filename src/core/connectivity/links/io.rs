//! The machine's inputs and outputs: the actions that come out, with their pauses, and the facts that come with what goes in.
//! Most pauses are spread by a random number, which whoever drives the machine draws: the machine itself has none.
//!
//! Must not know: which input has which actions, or what is waited for.

use std::net::SocketAddr;
use std::time::Duration;

#[cfg(doc)]
use super::machine::Links;
use crate::io::LinkId;
use crate::limits::{
    LINK_BACKOFF, LINK_COURTESY, LINK_FIRST_PAUSE, LINK_MESH_SETTLE, LINK_NEWCOMER_COURTESY, LINK_SETTLE,
    MAX_LINK_BACKOFF,
};

/// An action for the link to the member that the input was about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Action {
    /// Opens a connection to this address.
    Open(LinkId, SocketAddr),
    /// Greets the process at the other end, which has to answer.
    Greet(LinkId),
    /// Greets the member that opened this connection, and proved it.
    Welcome(LinkId),
    /// Says over a connection that it ends, and ends it.
    Part(LinkId, Parting),
    /// Ends a connection without a message.
    Close(LinkId),
    /// Calls [`Links::due`] after this time, and not before.
    Wait(Pause),
    /// Calls [`Links::due`] after this time, or earlier if that was planned.
    WaitAtMost(Pause),
    /// Plans no call of [`Links::due`] any more.
    Rest,
    /// Counts a connection for which there is no room.
    Full,
    /// Counts a link that broke.
    Broke,
    /// The link is in use from now on.
    Opened,
    /// The link broke, and is being opened again.
    Reopening,
    /// An attempt failed. `is_first`: since a link stood, or ever.
    Failed { how: Failure, is_first: bool },
    /// Nothing is heard over the link any more: direct messages that wait for an answer over it are sent again over
    /// the next one.
    Silent,
    /// The link led to where one of the two is no more.
    Moved,
    /// There is no link, and none is planned.
    Gone,
}

/// The reasons for a goodbye.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parting {
    /// The link is not wanted, or another one stays.
    Over,
    /// The member is at another address.
    TheyMoved,
    /// This node is at another address, and says so.
    WeMoved,
}

/// The ways in which an attempt fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Nobody listens at the port.
    Refused,
    /// Opened, and closed before the process answered.
    ClosedUnanswered,
    /// Lost again, a moment after it was opened again.
    LostAgain,
    /// Anything else, which proves nothing about the process: nobody answered, or another one did, or it made no sense.
    ProvesNothing,
}

/// The facts about a member by which its link is decided.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkFacts {
    pub(crate) wish: Wish,
    /// The address in the member's record.
    pub(crate) address: SocketAddr,
    /// This node has the smaller address of the two: it opens, and what it opened stays.
    pub(crate) is_ours: bool,
}

/// The ends of a link that want it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Both ends, since they observe each other.
    Observed,
    /// This node, for a while.
    Passing,
    /// The other end at most: it may observe this node for a while longer, and ends the link itself.
    Theirs,
    /// Nobody.
    Nobody,
}

impl Wish {
    /// Returns true if this node wants the link.
    pub(crate) fn is_ours(self) -> bool {
        matches!(self, Wish::Observed | Wish::Passing)
    }
}

/// The facts about a member that becomes a neighbour.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NeighbourFacts {
    /// This node has the smaller address of the two.
    pub(crate) is_ours: bool,
    /// The member was heard of just now, and said nothing yet.
    pub(crate) is_news: bool,
    /// No newcomer will take the member's place as a neighbour.
    pub(crate) is_for_good: bool,
}

/// The time until the next step of a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pause {
    /// This long, always.
    Exact(Duration),
    /// `after`, and so many times `unit`: `from`, and a random part of `spread` more.
    Spread { after: Duration, unit: Duration, from: f64, spread: f64 },
}

impl Pause {
    fn spread(unit: Duration, from: f64, spread: f64) -> Self {
        Self::Spread { after: Duration::ZERO, unit, from, spread }
    }

    /// Returns the pause before this node, which is newly Up, opens: its neighbours are all there already.
    pub(crate) fn at_first() -> Self {
        Self::spread(LINK_FIRST_PAUSE, 1.0, 1.0)
    }

    /// Returns the pause before this node opens a link to a neighbour that stays one.
    pub(crate) fn for_good() -> Self {
        Self::spread(LINK_MESH_SETTLE, 0.0, 1.0)
    }

    /// Returns the pause before this node opens a link to a neighbour that the next joiner may displace.
    pub(crate) fn settling() -> Self {
        Self::spread(LINK_SETTLE, 0.0, 1.0)
    }

    /// Returns the time that a newcomer has to open the link itself.
    pub(crate) fn for_newcomer() -> Self {
        Self::spread(LINK_NEWCOMER_COURTESY, 1.0, 0.5)
    }

    /// Returns the time that the other end has to open the link itself.
    pub(crate) fn courtesy() -> Self {
        Self::Spread { after: LINK_COURTESY, unit: LINK_SETTLE, from: 0.0, spread: 1.0 }
    }

    /// Returns no pause at all. It is drawn like the others, so that whatever comes next has the same random number.
    pub(crate) fn none() -> Self {
        Self::spread(Duration::ZERO, 0.0, 1.0)
    }

    /// Returns the pause after so many attempts that failed: it doubles, and is spread, so that a node that comes back is
    /// not stormed.
    pub(crate) fn after_failures(failures: u32) -> Self {
        Self::spread(doubled(LINK_BACKOFF, failures.saturating_sub(1)), 0.5, 1.0)
    }

    /// Returns the time that this pause takes with this random share, at least 0 and below 1, which is drawn only if it matters.
    pub(crate) fn with(self, share: impl FnOnce() -> f64) -> Duration {
        match self {
            Self::Exact(pause) => pause,
            Self::Spread { after, unit, from, spread } => after + unit.mul_f64(from + share() * spread),
        }
    }
}

/// Returns a pause that was doubled so often, up to the longest there is.
fn doubled(pause: Duration, times: u32) -> Duration {
    (pause * 2_u32.saturating_pow(times.min(16))).min(MAX_LINK_BACKOFF)
}
