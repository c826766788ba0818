//! Real agents that are led by a lease: on one SQLite file, and on PostgreSQL where its programs are installed.
//!
//! PostgreSQL: a private server, started here and ended with this process, or the one at `HEADCOUNT_TEST_POSTGRES`.
#![cfg(feature = "agent")]
#![allow(unreachable_pub, dead_code, reason = "modules of one test binary, some of them shared with others")]

mod cluster;
mod direct;
mod faces;
mod faults;
mod library;
mod modes;
#[path = "../lease_store/pgbouncer.rs"]
mod pgbouncer;
mod pooler;
#[path = "../lease_store/server.rs"]
mod server;
mod succession;
#[path = "../support/mod.rs"]
mod support;

/// The surroundings of the private server.
mod harness {
    pub use crate::support::skip;
    pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
}
