//! Observers: who observes whom.
//!
//! | idea | file |
//! |---|---|
//! | this node's place in the graph, and its neighbours | `graph` |
//! | rings of names | `rings` |
//! | who is observed besides for a while: displaced neighbours, recent members and their sponsors | `extra` |
//! | walking past unresponsive members | `walk` |
//!
//! Invariants: the rings are made of the names of live members alone, so that two nodes with the same view compute the same
//! ones, and each can say who observes another; they are symmetric. What `extra` and `walk` add
//! rests on what this node saw itself, and may differ between nodes.
//!
//! Owns: the neighbours, and the sets of members that the graph is made of.
//!
//! A machine: it is lent the view and the time, told who is unresponsive, and says who is observed from now on; the core has the
//! detector watch and probe them (see `wiring::judging`).
//!
//! Must not know: how silence is judged, or what a verdict does.

mod extra;
mod graph;
mod rings;
#[cfg(test)]
mod tests;
mod walk;

pub(crate) use graph::{Observers, Shift};
pub(crate) use walk::Walked;
