//! The simulator: many cores, one virtual network, one virtual time.
//!
//! It drives the very core and the very bytes that an agent runs, thousands of times faster than life, through latency,
//! loss, cuts, crashes, pauses and bad clocks. One seed is one run, bit for bit; the hash of its trace proves it.
//!
//! - [`World`]: nodes with clocks and disks, and one queue of events; [`network`] decides what becomes of a datagram.
//! - [`faults`]: what can go wrong, printable, and a seeded generator of schedules.
//! - [`invariants`]: the promises of the protocol, checked after every step.
//! - [`adversary`]: somebody who is no member and means harm.
//! - [`campaign`]: one seed from start to verdict.
//! - [`scenario`], [`report`], [`page`]: the same for users who choose their settings.
//! - [`tune`]: settings for a goal, by a model that the simulator verifies.
//! - [`lease`]: a database of leases, modelled, with all that can go wrong with one.
//! - [`tamper`]: planted bugs, to see that the checks catch them.

pub mod adversary;
pub mod campaign;
pub mod faults;
pub mod invariants;
pub mod lease;
pub mod network;
mod node;
pub mod page;
mod pool;
mod queue;
mod random;
pub mod report;
pub mod scenario;
mod streams;
pub mod tamper;
mod trace;
pub mod tune;
mod world;

pub use node::{address_of, node_at};
pub use random::{Purpose, Random};
pub use streams::Tcp;
pub use trace::Trace;
pub use world::{
    ElectionSighting, Judged, LeaderNews, LeaseOptions, PartitionSighting, Sighting, WayFault, World, WorldOptions,
};
