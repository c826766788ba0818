//! Leases in an SQLite file: for nodes on one machine.
//!
//! The clock is the machine's wall clock, read inside the transaction: the machine that has the file is the server.
//!
//! Invariants: SQLite is called on a thread of its own only. A request waits for others' locks up to the statement
//! timeout, and its caller a little longer: a disk that hangs does not hang the caller.
//!
//! A file that is replaced while a transaction stands half written in its `-journal` (the machine failed, or the agent was
//! killed) is damaged: SQLite writes that journal back into whatever database lies beside it. To restore a backup, remove
//! the journal with the file.
//!
//! | idea | file |
//! |---|---|
//! | the thread, requests and giving them up | `worker` |
//! | the file: how it is made, judged, and noticed when it is gone | `file` |
//! | the open database: its journal, transactions, errors | `database` |
//! | a round, a list and a sweep, each a transaction | `rounds` |
//! | their SQL | `statements` |

mod database;
mod file;
mod rounds;
mod statements;
mod worker;

use std::path::Path;
use std::time::Duration;

use super::{StoreError, StoreOptions};
use crate::lease::{Answer, NodeRow, Round};
use database::Database;
use worker::Worker;

/// A store of leases in a file.
#[derive(Debug)]
pub struct SqliteStore {
    place: String,
    worker: Worker,
}

impl SqliteStore {
    pub(super) fn new(file: &Path, options: StoreOptions) -> Result<Self, StoreError> {
        Self::check(&options)?;
        // Messages name the file so that it is found from anywhere.
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let place = file.display().to_string();
        let worker = Worker::start(&file, options)?;
        Ok(Self { place, worker })
    }

    /// Refuses options that no file has.
    pub(super) fn check(options: &StoreOptions) -> Result<(), StoreError> {
        match options.schema() {
            Some(_) => {
                Err(StoreError::configuration("schema", "cannot be set: SQLite files have none; use table_prefix"))
            }
            None => Ok(()),
        }
    }

    pub(super) async fn prepare(&mut self) -> Result<(), StoreError> {
        self.worker.ask(|database| database.transact(|_, _| Ok(()))).await
    }

    pub(super) async fn round(&mut self, round: &Round) -> Result<Answer, StoreError> {
        let round = round.clone();
        self.worker.ask(move |database| database.round(&round)).await
    }

    pub(super) async fn nodes(&mut self) -> Result<Vec<NodeRow>, StoreError> {
        self.worker.ask(Database::nodes).await
    }

    pub(super) async fn sweep(&mut self, row_ttl: Duration) -> Result<usize, StoreError> {
        self.worker.ask(move |database| database.sweep(row_ttl)).await
    }

    pub(super) async fn close(self) {
        self.worker.close().await;
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }
}
