//! Packets: what each one carries, whose it is, and who may be answered how much.
//!
//! | idea | file |
//! |---|---|
//! | **the outbox**: what it takes to compose packets and to send them, as it is lent | `outbox` |
//! | a sender's kind: a member, or a stranger that perhaps claims to be one | `senders`; one packet's: `sender`, `way` |
//! | strangers that proved an address | `introduced` |
//! | the messages of the packet at hand | `inbox` |
//! | nonces and cookies: keyed hashes by which an address is proven | `proof` |
//! | limits on answers to strangers: of an address, and of all; on packets of records | `rates`, `pages` |
//!
//! Owns: sequence numbers of sent packets, the key of nonces and cookies, the limits on answers to strangers and on packets of
//! records.
//!
//! Must not know: the effect of a message, or why one is sent.

mod inbox;
mod introduced;
mod outbox;
mod pages;
mod proof;
mod rates;
mod sender;
mod senders;
mod way;

pub(crate) use inbox::{Inbox, News, Received};
pub(crate) use introduced::{Introduction, Newcomer};
pub(crate) use outbox::{Outbox, Packets, SealRoom};
pub(crate) use proof::Prover;
pub(crate) use rates::Turn;
pub(crate) use sender::{Sender, SenderKind};
pub(crate) use senders::{brings_proof, sender_kind};
pub(crate) use way::Way;
