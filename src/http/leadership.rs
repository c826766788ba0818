//! The leader, the voters and the agreed view; and the operator's commands about them.
//!
//! Invariant: remaining lease times are judged by the clock at the time of the request. A process that was stopped past
//! its lease does not claim to lead, not even in its first answer.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};

use super::App;
use super::input::{Body, BodyOrNone, Named, NoBody, Object, Text};
use super::problem::Refusal;
use super::query::{NoQuery, Pairs};
use super::table::{ConnectionState, Kind};
use crate::agent::{Agent, AgentError, Lease, LeaseNodesError, Permit};
use crate::core::election::{ChangeError, Electorate};
use crate::core::limits::MAX_VOTERS;
use crate::core::{CommandError, NodeId};
use crate::json::{self, EventId};
use crate::lease::LeaseName;

/// Returns the leader; with `confirm=true` only the leader itself answers, once a majority has confirmed that it leads.
pub(super) async fn leader(
    State(app): State<App>,
    Extension(line): Extension<Arc<ConnectionState>>,
    query: Pairs,
) -> Result<Json<json::Leader>, Refusal> {
    query.only(&["confirm", "lease"])?;
    let lease = lease_of(&app, &query)?;
    if query.flag("confirm")? {
        // Others are asked for it, as for a command.
        let _hold = app.table.enter(&line, Kind::Command).ok_or_else(Refusal::too_many_commands)?;
        let confirmed = match &lease {
            Some(lease) => lease.confirm_leadership().await?,
            None => app.agent.confirm_leadership().await?,
        };
        let mode = app.agent.config().leadership.mode;
        let leader = json::Leader::confirmed(app.agent.me().id.as_str(), &confirmed, mode);
        return Ok(Json(leader.contending(contends(&app, lease.as_ref()))));
    }
    Ok(Json(who_leads(&app, lease.as_ref())))
}

/// Returns 200 if this node leads at this moment: for load balancers, which look at the status alone.
pub(super) async fn leaderz(State(app): State<App>, query: Pairs) -> Result<(StatusCode, &'static str), Refusal> {
    query.only(&["lease"])?;
    let lease = lease_of(&app, &query)?;
    let leadership = lease.as_ref().map_or_else(|| app.agent.leadership(), Lease::leadership).get();
    let is_leader = leadership.is_leader_now() && app.agent.stop().is_none();
    Ok(if is_leader { (StatusCode::OK, "leader") } else { (StatusCode::SERVICE_UNAVAILABLE, "not the leader") })
}

/// Returns the nodes in the table of the database.
pub(super) async fn lease_nodes(State(app): State<App>, query: Pairs) -> Result<Json<json::LeaseNodes>, Refusal> {
    query.only(&["lease"])?;
    let lease = lease_of(&app, &query)?.map(|lease| lease.name().clone()).unwrap_or_default();
    match app.agent.lease_nodes(&lease).await {
        Err(LeaseNodesError::NotLeaseMode) => Err(Refusal::no_lease_nodes(app.agent.config().leadership.mode)),
        nodes => Ok(Json(nodes?.into())),
    }
}

/// Returns the lease that the query names; `None` if it is the one that the cluster is led by, in any mode.
fn lease_of(app: &App, query: &Pairs) -> Result<Option<Lease>, Refusal> {
    let Some(name) = named_lease(query)?.filter(|name| name.as_str() != LeaseName::DEFAULT) else { return Ok(None) };
    let Some(contended) = app.agent.leases_contended_for() else {
        return Err(Refusal::no_leases(app.agent.config().leadership.mode));
    };
    app.agent.contended_lease(&name).map(Some).ok_or_else(|| Refusal::no_such_lease(&name, &contended))
}

fn named_lease(query: &Pairs) -> Result<Option<LeaseName>, Refusal> {
    let named = |name: &str| {
        LeaseName::new(name).map_err(|error| Refusal::query(format!("lease \"{}\": {error}", name.escape_debug())))
    };
    query.word("lease")?.map(named).transpose()
}

/// Has the leader give leadership up; returns the leader as far as this node knows then.
pub(super) async fn resign(
    State(app): State<App>,
    query: Pairs,
    body: Result<BodyOrNone<json::Resign>, Refusal>,
) -> Result<Json<json::Leader>, Refusal> {
    query.only(&["lease"])?;
    let lease = lease_of(&app, &query)?;
    let BodyOrNone(json::Resign { to }) = body?;
    let to = to.map(|to| named(&to)).transpose()?;
    let resigned = match &lease {
        Some(_) if to.is_some() => return Err(AgentError::NoSuccessor.into()),
        Some(lease) => lease.resign().await,
        None => app.agent.resign(to).await,
    };
    resigned.map_err(|error| refused(&app, lease.as_ref(), error))?;
    Ok(Json(who_leads(&app, lease.as_ref())))
}

/// Begins a piece of work that a caller runs while this node leads; a hand-over waits for its end.
pub(super) async fn begin_work(
    State(app): State<App>,
    query: Pairs,
    _: NoBody,
) -> Result<Json<json::LedWork>, Refusal> {
    query.only(&["lease"])?;
    let permit = app.work.begin(&app.agent, lease_of(&app, &query)?.as_ref()).await?;
    Ok(Json(told(&app, permit)))
}

