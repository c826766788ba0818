//! Stores: the databases that keep the rows of leases, and the only place that reads and writes them.
//!
//! ```text
//!   Store ── sqlite    a thread of its own that holds the file            (nodes on one machine)
//!         └─ postgres  one connection, unnamed statements, no session state  (many machines, poolers between)
//! ```
//!
//! Invariants, beside those of a [round](super::Round):
//! - One request at a time, each within the statement timeout (and the connect timeout for each host, where there was
//!   no connection): a database that hangs does not hang its caller.
//! - Errors tell a request that was not carried out from one that may have been. After either, the next request
//!   connects again by itself; the caller decides when to ask.
//! - Missing tables are made, at first use and when they have gone (a fail-over to an empty database), even by ten
//!   agents at once.
//! - Only the database's clock is compared with a row. Clocks of this process merely bound waits, and make a sweep wait
//!   longer.
//!
//! Must not know: who should lead, what a term is worth, when to ask.
//!
//! | idea | file |
//! |---|---|
//! | errors; options and names of tables; addresses of databases | `error`, `options`, `url` |
//! | tables, their versions | `schema` |
//! | rows, read with suspicion; expired rows that may be swept | `rows`, `unchanged` |
//! | the two databases | `sqlite`, `postgres` |

mod error;
mod options;
#[cfg(feature = "postgres")]
mod postgres;
mod rows;
mod schema;
#[cfg(feature = "sqlite")]
mod sqlite;
mod unchanged;
mod url;

use std::time::Duration;

pub use error::StoreError;
pub use options::{MAX_IDENTIFIER, MAX_TIMEOUT, MIN_TIMEOUT, StoreOptions};
#[cfg(feature = "postgres")]
pub use postgres::{MAX_HOSTS, PostgresUrl};
pub use schema::{StoreKind, schema};
pub use url::StoreUrl;

use super::{Answer, MAX_LEASES, NodeRow, Round};

/// The largest number of liveness rows that [`Store::nodes`] lists: those heard from last.
pub const MAX_NODES: usize = 10_000;

/// A database that keeps leases.
#[derive(Debug)]
pub enum Store {
    /// A file on this machine.
    #[cfg(feature = "sqlite")]
    Sqlite(SqliteStore),
    /// A server.
    #[cfg(feature = "postgres")]
    Postgres(Box<PostgresStore>),
}

#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;

/// Does the same with either kind of store.
macro_rules! each {
    ($store:expr, $inner:ident => $work:expr) => {
        match $store {
            #[cfg(feature = "sqlite")]
            Store::Sqlite($inner) => $work,
            #[cfg(feature = "postgres")]
            Store::Postgres($inner) => $work,
        }
    };
}

impl Store {
    /// Returns a store of the database at this address. Nothing is opened yet; settings that the address leaves open
    /// are taken from the environment (`PG*`, the password file) as other clients do.
    pub fn new(url: &StoreUrl, options: StoreOptions) -> Result<Self, StoreError> {
        match url {
            #[cfg(feature = "sqlite")]
            StoreUrl::Sqlite(file) => SqliteStore::new(file, options).map(Self::Sqlite),
            #[cfg(feature = "postgres")]
            StoreUrl::Postgres(url) => PostgresStore::new(url, options).map(Box::new).map(Self::Postgres),
        }
    }

    /// Makes the checks of [`new`](Self::new), and starts nothing: whoever judges a configuration refuses what an agent
    /// would refuse.
    pub fn check(url: &StoreUrl, options: &StoreOptions) -> Result<(), StoreError> {
        match url {
            #[cfg(feature = "sqlite")]
            StoreUrl::Sqlite(_) => SqliteStore::check(options),
            #[cfg(feature = "postgres")]
            StoreUrl::Postgres(url) => PostgresStore::check(url, options),
        }
    }

    /// Connects, and makes the tables if they are missing, so that problems are reported at the start.
    pub async fn prepare(&mut self) -> Result<(), StoreError> {
        each!(self, store => store.prepare().await)
    }

    /// Carries out a round as a whole, or not at all.
    ///
    /// # Panics
    /// If the round has more than [`MAX_LEASES`] steps, or two for one lease: the caller's mistake.
    pub async fn round(&mut self, round: &Round) -> Result<Answer, StoreError> {
        assert!(round.steps.len() <= MAX_LEASES, "a round has at most {MAX_LEASES} steps");
        let mut leases: Vec<_> = round.steps.iter().map(|step| &step.lease).collect();
        leases.sort_unstable();
        assert!(leases.windows(2).all(|pair| pair[0] != pair[1]), "a round has at most one step for each lease");
        each!(self, store => store.round(round).await)
    }

    /// Returns every node's liveness row, those heard from last first, at most [`MAX_NODES`].
    pub async fn nodes(&mut self) -> Result<Vec<NodeRow>, StoreError> {
        each!(self, store => store.nodes().await)
    }

    /// Deletes rows that were not written for `row_ttl` by the database's clock: liveness rows, and rows of leases that
    /// are no leader's. An expired leader's row is deleted, too, once this store has itself seen it stand still for its
    /// lease, so in a later sweep: to a clock that steps, a living leader's row looks old. Terms stay. Returns the
    /// number of deleted rows.
    pub async fn sweep(&mut self, row_ttl: Duration) -> Result<usize, StoreError> {
        each!(self, store => store.sweep(row_ttl).await)
    }

    /// Closes the connection to the database, and waits for that a moment.
    pub async fn close(self) {
        each!(self, store => store.close().await);
    }

    /// Returns the database's name for messages: never with a password.
    pub fn place(&self) -> &str {
        each!(self, store => store.place())
    }

    /// Returns the kind of database.
    pub fn kind(&self) -> StoreKind {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => StoreKind::Sqlite,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => StoreKind::Postgres,
        }
    }
}

/// Returns a duration in whole milliseconds, as rows hold it.
fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Requests may be carried out on any thread.
const _: () = {
    const fn is_send<T: Send>(_: &T) {}
    #[allow(dead_code, reason = "it is enough that it compiles")]
    fn check(store: &mut Store, round: &Round) {
        is_send(&store.round(round));
    }
};
