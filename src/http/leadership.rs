//! Who leads, who votes, what was agreed; and the operator's commands about them.
//!
//! Invariant: what is said about a lease is judged by the clock at the time of the request. A process that was stopped past
//! its lease does not claim to lead, not even in its first answer.

use axum::Json;
use axum::extract::State;

use super::App;
use super::input::{Body, Named};
use super::problem::Refusal;
use super::query::NoQuery;
use crate::agent::Agent;
use crate::core::NodeId;
use crate::core::election::Electorate;
use crate::core::limits::MAX_VOTERS;
use crate::json;

pub(super) async fn leader(State(app): State<App>, _: NoQuery) -> Result<Json<json::Leader>, Refusal> {
    let mode = app.agent.config().leadership.mode;
    Ok(Json(json::Leader::new(&app.agent.leadership().get(), mode)))
}

pub(super) async fn voters(State(app): State<App>, _: NoQuery) -> Result<Json<json::Voters>, Refusal> {
    Ok(Json(listed(&app.agent, app.agent.electorate().as_deref())))
}

pub(super) async fn view(State(app): State<App>, _: NoQuery) -> Result<Json<json::View>, Refusal> {
    Ok(Json(app.agent.agreed_view().into()))
}

pub(super) async fn add(
    State(app): State<App>,
    _: NoQuery,
    body: Body<json::AddVoter>,
) -> Result<Json<json::Voters>, Refusal> {
    let Json(json::AddVoter { id }) = body?;
    let electorate = app.agent.add_voter(named(&id)?).await?;
    Ok(Json(listed(&app.agent, Some(&electorate))))
}

pub(super) async fn remove(
    State(app): State<App>,
    Named(id): Named,
    _: NoQuery,
) -> Result<Json<json::Voters>, Refusal> {
    let electorate = app.agent.remove_voter(id).await?;
    Ok(Json(listed(&app.agent, Some(&electorate))))
}

pub(super) async fn recover(
    State(app): State<App>,
    _: NoQuery,
    body: Body<json::Recover>,
) -> Result<Json<json::Voters>, Refusal> {
    let Json(json::Recover { voters, anew }) = body?;
    if voters.is_empty() || voters.len() > MAX_VOTERS {
        let detail = format!("a recovery names 1 to {MAX_VOTERS} voters, found {}", voters.len());
        return Err(Refusal::value(detail));
    }
    let voters = voters.iter().map(|id| named(id)).collect::<Result<_, _>>()?;
    let electorate = if anew { app.agent.found_anew(voters).await? } else { app.agent.recover(voters).await? };
    Ok(Json(listed(&app.agent, Some(&electorate))))
}

fn listed(agent: &Agent, electorate: Option<&Electorate>) -> json::Voters {
    let status = |id: &NodeId| agent.member(id).map(|member| member.status.name().to_owned());
    json::Voters::new(electorate, agent.leadership().get().term, status)
}

fn named(id: &str) -> Result<NodeId, Refusal> {
    NodeId::new(id).map_err(|error| Refusal::value(format!("\"{}\" is not a valid name: {error}", id.escape_debug())))
}
