//! Observers: who observes whom.
//!
//! | idea | file |
//! |---|---|
//! | this node's place in the graph, and its neighbours | `graph` |
//! | rings of names | `rings` |
//! | neighbours that others displaced; newborns and their sponsors | `retained`, `newborns` |
//! | walking past doubted members, and one way of such a walk | `walk`, `path` |
//!
//! Invariants: the rings are made of the names of live members alone, so that two nodes with the same view compute the same
//! ones, and each can say who observes another; they are symmetric. What `retained`, `newborns` and `walk` add
//! rests on what this node saw itself, and may differ between nodes.
//!
//! Owns: the neighbours, and the sets of members that the graph is made of.
//!
//! Must not know: how silence is judged, or what a verdict does. (It has `detection` watch and probe, and reads which probes
//! were in vain.)

mod graph;
mod newborns;
mod path;
mod retained;
mod rings;
mod walk;

pub(in crate::core) use graph::Observers;
