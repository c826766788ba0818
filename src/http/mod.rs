//! The HTTP interface: the agent's handle, for any language.
//!
//! [`http_reference`](crate::http_reference) has every call, and so have `GET /` and `GET /openapi.json`; `reference` is
//! the table that they come from.
//!
//! | idea | file |
//! |---|---|
//! | accepting connections; one connection; the table of all, and who makes room | `server`, `connection`, `table` |
//! | the checks of every request: tokens, names of the host; whose turn it is | `guard`, `access`, `host`, `turns` |
//! | what is taken from a request | `head`, `body`, `query`, `input` |
//! | members and commands; health; leaders and voters; keys; messages | `calls`, `health`, `leadership`, `keys`, `messages` |
//! | the stream of events, and its bytes; listings that many read; bytes that own their permit | `events`, `frames`, `listing/`, `held` |
//! | metrics, and their text forms | `metrics`, `handler_metrics`, `exposition` |
//! | the dashboard | `dashboard` |
//! | refusals | `problem/` |
//! | limits that more than one of these keeps | `limits` |
//!
//! Invariants:
//! - Nothing that arrives here can harm the agent, and no client can lock others out. Handlers only use the agent's
//!   public handle, and everything has a bound:
//!   - connections: [`HttpSettings::max_connections`]; when all are taken, the one goes that has waited for its peer for the
//!     longest; while all are being answered, [`SPARE_CONNECTIONS`] more get in for health checks, and each answer is the last
//!     one of its connection;
//!   - answers made at one time: [`MAX_ANSWERS_MADE`], and as many health checks beside them: no number of requests that
//!     are there already holds one up;
//!   - led work that callers run: 64 pieces, each until it ends or the time granted to it last has passed;
//!   - event streams: [`HttpSettings::max_streams`]; messages that wait for the other side: [`MAX_MESSAGES`]; replies:
//!     [`MAX_REPLIES`]; other commands, and questions that others are asked for (keys, a leader confirmed now):
//!     [`MAX_COMMANDS`]; each of these leaves connections free for the next, and all of them for short answers;
//!   - requests: heads of [`MAX_BUFFER_BYTES`] and [`MAX_HEADERS`] lines within [`HEAD_TIMEOUT`], of which what is read is
//!     kept (see `head`): [`MAX_READ_HEADERS_BYTES`] of headers, and paths with their queries of [`MAX_TARGET_BYTES`],
//!     queries of [`MAX_QUERY_ITEMS`]; bodies of [`MAX_BODY_BYTES`]; all of it
//!     answered within [`REQUEST_TIMEOUT`] (plus [`MAX_ANSWER_WAIT`] for a request that waits for another program's
//!     answer), and bytes taken at least every [`SILENCE_TIMEOUT`];
//!   - memory: members of a large view are encoded once for all readers ([`MAX_LISTINGS`], [`MAX_LISTED_BYTES`]),
//!     events once for all streams ([`MAX_SHARED_FRAMES`], [`MAX_SHARED_BYTES`]); messages, and answers beyond
//!     [`MAX_UNCOUNTED_ANSWER_BYTES`], that readers do not take weigh at most [`MAX_UNREAD_BYTES`] each; at most
//!     [`MAX_LARGE_BODIES`] bodies of requests beyond [`SMALL_BODY_BYTES`] are read at a time.
//! - Every error that a handler, the router or a guard answers is `application/problem+json`. (Bytes that are not HTTP
//!   at all are answered by the HTTP library with a bare 400 or 431.)
//! - Web pages of other origins cannot command the agent through their visitors' browsers, nor read from it, nor open
//!   streams.
//!
//! This module must not know configuration files, terminals, or the inner workings of the agent.

mod access;
mod body;
mod calls;
mod connection;
mod dashboard;
mod events;
mod exposition;
mod frames;
mod guard;
mod handler_metrics;
mod head;
mod health;
mod held;
mod host;
mod input;
mod keys;
mod leadership;
mod limits;
mod listing;
mod messages;
mod metrics;
mod problem;
mod query;
mod reference;
mod server;
mod table;
mod turns;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use self::access::Tokens;
pub use crate::config::{BadToken, Token};
pub use frames::{MAX_SHARED_BYTES, MAX_SHARED_FRAMES};
pub use limits::{
    COMMENT_INTERVAL, DEFAULT_MAX_CONNECTIONS, DEFAULT_MAX_STREAMS, HEAD_TIMEOUT, LISTEN_BACKLOG, MAX_ANSWERS_MADE,
    MAX_BODY_BYTES, MAX_BUFFER_BYTES, MAX_HEADERS, MAX_LARGE_BODIES, MAX_READ_HEADERS_BYTES, MAX_TARGET_BYTES,
    MAX_UNCOUNTED_ANSWER_BYTES, REQUEST_TIMEOUT, SILENCE_TIMEOUT, SMALL_BODY_BYTES, STOP_TIMEOUT,
};
pub use listing::{MAX_AGE, MAX_LISTED_BYTES, MAX_LISTINGS};
pub use messages::MAX_ANSWER_WAIT;
pub use query::MAX_QUERY_ITEMS;
pub use table::{MAX_COMMANDS, MAX_MESSAGES, MAX_REPLIES, MAX_UNREAD_BYTES, MIN_CONNECTIONS, SPARE_CONNECTIONS};

use self::frames::SharedFrames;
use self::guard::Refused;
use self::host::Names;
use self::listing::Listings;
use self::reference::CALLS;
use self::table::{Limits, Table};
use self::turns::Turns;
use crate::agent::{Agent, LedWork};
use crate::handlers::Board;

