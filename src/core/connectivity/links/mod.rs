//! Links: one TCP connection between each two nodes that observe each other.
//!
//! A link carries the same packets as the socket, as frames, and above all it makes a crash visible at once: the kernel
//! of a dead process closes it (what follows is in `detection::crash`). Nothing is said over it while nothing
//! happens, and it is optional: where TCP is blocked, everything but that signal still works.
//!
//! What happens to a link is decided by a machine of its own ([`Links`]): input are events of connections, deadlines and
//! what the other machines wish, each with what has to be known of the member at that moment; output are actions, which
//! `wiring::linking` carries out in order. The machine's page shows its states; its tests need no core.
//!
//! Owns: the links to members, by number; which of two stays; when the next one is tried. Nobody else writes any of it.
//!
//! Invariants:
//! - Whoever ends a link on purpose says so before ([`Message::Unlink`]), so that the other end suspects nothing.
//! - The node with the smaller address opens; the other one only if nothing came. Between a newcomer and its neighbours
//!   all is done at once, so that a crash right after joining breaks or refuses a link.
//! - A link is a member's if this node opened it to the address in the member's record and was greeted by its run, or
//!   if the member opened it and was proven to be at that address meanwhile (see `unproven`); and only as long as the
//!   record says that address.
//! - No link outlives the addresses that it stands for: whoever changes its own ends all its links, whoever learns of
//!   another's ends that link, and both plan the next one as for a newcomer. Nobody waits for the old one to break.
//!
//! | idea | file |
//! |---|---|
//! | **the machine**: inputs, and which of two links stays | `machine` |
//! | actions and their pauses, and facts that come with inputs | `io` |
//! | its table: states and the numbers of links, with asserted invariants | `table` |
//!
//! Must not know: what a broken link means (see `detection`), or what is said over one.
//!
//! [`Message::Unlink`]: crate::wire::Message::Unlink

mod io;
mod machine;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use io::{Action, Failure, LinkFacts, NeighbourFacts, Parting, Wish};
pub(crate) use machine::Links;
