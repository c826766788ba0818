//! Errors of the handle: starting, asking, and the ends of an agent.
//!
//! Messages say what failed, where, and what to try. The words of another error that caused it are in them, or that error is the
//! source, never both: who prints the chain reads nothing twice. They name settings, not flags. [`StartError::exit_code`] and [`Stop::exit_code`] are the command
//! line's exit codes, kept beside the variants so that a new variant cannot forget its own.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::config::ConfigError;
use crate::core::limits::MAX_SEEDS;
use crate::core::{CommandError, NodeId, StopReason};
use crate::descriptors;
use crate::store::StoreError;

/// Why an agent did not start. Nothing runs, nothing is locked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A setting makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The gossip socket cannot be bound.
    #[error("cannot bind {protocol} {address} for gossip: {error}; {}", bind_hint(error))]
    Bind {
        /// `UDP`, or `TCP` on the same port for links.
        protocol: &'static str,
        /// The address that was asked for.
        address: SocketAddr,
        /// The error of the system.
        error: io::Error,
    },
    /// The keys cannot be used as they are configured.
    #[error("the packets' seal: {0}")]
    Keys(super::keys::KeysError),
    /// The data directory was refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The database of leases cannot be used as it is configured.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    #[error("leadership by a lease: {0}")]
    Lease(crate::lease::store::StoreError),
    /// The system has no random numbers, without which two runs could not be told apart.
    #[error("the operating system gave no random numbers: {reason}")]
    Random {
        /// The words of the system.
        reason: String,
    },
    /// The caller runs outside of a tokio runtime. [`Agent::start`](crate::Agent::start) needs one, with whose end the agent ends.
    #[error("an agent is started inside a tokio runtime: call Agent::start from a task of one, or from its block_on")]
    NoRuntime,
    /// The system gave the agent no thread or event queue of its own.
    #[error("cannot start the agent's own threads: {error}; check the limits on processes and open files")]
    Threads {
        /// The error of the system.
        error: io::Error,
    },
    /// A part of the start ended unexpectedly.
    #[error("{0}")]
    Internal(Failure),
}

fn bind_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "is another agent running? bind another port",
        io::ErrorKind::AddrNotAvailable => "this machine does not have that address; bind one of its own",
        io::ErrorKind::PermissionDenied => "bind a port above 1023",
        _ if descriptors::are_short(error) => descriptors::RAISE,
        _ => "bind another address",
    }
}

impl From<super::keys::KeysError> for StartError {
    fn from(error: super::keys::KeysError) -> Self {
        Self::Keys(error)
    }
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
impl From<crate::lease::store::StoreError> for StartError {
    fn from(error: crate::lease::store::StoreError) -> Self {
        Self::Lease(error)
    }
}

impl StartError {
    /// The command line's exit code: 2 configuration, 3 cannot bind, 4 state refused or in use, 1 anything else.
    pub const fn exit_code(&self) -> u8 {
        match self {
            StartError::Config(_) | StartError::Keys(_) => 2,
            #[cfg(any(feature = "sqlite", feature = "postgres"))]
            StartError::Lease(_) => 2,
            StartError::Bind { .. } => 3,
            StartError::Store(_) => 4,
            StartError::Random { .. }
            | StartError::NoRuntime
            | StartError::Threads { .. }
            | StartError::Internal(_) => 1,
        }
    }
}

/// Why a command failed. Nothing changed, except where the agent stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The core refused; nothing changed.
    #[error(transparent)]
    Refused(#[from] CommandError),
    /// More addresses than one command takes; none was contacted.
    #[error("{asked} addresses are too many for one join: at most {MAX_SEEDS} are allowed")]
    TooManyAddresses {
        /// The number of addresses.
        asked: usize,
    },
    /// Only the leader changes the electorate.
    #[error("this node does not lead, and only the leader changes the electorate: {}", ask_leader(leader.as_ref()))]
    NotLeader {
        /// The leader, as far as this node knows.
        leader: Option<LeaderAddress>,
    },
    /// Leadership was to be given up, and nobody leads.
    #[error("nobody leads at the moment, so there is nobody to resign: try again in a few seconds")]
    NobodyLeads,
    /// The leader of a lease was asked to give it up, and did not in time.
    #[error(
        "{leader} was asked and gives the lease up once its led work has ended, within {} at the latest: do not ask again, \
         which would depose the next leader; ask who leads", humantime::format_duration(*within)
    )]
    NotGivenUp {
        /// The leader that was asked.
        leader: NodeId,
        /// The time after which its lease has run out, if its work does not end.
        within: Duration,
    },
    /// The leader of a lease does not take this node's word yet.
    #[error(
        "{leader} leads, and does not take the word of this node, which came less than a minute ago and was not there before at \
         this address: ask {leader} itself or a node that has been there for longer, or try again in a minute"
    )]
    NotBelieved {
        /// The leader that was asked.
        leader: NodeId,
    },
    /// A lease goes to whoever takes it first.
    #[error("a lease goes to whoever takes it first: leave the successor's name out")]
    NoSuccessor,
    /// The agent has stopped.
    #[error("the agent has stopped")]
    Stopped,
}

