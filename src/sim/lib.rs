//! The simulator: many cores, one virtual network, one virtual time.
//!
//! It drives the same core and the same bytes that an agent runs, thousands of times faster than real time, through
//! latency, loss, cuts, crashes, pauses and bad clocks. One seed is one run, bit for bit; the hash of its trace proves
//! it.
//!
//! - [`World`]: nodes with clocks and disks, and one queue of events; [`network`] decides the fate of each datagram.
//! - [`faults`]: faults as printable operations, and a seeded generator of schedules.
//! - [`invariants`]: the promises of the protocol, checked after every step.
//! - [`campaign`]: one seed from start to verdict.
//! - [`scenario`], [`report`], [`page`]: simulations for users who choose their settings.
//! - [`tune`]: settings for a goal, from a model that the simulator verifies.
//! - [`lease`]: a model of a lease database, with all that can go wrong in one.
//! - [`tamper`]: planted bugs, to see that the checks catch them.
//!
//! | idea | file |
//! |---|---|
//! | the world: nodes, processes, clocks, disks; one node; a node's contender and its inputs | `world`, `node`, `happening` |
//! | future events in order; the source of chance | `queue`, `random` |
//! | the virtual network: datagrams, TCP | `network`, `streams` |
//! | faults; what was promised when one came | `faults`, `upheaval` |
//! | one copy of each record for all | `pool` |
//! | the trace that is the same on every run | `trace` |
//! | what is simulated | `plan` |

pub mod campaign;
pub mod faults;
mod happening;
pub mod invariants;
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
pub mod tamper;
mod trace;
pub mod tune;
mod upheaval;
mod world;

#[doc(inline)]
pub use headcount_contender::database as lease;
pub use node::{address_of, node_at};
pub use random::{Purpose, Random};
pub use streams::Tcp;
pub use trace::Trace;
pub use world::{
    DiskImage, ElectionSighting, Judged, LeaderNews, LeaseOptions, Memory, Misdirection, PartitionSighting, SealCounts,
    SealFlaw, Sighting, WayFault, World, WorldOptions, key_of,
};
