//! Commands of this node's operator, and the replies to them.

use std::net::SocketAddr;
use std::time::Duration;

use super::Direct;
use crate::core::election::{ChangeError, Electorate, Term, Unconfirmed};
use crate::core::envelope::{MessageId, Payload, Topic};
use crate::core::member::{NodeId, Tags};
use crate::core::time::Time;
use crate::core::wire::{LeaseWord, Refusal};

/// Matches a [`Reply`] with its [`Command`]; drawn by the driver, below 2^63.
pub type Ticket = u64;

/// A request of this node's operator or program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Contact these addresses once and merge with whoever answers.
    Join {
        /// For the reply.
        ticket: Ticket,
        /// At most [`MAX_SEEDS`](crate::core::limits::MAX_SEEDS).
        addresses: Vec<SocketAddr>,
    },
    /// Say goodbye and stop.
    Leave,
    /// Take a member out of the listing.
    Remove {
        /// For the reply.
        ticket: Ticket,
        /// The member that is meant.
        id: NodeId,
        /// Also if it is not Down.
        force: bool,
    },
    /// Replace all tags of this node.
    SetTags {
        /// For the reply.
        ticket: Ticket,
        /// The new tags.
        tags: Tags,
    },
    /// This node is reached at another address from now on: its driver has bound a socket there.
    SetAddress {
        /// For the reply.
        ticket: Ticket,
        /// The new address.
        address: SocketAddr,
    },
    /// Add a voter to the electorate. The leader does; any other node asks it to, and gives its answer.
    AddVoter {
        /// For the reply.
        ticket: Ticket,
        /// The member that is meant.
        id: NodeId,
    },
    /// Remove a voter from the electorate. The leader does; any other node asks it to, and gives its answer.
    RemoveVoter {
        /// For the reply.
        ticket: Ticket,
        /// The member that is meant.
        id: NodeId,
    },
    /// Have the leader give leadership up, this node or another: then it is asked to.
    Resign {
        /// For the reply.
        ticket: Ticket,
        /// The voter that is to lead instead, if anybody in particular.
        to: Option<NodeId>,
    },
    /// Prove that this node leads, by a round with the voters that begins now.
    ConfirmLeadership {
        /// For the reply.
        ticket: Ticket,
    },
    /// Put a voter in the place of another one: added first, once it has caught up, and then the other one removed. The
    /// leader does; any other node asks it to, and gives its answer.
    ReplaceVoter {
        /// For the reply.
        ticket: Ticket,
        /// The voter that is to go.
        old: NodeId,
        /// The node that is to vote in its place.
        new: NodeId,
    },
    /// Begin a new generation with these voters and this node: the majority is lost for good. Done here and nowhere else,
    /// since there is no leader to ask.
    Recover {
        /// For the reply.
        ticket: Ticket,
        /// The voters of the new electorate.
        voters: Vec<NodeId>,
    },
    /// Begin a new generation with these voters and this node, which may have no vote: no voter is left that has its data.
    FoundAnew {
        /// For the reply.
        ticket: Ticket,
        /// The voters of the new generation, beside this node.
        voters: Vec<NodeId>,
    },
    /// Tell all other members of a lease in a database. Best effort, and not answered.
    TellLease(LeaseWord),
    /// Say something to every live member.
    Broadcast {
        /// For the reply.
        ticket: Ticket,
        /// What it is about.
        topic: Topic,
        /// What to say.
        payload: Payload,
    },
    /// Say something to one member.
    Send {
        /// For the reply.
        ticket: Ticket,
        /// The member that is meant.
        to: NodeId,
        /// What it is about.
        topic: Topic,
        /// What to say.
        payload: Payload,
    },
    /// Ask one member something.
    Request {
        /// For the reply.
        ticket: Ticket,
        /// The member that is meant.
        to: NodeId,
        /// What it is about.
        topic: Topic,
        /// The question.
        payload: Payload,
        /// How long to wait for the answer; at most
        /// [`MAX_REQUEST_TIMEOUT`](crate::core::limits::MAX_REQUEST_TIMEOUT).
        timeout: Duration,
    },
    /// Answer a request that another member made of this node.
    Answer {
        /// For the reply.
        ticket: Ticket,
        /// The request.
        request: MessageId,
        /// The answer.
        payload: Payload,
    },
    /// Give this node's programs a broadcast that another agent brought by a call, unless they had it already. The caller was
    /// allowed to command this node; who wrote the message is not proven.
    Deliver {
        /// For the reply.
        ticket: Ticket,
        /// The broadcast.
        direct: Direct,
    },
}

