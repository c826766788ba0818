//! A round in PostgreSQL.
//!
//! ```text
//!   begin, limits, lock, clock ─▶ heartbeat, renewals, releases ─▶ (acquisitions, one by one) ─▶ look, commit
//! ```
//!
//! A round takes two round trips if nothing is acquired, whatever the number of leases.
//!
//! Invariants: the clock is read once, when the leaders' rows that the round may change are locked. Each acquisition
//! has a savepoint: one that loses a race loses nothing else. Leases are gone through in the order of their names, in
//! which locks are taken.
//!
//! Must not know: how connections are made.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use tokio::time::timeout_at;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::pipeline::{Statement, Value, run};
use super::session::Session;
use super::statements::{CLOCK, Statements};
use super::request_error::{Stage, RequestError, classify, late};
use crate::lease::store::rows::{self, LeaderRow, LeaseRows};
use crate::lease::store::schema::MAX_TERM;
use crate::lease::store::{StoreError, millis};
use crate::lease::{Answer, LeaseName, Outcome, Round, Step, StepRequest};

/// A round's values, as its statements take them.
struct Asking<'a> {
    cluster: &'a str,
    node: &'a str,
    address: Option<String>,
    lease_ms: i64,
    now: SystemTime,
    expires_at: SystemTime,
}

