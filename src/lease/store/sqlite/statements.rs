//! A round, a list and a sweep in SQLite's SQL.
//!
//! Invariants: every comparison with a row is made by a statement, with the transaction's one time. Since the
//! transaction is the only writer there is no conflict: a contender that comes second finds the lease held.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{OptionalExtension, Transaction, params};

use super::database::{Database, Now, Trouble};
use crate::lease::store::rows::{self, LeaderRow};
use crate::lease::store::schema::MAX_TERM;
use crate::lease::store::standing::{Expired, MAX_STANDING};
use crate::lease::store::{MAX_NODES, StoreError, StoreOptions, millis};
use crate::lease::{Answer, LeaseName, NodeRow, Outcome, Round, Seen, Token, Wish};

/// Statements with the names of their tables.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) version: String,
    heartbeat: String,
    clear: String,
    take: String,
    count: String,
    own_term: String,
    renew: String,
    release: String,
    leader: String,
    term: String,
    nodes: String,
    sweep_nodes: String,
    sweep_leases: String,
    expired: String,
    sweep_expired: String,
}

impl Statements {
    pub(super) fn new(options: &StoreOptions) -> Self {
        let [nodes, leases, terms, version] = ["nodes", "leases", "terms", "version"].map(|name| options.table(name));
        Self {
            version: format!("select version from {version}"),
            // The heartbeat never touches a leader's columns: they are in another table.
            heartbeat: format!(
                "insert into {nodes} (cluster, node_id, rpc_addr, updated_at) values (?1, ?2, ?3, ?4)
                 on conflict (cluster, node_id) do update set rpc_addr = excluded.rpc_addr, updated_at = excluded.updated_at"
            ),
            // An expiry further off than the lease is long was written by another clock, see `rows`.
            clear: format!(
                "update {leases} set is_leader = 0
                 where cluster = ?1 and lease = ?2 and is_leader and lease_token = ?3
                 and (expires_at <= ?4 or expires_at > ?4 + lease_ms)"
            ),
            take: format!(
                "insert into {leases}
                 (cluster, lease, node_id, is_leader, lease_token, term, lease_ms, expires_at, updated_at)
                 select ?1, ?2, ?3, 1, ?4, 0, ?5, ?6, ?7
                 where not exists (select 1 from {leases} where cluster = ?1 and lease = ?2 and is_leader)
                 on conflict (cluster, lease, node_id) do update set is_leader = 1, lease_token = excluded.lease_token,
                 term = 0, lease_ms = excluded.lease_ms, expires_at = excluded.expires_at, updated_at = excluded.updated_at"
            ),
            count: format!(
                "insert into {terms} (cluster, lease, term) values (?1, ?2, ?3 + 1)
                 on conflict (cluster, lease) do update set term = max(term, ?3) + 1 returning term"
            ),
            own_term: format!("update {leases} set term = ?4 where cluster = ?1 and lease = ?2 and node_id = ?3"),
            renew: format!(
                "update {leases} set lease_token = ?5, lease_ms = ?6, expires_at = ?7, updated_at = ?8
                 where cluster = ?1 and lease = ?2 and node_id = ?3 and lease_token = ?4 and is_leader and expires_at > ?8"
            ),
            release: format!(
                "update {leases} set is_leader = 0, expires_at = ?5, updated_at = ?5
                 where cluster = ?1 and lease = ?2 and node_id = ?3 and lease_token = ?4 and is_leader"
            ),
            leader: format!(
                "select node_id, lease_token, term, lease_ms, expires_at from {leases}
                 where cluster = ?1 and lease = ?2 and is_leader"
            ),
            term: format!("select term from {terms} where cluster = ?1 and lease = ?2"),
            nodes: format!(
                "select node_id, rpc_addr, updated_at from {nodes} where cluster = ?1
                 order by updated_at desc, node_id limit {MAX_NODES}"
            ),
            sweep_nodes: format!("delete from {nodes} where cluster = ?1 and updated_at < ?2"),
            sweep_leases: format!("delete from {leases} where cluster = ?1 and updated_at < ?2 and not is_leader"),
            expired: format!(
                "select lease, lease_token, lease_ms from {leases}
                 where cluster = ?1 and updated_at < ?2 and is_leader and expires_at <= ?3
                 order by lease limit {MAX_STANDING}"
            ),
            sweep_expired: format!(
                "delete from {leases} where cluster = ?1 and lease = ?2 and lease_token = ?3 and is_leader
                 and updated_at < ?4 and expires_at <= ?5"
            ),
        }
    }

