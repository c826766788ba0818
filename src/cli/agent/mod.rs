//! `headcount agent`: one node in this process, from its configuration to its exit code; and the commands about
//! configuration.
//!
//! Invariants: the line on standard output is printed once gossip and HTTP both listen, with the addresses really
//! bound. When the agent ends, the process ends; when HTTP ends, the process goes on and reports it.
//!
//! | idea | file |
//! |---|---|
//! | the configuration from the command line; reading it again | `flags`, `reload` |
//! | the HTTP listener of a process | `listener` |
//! | the line on standard output | `announcement` |

mod announcement;
mod flags;
mod listener;
mod reload;

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;
use tracing::level_filters::LevelFilter;

use self::announcement::Announcement;
use self::flags::{load, refused};
pub(super) use self::listener::HttpListener;
use self::reload::Running;
use super::args::{AgentArgs, Format, ShowArgs};
use super::commands::json_line;
use super::failure::{Exit, Failure};
use super::human;
use super::logs::{self, Logs};
use super::output::{self, Output};
use super::signals::{Request, Signals};
use super::supervisor::Supervisor;
use super::threads::{self, AGENT_THREADS};
use crate::agent::{self, Agent, StartError, Stop, Unwaited, VerdictState, Watchdog};
use crate::config::{Config, Loaded, Loader};
use crate::core::{LeadershipState, LeaveReason, Status};
use crate::descriptors;
use crate::handlers::{Board, Handlers};
use crate::http::{self, Tokens};

/// Interval at which the line for the supervisor is looked at.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

pub(super) fn check(file: &Path, out: &mut impl Write) -> Result<Exit, Failure> {
    let checked = Loader::new().file(file).process_environment().check();
    let loaded = checked.map_err(|error| refused(&error))?;
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
    threads::check(AGENT_THREADS)?;
    let signals = Signals::listen();
    let signals = signals.map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")))?;
    #[cfg(target_os = "linux")]
    crate::process::wait_for_strays();
    descriptors::raise_limit();
    let no_threads = |error| Failure::failed(format!("cannot start threads: {error}"));
    let (logs, prepared) = prepare()?;
    let mut process = Process { signals, logs, out: output::start(io::stdout()).map_err(no_threads)? };
    // Packets and HTTP have threads of their own, and nothing here waits for a disk: this thread does what is to be done beside
    // them. Each further one keeps memory.
    let runtime = Unwaited::build(&mut tokio::runtime::Builder::new_current_thread()).map_err(no_threads)?;
    runtime.block_on(async {
        let end = live(&mut process, prepared).await;
        process.out.get_ref().drain().await;
        process.logs.flush().await;
        end
    })
}

/// Starts a node and stays with it until its end.
async fn live(mut running: Running<'_>, signals: &mut Signals, out: &mut impl Write) -> Result<Exit, Failure> {
    let config = &running.loaded.agent;
    let mut door = HttpListener::open(&config.http).await?;
    let board = Board::default();
    if let Some(door) = &mut door {
        door.settings.log_lines_lost = running.logs.lost();
        door.settings.per_member_metrics = config.metrics.per_member;
        door.settings.handlers = board.clone();
    }
    let config = config.config.clone();
    let Some(agent) = start(config, signals).await? else { return Ok(Exit::DONE) };
    if let Some(Err(failure)) = door.as_mut().map(|door| door.fit(&agent)) {
        agent.leave().await;
        return Err(failure);
    }
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
    running.tokens = door.as_ref().map(|door| door.settings.tokens.clone()).unwrap_or_default();
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

/// Returns the node in one line: its status, its members, who leads, and what is not well.
fn status_line(agent: &Agent) -> String {
    let (me, members) = (agent.me(), agent.info().members);
    let (up, live) = (
        members[Status::Up.index()],
        members.iter().sum::<usize>() - members[Status::Left(LeaveReason::Graceful).index()],
    );
    let drains = if me.draining { ", draining" } else { "" };
    let leadership = agent.leadership().get();
    let leader = match (&leadership.leader, leadership.state) {
        (_, LeadershipState::Disabled) => String::new(),
        (Some(_), _) if leadership.is_leader_now() => format!(", leads in term {}", leadership.term),
        (Some(leader), _) => format!(", {leader} leads in term {}", leadership.term),
        (None, _) => ", nobody leads".to_owned(),
    };
    let verdict = agent.verdict();
    let verdict = if verdict.state == VerdictState::Well { String::new() } else { format!("; {verdict}") };
    format!("{} is {}{drains}; {up} of {} up{leader}{verdict}", me.id, me.status, human::count(live, "member"))
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

/// Returns the failure, with the flag for the setting that it is about.
pub(super) fn not_started(error: &StartError) -> Failure {
    let failure = Failure::new(Exit::from(error), error.to_string());
    match error {
        StartError::Bind { .. } => failure.hint("see --bind"),
        StartError::Keys(_) => failure.hint("see --key-file; `headcount keys generate` makes a key"),
        StartError::Store(_) => failure.hint("see --data-dir"),
        _ => failure,
    }
}

/// Returns the exit code of an agent's end, as an error if it has to be printed: not if the log has said it already.
fn end(stop: &Stop) -> Result<Exit, Failure> {
    let exit = Exit::from(stop);
    let is_logged = matches!(stop, Stop::Core(_) | Stop::Failed(_)) && LevelFilter::current() >= LevelFilter::ERROR;
    if exit == Exit::DONE || is_logged { Ok(exit) } else { Err(Failure::new(exit, stop.to_string())) }
}
