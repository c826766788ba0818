//! Packets: the edge of the core, where bytes come in and go out.
//!
//! ```text
//! bytes ─▶ receive ─▶ standing (the sender?) ─▶ inbox (parsed once, shared) ─▶ the room that the message is for
//!                                                             the room ─▶ send ─▶ Output::Transmit
//! ```
//!
//! | idea | file |
//! |---|---|
//! | one packet: judged, read, acted on | `receive` |
//! | its messages, handed to the rooms | `dispatch` |
//! | what goes back to its sender | `answer` |
//! | a sender's kind: a member, or a stranger that perhaps claims to be one | `senders` |
//! | the messages of the packet at hand | `inbox` |
//! | the contents of every packet to a member, and its greatest size | `send` |
//! | addresses that proved to be their owner's | `proof` |
//! | the proof that a member is at another address by now | `keepsakes` |
//! | limits on answers to strangers | `rates` |
//!
//! Owns: sequence numbers of sent packets, aliases, cookies, the limits of questions.
//!
//! Must not know: the effect of a message. It passes each one on to the room whose idea it is.

mod answer;
mod dispatch;
mod inbox;
mod keepsakes;
mod proof;
mod rates;
mod receive;
mod send;
mod senders;
mod stranger;
mod way;

pub(in crate::core) use inbox::{Inbox, News, Versions};
pub(in crate::core) use keepsakes::Keepsakes;
pub(in crate::core) use proof::Prover;
pub(in crate::core) use rates::{ContactedAddresses, NoticeRate, PerKeyRate, Questions};
pub(in crate::core) use receive::Sender;
pub(in crate::core) use senders::{MoveStep, SenderKind, Senders};
pub(in crate::core) use stranger::{Introduction, Newcomer};
pub(in crate::core) use way::Way;
