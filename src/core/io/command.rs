//! Commands of this node's operator, and the replies to them.

use std::net::SocketAddr;
use std::time::Duration;

use super::{OutOfBandBroadcast, Unopened};
use crate::election::{ChangeError, Electorate, Term, Unconfirmed};
use crate::envelope::{MessageId, Payload, Topic};
use crate::limits::{FETCH_TIME, MAX_KEPT_OWN_BYTES, MAX_REMOVALS, REMOVALS_INTERVAL};
use crate::member::{NodeId, Tags};
use crate::time::Time;
use crate::wire::{LeaseUpdate, Refusal};

/// Matches a [`Reply`] with its [`Command`]; drawn by the driver, below 2^63.
pub type Ticket = u64;

/// A request of this node's operator or program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Contact these addresses once and merge with the members that answer.
    Join {
        /// The ticket for the reply.
        ticket: Ticket,
        /// The addresses; at most [`MAX_SEEDS`](crate::limits::MAX_SEEDS).
        addresses: Vec<SocketAddr>,
    },
    /// Leave the cluster and stop.
    Leave,
    /// Remove a member from the listing.
    Remove {
        /// The ticket for the reply.
        ticket: Ticket,
        /// The member to remove.
        id: NodeId,
        /// True to remove it even if it is not Down.
        force: bool,
    },
    /// Ask a member for a sign of life now, and try to reach its process: a program had no answer from it. That is no evidence
    /// against it, and is done at most once in a while, however often it is said.
    Doubt {
        /// The ticket for the reply.
        ticket: Ticket,
        /// The member.
        id: NodeId,
    },
    /// Replace all tags of this node.
    SetTags {
        /// The ticket for the reply.
        ticket: Ticket,
        /// The new tags.
        tags: Tags,
    },
    /// Say to everybody that this node drains, and do not lead; or take that back.
    Drain {
        /// The ticket for the reply.
        ticket: Ticket,
        /// True to drain, false to take it back.
        is_draining: bool,
    },
    /// Change this node's own address: its driver has bound a socket there. Replied to once a member has reached it there,
    /// or none did (`CommandError::NotReached`): it keeps the former one then.
    SetAddress {
        /// The ticket for the reply.
        ticket: Ticket,
        /// The new address.
        address: SocketAddr,
    },
    /// Add a voter to the electorate. The leader does so; any other node forwards the command to it, and returns its
    /// answer.
    AddVoter {
        /// The ticket for the reply.
        ticket: Ticket,
        /// The member that is to vote.
        id: NodeId,
    },
    /// Remove a voter from the electorate. The leader does so; any other node forwards the command to it, and returns
    /// its answer.
    RemoveVoter {
        /// The ticket for the reply.
        ticket: Ticket,
        /// The voter to remove.
        id: NodeId,
    },
    /// Have the leader give leadership up, be it this node or another; another one is asked to.
    Resign {
        /// The ticket for the reply.
        ticket: Ticket,
        /// The voter to hand over to; any if `None`.
        to: Option<NodeId>,
    },
    /// Prove that this node leads, by a round with the voters that begins after the command.
    ConfirmLeadership {
        /// The ticket for the reply.
        ticket: Ticket,
    },
    /// Put a node in the place of a voter: the new voter is added first, once it has caught up, and then the old one is
    /// removed. The leader does so; any other node forwards the command to it, and returns its answer.
    ReplaceVoter {
        /// The ticket for the reply.
        ticket: Ticket,
        /// The voter to be removed.
        old: NodeId,
        /// The node that is to vote in its place.
        new: NodeId,
    },
    /// Begin a new generation with these voters and this node: the majority is lost for good. Carried out by this node
    /// alone, since there is no leader to ask.
    Recover {
        /// The ticket for the reply.
        ticket: Ticket,
        /// The voters of the new electorate.
        voters: Vec<NodeId>,
    },
    /// Begin a new generation with these voters and this node, which may have no vote: no voter that has its data is
    /// left.
    FoundAnew {
        /// The ticket for the reply.
        ticket: Ticket,
        /// The voters of the new generation, beside this node.
        voters: Vec<NodeId>,
    },
    /// Spread news about a lease in a database to all other members. Best effort, and not answered.
    TellLease(LeaseUpdate),
    /// Keep the highest term that is known of a lease in a database, for the newcomers that this node brings in. Not
    /// answered.
    KeepLeaseTerm {
        /// The lease's name.
        lease: NodeId,
        /// The term.
        term: u64,
    },
    /// Send a message to every live member.
    Broadcast {
        /// The ticket for the reply.
        ticket: Ticket,
        /// The topic.
        topic: Topic,
        /// The payload.
        payload: Payload,
    },
    /// Send a message to one member.
    Send {
        /// The ticket for the reply.
        ticket: Ticket,
        /// The receiver.
        to: NodeId,
        /// The topic.
        topic: Topic,
        /// The payload.
        payload: Payload,
    },
    /// Send a request to one member and wait for the answer.
    Request {
        /// The ticket for the reply.
        ticket: Ticket,
        /// The receiver.
        to: NodeId,
        /// The topic.
        topic: Topic,
        /// The payload of the request.
        payload: Payload,
        /// The time to wait for the answer; at most [`MAX_REQUEST_TIMEOUT`](crate::limits::MAX_REQUEST_TIMEOUT).
        timeout: Duration,
    },
    /// Answer a request that another member sent to this node.
    Answer {
        /// The ticket for the reply.
        ticket: Ticket,
        /// The id of the request.
        request: MessageId,
        /// The payload of the answer.
        payload: Payload,
    },
    /// Give this node's programs a broadcast that another agent brought by a call, unless they had it already. The
    /// caller was allowed to command this node; who wrote the message is not proven.
    Deliver {
        /// The ticket of the reply.
        ticket: Ticket,
        /// The broadcast.
        direct: OutOfBandBroadcast,
    },
}

