//! Arguments of the commands about leaders: who leads, work that only the leader does, voters, and leases in a database.
//!
//! Must not know: how leaders come to be.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::CLIENT_EXITS;
use super::target::{AgentAddress, TargetArgs};
use crate::core::NodeId;
use crate::lease::LeaseName;

#[derive(Debug, Subcommand)]
pub(crate) enum LeaseCommand {
    /// Print what an owner of the database runs for a role that may create nothing
    ///
    /// Agents whose role may, create the same by themselves.
    #[command(after_help = "Example: headcount lease schema --kind postgres --role headcount | psql mydb")]
    Schema(SchemaArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Of which database
    #[arg(long, value_enum, default_value_t = DatabaseKind::Postgres)]
    pub(crate) kind: DatabaseKind,
    /// The schema of the tables (leadership.lease.schema; PostgreSQL only)
    #[arg(long, value_name = "NAME")]
    pub(crate) schema: Option<String>,
    /// The beginning of their names (leadership.lease.table_prefix)
    #[arg(long, value_name = "PREFIX", default_value = "cluster_")]
    pub(crate) table_prefix: String,
    /// The role that agents connect as, to which the rights are granted (PostgreSQL only) [default: none, the grants are
    /// comments]
    #[arg(long, value_name = "NAME")]
    pub(crate) role: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DatabaseKind {
    Sqlite,
    Postgres,
}

#[derive(Debug, Subcommand)]
pub(crate) enum VotersCommand {
    /// Show the voters
    ///
    /// The leader alone knows which voters acknowledge it and how far they lag: `headcount leader` names it, and --http asks it.
    #[command(after_help = "Exit codes: 0 done, 1 failed or no voters known, 2 usage.")]
    List(TargetArgs),
    /// Add a member to the voters
    #[command(after_help = CLIENT_EXITS)]
    Add(VoterArgs),
    /// Take a voter out
    #[command(after_help = CLIENT_EXITS)]
    Remove(VoterArgs),
    /// Put a member in the place of a voter
    ///
    /// It is added once it has caught up with the leader, and then the other one is taken out. If that ends half-way, the
    /// same command does what is left. Where seven vote, the most there can be, it is refused: remove the one first, then add
    /// the other.
    #[command(after_help = CLIENT_EXITS)]
    Replace(ReplaceArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ReplaceArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// The voter that is to go
    pub(crate) old: NodeId,
    /// The member that is to vote in its place
    pub(crate) new: NodeId,
}

#[derive(Debug, Args)]
pub(crate) struct LeaderArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Fail unless the agent's own node leads, and have a majority of the voters, or the database, confirm it now
    #[arg(long)]
    pub(crate) confirm: bool,
    /// The leader by this lease in a database [default: the cluster's]
    #[arg(long, value_name = "LEASE")]
    pub(crate) lease: Option<LeaseName>,
    /// List the nodes that the table of the database knows instead, the leader first
    #[arg(long, conflicts_with = "confirm")]
    pub(crate) nodes: bool,
    #[command(subcommand)]
    pub(crate) command: Option<LeaderCommand>,
}

#[derive(Debug, Args)]
pub(crate) struct LeadArgs {
    #[command(flatten)]
    pub(crate) agent: AgentAddress,
    /// While the node leads by this lease in a database [default: while it leads the cluster]
    #[arg(long, value_name = "LEASE")]
    pub(crate) lease: Option<LeaseName>,
    /// How long before the end of the lease the command is asked to end, and how long it may take [default: a quarter of
    /// the lease; a third at most, judged once the node leads]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) grace: Option<Duration>,
    /// Run the command again each time the node leads, until it fails
    #[arg(long)]
    pub(crate) keep: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LeaderCommand {
    /// Have the leader give leadership up, and wait for the next one
    ///
    /// The leader stays a member and a voter. Whichever agent is asked, it asks the leader.
    #[command(after_help = CLIENT_EXITS)]
    Resign(ResignArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ResignArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// The voter that is to lead instead; refused if it has not kept up with the leader, and with leases in a database, which
    /// go to whoever takes them first
    #[arg(long, value_name = "NODE")]
    pub(crate) to: Option<NodeId>,
    /// The leader by this lease in a database [default: the cluster's]
    #[arg(long, value_name = "LEASE", conflicts_with = "to")]
    pub(crate) lease: Option<LeaseName>,
}

#[derive(Debug, Args)]
pub(crate) struct VoterArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// The node
    pub(crate) node: NodeId,
}

#[derive(Debug, Args)]
pub(crate) struct RecoverArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// The voters that are left; the agent that is asked is always one
    #[arg(long, value_name = "NODE,…", value_delimiter = ',', required = true)]
    pub(crate) voters: Vec<NodeId>,
    /// No voter is left with its data: the agent that is asked need not have been one
    #[arg(long)]
    pub(crate) anew: bool,
    /// With --anew: end the old electorate although not all of its voters are heard here; those that live behind a cut give
    /// way to the new one
    #[arg(long, requires = "anew")]
    pub(crate) end_unheard: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    pub(crate) yes: bool,
}
