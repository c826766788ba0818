//! The checks and bounds of every request: the length of its target and headers, the token, the host, the origin, the
//! deadline, the number of commands at one time and the weight of answers.
//!
//! Invariants:
//! - Tokens are compared by `access` alone.
//! - Nobody changes keys where there is no token.
//! - Health checks stay open: a supervisor that restarts dead processes has no token, and may know the agent by any
//!   name.
//! - A request that a web page of another origin made is refused. Browsers send such requests (a form, a `fetch`, an
//!   image) to loopback addresses too, so that binding loopback alone is no protection; such a request is recognised by
//!   the headers `Origin` and `Sec-Fetch-Site`, and by `Host` if the page made its own name resolve to us.
//! - Every answer, refusals included, says that it is not to be cached, shown as another type than its own, or embedded
//!   in pages of others. There is no header by which another origin might read it.
//! - A command counts as one when its whole body is there: half a body holds up its sender only. A read that asks other
//!   nodes counts as one, too.
//! - Messages that wait for the other side, replies to them and all other commands are counted apart, and renewals of
//!   led work are not counted at all: no number of messages keeps an operator out, or ends led work.
//! - Whoever has changed something by a command is answered, from then on, from a list of members that has it.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt as _;
use tokio::sync::watch;

use super::body;
use super::head::{FETCH_DEST, FETCH_MODE, FETCH_SITE};
use super::held::held;
use super::host::Names;
use super::limits::{MAX_READ_HEADERS_BYTES, MAX_TARGET_BYTES, MAX_UNCOUNTED_ANSWER_BYTES, REQUEST_TIMEOUT};
use super::listing::Source;
use super::problem::Refusal;
use super::reference::{Access, Call};
use super::table::{ConnectionState, Kind, MAX_UNREAD_BYTES, Unread};
use super::{App, Shared};

/// The header by which answers say whose pages may embed them.
const EMBEDDING: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Requests refused by the checks.
#[derive(Debug, Default)]
pub(super) struct Refused {
    host: AtomicU64,
    token: AtomicU64,
    origin: AtomicU64,
}

