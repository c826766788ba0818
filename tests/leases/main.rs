//! Leases in real databases: the stores, and agents that are led by a lease in one.
//!
//! PostgreSQL: a private server, started here and ended with this process, or the one at `HEADCOUNT_TEST_POSTGRES`.
#![cfg(all(feature = "agent", unix))]
#![allow(unreachable_pub, dead_code, reason = "modules of one program, some of them shared with a bench")]

mod agents;
mod pgbouncer;
mod server;
mod store;
#[path = "../support/mod.rs"]
mod support;