/// The replies to commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The reply to [`Command::Join`]: the outcome for each address.
    Joined(Vec<(SocketAddr, Contacted)>),
    /// The reply to [`Command::Remove`]: the record is held as Left.
    Removed {
        /// The number of peers known to hold the record.
        held_by: usize,
        /// True if those are enough (three, or all live peers).
        confirmed: bool,
    },
    /// The reply to [`Command::Doubt`]: the member is asked.
    Doubted,
    /// The reply to [`Command::SetTags`].
    TagsSet,
    /// The reply to [`Command::Drain`]: everybody is told.
    Draining {
        /// The number of voters that are there, do not drain, and so may lead; `None` if this node knows no voters.
        may_lead: Option<usize>,
    },
    /// The reply to [`Command::SetAddress`].
    AddressSet,
    /// The reply to [`Command::AddVoter`], [`Command::RemoveVoter`], [`Command::ReplaceVoter`], [`Command::Recover`]
    /// and [`Command::FoundAnew`]: the new electorate; and to [`Command::Resign`], once the claim of the former leader
    /// is over: the electorate.
    Electorate(Electorate),
    /// The reply to [`Command::ConfirmLeadership`]: a majority confirmed it after the command was given.
    Confirmed {
        /// The term in which this node leads.
        term: Term,
        /// Time at which its claim ends without a further renewal.
        until: Time,
    },
    /// The reply to [`Command::Broadcast`]: the message is on its way.
    Broadcast {
        /// The id of the message.
        id: MessageId,
        /// The number of live members, this node included.
        addressed: usize,
    },
    /// The reply to [`Command::Send`] and [`Command::Answer`]: the other node has the message.
    Delivered {
        /// The id of the message.
        id: MessageId,
    },
    /// The reply to [`Command::Request`]: the answer.
    Answered {
        /// The id of the request.
        id: MessageId,
        /// The payload of the answer.
        payload: Payload,
    },
    /// The reply to [`Command::Deliver`]: the broadcast was given to this node's programs, now or before, or is too
    /// old.
    Taken {
        /// True if the broadcast was given to them now; false if it came before, or is too old.
        is_new: bool,
    },
    /// The command was not carried out; nothing changed, unless the error says that this is unknown.
    Refused(CommandError),
}

/// The outcome for one address of [`Command::Join`]; of several answers the one that comes last in this list counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contacted {
    /// No answer.
    Silent,
    /// No answer, and no connection.
    Unreached,
    /// A node answered that is not a member yet: it looks for a cluster itself.
    NotUp {
        /// The name of the node, if the answer contained it.
        id: Option<NodeId>,
    },
    /// An agent took the connection, and cannot open what this node sends.
    Unopened(Unopened),
    /// A node answered and refused.
    Refused(Refusal),
    /// A member answered: the two are in one cluster, or soon will be.
    Answered {
        /// The name of the member.
        id: NodeId,
    },
}

impl Contacted {
    /// Returns the rank: of two answers the one of the higher rank counts.
    pub fn rank(&self) -> u8 {
        match self {
            Contacted::Silent => 0,
            Contacted::Unreached => 1,
            Contacted::NotUp { id: None } => 2,
            Contacted::NotUp { id: Some(_) } => 3,
            Contacted::Unopened(_) => 4,
            Contacted::Refused(_) => 5,
            Contacted::Answered { .. } => 6,
        }
    }