/// Renews a piece of work: returns the time for which it may go on.
pub(super) async fn renew_work(
    State(app): State<App>,
    Text(id): Text,
    _: NoQuery,
    _: NoBody,
) -> Result<Json<json::LedWork>, Refusal> {
    let permit = piece(&app, &id).and_then(|id| app.work.renew(id));
    permit.map(|permit| Json(told(&app, permit))).ok_or_else(|| Refusal::no_such_work(&id))
}

/// Ends a piece of work.
pub(super) async fn end_work(
    State(app): State<App>,
    Text(id): Text,
    _: NoQuery,
    _: NoBody,
) -> Result<Json<json::LedWork>, Refusal> {
    let ended = piece(&app, &id).and_then(|piece| Some((piece, app.work.end(piece)?)));
    let (id, term) = ended.ok_or_else(|| Refusal::no_such_work(&id))?;
    Ok(Json(told(&app, Permit { id, term, until: None })))
}

/// Returns the number in the name of a piece of work, if it is one of this run.
fn piece(app: &App, id: &str) -> Option<u64> {
    id.parse::<EventId>().ok().filter(|id| id.run == app.agent.run()).map(|id| id.sequence)
}

fn told(app: &App, permit: Permit) -> json::LedWork {
    let id = EventId { run: app.agent.run(), sequence: permit.id };
    json::LedWork::new(id, app.agent.me().id.as_str(), permit.term, permit.until.map(|until| until.remaining()))
}

/// Returns a refusal that names the leader, if somebody leads: what an operator wants depends on who it is.
fn refused(app: &App, lease: Option<&Lease>, error: AgentError) -> Refusal {
    let leadership = lease.map_or_else(|| app.agent.leadership(), Lease::leadership).get();
    let leader = leadership.now().leader.map(|leader| app.agent.address_of(leader));
    Refusal::from(error).led_by(leader.as_ref())
}

fn who_leads(app: &App, lease: Option<&Lease>) -> json::Leader {
    let leadership = lease.map_or_else(|| app.agent.leadership(), Lease::leadership).get();
    json::Leader::new(&leadership, app.agent.config().leadership.mode).contending(contends(app, lease))
}

/// Returns true if this node contends for the lease, or for the cluster's; `None` where no lease leads.
fn contends(app: &App, lease: Option<&Lease>) -> Option<bool> {
    let name = lease.map_or_else(LeaseName::default, |lease| lease.name().clone());
    app.agent.leases_contended_for().map(|leases| leases.contains(&name))
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
    let Object(json::AddVoter { id, replaces }) = body?;
    let id = named(&id)?;
    let electorate = match replaces {
        Some(old) => app.agent.replace_voter(named(&old)?, id).await,
        None => app.agent.add_voter(id).await,
    };
    let electorate = electorate.map_err(|error| refused(&app, None, error))?;
    Ok(Json(listed(&app.agent, Some(&electorate))))
}

pub(super) async fn remove(
    State(app): State<App>,
    Named(id): Named,
    _: NoQuery,
) -> Result<Json<json::Voters>, Refusal> {
    let electorate = app.agent.remove_voter(id).await.map_err(|error| refused(&app, None, error))?;
    Ok(Json(listed(&app.agent, Some(&electorate))))
}

pub(super) async fn recover(
    State(app): State<App>,
    _: NoQuery,
    body: Body<json::Recover>,
) -> Result<Json<json::Voters>, Refusal> {
    let Object(json::Recover { voters, anew, end_unheard }) = body?;
    if voters.is_empty() || voters.len() > MAX_VOTERS {
        let detail = format!("a recovery names 1 to {MAX_VOTERS} voters, found {}", voters.len());
        return Err(Refusal::value(detail));
    }
    let voters = voters.iter().map(|id| named(id)).collect::<Result<_, _>>()?;
    if anew && !end_unheard && app.agent.leadership().get().leader.is_none() {
        let old = listed(&app.agent, app.agent.electorate().as_deref());
        old.unheard().map_or(Ok(()), |unheard| Err(Refusal::not_heard(&unheard)))?;
    }
    let electorate = if anew { app.agent.found_anew(voters).await } else { app.agent.recover(voters).await };
    let electorate = electorate.map_err(|error| {
        let is_no_voter = matches!(error, AgentError::Refused(CommandError::Electorate(ChangeError::NoVoter)));
        let left = is_no_voter.then(|| listed(&app.agent, app.agent.electorate().as_deref()).left());
        let refusal = refused(&app, None, error);
        match left.filter(|left| !left.is_empty()) {
            Some(left) => refusal.hint(format!("voters that are left: {}", left.join(", "))),
            None => refusal,
        }
    })?;
    Ok(Json(listed(&app.agent, Some(&electorate))))
}

fn listed(agent: &Agent, electorate: Option<&Electorate>) -> json::Voters {
    let status = |id: &NodeId| agent.member(id).map(|member| member.status.name().to_owned());
    let leadership = agent.leadership().get();
    let voters = json::Voters::new(electorate, leadership.leader.as_ref(), leadership.term, status)
        .of(agent.lineage())
        .beside(agent.other_electorate().as_deref())
        .after(agent.ended_electorate().as_deref());
    match agent.standings() {
        (Some(standings), now) => voters.standing(&standings, now, status),
        (None, _) => voters,
    }
}

fn named(id: &str) -> Result<NodeId, Refusal> {
    NodeId::new(id).map_err(|error| Refusal::value(format!("\"{}\" is not a valid name: {error}", id.escape_debug())))
}
