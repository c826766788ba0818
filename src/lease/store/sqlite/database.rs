//! The open file: its transactions, and the meaning of SQLite's errors.
//!
//! Invariants:
//! - A transaction begins `IMMEDIATE`, so it waits for others before it reads, and the time is read after that wait.
//! - The file is checked before and after each transaction: a write into a deleted one did not happen, and whoever goes
//!   on with it would not see those that opened the file since.
//! - No file is mapped into memory, so that whoever shortens one ends no process. That leaves out a write-ahead log (WAL):
//!   a file that has one is brought over when nobody else uses it, and is busy until then.
//! - After an error that says nothing about the next attempt the file is opened anew.
//!
//! Must not know: what a transaction does.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior};

use super::file::{self, OpenedFile};
use super::statements::Statements;
use crate::lease::store::schema::{self, StoreKind, VERSION};
use crate::lease::store::unchanged::UnchangedRows;
use crate::lease::store::{StoreError, StoreOptions, millis};

/// The pause between attempts to open the file, while others use it.
const OPEN_PAUSE: Duration = Duration::from_millis(10);

/// The way in which the file as it was is kept until a commit: in a file beside it (`-journal`) that each transaction writes
/// anew, and that is neither shortened nor deleted after it. That is faster (12 ms on a disk where deleting takes 20), and
/// needs no room on a disk that is full by now.
const JOURNAL: &str = "persist";

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
    file: OpenedFile,
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
            // Nothing was done: tables that were dropped since they were made are made anew, and a file that another
            // program gave a write-ahead log is brought over.
            Err(undone) if !is_first_use && undone.is_mended_by_opening => self.attempt(&work),
            other => other,
        }
        .map_err(|undone| undone.error)
    }

    fn attempt<T>(&mut self, work: impl Fn(&Transaction<'_>, Now) -> rusqlite::Result<T>) -> Result<T, Undone> {
        if self.open.is_none() {
            self.open = Some(self.open_file()?);
        }
        let result = self.within(&work);
        let keeps = match &result {
            Ok(_) => true,
            Err(undone) => matches!(undone.error, StoreError::Busy { .. }),
        };
        if !keeps {
            self.open = None;
        }
        result
    }

    fn within<T>(&mut self, work: impl Fn(&Transaction<'_>, Now) -> rusqlite::Result<T>) -> Result<T, Undone> {
        let path = self.path.clone();
        let open = self.open.as_mut().expect("it was opened");
        open.file.check_unchanged()?;
        let transaction = open
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|error| classify(&path, &error))?;
        let mode: String = transaction
            .query_row("pragma journal_mode", [], |row| row.get(0))
            .map_err(|error| classify(&path, &error))?;
        if mode != JOURNAL {
            let reason = format!("another program switched its journal to '{mode}'");
            let error = StoreError::Failed { place: path.display().to_string(), reason };
            return Err(Undone { error, is_mended_by_opening: true });
        }
        let value = match work(&transaction, now()) {
            Ok(value) => value,
            Err(error) => return Err(Undone::by(&path, &error)),
        };
        transaction.commit().map_err(|error| judge_commit(&path, &error))?;
        open.file.check_unchanged()?;
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
        let file = OpenedFile::at(&self.path)?;
        let wrong = |error: rusqlite::Error| classify(&self.path, &error);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&self.path, flags).map_err(wrong)?;
        // Two that wait for each other's locks would both wait in vain: they try again.
        connection.busy_timeout(Duration::ZERO).map_err(wrong)?;
        self.leave_write_ahead_log(&connection)?;
        connection.busy_timeout(self.options.statement_timeout()).map_err(wrong)?;
        // A commit that was answered is on the disk: a term that was given must not be given again.
        connection.execute_batch("pragma synchronous = full").map_err(wrong)?;
        self.make_tables(&mut connection)?;
        file.check_unchanged()?;
        Ok(Open { connection, file })
    }

    /// Has the file keep a rollback journal; one that keeps a write-ahead log is written back and brought over. Whoever
    /// opens such a file for itself alone keeps the log's index in its own memory, where others map a file.
    fn leave_write_ahead_log(&self, connection: &Connection) -> Result<(), StoreError> {
        let word = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0));
        let bring_over = || {
            connection.query_row("pragma mmap_size = 0", [], |_| Ok(())).optional()?;
            word("pragma locking_mode = exclusive")?;
            let mode = word(&format!("pragma journal_mode = {JOURNAL}"))?;
            word("pragma locking_mode = normal")?;
            // The lock is given back with the next look at the file.
            connection.query_row("select count(*) from sqlite_schema", [], |_| Ok(()))?;
            Ok(mode)
        };
        match bring_over().map_err(|error| classify(&self.path, &error)) {
            Ok(mode) if mode == JOURNAL => Ok(()),
            Ok(mode) => Err(StoreError::configuration(
                self.place(),
                format!("cannot keep a rollback journal (its journal is '{mode}'): use a file on a local disk"),
            )),
            Err(StoreError::Busy { place, reason }) if file::has_write_ahead_log(&self.path) => {
                let reason = format!(
                    "{reason}; it has a write-ahead log, {place}-wal, and is in use: end the program that has it open, or \
                     the agents of an earlier release"
                );
                Err(StoreError::Busy { place, reason })
            }
            Err(error) => Err(error),
        }
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

/// Why a transaction was not done.
struct Undone {
    error: StoreError,
    /// True if nothing was done, and opening the file anew makes what was missing.
    is_mended_by_opening: bool,
}

impl Undone {
    /// Work that SQLite refused. SQLite has no code of its own for a table that is missing.
    fn by(path: &Path, error: &rusqlite::Error) -> Self {
        let error = classify(path, error);
        let is_mended_by_opening =
            matches!(&error, StoreError::Failed { reason, .. } if reason.contains("no such table"));
        Self { error, is_mended_by_opening }
    }
}

impl From<StoreError> for Undone {
    fn from(error: StoreError) -> Self {
        Self { error, is_mended_by_opening: false }
    }
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
