//! Arguments of the commands that run nodes in this process, `agent` and `dev`, and of those about configuration.
//!
//! Must not know: which values are valid; `config` judges them, and says the defaults that are named here.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::target::{Format, LineFormat};

/// The largest cluster of `dev`, in nodes.
const MAX_DEV_NODES: i64 = 64;

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check a configuration file, and the variables HEADCOUNT_… of the environment
    Check {
        /// The file
        file: PathBuf,
    },
    /// Show the values in effect, and where each comes from
    Show(Box<ShowArgs>),
}

/// The settings of a node that may be given on the command line.
#[derive(Debug, Default, Args)]
pub(crate) struct NodeArgs {
    /// A configuration file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The node's name, unique in the cluster [default: the host's name]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// The cluster's name [default: headcount]
    #[arg(long)]
    pub(crate) cluster: Option<String>,
    /// Where to receive gossip [default: [::]:7117 with keys, 127.0.0.1:7117 without]
    #[arg(long, value_name = "ADDR")]
    pub(crate) bind: Option<String>,
    /// Where others send to, if that is not where gossip is received
    #[arg(long, value_name = "ADDR")]
    pub(crate) advertise: Option<String>,
    /// A node to join through; may be repeated
    #[arg(long = "seed", value_name = "HOST:PORT")]
    pub(crate) seeds: Vec<String>,
    /// The pace: default, local, lan, wan or fast [default: default]
    #[arg(long)]
    pub(crate) profile: Option<String>,
    /// Where to serve HTTP, or `off` [default: 127.0.0.1:7118]
    #[arg(long, value_name = "ADDR|off")]
    pub(crate) http: Option<String>,
    /// Where to keep what survives a restart [default: nowhere]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<String>,
    /// The file with the cluster's keys, by which every packet is sealed [default: none, and no other machine is heard]
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<String>,
    /// Seal nothing, and hear other machines all the same: whoever reaches the port is a member
    #[arg(long, conflicts_with = "key_file")]
    pub(crate) insecure: bool,
    /// The nodes that elect a leader, the same list everywhere; needs --data-dir [default: nobody is elected]
    #[arg(long, value_name = "NODE,…", value_delimiter = ',')]
    pub(crate) voters: Vec<String>,
    /// Lead by a lease in this database: sqlite://FILE or postgres://USER@HOST/DATABASE [default: nobody leads]
    #[arg(long, value_name = "URL")]
    pub(crate) lease_url: Option<String>,
    /// What the node tells about itself; may be repeated
    #[arg(long = "tag", value_name = "KEY=VALUE")]
    pub(crate) tags: Vec<String>,
    /// error, warn, info, debug, trace, or directives per module [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log_level: Option<String>,
    /// How log lines look: text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    pub(crate) node: NodeArgs,
    /// How the line on standard output looks
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: LineFormat,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) node: NodeArgs,
    /// For people or for programs
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    /// How many nodes, 1 to 64
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=MAX_DEV_NODES))]
    pub(crate) nodes: u16,
}
