//! A database under test, and what contenders ask of it.

use std::time::Duration;

use headcount::NodeId;
use headcount::lease::store::{Store, StoreError, StoreOptions, StoreUrl};
use headcount::lease::{Answer, LeaseName, Outcome, Round, Seen, Step, StepRequest, Token};

/// The length of leases in most cases: nothing expires unless a case says so.
pub const LEASE: Duration = Duration::from_secs(600);

pub use crate::support::PATIENCE;

/// A database under test, empty at first, and a way to do what no store does.
pub struct Bench {
    pub url: StoreUrl,
    pub options: StoreOptions,
    pub raw: Raw,
}

/// Runs statements past the store. `{P}` stands for the qualified prefix of tables.
pub enum Raw {
    Sqlite(std::path::PathBuf, tempfile::TempDir),
    Postgres(tokio_postgres::Client),
}

impl Bench {
    /// Returns one more store of this database.
    pub fn store(&self) -> Store {
        Store::new(&self.url, self.options.clone()).expect("the options are good")
    }

    /// Returns a node with a store of its own.
    pub fn node(&self, name: &str) -> Node {
        Node { id: NodeId::new(name).expect("a name"), store: self.store() }
    }

    /// Returns the file; there must be one.
    pub fn file(&self) -> &std::path::Path {
        match &self.raw {
            Raw::Sqlite(file, _) => file,
            Raw::Postgres(_) => unreachable!("it is a server"),
        }
    }

    /// Runs a statement past the store; how many rows it changed.
    pub async fn sql(&self, statement: &str) -> u64 {
        match &self.raw {
            Raw::Sqlite(file, _) => {
                let connection = rusqlite::Connection::open(file).expect("it opens");
                connection.busy_timeout(PATIENCE).expect("a timeout");
                connection.execute(&statement.replace("{P}", "cluster_"), []).expect(statement) as u64
            }
            Raw::Postgres(client) => {
                let schema = self.options.schema().expect("each case has its own");
                let statement = statement.replace("{P}", &format!("\"{schema}\".cluster_"));
                client.execute(&statement, &[]).await.expect(&statement)
            }
        }
    }

    /// Lets so much time pass, for every row there is.
    pub async fn age(&self, by: Duration) {
        let by = self.interval(by);
        self.sql(&format!("update {{P}}nodes set updated_at = updated_at - {by}")).await;
        self.sql(&format!("update {{P}}leases set updated_at = updated_at - {by}, expires_at = expires_at - {by}"))
            .await;
    }

    /// Returns a length of time as the database's statements write it.
    pub fn interval(&self, by: Duration) -> String {
        match &self.raw {
            Raw::Sqlite(..) => by.as_millis().to_string(),
            Raw::Postgres(_) => format!("interval '{} milliseconds'", by.as_millis()),
        }
    }
}

/// A node that asks one thing at a time.
pub struct Node {
    pub id: NodeId,
    pub store: Store,
}

impl Node {
    /// Returns a round with these steps.
    pub fn round_of(&self, steps: Vec<(&str, StepRequest)>) -> Round {
        let step = |(lease, request)| Step { lease: LeaseName::new(lease).expect("a name"), request };
        Round {
            node: self.id.clone(),
            rpc_address: Some(([10, 0, 0, 1], 7118).into()),
            lease_duration: LEASE,
            steps: steps.into_iter().map(step).collect(),
        }
    }

    pub async fn ask(&mut self, steps: Vec<(&str, StepRequest)>) -> Answer {
        let round = self.round_of(steps);
        self.store.round(&round).await.expect("an answer")
    }

    pub async fn one(&mut self, request: StepRequest) -> Seen {
        self.try_one(request).await.expect("an answer")
    }

    pub async fn try_one(&mut self, request: StepRequest) -> Result<Seen, StoreError> {
        let round = self.round_of(vec![("default", request)]);
        self.store.round(&round).await.map(|mut answer| answer.steps.remove(0))
    }

    pub async fn watch(&mut self) -> Seen {
        self.one(StepRequest::Watch).await
    }
}

pub fn acquire(drawn: u128) -> StepRequest {
    StepRequest::Acquire { drawn: Token(drawn), above: 0, expired: None, missing: None }
}

pub fn take_over(drawn: u128, expired: u128) -> StepRequest {
    StepRequest::Acquire { drawn: Token(drawn), above: 0, expired: Some(Token(expired)), missing: None }
}

/// Takes the lease, though the row of this term is missing.
pub fn missing(drawn: u128, term: u64) -> StepRequest {
    StepRequest::Acquire { drawn: Token(drawn), above: 0, expired: None, missing: Some(term) }
}

pub fn renew(held: &[u128], drawn: u128) -> StepRequest {
    StepRequest::Renew { held: held.iter().copied().map(Token).collect(), drawn: Token(drawn) }
}

pub fn release(held: &[u128]) -> StepRequest {
    StepRequest::Release { held: held.iter().copied().map(Token).collect() }
}

/// Returns the outcome, the term and the holder, without times.
pub fn holding(seen: &Seen) -> (Outcome, u64, Option<(&str, u128, u64)>) {
    let shown = seen.holder.as_ref().map(|holder| (holder.node.as_str(), holder.token.0, holder.term));
    (seen.outcome, seen.term, shown)
}
