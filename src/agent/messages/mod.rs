//! Messages between programs, as the handle offers them: say something to all members or to one, ask, listen, answer.
//!
//! ```text
//! driver ──Delivery──▶ mailroom ──▶ Inbox (raw) ──▶ Messages<T> (decoded)
//! handle ──Say──▶ driver ──▶ core
//! ```
//!
//! Invariants:
//! - A listener that is too slow loses the oldest messages that wait for it, is told how many, and slows nobody.
//! - Messages have no numbers in the stream of events and are not replayed.
//!
//! Must not know: how messages travel (that is the core's).

mod handle;
mod inbox;
mod mailroom;

pub use handle::{Broadcasted, MessageError};
pub use inbox::{Inbox, Message, Messages, ReceiveError, Received};
pub(super) use mailroom::Mailroom;
pub use mailroom::{MAX_WAITING_BYTES, MAX_WAITING_MESSAGES};
