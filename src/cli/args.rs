//! What can be typed: the one definition that parsing and help are made of.
//!
//! Invariant: values of the configuration are passed on as text. They are judged in one place, with the same words,
//! whether they come from a flag, a variable or a file.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser as _};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::core::{MessageId, NodeId, Profile, Status, Topic};
use crate::event::EventKind;
use crate::json::EventId;
use crate::lease::LeaseName;
use crate::sim::scenario::Scenario;

/// Where an agent is looked for when nothing is said.
const DEFAULT_AGENT: &str = "127.0.0.1:7118";
/// The most nodes of `dev`.
const MAX_DEV_NODES: i64 = 64;

/// How client commands end, as their help says it.
const CLIENT_EXITS: &str = "Exit codes: 0 done, 1 failed, 2 usage.";

/// Who is here, who is gone, and who leads.
#[derive(Debug, Parser)]
#[command(name = "headcount", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "Start here: `headcount dev` runs a whole cluster on this machine and says what to try.")]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run a node: join a cluster and stay until asked to leave
    ///
    /// Prints one line with the addresses it listens on; logs go to standard error. SIGTERM and SIGINT leave gracefully,
    /// a second one quits at once.
    #[command(after_help = "\
Configuration: a flag beats a variable, a variable beats the file (--config), the file beats the profile. Every key of \
the file has a variable: HEADCOUNT_<KEY> or HEADCOUNT_<SECTION>__<KEY>, such as HEADCOUNT_SEEDS=a:7117,b:7117 and \
HEADCOUNT_TIMING__DOWN_TIMEOUT=20s. config.toml documents every key; `headcount config show` tells what counts in the \
end, and where it came from.

Exit codes: 0 left gracefully, 1 internal error, 2 usage or configuration, 3 cannot bind, 4 state file refused or in use, \
5 name in use, 6 removed by an operator, 7 refused by the cluster, 130 second signal.")]
    Agent(AgentArgs),
    /// Run a whole cluster on this machine, to look around
    Dev(DevArgs),
    /// List the members that an agent sees
    #[command(after_help = CLIENT_EXITS)]
    Members(MembersArgs),
    /// Print events as they happen
    ///
    /// A node that joins for the first time gives node_joining and node_joined at the member it joins through, and
    /// node_joined at all others; a restart gives node_detected_down (restarted) and node_joined, or node_joined alone where
    /// its death was known; a node that is back from Down gives node_joined. The stream is taken up again when the agent was
    /// away.
    #[command(after_help = CLIENT_EXITS)]
    Watch(WatchArgs),
    /// Show an agent's own figures
    #[command(after_help = CLIENT_EXITS)]
    Info(TargetArgs),
    /// Have an agent contact other nodes, and merge with their cluster
    #[command(after_help = CLIENT_EXITS)]
    Join(JoinArgs),
    /// Have an agent leave its cluster and stop
    ///
    /// Waits until it is gone, for ten seconds at most: silence does not count as gone.
    #[command(after_help = CLIENT_EXITS)]
    Leave(TargetArgs),
    /// Take a member that is down out of the listing
    ///
    /// Also done when no other member has confirmed it yet ("confirmed": false); it spreads further by itself.
    #[command(after_help = CLIENT_EXITS)]
    Remove(RemoveArgs),
    /// Show or change the tags of an agent's node
    #[command(after_help = CLIENT_EXITS)]
    Tags(TagsArgs),
    /// Show who leads, and for how long
    ///
    /// That nobody leads is an answer, too: scripts ask with --format json and look at "leader".
    #[command(after_help = CLIENT_EXITS, args_conflicts_with_subcommands = true)]
    Leader(LeaderArgs),
    /// Run a command while an agent's node leads, and end it before another node can
    ///
    /// Waits until the node leads, confirmed by a majority or by the database, and runs the command in a process group of its own, with
    /// HEADCOUNT_TERM (the fencing token: put it in all that the command writes elsewhere), HEADCOUNT_NODE and
    /// HEADCOUNT_AGENT in its environment. When leadership ends, or the agent does not answer, the group gets SIGTERM, and
    /// SIGKILL before the lease is over; leadership is handed over when the command has ended. SIGTERM and SIGINT are passed
    /// on as SIGTERM (a second one as SIGKILL). SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and SIGWINCH are passed on as they are,
    /// since no terminal and no supervisor reaches that group; while no command runs, SIGHUP and SIGQUIT end the wait, and
    /// the others mean nothing. That the command is there is looked for at once.
    #[command(after_help = "\