    /// Replaces the outcome by a further answer, if that has a higher rank.
    pub(crate) fn improve(&mut self, answer: Contacted) {
        if answer.rank() > self.rank() {
            *self = answer;
        }
    }

    /// Returns true if no further answer can matter.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Contacted::Refused(_) | Contacted::Answered { .. })
    }
}

/// The reason why a command was not carried out. Nothing changed, unless the error says that this is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// No member of that name is listed.
    #[error("no member is named {id:?}")]
    NoSuchMember {
        /// The name in the command.
        id: NodeId,
    },
    /// Only Down members are removed without force.
    #[error("{id:?} is {status}: only a member that is down is removed without force")]
    NotDown {
        /// The member.
        id: NodeId,
        /// The member's status.
        status: crate::member::Status,
    },
    /// A node does not remove itself.
    #[error("a node does not remove itself: leave instead")]
    Oneself,
    /// The node is not a member yet.
    #[error("this node is still joining: try again when it is up")]
    Joining,
    /// The node is leaving.
    #[error("this node is leaving")]
    Leaving,
    /// The tags leave no room for the mark of a node that drains.
    #[error(
        "the tags of this node leave no room to say that it drains: take one away (23 bytes and one key are needed)"
    )]
    NoRoomToDrain,
    /// Others could not answer to this node's new address.
    #[error("{address} is no address that others can answer to: give one with an IP address and a port")]
    Unreachable {
        /// The address in the command.
        address: SocketAddr,
    },
    /// No member reaches this node at its new address, or another address was given meanwhile.
    #[error("no member reaches this node at {address}: check its interfaces, NAT, firewall")]
    NotReached {
        /// The address in the command.
        address: SocketAddr,
    },
    /// Leaders are not elected by quorum here.
    #[error("leaders are not elected here: set leadership.mode = \"quorum\"")]
    NoQuorumMode,
    /// The electorate was not changed.
    #[error(transparent)]
    Electorate(#[from] ChangeError),
    /// There is no proof that this node leads.
    #[error(transparent)]
    Unconfirmed(#[from] Unconfirmed),
    /// There is no link to that node, and none could be opened; nothing was sent.
    #[error(
        "there is no link to {id:?}, and none could be opened: messages to one node need TCP; see that its port is open"
    )]
    NoLink {
        /// The node.
        id: NodeId,
    },
    /// The member is not live; nothing was sent.
    #[error("{id:?} is {status}: nothing was sent")]
    NotLive {
        /// The node.
        id: NodeId,
        /// The member's status.
        status: crate::member::Status,
    },
    /// There is no link to any member; nothing was sent.
    #[error(
        "there is no link to any member: a broadcast of more than 736 bytes needs TCP; see that the members' ports are open"
    )]
    NoLinks,
    /// No receipt, or no answer, came in time.
    #[error("{id:?} did not answer in time: it is unknown whether it got the message")]
    NoAnswer {
        /// The node.
        id: NodeId,
    },
    /// No such request is waiting for an answer here.
    #[error(
        "no request {id} is waiting for an answer here: it was answered already, is past its deadline, or came to another agent"
    )]
    NoSuchRequest {
        /// The request.
        id: MessageId,
    },
    /// An id that no broadcast has.
    #[error("{id} is the id of no broadcast: those have even sequences from 2 on, as POST /v1/broadcast answers")]
    NoBroadcast {
        /// The id.
        id: MessageId,
    },
    /// A message is said to be of another node than its run belongs to.
    #[error("message {id} is not of {node:?}: its run is another node's, or the name is this node's own")]
    OtherOrigin {
        /// The message.
        id: MessageId,
        /// The node that it is said to be of.
        node: NodeId,
    },
    /// Too many commands are waiting for their answers.
    #[error("too many commands or messages are under way at this node: nothing was done; try again in a second")]
    Busy,
    /// So many members were removed from here within a minute that a script may be at work.
    #[error(
        "{MAX_REMOVALS} members were removed from here in the last {} seconds: nothing was done; if that is \
         meant, go on in a minute", REMOVALS_INTERVAL.as_secs()
    )]
    TooManyRemovals,
    /// This node's own broadcasts are made faster than others can fetch them; nothing was sent.
    #[error(
        "this node keeps {} MiB of its own broadcasts for others to fetch, and that is full: nothing was sent; try again in \
         {} seconds", MAX_KEPT_OWN_BYTES / (1024 * 1024), FETCH_TIME.as_secs()
    )]
    TooFast,
}
