//! The open file: its transactions, and the meaning of SQLite's errors.
//!
//! Invariants:
//! - A transaction begins `IMMEDIATE`, so it waits for others before it reads, and the time is read after that wait.
//! - The file and its log (`-wal`, `-shm`) are checked before and after each transaction: a write into a deleted one
//!   did not happen, and whoever goes on with it would not see those that opened the file since.
//! - The log is written back to the file every [`CHECKPOINT_PAGES`] pages, once the tables are made, and when the disk is
//!   full: then its room is used again, before anything counts as refused.
//! - After an error that says nothing about the next attempt the file is opened anew.
//!
//! Must not know: what a transaction does.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior};

use super::file::{self, Files};
use super::statements::Statements;
use crate::lease::store::schema::{self, StoreKind, VERSION};
use crate::lease::store::unchanged::UnchangedRows;
use crate::lease::store::{StoreError, StoreOptions, millis};

/// The pause between attempts where SQLite does not wait itself: while others switch the file to WAL, or recover it.
const OPEN_PAUSE: Duration = Duration::from_millis(10);

/// The length of the log, in pages of 4 KiB, at which it is written back to the file: some dozen rounds.
const CHECKPOINT_PAGES: u32 = 100;

/// The time of a transaction, in milliseconds since 1970 by the machine's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now(pub(super) i64);

/// The file of a store, open or not.
pub(super) struct Database {
    path: PathBuf,
    pub(super) options: StoreOptions,
    pub(super) statements: Arc<Statements>,
    pub(super) unchanged: UnchangedRows,
    open: Option<Open>,
}

struct Open {
    connection: Connection,
    files: Files,
}

impl Database {
    pub(super) fn new(path: &Path, options: StoreOptions) -> Self {
        let statements = Arc::new(Statements::new(&options));
        Self { path: path.to_owned(), options, statements, unchanged: UnchangedRows::default(), open: None }
    }

    pub(super) fn place(&self) -> String {
        self.path.display().to_string()
    }

    /// Runs `work` in a transaction, once the file is open and has its tables.
    pub(super) fn transact<T>(
        &mut self,
        work: impl Fn(&Transaction<'_>, Now) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let is_first_use = self.open.is_none();
        match self.attempt(&work) {
            // The tables were dropped since they were made: nothing was done, and they are made anew.
            Err(error) if !is_first_use && is_about_missing_table(&error) => self.attempt(&work),
            other => other,
        }
    }

    fn attempt<T>(&mut self, work: impl Fn(&Transaction<'_>, Now) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        if self.open.is_none() {
            self.open = Some(self.open_file()?);
        }
        let mut result = self.within(&work);
        if matches!(result, Err(StoreError::Full { .. })) && self.write_log_back() {
            result = self.within(&work);
        }
        let keeps = match &result {
            Ok(_) => true,
            Err(error) => matches!(error, StoreError::Busy { .. }),
        };
        if !keeps {
            self.open = None;
        }
        result
    }

    /// Writes the log back to the file as far as no reader needs it, so that the next transaction begins it anew. Returns
    /// true if all of it was.
    fn write_log_back(&self) -> bool {
        let counts = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
        let open = self.open.as_ref();
        let written = open.map(|open| open.connection.query_row("pragma wal_checkpoint(passive)", [], counts));
        matches!(written, Some(Ok((pages, written))) if pages > 0 && pages == written)
    }

    fn within<T>(&mut self, work: impl Fn(&Transaction<'_>, Now) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let path = self.path.clone();
        let open = self.open.as_mut().expect("it was opened");
        open.files.check_unchanged()?;
        let transaction = open
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|error| classify(&path, &error))?;
        let value = match work(&transaction, now()) {
            Ok(value) => value,
            Err(error) => return Err(classify(&path, &error)),
        };
        transaction.commit().map_err(|error| judge_commit(&path, &error))?;
        open.files.check_unchanged()?;
        Ok(value)
    }

    /// Opens the file and prepares it. Others may be doing the same.
    fn open_file(&self) -> Result<Open, StoreError> {
        let deadline = Instant::now() + self.options.statement_timeout();
        loop {
            match self.try_open() {
                Err(StoreError::Busy { .. }) if Instant::now() < deadline => std::thread::sleep(OPEN_PAUSE),
                other => return other,
            }
        }
    }

    fn try_open(&self) -> Result<Open, StoreError> {
        file::make(&self.path)?;
        let mut files = Files::of(&self.path)?;
        let wrong = |error: rusqlite::Error| classify(&self.path, &error);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&self.path, flags).map_err(wrong)?;
        connection.busy_timeout(self.options.statement_timeout()).map_err(wrong)?;
        let mode: String = connection.query_row("pragma journal_mode = wal", [], |row| row.get(0)).map_err(wrong)?;
        if !mode.eq_ignore_ascii_case("wal") {
            return Err(StoreError::configuration(
                self.place(),
                format!("cannot keep a write-ahead log (its journal is '{mode}'): use a file on a local disk"),
            ));
        }
        // A commit that was answered is on the disk: a term that was given must not be given again.
        connection.execute_batch("pragma synchronous = full").map_err(wrong)?;
        let pages = format!("pragma wal_autocheckpoint = {CHECKPOINT_PAGES}");
        connection.query_row(&pages, [], |_| Ok(())).map_err(wrong)?;
        self.make_tables(&mut connection)?;
        // The file has its final length early, on a disk that may be full later. Others may keep it from being written now.
        let _ = connection.query_row("pragma wal_checkpoint(passive)", [], |_| Ok(()));
        // The log is there from the first transaction on, for as long as anybody has the file open.
        files.add_log();
        files.check_unchanged()?;
        Ok(Open { connection, files })
    }

