//! A message of a program as a listener gets it, and the reasons why there is none.

use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;

use crate::core::{Delivery, DeliveryKind, MessageId, NodeId, Payload, Topic};

/// A message of another program, or of this node's own.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// The id of the message: the same at every node that gets it, and given to each listener once.
    pub id: MessageId,
    /// The time at which the message came here.
    pub at: SystemTime,
    /// The member that sent the message, perhaps this node. Of a broadcast, this is the word of the members that relayed it.
    pub from: NodeId,
    /// The topic.
    pub topic: Topic,
    /// The payload.
    pub payload: Payload,
    /// The kind of the message: a broadcast, or one to this node alone, perhaps with a wish for an answer.
    pub kind: DeliveryKind,
}

impl Message {
    pub(super) fn new(delivery: Delivery, at: SystemTime) -> Self {
        let Delivery { id, from, topic, payload, kind } = delivery;
        Self { id, at, from, topic, payload, kind }
    }

    /// Returns true if it is a request: to be answered by [`Agent::reply`](crate::Agent::reply).
    pub const fn is_request(&self) -> bool {
        matches!(self.kind, DeliveryKind::Request { .. })
    }

    /// Returns the time, from its arrival on, for which the sender awaits an answer; `None` if this is no request.
    pub const fn reply_within(&self) -> Option<Duration> {
        match self.kind {
            DeliveryKind::Request { within } => Some(within),
            _ => None,
        }
    }

    /// Reads the payload as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ReceiveError> {
        serde_json::from_slice(&self.payload).map_err(|error| ReceiveError::Undecodable {
            id: self.id,
            from: self.from.clone(),
            reason: error.to_string(),
        })
    }
}

/// The reason why no message was received.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// This listener was too slow, and missed messages. The next call gives the oldest message that still waits.
    #[error("messages were missed ({missed}): read faster")]
    Lagged {
        /// The number of messages, of the topics listened to.
        missed: u64,
    },
    /// A payload is not what [`Message::json`] is to read it as.
    #[error("message {id} from {from:?} is not of the type that is listened for: {reason}")]
    Undecodable {
        /// The message.
        id: MessageId,
        /// The member that sent it.
        from: NodeId,
        /// The reason why the payload cannot be read.
        reason: String,
    },
    /// The agent has stopped, and everything was read.
    #[error("the agent has stopped")]
    Closed,
}
