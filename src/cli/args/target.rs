//! Arguments that all clients of an agent share: which agent is asked, and how its answer is printed.
//!
//! Must not know: single commands.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::{Args, ValueEnum};

/// The HTTP address at which an agent is looked for when none is given.
pub(super) const DEFAULT_AGENT: &str = "127.0.0.1:7118";

/// The variable that names the file with the token.
pub(super) const TOKEN_FILE: &str = "HEADCOUNT_TOKEN_FILE";

/// Reads the name of the file with the token. An empty one is a variable that something was to fill in, and is not taken
/// for none: the refusal that follows would not say why.
pub(super) fn token_file(name: OsString) -> Result<PathBuf, String> {
    if name.is_empty() {
        return Err(format!("it is empty; name the file with the agent's token, or unset {TOKEN_FILE}"));
    }
    Ok(name.into())
}

/// The agent to talk to.
#[derive(Debug, Args)]
pub(crate) struct AgentAddress {
    /// The agent's HTTP address; a port alone is one of this machine, as in :7128
    #[arg(long = "http", value_name = "ADDR", env = "HEADCOUNT_AGENT", default_value = DEFAULT_AGENT)]
    pub(crate) http: String,
    /// A file with the agent's token
    #[arg(long, value_name = "FILE", env = TOKEN_FILE, value_parser = OsStringValueParser::new().try_map(token_file))]
    pub(crate) token_file: Option<PathBuf>,
}

/// The agent to talk to, and how to print its answer.
#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    #[command(flatten)]
    pub(crate) agent: AgentAddress,
    /// For people or for programs
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    #[default]
    #[value(alias = "text")]
    Table,
    Json,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LineFormat {
    #[default]
    #[value(alias = "table")]
    Text,
    Json,
}
