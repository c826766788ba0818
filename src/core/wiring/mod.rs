//! Wiring: what happens between machines. Nothing else extends [`Core`](crate::Core).
//!
//! | what | file |
//! |---|---|
//! | the outside: inputs, deadlines and commands, each to the machine that takes it; questions | `inputs` |
//! | a packet: whose it is, whether it counts; what goes back | `receiving` |
//! | its messages: who may say what, and who takes it | `dispatching` |
//! | a change of the table of members, and everything that follows | `merging` |
//! | silence, signs of life, broken links; the members that are observed | `judging` |
//! | this node's own record: refuting, moving, leaving, removing others | `myself` |
//! | coming in and letting others in; introductions; the lost | `entering` |
//! | connections, and the ways around what does not pass | `linking` |
//! | gossip, broadcasts and direct messages, news about leases | `spreading` |
//! | leaders | `leading` |
//!
//! Invariant: a change of the table is made and settled in `merging`, at once and in one order.

mod dispatching;
mod entering;
mod inputs;
mod judging;
mod leading;
mod linking;
pub(crate) mod merging;
mod myself;
mod receiving;
mod spreading;

pub use inputs::{Observation, Sizes};
