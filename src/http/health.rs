//! Health and readiness.
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

    /// Returns the answers of a node by itself, as health and as readiness, once this task of it has died.
    async fn answers(dead: Option<&'static str>) -> [(u16, String); 2] {
        let config = crate::Config::new("a").expect("a name").with_profile(crate::Profile::Local);
        let agent = Agent::start(config.with_bind("127.0.0.1:0".parse().expect("an address"))).await.expect("started");
        agent.wait_until_up().await.expect("up");
        if let Some(task) = dead {
            agent.report_dead(task);
        }
        let app = App::new(super::super::Shared::of(agent.clone()));
        let (health, said) = healthz(State(App::clone(&app))).await;
        let (readiness, why) = readyz(State(app)).await;
        agent.leave().await;
        [(health.as_u16(), said), (readiness.as_u16(), why.to_owned())]
    }

    #[tokio::test]
    async fn a_process_with_a_dead_task_is_to_be_restarted_and_one_with_a_dead_driver_takes_no_requests() {
        let answered = [answers(None).await, answers(Some("journal")).await, answers(Some("driver")).await];
        let ok = || (200, "ok".to_owned());
        let told = |task| (503, format!("task {task} ended unexpectedly: by the test"));
        let expected = [[ok(), ok()], [told("journal"), ok()], [told("driver"), (503, "stopped".to_owned())]];
        assert_eq!(answered, expected, "health and readiness, without and with a dead task");
    }
}
