//! `headcount agent`: one node in this process, from its configuration to its exit code; and the commands about
//! configuration.
//!
//! Invariants: the line on standard output is printed once gossip and HTTP both listen, with the addresses really
//! bound. When the agent ends, the process ends; when HTTP ends, the process goes on and reports it.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;
use tracing::level_filters::LevelFilter;

use super::args::{AgentArgs, Format, LineFormat, NodeArgs, ShowArgs};
use super::client::read_token;
use super::commands::json_line;
use super::failure::{Exit, Failure};
use super::logs::{self, Logs};
use super::output::{self, Output};
use super::signals::{Request, Signals};
use super::supervisor::Supervisor;
use crate::agent::{self, Agent, StartError, Stop, Watchdog};
use crate::config::{Config, HttpConfig, LoadError, Loaded, Loader, check_file};
use crate::core::{LeadershipState, LeaveReason, Status};
use crate::descriptors;
use crate::handlers::{Board, Handlers};
use crate::http::{self, HttpSettings, Tokens};
use crate::seal::SealMode;

/// Interval at which the line for the supervisor is looked at.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);
/// Time limit for reading the configuration again.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) fn check(file: &Path, out: &mut impl Write) -> Result<Exit, Failure> {
    let loaded = check_file(file).map_err(|error| refused(&error))?;
    for warning in &loaded.warnings {
        logs::print_final_error(&format!("headcount: {warning}"));
    }
    writeln!(out, "{} is a good configuration", file.display())?;
    Ok(Exit::DONE)
}

pub(super) fn show(args: &ShowArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let loaded = load(&args.node)?;
    match args.format {
        Format::Json => json_line(out, &loaded.json())?,
        Format::Table => out.write_all(loaded.table().as_bytes())?,
    }
    Ok(Exit::DONE)
}

pub(super) fn run(args: &AgentArgs) -> Result<Exit, Failure> {
    run_nodes(
        || {
            let loaded = load(&args.node)?;
            let logs = logs::start(&loaded.agent.log)?;
            warn(&loaded);
            Ok((logs, loaded))
        },
        async |process, loaded| {
            let running = Running { loaded, args, logs: &process.logs, tokens: Tokens::default() };
            live(running, &mut process.signals, &mut process.out).await
        },
    )
}

/// Logs the warnings about a configuration that was accepted.
fn warn(loaded: &Loaded) {
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
}

/// The parts of a process that runs nodes, beside the nodes.
pub(super) struct Process {
    pub(super) signals: Signals,
    pub(super) logs: Logs,
    pub(super) out: Output,
}

/// Runs nodes in this process, for `agent` and `dev`. Signals are heard from the beginning; a slow reader of the output
/// is not waited for, and at the end nothing that hangs.
pub(super) fn run_nodes<C>(
    prepare: impl FnOnce() -> Result<(Logs, C), Failure>,
    live: impl AsyncFnOnce(&mut Process, C) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let signals = Signals::listen();
    let signals = signals.map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")))?;
    #[cfg(target_os = "linux")]
    crate::process::wait_for_strays();
    descriptors::raise_limit();
    let no_threads = |error| Failure::failed(format!("cannot start threads: {error}"));
    let (logs, prepared) = prepare()?;
    let mut process = Process { signals, logs, out: output::start(io::stdout()).map_err(no_threads)? };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(no_threads)?;
    let end = runtime.block_on(async {
        let end = live(&mut process, prepared).await;
        process.out.get_ref().drain().await;
        process.logs.flush().await;
        end
    });
    runtime.shutdown_background();
    end
}

fn load(args: &NodeArgs) -> Result<Loaded, Failure> {
    loader(args).load().map_err(|error| refused(&error))
}

