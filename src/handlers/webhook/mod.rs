//! A webhook: an event is posted as a CloudEvent (1.0, structured JSON mode), and posted again until it is accepted or
//! its time is over.
//!
//! Invariants:
//! - One try ends within the handler's `timeout`; there are tries for no longer than `retry_for` after the first one
//!   began, the last of which may end after that.
//! - An answer is read up to [`MAX_ANSWER_BYTES`]; redirections are not followed, and proxies not used.
//! - A connection that the other side closed while it was kept costs no event, and no try.
//! - Neither the path of the address nor the token is shown.
//!
//! Must not know: other events, other handlers.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::Context;
use super::event::Notice;
use super::figures::Counters;
use super::tls::Tls;
use crate::config::{Token, WebhookUrl};
use crate::text::{MAX_SHOWN, visible};

/// The most that is read of an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 16 * 1024;
/// The pause before the second try; each later one is twice as long …
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// … up to this.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// The time for which a connection is kept for the next event.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/cloudevents+json; charset=UTF-8");

/// A web address that is told of events.
#[derive(Debug)]
pub(super) struct Webhook {
    url: WebhookUrl,
    token_file: Option<PathBuf>,
    retry_for: Duration,
    tls: Tls,
    /// Connections that are good for another event; no more than there are runs at one time.
    idle: Mutex<Vec<Connection>>,
}

/// An open connection, closed when dropped.
#[derive(Debug)]
struct Connection {
    requests: SendRequest<Body>,
    used: Instant,
    _task: AbortOnDropHandle<()>,
}

/// The failure of one try.
#[derive(Debug, PartialEq, Eq)]
struct Failed {
    why: String,
    /// True if the same event may be accepted later.
    is_passing: bool,
    /// The pause that the other side asks for.
    retry_after: Option<Duration>,
}

impl Failed {
    #[expect(clippy::needless_pass_by_value, reason = "errors are mapped by it as they come")]
    fn passing(why: impl ToString) -> Self {
        Self { why: why.to_string(), is_passing: true, retry_after: None }
    }
}

impl Webhook {
    pub(super) fn new(url: WebhookUrl, token_file: Option<PathBuf>, retry_for: Duration) -> Self {
        Self { url, token_file, retry_for, tls: Tls::default(), idle: Mutex::default() }
    }

    /// Posts an event until it is accepted; the error says how the last try failed.
    pub(super) async fn run(
        &self,
        notice: &Notice,
        missed: u64,
        context: &Context,
        limit: Duration,
        counters: &Counters,
        end: &CancellationToken,
    ) -> Result<(), String> {
        let body = Bytes::from(cloud_event(notice, missed, context));
        let began = Instant::now();
        let mut pause = FIRST_PAUSE;
        for tries in 1.. {
            let attempt = timeout(limit, self.post(body.clone()));
            let attempt = tokio::select! {
                attempt = attempt => attempt,
                () = end.cancelled() => return Err("the agent has ended".to_owned()),
            };
            let late = || Failed::passing(format!("no answer within {}", humantime::format_duration(limit)));
            let Err(failed) = attempt.unwrap_or_else(|_| Err(late())) else { return Ok(()) };
            let (left, pause_now) = (self.retry_for.saturating_sub(began.elapsed()), jittered(pause));
            if !failed.is_passing || pause_now > left {
                let in_vain = if tries > 1 { format!(" ({tries} tries)") } else { String::new() };
                return Err(format!("{}{in_vain}", failed.why));
            }
            // One that asks for more time than there is gets what there is: the event would be lost otherwise.
            let wait = failed.retry_after.unwrap_or_default().clamp(pause_now, left);
            tokio::select! {
                () = sleep(wait) => {}
                () = end.cancelled() => return Err(format!("the agent has ended; before that: {}", failed.why)),
            }
            pause = (pause * 2).min(MAX_PAUSE);
            counters.retried();
        }
        Ok(())
    }

    /// Tries once.
    async fn post(&self, body: Bytes) -> Result<(), Failed> {
        let authorization = self.authorization().await?;
        if let Some(kept) = self.kept()
            && let Ok(response) = self.ask(kept, body.clone(), authorization.clone()).await
        {
            return self.hear(response).await;
        }
        // Also where the one that was kept had been closed: a server does that at any time, and has not answered then.
        let response = self.ask(self.connect().await?, body, authorization).await?;
        self.hear(response).await
    }

