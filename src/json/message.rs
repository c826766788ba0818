//! Messages between programs.
//!
//! Invariant: payloads are base64 (RFC 4648, section 4), whatever bytes they are.

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::time::{instant, millis};

/// One message, as the event stream shows it to a client that asks for the kind `message`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct Message {
    /// The message's own id, the same at every node: `run-sequence` of its sender.
    pub id: String,
    /// Time of arrival at this node.
    #[serde(with = "instant")]
    #[cfg_attr(test, schemars(with = "String", extend("format" = "date-time")))]
    pub at: SystemTime,
    /// Always `message`.
    pub event: String,
    /// The member that sent it.
    pub node: String,
    /// The topic.
    pub topic: String,
    /// The payload, in base64.
    pub payload: String,
    /// `broadcast`, `send` or `request`.
    pub kind: String,
    /// The time from `at` within which a request is to be answered, in milliseconds, with `POST /v1/reply/{id}`; `null`
    /// if the message is no request.
    pub reply_within_ms: Option<u64>,
}

impl From<&crate::agent::Message> for Message {
    fn from(message: &crate::agent::Message) -> Self {
        Self {
            id: message.id.to_string(),
            at: message.at,
            event: "message".to_owned(),
            node: message.from.to_string(),
            topic: message.topic.to_string(),
            payload: STANDARD.encode(&*message.payload),
            kind: message.kind.name().to_owned(),
            reply_within_ms: message.reply_within().map(millis),
        }
    }
}

impl Message {
    /// The payload's bytes; `None` if it is not base64.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        STANDARD.decode(&self.payload).ok()
    }
}

/// The report of messages that a listener missed because it was too slow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct Missed {
    /// The number of messages missed, of the topics listened to.
    pub missed: u64,
}

impl Missed {
    /// Returns a report of `missed` messages.
    pub const fn new(missed: u64) -> Self {
        Self { missed }
    }
}

/// The report of a message that was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct Sent {
    /// The message's id.
    pub id: String,
    /// For a broadcast: the number of members that were live, this node included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addressed: Option<usize>,
}

impl Sent {
    /// Returns the report of a message to one node, or of a broadcast to `addressed` members.
    pub fn new(id: crate::core::MessageId, addressed: Option<usize>) -> Self {
        Self { id: id.to_string(), addressed }
    }
}

/// The answer to a request, as the command line prints it with `--format json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Answered {
    /// The payload, in base64.
    pub payload: String,
}

impl Answered {
    /// Returns an answer with this payload.
    pub fn new(bytes: &[u8]) -> Self {
        Self { payload: STANDARD.encode(bytes) }
    }
}