/// Returns the layers of the configuration: flags, environment, file.
fn loader(args: &NodeArgs) -> Loader {
    let mut loader = Loader::new().process_environment();
    if let Some(path) = &args.config {
        loader = loader.file(path);
    }
    let single = [
        ("name", "--name", &args.name),
        ("cluster", "--cluster", &args.cluster),
        ("bind", "--bind", &args.bind),
        ("advertise", "--advertise", &args.advertise),
        ("profile", "--profile", &args.profile),
        ("http.bind", "--http", &args.http),
        ("data_dir", "--data-dir", &args.data_dir),
        ("seal.key_file", "--key-file", &args.key_file),
        ("leadership.lease.url", "--lease-url", &args.lease_url),
        ("log.level", "--log-level", &args.log_level),
        ("log.format", "--log-format", &args.log_format),
    ];
    for (key, flag, value) in single {
        if let Some(value) = value {
            loader = loader.flag(key, flag, value);
        }
    }
    if !args.voters.is_empty() {
        loader = loader.flag("leadership.mode", "--voters", "quorum");
    }
    if args.lease_url.is_some() {
        loader = loader.flag("leadership.mode", "--lease-url", "lease");
    }
    for (key, flag, values) in [
        ("seeds", "--seed", &args.seeds),
        ("tags", "--tag", &args.tags),
        ("leadership.voters", "--voters", &args.voters),
    ] {
        for value in values {
            loader = loader.flag(key, flag, value);
        }
    }
    loader
}

fn refused(error: &LoadError) -> Failure {
    Failure::usage(error.to_string())
}

/// Starts a node and stays with it until its end.
async fn live(mut running: Running<'_>, signals: &mut Signals, out: &mut impl Write) -> Result<Exit, Failure> {
    let config = &running.loaded.agent;
    let mut door = HttpListener::open(&config.http).await?;
    let board = Board::default();
    if let Some(door) = &mut door {
        door.settings.log_lines_lost = running.logs.lost();
        door.settings.handlers = board.clone();
    }
    let mut config = config.config.clone();
    config.leadership.lease.rpc_address = door.as_ref().map(|door| door.address);
    let Some(agent) = start(config, signals).await? else { return Ok(Exit::DONE) };
    let address = door.as_ref().map(|door| door.address);
    let mut handlers = Handlers::start(&agent, &running.loaded.agent.handlers, board, address);
    // The announcement may have no reader: the node does not depend on one.
    let announcement = Announcement::new(&agent, address);
    let _ = announcement.print(out, running.args.format);
    let supervisor = Supervisor::of_this_process();
    if let Some(every) = supervisor.watchdog() {
        let supervisor = supervisor.clone();
        agent.feed(Watchdog::new(every, move || supervisor.feed_watchdog()));
    }
    supervisor.ready();
    let _status = AbortOnDropHandle::new(tokio::spawn(show_status(supervisor.clone(), agent.clone())));
    let stopping = CancellationToken::new();
    // Also by a node that serves no HTTP itself.
    running.tokens = match &door {
        Some(door) => door.settings.tokens.clone(),
        None => tokens(&running.loaded.agent.http)?,
    };
    tokio::spawn(http::deliver_directly(agent.clone(), running.tokens.clone(), stopping.clone()));
    let mut serving = door.map(|door| tokio::spawn(door.serve(agent.clone(), stopping.clone())));
    let span = crate::journal::span(&agent.config().name);
    let stop = loop {
        tokio::select! {
            stop = agent.stopped() => break stop,
            request = signals.recv() => match request {
                Request::Stop => {
                    span.in_scope(|| tracing::info!("leaving the cluster; a second signal quits at once"));
                    supervisor.stopping();
                    break agent.leave().await;
                }
                Request::Reload => {
                    supervisor.reloading();
                    running.reload(&agent, &mut handlers).instrument(span.clone()).await;
                    supervisor.ready();
                }
            },
            ended = ended(&mut serving) => {
                span.in_scope(|| tracing::error!("HTTP is no longer served: {ended}; the node goes on without it"));
                agent.report(ended);
            }
        }
    };
    // Also if it ended by itself: nobody feeds the watchdog any more.
    supervisor.stopping();
    // They have seen the goodbye; what waits for them is handled while answers under way are finished.
    let handled = tokio::spawn(handlers.finish());
    stopping.cancel();
    // If the agent ended by itself, its journal says why.
    agent.flush_journal().await;
    if let Some(serving) = serving {
        // Answers under way are finished. That has a deadline of its own, and does not get a second one.
        let _ = tokio::time::timeout(http::STOP_TIMEOUT + Duration::from_secs(1), serving).await;
    }
    // It has a deadline of its own.
    let _ = handled.await;
    end(&stop)
}

