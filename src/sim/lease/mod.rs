//! A model of a lease database: it executes rounds as SQLite and PostgreSQL must, by a clock of its own.
//!
//! Everything that can go wrong *in* a database is here: its clock steps, it fails over to a replica that lost commits,
//! it is replaced by an empty one, it becomes read-only, its rows are swept. Anything that goes wrong between it and
//! its clients (lost or late requests and answers, cuts) is up to the caller.
//!
//! Must not know: contenders.
//!
//! | idea | file |
//! |---|---|
//! | the modelled database itself | `store` |

mod store;

pub use store::{Database, Lost, ReadOnly};
