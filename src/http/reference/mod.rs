//! The reference: every call, what it takes, and what it answers; as the list at `/`, as `/openapi.json`, and as the
//! page [`http_reference`](crate::http_reference).
//!
//! The schemas are derived from the types in [`json`](crate::json) with their comments, by `schemars`: of the crates
//! that do so, it is the one that tells keys that are always there from those that may be missing, by what serde writes.
//! They are written to a file when the reference is, so that `schemars` is no part of the program.
//! The calls are one table, [`CALLS`]. (Attributes at each handler, as `utoipa` has them, could not be printed.)
//!
//! Invariants:
//! - A row of the table owns all that is known of a call: its route and handler, who may ask, how long it may take, and its
//!   description. Tests ask a real agent for all calls, and judge the answers by this.
//! - It is the same for everybody: nothing of the node or the cluster is in it.
//!
//! Must not know: what handlers do.
//!
//! | idea | file |
//! |---|---|
//! | the table of all calls | `calls` |
//! | the description in OpenAPI's form | `openapi` |
//! | the page for people | `page` |

#![cfg_attr(not(test), expect(dead_code, reason = "the reference is written by a test"))]

mod calls;
#[cfg(test)]
mod openapi;
#[cfg(test)]
mod page;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::time::Duration;

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;

pub(super) use self::calls::CALLS;
use super::table::Kind;
use super::{App, dashboard};

/// The description in the form of OpenAPI 3.1, as the module `openapi` makes it.
const OPENAPI: &str = include_str!("openapi.json");
/// The media type of streams of events.
const EVENT_STREAM: &str = "text/event-stream";

/// The route of a call.
type Handler = fn() -> MethodRouter<App>;

/// One call: all that is known of it.
#[derive(Debug)]
pub(super) struct Call {
    method: &'static str,
    pub(super) path: &'static str,
    pub(super) handler: Handler,
    /// The token that it asks for, where there are tokens.
    access: Access,
    /// True for a call for callers with a token that may do all, also where no token is asked for: whoever changes keys
    /// decides who is in the cluster, and keeps it after the agent is out of reach.
    pub(super) needs_token: bool,
    /// True for what supervisors and load balancers ask: by any name of the host, and answered before all else.
    pub(super) is_health: bool,
    /// The kind as which it is counted, if it lasts: a read that other nodes, a majority or a database are asked for
    /// counts like a command. One without takes no time, or must always be possible.
    pub(super) lasts: Option<Kind>,
    /// The time for the answer, the body of the request included.
    pub(super) patience: Duration,
    /// The purpose in some words, for the list.
    brief: &'static str,
    /// More about it, for the reference.
    more: &'static str,
    query: &'static [Parameter],
    body: Option<Taken>,
    answers: &'static [Answer],
    /// The statuses of refusals that are the call's own, beside those that any call may have.
    refusals: &'static [u16],
}

/// One key of a query.
#[derive(Debug)]
struct Parameter {
    name: &'static str,
    form: Form,
    meaning: &'static str,
}

/// The values that a part of a request may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Names of members, with commas between.
    Names,
    /// The name of a lease.
    Lease,
    /// Names of leases, with commas between.
    Leases,
    /// Topics of messages, with commas between.
    Topics,
    /// Conditions on tags: `key=value` or `key`, with commas between.
    Tags,
    /// Statuses of members, with commas between.
    Statuses,
    /// Kinds of events, with commas between.
    Kinds,
    /// `true` or `false`.
    Flag,
    /// The id of an event.
    EventId,
    /// A time in milliseconds, for which a request waits.
    Wait,
}

/// The body that a call takes.
#[derive(Debug)]
enum Taken {
    /// JSON of this schema; an example of it.
    Json(&'static str, &'static str),
    /// JSON of this schema, which may be left out; an example of it.
    Optional(&'static str, &'static str),
    /// Any bytes.
    Bytes,
}