Exit codes: the command's own (128 and the number of the signal that ended it), 75 leadership ended before the command did, \
0 stopped before it led, 1 failed, 2 usage, 126 or 127 the command cannot be run.

Example: headcount lead -- ./nightly-report --fence-by-env")]
    Lead(LeadArgs),
    /// Become a command that dies with its parent
    #[cfg(unix)]
    #[command(name = super::lead::EXEC, hide = true)]
    LeadExec {
        parent: u32,
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Leases in a database, for those who run it
    #[command(subcommand)]
    Lease(LeaseCommand),
    /// List, add or remove the voters that elect the leader
    #[command(subcommand)]
    Voters(VotersCommand),
    /// Show the members that the voters agreed on
    #[command(after_help = "Exit codes: 0 done, 1 failed or nothing agreed, 2 usage.")]
    View(TargetArgs),
    /// Begin a new electorate, when the majority of the old one is lost for good
    ///
    /// Ask a voter that is left. The new electorate is that voter and those named; what only lost voters had agreed to is
    /// gone, and those that come back later count no more. It is refused while a majority of the old one answers.
    ///
    /// If the data of all voters is lost, ask any member, with --anew.
    #[command(after_help = CLIENT_EXITS)]
    Recover(RecoverArgs),
    /// Say something to every live member
    ///
    /// Each listener (`headcount listen`) gets it at most once. Nobody waits for it: what is cut off for longer than ten
    /// seconds never gets it.
    #[command(after_help = CLIENT_EXITS)]
    Broadcast(SayArgs),
    /// Say something to one member, and wait until its agent has it
    ///
    /// That it did not answer in time means that it is unknown whether it has it.
    #[command(after_help = CLIENT_EXITS)]
    Send(SendArgs),
    /// Ask one member something, and print the answer of a program there
    #[command(after_help = CLIENT_EXITS)]
    Request(RequestArgs),
    /// Answer a request that `headcount listen` showed
    #[command(after_help = CLIENT_EXITS)]
    Reply(ReplyArgs),
    /// Print messages as they come
    ///
    /// With --format json the payload is base64, and a request has "reply_within_ms": answer it by its "id" with
    /// `headcount reply`. Says on standard error when it listens: what was said before is not shown.
    #[command(after_help = CLIENT_EXITS)]
    Listen(ListenArgs),
    /// Wait until so many members are up; for scripts
    #[command(override_usage = "headcount wait [OPTIONS] <N>")]
    #[command(
        after_help = "Exit codes: 0 they are up, 1 not in time, 2 usage.\n\nExample: headcount wait 3 --timeout 1m"
    )]
    Wait(WaitArgs),
    /// Check and show configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Try settings on a simulated cluster: the real protocol in virtual time
    ///
    /// With --format json it prints one object: what was asked ("scenario" to "formed"), "formed_after_ms",
    /// "suspect_after" and "down_after" (each null or "first_ms", "median_ms", "p99_ms", "last_ms", "reports", "expected"),
    /// "agreed_after_ms", "succession", "false_alarms", "idle" and "busy" (per node), "virtual_time_ms", "trace", "replay".
    #[command(after_help = "Example: headcount simulate --nodes 50 --profile lan --loss 5% --scenario crash")]
    Simulate(SimulateArgs),
    /// Propose timeouts for a network and a goal, with their price, and verify them by simulation
    ///
    /// Prints a [timing] table to paste into a configuration file; everything else it says is comments. Exits with 1 if
    /// the goal cannot be met, and names the nearest that can. With --format json it prints one object: "timing",
    /// "expected" (by the model) and "simulated" (null with --no-simulation).
    #[command(after_help = "Example: headcount tune --rtt 80ms --loss 2% --nodes 200 --detect-within 20s")]
    Tune(TuneArgs),
    /// Print the version, as --version does
    Version(AsFlag),
}

/// The arguments of a command that there is only because people type it: parsing it does what `--version` does, so that
/// there never is a value to run.
#[derive(Debug)]
pub(super) enum AsFlag {}

