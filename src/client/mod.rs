//! A client of running agents, over HTTP: what the command line does, for programs.
//!
//! Purpose: one typed, blocking [`Client`] for all that an agent serves. Answers are the types of
//! [`json`](crate::json), which the agent itself writes; errors are [`ClientError`]s, and a refusal carries the agent's
//! own [`Problem`](crate::json::Problem). [`Client::events`] is the stream of events as an iterator: it resumes by
//! itself after the last event seen, and nothing is lost silently.
//!
//! ```no_run
//! use headcount::client::{Client, EventQuery, EventUpdate};
//!
//! # fn main() -> Result<(), headcount::client::ClientError> {
//! let client = Client::new("127.0.0.1:7118")?;
//! for member in client.members()? {
//!     println!("{} is {}", member.id, member.status);
//! }
//! for update in client.events(&EventQuery::all().from_snapshot())? {
//!     match update? {
//!         EventUpdate::Snapshot(snapshot) => println!("members: {}", snapshot.members.len()),
//!         EventUpdate::Event(event) => println!("{} {}", event.event, event.node.unwrap_or_default()),
//!         // The members follow, as they are now.
//!         EventUpdate::Lagged(_) => println!("events were missed"),
//!         EventUpdate::Lost { reason } => eprintln!("the agent is away: {reason}"),
//!         EventUpdate::Resumed => eprintln!("the agent is back"),
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! In a program that is a member itself, use [`Agent`](crate::Agent): it needs no HTTP. In asynchronous code, call this
//! client on a thread of its own (`tokio::task::spawn_blocking`).
//!
//! Invariants:
//! - It talks to the given agent only: no proxy, no redirects, and the token goes nowhere else.
//! - Every call ends within its time limit, and every answer has a largest size.
//! - The command line has no client but this one.
//!
//! This module must not know terminals or exit codes.

// | idea | file |
// |---|---|
// | addresses as people write them | `address` |
// | the calls; one exchange of bytes or JSON | `calls`, `exchange` |
// | events across broken connections; server-sent events | `events`, `sse` |
// | why a call fails | `error` |

mod address;
mod calls;
mod error;
mod events;
mod exchange;
mod sse;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::config::Token;

pub use calls::{Health, MemberQuery};
pub use error::{ClientError, RetryOutlook};
pub use events::{EventQuery, EventUpdate, Events, MessageUpdate, Messages};

/// The time limit of a call if no other is set: longer than the slowest call takes.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(15);
/// Time limit for a connection: an agent accepts at once or not at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Time limit for silence on an event stream, on which something comes every 15 s.
const STREAM_SILENCE: Duration = Duration::from_secs(45);

/// A client of one agent. Cheap to clone; clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    http: ureq::Agent,
    /// The agent's address, `host:port`.
    address: String,
    token: Option<Token>,
    timeout: Duration,
    /// The time limit for silence on an event stream.
    silence: Duration,
}

impl Client {
    /// Returns a client of the agent at this HTTP address: `host:port`, `http://host:port/`, a host alone, or `:port`
    /// for one of this machine. Nothing is sent yet.
    pub fn new(address: &str) -> Result<Self, ClientError> {
        let address = address::authority(address)?;
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .user_agent(concat!("headcount/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self { http: config.new_agent(), address, token: None, timeout: DEFAULT_TIMEOUT, silence: STREAM_SILENCE })
    }

    /// Adds the agent's token to each call.
    #[must_use]
    pub fn with_token(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }

    /// Sets the time limit of each call. Event streams have none, except for silence.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Returns the agent's address, `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }
}
