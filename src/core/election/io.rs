//! The types of the machine's interface: its initial state, the surroundings of an input, and its output.
//!
//! The inputs are the methods of [`Election`](super::Election).

use std::time::Duration;

use super::alarm::Alarm;
use super::ballot::Ballot;
use super::electorate::{Descent, Electorate};
use super::message::ElectionMessage;
use super::refusals::{ChangeError, Confirmed, Unconfirmed};
use super::term::Term;
use super::view::{NumberedView, ViewRef};
use crate::member::NodeId;
use crate::settings::{LeaderPolicy, LeaseTiming};
use crate::time::Time;

/// The initial state of a voter's machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElectionInit {
    /// This node's name.
    pub me: NodeId,
    /// The timing of leases, checked.
    pub timing: LeaseTiming,
    /// How it leads.
    pub policy: LeaderPolicy,
    /// The shortest time between two new views.
    pub view_interval: Duration,
    /// The names configured as voters: they form the first electorate, and mean nothing once there is one.
    pub voters: Vec<NodeId>,
    /// The ballot on the disk; a blank one at the first start.
    pub ballot: Ballot,
    /// The highest term that was led in another way, by a lease.
    pub floor: Term,
    /// The wall clock now, in milliseconds since 1970.
    pub wall_clock: u64,
}

/// The surroundings of an input.
pub struct Context<'a> {
    /// The time, on a clock that counts suspend.
    pub now: Time,
    /// A fresh random number, at least 0 and below 1.
    pub random: f64,
    /// True if this node is Up: only Up members stand, vote and lead.
    pub is_up: bool,
    /// The members that belong in a view now, sorted.
    pub members: &'a dyn Fn() -> Vec<NodeId>,
}

/// An electorate of which no voter is left, as a node without a vote knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LostElectorate {
    /// The name and origin of the electorate.
    pub descent: Descent,
    /// The number of the newest view that it is known to have agreed on; 0 if none is known.
    pub number: u64,
    /// The names of its voters, as far as they are known.
    pub voters: Vec<NodeId>,
}

/// The reason why a leader leads no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// The lease ran out, or nobody heard of the leader for a lease.
    Expired,
    /// The leader gave leadership up.
    Resigned,
    /// Another node leads in a later term, or in the same one by another database.
    Superseded,
    /// The store rejected the renewal (leases in a database).
    Rejected,
    /// Too few voters acknowledged the renewals.
    QuorumLost,
}

impl LossReason {
    /// Returns the reason's name in the JSON contract.
    pub const fn name(self) -> &'static str {
        match self {
            LossReason::Expired => "expired",
            LossReason::Resigned => "resigned",
            LossReason::Superseded => "superseded",
            LossReason::Rejected => "rejected",
            LossReason::QuorumLost => "quorum_lost",
        }
    }
}

/// An output of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// This message is to be sent to a voter. Best effort.
    Send {
        /// The voter that it is for.
        to: NodeId,
        /// The message.
        message: ElectionMessage,
    },
    /// This ballot is to be made durable, and reported by [`Election::stored`](super::Election::stored).
    Persist(Ballot),
    /// This node's claim has begun, or lasts longer.
    Claimed {
        /// The term.
        term: Term,
        /// The renewal that a majority acknowledged.
        sequence: u64,
        /// The time at which that renewal was sent.
        sent: Time,
        /// The time at which the claim ends.
        until: Time,
    },
    /// This node's claim is over, as of now. If it resigned, led work is to be ended and
    /// [`Election::work_ended`](super::Election::work_ended) called.
    Lost {
        /// The term.
        term: Term,
        /// The reason why it is over.
        reason: LossReason,
    },
    /// Another node's claim was heard of.
    Followed {
        /// The term.
        term: Term,
        /// The node that leads in it.
        leader: NodeId,
        /// The renewal that a majority acknowledged.
        sequence: u64,
        /// The time at which that renewal was sent; late by as long as the leader's message took.
        sent: Time,
        /// The length of the leader's lease.
        lease: Duration,
    },
    /// The leader of this term, perhaps this node, has resigned and ended all that it led.
    Released {
        /// The term.
        term: Term,
    },
    /// This view is agreed.
    Agreed(NumberedView),
    /// The contents of this view are wanted from this voter, see [`Election::contents`](super::Election::contents).
    Wanted {
        /// The view that is wanted.
        view: ViewRef,
        /// The voter that has it.
        from: NodeId,
    },
    /// The reachability of a majority of the voters has changed.
    Quorum {
        /// True if a majority can be reached.
        is_reached: bool,
    },
    /// The outcome of an operator's command.
    Answer {
        /// The ticket of the command.
        ticket: u64,
        /// The electorate as it is now, or the reason why the command was not carried out.
        result: Result<Electorate, ChangeError>,
    },
    /// The answer to [`Election::confirm`](super::Election::confirm).
    Confirmed {
        /// The ticket of the question.
        ticket: u64,
        /// The proof, or the reason why there is none.
        result: Result<Confirmed, Unconfirmed>,
    },
    /// An operator is to be told of this.
    Alarm(Alarm),
}
