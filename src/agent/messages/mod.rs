//! Messages between programs, as the handle offers them: say something to all members or to one, ask, listen, answer.
//!
//! ```text
//! driver ──Delivery──▶ listeners ──▶ Inbox (raw) ──▶ Messages<T> (decoded)
//! handle ──Say──▶ driver ──▶ core
//! driver ──own broadcasts──▶ outbox ──▶ whoever calls nodes that the view lacks
//! ```
//!
//! Invariants:
//! - A listener that is too slow loses the oldest messages that wait for it, is told how many, and slows nobody.
//! - What a typed listener cannot read is skipped, counted and logged: nobody ends a loop by what it sends.
//! - Messages have no numbers in the stream of events and are not replayed.
//!
//! Must not know: how messages travel (that is the core's).
//!
//! | idea | file |
//! |---|---|
//! | the methods of the handle | `handle` |
//! | a listener's end; one message there | `inbox`, `message` |
//! | a queue for each listener | `listeners` |
//! | requests answered by a handler | `serve` |
//! | this node's own broadcasts | `outbox` |

mod handle;
mod inbox;
mod listeners;
mod message;
#[cfg(feature = "agent")]
mod outbox;
mod serve;

pub use handle::{Broadcasted, MessageError};
pub use inbox::{Inbox, Messages, Received};
pub(super) use listeners::Listeners;
pub use listeners::{MAX_ALL_WAITING_BYTES, MAX_WAITING_BYTES, MAX_WAITING_MESSAGES};
pub use message::{Message, ReceiveError};
#[cfg(feature = "agent")]
pub use outbox::DirectFigures;
#[cfg(all(test, feature = "agent"))]
pub(crate) use outbox::test_said;
#[cfg(feature = "agent")]
pub(crate) use outbox::{FULL_PAUSE, LEAST_WEIGHT, MAX_SAID_BYTES, Outbox, Said};
pub use serve::{MAX_SERVED, Serving};
