//! The way out.

#[cfg(doc)]
use super::{Input, LinkEvent};
use crate::core::doors::Leadership;
use crate::core::wire::{LeaseWord, Refusal};
use std::net::SocketAddr;

use super::{Delivery, LinkId, Notice, Reply, Ticket};
use crate::core::election::{Ballot, LossReason, NumberedView, Term};
use crate::core::member::{Change, NodeId};

/// One output of the core, to be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Send this datagram. Best effort: losing it is normal.
    Transmit {
        /// To whom.
        to: SocketAddr,
        /// The payload, at most `mtu` bytes.
        bytes: Vec<u8>,
    },
    /// Open a TCP connection, to be answered by [`LinkEvent::Connected`], [`LinkEvent::Refused`] or
    /// [`LinkEvent::Unreachable`].
    OpenLink {
        /// To be used in all that follows.
        link: LinkId,
        /// Where to.
        to: SocketAddr,
    },
    /// Send this frame over a connection. It may be dropped if the link is congested.
    SendFrame {
        /// The connection.
        link: LinkId,
        /// The payload, at most [`MAX_FRAME_BYTES`](crate::core::limits::MAX_FRAME_BYTES).
        bytes: Vec<u8>,
    },
    /// Close a connection once its frames are sent, or give up opening it. No event of it is of interest any more.
    CloseLink {
        /// The connection.
        link: LinkId,
    },
    /// A record changed.
    Change(Change),
    /// Many members fell silent together, or more have joined those that were reported so: it looks like a cut.
    PartitionSuspected {
        /// Those that are silent or gone, sorted.
        unreachable: Vec<NodeId>,
        /// The other live members, this node included, sorted.
        reachable: Vec<NodeId>,
    },
    /// It is over: all of them are accounted for, or nearly all are back.
    PartitionHealed {
        /// Those that did not come back, sorted.
        unreachable: Vec<NodeId>,
        /// The live members, this node included, sorted.
        reachable: Vec<NodeId>,
    },
    /// A packet of this member was a sign of life.
    Heard(NodeId),
    /// The leader, as far as this node knows, has changed, or the time for which that holds.
    Leadership(Leadership),
    /// Somebody leads from now on, perhaps this node.
    LeaderElected {
        /// The leader.
        leader: NodeId,
        /// Its term.
        term: Term,
    },
    /// Whoever led does so no more, perhaps this node.
    LeaderLost {
        /// The leader.
        leader: NodeId,
        /// Its term.
        term: Term,
        /// Why.
        reason: LossReason,
    },
    /// This node has given up leadership: end all that it leads, wait for the end, then hand in [`Input::WorkEnded`].
    EndWork {
        /// Of which term.
        term: Term,
    },
    /// A majority of the voters can be reached again, or no more.
    Quorum {
        /// The latest term known.
        term: Term,
        /// Whether.
        is_reached: bool,
    },
    /// A view is agreed: nobody ever sees other members under its number.
    ViewAgreed(NumberedView),
    /// Make this durable, then hand in [`Input::Persisted`]. A newer one replaces an older one that is not yet written.
    Persist(Durable),
    /// Look the seeds' names up again and hand in [`Input::SeedAddresses`], after [`Input::SomeSeedAddresses`] if that takes
    /// long.
    ResolveSeeds,
    /// A member told something about a lease in a database.
    LeaseWord {
        /// The word.
        word: LeaseWord,
        /// It came from a member whose word counts, and was passed on: not from one that has just come.
        is_of_elder: bool,
    },
    /// The answer to a command.
    Reply {
        /// The command's.
        ticket: Ticket,
        /// The answer.
        reply: Reply,
    },
    /// A message for this node's programs; each comes once.
    Message(Box<Delivery>),
    /// Something an operator may want to read; already rate-limited.
    Notice(Notice),
    /// The core has ended: it takes no more input and gives no more output.
    Stopped(StopReason),
}

/// The state that survives the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Durable {
    /// No incarnation above this was or will be used before a higher bound is stored.
    pub incarnation_bound: u64,
    /// Last known addresses of other members, at most [`MAX_REMEMBERED_ADDRESSES`](crate::core::limits::MAX_REMEMBERED_ADDRESSES).
    pub addresses: Vec<SocketAddr>,
    /// The ballot, which a voter must not forget, if this node takes part in electing leaders.
    pub ballot: Option<Ballot>,
}

/// Why the core stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StopReason {
    /// It left gracefully.
    #[error("left the cluster")]
    Left,
    /// An operator removed it.
    #[error("removed from the cluster by an operator; restart to join again")]
    Removed,
    /// Its name belongs to somebody else.
    #[error("name {id:?} is already in use by {holder}: choose another with --name, or stop the other node first")]
    NameInUse {
        /// The name.
        id: NodeId,
        /// The address of the other node.
        holder: SocketAddr,
    },
    /// The cluster will not have it.
    #[error("refused by {by}: {refusal}")]
    Refused {
        /// The address that said so.
        by: SocketAddr,
        /// In the refuser's words.
        refusal: Refusal,
    },
}