impl Refused {
    /// Returns the numbers of refused requests by reason.
    pub(super) fn by_reason(&self) -> [(&'static str, u64); 3] {
        [("host", &self.host), ("token", &self.token), ("origin", &self.origin)]
            .map(|(reason, count)| (reason, count.load(Ordering::Relaxed)))
    }
}

/// A receiver that changes when the tokens by which a request was judged are replaced.
#[derive(Debug, Clone)]
pub(super) struct JudgedBy(pub(super) watch::Receiver<()>);

/// Refuses requests that are not allowed, then answers the others within the bounds.
pub(super) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let table = Arc::clone(&app.table);
    let mut response = match check(&app, request) {
        Ok(request) => answer(app, request, next).await,
        Err(refusal) => refusal.into_response(),
    };
    let headers = response.headers_mut();
    if table.is_crowded() {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (EMBEDDING, "same-origin"),
        // Answers are those of a moment, and secret where there are tokens.
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Returns the request with what it may do, if it is allowed.
fn check(app: &Shared, mut request: Request) -> Result<Request, Refusal> {
    let count = |counter: &AtomicU64, refusal| {
        counter.fetch_add(1, Ordering::Relaxed);
        refusal
    };
    // A request that waits holds its target and its headers.
    let uri = request.uri();
    let target = uri.path_and_query().map_or(0, |target| target.as_str().len())
        + uri.authority().map_or(0, |authority| authority.as_str().len());
    if target > MAX_TARGET_BYTES {
        return Err(Refusal::target_too_long(target));
    }
    let headers: usize = request.headers().values().map(HeaderValue::len).sum();
    if headers > MAX_READ_HEADERS_BYTES {
        return Err(Refusal::headers_too_long(headers));
    }
    let call = Call::of(&request);
    let is_spare = request.extensions().get::<Arc<ConnectionState>>().is_some_and(|line| line.is_spare());
    if is_spare && !call.is_some_and(|call| call.is_health) {
        return Err(Refusal::too_many_connections());
    }
    let may_have_any_name = call.is_some_and(|call| call.is_health) || app.tokens.are_asked_for();
    let names = if may_have_any_name { &Names::Any } else { &app.names };
    names.check(&request).map_err(|refusal| count(&app.refused.host, refusal))?;
    // Before the tokens are compared: none that is replaced meanwhile goes unnoticed.
    let judged_by = JudgedBy(app.tokens.watch());
    let access = check_token(app, &request, call).map_err(|refusal| count(&app.refused.token, refusal))?;
    check_origin(&request).map_err(|refusal| count(&app.refused.origin, refusal))?;
    request.extensions_mut().insert(access);
    request.extensions_mut().insert(judged_by);
    Ok(request)
}

async fn answer(app: App, request: Request, next: Next) -> Response {
    let line = request.extensions().get::<Arc<ConnectionState>>().cloned();
    let call = Call::of(&request);
    let patience = call.map_or(REQUEST_TIMEOUT, |call| call.patience);
    let answer = async {
        let is_command = !request.method().is_safe();
        let (parts, body) = request.into_parts();
        let body = if is_command { body::whole(body, &app.bodies).await?.into() } else { body };
        let request = Request::from_parts(parts, body);
        let _hold = match (line.as_ref(), call.and_then(|call| call.lasts)) {
            (Some(line), Some(kind)) => Some(app.table.enter(line, kind).ok_or_else(|| too_many(kind))?),
            _ => None,
        };
        let is_health = call.is_some_and(|call| call.is_health);
        let response = app.turns.take(is_health, next.run(request)).await;
        if call.is_some_and(Call::changes_members) && response.status().is_success() {
            app.changed_at.fetch_max(Source::position(&app.agent), Ordering::Relaxed);
        }
        Ok(response)
    };
    match tokio::time::timeout(patience, answer).await {
        Ok(Ok(response)) => count_answer(&app, line, response).unwrap_or_else(Refusal::into_response),
        Ok(Err(refusal)) => Refusal::into_response(refusal),
        Err(_) => Refusal::timeout(patience.as_secs()).into_response(),
    }
}

fn too_many(kind: Kind) -> Refusal {
    match kind {
        Kind::Message | Kind::Reply => Refusal::too_many_messages(),
        _ => Refusal::too_many_commands(),
    }
}

/// Counts an answer that was made whole, if it is large, until it has been read.
fn count_answer(app: &App, line: Option<Arc<ConnectionState>>, response: Response) -> Result<Response, Refusal> {
    let size = response.body().size_hint().exact().filter(|bytes| *bytes > MAX_UNCOUNTED_ANSWER_BYTES as u64);
    let (Some(size), Some(line)) = (size, line) else { return Ok(response) };
    let weight = Arc::new(app.table.weigh(&line, Unread::Answer, size as usize));
    // One that is larger than all may be together is sent alone.
    if app.table.unread(Unread::Answer) > MAX_UNREAD_BYTES.max(size as usize) {
        return Err(Refusal::too_many_answers());
    }
    let (mut parts, body) = response.into_parts();
    parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(size));
    let body = body.into_data_stream().map(move |bytes| bytes.map(|bytes| held(bytes, Arc::clone(&weight))));
    Ok(Response::from_parts(parts, Body::from_stream(body)))
}

/// Returns what the caller may do, if that is enough for the request.
fn check_token(app: &Shared, request: &Request, call: Option<&Call>) -> Result<Access, Refusal> {
    let needed = Access::needed(request.method(), call);
    if !app.tokens.are_asked_for() {
        if call.is_some_and(|call| call.needs_token) {
            let detail =
                "keys are changed with a token alone, and this agent has none: whoever reaches this port could";
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "keys-need-token",
                "Keys are changed with a token",
                detail,
            )
            .hint("make a token (`openssl rand -hex 32`), name its file as http.token_file, and restart the agent"));
        }
        return Ok(Access::Write);
    }
    if needed == Access::Open {
        return Ok(Access::Open);
    }
    let refuse = |detail: &str| {
        Err(Refusal::new(StatusCode::UNAUTHORIZED, "token", "Token required", detail)
            .hint("send `Authorization: Bearer TOKEN`"))
    };
    let mut values = request.headers().get_all(header::AUTHORIZATION).iter();
    let value = match (values.next(), values.next()) {
        (Some(value), None) => value,
        (None, _) => return refuse("this agent asks for a token, and none was presented"),
        (Some(_), Some(_)) => return refuse("more than one token was presented"),
    };
    let presented = value.to_str().ok().and_then(|text| text.split_once(' '));
    let Some((_, presented)) = presented.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")) else {
        return refuse("the header `Authorization` is not of the form `Bearer TOKEN`");
    };
    match app.tokens.access_of(presented.trim()) {
        None => refuse("the token presented is not this agent's"),
        Some(Access::Read) if needed == Access::Write => {
            let detail = "the token presented may look, and change nothing";
            Err(Refusal::read_only(detail))
        }
        Some(access) => Ok(access),
    }
}

/// Refuses requests of web pages that this agent did not serve. The host was checked before, so it is no foreign
/// page's.
fn check_origin(request: &Request) -> Result<(), Refusal> {
    let headers = request.headers();
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let refuse = |page: &str| {
        let detail = format!("the request comes from a web page of {}", page.escape_debug());
        Err(Refusal::new(StatusCode::FORBIDDEN, "origin", "Foreign web page", detail)
            .hint("programs send no `Origin` header; pages are served by the agent itself, at its numeric address"))
    };
    let is_ours = |(_, authority): (&str, &str)| authority.eq_ignore_ascii_case(text(header::HOST));
    let foreign = headers.get_all(header::ORIGIN).iter().find_map(|origin| {
        let origin = origin.to_str().unwrap_or_default();
        (!origin.split_once("://").is_some_and(is_ours)).then_some(origin)
    });
    if let Some(foreign) = foreign {
        return refuse(foreign);
    }
    if headers.contains_key(header::ORIGIN) {
        return Ok(());
    }
    // Images, scripts and frames of a foreign page are asked for without `Origin`. A link is followed: its visitor sees
    // the answer, and the page does not.
    let is_link = request.method() == Method::GET && text(FETCH_MODE) == "navigate" && text(FETCH_DEST) == "document";
    match text(FETCH_SITE) {
        "cross-site" | "same-site" if !is_link => refuse("another site"),
        _ => Ok(()),
    }
}
