//! Envelope: what stands on a message between programs, and how large one may be.
//!
//! | idea | file |
//! |---|---|
//! | what a message is about | `topic` |
//! | which message it is | `id` |
//! | the bytes that a program sends | `payload` |
//!
//! Invariants: whatever decodes is within its bounds; nothing here is larger than [`MAX_PAYLOAD_BYTES`].
//!
//! Must not know: how messages travel (see `messages`), or what is in them.
//!
//! [`MAX_PAYLOAD_BYTES`]: crate::limits::MAX_PAYLOAD_BYTES

mod id;
mod payload;
mod topic;

pub use id::{InvalidMessageId, MessageId};
pub use payload::{Payload, TooLarge};
pub use topic::{InvalidTopic, Topic};
