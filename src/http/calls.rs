//! Members and commands: the handlers that make one call to the agent and answer once.
//!
//! Invariant: reads never go through the driver, they use the published members; commands answer with their outcome, or
//! with a refusal that says whether to try again. Large answers are shared and read page by page, see
//! [`listing`](super::listing).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Json;
use axum::body::Body as Answer;
use axum::extract::{Extension, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use super::App;
use super::input::{Body, Named, Object};
use super::listing::{SMALL_VIEW, Selection, Source as _};
use super::problem::Refusal;
use super::query::{NoQuery, Pairs};
use super::reference::Access;
use crate::Agent;
use crate::core::limits::MAX_SEEDS;
use crate::core::{DetectionMethod, NodeId, Status, Tags};
use crate::json;

/// The time for which a listing is awaited that has what the last command changed: there may be no room for it yet.
const LISTING_PATIENCE: Duration = Duration::from_secs(1);

pub(super) async fn info(
    State(app): State<App>,
    Extension(access): Extension<Access>,
    _: NoQuery,
) -> Result<Json<json::Info>, Refusal> {
    let leases = app.agent.leases_contended_for();
    let leases = leases.map(|leases| leases.iter().map(ToString::to_string).collect());
    let info = json::Info::new(&app.agent.info(), Some(app.address), super::health::tasks(&app.agent));
    let missing = app.agent.joining().and_then(|joining| joining.missing);
    let info = info.contending_for(leases).with_agreement(&app.agent.agreement()).lacking(missing);
    Ok(Json(info.with_access(access.name())))
}

pub(super) async fn members(State(app): State<App>, query: Pairs) -> Result<Response, Refusal> {
    query.only(&["status", "tag"])?;
    let selection = Selection {
        statuses: query.words("status", &Status::NAMES)?,
        tags: query.tags("tag")?,
        ..Selection::default()
    };
    let body = if app.agent.info().members.iter().sum::<usize>() <= SMALL_VIEW {
        let listing = Arc::new(app.agent.list());
        listing.pages(selection, "", "").whole().into()
    } else {
        let with_changes = app.listings.get(app.changed_at.load(Ordering::Relaxed));
        let listing = match tokio::time::timeout(LISTING_PATIENCE, with_changes).await {
            Ok(listing) => listing,
            Err(_) => app.listings.get(0).await,
        };
        Answer::from_stream(stream::iter(listing.pages(selection, "", "")))
    };
    Ok(([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response())
}

pub(super) async fn member(
    State(app): State<App>,
    Named(id): Named,
    _: NoQuery,
) -> Result<Json<json::Member>, Refusal> {
    let member = app.agent.member(&id).ok_or_else(|| Refusal::no_such_member(id.as_str()))?;
    Ok(Json(json::Member::from(&member)))
}

/// Returns what members serve, for Prometheus to discover. Members that should get no work are left out by
/// [`TargetGroup::new`](json::TargetGroup::new) alone.
pub(super) async fn targets(State(app): State<App>, query: Pairs) -> Result<Json<Vec<json::TargetGroup>>, Refusal> {
    query.only(&["tag"])?;
    let tags = query.tags("tag")?;
    let cluster = &app.agent.config().cluster;
    let wanted = app.agent.live_members().into_iter().filter(|member| tags.iter().all(|tag| tag.admits(&member.tags)));
    Ok(Json(wanted.filter_map(|member| json::TargetGroup::new(cluster.as_str(), &member)).collect()))
}

pub(super) async fn remove(State(app): State<App>, Named(id): Named, query: Pairs) -> Result<Response, Refusal> {
    query.only(&["force"])?;
    let force = query.flag("force")?;
    let warnings = consequences(&app.agent, &id);
    if !force && is_voter(&app.agent, &id) && may_be_alive(&app.agent, &id) {
        return Err(Refusal::beyond_a_cut(&id));
    }
    let removed = app.agent.remove(&id, force).await?;
    let status = if removed.confirmed { StatusCode::OK } else { StatusCode::ACCEPTED };
    let removed = json::Removed::new(&id, removed.held_by, removed.confirmed).with_warnings(warnings);
    Ok((status, Json(removed)).into_response())
}

/// Returns what the removal of a member does that was perhaps not meant, as things are before it.
fn consequences(agent: &Agent, id: &NodeId) -> Vec<String> {
    let mut warnings = Vec::new();
    if is_voter(agent, id) {
        warnings.push(format!(
            "{id} is a voter, and is counted as one all the same: `headcount voters remove {id}` or `headcount voters \
             replace {id} NEW` changes the electorate"
        ));
    }
    if may_be_alive(agent, id) {
        warnings.push(format!(
            "a network partition is suspected: {id} may be alive on the other side; if it is, its agent ends (exit code 6) \
             when it hears of this, and stays away until somebody starts it again"
        ));
    }
    warnings
}

fn is_voter(agent: &Agent, id: &NodeId) -> bool {
    agent.electorate().is_some_and(|electorate| electorate.voters.iter().any(|voter| voter.id == *id))
}

/// Returns true if a member that is Down may live beyond a suspected partition.
fn may_be_alive(agent: &Agent, id: &NodeId) -> bool {
    let member = agent.member(id).filter(|member| member.status == Status::Down);
    member
        .is_some_and(|member| member.method == Some(DetectionMethod::NetworkPartition) || agent.info().unreachable > 0)
}

pub(super) async fn join(
    State(app): State<App>,
    _: NoQuery,
    body: Body<json::JoinRequest>,
) -> Result<Json<json::JoinResults>, Refusal> {
    let Object(json::JoinRequest { addresses }) = body?;
    if addresses.is_empty() || addresses.len() > MAX_SEEDS {
        let detail = format!("a join takes 1 to {MAX_SEEDS} addresses, found {}", addresses.len());
        return Err(Refusal::value(detail));
    }
    let results: Vec<_> = app.agent.join(addresses).await?.into_iter().map(json::JoinResult::from).collect();
    if results.iter().any(|result| result.node.is_some()) {
        return Ok(Json(json::JoinResults { results }));
    }
    if let Some(refused) = results.iter().find(|result| result.outcome == "refused") {
        // The refusal says what is to be mended.
        let detail = format!("{}: {}", refused.address, refused.error.as_deref().unwrap_or("refused"));
        return Err(Refusal::new(StatusCode::BAD_GATEWAY, "nobody-joined", "Refused", detail).results(results));
    }
    let is_not_up = |result: &json::JoinResult| result.outcome == "not_up";
    let detail = match results.as_slice() {
        [only] => format!("{}: {}", only.address, only.error.as_deref().unwrap_or("nobody answered")),
        all => match all.iter().filter(|result| is_not_up(result)).count() {
            0 => format!("none of {} addresses answered", all.len()),
            joining => {
                format!("none is up yet, they are joining themselves: {joining} of {} addresses answered", all.len())
            }
        },
    };
    let refusal = if results.iter().all(|result| result.outcome == "not_asked") {
        Refusal::new(StatusCode::BAD_GATEWAY, "nobody-answered", "Nobody answered", detail)
            .hint("nobody could be asked: write each address as host:port, with a name that resolves here")
    } else if results.iter().any(is_not_up) {
        Refusal::new(StatusCode::BAD_GATEWAY, "nobody-up", "Nobody is up", detail)
            .hint("whoever answered looks for a cluster itself: start one of its seeds, or a node without seeds, and join that")
    } else {
        Refusal::new(StatusCode::BAD_GATEWAY, "nobody-answered", "Nobody answered", detail)
            .hint(
                "check that an agent runs there, the address and its gossip port, firewalls for UDP, and that both sides have \
                 the same cluster name and key",
            )
    };
    Err(refusal.results(results))
}

pub(super) async fn doubt(State(app): State<App>, Named(id): Named, _: NoQuery) -> Result<StatusCode, Refusal> {
    app.agent.doubt(&id).await?;
    Ok(StatusCode::ACCEPTED)
}

pub(super) async fn leave(State(app): State<App>, _: NoQuery) -> Result<StatusCode, Refusal> {
    if app.agent.me().status == Status::Leaving {
        // Asking twice is no mistake: the answer is the same.
        return Ok(StatusCode::ACCEPTED);
    }
    let agent = app.agent.clone();
    // The answer must not wait for the farewell: the process ends when the farewell does.
    tokio::spawn(async move { agent.leave().await });
    Ok(StatusCode::ACCEPTED)
}

pub(super) async fn drain(State(app): State<App>, _: NoQuery) -> Result<Json<json::Drained>, Refusal> {
    let drained = app.agent.drain().await?;
    Ok(Json(json::Drained::new(&app.agent.me().id, true, drained.may_lead)))
}

pub(super) async fn undrain(State(app): State<App>, _: NoQuery) -> Result<Json<json::Drained>, Refusal> {
    let drained = app.agent.undrain().await?;
    Ok(Json(json::Drained::new(&app.agent.me().id, false, drained.may_lead)))
}

pub(super) async fn set_tags(
    State(app): State<App>,
    _: NoQuery,
    body: Body<json::SetTags>,
) -> Result<Json<json::SetTags>, Refusal> {
    let Object(json::SetTags { tags }) = body?;
    app.agent.set_tags(Tags::from_operator(tags.clone())?).await?;
    Ok(Json(json::SetTags { tags }))
}
