//! Health, readiness, and the list of what there is.
//!
//! Invariant: `/healthz` says whether the process should be restarted, `/readyz` whether it should be asked; a node that
//! waits for its seeds is healthy and not ready.

use axum::extract::State;
use axum::http::StatusCode;

use super::App;
use crate::agent::Agent;
use crate::core::Status;

const INDEX: &str = "\
headcount: who is here, who is gone, and who leads

GET    /v1/members?status=&tag=                   all members
GET    /v1/members/{id}                           one member
DELETE /v1/members/{id}?force=                    take a member out
GET    /v1/events?after=&kind=&node=&snapshot=    server-sent events
POST   /v1/join  {\"addresses\":[\"host:port\"]}      contact other nodes
POST   /v1/leave                                  leave and stop
PUT    /v1/tags  {\"tags\":{\"key\":\"value\"}}         replace this node's tags
GET    /v1/info                                   this node
GET    /metrics                                   OpenMetrics
GET    /healthz                                   are all parts alive?
GET    /readyz                                    has it joined?
";

pub(super) async fn index() -> &'static str {
    INDEX
}

pub(super) async fn healthz(State(app): State<App>) -> (StatusCode, String) {
    let tasks = tasks(&app.agent);
    let status = if tasks == "ok" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, tasks)
}

pub(super) async fn readyz(State(app): State<App>) -> (StatusCode, &'static str) {
    match app.agent.me().status {
        Status::Up | Status::Suspect => (StatusCode::OK, "ok"),
        not_yet_or_no_more => (StatusCode::SERVICE_UNAVAILABLE, not_yet_or_no_more.name()),
    }
}

/// `ok`, or what died.
pub(super) fn tasks(agent: &Agent) -> String {
    match agent.health() {
        Ok(()) => "ok".to_owned(),
        Err(dead) => dead.to_string(),
    }
}