impl Session<'_> {
    /// Carries out a round.
    pub(super) async fn round(&self, round: &Round) -> Result<Answer, RequestError> {
        let acquisitions = acquisitions(round);
        let changed = ChangedRows::of(round);
        let now = self.begin(round).await?;
        let lease_ms = millis(round.lease_duration);
        let too_far = || StoreError::configuration("lease_duration", "reaches beyond all calendars");
        let expires_at = now.checked_add(Duration::from_millis(lease_ms.cast_unsigned())).ok_or_else(too_far)?;
        let address = round.rpc_address.map(|address| address.to_string());
        let (cluster, node) = (self.options.cluster(), round.node.as_str());
        let asking = Asking { cluster, node, address, lease_ms, now, expires_at };

        let mut statements = changed.statements(self.statements, &asking);
        let leases: Vec<&str> = round.steps.iter().map(|step| step.lease.as_str()).collect();
        let values: Vec<Value<'_>> =
            vec![(&asking.cluster, Type::TEXT), (&leases, Type::TEXT_ARRAY), (&asking.now, Type::TIMESTAMPTZ)];
        let look = [Statement::new(&self.statements.look, values), Statement::new("commit", Vec::new())];
        let mut won = Won::default();
        let looked = if acquisitions.is_empty() {
            let place = statements.len();
            statements.extend(look);
            let mut rows = self.ask(&statements, Stage::Committing).await?;
            won.note(self, &rows[..place])?;
            rows.swap_remove(place)
        } else {
            let rows = self.ask(&statements, Stage::Before).await?;
            won.note(self, &rows)?;
            for (lease, request) in acquisitions {
                let outcome = self.acquire(&asking, lease, request).await?;
                won.acquired.insert(lease.clone(), outcome);
            }
            self.ask(&look, Stage::Committing).await?.swap_remove(0)
        };
        if looked.len() != round.steps.len() {
            return Err(self.damaged("a lease has two leaders: the unique index is missing").into());
        }
        let mut steps = Vec::with_capacity(looked.len());
        for (step, row) in round.steps.iter().zip(&looked) {
            steps.push(rows::seen(&step.lease, won.outcome(step), read(row).map_err(|error| error.to_string())));
        }
        Ok(Answer { steps })
    }

    /// Begins, locks the rows that may be changed, and reads the clock.
    async fn begin(&self, round: &Round) -> Result<SystemTime, RequestError> {
        let is_change = |request: &StepRequest| !matches!(request, StepRequest::Watch);
        let changing = round.steps.iter().filter(|step| is_change(&step.request));
        let leases: Vec<&str> = changing.map(|step| step.lease.as_str()).collect();
        let cluster = self.options.cluster();
        let mut statements = self.beginning();
        if !leases.is_empty() {
            let values: Vec<Value<'_>> = vec![(&cluster, Type::TEXT), (&leases, Type::TEXT_ARRAY)];
            statements.push(Statement::new(&self.statements.lock, values));
        }
        statements.push(Statement::new(CLOCK, Vec::new()));
        let rows = self.ask(&statements, Stage::Before).await?;
        let clock = rows.last().and_then(|rows| rows.first()).map(|row| row.try_get(0));
        match clock {
            Some(Ok(now)) => Ok(now),
            _ => Err(self.damaged("the server tells no time").into()),
        }
    }

    async fn acquire(&self, asking: &Asking<'_>, lease: &LeaseName, request: &StepRequest) -> Result<Outcome, RequestError> {
        let StepRequest::Acquire { drawn, above, expired, missing } = request else { return Ok(Outcome::Held) };
        let Some(above) = i64::try_from(*above).ok().filter(|above| *above < MAX_TERM.cast_signed()) else {
            return Ok(Outcome::Exhausted);
        };
        let (drawn, expired) = (drawn.to_string(), expired.map(|token| token.to_string()));
        // No stored term is as high as one that does not fit.
        let missing = missing.map(|term| i64::try_from(term).unwrap_or(i64::MAX));
        let Asking { cluster, node, lease_ms, now, expires_at, .. } = asking;
        let lease = lease.as_str();
        let mut statements = vec![Statement::new("savepoint acquiring", Vec::new())];
        let (text, time, int8) = (Type::TEXT, Type::TIMESTAMPTZ, Type::INT8);
        if let Some(expired) = &expired {
            statements.push(Statement::new(
                &self.statements.clear,
                vec![(cluster, text.clone()), (&lease, text.clone()), (expired, text.clone()), (now, time.clone())],
            ));
        }
        statements.push(Statement::new(
            &self.statements.take,
            vec![
                (cluster, text.clone()),
                (&lease, text.clone()),
                (node, text.clone()),
                (&drawn, text.clone()),
                (lease_ms, int8.clone()),
                (expires_at, time.clone()),
                (now, time),
                (&missing, int8.clone()),
            ],
        ));
        statements.push(Statement::new(
            &self.statements.count,
            vec![(cluster, text.clone()), (&lease, text.clone()), (node, text.clone()), (&drawn, text), (&above, int8)],
        ));
        match timeout_at(self.deadline, run(self.client, &statements)).await {
            Ok(Ok(rows)) => {
                let counted = rows.last().is_some_and(|rows| !rows.is_empty());
                Ok(if counted { Outcome::Acquired } else { Outcome::Held })
            }
            Ok(Err((_, error))) => {
                let outcome = match error.code() {
                    Some(&SqlState::UNIQUE_VIOLATION) => Outcome::Conflict,
                    Some(&(SqlState::CHECK_VIOLATION | SqlState::NUMERIC_VALUE_OUT_OF_RANGE)) => Outcome::Exhausted,
                    _ => return Err(classify(&error, Stage::Before, self.place, self.options)),
                };
                let back = [Statement::new("rollback to savepoint acquiring", Vec::new())];
                self.ask(&back, Stage::Before).await?;
                Ok(outcome)
            }
            Err(_) => Err(late(Stage::Before, self.place, self.options.statement_timeout())),
        }
    }
}

/// Returns a lease's rows as they stand after the round.
fn read(row: &Row) -> Result<LeaseRows, tokio_postgres::Error> {
    let node: Option<String> = row.try_get(1)?;
    let leader = |node| -> Result<LeaderRow, tokio_postgres::Error> {
        Ok(LeaderRow {
            node,
            token: row.try_get(2)?,
            term: row.try_get(3)?,
            lease_ms: row.try_get(4)?,
            expires_in_ms: row.try_get(5)?,
        })
    };
    Ok(LeaseRows { term: row.try_get(0)?, leader: node.map(leader).transpose()?, is_released: row.try_get(6)? })
}

