//! Wiring: what happens between machines. Nothing else extends [`Core`](crate::Core).
//!
//! | what | file |
//! |---|---|
//! | the way in: inputs, timers and commands, each to the machine that takes it | `inputs` |
//! | a packet: whose it is, whether it counts; its messages; what goes back | `receiving`, `dispatching`, `answering` |
//! | a change of the table of members, and everything that follows | `merging`, `settling` |
//! | this node's own record: refuting, moving, leaving, removing others | `myself` |
//! | coming in and letting others in; introductions; the lost | `entering` |
//! | neighbours, silence, broken links | `observing`, `judging`, `crashing` |
//! | connections, and bootstrap links | `linking`, `bootstrapping` |
//! | gossip, broadcasts and direct messages, news about leases | `spreading`, `messaging` |
//! | leaders | `leading` |
//! | the looks that drivers take; how much is kept | `look`, `sizes` |
//!
//! Invariant: a change of the table is made in `merging` and settled in `settling`, at once and in one order.

mod answering;
mod bootstrapping;
mod crashing;
mod dispatching;
mod entering;
mod inputs;
mod judging;
mod leading;
mod linking;
mod look;
mod merging;
mod messaging;
mod myself;
mod observing;
mod receiving;
pub(crate) mod settling;
mod sizes;
mod spreading;

pub use sizes::Sizes;
