//! The leader, as programs see it: a statement with an end.
//!
//! Invariant: after [`Leadership::valid_until`] a value says nothing, whether or not the driver has come to say so. Whoever
//! acts on it looks at the clock, too.
//!
//! `publisher` publishes it, and counts the work that runs only while this node leads.
//!
//! Must not know: elections.

mod publisher;

use std::time::Duration;

pub(crate) use publisher::LeadershipPublisher;
pub use publisher::LeadershipWatch;
#[cfg(feature = "agent")]
pub(crate) use publisher::{MAX_NAP, Piece};

use super::clock::Clock;
use crate::core::{self, LeadershipState, NodeId, Time};

/// Led work is cancelled this much before the claim ends, since timers fire late. (The margin for clocks that run at
/// different rates is in the claim's end already.)
const CANCEL_EARLY: Duration = Duration::from_millis(20);

/// The leader, as far as this node knows.
///
/// A value of this is a statement about the moment at which it was read. What each part is worth afterwards:
///
/// | part | kept, and looked at later |
/// |---|---|
/// | [`term`](Self::term) | true for ever: it never falls and never names two leaders. The only part that protects what is written elsewhere |
/// | [`valid_until`](Self::valid_until) | an upper bound: never later than the claim, but the claim may end earlier (below) |
/// | [`is_leader_now`](Self::is_leader_now), [`now`](Self::now) | look at the clock and at nothing else: false when the bound has passed; true although the claim has ended early |
/// | [`is_me`](Self::is_me), [`leader`](Self::leader), [`state`](Self::state) | nothing, without a look at the clock |
///
/// A claim ends **early** when its leader gives it up: it leaves, is told to resign, is voted out, hands over to a voter of
/// higher priority, or its disk takes no more votes. A successor may lead within milliseconds then, while a kept value says
/// `is_leader_now() == true` for up to 98 % of a lease. Whoever must not act after that:
///
/// - asks anew each time: [`LeadershipWatch::get`], [`Agent::is_leader_now`](crate::Agent::is_leader_now);
/// - or works inside of [`Agent::while_leader`](crate::Agent::while_leader): a hand-over waits until such work has ended;
/// - or asks the voters: [`Agent::confirm_leadership`](crate::Agent::confirm_leadership).
///
/// A pause between the look and the deed, which no clock sees, only the term catches. A paused virtual machine is such a pause
/// if its clock stops with it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leadership {
    /// The state: led, vacant, unavailable, or disabled.
    pub state: LeadershipState,
    /// The name of the leader.
    pub leader: Option<NodeId>,
    /// The latest term known: the fencing token, if this node leads. It never falls while the agent runs, also across a
    /// recovery, and never names two leaders. A restarted agent begins with the term on its disk (0 without a data directory,
    /// or if it does not vote) until it has heard of the leader.
    pub term: u64,
    /// True if this node leads.
    pub is_me: bool,
    /// The time until which this holds without news, at the latest: a claim that is given up ends before. At a node that does
    /// not lead it is one lease after the last renewal that this node heard of, later than the end of the claim.
    pub valid_until: Option<LeaseInstant>,
}

/// A point in time on a clock that counts suspended time, where the system has one: CLOCK_BOOTTIME on Linux, the continuous
/// time on macOS, and what [`Instant`](std::time::Instant) is elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseInstant {
    clock: Clock,
    at: Time,
}

impl LeaseInstant {
    pub(crate) fn new(clock: Clock, at: Time) -> Self {
        Self { clock, at }
    }

    /// Returns the time until then; zero if it is past.
    pub fn remaining(&self) -> Duration {
        self.at.since(self.clock.now())
    }

    /// Returns true if it is past.
    pub fn is_past(&self) -> bool {
        self.remaining().is_zero()
    }
}

/// The proof that this node led after it was asked, see [`Agent::confirm_leadership`](crate::Agent::confirm_leadership).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Confirmed {
    /// The term in which it leads: the fencing token.
    pub term: u64,
    /// The end of its claim without a further renewal; the claim ends earlier if it gives leadership up.
    pub valid_until: LeaseInstant,
}

impl Leadership {
    pub(super) fn new(told: core::Leadership, clock: Clock) -> Self {
        let core::Leadership { state, leader, term, is_me, valid_until } = told;
        Self { state, leader, term: term.0, is_me, valid_until: valid_until.map(|at| LeaseInstant { clock, at }) }
    }

    /// Returns the leadership of an agent that neither elects nor contends.
    pub const fn disabled() -> Self {
        Self { state: LeadershipState::Disabled, leader: None, term: 0, is_me: false, valid_until: None }
    }

    /// Returns true if this node leads at this instant, as far as this value knows: see [its page](Self) for one that was kept.
    pub fn is_leader_now(&self) -> bool {
        self.is_me && !self.is_past()
    }

    /// Returns the leadership at this instant: vacant, if the value is past its end.
    #[must_use]
    pub fn now(self) -> Self {
        if self.state == LeadershipState::Led && self.is_past() { self.vacated() } else { self }
    }

    fn vacated(self) -> Self {
        let state = if self.state == LeadershipState::Disabled { self.state } else { LeadershipState::Vacant };
        Self { state, leader: None, is_me: false, valid_until: None, term: self.term }
    }

    fn is_past(&self) -> bool {
        self.valid_until.is_none_or(|until| until.is_past())
    }

    /// Returns the longest time for which work may be done for this term; `None` if it may not.
    fn time_for(&self, term: u64) -> Option<Duration> {
        let until = self.valid_until.filter(|_| self.is_me && self.term == term)?;
        Some(until.remaining().saturating_sub(CANCEL_EARLY)).filter(|time| !time.is_zero())
    }
}
