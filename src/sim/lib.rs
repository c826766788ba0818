//! The simulator: many cores, one virtual network, one virtual time.
//!
//! It drives the same core and the same bytes that an agent runs, thousands of times faster than real time, through
//! latency, loss, cuts, crashes, pauses and bad clocks. One seed is one run, bit for bit; the hash of its trace proves
//! it.
//!
//! - [`World`]: nodes with clocks and disks, and one queue of events; [`network`] decides the fate of each datagram.
//! - [`watch`]: hooks, by which somebody who watches a world is told of all that happens in it.
//! - [`intercept`]: somebody between the cores and the world, who changes what they do.
//! - [`scenario`], [`report`], [`page`]: simulations for users who choose their settings.
//! - [`tune`]: settings for a goal, from a model that the simulator verifies.
//! - [`lease`]: a model of a lease database, with all that can go wrong in one.
//!
//! | idea | file |
//! |---|---|
//! | the world: nodes, processes, clocks, disks; one node; a node's contender and its inputs | `world`, `node`, `happening` |
//! | future events in order; the source of chance | `queue`, `random` |
//! | the virtual network: datagrams, TCP | `network`, `streams` |
//! | one copy of each record for all | `pool` |
//! | the trace that is the same on every run | `trace` |
//! | what is simulated | `plan` |

mod happening;
pub mod intercept;
pub mod network;
mod node;
pub mod page;
mod plan;
mod pool;
mod queue;
mod random;
pub mod report;
pub mod scenario;
mod streams;
mod trace;
pub mod tune;
pub mod watch;
mod world;

#[doc(inline)]
pub use headcount_contender::database as lease;
pub use node::{Clock, address_of, node_at};
pub use random::{Purpose, Random, nanos};
pub use streams::Tcp;
pub use trace::Trace;
pub use world::{
    DiskImage, ElectionSighting, LeaderNews, LeaseOptions, Memory, Misdirection, PartitionSighting, SealCounts,
    SecondCluster, Sighting, WayFault, World, WorldOptions, elsewhere, in_short, key_of, unsealed,
};
