//! Making the tables, even when ten agents do so at once.
//!
//! Invariants: existing tables are not touched: a role without the right to create anything can use them. An agent that
//! comes second looks again, at most [`ATTEMPTS`] times.

use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error};

use super::pipeline::{Statement, run};
use super::statements::{BEGIN, LIMITS};
use super::request_error::{Making, Stage, RequestError, classify, classify_making, late};
use crate::lease::store::schema::{self, VERSION};
use crate::lease::store::{StoreError, StoreKind, StoreOptions};

/// The largest number of attempts to make the tables beside other agents that do the same.
const ATTEMPTS: u32 = 20;
/// The pause after the first attempt; each is longer by as much.
const PAUSE: Duration = Duration::from_millis(10);

/// Makes the tables if they are missing, or in any case if an error said that one is.
pub(super) async fn make_sure(
    client: &Client,
    options: &StoreOptions,
    place: &str,
    limit: &str,
    is_known_missing: bool,
) -> Result<(), RequestError> {
    let mut from = if is_known_missing { 0 } else { find(client, options, place, limit).await? };
    let mut attempt = 0;
    while from < VERSION {
        attempt += 1;
        match make(client, options, limit, from).await {
            Ok(()) => return Ok(()),
            Err(None) => return Err(late(Stage::Before, place, options.statement_timeout())),
            Err(Some(error)) => match classify_making(&error, place, options) {
                Making::Failed(trouble) => return Err(trouble),
                Making::Raced if attempt >= ATTEMPTS => return Err(classify(&error, Stage::Before, place, options)),
                Making::Raced => {}
            },
        }
        tokio::time::sleep(PAUSE * attempt).await;
        from = find(client, options, place, limit).await?;
    }
    if from > VERSION {
        return Err(StoreError::NewerSchema { place: place.to_owned(), found: from, known: VERSION }.into());
    }
    Ok(())
}

/// Returns the version of the tables; 0 if there are none.
async fn find(client: &Client, options: &StoreOptions, place: &str, limit: &str) -> Result<i64, RequestError> {
    // Asked by name, so that nothing fails where there are no tables: poolers and logs take note of errors.
    let name = options.table("version");
    let version = format!("select version from {name}");
    let is_there = "select to_regclass($1) is not null";
    let asked = [Statement::new(is_there, vec![(&name, Type::TEXT)])];
    let rows = within(client, options, &asked).await.map_err(|error| told(error, options, place))?;
    let is_there: Option<bool> = rows[0].first().and_then(|row| row.try_get(0).ok());
    if is_there != Some(true) {
        return Ok(0);
    }
    let asked = [
        Statement::new(BEGIN, Vec::new()),
        Statement::new(LIMITS, vec![(&limit, Type::TEXT)]),
        Statement::new(&version, Vec::new()),
        Statement::new("commit", Vec::new()),
    ];
    let rows = within(client, options, &asked).await.map_err(|error| told(error, options, place))?;
    Ok(rows[2].first().and_then(|row| row.try_get(0).ok()).unwrap_or(0))
}

fn told(error: Option<Error>, options: &StoreOptions, place: &str) -> RequestError {
    match error {
        Some(error) => classify(&error, Stage::Before, place, options),
        None => late(Stage::Before, place, options.statement_timeout()),
    }
}

/// Makes the tables in one transaction; `Err(None)`: no answer in time.
async fn make(client: &Client, options: &StoreOptions, limit: &str, from: i64) -> Result<(), Option<Error>> {
    let mut texts = Vec::new();
    if let Some(schema) = options.schema() {
        // `if not exists` asks for the right to create one even if it exists.
        let asked = [Statement::new("select 1 from pg_namespace where nspname = $1", vec![(&schema, Type::TEXT)])];
        let found = within(client, options, &asked).await?;
        if found[0].is_empty() {
            texts.push(schema::create_schema(schema));
        }
    }
    texts.extend(schema::migrations(StoreKind::Postgres, options, from));
    let mut statements = vec![Statement::new(BEGIN, Vec::new()), Statement::new(LIMITS, vec![(&limit, Type::TEXT)])];
    statements.extend(texts.iter().map(|text| Statement::new(text, Vec::new())));
    statements.push(Statement::new("commit", Vec::new()));
    // After an error the commit at the end rolls back, so that the next attempt begins a transaction of its own.
    within(client, options, &statements).await.map(drop)
}

async fn within(
    client: &Client,
    options: &StoreOptions,
    statements: &[Statement<'_>],
) -> Result<Vec<Vec<tokio_postgres::Row>>, Option<Error>> {
    match timeout(options.statement_timeout(), run(client, statements)).await {
        Ok(result) => result.map_err(|(_, error)| Some(error)),
        Err(_) => Err(None),
    }
}
