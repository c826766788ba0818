//! The messages between voters. The doc comments are the specification.
//!
//! Every message carries its sender's identity and the lineage of its electorate; a message of another lineage, or from
//! a sender that is not in the receiver's electorate, does not count. Forming the first electorate is the exception,
//! since it has no lineage yet.
//!
//! Must not know: how messages are acted upon.

use serde::{Deserialize, Serialize};

use super::electorate::{Descent, Electorate, Identity, Lineage};
use super::term::Term;
use super::view::{Delta, ViewRef};

/// A message from one voter to another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ElectionMessage {
    /// The sender's identity.
    pub from: Identity,
    /// The lineage of the sender's electorate; zero while it has none.
    pub lineage: Lineage,
    /// The contents of the message.
    pub body: Body,
}

/// The contents of a message.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Body {
    /// "I am such and such a voter, and this is the identity that I hold of you." Forms the first electorate, and
    /// introduces a voter to be added to a later one.
    Roster(Roster),
    /// A status query: "I have not heard the leader for a lease: have you?"
    Query {
        /// The number of the sender's attempt, to be echoed.
        attempt: u32,
        /// The newest view that the sender accepted: a voter that knows no electorate fetches it.
        newest: ViewRef,
    },
    /// The answer to a status query.
    QueryReply {
        /// The attempt of the query.
        attempt: u32,
        /// True if a leader was heard within its lease.
        hears_leader: bool,
        /// The sender's term. A candidate stands above all the terms that it heard of, if it stands.
        term: Term,
    },
    /// A pre-vote: "Would you vote for me in this term?" Moves nobody's term.
    PreVote {
        /// The number of the sender's attempt, to be echoed.
        attempt: u32,
        /// The term that the candidate would stand in.
        term: Term,
        /// The newest view that the candidate accepted.
        newest: ViewRef,
    },
    /// The answer to a pre-vote.
    PreVoteReply {
        /// The attempt of the question.
        attempt: u32,
        /// True if the candidate would get the vote.
        is_granted: bool,
        /// The sender's term.
        term: Term,
    },
    /// A vote request: "Vote for me."
    Vote {
        /// The term that the candidate stands in.
        term: Term,
        /// The newest view that the candidate accepted.
        newest: ViewRef,
    },
    /// The answer to a vote request; a granted vote is on the sender's disk.
    VoteReply {
        /// The term of the vote request.
        term: Term,
        /// True if the candidate gets the vote.
        is_granted: bool,
        /// The newest view that the sender accepted.
        newest: ViewRef,
    },
    /// A renewal: "I lead: renew my lease."
    Renew(Renewal),
    /// An acknowledgement: "I shall not vote for as long as the renewal says."
    RenewalAck {
        /// The renewal's term.
        term: Term,
        /// The renewal's sequence number.
        sequence: u64,
        /// The newest view that the sender has on its disk.
        newest: ViewRef,
        /// The sender's priority as a leader; 0 while it would not stand.
        priority: u8,
    },
    /// A release: "I lead no more, and all that I led has ended: you are free of your promise."
    Release {
        /// The sender's term.
        term: Term,
        /// The voter that is to stand first.
        successor: Identity,
    },
    /// "A generation has begun": the first one, by its founder, or another one, by an operator. Sent to the voters of that
    /// generation and, of an operator's, to senders of an earlier electorate.
    Generation {
        /// The electorate of the generation: its voters, and the term at which it began.
        electorate: Electorate,
        /// The number of its founding view.
        number: u64,
    },
    /// "I am above the term of this renewal, and cannot acknowledge it." Sent to a leader, which goes on above that
    /// term.
    Behind {
        /// The sender's term.
        term: Term,
    },
    /// A farewell: "I leave, and acknowledge nothing any more: can you do without my promise?"
    Farewell {
        /// The sender's term.
        term: Term,
        /// The sequence number of the renewal that the sender acknowledged last.
        sequence: u64,
    },
    /// The answer to a farewell: "Your promise is not needed: you are free of it."
    Freed {
        /// The sender's term.
        term: Term,
        /// The sequence number of the farewell, echoed: a voter that has acknowledged another renewal since is not
        /// meant.
        sequence: u64,
    },
}

impl Body {
    /// Returns the newest view of a leader or candidate that speaks as one.
    pub(super) fn newest(&self) -> Option<ViewRef> {
        match self {
            Body::Renew(renewal) => Some(renewal.newest),
            Body::Query { newest, .. } | Body::PreVote { newest, .. } | Body::Vote { newest, .. } => Some(*newest),
            _ => None,
        }
    }
}

/// The contents of [`Body::Roster`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Roster {
    /// The hash of the names configured as voters.
    pub names: u64,
    /// The identity that the sender holds under the receiver's name, if any.
    pub holds: Option<Identity>,
    /// True if an answer is wanted.
    pub asks: bool,
    /// The electorate that the sender knows of, if any: where there is one, no other is formed.
    pub founded: Option<ElectorateReport>,
    /// The newest view that the sender accepted, if it votes: a node that is named in it, and has accepted none, asks
    /// for it.
    pub newest: Option<ViewRef>,
}

/// A report of an electorate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ElectorateReport {
    /// The electorate.
    pub descent: Descent,
    /// True if the sender is sure of it, false if it was told by one member only. A report that is not sure is passed
    /// on once, and makes nobody sure.
    pub is_sure: bool,
}

/// The contents of [`Body::Renew`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Renewal {
    /// The leader's term.
    pub term: Term,
    /// The number of the renewal within its term; the claim lasts from when the acknowledged renewal was sent.
    pub sequence: u64,
    /// The length of the promise that an acknowledgement makes, in milliseconds from its receipt.
    pub lease_ms: u64,
    /// The claim as it stands, if it has begun.
    pub claim: Option<Claim>,
    /// The view that the leader proposes to the voters, or that is agreed.
    pub newest: ViewRef,
    /// The difference from a view that the receiver may hold, if it is short enough.
    pub delta: Option<Delta>,
    /// The newest view that was agreed in this term.
    pub agreed: Option<ViewRef>,
}

/// A leader's claim as others hear of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Claim {
    /// The sequence number of the renewal that a majority acknowledged last.
    pub sequence: u64,
    /// The time since that renewal was sent, in milliseconds.
    pub age_ms: u64,
}
