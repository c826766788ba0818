//! A model of a lease database: it executes rounds as SQLite and PostgreSQL must, by a clock of its own.
//!
//! Everything that can go wrong *in* a database is here: its clock steps, it fails over to a replica that lost commits,
//! it is replaced by an empty one, it becomes read-only, its rows are swept. Anything that goes wrong between it and
//! its clients (lost or late requests and answers, cuts) is up to the caller.
//!
//! Invariants, as in [`Round`]: a round is executed as a whole or not at all; only the database's clock
//! is compared with rows; a lease is free only if nobody ever held it or its last holder released it.
//!
//! Must not know: contenders.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use crate::{Answer, Holder, LeaseName, NodeRow, Outcome, Round, Seen, Step, StepRequest, Token};
use headcount_core::NodeId;

/// The largest number of commits that a replica may lack.
const MAX_LOST: usize = 64;
/// The initial reading of the database's clock: no step back goes below zero.
const EPOCH: Duration = Duration::from_secs(1 << 32);

/// Error: the database is read-only, and no part of the round was executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the database takes no writes")]
pub struct ReadOnly;

/// An acquisition or a renewal that was committed, and then lost in a fail-over.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lost {
    /// Name of the lease.
    pub lease: LeaseName,
    /// The token that was written.
    pub token: Token,
    /// The term at the time of the commit.
    pub term: u64,
    /// True for an acquisition, which began the term; false for a renewal.
    pub is_acquisition: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Row {
    node: NodeId,
    token: Token,
    term: u64,
    lease: Duration,
    expires: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Tables {
    terms: BTreeMap<LeaseName, u64>,
    holders: BTreeMap<LeaseName, Row>,
    /// The terms of rows that say that their holders gave the lease up.
    released: BTreeMap<LeaseName, u64>,
    /// The leases whose rows were deleted by hand since they were acquired last.
    deleted: BTreeSet<LeaseName>,
    nodes: BTreeMap<NodeId, (Option<SocketAddr>, Duration)>,
}

impl Tables {
    /// Returns the highest term that a lease's rows show.
    fn shown(&self, lease: &LeaseName) -> Option<u64> {
        self.holders.get(lease).map(|row| row.term).max(self.released.get(lease).copied())
    }
}

/// A commit: the tables before it, and the grants in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Commit {
    before: Tables,
    granted: Vec<Lost>,
}

/// A database of leases. Times passed in are true time since the beginning of the run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Database {
    tables: Tables,
    commits: VecDeque<Commit>,
    /// Error of the database's clock: it shows true time since [`EPOCH`], plus `ahead`, less `behind`.
    ahead: Duration,
    behind: Duration,
    is_read_only: bool,
    /// A planted bug: the sweep frees expired leases.
    sweep_frees: bool,
}

impl Default for Database {
    fn default() -> Self {
        Self::new()
    }
}

impl Database {
    /// Creates an empty database.
    pub fn new() -> Self {
        Self {
            tables: Tables::default(),
            commits: VecDeque::new(),
            ahead: Duration::ZERO,
            behind: Duration::ZERO,
            is_read_only: false,
            sweep_frees: false,
        }
    }

    fn clock(&self, now: Duration) -> Duration {
        (EPOCH + now + self.ahead).saturating_sub(self.behind)
    }

    /// Steps the clock forward.
    pub fn step_forward(&mut self, by: Duration) {
        self.ahead += by;
    }

    /// Steps the clock back.
    pub fn step_back(&mut self, by: Duration) {
        self.behind += by;
    }

    /// Makes the database read-only, or writable again.
    pub fn set_read_only(&mut self, is_read_only: bool) {
        self.is_read_only = is_read_only;
    }

    /// Plants a bug: the sweep frees expired leases.
    pub fn let_sweeps_free(&mut self) {
        self.sweep_frees = true;
    }

    /// Fails over to a replica that lacks the last `commits` commits; returns the grants in them.
    pub fn fail_over(&mut self, commits: usize) -> Vec<Lost> {
        let mut lost = Vec::new();
        for _ in 0..commits {
            let Some(commit) = self.commits.pop_back() else { break };
            self.tables = commit.before;
            lost.extend(commit.granted);
        }
        self.is_read_only = false;
        lost
    }

    /// Replaces the database by an empty one; returns the grants in the commits that the old one still kept.
    pub fn replace(&mut self) -> Vec<Lost> {
        self.tables = Tables::default();
        self.is_read_only = false;
        self.commits.drain(..).flat_map(|commit| commit.granted).collect()
    }

    /// Deletes a lease's rows, as a person would; its term stays.
    pub fn delete(&mut self, lease: &LeaseName) {
        let before = self.tables.clone();
        self.tables.holders.remove(lease);
        self.tables.released.remove(lease);
        self.tables.deleted.insert(lease.clone());
        self.commit(before, Vec::new());
    }

    /// Deletes a lease's term, as a person would. Its rows stay; the highest term among them is what is left to go by.
    /// Returns false, and deletes nothing, if there is none.
    pub fn delete_term(&mut self, lease: &LeaseName) -> bool {
        let before = self.tables.clone();
        let is_shown = self.tables.shown(lease).is_some();
        if is_shown {
            self.tables.terms.remove(lease);
            self.commit(before, Vec::new());
        }
        is_shown
    }

    /// Sets the term of a lease that nobody holds, and which its last holder gave up.
    pub fn set_term(&mut self, lease: &LeaseName, term: u64) {
        self.tables.terms.insert(lease.clone(), term);
        self.tables.released.insert(lease.clone(), term);
    }

