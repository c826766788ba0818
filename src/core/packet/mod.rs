//! Packets: what each one carries, whose it is, what goes back, and who may be answered how much.
//!
//! ```text
//! bytes ─▶ `receive` ─▶ `senders` (whose is it?) ─▶ `inbox` (read once) ─▶ `dispatch` ─▶ the machine that the message is for
//!                                                                               └─▶ `answer` ─▶ `outbox` ─▶ Output::Transmit
//! ```
//!
//! | idea | file |
//! |---|---|
//! | **the outbox**: what it takes to compose packets and to send them, as it is lent; the ways that they take | `outbox`, `way` |
//! | a packet's sender: a member, or a stranger that perhaps claims to be one, or has proven an address | `senders` |
//! | the messages of the packet at hand | `inbox` |
//! | what goes back to its sender, as it is gathered; answers to strangers | `answer` |
//! | nonces and cookies: keyed hashes by which an address is proven | `proof` |
//! | limits on answers to strangers, of an address and of all, and on packets of records | `rates` |
//!
//! Owns: sequence numbers of sent packets, the key of nonces and cookies, the limits on answers to strangers and on packets of
//! records.
//!
//! Must not know: the effect of a message, or why one is sent.
#![doc = include_str!("exchanges.md")]

mod answer;
mod inbox;
mod outbox;
mod proof;
mod rates;
mod senders;
mod way;

pub(crate) use answer::{Answer, Beside, answer_proven, answer_unbound, reject};
pub(crate) use inbox::{Inbox, News, Received};
pub(crate) use outbox::{Outbox, Packets, SealRoom};
pub(crate) use proof::Prover;
pub(crate) use rates::Turn;
pub(crate) use senders::{Introduction, Newcomer, Sender, SenderKind, brings_proof, sender_kind};
pub(crate) use way::Way;
