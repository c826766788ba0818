//! Messages between programs, as the handle offers them: say something to all members or to one, ask, listen, answer.
//!
//! ```text
//! driver ──Delivery──▶ listeners ──▶ Inbox (raw) ──▶ Messages<T> (decoded)
//! handle ──Say──▶ driver ──▶ core
//! driver ──own broadcasts──▶ outbox ──▶ whoever calls nodes that the view lacks ──direct calls──▶ their drivers
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
//! | this node's own broadcasts; one that is brought to a node | `outbox`, `direct_call` |

mod direct_call;
mod handle;
mod inbox;
mod listeners;
mod message;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod outbox;
mod serve;

pub(super) use direct_call::{DirectAnswer, DirectCall};
pub use handle::{Broadcasted, MessageError};
pub use inbox::{Inbox, Messages, Received};
pub(super) use listeners::Listeners;
pub use listeners::{MAX_ALL_WAITING_BYTES, MAX_WAITING_BYTES, MAX_WAITING_MESSAGES};
pub use message::{Message, ReceiveError};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use outbox::DirectFigures;
#[cfg(all(test, any(feature = "sqlite", feature = "postgres")))]
pub(super) use outbox::test_said;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) use outbox::{FULL_PAUSE, LEAST_WEIGHT, MAX_SAID_BYTES, Outbox, Said};
pub use serve::{MAX_SERVED, Serving};
