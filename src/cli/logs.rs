//! Logs: to standard error, as text or JSON.
//!
//! Invariant: set up once per process, before anything is logged; standard output stays free for answers.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;

use super::failure::Failure;
use crate::config::{LogConfig, LogFormat};

/// Begins to write logs.
pub(super) fn start(config: &LogConfig) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&config.level)
        .map_err(|error| Failure::usage(format!("log level \"{}\": {error}", config.level)).hint("try info"))?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let started = match config.format {
        LogFormat::Json => logs.json().try_init(),
        LogFormat::Text => logs.with_ansi(io::stderr().is_terminal()).try_init(),
    };
    started.map_err(|error| Failure::failed(format!("cannot write logs: {error}")))
}