    /// Posts on a connection, and waits for the head of the answer.
    async fn ask(
        &self,
        mut connection: Connection,
        body: Bytes,
        authorization: Option<HeaderValue>,
    ) -> Result<(Connection, Response<Incoming>), Failed> {
        let uri = self.url.uri();
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let host = uri.authority().map_or("", |authority| authority.as_str());
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(header::HOST, host)
            .header(header::CONTENT_TYPE, CONTENT_TYPE)
            .header(header::USER_AGENT, concat!("headcount/", env!("CARGO_PKG_VERSION")));
        if let Some(authorization) = authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let request = request.body(Body::from(body)).map_err(Failed::passing)?;
        connection.requests.ready().await.map_err(Failed::passing)?;
        let response = connection.requests.send_request(request).await.map_err(Failed::passing)?;
        Ok((connection, response))
    }

    /// Reads the rest of an answer, and judges it.
    async fn hear(&self, (mut connection, response): (Connection, Response<Incoming>)) -> Result<(), Failed> {
        let (head, answer) = response.into_parts();
        let answer = axum::body::to_bytes(Body::new(answer), MAX_ANSWER_BYTES).await;
        // A longer answer is left unread, and its connection with it.
        if answer.is_ok() {
            connection.used = Instant::now();
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
        judge(head.status, &head.headers, &answer.unwrap_or_default())
    }

    /// Takes a connection that is still open.
    fn kept(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|connection| !connection.requests.is_closed() && connection.used.elapsed() < KEEP_ALIVE);
        idle.pop()
    }

    /// Reads the token: a new one is taken up without a restart.
    async fn authorization(&self) -> Result<Option<HeaderValue>, Failed> {
        let Some(path) = self.token_file.clone() else { return Ok(None) };
        let shown = path.display().to_string();
        let read = tokio::task::spawn_blocking(move || Token::read(&path)).await.map_err(Failed::passing)?;
        let token = read.map_err(|error| Failed::passing(format!("the token file {shown} {error}")))?;
        let mut value = HeaderValue::try_from(token.header()).map_err(Failed::passing)?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    async fn connect(&self) -> Result<Connection, Failed> {
        let uri = self.url.uri();
        let is_tls = uri.scheme_str() == Some("https");
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let stream = TcpStream::connect((host, port)).await;
        let stream = stream.map_err(|error| Failed::passing(format!("no connection: {error}")))?;
        stream.set_nodelay(true).map_err(Failed::passing)?;
        if !is_tls {
            return Connection::open(stream).await;
        }
        let connector = self.tls.connector().await.map_err(Failed::passing)?;
        let name = ServerName::try_from(host.to_owned()).map_err(Failed::passing)?;
        let stream = connector.connect(name, stream).await;
        Connection::open(stream.map_err(|error| Failed::passing(format!("no TLS: {error}")))?).await
    }
}

impl Connection {
    async fn open(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<Self, Failed> {
        let handshake = http1::Builder::new().max_buf_size(64 * 1024).handshake(TokioIo::new(stream));
        let (requests, connection) = handshake.await.map_err(Failed::passing)?;
        let task = tokio::spawn(async move {
            // The end of the connection is told to whoever waits for an answer.
            let _ = connection.await;
        });
        Ok(Self { requests, used: Instant::now(), _task: AbortOnDropHandle::new(task) })
    }
}

/// Returns an event as the CloudEvents specification has it, in structured JSON mode.
fn cloud_event(notice: &Notice, missed: u64, context: &Context) -> String {
    let mut event = json!({
        "specversion": "1.0",
        "id": notice.id,
        "source": format!("/headcount/{}/{}", context.cluster, context.node),
        "type": format!("io.headcount.{}", notice.kind),
        "time": notice.at,
        "datacontenttype": "application/json",
    });
    if let Some(node) = &notice.node {
        event["subject"] = node.as_str().into();
    }
    if missed > 0 {
        event["missed"] = missed.into();
    }
    let mut text = event.to_string();
    // The data is text already.
    text.pop();
    text + ",\"data\":" + &notice.json + "}"
}

fn judge(status: StatusCode, headers: &HeaderMap, answer: &[u8]) -> Result<(), Failed> {
    if status.is_success() {
        return Ok(());
    }
    let is_passing = status.is_server_error()
        || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS);
    let asked = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let said = visible(String::from_utf8_lossy(answer).trim(), MAX_SHOWN);
    let why = if said.is_empty() { format!("it answered {status}") } else { format!("it answered {status}: {said}") };
    Err(Failed { why, is_passing, retry_after: asked.map(Duration::from_secs).filter(|_| is_passing) })
}

/// Returns a pause of three quarters to five quarters of this length, so that many agents do not try again together.
fn jittered(pause: Duration) -> Duration {
    use rand::TryRng as _;
    let drawn = rand::rngs::SysRng.try_next_u32().unwrap_or(u32::MAX / 2);
    pause * 3 / 4 + pause.mul_f64(0.5 * f64::from(drawn) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests;
