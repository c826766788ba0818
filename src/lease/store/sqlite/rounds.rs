//! A round, a list of nodes and a sweep, each in its transaction.
//!
//! Invariants: a statement is given the transaction's one time. Since the transaction is the only writer there is no
//! conflict: a contender that comes second finds the lease held.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{OptionalExtension, Transaction, params};

use super::database::{Database, Now};
use super::statements::Statements;
use crate::lease::store::rows::{self, LeaderRow, LeaseRows};
use crate::lease::store::schema::MAX_TERM;
use crate::lease::store::unchanged::Expired;
use crate::lease::store::{StoreError, millis};
use crate::lease::{Answer, LeaseName, NodeRow, Outcome, Round, Seen, StepRequest};

/// Returns true if a value in a row is not of the type that it should be: SQLite itself has not failed.
fn is_about_a_value(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code().is_none()
}

/// A round's values, as its statements take them.
struct Asking<'a> {
    cluster: &'a str,
    node: &'a str,
    lease_ms: i64,
    expires_at: i64,
    now: Now,
}

impl Database {
    /// Carries out a round.
    pub(super) fn round(&mut self, round: &Round) -> Result<Answer, StoreError> {
        let cluster = self.options.cluster().to_owned();
        let statements = Arc::clone(&self.statements);
        self.transact(|transaction, now| {
            let lease_ms = millis(round.lease_duration);
            let node = round.node.as_str();
            let expires_at = now.0.saturating_add(lease_ms);
            let asking = Asking { cluster: &cluster, node, lease_ms, expires_at, now };
            let address = round.rpc_address.map(|address| address.to_string());
            transaction.execute(&statements.heartbeat, params![asking.cluster, asking.node, address, now.0])?;
            let mut steps = Vec::with_capacity(round.steps.len());
            for step in &round.steps {
                let outcome = statements.carry_out(transaction, &asking, &step.lease, &step.request)?;
                steps.push(statements.seen(transaction, &cluster, &step.lease, outcome, now)?);
            }
            Ok(Answer { steps })
        })
    }

