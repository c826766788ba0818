//! Members and commands: the handlers that ask the agent one thing and answer once.
//!
//! Invariant: reads never ask the driver, they come from the published members; commands answer with what was achieved,
//! or with a refusal that says whether to try again.

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::App;
use super::problem::Refusal;
use super::query::Pairs;
use crate::core::limits::MAX_SEEDS;
use crate::core::{NodeId, Status, Tags};
use crate::json;

/// A body that must be JSON, or why it is not.
type Body<T> = Result<Json<T>, JsonRejection>;

pub(super) async fn info(State(app): State<App>, query: Pairs) -> Result<Json<json::Info>, Refusal> {
    query.only(&[])?;
    Ok(Json(json::Info::new(&app.agent.info(), Some(app.address), super::health::tasks(&app.agent))))
}

pub(super) async fn members(State(app): State<App>, query: Pairs) -> Result<Json<Vec<json::Member>>, Refusal> {
    query.only(&["status", "tag"])?;
    let statuses = query.words("status", &Status::NAMES)?;
    let tags = query.tags("tag")?;
    let listed = |status: Status| match statuses.as_slice() {
        // Those that left are history: they are shown to whoever asks for them.
        [] => !matches!(status, Status::Left(_)),
        asked => asked.contains(&status.name()),
    };
    let members = app.agent.members();
    let members = members
        .iter()
        .filter(|member| listed(member.status) && tags.iter().all(|tag| tag.admits(&member.tags)))
        .map(json::Member::from)
        .collect();
    Ok(Json(members))
}

pub(super) async fn member(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    query: Pairs,
) -> Result<Json<json::Member>, Refusal> {
    query.only(&[])?;
    let id = named(path)?;
    let member = app.agent.member(&id).ok_or_else(|| Refusal::no_such_member(id.as_str()))?;
    Ok(Json(json::Member::from(&member)))
}

pub(super) async fn remove(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    query: Pairs,
) -> Result<Response, Refusal> {
    query.only(&["force"])?;
    let force = query.flag("force")?;
    let id = named(path)?;
    let removed = app.agent.remove(&id, force).await?;
    let status = if removed.confirmed { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(json::Removed::new(&id, removed.held_by, removed.confirmed))).into_response())
}

pub(super) async fn join(
    State(app): State<App>,
    query: Pairs,
    body: Body<json::JoinRequest>,
) -> Result<Json<json::JoinResults>, Refusal> {
    query.only(&[])?;
    let Json(json::JoinRequest { addresses }) = body?;
    if addresses.is_empty() || addresses.len() > MAX_SEEDS {
        let detail = format!("a join takes 1 to {MAX_SEEDS} addresses, found {}", addresses.len());
        return Err(Refusal::value(detail));
    }
    let results: Vec<_> = app.agent.join(addresses).await?.into_iter().map(json::JoinResult::from).collect();
    if results.iter().any(|result| result.node.is_some()) {
        return Ok(Json(json::JoinResults { results }));
    }
    let detail = match results.as_slice() {
        [only] => format!("{}: {}", only.address, only.error.as_deref().unwrap_or("nobody answered")),
        all => format!("none of {} addresses answered", all.len()),
    };
    Err(Refusal::new(StatusCode::BAD_GATEWAY, "nobody-answered", "Nobody answered", detail)
        .hint("check address and gossip port, firewalls for UDP, and the cluster name on both sides")
        .results(results))
}

pub(super) async fn leave(State(app): State<App>, query: Pairs) -> Result<StatusCode, Refusal> {
    query.only(&[])?;
    if app.agent.me().status == Status::Leaving {
        // Asking twice is no mistake: the answer is the same.
        return Ok(StatusCode::ACCEPTED);
    }
    let agent = app.agent.clone();
    // The answer must not wait for the farewell: when that is over, so is the process.
    tokio::spawn(async move { agent.leave().await });
    Ok(StatusCode::ACCEPTED)
}

pub(super) async fn set_tags(
    State(app): State<App>,
    query: Pairs,
    body: Body<json::SetTags>,
) -> Result<Json<json::SetTags>, Refusal> {
    query.only(&[])?;
    let Json(json::SetTags { tags }) = body?;
    app.agent.set_tags(Tags::new(tags.clone())?).await?;
    Ok(Json(json::SetTags { tags }))
}

/// The member named in the path. What cannot be a name cannot be a member either.
fn named(path: Result<Path<String>, PathRejection>) -> Result<NodeId, Refusal> {
    let Path(id) = path?;
    NodeId::new(&id).map_err(|_| Refusal::no_such_member(&id))
}