impl Args for AsFlag {
    fn augment_args(command: clap::Command) -> clap::Command {
        command
    }
    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        command
    }
}

impl FromArgMatches for AsFlag {
    fn from_arg_matches(_: &clap::ArgMatches) -> Result<Self, clap::Error> {
        match Cli::command().try_get_matches_from(["headcount", "--version"]) {
            Err(version) => Err(version),
            Ok(_) => Err(clap::Error::new(ErrorKind::DisplayVersion)),
        }
    }
    fn update_from_arg_matches(&mut self, _: &clap::ArgMatches) -> Result<(), clap::Error> {
        match *self {}
    }
}

/// What is wanted.
#[derive(Debug, Args)]
pub(super) struct TuneArgs {
    /// Time there and back between two nodes, up to 5s
    #[arg(long, value_parser = humantime::parse_duration)]
    pub(super) rtt: Duration,
    /// Chance that a datagram is lost, for example 2% or 0.02
    #[arg(long, default_value = "1%", value_parser = share)]
    pub(super) loss: f64,
    /// How many nodes, 2 to 100000
    #[arg(long)]
    pub(super) nodes: usize,
    /// A host that falls silent is down everywhere within so long
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(super) detect_within: Duration,
    /// A healthy node is suspected at most so often
    #[arg(long, value_name = "NUMBER", default_value_t = 0.1)]
    pub(super) false_alarms_per_month: f64,
    /// Do not verify the proposal by simulation, which may take a minute
    #[arg(long)]
    pub(super) no_simulation: bool,
    /// For people and configuration files, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: LineFormat,
}

/// What to simulate.
#[derive(Debug, Args)]
pub(super) struct SimulateArgs {
    /// Nodes at the beginning, 2 to 20000
    #[arg(long, default_value_t = 20)]
    pub(super) nodes: usize,
    /// How many of the first nodes vote, 0 to 7 [default: 5 where the scenario is about leaders, else 0]
    #[arg(long)]
    pub(super) voters: Option<usize>,
    /// Every node's profile
    #[arg(long, default_value_t, value_parser = PossibleValuesParser::new(Profile::ALL.map(Profile::name))
        .map(|name| name.parse::<Profile>().unwrap_or_default()))]
    pub(super) profile: Profile,
    /// Chance that a datagram is lost, for example 5% or 0.05
    #[arg(long, default_value = "0%", value_parser = share)]
    pub(super) loss: f64,
    /// Minimum one-way latency
    #[arg(long, default_value = "500us", value_parser = humantime::parse_duration)]
    pub(super) latency: Duration,
    /// Random extra delay, up to
    #[arg(long, default_value = "500us", value_parser = humantime::parse_duration)]
    pub(super) jitter: Duration,
    /// Scenario
    #[arg(long, default_value_t, value_parser = PossibleValuesParser::new(Scenario::ALL
            .map(|scenario| PossibleValue::new(scenario.name()).help(scenario.about())))
        .map(|name| name.parse::<Scenario>().unwrap_or_default()))]
    pub(super) scenario: Scenario,
    /// Seeds every random choice: the same seed gives the same run
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Begin with a formed cluster: thousands of nodes take long to join
    #[arg(long)]
    pub(super) formed: bool,
    /// Also write the figures and charts as a page that stands alone
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// For people or for programs
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
    /// Replay one seed of the fault campaign instead, and print everything that happens
    #[arg(long, value_name = "SEED", conflicts_with_all = ["nodes", "voters", "profile", "loss", "latency", "jitter", "scenario", "formed", "html", "format", "seed"])]
    pub(super) replay: Option<u64>,
    /// The seed is one of the campaign of larger clusters
    #[arg(long, requires = "replay")]
    pub(super) large: bool,
}

/// A share of one, as a percentage or a fraction.
fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.strip_suffix('%') {
        Some(percent) => (percent, 100.0),
        None => (text, 1.0),
    };
    let number: f64 = number.trim().parse().map_err(|_| "a share is written 5% or 0.05".to_owned())?;
    if !number.is_finite() {
        return Err("a share is written 5% or 0.05".to_owned());
    }
    if number > unit {
        let meant = if unit > 1.0 { "a share is at most 100%".to_owned() } else { format!("did you mean {number}%?") };
        return Err(format!("it is more than the whole; {meant}"));
    }
    Ok(number / unit)
}

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Check a configuration file
    Check {
        /// The file
        file: PathBuf,
    },
    /// Show the values in effect, and where each comes from
    Show(Box<ShowArgs>),
}

