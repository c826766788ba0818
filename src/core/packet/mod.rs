//! Packets in and packets out: the core's edge.
//!
//! ```text
//! bytes ─▶ receive ─▶ standing (whose is it?) ─▶ inbox (parsed once, shared) ─▶ the room that the message is for
//!                                                             the room ─▶ send ─▶ Output::Transmit
//! ```
//!
//! | idea | file |
//! |---|---|
//! | one packet: judged, read, acted on | `receive` |
//! | its messages, handed to the rooms | `dispatch` |
//! | what goes back to its sender | `answer` |
//! | a member's packet, or a stranger's that perhaps claims to be one | `standing` |
//! | the messages of the packet at hand | `inbox` |
//! | what stands in every packet to a member, and how large it may be | `send` |
//! | addresses that proved to be their owner's | `proof` |
//! | what proves that a member is elsewhere by now | `keepsakes` |
//! | how often strangers are answered | `rates` |
//!
//! Owns: sequence numbers out, aliases, cookies, the limits of questions.
//!
//! Must not know: what a message changes. It hands each one on to the room whose idea it is.

mod answer;
mod dispatch;
mod inbox;
mod keepsakes;
mod proof;
mod rates;
mod receive;
mod send;
mod standing;
mod stranger;
mod way;

pub(in crate::core) use inbox::{Inbox, News, Versions};
pub(in crate::core) use keepsakes::Keepsakes;
pub(in crate::core) use proof::Prover;
pub(in crate::core) use rates::{Expected, NoticeRate, Questions, Turns};
pub(in crate::core) use receive::Sender;
pub(in crate::core) use standing::{Standing, Standings};
pub(in crate::core) use stranger::{Introduction, Newcomer};
pub(in crate::core) use way::Way;
