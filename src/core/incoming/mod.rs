//! Packets in: what is gathered of one while it is judged, read, handed on and answered, and why every exchange ends.
//!
//! ```text
//! bytes ─▶ receiving ─▶ packet::senders (whose is it?) ─▶ packet::inbox (read once) ─▶ dispatching ─▶ the machine that
//!                                                                    the message is for ─▶ answering ─▶ Output::Transmit
//! ```
//!
//! | idea | file |
//! |---|---|
//! | what goes back to its sender, as it is gathered | `answer` |
//!
//! Owns: nothing that outlives a packet.
//!
//! Must not know: the effect of a message.
#![doc = include_str!("exchanges.md")]

mod answer;

pub(crate) use answer::{Answer, Beside};
