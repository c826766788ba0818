//! A database of leases, modelled: it carries out rounds as SQLite and PostgreSQL must, on a clock of its own.
//!
//! What can go wrong *in* a database is here: its clock steps, it fails over to a replica that lost commits, it is empty, it
//! takes no writes, it is swept. What can go wrong on the way to it (lost requests and answers, late ones, cuts) is the
//! business of whoever drives it.
//!
//! Must not know: contenders.

mod store;

pub use store::{Database, Lost, ReadOnly};
