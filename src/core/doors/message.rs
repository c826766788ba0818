//! A message for this node's programs, and one that another agent brings by a call.

use std::time::Duration;

use crate::core::envelope::{MessageId, Payload, Topic};
use crate::core::member::NodeId;

/// A message that reached this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Its identity.
    pub id: MessageId,
    /// The member that sent it, perhaps this node. Of a broadcast this is what those say who relayed it.
    pub from: NodeId,
    /// What it is about.
    pub topic: Topic,
    /// What it says.
    pub payload: Payload,
    /// To whom it was said.
    pub kind: DeliveryKind,
}

/// To whom a message was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryKind {
    /// To everybody.
    Broadcast,
    /// To this node alone.
    Sent,
    /// To this node, whose answer is awaited: to be given by [`Command::Answer`](super::Command::Answer).
    Request {
        /// For how long from now.
        within: Duration,
    },
}

/// A broadcast that another agent brings by a call of its own, for [`Command::Deliver`](super::Command::Deliver).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Direct {
    /// The identity of the broadcast.
    pub id: MessageId,
    /// The name of the node that said it; `None` if the caller does not tell.
    pub from: Option<NodeId>,
    /// The time since it was said.
    pub age: Duration,
    /// What it is about.
    pub topic: Topic,
    /// What it says.
    pub payload: Payload,
}
