//! Refusals: errors as `application/problem+json`.
//!
//! Invariant: this is the only place that writes an error's body, so that all errors have the same form.
//!
//! | idea | file |
//! |---|---|
//! | the form of a refusal; the refusals of the interface's own | here |
//! | errors of the agent and of the HTTP library, each with its status | `errors` |
//!
//! Must not know: which call is refused.

mod errors;

use std::collections::BTreeSet;

use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use super::limits::{MAX_BODY_BYTES, MAX_READ_HEADERS_BYTES, MAX_TARGET_BYTES};
use crate::agent::{LeaderAddress, LeaseNodesError};
use crate::config::LeadershipMode;
use crate::core::NodeId;
use crate::json;
use crate::lease::LeaseName;
use crate::seal::KeyId;

/// One refusal. `Box`ed, because it is the rare case of every handler's result.
#[derive(Debug)]
pub(super) struct Refusal(Box<json::Problem>);

impl Refusal {
    pub(super) fn new(status: StatusCode, word: &str, title: &str, detail: impl Into<String>) -> Self {
        Self(Box::new(json::Problem {
            kind: format!("urn:headcount:problem:{word}"),
            title: title.to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            hint: None,
            results: None,
            leader: None,
        }))
    }

    /// The removal of a voter that may live beyond a suspected partition.
    pub(super) fn beyond_a_cut(id: &NodeId) -> Self {
        let detail =
            format!("{id} is a voter, a network partition is suspected, and {id} may be alive on the other side");
        Self::new(StatusCode::CONFLICT, "may-be-alive", "The voter may be alive", detail).hint(
            "mend the network first; ?force=true removes it all the same, and ends its agent when it hears of that",
        )
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    pub(super) fn results(mut self, results: Vec<json::JoinResult>) -> Self {
        self.0.results = Some(results);
        self
    }

    /// Names the leader, if it matters (409, 504) and is not named already: programs go there, or see that it is another
    /// one.
    pub(super) fn led_by(mut self, leader: Option<&LeaderAddress>) -> Self {
        if self.0.leader.is_none() && matches!(self.0.status, 409 | 504) {
            self.0.leader = leader.map(Into::into);
        }
        self
    }

    /// Refuses a query that this build does not understand.
    pub(super) fn query(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "query", "Query not understood", detail)
    }

