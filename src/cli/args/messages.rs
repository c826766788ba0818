//! Arguments of the commands about messages between programs.
//!
//! Must not know: how messages travel.

use std::time::Duration;

use clap::Args;

use super::target::{AgentAddress, LineFormat, TargetArgs};
use crate::core::{MessageId, NodeId, Topic};
use crate::http::MAX_ANSWER_WAIT;

#[derive(Debug, Args)]
pub(crate) struct SayArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// The topic: 1 to 63 characters of A-Z a-z 0-9 . _ -
    pub(crate) topic: Topic,
    /// The payload; - reads standard input
    pub(crate) payload: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// The member that is meant
    pub(crate) node: NodeId,
    /// The topic: 1 to 63 characters of A-Z a-z 0-9 . _ -
    pub(crate) topic: Topic,
    /// The payload; - reads standard input
    pub(crate) payload: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RequestArgs {
    #[command(flatten)]
    pub(crate) send: SendArgs,
    /// How long to wait for the answer; 25s at most
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = patience)]
    pub(crate) timeout: Duration,
}

/// Reads how long an answer is awaited, within what the agent takes.
fn patience(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let range = Duration::from_millis(1)..=MAX_ANSWER_WAIT;
    if range.contains(&time) { Ok(time) } else { Err("1ms to 25s".to_owned()) }
}

#[derive(Debug, Args)]
pub(crate) struct ReplyArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// The request's id
    pub(crate) id: MessageId,
    /// The payload of the answer; - reads standard input
    pub(crate) payload: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ListenArgs {
    #[command(flatten)]
    pub(crate) agent: AgentAddress,
    /// The topics to listen to
    #[arg(required = true, value_name = "TOPIC")]
    pub(crate) topics: Vec<Topic>,
    /// For people, or one JSON object a line
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: LineFormat,
}