#[derive(Debug, Subcommand)]
pub(super) enum LeaseCommand {
    /// Print what an owner of the database runs for a role that may create nothing
    ///
    /// Agents whose role may, create the same by themselves.
    #[command(after_help = "Example: headcount lease schema --kind postgres | psql mydb")]
    Schema(SchemaArgs),
}

#[derive(Debug, Args)]
pub(super) struct SchemaArgs {
    /// Of which database
    #[arg(long, value_enum, default_value_t = DatabaseKind::Postgres)]
    pub(super) kind: DatabaseKind,
    /// The schema of the tables (leadership.lease.schema; PostgreSQL only)
    #[arg(long, value_name = "NAME")]
    pub(super) schema: Option<String>,
    /// The beginning of their names (leadership.lease.table_prefix)
    #[arg(long, value_name = "PREFIX", default_value = "cluster_")]
    pub(super) table_prefix: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum DatabaseKind {
    Sqlite,
    Postgres,
}

#[derive(Debug, Subcommand)]
pub(super) enum VotersCommand {
    /// Show the voters
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
pub(super) struct ReplaceArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// The voter that is to go
    pub(super) old: NodeId,
    /// The member that is to vote in its place
    pub(super) new: NodeId,
}

#[derive(Debug, Args)]
pub(super) struct LeaderArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// Fail unless the agent's own node leads, and have a majority of the voters, or the database, confirm it now
    #[arg(long)]
    pub(super) confirm: bool,
    /// The leader by this lease in a database [default: the cluster's]
    #[arg(long, value_name = "LEASE")]
    pub(super) lease: Option<LeaseName>,
    /// List the nodes that the table of the database knows instead, the leader first
    #[arg(long, conflicts_with = "confirm")]
    pub(super) nodes: bool,
    #[command(subcommand)]
    pub(super) command: Option<LeaderCommand>,
}

#[derive(Debug, Args)]
pub(super) struct LeadArgs {
    #[command(flatten)]
    pub(super) agent: AgentAddress,
    /// While the node leads by this lease in a database [default: while it leads the cluster]
    #[arg(long, value_name = "LEASE")]
    pub(super) lease: Option<LeaseName>,
    /// How long before the end of the lease the command is asked to end, and how long it may take [default: a quarter of
    /// the lease; a third at most, judged once the node leads]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(super) grace: Option<Duration>,
    /// Run the command again each time the node leads, until it fails
    #[arg(long)]
    pub(super) keep: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,
}

#[derive(Debug, Subcommand)]
pub(super) enum LeaderCommand {
    /// Have the leader give leadership up, and wait for the next one
    ///
    /// The leader stays a member and a voter. Whichever agent is asked, it asks the leader.
    #[command(after_help = CLIENT_EXITS)]
    Resign(ResignArgs),
}

#[derive(Debug, Args)]
pub(super) struct ResignArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// The voter that is to lead instead; refused if it has not kept up with the leader
    #[arg(long, value_name = "NODE")]
    pub(super) to: Option<NodeId>,
    /// The leader by this lease in a database [default: the cluster's]
    #[arg(long, value_name = "LEASE", conflicts_with = "to")]
    pub(super) lease: Option<LeaseName>,
}

#[derive(Debug, Args)]
pub(super) struct VoterArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// The node
    pub(super) node: NodeId,
}

#[derive(Debug, Args)]
pub(super) struct RecoverArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// The voters that are left; the agent that is asked is always one
    #[arg(long, value_name = "NODE,…", value_delimiter = ',', required = true)]
    pub(super) voters: Vec<NodeId>,
    /// No voter is left with its data: the agent that is asked need not have been one
    #[arg(long)]
    pub(super) anew: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    pub(super) yes: bool,
}

/// The agent to talk to.
#[derive(Debug, Args)]
pub(super) struct AgentAddress {
    /// The agent's HTTP address; a port alone is one of this machine, as in :7128
    #[arg(long = "http", value_name = "ADDR", env = "HEADCOUNT_AGENT", default_value = DEFAULT_AGENT)]
    pub(super) http: String,
    /// A file with the agent's token
    #[arg(long, value_name = "FILE", env = "HEADCOUNT_TOKEN_FILE")]
    pub(super) token_file: Option<PathBuf>,
}