/// Answers to commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// To [`Command::Join`]: what became of each address.
    Joined(Vec<(SocketAddr, Contacted)>),
    /// To [`Command::Remove`]: the record stands as Left.
    Removed {
        /// How many peers are known to hold it.
        held_by: usize,
        /// Whether that is enough (three, or all live peers).
        confirmed: bool,
    },
    /// To [`Command::SetTags`].
    TagsSet,
    /// To [`Command::SetAddress`].
    AddressSet,
    /// To [`Command::AddVoter`], [`Command::RemoveVoter`], [`Command::ReplaceVoter`], [`Command::Recover`] and
    /// [`Command::FoundAnew`]: the electorate as it is now. To [`Command::Resign`]: the claim of the leader of that time is
    /// over.
    Electorate(Electorate),
    /// To [`Command::ConfirmLeadership`]: a majority confirmed it after the command was given.
    Confirmed {
        /// The term in which this node leads.
        term: Term,
        /// When its claim ends without a further renewal.
        until: Time,
    },
    /// To [`Command::Broadcast`]: it is on its way.
    Broadcast {
        /// The message.
        id: MessageId,
        /// How many members are live, this node included.
        addressed: usize,
    },
    /// To [`Command::Send`] and [`Command::Answer`]: the other node has it.
    Delivered {
        /// The message.
        id: MessageId,
    },
    /// To [`Command::Request`]: the answer.
    Answered {
        /// The request.
        id: MessageId,
        /// The answer.
        payload: Payload,
    },
    /// To [`Command::Deliver`]: it was given to this node's programs, now or before.
    Taken {
        /// It was now. Otherwise it came before, or is too old.
        is_new: bool,
    },
    /// The command was not carried out; nothing changed, unless the error says that this is unknown.
    Refused(CommandError),
}

/// The outcome for one address of [`Command::Join`]; of several answers the last one here counts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Contacted {
    /// Nobody answered.
    Silent,
    /// A node answered that is no member yet: it looks for a cluster itself.
    NotUp {
        /// Its name, if it said so.
        id: Option<NodeId>,
    },
    /// Somebody answered, and will have nothing to do with this node.
    Refused(Refusal),
    /// A member answered: the two are in one cluster, or soon will be.
    Answered {
        /// Its name.
        id: NodeId,
    },
}

impl Contacted {
    /// Of two answers the one of the higher rank says more.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Contacted::Silent => 0,
            Contacted::NotUp { id: None } => 1,
            Contacted::NotUp { id: Some(_) } => 2,
            Contacted::Refused(_) => 3,
            Contacted::Answered { .. } => 4,
        }
    }

    /// Takes note of a further answer.
    pub(in crate::core) fn improve(&mut self, answer: Contacted) {
        if answer.rank() > self.rank() {
            *self = answer;
        }
    }

    /// True once nothing more is to be waited for.
    pub(in crate::core) fn is_final(&self) -> bool {
        matches!(self, Contacted::Refused(_) | Contacted::Answered { .. })
    }
}

/// Why a command was not carried out. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// Nobody of that name is listed.
    #[error("no member is named {id:?}")]
    NoSuchMember {
        /// The name asked for.
        id: NodeId,
    },
    /// Only Down members are removed without force.
    #[error("{id:?} is {status}: only a member that is down is removed without force")]
    NotDown {
        /// The member.
        id: NodeId,
        /// Its status.
        status: crate::core::member::Status,
    },
    /// A node does not remove itself.
    #[error("a node does not remove itself: leave instead")]
    Oneself,
    /// The node is no member yet.
    #[error("this node is still joining: try again when it is up")]
    Joining,
    /// The node is on its way out.
    #[error("this node is leaving")]
    Leaving,
    /// Nobody could answer to that address.
    #[error("{address} is no address that others can answer to: give one with an IP address and a port")]
    Unreachable {
        /// The address asked for.
        address: SocketAddr,
    },
    /// Leaders are not elected by quorum here.
    #[error("leaders are not elected here: set leadership.mode = \"quorum\"")]
    NoQuorumMode,
    /// The electorate stays as it is.
    #[error(transparent)]
    Electorate(#[from] ChangeError),
    /// It is not proven that this node leads.
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
    /// There is no link to anybody; nothing was sent.
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
    #[error("no request {id} is waiting for an answer: it was answered already, or is past its deadline")]
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
    #[error("too many commands are waiting for their answers: try again in a second")]
    Busy,
}