/// Shows the supervisor one line about the node, whenever it has changed.
async fn show_status(supervisor: Supervisor, agent: Agent) {
    let mut shown = String::new();
    while supervisor.is_there() {
        let line = status_line(&agent);
        if line != shown {
            supervisor.status(&line);
            shown = line;
        }
        tokio::time::sleep(STATUS_INTERVAL).await;
    }
}

/// Returns the node in one line: its status, its members, and who leads.
fn status_line(agent: &Agent) -> String {
    let (me, members) = (agent.me(), agent.info().members);
    let (up, live) = (
        members[Status::Up.index()],
        members.iter().sum::<usize>() - members[Status::Left(LeaveReason::Graceful).index()],
    );
    let drains = if me.draining { ", drains" } else { "" };
    let leadership = agent.leadership().get();
    let leader = match (&leadership.leader, leadership.state) {
        (_, LeadershipState::Disabled) => String::new(),
        (Some(_), _) if leadership.is_leader_now() => format!(", leads in term {}", leadership.term),
        (Some(leader), _) => format!(", {leader} leads in term {}", leadership.term),
        (None, _) => ", nobody leads".to_owned(),
    };
    format!("{} is {}{drains}; {up} of {live} members up{leader}", me.id, me.status)
}

/// The configuration, flags and logs of a running node.
struct Running<'a> {
    loaded: Loaded,
    args: &'a AgentArgs,
    logs: &'a Logs,
    /// The tokens that the HTTP interface asks for.
    tokens: Tokens,
}

