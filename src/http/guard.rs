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
use super::limits::{
    MAX_BODY_BYTES, MAX_COUNTED_ANSWER_BYTES, MAX_DELIVERY_BYTES, MAX_READ_HEADERS_BYTES, MAX_TARGET_BYTES,
    MAX_UNCOUNTED_ANSWER_BYTES, REQUEST_TIMEOUT,
};
use super::problem::Refusal;
use super::reference::{self, Access};
use super::table::{ConnectionState, Kind, Phase};
use super::{App, MAX_ANSWER_WAIT, Shared};

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
    let may_have_any_name = reference::HEALTH.contains(&request.uri().path()) || app.tokens.are_asked_for();
    let names = if may_have_any_name { &Names::Any } else { &app.names };
    names.check(&request).map_err(|refusal| count(&app.refused.host, refusal))?;
    // Before the tokens are compared: none that is replaced meanwhile goes unnoticed.
    let judged_by = JudgedBy(app.tokens.watch());
    let access = check_token(app, &request).map_err(|refusal| count(&app.refused.token, refusal))?;
    check_origin(&request).map_err(|refusal| count(&app.refused.origin, refusal))?;
    request.extensions_mut().insert(access);
    request.extensions_mut().insert(judged_by);
    Ok(request)
}

async fn answer(app: App, request: Request, next: Next) -> Response {
    let line = request.extensions().get::<Arc<ConnectionState>>().cloned();
    // A request to another program waits for that program's answer.
    let waits = request.uri().path().starts_with("/v1/request/");
    let patience = if waits { REQUEST_TIMEOUT + MAX_ANSWER_WAIT } else { REQUEST_TIMEOUT };
    // A payload in JSON takes more room than its bytes.
    let most = if request.uri().path() == "/v1/deliver" { MAX_DELIVERY_BYTES } else { MAX_BODY_BYTES };
    let answer = async {
        let path = request.uri().path();
        let lasts = lasting(path);
        let is_command = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        let (parts, body) = request.into_parts();
        let body = if is_command { body::whole(body, most, &app.bodies, line.as_deref()).await?.into() } else { body };
        let request = Request::from_parts(parts, body);
        let lasts = if asks_other_nodes(&request) { Some(Kind::Command) } else { lasts.filter(|_| is_command) };
        let _hold = match (line.as_ref(), lasts) {
            (Some(line), Some(kind)) => Some(app.table.enter(line, kind).ok_or_else(|| too_many(kind))?),
            _ => None,
        };
        let is_health = reference::HEALTH.contains(&request.uri().path());
        if let Some(line) = &line {
            line.set_phase(Phase::Waiting);
        }
        let begins = || line.as_ref().map(|line| line.begins());
        Ok(app.turns.take(is_health, begins, next.run(request)).await)
    };
    match tokio::time::timeout(patience, answer).await {
        Ok(Ok(response)) => count_answer(&app, line, response).unwrap_or_else(Refusal::into_response),
        Ok(Err(refusal)) => Refusal::into_response(refusal),
        Err(_) => Refusal::timeout(patience.as_secs()).into_response(),
    }
}

/// Returns true for reads that other members, a majority or a database are asked for. They count like commands: a reader
/// cannot have the whole cluster talk more than a writer.
fn asks_other_nodes(request: &Request) -> bool {
    match request.uri().path() {
        "/v1/keys" | "/v1/lease/nodes" => true,
        "/v1/leader" => request.uri().query().is_some_and(|query| query.contains("confirm")),
        _ => false,
    }
}

/// Returns the kind as which a command at this path is counted; `None` if it takes no time, and must always be possible.
fn lasting(path: &str) -> Option<Kind> {
    let is_below =
        |parent: &str| path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if is_below("/v1/request") || is_below("/v1/send") {
        Some(Kind::Message)
    } else if is_below("/v1/reply") {
        Some(Kind::Reply)
    } else if path == "/v1/leave" || path.starts_with("/v1/leader/work/") {
        None
    } else {
        Some(Kind::Command)
    }
}

