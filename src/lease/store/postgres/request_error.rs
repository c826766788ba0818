//! The meaning of a server's errors, before and while a transaction is committed.
//!
//! Invariants: no request counts as undone that may have been committed. While a commit is on its way, only an error
//! that the server itself reports of a transaction says that it did not happen; a connection that breaks, or a pooler
//! that reports that its own did, says nothing.

use std::time::Duration;

use tokio_postgres::Error;
use tokio_postgres::error::{Severity, SqlState};

use crate::lease::store::error::with_causes;
use crate::lease::store::{StoreError, StoreKind, StoreOptions, schema};

/// A request that failed, and the remedy that another attempt can bring.
#[derive(Debug)]
pub(super) struct RequestError {
    pub(super) error: StoreError,
    pub(super) remedy: Remedy,
}

/// The remedy for a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    None,
    /// Another attempt connects: the session had ended unnoticed.
    Connect,
    /// Another attempt makes the tables that are missing.
    MakeTables,
}

impl From<StoreError> for RequestError {
    fn from(error: StoreError) -> Self {
        Self { error, remedy: Remedy::None }
    }
}

/// The stage of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The commit has not been sent: the transaction will not happen.
    Before,
    /// The commit has been sent.
    Committing,
}

/// Returns the meaning of an error at a stage.
pub(super) fn classify(error: &Error, stage: Stage, place: &str, options: &StoreOptions) -> RequestError {
    let reason = with_causes(error);
    let place = place.to_owned();
    let Some(database) = error.as_db_error() else { return lost(reason, stage, place) };
    let code = database.code();
    let is_servers = database.parsed_severity() == Some(Severity::Error) && !code.code().starts_with("08");
    // PgBouncer says so at the beginning of each transaction, and ends the session: nothing was done.
    if reason.contains("statement pooling mode") {
        let hint = String::from("leases need transactions: set pool_mode = transaction (or session) for this database");
        return StoreError::Refused { place, reason, hint }.into();
    }
    if !is_servers {
        return lost(reason, stage, place);
    }
    let error = match code {
        &SqlState::UNDEFINED_TABLE | &SqlState::INVALID_SCHEMA_NAME => {
            return RequestError { error: StoreError::Failed { place, reason }, remedy: Remedy::MakeTables };
        }
        &SqlState::READ_ONLY_SQL_TRANSACTION => StoreError::ReadOnly { place, reason },
        &SqlState::INSUFFICIENT_PRIVILEGE => {
            let statements = schema::grants(options).join(";\n");
            StoreError::NoPermission { place, reason, statements, command: options.schema_command() }
        }
        &SqlState::DISK_FULL => StoreError::Full { place, reason },
        &SqlState::QUERY_CANCELED
        | &SqlState::LOCK_NOT_AVAILABLE
        | &SqlState::T_R_DEADLOCK_DETECTED
        | &SqlState::T_R_SERIALIZATION_FAILURE
        | &SqlState::OUT_OF_MEMORY
        | &SqlState::TOO_MANY_CONNECTIONS => StoreError::Busy { place, reason },
        _ => StoreError::Failed { place, reason },
    };
    error.into()
}

fn lost(reason: String, stage: Stage, place: String) -> RequestError {
    match stage {
        Stage::Before => RequestError { error: StoreError::Unreachable { place, reason }, remedy: Remedy::Connect },
        Stage::Committing => StoreError::OutcomeUnknown { place, reason }.into(),
    }
}

/// Returns the meaning of no answer in time.
pub(super) fn late(stage: Stage, place: &str, waited: Duration) -> RequestError {
    let (place, reason) = (place.to_owned(), format!("no answer within {waited:?}"));
    match stage {
        Stage::Before => StoreError::Busy { place, reason }.into(),
        Stage::Committing => StoreError::OutcomeUnknown { place, reason }.into(),
    }
}

/// The meaning of an error while tables are made.
pub(super) enum Making {
    /// Another agent makes them at the same time: look again.
    Raced,
    Failed(RequestError),
}

pub(super) fn classify_making(error: &Error, place: &str, options: &StoreOptions) -> Making {
    let raced = [
        SqlState::UNIQUE_VIOLATION,
        SqlState::DUPLICATE_TABLE,
        SqlState::DUPLICATE_SCHEMA,
        SqlState::DUPLICATE_OBJECT,
        SqlState::T_R_DEADLOCK_DETECTED,
        // Two agents updated a catalogue's row at once.
        SqlState::INTERNAL_ERROR,
        // The tables of an index that another agent is still making.
        SqlState::UNDEFINED_TABLE,
    ];
    if error.code().is_some_and(|code| raced.contains(code)) {
        return Making::Raced;
    }
    if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
        let (place, reason) = (place.to_owned(), with_causes(error));
        let statements = schema::schema(StoreKind::Postgres, options);
        let command = options.schema_command();
        return Making::Failed(StoreError::NoSchema { place, reason, statements, command }.into());
    }
    if error.code() == Some(&SqlState::INVALID_SCHEMA_NAME) {
        let reason = format!(
            "has no schema for the tables ({}): set leadership.lease.schema, which is made if it is missing, or name one \
             that exists in the role's search_path",
            with_causes(error)
        );
        return Making::Failed(StoreError::configuration(place, reason).into());
    }
    // Making the same tables again does no harm: whether these were committed does not matter.
    Making::Failed(classify(error, Stage::Before, place, options))
}