/// The reason why this node could not prove that it leads. It may lead all the same, where the reason says so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfirmError {
    /// This node does not lead.
    #[error("this node does not lead: {}", ask_leader(leader.as_ref()))]
    NotLeader {
        /// The leader, as far as this node knows.
        leader: Option<LeaderAddress>,
    },
    /// This node led when it was asked, and its claim ended before a majority had answered.
    #[error("leadership was lost before it was confirmed: ask who leads now")]
    Lost,
    /// A majority did not answer in time. The claim may stand all the same.
    #[error(
        "it was not confirmed in time that this node leads: look at the links between the voters, or at the database of \
         leases, and try again"
    )]
    TimedOut,
    /// Too many requests wait for an answer.
    #[error("too many wait for leadership to be confirmed: try again in a second")]
    Busy,
    /// No leader is ever elected: `leadership.mode` is `none`.
    #[error("nobody is elected here: leadership.mode is \"none\"")]
    Disabled,
    /// The agent has stopped.
    #[error("the agent has stopped")]
    Stopped,
}

/// The reason why work of a leader was stopped, or never begun.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeadError {
    /// No leader is ever elected: `leadership.mode` is `none`.
    #[error(
        "nobody is elected here: leadership.mode is \"none\"; name voters and a data directory (Config::with_voters, \
         Config::data_dir) or a database (Config::with_lease), or set the mode to quorum to learn who leads elsewhere"
    )]
    Disabled,
    /// The agent has stopped.
    #[error(transparent)]
    Stopped(#[from] Stop),
}

/// The leader and its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaderAddress {
    /// Its name.
    pub id: NodeId,
    /// The address that its gossip goes to, if it is listed.
    pub address: Option<SocketAddr>,
    /// The address at which its users reach it, if it says so.
    pub api_address: Option<String>,
}

fn ask_leader(leader: Option<&LeaderAddress>) -> String {
    let Some(LeaderAddress { id, address, api_address }) = leader else {
        return "nobody leads at the moment, try again in a few seconds".to_owned();
    };
    let places =
        [address.map(|address| format!("gossip {address}")), api_address.as_ref().map(|at| format!("api {at}"))];
    let places = places.into_iter().flatten().collect::<Vec<_>>().join(", ");
    if places.is_empty() { format!("ask {id}") } else { format!("ask {id} ({places})") }
}