impl Running<'_> {
    /// Reads the configuration again, applies the keys that can be changed at run time, and names those that cannot. A
    /// configuration that is refused changes nothing.
    async fn reload(&mut self, agent: &Agent, handlers: &mut Handlers) {
        let loader = loader(&self.args.node);
        // A disk that hangs must not keep the process from hearing a request to stop.
        let load = tokio::task::spawn_blocking(move || loader.load());
        let newer = match tokio::time::timeout(RELOAD_TIMEOUT, load).await {
            Ok(Ok(Ok(newer))) => newer,
            Ok(Ok(Err(error))) => return tracing::error!("not reloaded, everything stays as it is: {error}"),
            Ok(Err(died)) => return tracing::error!("not reloaded, everything stays as it is: {died}"),
            Err(_) => {
                let seconds = RELOAD_TIMEOUT.as_secs();
                return tracing::error!(
                    "not reloaded, the configuration was not read within {seconds} s: is the disk well?"
                );
            }
        };
        warn(&newer);
        let keys = self.reload_keys(agent, &newer).await;
        let changes: Vec<_> =
            self.loaded.changes(&newer).into_iter().filter(|change| !change.key.starts_with("seal.")).collect();
        let has_new_tokens = self.take_up_tokens(&newer);
        if changes.is_empty() && !has_new_tokens && !keys {
            tracing::info!("reloaded: nothing has changed");
        }
        for change in changes {
            match self.apply_key(agent, handlers, &newer, change.key).await {
                Some(Ok(())) => tracing::info!("reloaded {change}"),
                Some(Err(error)) => tracing::error!("{change} was not taken up: {error}"),
                // It is named again at the next reload: it still waits for a restart.
                None => tracing::warn!(
                    "changed, and counts only after a restart: {}: {} -> {}",
                    change.key,
                    change.old,
                    change.new
                ),
            }
        }
    }

    /// Takes up what the token files hold now; returns true if that has changed. Other files than before, and HTTP that is
    /// turned on or off, need a restart.
    fn take_up_tokens(&mut self, newer: &Loaded) -> bool {
        let files = |loaded: &Loaded| {
            let HttpConfig { bind, token_file, read_token_file, .. } = &loaded.agent.http;
            bind.is_some().then(|| (token_file.clone(), read_token_file.clone()))
        };
        let held = |loaded: &Loaded| (loaded.token.clone(), loaded.read_token.clone());
        if files(newer).is_none() || files(&self.loaded) != files(newer) || held(&self.loaded) == held(newer) {
            return false;
        }
        let (token, read_token) = held(newer);
        for (key, old, new) in [
            ("http.token_file", &self.loaded.token, &token),
            ("http.read_token_file", &self.loaded.read_token, &read_token),
        ] {
            if old != new {
                tracing::info!("reloaded {key}: it holds another token, and the one before is refused from now on");
            }
        }
        self.tokens.replace(token.clone(), read_token.clone());
        (self.loaded.token, self.loaded.read_token) = (token, read_token);
        true
    }

    /// Reads the keys again, whose file may have changed although its name has not; returns true if something is told.
    async fn reload_keys(&mut self, agent: &Agent, newer: &Loaded) -> bool {
        let seal = &newer.agent.config.seal;
        match agent.reload_keys(seal.clone()).await {
            Ok((before, after)) => {
                self.loaded.agent.config.seal = seal.clone();
                let told = before != after;
                if told {
                    let shown = |held: &agent::HeldKeys| {
                        let ids: Vec<_> = held.keys.iter().map(ToString::to_string).collect();
                        format!("{} [{}]", held.mode, ids.join(", "))
                    };
                    tracing::info!("reloaded keys: {} -> {}", shown(&before), shown(&after));
                    if before.mode == SealMode::Require && after.mode != SealMode::Require {
                        tracing::warn!(
                            "clear packets are taken again (seal.mode = {}), here alone unless all members take this step: \
                             `headcount keys list` shows who does; set require again unless seals are to end",
                            after.mode
                        );
                    }
                }
                told
            }
            Err(error) => {
                tracing::error!("the keys were not reloaded and stay as they are: {error}");
                true
            }
        }
    }

    /// Applies one key; returns `None` if that needs a restart.
    async fn apply_key(
        &mut self,
        agent: &Agent,
        handlers: &mut Handlers,
        newer: &Loaded,
        key: &str,
    ) -> Option<Result<(), String>> {
        match key {
            "handlers" => {
                handlers.replace(&newer.agent.handlers);
                self.loaded.agent.handlers.clone_from(&newer.agent.handlers);
                Some(Ok(()))
            }
            "tags" => {
                let tags = &newer.agent.config.tags;
                let taken_up = agent.set_tags(tags.clone()).await;
                if taken_up.is_ok() {
                    self.loaded.agent.config.tags = tags.clone();
                }
                Some(taken_up.map_err(|error| error.to_string()))
            }
            "log.level" => {
                let level = &newer.agent.log.level;
                let taken_up = self.logs.set_level(level);
                if taken_up.is_ok() {
                    self.loaded.agent.log.level.clone_from(level);
                }
                Some(taken_up.map_err(|error| error.to_string()))
            }
            _ => None,
        }
    }
}

/// Starts a node; returns `None` if the process is told to stop meanwhile. A data directory or a look-up that hangs is
/// then not waited for.
async fn start(config: Config, signals: &mut Signals) -> Result<Option<Agent>, Failure> {
    let starting = Agent::start(config);
    let mut starting = std::pin::pin!(starting);
    loop {
        tokio::select! {
            started = starting.as_mut() => return started.map(Some).map_err(|error| not_started(&error)),
            request = signals.recv() => if request == Request::Stop {
                tracing::info!("told to stop before the node had started");
                return Ok(None);
            },
        }
    }
}

/// Waits for a server to end by itself; for ever if there is none, or its end was reported before.
async fn ended(serving: &mut Option<JoinHandle<std::io::Result<()>>>) -> agent::Failure {
    let Some(task) = serving else { return std::future::pending().await };
    let ended = task.await;
    *serving = None;
    match ended {
        Ok(Ok(())) => agent::Failure::new("http", "it ended by itself"),
        Ok(Err(error)) => agent::Failure::new("http", error.to_string()),
        Err(died) => agent::Failure::of("http", died),
    }
}

