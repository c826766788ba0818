//! Arguments of the commands about messages between programs.
//!
//! Must not know: how messages travel.

use std::time::Duration;

use clap::Args;

use super::target::{AgentAddress, LineFormat, TargetArgs};
use crate::core::{MessageId, NodeId, Topic};
use crate::http::MAX_ANSWER_WAIT;

#[derive(Debug, Args)]
pub(in crate::cli) struct SayArgs {
    #[command(flatten)]
    pub(in crate::cli) target: TargetArgs,
    /// The topic: 1 to 63 characters of A-Z a-z 0-9 . _ -
    pub(in crate::cli) topic: Topic,
    /// The payload; - reads standard input
    pub(in crate::cli) payload: Option<String>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct SendArgs {
    #[command(flatten)]
    pub(in crate::cli) target: TargetArgs,
    /// The member that is meant
    pub(in crate::cli) node: NodeId,
    /// The topic: 1 to 63 characters of A-Z a-z 0-9 . _ -
    pub(in crate::cli) topic: Topic,
    /// The payload; - reads standard input
    pub(in crate::cli) payload: Option<String>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RequestArgs {
    #[command(flatten)]
    pub(in crate::cli) send: SendArgs,
    /// How long to wait for the answer; 25s at most
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = patience)]
    pub(in crate::cli) timeout: Duration,
}

/// Reads how long an answer is awaited, within what the agent takes.
fn patience(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let range = Duration::from_millis(1)..=MAX_ANSWER_WAIT;
    if range.contains(&time) { Ok(time) } else { Err("1ms to 25s".to_owned()) }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ReplyArgs {
    #[command(flatten)]
    pub(in crate::cli) target: TargetArgs,
    /// The request's id
    pub(in crate::cli) id: MessageId,
    /// The payload of the answer; - reads standard input
    pub(in crate::cli) payload: Option<String>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ListenArgs {
    #[command(flatten)]
    pub(in crate::cli) agent: AgentAddress,
    /// The topics to listen to
    #[arg(required = true, value_name = "TOPIC")]
    pub(in crate::cli) topics: Vec<Topic>,
    /// For people, or one JSON object a line
    #[arg(long, value_enum, default_value_t)]
    pub(in crate::cli) format: LineFormat,
}
