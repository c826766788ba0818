//! What messages between programs look like on the wire.

use serde::{Deserialize, Serialize};

use crate::core::envelope::{MessageId, Payload, Topic};
use crate::core::limits::MAX_SPANS;
use crate::core::member::Run;

/// See [`Message::Broadcast`](super::Message::Broadcast).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broadcast {
    /// The process that said it first. Who relays it says so.
    pub run: Run,
    /// Counts that process's broadcasts from 1.
    pub number: u64,
    /// How long ago it was said.
    pub age_ms: u64,
    /// What it is about.
    pub topic: Topic,
    /// What it says.
    pub payload: Payload,
}

/// Some broadcasts of one origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The origin.
    pub run: Run,
    /// The first of their numbers.
    pub first: u64,
    /// The last one, inclusive. There may be gaps between.
    pub last: u64,
}

/// See [`Message::Letter`](super::Message::Letter).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Letter {
    /// Counts the sender's letters from 1, to whomever they go.
    pub number: u64,
    /// What it is for.
    pub purpose: Purpose,
    /// What it says.
    pub payload: Payload,
}

/// The purpose of a letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// To tell something.
    Tell {
        /// What it is about.
        topic: Topic,
    },
    /// To ask something.
    Ask {
        /// What it is about.
        topic: Topic,
        /// For how long the answer is awaited.
        within_ms: u32,
    },
    /// To answer.
    Answer {
        /// The number of the letter that asked.
        to: u64,
    },
}

impl Broadcast {
    pub(super) fn is_well_formed(&self) -> bool {
        is_number(self.number) && !self.run.is_nobody()
    }
}

impl Letter {
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
