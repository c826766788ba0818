//! Hooks: what somebody who watches a world is told, and when.
//!
//! Invariants: whoever watches changes nothing in the world and draws none of its random numbers, so a run that is watched has the
//! same trace as one that is not. Every hook does nothing by default.
//!
//! Must not know: what is watched for.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use super::node::Clock;
use super::world::World;
use headcount_contender::{Claim, LeaseName, Seen, Token};
use headcount_core::election::LossReason;
use headcount_core::{Command, CoreInit, Input, Output, StopReason};

/// Whoever watches a world.
#[expect(unused_variables, reason = "the default of every hook does nothing")]
pub trait Watch: Any + fmt::Debug + Send {
    /// Returns true if the world is to stand still from now on.
    fn has_seen_enough(&self) -> bool {
        false
    }

    /// Returns the time between two calls of [`Watch::on_look`]; `None` if it is never to be called.
    fn looks_every(&self) -> Option<Duration> {
        None
    }

    /// Looks at all nodes at once.
    fn on_look(&mut self, world: &World) {}

    /// A process starts with this birth and this clock; its core is not there yet.
    fn on_birth(&mut self, world: &World, node: usize, init: &CoreInit, clock: Clock) {}

    /// A process is gone: killed, or stopped by itself for this reason.
    fn on_end(&mut self, world: &World, node: usize, reason: Option<&StopReason>) {}

    /// A node has lost its disk.
    fn on_disk_lost(&mut self, world: &World, node: usize) {}

    /// A node's disk holds this incarnation bound now.
    fn on_stored(&mut self, world: &World, node: usize, incarnation_bound: u64) {}

    /// A running process is given a command. It is handed in at once, or after the process's pause.
    fn on_command(&mut self, world: &World, node: usize, command: &Command) {}

    /// A core is about to be handed this input.
    fn on_input(&mut self, world: &World, node: usize, input: &Input<'_>) {}

    /// A core has had this output, which has had no effect yet.
    fn on_output(&mut self, world: &World, node: usize, output: &Output) {}

    /// All outputs of a core after an input, or after its birth, are carried out. `has_changed` is true if one was a change.
    fn after_step(&mut self, world: &World, node: usize, has_changed: bool) {}

    /// Something is done to the world. Returns the time after which [`Watch::on_due`] is to be called.
    fn on_upheaval(&mut self, world: &World, upheaval: Upheaval<'_>) -> Option<Duration> {
        None
    }

    /// The time has come that was asked for. Returns the time after which it is to be called again.
    fn on_due(&mut self, world: &World) -> Option<Duration> {
        None
    }

    /// Something happens to the contender of a node.
    fn on_lease(&mut self, world: &World, node: usize, event: LeaseEvent<'_>) {}

    /// The database of leases has lost these grants, each with true if it began a term; all of them, if it was replaced.
    fn on_lost_grants(&mut self, world: &World, lost: &[(Token, bool)], is_replaced: bool) {}

    /// Something is sealed or opened in a sealed world.
    fn on_seal(&mut self, world: &World, event: SealEvent<'_>) {}

    /// A core never comes to an end: the world stands still.
    fn on_stuck(&mut self, world: &World, node: usize, stuck: &Stuck) {}
}

/// Something that is done to a world.
#[derive(Debug, Clone, Copy)]
pub enum Upheaval<'a> {
    /// A process is about to die, its host with it if it is silent.
    Death {
        /// The node.
        node: usize,
        /// True if nobody closes its connections.
        is_silent: bool,
    },
    /// A node is about to be added whose process dies soon after it became Up.
    Doom {
        /// The node.
        node: usize,
    },
    /// That process is about to die.
    Perish {
        /// The node.
        node: usize,
    },
    /// Some nodes are about to be cut off from all others.
    Cut {
        /// The nodes.
        side: &'a [usize],
        /// The time until it ends by itself.
        lasting: Option<Duration>,
    },
    /// Anything else.
    Other {
        /// True if links may break.
        breaks_links: bool,
    },
}

/// Something that happens to the contender of a node.
#[derive(Debug, Clone, Copy)]
pub enum LeaseEvent<'a> {
    /// It starts.
    Birth {
        /// The number of its process, unique among all.
        process: u64,
        /// The clock of its process.
        clock: Clock,
        /// The terms on its disk.
        terms: &'a BTreeMap<LeaseName, u64>,
    },
    /// It is gone.
    End,
    /// Its process stood still, and goes on.
    Wake,
    /// The database has carried out a step of a round.
    Granted {
        /// The number of the process that asked.
        process: u64,
        /// The number of the database.
        database: usize,
        /// The lease.
        lease: &'a LeaseName,
        /// The token that stood in the row before.
        before: Option<Token>,
        /// True if the step asked to take the lease.
        is_takeover: bool,
        /// The answer.
        seen: &'a Seen,
    },
    /// The answers to so many grants are lost.
    LostAnswers(u64),
    /// It is about to be handed an answer.
    Answering(&'a [(LeaseName, Seen)]),
    /// It has done what it makes of the answer.
    Answered(&'a [(LeaseName, Seen)]),
    /// It is about to be handed word of a term.
    Hearing(&'a LeaseName, u64),
    /// It has done what it makes of the word.
    Heard(&'a LeaseName, u64),
    /// It tells of a claim, after what it saw of the lease if it was answered.
    Claimed(&'a Claim, Option<&'a Seen>),
    /// It leads no more.
    Lost(LossReason),
    /// All that was led in this term has ended.
    WorkEnded(&'a LeaseName, u64),
    /// All its outputs are carried out.
    Drained,
}

/// Something that happens in a sealed world.
#[derive(Debug, Clone, Copy)]
pub enum SealEvent<'a> {
    /// A node has sealed a datagram.
    Sealed {
        /// The node.
        node: usize,
        /// The datagram.
        datagram: &'a [u8],
    },
    /// A node has opened a datagram.
    Opened {
        /// The node.
        node: usize,
        /// The address that it came from.
        from: SocketAddr,
        /// The datagram.
        datagram: &'a [u8],
    },
    /// So many bytes, headers included, are sent to where no node is.
    SentOutside {
        /// The address.
        to: SocketAddr,
        /// The number of bytes.
        bytes: u64,
    },
}

/// The way in which a core never comes to an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stuck {
    /// Its outputs have no end: so many were counted.
    Outputs(usize),
    /// It wants to be woken at one instant again and again: so many times were counted.
    Wakings(u32),
}
