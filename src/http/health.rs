//! Health, readiness, and the list of calls.
//!
//! Invariant: `/healthz` tells whether the process should be restarted, `/readyz` whether it should be given requests;
//! a node that waits for its seeds, that belongs to a minority where leaders are elected by majority, or that cannot be
//! reached at the address it advertises, is healthy and not ready.

use axum::extract::State;
use axum::http::StatusCode;

use super::App;
use crate::agent::Agent;
use crate::config::LeadershipMode;
use crate::core::{LeadershipState, Status};

/// Method, path with its parameters or body, and description of each call.
const CALLS: [(&str, &str, &str); 32] = [
    ("GET", "/v1/members?status=&tag=", "all members"),
    ("GET", "/v1/members/{id}", "one member"),
    ("DELETE", "/v1/members/{id}?force=", "take a member out"),
    ("GET", "/v1/events?after=&kind=&node=&lease=&snapshot=&topic=", "server-sent events"),
    ("POST", r#"/v1/join {"addresses":["host:port"]}"#, "contact other nodes"),
    ("POST", "/v1/leave", "leave and stop"),
    ("POST", "/v1/drain", "lead nothing, and say so to everybody"),
    ("POST", "/v1/undrain", "take drain back"),
    ("PUT", r#"/v1/tags {"tags":{"key":"value"}}"#, "replace this node's tags"),
    ("GET", "/v1/leader?confirm=&lease=", "who leads; confirmed now, if asked for"),
    (
        "POST",
        r#"/v1/leader/resign?lease= {"to":"node"}"#,
        "have the leader give leadership up (no body: to anybody; a lease goes to whoever takes it)",
    ),
    ("GET", "/v1/lease/nodes?lease=", "nodes in the table of a database, the leader first"),
    ("POST", "/v1/leader/work?lease=", "begin work that is done only while this node leads"),
    ("POST", "/v1/leader/work/{id}", "for how long it may go on; ask often"),
    ("DELETE", "/v1/leader/work/{id}", "it has ended, so that leadership may be handed over"),
    ("GET", "/v1/view", "the members that voters agreed on"),
    ("GET", "/v1/voters", "who elects"),
    ("POST", r#"/v1/voters {"id":"node"}"#, "add a voter"),
    ("DELETE", "/v1/voters/{id}", "remove a voter"),
    ("POST", r#"/v1/recover {"voters":["node"]}"#, "a new electorate, when most of the old one is lost for good"),
    ("POST", r#"/v1/recover {"voters":["node"],"anew":true}"#, "the same, when all of it is lost"),
    ("POST", "/v1/broadcast/{topic}", "say something to every live member; bodies are raw bytes"),
    ("POST", "/v1/send/{node}/{topic}", "say something to one member, and wait until its agent has it"),
    ("POST", "/v1/request/{node}/{topic}?timeout_ms=", "ask one member something, and wait for the answer"),
    ("POST", "/v1/reply/{id}", "answer a request; those come with GET /v1/events?kind=message&topic="),
    ("POST", r#"/v1/deliver {"id":"","topic":"","payload":""}"#, "a broadcast of another agent, past all gossip"),
    ("GET", "/v1/info", "this node"),
    ("GET", "/dashboard", "the same for people, in a browser"),
    ("GET", "/metrics", "metrics for Prometheus"),
    ("GET", "/healthz", "are all parts alive?"),
    ("GET", "/leaderz?lease=", "200 on the leader, 503 elsewhere"),
    ("GET", "/readyz", "has it joined, is it reached, and can somebody lead?"),
];

pub(super) fn index() -> String {
    let width = |column: fn(&(&str, &str, &str)) -> usize| CALLS.iter().map(column).max().unwrap_or(0);
    let (method, path) = (width(|call| call.0.len()), width(|call| call.1.len()));
    let row = |(name, what, does): (&str, &str, &str)| format!("{name:method$} {what:path$}    {does}\n");
    let rows: String = CALLS.into_iter().map(row).collect();
    format!("headcount: who is here, who is gone, and who leads\n\n{rows}")
}

pub(super) async fn healthz(State(app): State<App>) -> (StatusCode, String) {
    let tasks = tasks(&app.agent);
    let status = if tasks == "ok" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, tasks)
}

pub(super) async fn readyz(State(app): State<App>) -> (StatusCode, &'static str) {
    let not_ready = |why| (StatusCode::SERVICE_UNAVAILABLE, why);
    let is_driven = app.agent.health().map_or_else(|failure| failure.task != "driver", |()| true);
    if app.agent.stop().is_some() || !is_driven {
        // The driver is dead: the members are those of its last moment.
        return not_ready("stopped");
    }
    let info = app.agent.info();
    // A database that cannot be reached is out of reach for all: taking all nodes out of service would make it worse.
    let is_elected = app.agent.config().leadership.mode == LeadershipMode::Quorum;
    let leadership = if is_elected { app.agent.leadership().get().state } else { LeadershipState::Vacant };
    match why_not_ready(info.me.status, info.reachable, leadership) {
        Some(why) => not_ready(why),
        None => (StatusCode::OK, "ok"),
    }
}

/// Returns the reason why a node of this status should not be given requests; `None` if it is ready.
fn why_not_ready(status: Status, is_reachable: bool, leadership: LeadershipState) -> Option<&'static str> {
    match status {
        // Others hold it as Down, or soon will.
        Status::Up | Status::Suspect if !is_reachable => Some("unreachable"),
        // It belongs to a minority, whose view may be far behind.
        Status::Up | Status::Suspect if leadership == LeadershipState::Unavailable => Some(leadership.name()),
        Status::Up | Status::Suspect => None,
        not_yet_or_no_more => Some(not_yet_or_no_more.name()),
    }
}

/// Returns `ok`, or the task that died.
pub(super) fn tasks(agent: &Agent) -> String {
    match agent.health() {
        Ok(()) => "ok".to_owned(),
        Err(dead) => dead.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_ready_that_is_a_member_is_reached_and_belongs_to_no_minority() {
        use LeadershipState::{Led, Unavailable};
        assert_eq!(why_not_ready(Status::Up, true, Led), None);
        assert_eq!(why_not_ready(Status::Suspect, true, Led), None);
        assert_eq!(why_not_ready(Status::Up, false, Led), Some("unreachable"));
        assert_eq!(why_not_ready(Status::Up, true, Unavailable), Some("unavailable"));
        assert_eq!(why_not_ready(Status::Joining, true, Led), Some("joining"));
        assert_eq!(why_not_ready(Status::Leaving, true, Led), Some("leaving"));
    }

    #[test]
    fn all_lines_of_the_list_are_aligned() {
        let index = index();
        let rows: Vec<&str> = index.lines().skip(2).collect();
        assert_eq!(rows.len(), CALLS.len());
        let begin = rows[0].find(CALLS[0].2).expect("a description");
        for (row, (method, path, does)) in rows.iter().zip(CALLS) {
            assert_eq!((row.find(path), row.find(does)), (Some("DELETE ".len()), Some(begin)), "{index}");
            assert!(row.starts_with(method) && row[..begin].ends_with("    "), "{index}");
        }
    }
}
