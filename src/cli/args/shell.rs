//! Arguments of the commands for those who look after a node: doctor, health, completions, manual pages.
//!
//! Must not know: what is looked at.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap_complete::Shell;

use super::target::{AgentAddress, DEFAULT_AGENT, Format, TOKEN_FILE, TargetArgs, token_file};

#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Ask whether the node should be given requests (/readyz), not whether its process is well (/healthz)
    #[arg(long)]
    pub(crate) ready: bool,
    /// How long to wait for the answer
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    /// For people or for programs
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Where to write them; made if it is not there
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The agent's HTTP address; a port alone is one of this machine, as in :7128 [default: 127.0.0.1:7118, unless --config
    /// or --seed is given]
    #[arg(long = "http", value_name = "ADDR", env = "HEADCOUNT_AGENT")]
    http: Option<String>,
    /// A file with the agent's token
    #[arg(long, value_name = "FILE", env = TOKEN_FILE, value_parser = OsStringValueParser::new().try_map(token_file))]
    token_file: Option<PathBuf>,
    /// Another agent to compare this one with; may be repeated
    #[arg(long, value_name = "ADDR")]
    pub(crate) also: Vec<String>,
    /// The configuration file of a node that need not run: its seeds, its addresses, its data directory
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A node to be asked; may be repeated
    #[arg(long = "seed", value_name = "HOST:PORT")]
    pub(crate) seeds: Vec<String>,
    /// The cluster's key file: sealed questions are answered
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<String>,
    /// The cluster's name, if no agent and no file says it [default: headcount]
    #[arg(long)]
    pub(crate) cluster: Option<String>,
    /// For people or for programs
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

impl DoctorArgs {
    /// Returns the agent to ask; `None` if there need not be one.
    pub(crate) fn agent(&self) -> Option<AgentAddress> {
        let needs_one = self.config.is_none() && self.seeds.is_empty();
        let http = self.http.clone().or_else(|| needs_one.then(|| DEFAULT_AGENT.to_owned()))?;
        Some(self.agent_at(http))
    }

    /// Returns an agent at this address, with the same token.
    pub(crate) fn agent_at(&self, http: String) -> AgentAddress {
        AgentAddress { http, token_file: self.token_file.clone() }
    }
}