/// The agent to talk to, and how to print its answer.
#[derive(Debug, Args)]
pub(super) struct TargetArgs {
    #[command(flatten)]
    pub(super) agent: AgentAddress,
    /// For people or for programs
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    #[default]
    #[value(alias = "text")]
    Table,
    Json,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum LineFormat {
    #[default]
    #[value(alias = "table")]
    Text,
    Json,
}

/// What a node is told.
#[derive(Debug, Default, Args)]
pub(super) struct NodeArgs {
    /// A configuration file
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// The node's name, unique in the cluster [default: the host's name]
    #[arg(long)]
    pub(super) name: Option<String>,
    /// The cluster's name [default: headcount]
    #[arg(long)]
    pub(super) cluster: Option<String>,
    /// Where to receive gossip [default: [::]:7117]
    #[arg(long, value_name = "ADDR")]
    pub(super) bind: Option<String>,
    /// Where others send to, if that is not where gossip is received
    #[arg(long, value_name = "ADDR")]
    pub(super) advertise: Option<String>,
    /// A node to join through; may be repeated
    #[arg(long = "seed", value_name = "HOST:PORT")]
    pub(super) seeds: Vec<String>,
    /// The pace: default, local, lan or wan [default: default]
    #[arg(long)]
    pub(super) profile: Option<String>,
    /// Where to serve HTTP, or `off` [default: 127.0.0.1:7118]
    #[arg(long, value_name = "ADDR|off")]
    pub(super) http: Option<String>,
    /// Where to keep what survives a restart [default: nowhere]
    #[arg(long, value_name = "DIR")]
    pub(super) data_dir: Option<String>,
    /// The nodes that elect a leader, the same list everywhere; needs --data-dir [default: nobody is elected]
    #[arg(long, value_name = "NODE,…", value_delimiter = ',')]
    pub(super) voters: Vec<String>,
    /// Lead by a lease in this database: sqlite://FILE or postgres://USER@HOST/DATABASE [default: nobody leads]
    #[arg(long, value_name = "URL")]
    pub(super) lease_url: Option<String>,
    /// What the node tells about itself; may be repeated
    #[arg(long = "tag", value_name = "KEY=VALUE")]
    pub(super) tags: Vec<String>,
    /// error, warn, info, debug, trace, or directives per module [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(super) log_level: Option<String>,
    /// How log lines look: text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub(super) log_format: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct AgentArgs {
    #[command(flatten)]
    pub(super) node: NodeArgs,
    /// How the line on standard output looks
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: LineFormat,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    pub(super) node: NodeArgs,
    /// For people or for programs
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
}

#[derive(Debug, Args)]
pub(super) struct DevArgs {
    /// How many nodes
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=MAX_DEV_NODES))]
    pub(super) nodes: u16,
}

#[derive(Debug, Args)]
pub(super) struct MembersArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// Only members in these states [default: all but left]
    #[arg(long, value_name = "STATUS,…", value_delimiter = ',', value_parser = PossibleValuesParser::new(Status::NAMES))]
    pub(super) status: Vec<String>,
    /// Only members with these tags
    #[arg(long = "tag", value_name = "KEY[=VALUE]", value_delimiter = ',')]
    pub(super) tags: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct WatchArgs {
    #[command(flatten)]
    pub(super) agent: AgentAddress,
    /// Start after this event: an `id` that --ids or --format json showed
    #[arg(long, value_name = "ID")]
    pub(super) after: Option<EventId>,
    /// Only these kinds of events
    #[arg(long, value_name = "KIND,…", value_delimiter = ',', value_parser = PossibleValuesParser::new(EventKind::NAMES))]
    pub(super) kind: Vec<String>,
    /// Only events about these nodes
    #[arg(long, value_name = "NODE,…", value_delimiter = ',')]
    pub(super) node: Vec<NodeId>,
    /// Start with all members
    #[arg(long)]
    pub(super) snapshot: bool,
    /// Show each event's id at the end of its line
    #[arg(long)]
    pub(super) ids: bool,
    /// For people, or one JSON object a line
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: LineFormat,
}

