//! The outputs of the core.

#[cfg(doc)]
use super::{Input, LinkEvent};
use crate::io::Leadership;
use crate::wire::{LeaseUpdate, Refusal};
use std::net::SocketAddr;

use super::{Delivery, LinkId, Notice, Reply, Ticket};
use crate::election::{Ballot, LossReason, NumberedView, Term};
use crate::member::{Change, NodeId, Run};

/// One output of the core, to be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Send this datagram. Best effort: losing it is normal.
    Transmit {
        /// The receiver's address.
        to: SocketAddr,
        /// The receiver; a driver that seals binds the datagram to it.
        receiver: Receiver,
        /// The payload, at most `mtu` bytes.
        bytes: Vec<u8>,
    },
    /// Open a TCP connection, to be answered by [`LinkEvent::Connected`], [`LinkEvent::Refused`] or
    /// [`LinkEvent::Unreachable`].
    OpenLink {
        /// The name of the link in all further inputs and outputs.
        link: LinkId,
        /// The address to connect to.
        to: SocketAddr,
    },
    /// Send this frame over a connection. It may be dropped if the link is congested.
    SendFrame {
        /// The connection.
        link: LinkId,
        /// The payload, at most [`MAX_FRAME_BYTES`](crate::limits::MAX_FRAME_BYTES).
        bytes: Vec<u8>,
    },
    /// Close a connection once its frames are sent, or stop opening it. Its further events are ignored.
    CloseLink {
        /// The connection.
        link: LinkId,
    },
    /// A record changed.
    Change(Change),
    /// Many members fell silent together, or more have joined those that were reported: this looks like a cut.
    PartitionSuspected {
        /// The members that are silent or gone, sorted.
        unreachable: Vec<NodeId>,
        /// The other live members, this node included, sorted.
        reachable: Vec<NodeId>,
    },
    /// The suspected partition is over: all of its members are accounted for, or nearly all are back.
    PartitionHealed {
        /// The members that did not come back, sorted.
        unreachable: Vec<NodeId>,
        /// The live members, this node included, sorted.
        reachable: Vec<NodeId>,
    },
    /// A packet of this member was a sign of life.
    Heard(NodeId),
    /// A datagram went to this member, which is observed and observes this node: a heartbeat.
    HeartbeatSent(NodeId),
    /// The leader, as far as this node knows, has changed, or the time for which that holds.
    Leadership(Leadership),
    /// A node leads from now on, perhaps this one.
    LeaderElected {
        /// The leader.
        leader: NodeId,
        /// The term in which it leads.
        term: Term,
    },
    /// A node no longer leads, perhaps this one.
    LeaderLost {
        /// The leader.
        leader: NodeId,
        /// The term in which it led.
        term: Term,
        /// The reason for the loss.
        reason: LossReason,
    },
    /// This node has given up leadership: end all led work, wait until it has ended, then hand in [`Input::WorkEnded`].
    EndWork {
        /// The term of the work.
        term: Term,
    },
    /// A majority of the voters can be reached again, or can no longer be reached.
    Quorum {
        /// The latest term known.
        term: Term,
        /// True if it can be reached.
        is_reached: bool,
    },
    /// A view is agreed: no other members are ever agreed under its number.
    ViewAgreed(NumberedView),
    /// Make this durable, then hand in [`Input::Persisted`]. A newer one replaces an older one that is not yet written.
    Persist(Durable),
    /// Look the seeds' names up again and hand in [`Input::SeedAddresses`], after [`Input::SomeSeedAddresses`] if that
    /// takes long.
    ResolveSeeds,
    /// A member sent news about a lease in a database.
    LeaseUpdate {
        /// The news.
        update: LeaseUpdate,
        /// True if its sender is believed about leases (see `membership::arrivals`), and it was passed on.
        is_believed: bool,
    },
    /// Leaders are elected by voters in this cluster, as a member says, and this node takes no part in that.
    VotersHeard {
        /// The member that says so; `None` for the sponsor of a joiner.
        by: Option<NodeId>,
        /// True if somebody is said to lead now.
        is_led: bool,
        /// The leader and its term, if they are named.
        leader: Option<(NodeId, Term)>,
    },
    /// The reply to a command.
    Reply {
        /// The ticket of the command.
        ticket: Ticket,
        /// The reply.
        reply: Reply,
    },
    /// A message for this node's programs; each is given out once.
    Message(Box<Delivery>),
    /// A condition that an operator may want to know of; already rate-limited.
    Notice(Notice),
    /// The core has ended: it takes no more inputs and gives no more outputs.
    Stopped(StopReason),
}

/// The receiver that a datagram is meant for. Drivers that do not seal ignore it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receiver {
    /// The node at the address, whichever it is: its run is not known. Only questions, and answers to the nameless, go out
    /// like this.
    Anybody,
    /// This run alone.
    Run(Run),
}

impl Receiver {
    /// Returns the run to which a driver that seals binds the datagram; `None` if it is bound to nobody.
    pub fn run(self) -> Option<Run> {
        match self {
            Receiver::Anybody => None,
            Receiver::Run(run) => Some(run),
        }
    }

    /// Returns the receiver of this run; anybody, if it is nobody's.
    pub(crate) fn of(run: Run) -> Self {
        if run.is_nobody() { Receiver::Anybody } else { Receiver::Run(run) }
    }
}

/// The state that survives the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Durable {
    /// The incarnation bound: no higher incarnation was or will be used before a higher bound is stored.
    pub incarnation_bound: u64,
    /// Last known addresses of other members, at most
    /// [`MAX_REMEMBERED_ADDRESSES`](crate::limits::MAX_REMEMBERED_ADDRESSES).
    pub addresses: Vec<SocketAddr>,
    /// The ballot, which a voter must not forget, if this node takes part in elections.
    pub ballot: Option<Ballot>,
}

/// The reason why the core stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StopReason {
    /// The node left gracefully.
    #[error("left the cluster")]
    Left,
    /// An operator removed the node.
    #[error("removed from the cluster by an operator; restart to join again")]
    Removed,
    /// The node's name belongs to another one.
    #[error("name {id:?} is already in use by {holder}: choose another name, or stop the other node first")]
    NameInUse {
        /// The name.
        id: NodeId,
        /// The address of the other node.
        holder: SocketAddr,
    },
    /// Another process runs as this one: its machine was copied while it ran.
    #[error(
        "another process runs as this one, at {address}: its machine was copied while it ran; stop the copy, then start the \
         agent again, and give a copy a name and a data directory of its own"
    )]
    Copied {
        /// The address in the record that this process did not write.
        address: SocketAddr,
    },
    /// The cluster knows a later record of this process than its own: its memory was set back.
    #[error(
        "the cluster has a later record of this process than its own: its machine was put back to a snapshot of its memory; \
         start the agent again"
    )]
    SetBack,
    /// The cluster refused the node.
    #[error("refused by {by}: {refusal}")]
    Refused {
        /// The address of the node that refused.
        by: SocketAddr,
        /// The reason that it gave.
        refusal: Refusal,
    },
}
