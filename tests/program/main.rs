//! The program from outside: its command line, its configuration, its agents as real processes, and what they serve.
#![cfg(all(feature = "agent", unix))]

mod cli;
mod config;
mod dashboard;
mod discovery;
mod examples;
mod handlers;
mod hostile;
mod http;
#[cfg(target_os = "linux")]
mod lead;
mod leadership;
mod messages;
mod metrics;
mod partition;
mod processes;
mod seal;
mod shell;
#[cfg(target_os = "linux")]
mod supervised;
#[path = "../support/mod.rs"]
mod support;
mod tokens;