    fn seen(
        &self,
        transaction: &Transaction<'_>,
        cluster: &str,
        lease: &LeaseName,
        outcome: Outcome,
        now: Now,
        place: &str,
    ) -> Result<Seen, Trouble> {
        let damaged = |reason| Trouble::Store(StoreError::Damaged { place: place.to_owned(), reason });
        let key = params![cluster, lease.as_str()];
        let stored: Option<i64> = transaction.query_row(&self.term, key, |row| row.get(0)).optional()?;
        let no_term = || damaged(format!("the term of the lease {lease} is none"));
        let term = rows::term(stored.unwrap_or(0)).ok_or_else(no_term)?;
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
        let row = transaction.query_row(&self.leader, key, leader).optional()?;
        let holder = row.map(|row| row.holder()).transpose().map_err(damaged)?;
        Ok(Seen { outcome, term, holder })
    }
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
        let place = self.place();
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
                let outcome = statements.carry_out(transaction, &asking, &step.lease, &step.wish, &place)?;
                steps.push(statements.seen(transaction, &cluster, &step.lease, outcome, now, &place)?);
            }
            Ok(Answer { steps })
        })
    }

    /// Returns the liveness rows, newest first.
    pub(super) fn nodes(&mut self) -> Result<Vec<NodeRow>, StoreError> {
        let place = self.place();
        let (cluster, list) = (self.options.cluster().to_owned(), self.statements.nodes.clone());
        self.transact(|transaction, now| {
            let mut statement = transaction.prepare(&list)?;
            let mut found = statement.query([&cluster])?;
            let mut nodes = Vec::new();
            while let Some(row) = found.next()? {
                let (node, address, updated_at): (String, Option<String>, i64) =
                    (row.get(0)?, row.get(1)?, row.get(2)?);
                let row = rows::node_row(&node, address.as_deref(), now.0.saturating_sub(updated_at));
                nodes.push(row.map_err(|reason| Trouble::Store(StoreError::Damaged { place: place.clone(), reason }))?);
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
            let met: Vec<Expired> =
                expired.query_map(params![cluster, before, now.0], row)?.collect::<Result<_, _>>()?;
            Ok((nodes + leases, met))
        })?;
        let may_go = self.standing.meet(met, Instant::now());
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
        wish: &Wish,
        place: &str,
    ) -> Result<Outcome, Trouble> {
        match wish {
            Wish::Watch => Ok(Outcome::Watched),
            Wish::Acquire { drawn, above, expired } => {
                self.acquire(transaction, asking, lease, (*drawn, *above, *expired), place)
            }
            Wish::Renew { held, drawn } => {
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
            Wish::Release { held } => {
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
        (drawn, above, expired): (Token, u64, Option<Token>),
        place: &str,
    ) -> Result<Outcome, Trouble> {
        let Asking { cluster, node, lease_ms, expires_at, now } = asking;
        let exhausted =
            || Trouble::Store(StoreError::TermsExhausted { place: place.to_owned(), lease: lease.to_string(), above });
        let above = i64::try_from(above).ok().filter(|_| above < MAX_TERM).ok_or_else(exhausted)?;
        let lease_key = lease.as_str();
        if let Some(expired) = expired {
            transaction.execute(&self.clear, params![cluster, lease_key, expired.to_string(), now.0])?;
        }
        let row = params![cluster, lease_key, node, drawn.to_string(), lease_ms, expires_at, now.0];
        if transaction.execute(&self.take, row)? == 0 {
            return Ok(Outcome::Held);
        }
        let count = transaction.query_row(&self.count, params![cluster, lease_key, above], |row| row.get(0));
        let term: i64 = match count {
            Err(rusqlite::Error::SqliteFailure(error, _)) if error.code == rusqlite::ErrorCode::ConstraintViolation => {
                return Err(exhausted());
            }
            other => other?,
        };
        transaction.execute(&self.own_term, params![cluster, lease_key, node, term])?;
        Ok(Outcome::Acquired)
    }
}
