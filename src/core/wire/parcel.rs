//! The wire form of messages between programs.

use serde::{Deserialize, Serialize};

use crate::envelope::{MessageId, Payload, Topic};
use crate::limits::MAX_SPANS;
use crate::member::Run;

/// A message of some member's program to all, see [`Message::Broadcast`](super::Message::Broadcast).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broadcast {
    /// The run of the origin, as the sender reports it if it relays the message.
    pub run: Run,
    /// The number of the broadcast, counted by the origin from 1.
    pub number: u64,
    /// Time since the origin sent it, in milliseconds.
    pub age_ms: u64,
    /// The topic.
    pub topic: Topic,
    /// The payload.
    pub payload: Payload,
}

/// A range of broadcasts of one origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The run of the origin.
    pub run: Run,
    /// The first number.
    pub first: u64,
    /// The last number, inclusive. There may be gaps between.
    pub last: u64,
}

/// A direct message: to one node, see [`Message::Direct`](super::Message::Direct).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectMessage {
    /// The number of the message, counted by the sender from 1 over all receivers.
    pub number: u64,
    /// The purpose of the message.
    pub purpose: Purpose,
    /// The payload.
    pub payload: Payload,
}

/// The purpose of a direct message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// A message without an answer.
    Tell {
        /// The topic.
        topic: Topic,
    },
    /// A request.
    Ask {
        /// The topic.
        topic: Topic,
        /// The time within which an answer is awaited, in milliseconds.
        within_ms: u32,
    },
    /// The answer to a request.
    Answer {
        /// The number of the request.
        to: u64,
    },
}

impl Broadcast {
    pub(super) fn is_well_formed(&self) -> bool {
        is_number(self.number) && !self.run.is_nobody()
    }
}

impl DirectMessage {
    pub(super) fn is_well_formed(&self) -> bool {
        let is_answerable = match self.purpose {
            Purpose::Answer { to } => is_number(to),
            Purpose::Tell { .. } | Purpose::Ask { .. } => true,
        };
        is_number(self.number) && is_answerable
    }
}

pub(super) fn are_spans(spans: &[Span]) -> bool {
    let is_span = |span: &Span| is_number(span.first) && span.first <= span.last && is_number(span.last);
    (1..=MAX_SPANS).contains(&spans.len()) && spans.iter().all(is_span)
}

pub(super) fn is_number(number: u64) -> bool {
    (1..=MessageId::MAX_NUMBER).contains(&number)
}
