//! What messages of leadership carry: claims, numbered views and their parts, requests to the leader, news of leases.

use serde::{Deserialize, Serialize};

use crate::election::{ChangeError, Delta, Descent, Digest, Electorate, Term, ViewRef, VoterChange};
use crate::member::NodeId;
use crate::wire::Nonce;

/// A leader and its claim, see [`Message::LeaderClaim`](crate::wire::Message::LeaderClaim).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaderClaim {
    /// The electorate.
    pub descent: Descent,
    /// The leader's term.
    pub term: Term,
    /// The leader; absent if it resigned.
    pub leader: Option<NodeId>,
    /// The sequence number of the renewal that a majority of the voters acknowledged last.
    pub sequence: u64,
    /// Time since that renewal was sent, in milliseconds.
    pub age_ms: u64,
    /// The length of the leader's lease, in milliseconds.
    pub lease_ms: u64,
    /// A reference to the newest agreed view.
    pub view: ViewRef,
    /// The difference between that view and the one before it, if it is short.
    pub delta: Option<Delta>,
    /// The nonce of the [`Message::WhoLeads`](crate::wire::Message::WhoLeads) that is answered; absent in news.
    pub answers: Option<Nonce>,
}

/// A renewal of a leader that sender and receiver both know, see [`Message::LeaderRenewal`](crate::wire::Message::LeaderRenewal).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaderRenewal {
    /// The low half of the electorate's lineage.
    #[serde(with = "postcard::fixint::le")]
    pub lineage: u32,
    /// The leader's term.
    pub term: Term,
    /// The sequence number of the renewal that a majority of the voters acknowledged last.
    pub sequence: u64,
    /// Time since that renewal was sent, in milliseconds.
    pub age_ms: u64,
    /// The number of the newest agreed view.
    pub number: u64,
    /// The low half of that view's digest.
    #[serde(with = "postcard::fixint::le")]
    pub digest: u32,
}

/// A request for a numbered view, see [`Message::WantView`](crate::wire::Message::WantView).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantView {
    /// The digest of the view.
    pub digest: Digest,
    /// The name after which the names begin; all names if absent.
    pub after: Option<NodeId>,
}

/// A part of a numbered view, see [`Message::ViewPart`](crate::wire::Message::ViewPart).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewPart {
    /// The digest of the view that this is a part of.
    pub digest: Digest,
    /// The name after which the names of this part begin; from the first if absent.
    pub after: Option<NodeId>,
    /// Names, sorted.
    pub members: Vec<NodeId>,
    /// True if more parts follow.
    pub more: bool,
    /// The electorate; in the first part.
    pub electorate: Option<Electorate>,
    /// The change of the electorate, if the view makes one; in the first part.
    pub change: Option<VoterChange>,
}

/// A request to the leader, see [`Message::ChangeVoters`](crate::wire::Message::ChangeVoters).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeVoters {
    /// The nonce of the request: the same in every repetition, and different in every other request.
    pub nonce: Nonce,
    /// The change requested.
    pub request: VoterRequest,
}

/// A change of the electorate, or of the leader, that is requested of the leader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum VoterRequest {
    /// Add this voter.
    Add(NodeId),
    /// Remove this voter.
    Remove(NodeId),
    /// The leader of this term is to give leadership up.
    Resign {
        /// The term: a leader of a later one is not meant.
        term: Term,
        /// The voter to hand over to; any if absent.
        to: Option<NodeId>,
    },
    /// One node is to vote in the place of another.
    Replace {
        /// The voter to be removed.
        old: NodeId,
        /// The node that is to vote.
        new: NodeId,
    },
}

/// The leader's answer to a request, see [`Message::VotersChanged`](crate::wire::Message::VotersChanged).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VotersChanged {
    /// The nonce of the request that is answered.
    pub nonce: Nonce,
    /// The new electorate, or the reason why it was not changed.
    pub result: Result<Electorate, ChangeError>,
}

/// News about a lease in a database, see [`Message::LeaseUpdate`](crate::wire::Message::LeaseUpdate). Kinds that a
/// build does not know are passed on all the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseUpdate {
    /// The lease's name.
    pub lease: NodeId,
    /// The node that the news is of: it leads, has given the lease up, or asks for that.
    pub node: NodeId,
    /// The term that the news is about.
    pub term: u64,
    /// The kind: one of the constants below.
    pub kind: u8,
    /// A number that makes otherwise equal messages different; else 0.
    pub nonce: u64,
}

impl LeaseUpdate {
    /// A leader has taken the lease in this term, or has renewed it.
    pub const LED: u8 = 0;
    /// The leader of this term has given the lease up: it is free.
    pub const RELEASED: u8 = 1;
    /// The leader of this term is asked to give the lease up.
    pub const RESIGN: u8 = 2;
    /// This term has been led, though the sender's database has a lower one: terms go on above it.
    pub const KNOWN: u8 = 3;
    /// This term has been led: told by a sponsor to a newcomer, and not passed on.
    pub const TAUGHT: u8 = 4;
    /// The receiver, which asked the leader of this term to give the lease up, is not believed by the sender. The nonce
    /// is that of the request. Not passed on.
    pub const DECLINED: u8 = 5;

    /// Returns true if it says that its term has been led.
    pub const fn is_about_terms(&self) -> bool {
        matches!(self.kind, Self::LED | Self::RELEASED | Self::KNOWN | Self::TAUGHT)
    }

    /// Returns true if it is for all members, and passed on.
    pub const fn is_for_all(&self) -> bool {
        !matches!(self.kind, Self::TAUGHT | Self::DECLINED)
    }
}
