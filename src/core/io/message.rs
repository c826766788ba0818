//! A message for this node's programs, and one that another agent brings by a call.

use std::time::Duration;

use crate::envelope::{MessageId, Payload, Topic};
use crate::member::NodeId;

/// A message that reached this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The id of the message.
    pub id: MessageId,
    /// The member that sent it, perhaps this node. For a broadcast this is the origin as reported by the member that
    /// relayed it.
    pub from: NodeId,
    /// The topic.
    pub topic: Topic,
    /// The payload.
    pub payload: Payload,
    /// The kind of message.
    pub kind: DeliveryKind,
}

/// The kind of message, by its receivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeliveryKind {
    /// A message to all members.
    Broadcast,
    /// A message to this node alone.
    Sent,
    /// A request to this node; its answer is given by [`Command::Answer`](super::Command::Answer).
    Request {
        /// The time from now within which the answer is awaited.
        within: Duration,
    },
}

impl DeliveryKind {
    /// Returns the kind's name in the JSON contract.
    pub const fn name(self) -> &'static str {
        match self {
            DeliveryKind::Broadcast => "broadcast",
            DeliveryKind::Sent => "send",
            DeliveryKind::Request { .. } => "request",
        }
    }
}

/// A broadcast that another agent brings by a call of its own, for [`Command::Deliver`](super::Command::Deliver).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutOfBandBroadcast {
    /// The identity of the broadcast.
    pub id: MessageId,
    /// The name of the node that said it.
    pub from: NodeId,
    /// The time since it was said.
    pub age: Duration,
    /// The topic.
    pub topic: Topic,
    /// The contents.
    pub payload: Payload,
}
