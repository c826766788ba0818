//! Leases in PostgreSQL: for many machines, also through a pooler in transaction mode.
//!
//! Invariants:
//! - Nothing rests on the session from one transaction to the next: unnamed statements, settings local to the transaction
//!   (but for keepalives), no advisory locks, no notifications. A pooler may give every transaction another session.
//! - A request has the connection to itself. If it is dropped or fails half-way, the connection is closed, and the
//!   server rolls back; the next request connects again.
//! - A request takes at most the statement timeout; where there was no connection, the same once more, and for each host the
//!   connect timeout.
//!
//! A commit is as durable as the server makes it: with `synchronous_commit = off`, or a fail-over to a replica that is
//! not synchronous, an answered commit can be lost. Terms then catch what claims cannot.
//!
//! | idea | file |
//! |---|---|
//! | addresses, the environment, passwords, TLS | `url`, `parameters`, `password`, `tls` |
//! | one host after the other | `connect` |
//! | the tables | `tables` |
//! | statements, sent without waiting in between | `statements`, `pipeline` |
//! | requests within a connection: lists and sweeps; a round | `session`, `round` |
//! | the meaning of errors, before and while committing | `request_error` |

mod connect;
mod parameters;
mod password;
mod pipeline;
mod request_error;
mod round;
mod session;
mod statements;
mod tables;
mod tls;
mod url;

use std::time::{Duration, Instant};

use tokio::time::timeout;
use tokio_postgres::Client;

pub use parameters::MAX_HOSTS;
pub use url::PostgresUrl;

use super::unchanged::UnchangedRows;
use super::{StoreError, StoreOptions, millis};
use crate::lease::{Answer, NodeRow, Round};
use connect::Connection;
use parameters::{Environment, Parameters};
use pipeline::Statement;
use request_error::{Remedy, RequestError, Stage};
use session::{Reply, Request, Session};
use statements::{KEEPALIVES, Statements};

/// A store of leases on a server.
pub struct PostgresStore {
    place: String,
    options: StoreOptions,
    parameters: Parameters,
    statements: Statements,
    /// The server's limit for one statement, in milliseconds: less than the caller's for all, so that an answer comes
    /// in time.
    limit: String,
    connection: Option<Connection>,
    unchanged: UnchangedRows,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").field("place", &self.place).finish_non_exhaustive()
    }
}

/// Returns the parameters as this process's environment completes them.
fn here(url: &PostgresUrl, options: &StoreOptions) -> Result<Parameters, StoreError> {
    let variable = |name: &str| std::env::var(name).ok();
    let exists = |path: &std::path::Path| path.exists();
    Parameters::new(url, options, &Environment { variable: &variable, user: user(), exists: &exists })
}

impl PostgresStore {
    pub(super) fn new(url: &PostgresUrl, options: StoreOptions) -> Result<Self, StoreError> {
        let parameters = here(url, &options)?;
        // So that what an owner is told to run is for the role that connects. A server turns down other names.
        let options = options.clone().with_role(&parameters.user).unwrap_or(options);
        let limit = millis(options.statement_timeout() * 3 / 4).to_string();
        let hosts = parameters.hosts.iter().map(|host| format!("{}:{}", host.name, host.port));
        let place = format!("postgres://{}/{}", hosts.collect::<Vec<_>>().join(","), parameters.database);
        let place = crate::text::visible(&place, crate::text::MAX_SHOWN * 2);
        let statements = Statements::new(&options);
        Ok(Self {
            place,
            options,
            parameters,
            statements,
            limit,
            connection: None,
            unchanged: UnchangedRows::default(),
        })
    }

    /// Makes the checks of [`new`](Self::new) and nothing else.
    pub(super) fn check(url: &PostgresUrl, options: &StoreOptions) -> Result<(), StoreError> {
        here(url, options).map(|_| ())
    }

    pub(super) async fn prepare(&mut self) -> Result<(), StoreError> {
        self.request(&Request::Prepare).await.map(|_| ())
    }

