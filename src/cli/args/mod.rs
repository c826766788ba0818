//! The grammar of the command line: the one definition that parsing and help are made of.
//!
//! This file owns the list of commands; the arguments of each live with those of its neighbours in purpose: `node` for
//! those that run a node, `members`, `messages` and `leadership` for those that ask an agent about these, `trial` for
//! simulations, and `target` for what all clients take.
//!
//! Invariant: values of the configuration are passed on as text. They are judged in one place, with the same words,
//! whether they come from a flag, a variable or a file.
//!
//! Must not know: what a command does.
//!
//! | idea | file |
//! |---|---|
//! | commands that run nodes | `node` |
//! | commands about members, messages, leaders, keys | `members`, `messages`, `leadership`, `keys` |
//! | for shells and those who look after a node | `shell` |
//! | trials by simulation | `trial` |
//! | what all clients take | `target` |

mod keys;
mod leadership;
mod members;
mod messages;
mod node;
mod shell;
mod target;
#[cfg(test)]
mod tests;
mod trial;

use std::ffi::OsString;

use clap::{Parser, Subcommand};

pub(super) use keys::{AddKeyArgs, ChangeKeyArgs, GenerateArgs, KeysCommand};
pub(super) use leadership::{
    DatabaseKind, LeadArgs, LeaderArgs, LeaderCommand, LeaseCommand, RecoverArgs, ReplaceArgs, ResignArgs, SchemaArgs,
    VoterArgs, VotersCommand,
};
pub(super) use members::{DoubtArgs, JoinArgs, MembersArgs, RemoveArgs, TagsArgs, TopArgs, WaitArgs, WatchArgs};
pub(super) use messages::{ListenArgs, ReplyArgs, RequestArgs, SayArgs, SendArgs};
pub(super) use node::{AgentArgs, ConfigCommand, DevArgs, NodeArgs, ShowArgs};
pub(super) use shell::{CompletionsArgs, DoctorArgs, HealthArgs, ManArgs, VersionArgs};
pub(super) use target::{AgentAddress, Format, LineFormat, TargetArgs};
pub(super) use trial::{SimulateArgs, TuneArgs};

/// The exit codes of client commands, as their help says them.
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
    /// Show a cluster live on the whole terminal: verdict, members, what happens
    ///
    /// Keys: arrows choose a member, Enter shows all about it, / filters, s sorts, e shows the timeline, ? lists all keys, q
    /// quits. Colours are left out if NO_COLOR is set.
    #[command(after_help = CLIENT_EXITS)]
    Top(TopArgs),
    /// Show an agent's own figures
    #[command(after_help = CLIENT_EXITS)]
    Info(TargetArgs),
    /// Have an agent contact other nodes, and merge with their cluster
    #[command(after_help = CLIENT_EXITS)]
    Join(JoinArgs),
    /// Have an agent leave its cluster and stop
    ///
    /// Waits until it is gone, for about ten seconds: silence does not count as gone.
    #[command(after_help = CLIENT_EXITS)]
    Leave(TargetArgs),
    /// Have an agent's node lead nothing and get no new work, as before maintenance
    ///
    /// The node stays up and votes, tells everybody that it drains ("draining": true), hands over what it leads when led work has
    /// ended, and leads nothing until `headcount undrain` or a restart. Where all voters drain, nobody leads.
    #[command(after_help = CLIENT_EXITS)]
    Drain(TargetArgs),
    /// Let a node that drains lead again, and get new work
    #[command(after_help = CLIENT_EXITS)]
    Undrain(TargetArgs),
    /// Take a member that is down out of the listing
    ///
    /// Also done when no other member has confirmed it yet ("confirmed": false); it spreads further by itself.
    #[command(after_help = CLIENT_EXITS)]
    Remove(RemoveArgs),
    /// Have a member asked for a sign of life now, since a program there gave no answer
    ///
    /// That is no evidence against it. Where no connection to it stands its port is tried, which shows at once if its process
    /// is gone.
    #[command(after_help = CLIENT_EXITS)]
    Doubt(DoubtArgs),
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
    /// all that the command started SIGKILL before the lease is over; leadership is handed over when the command has ended. SIGTERM and SIGINT are passed
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
    #[command(name = crate::process::EXEC, hide = true)]
    LeadExec {
        parent: u32,
        /// Stay as the command's reaper
        #[arg(long = crate::process::REAP)]
        reap: bool,
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
    /// gone, and those that come back later count no more. It is refused while a majority of the old one answers. The command
    /// waits until somebody leads.
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
    /// Make, list and rotate the keys that packets are sealed with
    #[command(subcommand)]
    Keys(KeysCommand),
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
    /// the goal cannot be met, and names the nearest that can. With --format json it prints one object: "measured" (null
    /// without --from), "timing", "expected" (by the model) and "simulated" (null with --no-simulation).
    ///
    /// With --from an agent says what it has measured since its start: its live members; the bound that 99 of 100 of its round
    /// trips are within; and as the loss, the share of the heartbeats from members it observes that it missed, which were lost or
    /// later than a probe may be, with some added for what so many may hide. What is given as a flag is taken instead.
    #[command(after_help = "\
Examples: headcount tune --rtt 80ms --loss 2% --nodes 200 --detect-within 20s
          headcount tune --from :7118 --nodes 500 --detect-within 20s")]
    Tune(TuneArgs),
    /// Look for what is wrong with a node, its network or its cluster, and say what to do about it
    ///
    /// With an agent running: its health, its figures, and every member as it is reached from this machine, by UDP and TCP.
    /// With --config FILE or --seed, no agent is needed: seeds are asked what any stranger is answered, and the data
    /// directory is looked at. Nothing is changed, and nothing joins.
    #[command(after_help = "\
Exit codes: 0 nothing failed, 1 something did, 2 usage. With --format json it prints one object: \"ok\", and \"checks\" with \
\"check\", \"level\" (ok, warn, fail), \"found\" and \"advice\" (or null).

Examples: headcount doctor
          headcount doctor --config config.toml
          headcount doctor --seed 10.0.0.1:7117 --cluster shop")]
    Doctor(DoctorArgs),
    /// Ask an agent for its health: exit code 0 if it is well, 1 if not; for container health checks
    #[command(after_help = "\
Exit codes: 0 well (with --ready: ready), 1 not, or no agent answers, 2 usage. With --format json it prints one object: \"ok\" and \
\"reason\".

Example: HEALTHCHECK CMD [\"headcount\", \"health\"]")]
    Health(HealthArgs),
    /// Print the completions of a shell
    #[command(after_help = "\
Examples: headcount completions bash > ~/.local/share/bash-completion/completions/headcount
          headcount completions fish > ~/.config/fish/completions/headcount.fish
          headcount completions zsh > \"${fpath[1]}/_headcount\"")]
    Completions(CompletionsArgs),
    /// Write manual pages to a directory, one for each command
    #[command(after_help = "Example: headcount man ~/.local/share/man/man1")]
    Man(ManArgs),
    /// Print the version of this program, as --version does
    Version(VersionArgs),
}
