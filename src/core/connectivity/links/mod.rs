//! Links: one TCP connection between each two nodes that observe each other.
//!
//! A link carries the same packets as the socket, as frames, and above all it makes a crash visible at once: the kernel
//! of a dead process closes it (what follows is in `crash`). It is silent while nothing happens, and optional: where
//! TCP is blocked, everything but that signal still works.
//!
//! ```text
//!             settle                    connected           greeted
//!   Idle ──────────────▶ Opening ──────────────▶ Greeting ──────────▶ Open ──lost──▶ Opening at once, then `crash`
//!     ▲                     │ failed                │ closed             │ Unlink
//!     └──────back-off───────┴───────────────────────┴────────────────────┘
//! ```
//!
//! Invariants:
//! - At most one link per member is in use. Of two that cross, the one opened by the smaller address stays; of two
//!   opened by the other end, the newer.
//! - Whoever ends a link on purpose says so before ([`Message::Unlink`]), so that the other end suspects nothing.
//! - The node with the smaller address opens; the other one only if nothing came. Between a newcomer and its neighbours
//!   all is done at once, so that a crash right after joining breaks or refuses a link.
//! - Every state but Open and an idle one without a plan has a timer.
//! - A link is a member's if this node opened it to the address in the member's record and was greeted by its run, or
//!   if the member opened it and proved that it is there (see `guests`); and only as long as the record says that
//!   address.
//! - No link outlives the addresses that it stands for: whoever changes its own ends all its links, whoever learns of
//!   another's ends that link, and both plan the next one as for a newcomer. Nobody waits for the old one to break.
//!
//! | idea | file |
//! |---|---|
//! | all links and their states | `table` |
//! | links that are wanted: when one is opened, and when the next attempt is made | `plan` |
//! | links that stand, and how they end | `established` |
//! | frames in: events of a link and what is said over it | `frames` |
//! | packets out by a link | `send` |
//! | whether anybody listens at a joiner's address | `visits` |
//!
//! Must not know: what a broken link means.
//!
//! [`Message::Unlink`]: crate::core::wire::Message::Unlink

mod established;
mod frames;
mod plan;
mod send;
mod table;
mod visits;

pub(in crate::core) use table::Links;
