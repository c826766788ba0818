//! The HTTP interface: the agent's handle, for any language.
//!
//! ```text
//! GET    /v1/members?status=&tag=     GET  /v1/members/{id}     DELETE /v1/members/{id}?force=
//! GET    /v1/events?after=&kind=&node=&snapshot=                (server-sent events)
//! POST   /v1/join                     POST /v1/leave            PUT    /v1/tags
//! GET    /v1/leader   /v1/view         GET  /v1/voters           POST   /v1/voters     DELETE /v1/voters/{id}
//! GET    /v1/info   /healthz   /readyz   /metrics   /            POST   /v1/recover
//! ```
//!
//! Invariants:
//! - Nothing that arrives here can harm the agent: heads, bodies, connections and streams have bounds and deadlines, and
//!   handlers only use the agent's public handle.
//! - Every error that a handler, the router or a guard answers is `application/problem+json`. (What is no HTTP at all is
//!   answered by the HTTP library with a bare 400 or 431.)
//! - Without a token, web pages of other origins cannot command the agent through their visitors' browsers.
//!
//! This module must not know configuration files, terminals, or how the agent works inside.

mod calls;
mod connection;
mod events;
mod guard;
mod health;
mod leadership;
mod metrics;
mod problem;
mod query;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{delete, get, post, put};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use crate::config::{BadToken, Token};

use crate::agent::Agent;

/// The largest body of a request: a full set of addresses or tags is well below.
pub const MAX_BODY_BYTES: usize = 64 * 1024;
/// Event streams open at one time.
pub const MAX_EVENT_STREAMS: usize = 128;
/// Connections open at one time; further ones wait in the listener's queue.
pub const MAX_CONNECTIONS: usize = 512;
/// A request is answered, its body read, within this time. More than the slowest call takes: a join waits for 5 s.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection on which not one byte was answered for this long is closed: slow heads, idle peers, readers that do not
/// read. Event streams stay because of their comments.
pub const SILENCE_TIMEOUT: Duration = Duration::from_secs(30);
/// An event stream without events carries a comment this often.
pub const COMMENT_INTERVAL: Duration = Duration::from_secs(15);
/// How long open connections may take to end when the server stops.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// What the server is told beside the agent.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct HttpSettings {
    /// Asked of every request but health checks. `None`: nobody is asked.
    pub token: Option<Token>,
}

impl HttpSettings {
    /// Asks for this token, if there is one.
    pub fn new(token: Option<Token>) -> Self {
        Self { token }
    }
}

/// What handlers share.
#[derive(Debug)]
struct Shared {
    agent: Agent,
    /// Where requests come in.
    address: SocketAddr,
    token: Option<Token>,
    /// Whether only this machine reaches the listener.
    loopback: bool,
    streams: Arc<Semaphore>,
    shutdown: CancellationToken,
}

type App = Arc<Shared>;

/// Serves HTTP until `shutdown`, then ends event streams and lets other requests finish for [`STOP_TIMEOUT`].
pub async fn serve(
    listener: TcpListener,
    agent: Agent,
    settings: HttpSettings,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let address = listener.local_addr()?;
    let router = router(agent, address, settings, shutdown.clone());
    let listener = connection::Bounded::new(listener, MAX_CONNECTIONS, SILENCE_TIMEOUT);
    let stopping = shutdown.clone();
    let serving = axum::serve(listener, router).with_graceful_shutdown(stopping.cancelled_owned());
    tokio::select! {
        end = serving.into_future() => end,
        () = async {
            shutdown.cancelled().await;
            tokio::time::sleep(STOP_TIMEOUT).await;
        } => Ok(()),
    }
}

fn router(agent: Agent, address: SocketAddr, settings: HttpSettings, shutdown: CancellationToken) -> Router {
    let app: App = Arc::new(Shared {
        agent,
        address,
        token: settings.token,
        loopback: address.ip().to_canonical().is_loopback(),
        streams: Arc::new(Semaphore::new(MAX_EVENT_STREAMS)),
        shutdown,
    });
    let guarded = axum::middleware::from_fn_with_state(Arc::clone(&app), guard::guard);
    Router::new()
        .route("/", get(health::index))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(metrics::metrics))
        .route("/v1/info", get(calls::info))
        .route("/v1/members", get(calls::members))
        .route("/v1/members/{id}", get(calls::member).delete(calls::remove))
        .route("/v1/events", get(events::events))
        .route("/v1/join", post(calls::join))
        .route("/v1/leave", post(calls::leave))
        .route("/v1/tags", put(calls::set_tags))
        .route("/v1/leader", get(leadership::leader))
        .route("/v1/view", get(leadership::view))
        .route("/v1/voters", get(leadership::voters).post(leadership::add))
        .route("/v1/voters/{id}", delete(leadership::remove))
        .route("/v1/recover", post(leadership::recover))
        .fallback(problem::no_route)
        .method_not_allowed_fallback(problem::no_method)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(guarded)
        .with_state(app)
}
