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
//! - A handler sees the agent's own leaving, and ends within [`STOP_TIMEOUT`] after it.
//!
//! Must not know: how events come about, where a configuration came from.

#[cfg(unix)]
mod command;
mod event;
mod figures;
mod queue;
mod quiet;
mod task;
mod tls;
mod webhook;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::task::Handler;
use crate::agent::{Agent, Reader};
use crate::config::HandlerConfig;

pub(crate) use self::figures::{Board, Figures};

/// The time that handlers have after the end of their agent for what waits and runs. What runs then is ended.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// The time that a command has between SIGTERM and SIGKILL.
const KILL_AFTER: Duration = Duration::from_secs(2);

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
    /// Takes no more events, and ends when those that wait are handled.
    retire: CancellationToken,
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
            handlers.begin(config, true);
        }
        handlers
    }

    /// Takes up another configuration: handlers that have changed end when what waits for them is handled, and begin
    /// anew with the events from now on.
    pub(crate) fn replace(&mut self, configs: &[HandlerConfig]) {
        self.running.retain(|running| {
            let stays = configs.contains(&running.config);
            if !stays {
                running.retire.cancel();
            }
            stays
        });
        for config in configs {
            if !self.running.iter().any(|running| running.config == *config) {
                self.begin(config, false);
            }
        }
        // Figures of names that are gone are shown no more.
        self.board.keep(|name| configs.iter().any(|config| config.name == name));
        while self.tasks.try_join_next().is_some() {}
    }

    fn begin(&mut self, config: &HandlerConfig, from_the_start: bool) {
        let retire = CancellationToken::new();
        let subscription = match self.agent.subscribe_after(0) {
            Ok(subscription) if from_the_start => subscription,
            _ => self.agent.subscribe(),
        };
        let subscription = subscription.read_by(Reader::Handler);
        // Topics were checked with the configuration.
        let topics = config.topics.iter().map(String::as_str);
        let inbox = if config.wants_messages() { self.agent.listen(topics).ok() } else { None };
        let figures = self.board.add(&config.name);
        let (context, run) = (self.context.clone(), self.agent.run());
        let handler = Handler::new(config.clone(), context, run, figures, self.end.clone());
        self.tasks.spawn(task::run(Arc::new(handler), subscription, inbox, retire.clone()));
        self.running.push(Running { config: config.clone(), retire });
    }

    /// Waits after the end of the agent until everything is handled, then ends what still runs.
    pub(crate) async fn finish(mut self) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_TIMEOUT, all).await.is_ok() {
            return;
        }
        self.end.cancel();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        // Longer than any run takes to end.
        let _ = tokio::time::timeout(KILL_AFTER * 2, all).await;
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