    pub(super) fn value(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "value", "Value refused", detail)
    }

    pub(super) fn no_such_member(id: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "no-such-member",
            "No such member",
            format!("no member is named \"{}\"", id.escape_debug()),
        )
        .hint("GET /v1/members lists them all")
    }

    pub(super) fn no_such_work(id: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "no-such-work",
            "No such work",
            format!("no led work named \"{}\" is under way here", id.escape_debug()),
        )
        .hint("its time has run out, or it was ended: end what it does, then begin anew with POST /v1/leader/work")
    }

    /// Refuses a question about a lease where leaders do not come by one.
    pub(super) fn no_leases(mode: LeadershipMode) -> Self {
        let detail = LeaseNodesError::NotLeaseMode.to_string();
        Self::new(StatusCode::NOT_FOUND, "no-such-lease", "No such lease", detail)
            .hint(format!("leave the lease out; {}", Self::instead_of_leases(mode)))
    }

    /// Refuses a listing of the nodes in the database where there is no database.
    pub(super) fn no_lease_nodes(mode: LeadershipMode) -> Self {
        Self::new(StatusCode::CONFLICT, "no-leases", "No leases here", LeaseNodesError::NotLeaseMode.to_string())
            .hint(Self::instead_of_leases(mode))
    }

    /// Returns a thing to try instead of leases. Nodes of one cluster that get their leaders in two ways may have two of
    /// them, so that nobody is sent from one way to the other.
    const fn instead_of_leases(mode: LeadershipMode) -> &'static str {
        match mode {
            LeadershipMode::Quorum => "voters elect the leader: see `headcount voters list`",
            LeadershipMode::None => "no leader is elected here (leadership.mode = \"none\")",
            LeadershipMode::Lease => "see leadership.lease.url",
        }
    }

    pub(super) fn no_such_lease(lease: &LeaseName, contended: &BTreeSet<LeaseName>) -> Self {
        // The first of them that fit into a line.
        let mut names: Vec<String> = contended.iter().take(8).map(ToString::to_string).collect();
        if contended.len() > names.len() {
            names.push("…".to_owned());
        }
        Self::new(
            StatusCode::NOT_FOUND,
            "no-such-lease",
            "No such lease",
            format!("this node does not contend for the lease {lease}, but for {}", names.join(", ")),
        )
        .hint("name it in leadership.lease.leases, or have the program ask for it (Agent::lease)")
    }

    /// Refuses the removal of a key that nobody holds.
    pub(super) fn not_heard(voters: &str) -> Self {
        let detail = format!(
            "voters of the old electorate that are not heard from here: {voters}; whoever lives behind a cut, and \
            all who follow it, would give way to the new one"
        );
        Self::new(StatusCode::CONFLICT, "electorate", "Electorate not changed", detail)
            .hint("be sure that they are gone for good, then pass --end-unheard (\"end_unheard\": true)")
    }

    pub(super) fn no_such_key(id: KeyId) -> Self {
        let detail = format!("no member that answers holds the key {id}: nothing was removed");
        Self::new(StatusCode::NOT_FOUND, "no-such-key", "No such key", detail)
            .hint("check the id: GET /v1/keys (`headcount keys list`) shows who holds which")
    }

    pub(super) fn no_such_request(id: &str) -> Self {
        let detail = format!("no request \"{}\" is waiting for an answer here", id.escape_debug());
        Self::new(StatusCode::NOT_FOUND, "no-such-request", "No such request", detail)
            .hint("it was answered already, is past its deadline, or came to another agent: name that one by --http")
    }

    /// Refuses a command that only the leader carries out, sent to another node.
    fn not_leader(leader: Option<&LeaderAddress>) -> Self {
        let refuse = |detail: &str| Self::new(StatusCode::CONFLICT, "not-leader", "Not the leader", detail);
        let Some(leader) = leader else {
            return refuse("nobody leads at the moment, and only the leader changes the electorate")
                .hint("GET /v1/leader (`headcount leader`) says why; try again when somebody leads");
        };
        let api = leader.api_address.as_ref().map(|api| format!(", its api at {api}")).unwrap_or_default();
        let hint = match leader.address {
            Some(gossip) => format!("ask {}: its gossip is at {gossip}{api}", leader.id),
            None => format!("ask {}", leader.id),
        };
        let mut refusal = refuse("this node does not lead, and only the leader changes the electorate").hint(hint);
        refusal.0.leader = Some(leader.into());
        refusal
    }

    pub(super) fn stopping(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "This node is stopping", detail)
            .hint("ask another member")
    }

    pub(super) fn too_many_streams(limit: usize) -> Self {
        Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too-many-streams",
            "Too many event streams",
            format!(
                "{} open, and no more are served",
                if limit == 1 { "1 event stream is".to_owned() } else { format!("{limit} event streams are") }
            ),
        )
        .hint("close streams that nobody reads, or watch another member")
    }

    pub(super) fn too_many_connections() -> Self {
        Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too-many-connections",
            "Too many connections",
            "all connections are being answered, and this one is for health checks",
        )
        .hint("try again soon, ask another member, or raise http.max_connections")
    }

    pub(super) fn too_many_answers() -> Self {
        Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too-many-answers",
            "Too many large answers",
            "too many large answers are being read by others",
        )
        .hint("try again soon, ask another member, or follow GET /v1/events?snapshot=true instead of asking often")
    }

    pub(super) fn read_only(detail: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "read-only", "Token for reading", detail)
            .hint("present the token in the agent's http.token_file")
    }

    pub(super) fn too_many_bodies() -> Self {
        Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too-many-bodies",
            "Too many large bodies",
            "too many large bodies are being read by this node",
        )
        .hint("try again soon")
    }

    pub(super) fn too_many_messages() -> Self {
        Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too-many-messages",
            "Too many messages",
            "too many messages of this node wait for the other side",
        )
        .hint("try again soon, send to members that answer, or ask with a shorter timeout_ms")
    }

    pub(super) fn too_many_commands() -> Self {
        Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too-many-commands",
            "Too many commands",
            "too many commands are under way at this node",
        )
        .hint("try again soon")
    }

    pub(super) fn body_too_large(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", "Body too large", detail)
            .hint(format!("a body has at most {MAX_BODY_BYTES} bytes"))
    }

    /// A path, with its query, that is longer than any call's.
    pub(super) fn target_too_long(bytes: usize) -> Self {
        let detail = format!("a path with its query has at most {MAX_TARGET_BYTES} bytes, found {bytes}");
        Self::new(StatusCode::URI_TOO_LONG, "path-too-long", "Path too long", detail)
            .hint("ask for all, and select among the answers; or ask several times")
    }

    /// Headers that are read, and longer than any caller's.
    pub(super) fn headers_too_long(bytes: usize) -> Self {
        let detail = format!("the headers that are read have at most {MAX_READ_HEADERS_BYTES} bytes, found {bytes}");
        Self::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "headers-too-long", "Headers too long", detail)
    }

    pub(super) fn timeout(seconds: u64) -> Self {
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            "timeout",
            "Request timed out",
            format!("the request was not complete and answered within {seconds} s"),
        )
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // A problem consists of strings and numbers, which cannot fail to be encoded.
        let body = serde_json::to_vec(&self.0).unwrap_or_default();
        let content_type = HeaderValue::from_static("application/problem+json");
        let mut response = (status, [(header::CONTENT_TYPE, content_type)], body).into_response();
        let headers = response.headers_mut();
        match status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            // The rest of the body may still be on its way; the next request would be read from the middle of it.
            StatusCode::REQUEST_TIMEOUT | StatusCode::PAYLOAD_TOO_LARGE => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response
    }
}

/// The number of characters of a path that an answer repeats: answers wait in memory while nobody reads them.
const MAX_SHOWN_PATH: usize = 200;

fn shown(uri: &Uri) -> String {
    let path = uri.path();
    let shown: String = path.chars().take(MAX_SHOWN_PATH).flat_map(char::escape_debug).collect();
    if path.chars().nth(MAX_SHOWN_PATH).is_some() { shown + "…" } else { shown }
}

/// Refuses a path that is not served.
pub(super) async fn no_route(uri: Uri) -> Refusal {
    let detail = format!("nothing is served at {}", shown(&uri));
    Refusal::new(StatusCode::NOT_FOUND, "no-route", "No such path", detail).hint("GET / lists what there is")
}

/// Refuses a method that a path does not accept.
pub(super) async fn no_method(method: Method, uri: Uri) -> Refusal {
    let detail = format!("{} does not take {method}", shown(&uri));
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "no-method", "Method not allowed", detail)
        .hint("the header `Allow` names the methods it takes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_path_an_answer_repeats_a_part() {
        let shown_of = |path: &str| shown(&path.parse().expect("a path"));
        assert_eq!(shown_of("/v1/nowhere?key=value"), "/v1/nowhere");
        let longest = format!("/{}", "x".repeat(MAX_SHOWN_PATH - 1));
        assert_eq!(shown_of(&longest), longest);
        assert_eq!(shown_of(&format!("{longest}x")), format!("{longest}…"));
    }
}