pub(super) fn not_started(error: &StartError) -> Failure {
    Failure::new(Exit::from(error), error.to_string())
}

/// Returns the exit code of an agent's end, as an error if it has to be printed: not if the log has said it already.
fn end(stop: &Stop) -> Result<Exit, Failure> {
    let exit = Exit::from(stop);
    let is_logged = matches!(stop, Stop::Core(_) | Stop::Failed(_)) && LevelFilter::current() >= LevelFilter::ERROR;
    if exit == Exit::DONE || is_logged { Ok(exit) } else { Err(Failure::new(exit, stop.to_string())) }
}

/// The line on standard output: the addresses at which the node really listens.
#[derive(Debug, Serialize)]
struct Announcement {
    node: String,
    gossip: String,
    http: Option<String>,
}

impl Announcement {
    fn new(agent: &Agent, http: Option<SocketAddr>) -> Self {
        Self {
            node: agent.me().id.to_string(),
            gossip: agent.gossip_address().to_string(),
            http: http.map(|address| address.to_string()),
        }
    }

    fn print(&self, out: &mut impl Write, format: LineFormat) -> Result<(), Failure> {
        let Self { node, gossip, http } = self;
        match format {
            LineFormat::Json => json_line(out, self),
            LineFormat::Text => {
                let http = http.as_deref().unwrap_or("-");
                writeln!(out, "headcount: node={node} gossip={gossip} http={http}")?;
                Ok(out.flush()?)
            }
        }
    }
}

/// Reads the tokens in the files that the configuration names.
fn tokens(config: &HttpConfig) -> Result<Tokens, Failure> {
    let read = |path: &Option<PathBuf>| path.as_deref().map(read_token).transpose();
    Ok(Tokens::new(read(&config.token_file)?, read(&config.read_token_file)?))
}

/// An HTTP listener, with its access rules.
#[derive(Debug)]
pub(super) struct HttpListener {
    pub(super) address: SocketAddr,
    listener: TcpListener,
    settings: HttpSettings,
}

impl HttpListener {
    /// Listens at the configured address; returns `None` if there is none.
    pub(super) async fn open(config: &HttpConfig) -> Result<Option<Self>, Failure> {
        let Some(address) = config.bind else { return Ok(None) };
        let tokens = tokens(config)?;
        let bound = http::listen(address).await.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = bound.map_err(|error| {
            Failure::new(Exit::CANNOT_BIND, format!("cannot serve HTTP on {address}: {error}"))
                .hint("is another agent running? choose another address with --http, or none with --http off")
        })?;
        let mut settings = HttpSettings { tokens, ..HttpSettings::default() };
        settings.allowed_hosts.clone_from(&config.allowed_hosts);
        settings.max_connections = config.max_connections;
        settings.max_streams = config.max_streams;
        Ok(Some(Self { address, listener, settings }))
    }

