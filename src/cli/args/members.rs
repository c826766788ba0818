//! Arguments of the commands about members: listing, watching and awaiting them, and changing who is one.
//!
//! Must not know: how an agent is asked.

use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::target::{AgentAddress, LineFormat, TargetArgs};
use crate::config::nearest_kind;
use crate::core::{NodeId, Status};
use crate::event::EventKind;
use crate::json::EventId;
use crate::lease::LeaseName;

#[derive(Debug, Args)]
pub(crate) struct MembersArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Only members in these states [default: all but left]
    #[arg(long, value_name = "STATUS,…", value_delimiter = ',', value_parser = PossibleValuesParser::new(Status::NAMES))]
    pub(crate) status: Vec<String>,
    /// Only members with these tags
    #[arg(long = "tag", value_name = "KEY[=VALUE]", value_delimiter = ',')]
    pub(crate) tags: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(crate) agent: AgentAddress,
    /// Start after this event: an `id` that --ids or --format json showed
    #[arg(long, value_name = "ID")]
    pub(crate) after: Option<EventId>,
    /// Only these kinds of events
    #[arg(long, value_name = "KIND,…", value_delimiter = ',', value_parser = kind)]
    pub(crate) kind: Vec<String>,
    /// Only events about these nodes
    #[arg(long, value_name = "NODE,…", value_delimiter = ',')]
    pub(crate) node: Vec<NodeId>,
    /// Only events about the leaders by these leases in a database
    #[arg(long, value_name = "LEASE,…", value_delimiter = ',')]
    pub(crate) lease: Vec<LeaseName>,
    /// Start with all members
    #[arg(long)]
    pub(crate) snapshot: bool,
    /// Show each event's id at the end of its line
    #[arg(long)]
    pub(crate) ids: bool,
    /// For people, or one JSON object a line
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: LineFormat,
}

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub(crate) agent: AgentAddress,
}

#[derive(Debug, Args)]
pub(crate) struct JoinArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Gossip addresses of nodes of the other cluster
    #[arg(value_name = "HOST:PORT", required = true)]
    pub(crate) addresses: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DoubtArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// The member
    pub(crate) node: NodeId,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// The member
    pub(crate) node: NodeId,
    /// Remove it even if it is up; its process will stop
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TagsArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Tags to set; all others stay
    #[arg(value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) set: Vec<(String, String)>,
    /// Tags to take away; may be repeated
    #[arg(long, value_name = "KEY")]
    pub(crate) unset: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// How many members must be up, the agent itself included
    #[arg(value_name = "N", required_unless_present = "members", conflicts_with = "members")]
    count: Option<usize>,
    /// How many members must be up, as N
    #[arg(long, value_name = "N")]
    members: Option<usize>,
    /// How long to wait
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Duration,
}

impl WaitArgs {
    /// Returns the number of members that must be up; clap asks for one of the two ways to say it.
    pub(crate) fn wanted(&self) -> usize {
        self.count.or(self.members).unwrap_or_default()
    }
}

/// Reads the name of a kind of events.
fn kind(text: &str) -> Result<String, String> {
    match text {
        "message" => Err("messages are followed by `headcount listen TOPIC…`".to_owned()),
        kind if EventKind::NAMES.contains(&kind) => Ok(kind.to_owned()),
        _ => {
            let meant = nearest_kind(text, EventKind::NAMES.iter().copied());
            let meant = meant.map_or_else(String::new, |meant| format!("did you mean {meant}? "));
            Err(format!("{meant}there are {}", EventKind::NAMES.join(", ")))
        }
    }
}

/// Reads a tag that is written `key=value`.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write key=value, or --unset key".to_owned()),
    }
}