/// Returns the acquisitions, in the order in which locks are taken.
fn acquisitions(round: &Round) -> Vec<(&LeaseName, &StepRequest)> {
    let is_acquisition = |step: &&Step| matches!(step.request, StepRequest::Acquire { .. });
    let mut found: Vec<_> = round.steps.iter().filter(is_acquisition).map(|step| (&step.lease, &step.request)).collect();
    found.sort_unstable_by_key(|(lease, _)| *lease);
    found
}

/// Renewals and releases, as columns.
#[derive(Default)]
struct ChangedRows {
    renewed: Vec<String>,
    renewed_held: Vec<String>,
    renewed_drawn: Vec<String>,
    released: Vec<String>,
    released_held: Vec<String>,
}

impl ChangedRows {
    fn of(round: &Round) -> Self {
        let mut rows = Self::default();
        for step in &round.steps {
            match &step.request {
                StepRequest::Renew { held, drawn } => {
                    for token in held.iter().collect::<BTreeSet<_>>() {
                        rows.renewed.push(step.lease.to_string());
                        rows.renewed_held.push(token.to_string());
                        rows.renewed_drawn.push(drawn.to_string());
                    }
                }
                StepRequest::Release { held } => {
                    for token in held.iter().collect::<BTreeSet<_>>() {
                        rows.released.push(step.lease.to_string());
                        rows.released_held.push(token.to_string());
                    }
                }
                StepRequest::Watch | StepRequest::Acquire { .. } => {}
            }
        }
        rows
    }

    /// Returns the heartbeat, and renewals and releases if there are any.
    fn statements<'a>(&'a self, statements: &'a Statements, asking: &'a Asking<'a>) -> Vec<Statement<'a>> {
        let (text, texts, time) = (Type::TEXT, Type::TEXT_ARRAY, Type::TIMESTAMPTZ);
        let heartbeat = Statement::new(
            &statements.heartbeat,
            vec![
                (&asking.cluster, text.clone()),
                (&asking.node, text.clone()),
                (&asking.address, text.clone()),
                (&asking.now, time.clone()),
            ],
        );
        let mut list = vec![heartbeat];
        if !self.renewed.is_empty() {
            list.push(Statement::new(
                &statements.renew,
                vec![
                    (&asking.cluster, text.clone()),
                    (&asking.node, text.clone()),
                    (&asking.now, time.clone()),
                    (&asking.expires_at, time.clone()),
                    (&asking.lease_ms, Type::INT8),
                    (&self.renewed, texts.clone()),
                    (&self.renewed_held, texts.clone()),
                    (&self.renewed_drawn, texts.clone()),
                ],
            ));
        }
        if !self.released.is_empty() {
            list.push(Statement::new(
                &statements.release,
                vec![
                    (&asking.cluster, text.clone()),
                    (&asking.node, text),
                    (&asking.now, time),
                    (&self.released, texts.clone()),
                    (&self.released_held, texts),
                ],
            ));
        }
        list
    }
}

/// The results of a round's changes.
#[derive(Default)]
struct Won {
    /// The leases renewed or released: a round has one request for each.
    changed: BTreeSet<String>,
    acquired: BTreeMap<LeaseName, Outcome>,
}

impl Won {
    /// Notes the answers to renewals and releases. A heartbeat answers nothing.
    fn note(&mut self, session: &Session<'_>, rows: &[Vec<Row>]) -> Result<(), RequestError> {
        for row in rows.iter().flatten() {
            self.changed.insert(row.try_get(0).map_err(|error| session.damaged(error))?);
        }
        Ok(())
    }

    fn outcome(&self, step: &Step) -> Outcome {
        let is_changed = self.changed.contains(step.lease.as_str());
        match &step.request {
            StepRequest::Watch => Outcome::Watched,
            StepRequest::Acquire { .. } => self.acquired.get(&step.lease).copied().unwrap_or(Outcome::Held),
            StepRequest::Renew { .. } if is_changed => Outcome::Renewed,
            StepRequest::Release { .. } if is_changed => Outcome::Released,
            StepRequest::Renew { .. } | StepRequest::Release { .. } => Outcome::Rejected,
        }
    }
}