/// One answer that is no refusal.
#[derive(Debug)]
struct Answer {
    status: u16,
    content: Content,
    meaning: &'static str,
}

/// The contents of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Nothing,
    /// JSON of this schema.
    Json(&'static str),
    /// A list of JSON of this schema.
    List(&'static str),
    /// Text of one of these media types.
    Text(&'static [&'static str]),
    /// Server-sent events, whose data are JSON of these schemas.
    Events(&'static [&'static str]),
    /// Any bytes.
    Bytes,
    /// This description.
    OpenApi,
}

/// The token that a call asks for, where tokens are configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Access {
    /// No token.
    Open,
    /// A token that may read.
    Read,
    /// A token that may do everything.
    Write,
}

impl Access {
    /// Returns the access that a request asks for, whether there is such a call or not.
    pub(super) fn needed(method: &Method, call: Option<&Call>) -> Self {
        match call {
            Some(call) => call.access,
            None if method.is_safe() => Access::Read,
            None => Access::Write,
        }
    }

    /// Returns the access's name in JSON.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Access::Open => "open",
            Access::Read => "read",
            Access::Write => "write",
        }
    }
}

impl Call {
    /// Returns the call that a request is, by its method and the path of its route.
    pub(super) fn of(request: &Request) -> Option<&'static Self> {
        let path = request.extensions().get::<MatchedPath>()?.as_str();
        let method = if *request.method() == Method::HEAD { "GET" } else { request.method().as_str() };
        let is_it = |call: &&Call| call.method == method && call.path == path;
        // A health check that is asked by another method is refused as openly.
        let is_open = |call: &&Call| call.access == Access::Open && call.path == path;
        CALLS.iter().find(is_it).or_else(|| CALLS.iter().find(is_open))
    }

    /// Returns true for a command, which may change what the list of members says.
    pub(super) fn changes_members(&self) -> bool {
        self.access == Access::Write && self.lasts == Some(Kind::Command)
    }

    /// Returns the statuses of all its refusals, sorted.
    fn refused(&self) -> Vec<u16> {
        let common: &[u16] = match self.access {
            Access::Open => &[400, 403, 408, 414, 429, 431],
            Access::Read => &[400, 401, 403, 408, 414, 429, 431],
            Access::Write => &[400, 401, 403, 408, 413, 414, 429, 431],
        };
        let mut all: Vec<u16> = common.iter().chain(self.refusals).copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns the names in its path.
    fn placeholders(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }

    /// Returns the path with its query, and an example of a body.
    fn shown(&self) -> String {
        let query: Vec<String> = self.query.iter().map(|parameter| format!("{}=", parameter.name)).collect();
        let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
        let body = match &self.body {
            Some(Taken::Json(_, example) | Taken::Optional(_, example)) => format!(" {example}"),
            Some(Taken::Bytes) | None => String::new(),
        };
        format!("{}{query}{body}", self.path)
    }
}

/// Returns all calls, one a line, for people.
pub(super) fn list() -> String {
    let rows: Vec<_> = CALLS.iter().map(|call| (call.method, call.shown(), call.brief)).collect();
    let method = rows.iter().map(|row| row.0.len()).max().unwrap_or(0);
    let what = rows.iter().map(|row| row.1.len()).max().unwrap_or(0);
    let mut list = "headcount: who is here, who is gone, and who leads\n\n".to_owned();
    for (name, shown, brief) in rows {
        let _ = writeln!(list, "{name:method$} {shown:what$}    {brief}");
    }
    list
}

/// Shows browsers the dashboard, and tells others the list of calls.
pub(super) async fn index(headers: HeaderMap) -> Response {
    let accepts = headers.get(header::ACCEPT).and_then(|accepts| accepts.to_str().ok()).unwrap_or_default();
    let mut answer = if accepts.contains("text/html") { dashboard::page().await } else { list().into_response() };
    answer.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    answer
}

/// Answers with the description in the form of OpenAPI 3.1.
pub(super) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}
