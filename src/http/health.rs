//! Health, readiness, and the list of what there is.
//!
//! Invariant: `/healthz` says whether the process should be restarted, `/readyz` whether it should be asked; a node that
//! waits for its seeds, or belongs to a minority where leaders are elected by majority, is healthy and not ready.

use axum::extract::State;
use axum::http::StatusCode;

use super::App;
use crate::agent::Agent;
use crate::core::{LeadershipState, Status};

const INDEX: &str = "\
headcount: who is here, who is gone, and who leads

GET    /v1/members?status=&tag=                   all members
GET    /v1/members/{id}                           one member
DELETE /v1/members/{id}?force=                    take a member out
GET    /v1/events?after=&kind=&node=&snapshot=    server-sent events
POST   /v1/join  {\"addresses\":[\"host:port\"]}      contact other nodes
POST   /v1/leave                                  leave and stop
PUT    /v1/tags  {\"tags\":{\"key\":\"value\"}}         replace this node's tags
GET    /v1/leader                                 who leads
GET    /v1/view                                   the members that voters agreed on
GET    /v1/voters                                 who elects
POST   /v1/voters {\"id\":\"node\"}                 add a voter (at the leader)
DELETE /v1/voters/{id}                            remove a voter (at the leader)
POST   /v1/recover {\"voters\":[\"node\"]}          a new electorate, when most of the old one is lost for good
GET    /v1/info                                   this node
GET    /metrics                                   OpenMetrics
GET    /healthz                                   are all parts alive?
GET    /readyz                                    has it joined, and can somebody lead?
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
        Status::Up | Status::Suspect => match app.agent.leadership().get().state {
            // It belongs to a minority, whose view of the world may be far behind.
            LeadershipState::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, LeadershipState::Unavailable.name()),
            _ => (StatusCode::OK, "ok"),
        },
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