#[derive(Debug, Args)]
pub(super) struct JoinArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// Gossip addresses of nodes of the other cluster
    #[arg(value_name = "HOST:PORT", required = true)]
    pub(super) addresses: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct RemoveArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// The member
    pub(super) node: NodeId,
    /// Remove it even if it is up; its process will stop
    #[arg(long)]
    pub(super) force: bool,
}

#[derive(Debug, Args)]
pub(super) struct TagsArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// Tags to set; all others stay
    #[arg(value_name = "KEY=VALUE", value_parser = pair)]
    pub(super) set: Vec<(String, String)>,
    /// Tags to take away; may be repeated
    #[arg(long, value_name = "KEY")]
    pub(super) unset: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct SayArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// What it is about: 1 to 63 characters of A-Z a-z 0-9 . _ -
    pub(super) topic: Topic,
    /// What to say; - reads standard input
    pub(super) payload: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct SendArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// The member that is meant
    pub(super) node: NodeId,
    /// What it is about: 1 to 63 characters of A-Z a-z 0-9 . _ -
    pub(super) topic: Topic,
    /// What to say; - reads standard input
    pub(super) payload: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct RequestArgs {
    #[command(flatten)]
    pub(super) send: SendArgs,
    /// How long to wait for the answer; 25s at most
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = humantime::parse_duration)]
    pub(super) timeout: Duration,
}

#[derive(Debug, Args)]
pub(super) struct ReplyArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// The request's id
    pub(super) id: MessageId,
    /// What to answer; - reads standard input
    pub(super) payload: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct ListenArgs {
    #[command(flatten)]
    pub(super) agent: AgentAddress,
    /// The topics to listen to
    #[arg(required = true, value_name = "TOPIC")]
    pub(super) topics: Vec<Topic>,
    /// For people, or one JSON object a line
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: LineFormat,
}

#[derive(Debug, Args)]
pub(super) struct WaitArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// How many members must be up, the agent itself included
    #[arg(value_name = "N", required_unless_present = "members", conflicts_with = "members")]
    count: Option<usize>,
    /// The same as N
    #[arg(long, value_name = "N")]
    members: Option<usize>,
    /// How long to wait
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    pub(super) timeout: Duration,
}

impl WaitArgs {
    /// How many members must be up; clap asks for one of the two ways to say it.
    pub(super) fn wanted(&self) -> usize {
        self.count.or(self.members).unwrap_or_default()
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write key=value, or --unset key".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_documented_command_line_is_understood() {
        for line in [
            "headcount agent",
            "headcount agent --config c.toml --name a --cluster c --bind [::]:7117 --advertise 10.0.0.1:7117 \
             --seed x:1 --seed y:2 --profile lan --http off --data-dir d --tag a=b --tag c=d --log-level debug \
             --log-format json --voters a,b,c --format json",
            "headcount dev",
            "headcount broadcast cache.changed key-17 --format json",
            "headcount send b jobs -",
            "headcount request b health --timeout 2s",
            "headcount reply 00c0ffee00c0ffee-13 fine",
            "headcount listen cache.changed jobs --format json",
            "headcount dev --nodes 5",
            "headcount members --status up,suspect --tag zone=eu-1 --format json --http 10.0.0.1:7118",
            "headcount members --token-file t --format table",
            "headcount watch --after 8f00000000000000-7 --kind node_joined,node_left --snapshot --format json",
            "headcount info",
            "headcount join 10.0.0.1:7117 seeds.example.internal:7117",
            "headcount leave",
            "headcount remove b --force",
            "headcount tags zone=eu-1 role= --unset old --unset older",
            "headcount leader --format json",
            "headcount leader --confirm --http :7128",
            "headcount leader resign",
            "headcount leader resign --to b --http :7128 --format json",
            "headcount lead -- sleep 5",
            "headcount lead --http :7128 --grace 2s --keep -- sh -c true --http x",
            "headcount voters list",
            "headcount voters add d --http 10.0.0.1:7118",
            "headcount voters remove d",
            "headcount view",
            "headcount recover --voters a,b --yes",
            "headcount recover --anew --voters a,b,c",
            "headcount watch --kind leader_elected,leader_lost,quorum_lost,quorum_regained,view_agreed",
            "headcount wait --members 5 --timeout 30s",
            "headcount wait 5",
            "headcount watch --ids",
            "headcount simulate --format json",
            "headcount tune --rtt 80ms --nodes 200 --detect-within 20s --format json",
            "headcount members --http :7128",
            "headcount config check config.toml",
            "headcount config show --config config.toml --format json",
            "headcount simulate --nodes 50 --profile lan --loss 5% --latency 1ms --jitter 0s --scenario mass-crash --seed 7 \
             --formed --html report.html",
            "headcount simulate --replay 17",
            "headcount simulate --replay 17 --large",
            "headcount tune --rtt 80ms --loss 2% --nodes 200 --detect-within 20s",
            "headcount tune --rtt 1ms --nodes 3 --detect-within 2s --false-alarms-per-month 1 --no-simulation",
        ] {
            assert!(parse(line).is_ok(), "{line}: {}", parse(line).expect_err("it failed"));
        }
    }

