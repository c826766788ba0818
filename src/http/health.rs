//! Health and readiness, and the verdict on all of it.
//!
//! Invariant: `/healthz` tells whether the process should be restarted, `/readyz` whether it should be given requests; a node that waits for its seeds, that belongs to a minority where leaders are elected by majority, or
//! that cannot be reached at the address it advertises, is healthy and not ready.

use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::query::NoQuery;
use super::{App, Shared};
use crate::agent::{Agent, Reason, VerdictState};
use crate::json;

pub(super) async fn healthz(State(app): State<App>) -> (StatusCode, String) {
    let tasks = tasks(&app.agent);
    let status = if tasks == "ok" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, tasks)
}

pub(super) async fn readyz(State(app): State<App>) -> (StatusCode, &'static str) {
    match app.agent.why_not_ready() {
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
        None => (StatusCode::OK, "ok"),
    }
}

/// Answers with the one judgement of this node and its cluster.
pub(super) async fn verdict(State(app): State<App>, _: NoQuery) -> Json<json::Verdict> {
    Json(app.agent.verdict().into())
}

/// Returns what this interface has to say beside the agent: of its streams, of event handlers, of the log.
pub(super) fn own(app: &Shared) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let (figures, most) = (app.table.figures(), app.table.limits().streams());
    if figures.streams >= most {
        let text = format!("all event streams are taken ({most}): dashboards and `headcount watch` get none");
        let reason = Reason::new("streams_taken", VerdictState::Degraded, text);
        reasons.push(reason.hint("see who holds them, or raise http.max_streams"));
    }
    let mut note = |code, text: String, hint| reasons.push(Reason::new(code, VerdictState::Well, text).hint(hint));
    // One that works again is still named, so that nobody takes a machine whose restart was missed for a handled one.
    let failed = app.handlers.figures().into_iter().filter(|(_, figures)| figures.failures + figures.missed > 0);
    let told = failed.map(|(name, figures)| {
        let (failures, runs, missed) = (figures.failures, figures.runs, figures.missed);
        format!("runs of {name} that failed: {failures} of {runs}, events that it missed: {missed}")
    });
    let told = told.collect::<Vec<_>>().join("; ");
    if !told.is_empty() {
        let hint =
            "the agent's log has the reason of each failure; what fails again and again is to be mended at the handler";
        note("handler_failed", format!("since the agent's start {told}"), hint);
    }
    let lost = app.agent.log_lines_lost() + app.log_lines_lost.load(Ordering::Relaxed);
    if lost > 0 {
        let hint = "whatever reads standard error is too slow, or its disk is full";
        note("log_lines_lost", format!("{lost} lines of the log were lost since the agent's start"), hint);
    }
    if figures.panics > 0 {
        let text = format!("{} HTTP connections ended because of a bug since the agent's start", figures.panics);
        note("http_panicked", text, "please report it, with the log");
    }
    reasons
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
