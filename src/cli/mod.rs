//! The command line.
//!
//! Purpose: everything that people type. `headcount agent` and `headcount dev` run nodes in this process; every other
//! command is a client that talks HTTP to a running agent and needs only the JSON shapes of this library.
//!
//! | idea | file |
//! |---|---|
//! | the grammar; exit codes and failures | `args/`, `failure` |
//! | running nodes: `agent`, `dev`; signals, the supervisor that is told, logs, threads | `agent/`, `dev`; `signals`, `supervisor` (or `no_supervisor`), `logs`, `threads` |
//! | asking an agent once: members, leaders, leases, keys, messages | `client`; `commands`, `leadership`, `lease`, `keys`, `messages` |
//! | following it: `watch`, `top` | `watch`, `top/` |
//! | what is wrong: `doctor` | `doctor/` |
//! | commands that run while a node leads | `lead/` |
//! | planning: `simulate`, `tune` | `simulate`, `tune`, `progress` |
//! | shells | `shell` |
//! | what is printed, and how it looks | `output`, `table`, `human`, `paint` |
//!
//! Invariants:
//! - Standard output carries the answer, and nothing else: logs, warnings and errors go to standard error.
//! - A closed standard output (`headcount members | head -1`) is a quiet end, not a failure.
//! - Every failure is one line that says what failed, and what to try; its exit code is one of [`Exit`].
//!
//! This module must not know how the protocol works or how HTTP is served.

mod agent;
mod args;
mod client;
mod commands;
mod dev;
mod doctor;
mod failure;
mod human;
mod keys;
#[cfg(unix)]
mod lead;
mod leadership;
mod lease;
mod logs;
mod messages;
mod output;
mod paint;
mod progress;
mod shell;
mod signals;
mod simulate;
#[cfg(unix)]
mod supervisor;
#[cfg(not(unix))]
#[path = "no_supervisor.rs"]
mod supervisor;
mod table;
mod threads;
mod top;
mod tune;
mod watch;

use std::io;
use std::process::ExitCode;

use clap::Parser as _;

use args::{Cli, Command, ConfigCommand, LeaseCommand};
pub use failure::Exit;
use failure::Failure;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    #[cfg(unix)]
    crate::process::know_this_program();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let exit = match run(cli) {
        Ok(exit) => exit,
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Exit::DONE,
        Err(failure) => {
            logs::print_final_error(&format!("headcount: {failure}"));
            failure.exit()
        }
    };
    ExitCode::from(exit.code())
}

/// Prints help and version to standard output, errors to standard error; returns the exit code.
fn usage(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        logs::print_final_error(error.render().to_string().trim_end());
    } else {
        // The output may have no reader.
        let _ = error.print();
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Exit::USAGE.code()))
}

fn run(cli: Cli) -> Result<Exit, Failure> {
    // Locked only for each write: commands that run for long print from other places too.
    let out = &mut io::stdout();
    match cli.command {
        Command::Agent(args) => agent::run(&args),
        Command::Dev(args) => dev::run(&args),
        Command::Members(args) => commands::members(&args, out),
        Command::Watch(args) => watch::run(&args, out),
        Command::Info(args) => commands::info(&args, out),
        Command::Join(args) => commands::join(&args, out),
        Command::Leave(args) => commands::leave(&args, out),
        Command::Drain(args) => commands::drain(&args, true, out),
        Command::Undrain(args) => commands::drain(&args, false, out),
        Command::Remove(args) => commands::remove(&args, out),
        Command::Doubt(args) => commands::doubt(&args, out),
        Command::Tags(args) => commands::tags(&args, out),
        Command::Leader(args) => leadership::leader(&args, out),
        #[cfg(unix)]
        Command::Lead(args) => lead::run(&args),
        #[cfg(not(unix))]
        Command::Lead(_) => Err(Failure::failed("commands are run for a leader on Unix systems only")
            .hint("ask the agent: POST /v1/leader/work, see GET / for the calls")),
        #[cfg(unix)]
        Command::LeadExec { parent, reap, command } => lead::exec(parent, reap, &command),
        Command::Lease(LeaseCommand::Schema(args)) => lease::schema(&args, out),
        Command::Voters(command) => leadership::voters(&command, out),
        Command::View(args) => leadership::view(&args, out),
        Command::Recover(args) => leadership::recover(&args, out),
        Command::Broadcast(args) => messages::broadcast(&args, out),
        Command::Send(args) => messages::send(&args, out),
        Command::Request(args) => messages::request(&args, out),
        Command::Reply(args) => messages::reply(&args, out),
        Command::Listen(args) => messages::listen(&args, out),
        Command::Keys(command) => keys::run(&command, out),
        Command::Wait(args) => commands::wait(&args, out),
        Command::Config(ConfigCommand::Check { file }) => agent::check(&file, out),
        Command::Config(ConfigCommand::Show(args)) => agent::show(&args, out),
        Command::Simulate(args) => simulate::run(&args, out),
        Command::Doctor(args) => doctor::run(&args, out),
        Command::Health(args) => shell::health(&args, out),
        Command::Completions(args) => shell::completions(&args, out),
        Command::Man(args) => shell::man(&args, out),
        Command::Version(args) => shell::version(&args, out),
        Command::Top(args) => top::run(&args),
        Command::Tune(args) => tune::run(&args, out),
    }
}