    pub(super) async fn round(&mut self, round: &Round) -> Result<Answer, StoreError> {
        match self.request(&Request::Round(round.clone())).await? {
            Reply::Answer(answer) => Ok(answer),
            other => unreachable!("a round was answered with {other:?}"),
        }
    }

    pub(super) async fn nodes(&mut self) -> Result<Vec<NodeRow>, StoreError> {
        match self.request(&Request::Nodes).await? {
            Reply::Nodes(nodes) => Ok(nodes),
            other => unreachable!("a list was answered with {other:?}"),
        }
    }

    pub(super) async fn sweep(&mut self, row_ttl: Duration) -> Result<usize, StoreError> {
        let row_ttl_ms = millis(row_ttl);
        let Reply::Swept { gone, met } = self.request(&Request::Sweep { row_ttl_ms }).await? else {
            unreachable!("a sweep is answered with what went");
        };
        let may_go = self.unchanged.meet(met, Instant::now());
        if may_go.is_empty() {
            return Ok(gone);
        }
        match self.request(&Request::SweepExpired { row_ttl_ms, may_go }).await? {
            Reply::Swept { gone: more, .. } => Ok(gone + more),
            other => unreachable!("a sweep was answered with {other:?}"),
        }
    }

    pub(super) async fn close(self) {
        if let Some(connection) = self.connection {
            connection.close().await;
        }
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Carries out a request over an open connection or a new one. A request that failed because its session had ended
    /// unnoticed, or because tables were dropped, is tried once more.
    async fn request(&mut self, request: &Request) -> Result<Reply, StoreError> {
        let was_connected = self.connection.as_ref().is_some_and(|connection| !connection.client.is_closed());
        let trouble = match self.attempt(request, false).await {
            Ok(reply) => return Ok(reply),
            Err(trouble) => trouble,
        };
        let again = match trouble.remedy {
            Remedy::Connect if was_connected => self.attempt(request, false).await,
            Remedy::MakeTables => self.attempt(request, true).await,
            _ => return Err(trouble.error),
        };
        again.map_err(|trouble| trouble.error)
    }

    async fn attempt(&mut self, request: &Request, is_table_missing: bool) -> Result<Reply, RequestError> {
        // The connection is out of `self` until all went well: if the request is dropped or fails half-way, it is
        // closed.
        let connection = match self.connection.take() {
            Some(connection) if !is_table_missing && !connection.client.is_closed() => connection,
            _ => self.connect(is_table_missing).await?,
        };
        let reply = self.session(&connection.client).carry_out(request).await?;
        self.connection = Some(connection);
        Ok(reply)
    }

    async fn connect(&self, is_table_missing: bool) -> Result<Connection, RequestError> {
        let connection = connect::connect(&self.parameters, &self.place).await?;
        let (options, place) = (&self.options, &self.place);
        let keepalives = [Statement::new(KEEPALIVES, Vec::new())];
        match timeout(options.statement_timeout(), pipeline::run(&connection.client, &keepalives)).await {
            // A server that does not let itself be told is led by all the same.
            Ok(_) => {}
            Err(_) => return Err(request_error::late(Stage::Before, place, options.statement_timeout())),
        }
        tables::make_sure(&connection.client, options, place, &self.limit, is_table_missing).await?;
        Ok(connection)
    }

    fn session<'a>(&'a self, client: &'a Client) -> Session<'a> {
        Session {
            client,
            statements: &self.statements,
            options: &self.options,
            place: &self.place,
            limit: &self.limit,
            deadline: tokio::time::Instant::now() + self.options.statement_timeout(),
        }
    }
}

/// Returns the name of the user that this process runs as.
fn user() -> Option<String> {
    #[cfg(unix)]
    {
        let found = nix::unistd::User::from_uid(nix::unistd::getuid());
        found.ok().flatten().map(|user| user.name)
    }
    #[cfg(not(unix))]
    {
        std::env::var("USERNAME").ok()
    }
}
