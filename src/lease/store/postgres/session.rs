//! Requests within a connection, and those of them that are one batch of statements: lists and sweeps.
//!
//! Invariants: every request is one transaction, awaited until its deadline.
//!
//! Must not know: how connections are made, or when another attempt helps.

use tokio::time::{Instant, timeout_at};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use super::pipeline::{Statement, Value, run};
use super::statements::{BEGIN, CLOCK, LIMITS, Statements};
use super::request_error::{Stage, RequestError, classify, late};
use crate::lease::store::unchanged::Expired;
use crate::lease::store::{StoreError, StoreOptions, rows};
use crate::lease::{Answer, NodeRow, Round};

/// A request to a database.
#[derive(Debug)]
pub(super) enum Request {
    /// Checks that the database is there.
    Prepare,
    Round(Round),
    Nodes,
    /// Deletes old rows.
    Sweep {
        row_ttl_ms: i64,
    },
    /// Deletes these leaders' rows, if they are still as they were.
    SweepExpired {
        row_ttl_ms: i64,
        may_go: Vec<Expired>,
    },
}

/// A database's reply.
#[derive(Debug)]
pub(super) enum Reply {
    Ready,
    Answer(Answer),
    Nodes(Vec<NodeRow>),
    /// The number of deleted rows, and the expired leaders' rows that were met.
    Swept {
        gone: usize,
        met: Vec<Expired>,
    },
}

/// A connection for the time of one request.
pub(super) struct Session<'a> {
    pub(super) client: &'a Client,
    pub(super) statements: &'a Statements,
    pub(super) options: &'a StoreOptions,
    pub(super) place: &'a str,
    /// The server's limit for one statement, in milliseconds.
    pub(super) limit: &'a str,
    pub(super) deadline: Instant,
}

impl Session<'_> {
    pub(super) async fn carry_out(&self, request: &Request) -> Result<Reply, RequestError> {
        match request {
            Request::Prepare => {
                let clock = [Statement::new(CLOCK, Vec::new())];
                self.ask(&clock, Stage::Before).await.map(|_| Reply::Ready)
            }
            Request::Round(round) => self.round(round).await.map(Reply::Answer),
            Request::Nodes => self.nodes().await,
            Request::Sweep { row_ttl_ms } => self.sweep(*row_ttl_ms).await,
            Request::SweepExpired { row_ttl_ms, may_go } => self.sweep_expired(*row_ttl_ms, may_go).await,
        }
    }

    /// Sends statements and awaits their answers.
    pub(super) async fn ask(&self, statements: &[Statement<'_>], stage: Stage) -> Result<Vec<Vec<Row>>, RequestError> {
        match timeout_at(self.deadline, run(self.client, statements)).await {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err((_, error))) => Err(classify(&error, stage, self.place, self.options)),
            Err(_) => Err(late(stage, self.place, self.options.statement_timeout())),
        }
    }

    /// Returns the error for an answer that cannot be read.
    pub(super) fn damaged(&self, reason: impl std::fmt::Display) -> StoreError {
        StoreError::Damaged { place: self.place.to_owned(), reason: reason.to_string() }
    }

    /// Returns the two statements that every transaction begins with.
    pub(super) fn beginning(&self) -> Vec<Statement<'_>> {
        vec![Statement::new(BEGIN, Vec::new()), Statement::new(LIMITS, vec![(&self.limit, Type::TEXT)])]
    }

    async fn nodes(&self) -> Result<Reply, RequestError> {
        let cluster = self.options.cluster();
        let mut statements = self.beginning();
        statements.push(Statement::new(&self.statements.nodes, vec![(&cluster, Type::TEXT)]));
        statements.push(Statement::new("commit", Vec::new()));
        // The list changes nothing.
        let rows = self.ask(&statements, Stage::Before).await?;
        let read = |row: &Row| -> Result<NodeRow, String> {
            let wrong = |error: tokio_postgres::Error| error.to_string();
            let node: String = row.try_get(0).map_err(wrong)?;
            let address: Option<String> = row.try_get(1).map_err(wrong)?;
            rows::node_row(&node, address.as_deref(), row.try_get(2).map_err(wrong)?)
        };
        // A row that cannot be read is not listed, and spoils no other.
        Ok(Reply::Nodes(rows[2].iter().filter_map(|row| read(row).ok()).collect()))
    }

    async fn sweep(&self, row_ttl_ms: i64) -> Result<Reply, RequestError> {
        let cluster = self.options.cluster();
        let values = || -> Vec<Value<'_>> { vec![(&cluster, Type::TEXT), (&row_ttl_ms, Type::INT8)] };
        let mut statements = self.beginning();
        statements.push(Statement::new(&self.statements.sweep_nodes, values()));
        statements.push(Statement::new(&self.statements.sweep_leases, values()));
        statements.push(Statement::new(&self.statements.expired, values()));
        statements.push(Statement::new("commit", Vec::new()));
        let rows = self.ask(&statements, Stage::Committing).await?;
        let read = |row: &Row| -> Result<Expired, tokio_postgres::Error> {
            Ok(Expired { lease: row.try_get(0)?, token: row.try_get(1)?, lease_ms: row.try_get(2)? })
        };
        let met: Result<_, tokio_postgres::Error> = rows[4].iter().map(read).collect();
        let met = met.map_err(|error| self.damaged(error))?;
        Ok(Reply::Swept { gone: self.counted(&rows[2])? + self.counted(&rows[3])?, met })
    }

    async fn sweep_expired(&self, row_ttl_ms: i64, may_go: &[Expired]) -> Result<Reply, RequestError> {
        let cluster = self.options.cluster();
        let leases: Vec<&str> = may_go.iter().map(|row| row.lease.as_str()).collect();
        let tokens: Vec<&str> = may_go.iter().map(|row| row.token.as_str()).collect();
        let values: Vec<Value<'_>> = vec![
            (&cluster, Type::TEXT),
            (&row_ttl_ms, Type::INT8),
            (&leases, Type::TEXT_ARRAY),
            (&tokens, Type::TEXT_ARRAY),
        ];
        let mut statements = self.beginning();
        statements.push(Statement::new(&self.statements.sweep_expired, values));
        statements.push(Statement::new("commit", Vec::new()));
        let rows = self.ask(&statements, Stage::Committing).await?;
        Ok(Reply::Swept { gone: self.counted(&rows[2])?, met: Vec::new() })
    }

    fn counted(&self, rows: &[Row]) -> Result<usize, StoreError> {
        let count: Option<i64> = rows.first().and_then(|row| row.try_get(0).ok());
        count.and_then(|count| usize::try_from(count).ok()).ok_or_else(|| self.damaged("a count is none"))
    }
}