    /// Serves until told to stop, within the part of the limit on open files that the agent's links leave.
    pub(super) async fn serve(self, agent: Agent, stopping: CancellationToken) -> std::io::Result<()> {
        let Self { listener, mut settings, .. } = self;
        let wanted = settings.max_connections;
        settings.max_connections = descriptors::http_within_the_limit(agent.link_budget(), wanted);
        if settings.max_connections < wanted {
            tracing::warn!(
                "the limit on open files leaves {} HTTP connections at one time instead of {wanted}, and event streams end \
                 where others need theirs: raise the limit (ulimit -n, LimitNOFILE=)",
                settings.max_connections
            );
        }
        http::serve(listener, agent, settings, stopping).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AgentConfig;

    #[test]
    fn flags_reach_their_keys() {
        let text = |text: &str| Some(text.to_owned());
        let args = NodeArgs {
            name: text("a"),
            cluster: text("c"),
            bind: text("127.0.0.1:0"),
            advertise: text("10.0.0.1:7117"),
            seeds: vec!["x:1".to_owned(), "y:2".to_owned()],
            profile: text("lan"),
            http: text("off"),
            data_dir: text("d"),
            key_file: None,
            voters: vec!["a".to_owned(), "b".to_owned()],
            lease_url: None,
            tags: vec!["zone=eu-1".to_owned(), "role=x".to_owned()],
            log_level: text("debug"),
            log_format: text("json"),
            config: None,
        };
        let loaded = loader(&args).load().expect("a good configuration");
        let config = &loaded.agent.config;
        assert_eq!((config.name.as_str(), config.cluster.as_str()), ("a", "c"));
        assert_eq!(config.bind, "127.0.0.1:0".parse().ok());
        assert_eq!(config.advertise, "10.0.0.1:7117".parse().ok());
        assert_eq!(config.seeds, ["x:1", "y:2"]);
        assert_eq!(config.profile(), crate::Profile::Lan);
        assert_eq!(loaded.agent.http.bind, None);
        assert_eq!(config.data_dir.as_deref(), Some(Path::new("d")));
        assert_eq!(config.tags.get("role"), Some("x"));
        assert_eq!(config.leadership.mode, crate::config::LeadershipMode::Quorum);
        assert_eq!(config.leadership.voters.len(), 2);
        assert_eq!(loaded.agent.log.level, "debug");
        assert_eq!(loaded.agent.log.format, crate::config::LogFormat::Json);
    }

    #[test]
    fn a_database_is_a_mode_of_leadership() {
        let lease = NodeArgs { lease_url: Some("sqlite://a.db".to_owned()), ..NodeArgs::default() };
        let loaded = load(&lease).expect("a good configuration");
        assert_eq!(loaded.agent.config.leadership.mode, crate::config::LeadershipMode::Lease);
        let both = NodeArgs { voters: vec!["a".to_owned()], data_dir: Some("d".to_owned()), ..lease };
        let failure = load(&both).expect_err("two sources of leadership");
        assert!(failure.to_string().contains("while leadership.mode is \"lease\""), "{failure}");
    }

    #[test]
    fn a_refused_flag_is_a_usage_error_that_names_it() {
        let args = NodeArgs { name: Some("a b".to_owned()), ..NodeArgs::default() };
        let failure = load(&args).expect_err("no name");
        assert_eq!(failure.exit(), Exit::USAGE);
        assert!(failure.to_string().contains("--name"), "{failure}");
    }

    #[test]
    fn the_announcement_keeps_its_shape() {
        let printed = |http: Option<&str>, format| {
            let http = http.map(str::to_owned);
            let announcement = Announcement { node: "a".to_owned(), gossip: "127.0.0.1:7117".to_owned(), http };
            let mut out = Vec::new();
            announcement.print(&mut out, format).expect("printed");
            String::from_utf8(out).expect("text")
        };
        let http = Some("127.0.0.1:7118");
        assert_eq!(printed(http, LineFormat::Text), "headcount: node=a gossip=127.0.0.1:7117 http=127.0.0.1:7118\n");
        assert_eq!(printed(None, LineFormat::Text), "headcount: node=a gossip=127.0.0.1:7117 http=-\n");
        assert_eq!(
            printed(http, LineFormat::Json),
            "{\"node\":\"a\",\"gossip\":\"127.0.0.1:7117\",\"http\":\"127.0.0.1:7118\"}\n"
        );
        assert_eq!(printed(None, LineFormat::Json), "{\"node\":\"a\",\"gossip\":\"127.0.0.1:7117\",\"http\":null}\n");
    }

    #[tokio::test]
    async fn a_taken_http_address_has_its_own_exit_code() {
        let taken = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let mut config = AgentConfig::new(crate::Config::new("a").expect("a name")).http;
        config.bind = taken.local_addr().ok();
        let failure = HttpListener::open(&config).await.expect_err("it is taken");
        assert_eq!(failure.exit().code(), 3);
        assert!(failure.to_string().contains("--http"), "{failure}");
    }
}