    fn make_tables(&self, connection: &mut Connection) -> Result<(), StoreError> {
        let wrong = |error: rusqlite::Error| classify(&self.path, &error);
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(wrong)?;
        let found = self.version(&transaction).map_err(wrong)?;
        if found > VERSION {
            return Err(StoreError::NewerSchema { place: self.place(), found, known: VERSION });
        }
        // Also if the version says that all tables are there: one of them may have been dropped.
        for statement in schema::migrations(StoreKind::Sqlite, &self.options, if found < VERSION { found } else { 0 }) {
            transaction.execute_batch(&statement).map_err(wrong)?;
        }
        transaction.commit().map_err(|error| judge_commit(&self.path, &error))
    }

    /// Returns the version of the tables; 0 if there are none.
    fn version(&self, transaction: &Transaction<'_>) -> rusqlite::Result<i64> {
        let known = "select 1 from sqlite_schema where type = 'table' and name = ?1";
        let name = self.options.plain("version");
        if transaction.query_row(known, [name], |_| Ok(())).optional()?.is_none() {
            return Ok(0);
        }
        let found = transaction.query_row(&self.statements.version, [], |row| row.get(0)).optional()?;
        Ok(found.unwrap_or(0))
    }
}

fn now() -> Now {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Now(millis(since))
}

fn is_about_missing_table(error: &StoreError) -> bool {
    matches!(error, StoreError::Failed { reason, .. } if reason.contains("no such table"))
}

/// Returns the meaning of an error before anything was committed.
fn classify(path: &Path, error: &rusqlite::Error) -> StoreError {
    let place = path.display().to_string();
    let reason = error.to_string();
    let Some(code) = error.sqlite_error_code() else { return StoreError::Damaged { place, reason } };
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            StoreError::Busy { place, reason }
        }
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen => {
            StoreError::ReadOnly { place, reason }
        }
        ErrorCode::DiskFull => StoreError::Full { place, reason },
        ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt => StoreError::Damaged { place, reason },
        _ => StoreError::Failed { place, reason },
    }
}

/// Returns the meaning of an error while committing: others' locks and a full disk leave everything as it was; after a
/// failure of the disk its contents are unknown.
fn judge_commit(path: &Path, error: &rusqlite::Error) -> StoreError {
    match classify(path, error) {
        known @ (StoreError::Busy { .. } | StoreError::Full { .. } | StoreError::ReadOnly { .. }) => known,
        other => StoreError::OutcomeUnknown { place: path.display().to_string(), reason: other.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use rusqlite::ffi;

    use super::*;

    fn database(directory: &tempfile::TempDir) -> Database {
        Database::new(&directory.path().join("x.db"), StoreOptions::new("c").expect("a name"))
    }

    #[test]
    fn the_log_is_written_back_early_whoever_else_has_the_file_open() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut databases = [database(&directory), database(&directory)];
        let write =
            "create table if not exists x (y); insert or replace into x (rowid, y) values (1, randomblob(9000))";
        for round in 0..300 {
            databases[round % 2].transact(|transaction, _| transaction.execute_batch(write)).expect("written");
        }
        let log = std::fs::metadata(directory.path().join("x.db-wal")).expect("there").len();
        assert!(log < 2 * u64::from(CHECKPOINT_PAGES) * 4_120, "{log} bytes");
    }

    /// Has the disk be full for so many tries; returns the number of tries, and whether the last one succeeded.
    fn full_for(tries: u32) -> (u32, bool) {
        let directory = tempfile::tempdir().expect("a directory");
        let mut database = database(&directory);
        let attempts = Cell::new(0);
        let result = database.transact(|_, _| {
            attempts.set(attempts.get() + 1);
            let full = rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_FULL), None);
            if attempts.get() <= tries { Err(full) } else { Ok(()) }
        });
        assert!(result.as_ref().err().is_none_or(|error| matches!(error, StoreError::Full { .. })), "{result:?}");
        (attempts.get(), result.is_ok())
    }

    #[test]
    fn on_a_full_disk_the_log_is_written_back_and_the_transaction_tried_once_more() {
        assert_eq!(full_for(1), (2, true));
        assert_eq!(full_for(9), (2, false), "once alone");
    }
}