    /// Returns the liveness rows, newest first, but for those that cannot be read.
    pub(super) fn nodes(&mut self) -> Result<Vec<NodeRow>, StoreError> {
        let (cluster, list) = (self.options.cluster().to_owned(), self.statements.nodes.clone());
        self.transact(|transaction, now| {
            let mut statement = transaction.prepare(&list)?;
            let mut found = statement.query([&cluster])?;
            let mut nodes = Vec::new();
            while let Some(row) = found.next()? {
                let read = || {
                    let (node, address): (String, Option<String>) = (row.get(0)?, row.get(1)?);
                    let updated_at: i64 = row.get(2)?;
                    Ok(rows::node_row(&node, address.as_deref(), now.0.saturating_sub(updated_at)))
                };
                match read() {
                    Ok(row) => nodes.extend(row),
                    Err(error) if is_about_a_value(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(nodes)
        })
    }

    /// Deletes old rows; returns their number.
    pub(super) fn sweep(&mut self, row_ttl: Duration) -> Result<usize, StoreError> {
        let cluster = self.options.cluster().to_owned();
        let statements = Arc::clone(&self.statements);
        let (mut gone, met) = self.transact(|transaction, now| {
            let before = now.0.saturating_sub(millis(row_ttl));
            let nodes = transaction.execute(&statements.sweep_nodes, params![cluster, before])?;
            let leases = transaction.execute(&statements.sweep_leases, params![cluster, before])?;
            let mut expired = transaction.prepare(&statements.expired)?;
            let row =
                |row: &rusqlite::Row<'_>| Ok(Expired { lease: row.get(0)?, token: row.get(1)?, lease_ms: row.get(2)? });
            let mut met = Vec::new();
            for found in expired.query_map(params![cluster, before, now.0], row)? {
                match found {
                    Ok(row) => met.push(row),
                    Err(error) if is_about_a_value(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok((nodes + leases, met))
        })?;
        let may_go = self.unchanged.meet(met, Instant::now());
        if may_go.is_empty() {
            return Ok(gone);
        }
        gone += self.transact(|transaction, now| {
            let before = now.0.saturating_sub(millis(row_ttl));
            let mut gone = 0;
            for Expired { lease, token, .. } in &may_go {
                gone +=
                    transaction.execute(&statements.sweep_expired, params![cluster, lease, token, before, now.0])?;
            }
            Ok(gone)
        })?;
        Ok(gone)
    }
}

impl Statements {
    fn carry_out(
        &self,
        transaction: &Transaction<'_>,
        asking: &Asking<'_>,
        lease: &LeaseName,
        request: &StepRequest,
    ) -> rusqlite::Result<Outcome> {
        match request {
            StepRequest::Watch => Ok(Outcome::Watched),
            StepRequest::Acquire { .. } => self.acquire(transaction, asking, lease, request),
            StepRequest::Renew { held, drawn } => {
                let Asking { cluster, node, lease_ms, expires_at, now } = asking;
                let mut changed = 0;
                for token in held {
                    let (token, drawn) = (token.to_string(), drawn.to_string());
                    let key = params![cluster, lease.as_str(), node, token, drawn, lease_ms, expires_at, now.0];
                    changed += transaction.execute(&self.renew, key)?;
                    if changed > 0 {
                        break;
                    }
                }
                Ok(if changed > 0 { Outcome::Renewed } else { Outcome::Rejected })
            }
            StepRequest::Release { held } => {
                let Asking { cluster, node, now, .. } = asking;
                let mut changed = 0;
                for token in held {
                    let key = params![cluster, lease.as_str(), node, token.to_string(), now.0];
                    changed += transaction.execute(&self.release, key)?;
                }
                Ok(if changed > 0 { Outcome::Released } else { Outcome::Rejected })
            }
        }
    }

    fn acquire(
        &self,
        transaction: &Transaction<'_>,
        asking: &Asking<'_>,
        lease: &LeaseName,
        request: &StepRequest,
    ) -> rusqlite::Result<Outcome> {
        let StepRequest::Acquire { drawn, above, expired, missing } = request else { return Ok(Outcome::Held) };
        let Asking { cluster, node, lease_ms, expires_at, now } = asking;
        let lease = lease.as_str();
        transaction.execute(&self.restore, params![cluster, lease])?;
        let stored = transaction.query_row(&self.term, params![cluster, lease], |row| row.get(0)).optional();
        let stored: i64 = match stored {
            Ok(stored) => stored.unwrap_or(0),
            Err(error) if is_about_a_value(&error) => return Ok(Outcome::Unreadable),
            Err(error) => return Err(error),
        };
        let above = match i64::try_from(*above) {
            Ok(above) if above.max(stored) < MAX_TERM.cast_signed() => above,
            _ => return Ok(Outcome::Exhausted),
        };
        if let Some(expired) = expired {
            transaction.execute(&self.clear, params![cluster, lease, expired.to_string(), now.0])?;
        }
        // No stored term is as high as one that does not fit.
        let missing = missing.map(|term| i64::try_from(term).unwrap_or(i64::MAX));
        let row = params![cluster, lease, node, drawn.to_string(), lease_ms, expires_at, now.0, missing];
        if transaction.execute(&self.take, row)? == 0 {
            return Ok(Outcome::Held);
        }
        let count = transaction.query_row(&self.count, params![cluster, lease, above], |row| row.get(0));
        let term: i64 = count?;
        transaction.execute(&self.own_term, params![cluster, lease, node, term])?;
        Ok(Outcome::Acquired)
    }

    /// Returns a lease as it stands after a step. If its rows cannot be read, the outcome of this step says so.
    fn seen(
        &self,
        transaction: &Transaction<'_>,
        cluster: &str,
        lease: &LeaseName,
        outcome: Outcome,
        now: Now,
    ) -> rusqlite::Result<Seen> {
        let key = params![cluster, lease.as_str()];
        let leader = |row: &rusqlite::Row<'_>| {
            let expires_at: i64 = row.get(4)?;
            Ok(LeaderRow {
                node: row.get(0)?,
                token: row.get(1)?,
                term: row.get(2)?,
                lease_ms: row.get(3)?,
                expires_in_ms: expires_at.saturating_sub(now.0),
            })
        };
        let stored = || transaction.query_row(&self.term, key, |row| row.get(0)).optional();
        let look = || {
            let term = match stored()? {
                None if transaction.execute(&self.restore, key)? > 0 => stored()?,
                term => term,
            };
            Ok(LeaseRows {
                term,
                leader: transaction.query_row(&self.leader, key, leader).optional()?,
                is_released: transaction.query_row(&self.released, key, |row| row.get(0))?,
            })
        };
        let rows = match look() {
            Ok(rows) => Ok(rows),
            Err(error) if is_about_a_value(&error) => Err(error.to_string()),
            Err(error) => return Err(error),
        };
        Ok(rows::seen(lease, outcome, rows))
    }
}
