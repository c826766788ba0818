//! Event handlers: commands and web addresses that are told of events.
//!
//! ```text
//!   bus ──▶ subscription ──▶ task of one handler: filter ─▶ queue ─▶ runs ──▶ command, web address
//! ```
//!
//! Invariants:
//! - A handler that is slow or hangs delays nobody: neither the agent, which never waits for a subscriber, nor another
//!   handler.
//! - Events about one node are handled one after another, in their order; those about no node likewise. Different nodes
//!   go in parallel.
//! - At most [`MAX_QUEUED_EVENTS`](queue::MAX_QUEUED_EVENTS) events wait for one handler. Of more the oldest are
//!   dropped, counted and logged, and the handler is told how many.
//! - A handler that is changed while it runs goes on in its task: no event is lost or handled twice, and what came
//!   before the change is handled as it would have been.
//! - A handler sees the agent's own leaving, and ends within [`STOP_TIMEOUT`] after it. However a run ends, nothing that
//!   it started stays behind.
//!
//! Must not know: how events come about, where a configuration came from.
//!
//! | idea | file |
//! |---|---|
//! | one handler's task: events in, runs out | `task` |
//! | what waits, and what is dropped | `queue` |
//! | an event as a handler gets it | `event` |
//! | one run of a command | `command` |
//! | one post to a web address, and its TLS | `webhook`, `tls` |
//! | figures for whoever shows them | `figures` |

#[cfg(unix)]
mod command;
mod event;
mod figures;
mod queue;
mod task;
mod tls;
mod webhook;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use self::task::{Feed, Handler};
use crate::agent::Agent;
use crate::config::HandlerConfig;

pub(crate) use self::figures::{Board, Figures};

/// The time that handlers have after the end of their agent for what waits and runs. What runs then is ended.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// The time that a command has between SIGTERM and SIGKILL.
const KILL_AFTER: Duration = Duration::from_secs(2);
/// The time for which the end of killed processes is awaited, and then that of their output.
const GROUP_PATIENCE: Duration = Duration::from_secs(1);
/// The longest time that a run takes to end: from SIGTERM to SIGKILL, until the command is gone, then what it left
/// behind, then its output; and a second for a machine that is slow.
const END_TIMEOUT: Duration = KILL_AFTER.saturating_add(GROUP_PATIENCE.saturating_mul(4));

/// The words about the agent that all handlers have in common.
#[derive(Debug, Clone)]
struct Context {
    node: String,
    cluster: String,
    /// The address by which a command asks the agent.
    http: Option<SocketAddr>,
}

/// All handlers of an agent. Those that run are ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Handlers {
    agent: Agent,
    context: Context,
    board: Board,
    running: Vec<Running>,
    tasks: JoinSet<()>,
    /// Ends everything at once.
    end: CancellationToken,
}

#[derive(Debug)]
struct Running {
    config: HandlerConfig,
    /// The handler as it is to be from now on; `None`: takes no more events, and ends when those that wait are handled.
    order: watch::Sender<Option<Arc<Handler>>>,
}

impl Handlers {
    /// Starts handlers, which are told of every event since the start of the agent. `http`: the address of its
    /// interface.
    pub(crate) fn start(agent: &Agent, configs: &[HandlerConfig], board: Board, http: Option<SocketAddr>) -> Self {
        let (me, cluster) = (agent.me(), agent.config().cluster.to_string());
        let context = Context { node: me.id.to_string(), cluster, http: http.map(reachable) };
        let (running, tasks, end) = (Vec::new(), JoinSet::new(), CancellationToken::new());
        let mut handlers = Self { agent: agent.clone(), context, board, running, tasks, end };
        for config in configs {
            let running = handlers.begin(config, true);
            handlers.running.push(running);
        }
        handlers
    }

    /// Takes up another configuration: what has come is handled as it would have been, and what comes as it says.
    /// Handlers that are new begin with the events from now on.
    pub(crate) fn replace(&mut self, configs: &[HandlerConfig]) {
        let mut before = std::mem::take(&mut self.running);
        let mut after: Vec<Option<Running>> = configs.iter().map(|_| None).collect();
        // A name may be given by position, and an action may be that of several handlers: the likest ones first.
        let likeness: [fn(&HandlerConfig, &HandlerConfig) -> bool; 4] = [
            |old, new| old == new,
            |old, new| old.name == new.name && old.action == new.action,
            |old, new| old.action == new.action,
            |old, new| old.name == new.name,
        ];
        for is_like in likeness {
            for (config, place) in configs.iter().zip(&mut after).filter(|(_, place)| place.is_none()) {
                let Some(at) = before.iter().position(|running| is_like(&running.config, config)) else { continue };
                let mut running = before.swap_remove(at);
                if running.config != *config {
                    running.order.send_replace(Some(self.handler(config)));
                    running.config = config.clone();
                }
                *place = Some(running);
            }
        }
        for gone in before {
            gone.order.send_replace(None);
        }
        self.running =
            configs.iter().zip(after).map(|(config, kept)| kept.unwrap_or_else(|| self.begin(config, false))).collect();
        // Figures of names that are gone are shown no more.
        self.board.keep(|name| configs.iter().any(|config| config.name == name));
        while self.tasks.try_join_next().is_some() {}
    }

    fn handler(&self, config: &HandlerConfig) -> Arc<Handler> {
        let figures = self.board.add(&config.name);
        Arc::new(Handler::new(config.clone(), self.context.clone(), self.agent.run(), figures, self.end.clone()))
    }

    fn begin(&mut self, config: &HandlerConfig, from_the_start: bool) -> Running {
        let handler = self.handler(config);
        let feed = Feed::open(self.agent.clone(), &handler, from_the_start);
        let (order, orders) = watch::channel(Some(Arc::clone(&handler)));
        let span = crate::journal::span(&self.agent.config().name);
        self.tasks.spawn(task::run(handler, feed, orders).instrument(span));
        Running { config: config.clone(), order }
    }

    /// Waits after the end of the agent until everything is handled, then ends what still runs.
    pub(crate) async fn finish(mut self) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_TIMEOUT, all).await.is_ok() {
            return;
        }
        self.end.cancel();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(END_TIMEOUT, all).await;
    }
}

/// Returns an address by which this machine reaches a listener at `bound`.
fn reachable(bound: SocketAddr) -> SocketAddr {
    let mut address = bound;
    if bound.ip().is_unspecified() {
        address.set_ip(if bound.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() });
    }
    address
}

#[cfg(test)]
mod tests;
