//! The checks and bounds of every request: the token, the host, the origin, the deadline, the number of commands at one
//! time and the weight of answers.
//!
//! Invariants:
//! - Tokens are compared by `access` alone.
//! - Health checks stay open: a supervisor that restarts dead processes has no token, and may know the agent by any
//!   name.
//! - A request that a web page of another origin made is refused. Browsers send such requests (a form, a `fetch`) to
//!   loopback addresses too, so that binding loopback alone is no protection; such a request is recognised by the
//!   header `Origin`, and by `Host` if the page made its own name resolve to us.
//! - A command counts as one when its whole body is there: half a body holds up its sender only.

use std::sync::Arc;

use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt as _;

use super::body::{self, Whole};
use super::host::Names;
use super::problem::Refusal;
use super::reference::{self, Access};
use super::table::{ConnectionState, Kind};
use super::{
    App, MAX_ANSWER_WAIT, MAX_BODY_BYTES, MAX_COUNTED_ANSWER_BYTES, MAX_DELIVERY_BYTES, MAX_UNCOUNTED_ANSWER_BYTES,
    REQUEST_TIMEOUT,
};

/// Refuses requests that are not allowed, then answers the others within the bounds.
pub(super) async fn guard(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let names = if reference::HEALTH.contains(&request.uri().path()) { &Names::Any } else { &app.names };
    let checked = names.check(&request).and_then(|()| check_token(&app, &request));
    let access = match checked.and_then(|access| check_origin(request.headers()).map(|()| access)) {
        Ok(access) => access,
        Err(refusal) => return refusal.into_response(),
    };
    request.extensions_mut().insert(access);
    let line = request.extensions().get::<Arc<ConnectionState>>().cloned();
    // A request to another program waits for that program's answer.
    let waits = request.uri().path().starts_with("/v1/request/");
    let patience = if waits { REQUEST_TIMEOUT + MAX_ANSWER_WAIT } else { REQUEST_TIMEOUT };
    // A payload in JSON takes more room than its bytes.
    let most = if request.uri().path() == "/v1/deliver" { MAX_DELIVERY_BYTES } else { MAX_BODY_BYTES };
    let answer = async {
        let is_command = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        let (parts, body) = request.into_parts();
        let (body, _permit) = if is_command {
            let Whole { bytes, permit } = body::whole(body, most, &app.bodies).await?;
            (Body::from(bytes), permit)
        } else {
            (body, None)
        };
        let request = Request::from_parts(parts, body);
        // Leaving takes no time, and must always be possible.
        let lasts = is_command && request.uri().path() != "/v1/leave";
        let _hold = match line.as_ref().filter(|_| lasts) {
            Some(line) => Some(app.table.enter(line, Kind::Command).ok_or_else(Refusal::too_many_commands)?),
            None => None,
        };
        Ok(next.run(request).await)
    };
    match tokio::time::timeout(patience, answer).await {
        Ok(Ok(response)) => count_answer(&app, line, response).unwrap_or_else(Refusal::into_response),
        Ok(Err(refusal)) => Refusal::into_response(refusal),
        Err(_) => Refusal::timeout(patience.as_secs()).into_response(),
    }
}

/// Counts an answer that was made whole, if it is large: it takes a place among the large answers, and its bytes count
/// until they have been read.
fn count_answer(app: &App, line: Option<Arc<ConnectionState>>, response: Response) -> Result<Response, Refusal> {
    let size = response.body().size_hint().exact().filter(|bytes| *bytes > MAX_UNCOUNTED_ANSWER_BYTES as u64);
    let (Some(size), Some(line)) = (size, line) else { return Ok(response) };
    let hold = app.table.enter(&line, Kind::Large).ok_or_else(Refusal::too_many_answers)?;
    // An answer that is larger than the whole budget may still be sent alone.
    let weight = size.min(MAX_COUNTED_ANSWER_BYTES as u64).div_ceil(1024) as u32;
    let Ok(weight) = Arc::clone(&app.weight).try_acquire_many_owned(weight) else {
        app.table.shed_stalled_answer();
        return Err(Refusal::too_many_answers());
    };
    let (mut parts, body) = response.into_parts();
    parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(size));
    let body = body.into_data_stream().map(move |bytes| {
        let _ = (&hold, &weight);
        bytes
    });
    Ok(Response::from_parts(parts, Body::from_stream(body)))
}

/// Returns what the caller may do, if that is enough for the request.
fn check_token(app: &App, request: &Request) -> Result<Access, Refusal> {
    let needed = Access::needed(request.method().as_str(), request.uri().path());
    if !app.tokens.are_asked_for() {
        return Ok(Access::Write);
    }
    if needed == Access::Open {
        return Ok(Access::Open);
    }
    let refuse = |detail: &str| {
        Err(Refusal::new(StatusCode::UNAUTHORIZED, "token", "Token required", detail)
            .hint("send `Authorization: Bearer TOKEN`"))
    };
    let Some(value) = request.headers().get(header::AUTHORIZATION) else {
        return refuse("this agent asks for a token, and none was presented");
    };
    let presented = value.to_str().ok().and_then(|text| text.split_once(' '));
    let Some((_, presented)) = presented.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")) else {
        return refuse("the header `Authorization` is not of the form `Bearer TOKEN`");
    };
    match app.tokens.access_of(presented.trim()) {
        None => refuse("the token presented is not this agent's"),
        Some(Access::Read) if needed == Access::Write => {
            let detail = "the token presented may look, and change nothing";
            Err(Refusal::new(StatusCode::FORBIDDEN, "read-only", "Token for reading", detail)
                .hint("present the token in the agent's http.token_file"))
        }
        Some(access) => Ok(access),
    }
}

/// Refuses requests of web pages that this agent did not serve. The host was checked before, so it is no foreign
/// page's.
fn check_origin(headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let text = |value: Option<&HeaderValue>| value.and_then(|value| value.to_str().ok()).map(str::to_owned);
    let host = text(headers.get(header::HOST)).unwrap_or_default();
    let origin = text(Some(origin)).unwrap_or_default();
    if origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(&host)) {
        return Ok(());
    }
    let detail = format!("the request comes from a web page of {}", origin.escape_debug());
    Err(Refusal::new(StatusCode::FORBIDDEN, "origin", "Foreign web page", detail)
        .hint("programs send no `Origin` header; pages are served by the agent itself, at its numeric address"))
}
