//! Packets in: what is gathered of one while it is judged, read, handed on and answered, and why every exchange ends.
//!
//! ```text
//! bytes ─▶ `receive` ─▶ packet::senders (whose is it?) ─▶ packet::inbox (read once) ─▶ `dispatch` ─▶ the machine that
//!                                                              the message is for ─▶ `answer_member` ─▶ Output::Transmit
//! ```
//!
//! | idea | file |
//! |---|---|
//! | what goes back to its sender, as it is gathered | `answer` |
//! | answers to strangers | `replies` |
//!
//! Owns: nothing that outlives a packet.
//!
//! Must not know: the effect of a message.
#![doc = include_str!("exchanges.md")]

mod answer;
mod replies;

pub(crate) use answer::{Answer, Beside};
pub(crate) use replies::{answer_proven, answer_unbound, reject};