    /// Deletes liveness rows older than `row_ttl`.
    pub fn sweep(&mut self, now: Duration, row_ttl: Duration) {
        let clock = self.clock(now);
        let before = self.tables.clone();
        self.tables.nodes.retain(|_, (_, updated)| clock.saturating_sub(*updated) <= row_ttl);
        if self.sweep_frees {
            let nodes = &self.tables.nodes;
            self.tables.holders.retain(|_, row| clock < row.expires || nodes.contains_key(&row.node));
        }
        self.commit(before, Vec::new());
    }

    /// Returns all liveness rows.
    pub fn nodes(&self, now: Duration) -> Vec<NodeRow> {
        let clock = self.clock(now);
        let row = |(node, (rpc_address, updated)): (&NodeId, &(Option<SocketAddr>, Duration))| NodeRow {
            node: node.clone(),
            rpc_address: *rpc_address,
            age: clock.saturating_sub(*updated),
        };
        self.tables.nodes.iter().map(row).collect()
    }

    /// Returns the highest term of a lease, and the token in its row.
    pub fn look(&self, lease: &LeaseName) -> (u64, Option<Token>) {
        (self.term(lease), self.tables.holders.get(lease).map(|row| row.token))
    }

    /// Returns the node in a lease's row.
    pub fn holder(&self, lease: &LeaseName) -> Option<NodeId> {
        self.tables.holders.get(lease).map(|row| row.node.clone())
    }

    fn term(&self, lease: &LeaseName) -> u64 {
        self.tables.terms.get(lease).copied().or_else(|| self.tables.shown(lease)).unwrap_or(0)
    }

    /// Executes a round, as a whole.
    pub fn execute(&mut self, now: Duration, round: &Round) -> Result<Answer, ReadOnly> {
        if self.is_read_only {
            return Err(ReadOnly);
        }
        let clock = self.clock(now);
        let before = self.tables.clone();
        let mut granted = Vec::new();
        self.tables.nodes.insert(round.node.clone(), (round.rpc_address, clock));
        let mut steps = Vec::with_capacity(round.steps.len());
        for Step { lease, request } in &round.steps {
            let outcome = self.step(clock, round, lease, request);
            let term = self.term(lease);
            let row = self.tables.holders.get(lease);
            if let (Outcome::Acquired | Outcome::Renewed, Some(row)) = (outcome, row) {
                let (lease, is_acquisition) = (lease.clone(), outcome == Outcome::Acquired);
                granted.push(Lost { lease, token: row.token, term, is_acquisition });
            }
            let holder = row.map(|row| Holder {
                node: row.node.clone(),
                token: row.token,
                term,
                lease_duration: row.lease,
                expires_in: row.expires.saturating_sub(clock),
            });
            let is_released = holder.is_none() && term > 0 && !self.tables.deleted.contains(lease);
            steps.push(Seen { outcome, term, holder, is_released });
        }
        self.commit(before, granted);
        Ok(Answer { steps })
    }

    fn step(&mut self, clock: Duration, round: &Round, lease: &LeaseName, request: &StepRequest) -> Outcome {
        let row = self.tables.holders.get(lease);
        let is_own = |held: &[Token]| row.is_some_and(|row| row.node == round.node && held.contains(&row.token));
        let write = |token, term| Row {
            node: round.node.clone(),
            token,
            term,
            lease: round.lease_duration,
            expires: clock + round.lease_duration,
        };
        match request {
            StepRequest::Watch => Outcome::Watched,
            StepRequest::Acquire { drawn, above, expired, missing } => {
                let stored = self.term(lease);
                let is_missing = row.is_none() && stored > 0 && self.tables.deleted.contains(lease);
                if row.is_some_and(|row| !has_expired(row, clock) || *expired != Some(row.token))
                    || (is_missing && *missing != Some(stored))
                {
                    return Outcome::Held;
                }
                let term = self.term(lease).max(*above) + 1;
                let row = write(*drawn, term);
                self.tables.terms.insert(lease.clone(), term);
                self.tables.holders.insert(lease.clone(), row);
                self.tables.released.remove(lease);
                self.tables.deleted.remove(lease);
                Outcome::Acquired
            }
            StepRequest::Renew { held, drawn } => {
                if !is_own(held) || row.is_some_and(|row| row.expires <= clock) {
                    return Outcome::Rejected;
                }
                let row = write(*drawn, row.map_or(0, |row| row.term));
                self.tables.holders.insert(lease.clone(), row);
                Outcome::Renewed
            }
            StepRequest::Release { held } => {
                if !is_own(held) {
                    return Outcome::Rejected;
                }
                if let Some(row) = self.tables.holders.remove(lease) {
                    self.tables.released.insert(lease.clone(), row.term);
                }
                Outcome::Released
            }
        }
    }

    fn commit(&mut self, before: Tables, granted: Vec<Lost>) {
        if self.commits.len() == MAX_LOST {
            self.commits.pop_front();
        }
        self.commits.push_back(Commit { before, granted });
    }

    /// Forgets past commits, so that none can be lost: fewer states for a model checker.
    pub fn forget_commits(&mut self) {
        self.commits.clear();
    }
}

/// Returns true if a row is past its expiry, or if the expiry is further away than the lease is long, which means that
/// the clock was stepped back.
fn has_expired(row: &Row, clock: Duration) -> bool {
    row.expires <= clock || row.expires > clock + row.lease
}