/// The way in which an agent ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Stop {
    /// The protocol ended the agent: the node left, was removed, or was refused.
    #[error(transparent)]
    Core(#[from] StopReason),
    /// The last handle was dropped; the peers were not told.
    #[error("the last handle was dropped")]
    Dropped,
    /// The agent was told to stop without leaving.
    #[error("stopped without leaving")]
    Cancelled,
    /// The agent was told to leave and did not finish its goodbye in time. Its peers may take it for crashed.
    #[error("the goodbye was not finished in time: others may take this node for crashed")]
    LeaveTimedOut,
    /// A part of the agent died.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl Stop {
    /// The command line's exit code: 0 for what was asked for, 4 copied, 5 name in use, 6 removed, 7 refused, 1 internal.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Stop::Core(StopReason::Left) | Stop::Dropped | Stop::Cancelled => 0,
            Stop::Core(StopReason::Copied { .. }) => 4,
            Stop::Core(StopReason::NameInUse { .. }) => 5,
            Stop::Core(StopReason::Removed) => 6,
            Stop::Core(StopReason::Refused { .. }) => 7,
            // Set back, for one: supervisors start it again.
            Stop::Core(_) | Stop::LeaveTimedOut | Stop::Failed(_) => 1,
        }
    }
}

/// A background task that ended although nobody asked it to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("task {task} ended unexpectedly: {cause}")]
#[non_exhaustive]
pub struct Failure {
    /// Its name.
    pub task: &'static str,
    /// A panic's message, or what else is known.
    pub cause: String,
}

impl Failure {
    pub(crate) fn new(task: &'static str, cause: impl Into<String>) -> Self {
        Self { task, cause: cause.into() }
    }

    /// Returns the failure of a task that did not give its result.
    pub(crate) fn of(task: &'static str, ended: tokio::task::JoinError) -> Self {
        let cause = match ended.try_into_panic() {
            Ok(panic) => {
                let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
                format!("it panicked: {}", text.as_deref().unwrap_or("without a message"))
            }
            Err(_) => "it was aborted with its runtime".to_owned(),
        };
        Self { task, cause }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_of_a_taken_port_says_where_and_what_to_try() {
        let address: SocketAddr = "127.0.0.1:7117".parse().expect("an address");
        let error = StartError::Bind { protocol: "UDP", address, error: io::ErrorKind::AddrInUse.into() };
        assert_eq!(error.exit_code(), 3);
        assert!(error.to_string().contains("127.0.0.1:7117") && error.to_string().contains("bind another"), "{error}");
    }

    #[test]
    fn no_error_of_a_start_says_its_source_in_its_own_words_too_or_names_a_flag() {
        let address: SocketAddr = "127.0.0.1:7117".parse().expect("an address");
        let system = || io::Error::other("by the test");
        let path = || std::path::PathBuf::from("/data");
        let no_voter = ConfigError::QuorumWithoutDataDir;
        for error in [
            StartError::Bind { protocol: "UDP", address, error: system() },
            StartError::Threads { error: system() },
            StartError::Store(StoreError::Create { path: path(), error: system() }),
            StartError::Store(StoreError::Lock { path: path(), error: system() }),
            StartError::Store(StoreError::Read { path: path(), error: system() }),
            StartError::Store(StoreError::Write { path: path(), error: system() }),
            StartError::from(super::super::keys::KeysError::Config(no_voter.clone())),
            StartError::from(no_voter),
            StartError::from(ConfigError::LeaseWithoutUrl),
        ] {
            let text = error.to_string();
            let source = std::error::Error::source(&error).map(ToString::to_string);
            assert!(source.is_none_or(|source| !text.contains(&source)), "{text}");
            assert!(!text.contains(" --") && !text.contains("(--"), "{text}");
        }
    }

    #[test]
    fn a_leader_that_has_not_resigned_yet_is_named_and_nobody_is_told_to_ask_it_again() {
        let leader = NodeId::new("a").expect("a name");
        let text = AgentError::NotGivenUp { leader, within: Duration::from_secs(15) }.to_string();
        assert!(
            text.starts_with("a was asked") && text.contains("within 15s") && text.contains("do not ask again"),
            "{text}"
        );
        assert!(!text.contains("try again"), "{text}");
    }

    #[tokio::test]
    async fn a_panic_is_named_with_its_message() {
        let ended = tokio::spawn(async { panic!("by the test") }).await.expect_err("it panics");
        let failure = Failure::of("driver", ended);
        assert_eq!(failure.to_string(), "task driver ended unexpectedly: it panicked: by the test");
    }
}
