//! Observers: who observes whom.
//!
//! | idea | file |
//! |---|---|
//! | this node's place in the graph, and its neighbours | `graph` |
//! | rings of names | `rings` |
//! | members that were there for a while; neighbours that newcomers displaced; newborns and their sponsors | `settled`, `retained`, `newborns` |
//! | walking past doubted members, and one way of such a walk | `walk`, `path` |
//!
//! Invariants: the graph is made of the view alone, so that two nodes with the same view know each other's neighbours; it is
//! symmetric but for what is said in `graph`.
//!
//! Owns: the neighbours, and the sets of members that the graph is made of.
//!
//! Must not know: what observers see, how they ask, or what a verdict does.

mod graph;
mod newborns;
mod path;
mod retained;
mod rings;
mod settled;
mod walk;

pub(in crate::core) use graph::Observers;