fn too_many(kind: Kind) -> Refusal {
    match kind {
        Kind::Message | Kind::Reply => Refusal::too_many_messages(),
        _ => Refusal::too_many_commands(),
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
    let hold = Arc::new((hold, weight));
    let body = body.into_data_stream().map(move |bytes| bytes.map(|bytes| held(bytes, Arc::clone(&hold))));
    Ok(Response::from_parts(parts, Body::from_stream(body)))
}

/// Returns what the caller may do, if that is enough for the request.
fn check_token(app: &Shared, request: &Request) -> Result<Access, Refusal> {
    let needed = Access::needed(request.method().as_str(), request.uri().path());
    if !app.tokens.are_asked_for() {
        if Access::is_for_token_alone(request.method().as_str(), request.uri().path()) {
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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn messages_that_wait_are_counted_apart_from_commands_and_renewals_of_led_work_are_not() {
        for (path, kind) in [
            ("/v1/request/a/t", Some(Kind::Message)),
            ("/v1/send/a/t", Some(Kind::Message)),
            ("/v1/reply/a-1", Some(Kind::Reply)),
            ("/v1/leader/work/7", None),
            ("/v1/leader/work", Some(Kind::Command)),
            ("/v1/leave", None),
            ("/v1/leader/resign", Some(Kind::Command)),
            ("/v1/leader/workers", Some(Kind::Command)),
            ("/v1/broadcast/t", Some(Kind::Command)),
        ] {
            assert_eq!(lasting(path), kind, "{path}");
        }
    }

    #[test]
    fn every_origin_that_a_request_names_is_judged() {
        let is_ours = |origins: [&str; 2]| {
            let host = "127.0.0.1:7118";
            let request = Request::builder().header(header::HOST, host);
            let request = origins.iter().fold(request, |request, origin| request.header(header::ORIGIN, *origin));
            check_origin(&request.body(Body::empty()).expect("a request")).is_ok()
        };
        let (ours, foreign) = ("http://127.0.0.1:7118", "http://elsewhere");
        assert!(is_ours([ours, ours]));
        assert!(!is_ours([ours, foreign]) && !is_ours([foreign, ours]));
    }

    #[test]
    fn a_page_is_this_agents_own_if_its_whole_authority_is_the_host_that_was_asked() {
        let is_ours = |host: &str, origin: &str| {
            let request = Request::builder().header(header::HOST, host).header(header::ORIGIN, origin);
            check_origin(&request.body(Body::empty()).expect("a request")).is_ok()
        };
        assert!(is_ours("127.0.0.1:7118", "http://127.0.0.1:7118"));
        assert!(is_ours("LocalHost:7118", "http://localhost:7118"));
        for foreign in [
            "http://127.0.0.1:71180",
            "http://127.0.0.1:7118.evil.example",
            "http://127.0.0.1:711",
            "http://127.0.0.1",
            "http://x127.0.0.1:7118",
            "127.0.0.1:7118",
            "null",
            "",
        ] {
            assert!(!is_ours("127.0.0.1:7118", foreign), "{foreign}");
        }
    }

    #[tokio::test]
    async fn while_a_newcomer_waits_for_a_place_each_answer_is_the_last_one_of_its_connection() {
        use tower::ServiceExt as _;

        let config = crate::Config::new("a").expect("a name").with_profile(crate::Profile::Local);
        let config = config.with_bind("127.0.0.1:0".parse().expect("an address"));
        let agent = crate::Agent::start(config).await.expect("started");
        let close = tokio_util::sync::CancellationToken::new();
        let table = super::super::Table::new(super::super::Limits::new(4, 4), close.clone());
        let address = ([127, 0, 0, 1], 1).into();
        let settings = super::super::HttpSettings::default();
        let router = super::super::router(agent.clone(), address, settings, Arc::clone(&table), close);
        let is_last = async || {
            let request = Request::builder().uri("/healthz").body(Body::empty()).expect("a request");
            let answer = router.clone().oneshot(request).await.expect("answered");
            answer.headers().get(header::CONNECTION).is_some_and(|value| value == "close")
        };
        let mut seats = Vec::new();
        for _ in 0..4 {
            seats.extend(table.admit(Ipv4Addr::LOCALHOST.into()).await);
        }
        assert!(seats.len() == 4 && !is_last().await, "all places are taken, and nobody waits");
        let mut newcomer = Box::pin(table.admit(Ipv4Addr::LOCALHOST.into()));
        assert!(futures_util::FutureExt::now_or_never(newcomer.as_mut()).is_none());
        assert!(is_last().await);
        seats.pop();
        assert!(newcomer.await.is_some() && !is_last().await);
        agent.leave().await;
    }

    #[tokio::test]
    async fn who_waits_for_its_turn_makes_room_who_is_being_answered_does_not_and_health_checks_wait_for_nobody() {
        use axum::routing::get;
        use futures_util::FutureExt as _;
        use tower::ServiceExt as _;

        let config = crate::Config::new("a").expect("a name").with_profile(crate::Profile::Local);
        let config = config.with_bind("127.0.0.1:0".parse().expect("an address"));
        let agent = crate::Agent::start(config).await.expect("started");
        let close = tokio_util::sync::CancellationToken::new();
        let table = super::super::Table::new(super::super::Limits::new(4, 4), close.clone());
        let settings = super::super::HttpSettings::default();
        let address = ([127, 0, 0, 1], 1).into();
        let app = App::new(Shared::new(agent.clone(), address, settings, Arc::clone(&table), close));
        let router = axum::Router::new()
            .route("/healthz", get(async || ()))
            .route("/slow", get(std::future::pending::<()>))
            .layer(axum::middleware::from_fn_with_state(Arc::clone(&app), guard));
        let admit = || table.admit(Ipv4Addr::LOCALHOST.into()).now_or_never().flatten();
        let seats: Vec<_> = (0..4).map(|_| admit().expect("a place")).collect();
        let is_shed = |at: usize| seats[at].line.shed().now_or_never().is_some();
        let ask = |path: &str, at: usize| {
            let request = Request::builder().uri(path).header(header::HOST, "127.0.0.1");
            let request = request.extension(Arc::clone(&seats[at].line)).body(Body::empty()).expect("a request");
            Box::pin(router.clone().oneshot(request))
        };
        let mut begun = ask("/slow", 0);
        for _ in 0..2 {
            assert!(begun.as_mut().now_or_never().is_none());
        }
        // Turns that were taken, and whose answers are not begun.
        let mut turns: Vec<_> = (0..super::super::MAX_ANSWERS_MADE)
            .map(|_| Box::pin(app.turns.take(false, || (), std::future::ready(()))))
            .collect();
        assert!(turns.iter_mut().all(|turn| turn.as_mut().now_or_never().is_none()));
        let mut waiting = ask("/slow", 1);
        assert!(waiting.as_mut().now_or_never().is_none());

        let mut health = ask("/healthz", 2);
        let answered = (0..2).find_map(|_| health.as_mut().now_or_never());
        assert_eq!(answered.expect("answered").expect("an answer").status(), StatusCode::OK);
        let newcomer = admit();
        assert!(newcomer.is_some() && is_shed(1), "its answer is not begun");
        assert!(admit().is_none() && !is_shed(0), "it is being answered");
        agent.leave().await;
    }

    #[tokio::test]
    async fn an_answer_weighs_until_it_has_been_read_or_is_given_up() {
        let config = crate::Config::new("a").expect("a name").with_profile(crate::Profile::Local);
        let config = config.with_bind("127.0.0.1:0".parse().expect("an address"));
        let agent = crate::Agent::start(config).await.expect("started");
        let app = App::new(Shared::of(agent.clone()));
        let mut seats = Vec::new();
        let mut count = async |bytes: usize| {
            let seat = app.table.admit(Ipv4Addr::LOCALHOST.into()).await.expect("a place");
            let line = Arc::clone(&seat.line);
            seats.push(seat);
            count_answer(&app, Some(line), vec![0_u8; bytes].into_response())
        };
        // Small ones are not counted, and large ones up to the whole budget.
        let _small = count(MAX_UNCOUNTED_ANSWER_BYTES).await.expect("sent");
        let half = MAX_COUNTED_ANSWER_BYTES / 2;
        let (one, two) = (count(half).await.expect("sent"), count(half).await.expect("sent"));
        assert_eq!(app.weight.available_permits(), 0);
        let refused = count(MAX_UNCOUNTED_ANSWER_BYTES + 1).await.expect_err("too many").into_response();
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        let _small = count(MAX_UNCOUNTED_ANSWER_BYTES).await.expect("sent");
        drop(one);
        let mut read = axum::body::to_bytes(two.into_body(), usize::MAX).await.expect("read");
        assert_eq!((read.len(), app.weight.available_permits()), (half, half / 1024), "it is not sent yet");
        // hyper keeps all of it until the last byte has left.
        let last = read.split_off(half - 1);
        drop(read);
        assert_eq!(app.weight.available_permits(), half / 1024);
        drop(last);
        assert_eq!(app.weight.available_permits(), MAX_COUNTED_ANSWER_BYTES / 1024);
        let _whole = count(MAX_COUNTED_ANSWER_BYTES * 2).await.expect("a single one may be larger");
        assert_eq!(app.weight.available_permits(), 0);
        agent.leave().await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_reads_makes_room_for_others() {
        let config = crate::Config::new("a").expect("a name").with_profile(crate::Profile::Local);
        let config = config.with_bind("127.0.0.1:0".parse().expect("an address"));
        let agent = crate::Agent::start(config).await.expect("started");
        let app = App::new(Shared::of(agent.clone()));
        let (slow, next) = (
            app.table.admit(Ipv4Addr::LOCALHOST.into()).await.expect("a place"),
            app.table.admit(Ipv4Addr::LOCALHOST.into()).await.expect("a place"),
        );
        let count = |seat: &super::super::table::Seat, bytes: usize| {
            count_answer(&app, Some(Arc::clone(&seat.line)), vec![0_u8; bytes].into_response())
        };
        let unread = count(&slow, MAX_COUNTED_ANSWER_BYTES).expect("sent");
        count(&next, MAX_UNCOUNTED_ANSWER_BYTES + 1).expect_err("it has its time");
        let is_shed = async || tokio::time::timeout(std::time::Duration::ZERO, slow.line.shed()).await.is_ok();
        assert!(!is_shed().await, "not yet");
        tokio::time::advance(super::super::table::MIN_READ_TIME).await;
        count(&next, MAX_UNCOUNTED_ANSWER_BYTES + 1).expect_err("there is room a moment later");
        assert!(is_shed().await, "it had its time");
        drop(unread);
        count(&next, MAX_UNCOUNTED_ANSWER_BYTES + 1).expect("sent");
        agent.leave().await;
    }
}
