//! Rounds: a contender's requests to a store, and the store's answers.
//!
//! A round holds all requests of one agent at one time, for all its leases: one transaction, one round trip where the
//! database allows it. So ten leases cost little more than one.
//!
//! Invariants of a round, which every store keeps and the shared suite of tests checks:
//! - It happens as a whole or not at all. Errors that leave open which of the two are told apart from those that do
//!   not.
//! - **Only the database's clock is compared with rows**: an expiry, an age, a window.
//! - A lease has at most one holder. Its term grows by at least one with every acquisition, in the same transaction,
//!   and survives every row.
//! - **A lease is free if nobody ever held it, or if its last holder gave it up, which the row of the highest term
//!   says.** A row that is missing was deleted by hand or by a sweep, and its holder may live: it is taken only by a
//!   contender that saw it missing for a whole lease. A sweep deletes a holder's row only once the same token has stood
//!   in it for a whole lease by the sweeper's own clock, and never the row that says that a lease is free. (A clock
//!   that is put forward expires every lease at once. A contender that sees the holder waits for it all the same; one
//!   that finds the lease free does not know that it should.)
//! - A lease has expired once its expiry is past, and also if its expiry is further away than the lease is long, which
//!   only a clock that was put back can cause. (Its holder may renew it all the same; others wait by their own clocks.)
//! - Every step is answered with the row as it stands after the step, in the order of the steps. A row that cannot be
//!   read, or a lease whose terms are used up, is the outcome of that step alone.
//!
//! Must not know: what the contender does with an answer; any clock.

use std::net::SocketAddr;
use std::time::Duration;

use super::{LeaseName, Token};
use headcount_core::NodeId;

/// All requests of one agent at one time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Round {
    /// The asking node. Its liveness row is written in every round.
    pub node: NodeId,
    /// The address at which it takes links, kept in its liveness row: whoever carries the round to the database says it.
    pub rpc_address: Option<SocketAddr>,
    /// The length of the leases that this round acquires or renews, from the database's time of the round.
    pub lease_duration: Duration,
    /// The requests: at most one for each lease, at most [`MAX_LEASES`](super::MAX_LEASES).
    pub steps: Vec<Step>,
}

/// A request about one lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Step {
    /// The lease.
    pub lease: LeaseName,
    /// The request.
    pub request: StepRequest,
}

/// The kinds of requests about a lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum StepRequest {
    /// Reads the lease.
    Watch,
    /// Takes the lease, if nobody holds it, or if the database's clock says that it has expired *and* its holder's
    /// token is still `expired`: the one that the contender saw stand still for a whole lease by its own clock. An
    /// expiry further off than the lease is long was written before that clock was set back, and counts as expired.
    Acquire {
        /// The token to write.
        drawn: Token,
        /// The highest term that the contender has heard of: the new one is above it, and above the stored one.
        above: u64,
        /// The token that may be replaced once it has expired; `None`: only a free lease is taken.
        expired: Option<Token>,
        /// The term whose row may be missing: the contender saw it missing for a whole lease by its own clock.
        missing: Option<u64>,
    },
    /// Prolongs the lease, if this node holds it under one of the tokens `held` and it has not expired.
    Renew {
        /// The tokens that may stand in the row: the last one confirmed, and those of renewals without an answer.
        held: Vec<Token>,
        /// The token to write.
        drawn: Token,
    },
    /// Gives the lease up, if this node holds it under one of the tokens `held`, expired or not: it is free at once,
    /// for everybody.
    Release {
        /// The tokens that may stand in the row, as in [`StepRequest::Renew`].
        held: Vec<Token>,
    },
}

/// A store's answer to a [`Round`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Answer {
    /// The results of the steps, in their order.
    pub steps: Vec<Seen>,
}

/// The result of a [`Step`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Seen {
    /// The outcome of the step.
    pub outcome: Outcome,
    /// The highest term that the store ever gave for this lease; 0 if none.
    pub term: u64,
    /// The holder as it stands after the step; `None`: no row shows one.
    pub holder: Option<Holder>,
    /// True if the row of the highest term says that its holder gave the lease up.
    pub is_released: bool,
}

impl Seen {
    /// Returns true if nobody holds the lease. Without a holder it may also be that the holder's row was deleted.
    pub fn is_free(&self) -> bool {
        self.holder.is_none() && (self.is_released || self.term == 0)
    }
}

impl Seen {
    /// Returns a number that tells words about this row apart from words about another one, and betrays nothing of its
    /// token; `None` if nobody holds the lease.
    pub fn nonce(&self) -> Option<u64> {
        self.holder.as_ref().map(|holder| xxhash_rust::xxh3::xxh3_64(&holder.token.0.to_be_bytes()).max(1))
    }
}

/// The outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The lease was read.
    Watched,
    /// The lease is the asking node's under the drawn token, in the term that is reported.
    Acquired,
    /// Another holder has the lease, or may have it: nothing changed.
    Held,
    /// Another contender came first at the same moment: nothing changed. Worth another try, after a jitter.
    Conflict,
    /// The lease is prolonged, under the drawn token.
    Renewed,
    /// The row is not the asking node's under any of the tokens, or a renewal came after its expiry: nothing changed.
    Rejected,
    /// The lease is free.
    Released,
    /// The lease's rows hold what no store writes: nothing is known of it.
    Unreadable,
    /// There is no higher term than the stored one, or than the one that the contender has heard of: nothing changed.
    Exhausted,
}

/// A lease's holder, as a store shows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The name of the holding node.
    pub node: NodeId,
    /// The token of its last acquisition or renewal.
    pub token: Token,
    /// The term that it holds.
    pub term: u64,
    /// The length of its lease.
    pub lease_duration: Duration,
    /// The time until it expires, by the database's clock; zero once it has. Longer than the lease if that clock was
    /// set back since: see [`Self::has_expired`].
    pub expires_in: Duration,
}

impl Holder {
    /// Returns true if the database's clock says that the lease has expired.
    ///
    /// An expiry that is further off than the lease is long was written before that clock was set back. It counts as
    /// past: a leader that lives writes a sound one with its next renewal, and one that does not must not hold the
    /// lease until the clock is there again. No contender takes it over that did not see its token stand still for one
    /// lease.
    pub fn has_expired(&self) -> bool {
        self.expires_in.is_zero() || self.expires_in > self.lease_duration
    }
}

/// A node's liveness row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    /// The name of the node.
    pub node: NodeId,
    /// The address at which it takes links.
    pub rpc_address: Option<SocketAddr>,
    /// The time since its last round, by the database's clock.
    pub age: Duration,
}