    #[test]
    fn what_makes_no_sense_is_a_usage_error() {
        for line in [
            "headcount",
            "headcount nonsense",
            "headcount agent --key-file k",
            "headcount dev --nodes 0",
            "headcount members --status upp",
            "headcount watch --kind node_jioned",
            "headcount watch --after yesterday",
            "headcount join",
            "headcount remove",
            "headcount remove a/b",
            "headcount tags zone",
            "headcount tags =eu",
            "headcount wait",
            "headcount wait 3 --members 3",
            "headcount simulate --replay 17 --format json",
            "headcount simulate --loss 5",
            "headcount simulate --loss 101%",
            "headcount simulate --loss nan",
            "headcount leader --confirm resign",
            "headcount leader resign b",
            "headcount leader resign --to a/b",
            "headcount lead",
            "headcount lead sleep 5",
            "headcount lead --grace soon -- sleep 5",
            "headcount voters",
            "headcount voters add",
            "headcount recover",
            "headcount recover --voters a/b",
            "headcount wait --members 5 --timeout soon",
            "headcount simulate --scenario crush",
            "headcount simulate --replay 17 --html report.html",
            "headcount simulate --large",
            "headcount tune --rtt 80ms --nodes 200",
            "headcount tune --rtt 80 --nodes 200 --detect-within 20s",
        ] {
            let error = parse(line).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}");
        }
        assert_eq!(parse("headcount --help").expect_err("help").exit_code(), 0);
        let version = parse("headcount --version").expect_err("version");
        assert_eq!(version.kind(), ErrorKind::DisplayVersion);
        let typed = parse("headcount version").expect_err("version");
        assert_eq!((typed.kind(), typed.to_string()), (ErrorKind::DisplayVersion, version.to_string()));
    }

    #[test]
    fn a_number_of_members_is_understood_either_way() {
        for line in ["headcount wait 3", "headcount wait --members 3"] {
            let Command::Wait(args) = parse(line).expect(line).command else { panic!("{line}") };
            assert_eq!(args.wanted(), 3);
        }
    }

    #[test]
    fn shares_are_percentages_or_fractions_and_a_bare_percentage_is_recognised() {
        assert_eq!((share("5%"), share("0.05"), share("100%"), share("1")), (Ok(0.05), Ok(0.05), Ok(1.0), Ok(1.0)));
        assert!(share("5").is_err_and(|error| error.contains("did you mean 5%?")));
        for text in ["", "x", "NaN", "inf", "101%"] {
            assert!(share(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_help_names_variables_precedence_and_exit_codes() {
        // However wide the terminal is.
        let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let help = |line: &str| words(parse(line).expect_err("help").to_string());
        let agent = help("headcount agent --help");
        for text in ["HEADCOUNT_<SECTION>__<KEY>", "a flag beats a variable", "config show", "130 second signal"] {
            assert!(agent.contains(text), "{text}: {agent}");
        }
        assert!(help("headcount lead --help").contains("Exit codes: the command's own"));
        for line in ["members", "watch", "info", "join", "leave", "remove", "tags", "leader", "view", "recover", "wait"]
        {
            assert!(help(&format!("headcount {line} --help")).contains("Exit codes: 0 "), "{line}");
        }
        assert!(help("headcount watch --help").contains("node_joining and node_joined"));
    }

    #[test]
    fn tags_keep_what_follows_the_first_equals_sign() {
        assert_eq!(pair("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(pair("a="), Ok(("a".to_owned(), String::new())));
    }
}