/// The settings of the server beside the agent.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HttpSettings {
    /// The tokens that every request but health checks must bear one of.
    pub tokens: Tokens,
    /// Host names under which the agent may be called without a token, besides addresses and `localhost`; without
    /// ports.
    pub allowed_hosts: Vec<String>,
    /// The greatest number of connections open at one time, event streams included; fewer than [`MIN_CONNECTIONS`]
    /// count as that many. Each takes a file descriptor. [`SPARE_CONNECTIONS`] more are for health checks.
    pub max_connections: usize,
    /// The greatest number of event streams open at one time. They never take all connections: of 1,024, 24 are kept
    /// for other answers, and of fewer than 192 an eighth.
    pub max_streams: usize,
    /// The number of log lines lost outside of the agent, by the writer of the process's log: counted there, shown
    /// among the metrics.
    pub log_lines_lost: Arc<AtomicU64>,
    /// True if metrics have series for each member, in views of at most 200 live ones.
    pub per_member_metrics: bool,
    /// The figures of event handlers.
    pub(crate) handlers: Board,
}

impl HttpSettings {
    /// Returns settings with this token, if there is one, which may do all; and defaults for everything else.
    pub fn new(token: Option<Token>) -> Self {
        Self {
            tokens: Tokens::new(token, None),
            allowed_hosts: Vec::new(),
            max_connections: DEFAULT_MAX_CONNECTIONS,
            max_streams: DEFAULT_MAX_STREAMS,
            log_lines_lost: Arc::default(),
            per_member_metrics: false,
            handlers: Board::default(),
        }
    }
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self::new(None)
    }
}

/// The state that handlers share.
#[derive(Debug)]
struct Shared {
    agent: Agent,
    /// The address that accepts requests.
    address: SocketAddr,
    tokens: Tokens,
    /// The names by which the agent may be asked while no token is asked for.
    names: Names,
    /// The requests that were not allowed.
    refused: Refused,
    table: Arc<Table>,
    /// The pieces of led work that callers run.
    work: Arc<LedWork>,
    listings: Arc<Listings>,
    frames: SharedFrames,
    keys: keys::Listed,
    log_lines_lost: Arc<AtomicU64>,
    per_member_metrics: bool,
    handlers: Board,
    /// The number of the newest event when the last command was answered.
    changed_at: AtomicU64,
    /// A permit for each request body that is not small.
    bodies: Arc<Semaphore>,
    turns: Turns,
    shutdown: CancellationToken,
}

type App = Arc<Shared>;

impl Shared {
    fn new(
        agent: Agent,
        address: SocketAddr,
        settings: HttpSettings,
        table: Arc<Table>,
        shutdown: CancellationToken,
    ) -> Self {
        let HttpSettings { tokens, allowed_hosts, log_lines_lost, per_member_metrics, handlers, .. } = settings;
        Self {
            names: Names::Only(allowed_hosts),
            refused: Refused::default(),
            tokens,
            address,
            table,
            work: LedWork::new(&agent),
            listings: Listings::new(agent.clone()),
            frames: SharedFrames::new(agent.run()),
            keys: keys::Listed::default(),
            log_lines_lost,
            per_member_metrics,
            handlers,
            changed_at: AtomicU64::new(0),
            bodies: body::permits(),
            turns: Turns::default(),
            agent,
            shutdown,
        }
    }

    /// Creates the state of a server of this agent that accepts nothing yet.
    #[cfg(test)]
    fn of(agent: Agent) -> Self {
        let (address, close) = (([127, 0, 0, 1], 1).into(), CancellationToken::new());
        let table = Table::new(Limits::new(DEFAULT_MAX_CONNECTIONS, DEFAULT_MAX_STREAMS), close.clone());
        Self::new(agent, address, HttpSettings::default(), table, close)
    }
}

/// Listens on an address, with a queue of [`LISTEN_BACKLOG`] connections.
#[expect(clippy::unused_async, reason = "a socket registers with the runtime that whoever awaits this is on")]
pub async fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restarted agent need not wait until the system forgets its old connections. (On other systems the option means
    // something else.)
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(LISTEN_BACKLOG)
}

/// Serves HTTP until `shutdown`, then ends event streams and lets other requests finish for [`STOP_TIMEOUT`].
///
/// Returns an error if no more connections can be accepted.
pub async fn serve(
    listener: TcpListener,
    agent: Agent,
    settings: HttpSettings,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let address = listener.local_addr()?;
    let close = CancellationToken::new();
    let table = Table::new(Limits::new(settings.max_connections, settings.max_streams), close.clone());
    let router = router(agent, address, settings, Arc::clone(&table), shutdown.clone());
    server::run(listener, router, table, close, shutdown).await
}

fn router(
    agent: Agent,
    address: SocketAddr,
    settings: HttpSettings,
    table: Arc<Table>,
    shutdown: CancellationToken,
) -> Router {
    let app: App = Arc::new(Shared::new(agent, address, settings, table, shutdown));
    let interface = Arc::downgrade(&app);
    app.agent.also_judged_by(move || interface.upgrade().map(|app| health::own(&app)).unwrap_or_default());
    let guarded = axum::middleware::from_fn_with_state(Arc::clone(&app), guard::guard);
    let routes = CALLS.iter().fold(Router::new(), |routes, call| routes.route(call.path, (call.handler)()));
    routes
        .fallback(problem::no_route)
        .method_not_allowed_fallback(problem::no_method)
        .layer(guarded)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(app)
}
