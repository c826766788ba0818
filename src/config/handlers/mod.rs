//! `[[handlers]]`: commands and web addresses that are told of events.
//!
//! | idea | file |
//! |---|---|
//! | a handler's values, and how they are shown | here |
//! | the address of a webhook, whose path is a secret | `webhook` |
//! | from a file's tables to handlers; what is refused | `reading` |
//!
//! A handler's own keys are no rows of the table of keys, which holds single values; the list of all handlers is one row.
//!
//! Must not know: how a handler runs.

mod reading;
mod webhook;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::core::NodeId;

pub(crate) use reading::nearest;
pub(super) use reading::read;
pub use webhook::WebhookUrl;

/// The greatest number of handlers of one agent.
pub const MAX_HANDLERS: usize = 64;
/// The greatest number of runs of one handler at one time.
pub const MAX_CONCURRENCY: usize = 64;
/// The name of the kind that messages between programs have.
pub(crate) const MESSAGE: &str = "message";

/// A handler: what is told of events, and of which.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandlerConfig {
    /// The name in the log and among the metrics; unique.
    pub name: String,
    /// The command or the web address.
    pub action: HandlerAction,
    /// The kinds of events, by their names in [`EventKind::NAMES`](crate::EventKind::NAMES); empty: all of these.
    /// Messages only if `message` is named.
    pub kinds: Vec<String>,
    /// The nodes that events have to be about; empty: any.
    pub nodes: Vec<NodeId>,
    /// The tags that the member an event is about must bear, all of them.
    pub tags: BTreeMap<String, String>,
    /// The topics of messages; empty: all.
    pub topics: Vec<String>,
    /// The longest time for one run of the command, or for one try at the web address.
    pub timeout: Duration,
    /// The number of runs at one time.
    pub concurrency: usize,
}

/// The action of a handler on an event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandlerAction {
    /// Runs a command: a program and its arguments, without a shell.
    Command(Vec<String>),
    /// Posts a CloudEvent to a web address.
    Webhook {
        /// The address, `http` or `https`.
        url: WebhookUrl,
        /// A file with the token that is sent as `Authorization: Bearer …`.
        token_file: Option<PathBuf>,
        /// The time since the first try within which it is tried again.
        retry_for: Duration,
    },
}

impl HandlerConfig {
    /// Returns true if messages between programs are asked for.
    pub(crate) fn wants_messages(&self) -> bool {
        self.kinds.iter().any(|kind| kind == MESSAGE)
    }

    /// Returns true if anything but messages is asked for.
    pub(crate) fn wants_events(&self) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|kind| kind != MESSAGE)
    }

    /// Returns the handler as `config show` shows it, without secrets.
    pub(crate) fn json(&self) -> Json {
        let duration = |time: &Duration| humantime::format_duration(*time).to_string();
        let (command, url, token_file, retry_for) = match &self.action {
            HandlerAction::Command(words) => (Some(words), None, None, None),
            HandlerAction::Webhook { url, token_file, retry_for } => {
                (None, Some(url.to_string()), token_file.as_ref(), Some(duration(retry_for)))
            }
        };
        json!({
            "name": self.name,
            "command": command,
            "url": url,
            "token_file": token_file.map(|path| path.display().to_string()),
            "retry_for": retry_for,
            "kinds": self.kinds,
            "nodes": self.nodes.iter().map(NodeId::as_str).collect::<Vec<_>>(),
            "tags": self.tags,
            "topics": self.topics,
            "timeout": duration(&self.timeout),
            "concurrency": self.concurrency,
        })
    }
}
