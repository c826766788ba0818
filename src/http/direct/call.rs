//! One call: `POST /v1/deliver` at an address, over a connection that is kept for the next one.
//!
//! Invariants: a call ends within [`CALL_TIMEOUT`]; of an answer at most [`MAX_ANSWER_BYTES`] are read; the token is never
//! shown.
//!
//! Must not know: which message goes where, whether a call is tried again.

use std::net::SocketAddr;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::{CALL_TIMEOUT, MAX_ANSWER_BYTES, Tokens};
use crate::agent::{Agent, Said};
use crate::core::NodeId;
use crate::core::limits::BROADCAST_LIFE;
use crate::json;
use crate::text::{MAX_SHOWN, visible};

/// The parts that all calls of this agent have in common.
#[derive(Debug)]
pub(super) struct Caller {
    agent: Agent,
    tokens: Tokens,
}

/// The reason why a call failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    /// The connection could not be made, or broke.
    #[error("{0}; see that its HTTP interface is reached from here")]
    Broken(String),
    /// The answer did not come in time.
    #[error("no answer within {} s", CALL_TIMEOUT.as_secs())]
    TimedOut,
    /// The other node refused.
    #[error("it answered {status}: {detail}{}", hint(*status))]
    Refused {
        /// The status of its answer.
        status: StatusCode,
        /// Its reason.
        detail: String,
    },
    /// The message is too old to be taken by anybody.
    #[error("messages wait for too long: it answers too slowly")]
    TooOld,
}

fn hint(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "; agents that share a table need the same token",
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => "; it may be older than this one: upgrade it",
        _ => "",
    }
}

impl CallError {
    /// Returns true if the same call may fare better in a moment.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            CallError::Broken(_) => true,
            CallError::Refused { status, .. } => {
                matches!(*status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
            }
            CallError::TimedOut | CallError::TooOld => false,
        }
    }
}

/// An open connection, closed when dropped.
#[derive(Debug)]
pub(super) struct Connection {
    requests: SendRequest<Body>,
    _task: AbortOnDropHandle<()>,
}

impl Caller {
    pub(super) fn new(agent: Agent, tokens: Tokens) -> Self {
        Self { agent, tokens }
    }

    /// Returns the value of the header `Authorization`, if there is a token.
    fn authorization(&self) -> Option<header::HeaderValue> {
        let mut value = header::HeaderValue::try_from(self.tokens.all()?.header()).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Calls a node at an address; says whether it had the message first by this call. The connection is kept if it is good
    /// for another one.
    pub(super) async fn call(
        &self,
        kept: &mut Option<Connection>,
        to: &NodeId,
        address: SocketAddr,
        said: &Said,
    ) -> Result<bool, CallError> {
        let age = self.agent.time_since(said.at);
        if age > BROADCAST_LIFE {
            return Err(CallError::TooOld);
        }
        let config = self.agent.config();
        let body = json::Deliver::new(said, age, &config.cluster, &config.name, to);
        let body = serde_json::to_vec(&body).map_err(|error| CallError::Broken(error.to_string()))?;
        let mut request = Request::builder()
            .method(Method::POST)
            .uri("/v1/deliver")
            .header(header::HOST, address.to_string())
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(authorization) = self.authorization() {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let request = request.body(Body::from(body)).map_err(|error| CallError::Broken(error.to_string()))?;
        let connection = kept.take().filter(|connection| !connection.requests.is_closed());
        let exchange = async {
            let mut connection = match connection {
                Some(connection) => connection,
                None => Connection::open(address).await?,
            };
            let answer = connection.exchange(request).await?;
            Ok((answer, connection))
        };
        let ((status, answer), connection) =
            timeout(CALL_TIMEOUT, exchange).await.map_err(|_| CallError::TimedOut)??;
        *kept = Some(connection);
        read(status, &answer)
    }
}

fn read(status: StatusCode, answer: &[u8]) -> Result<bool, CallError> {
    if status == StatusCode::ACCEPTED {
        let read: Result<json::Delivered, _> = serde_json::from_slice(answer);
        return read
            .map(|read| read.delivered)
            .map_err(|_| CallError::Refused { status, detail: "not what an agent answers".to_owned() });
    }
    let problem: Option<json::Problem> = serde_json::from_slice(answer).ok();
    let detail = problem.map_or_else(|| String::from_utf8_lossy(answer).into_owned(), |problem| problem.detail);
    Err(CallError::Refused { status, detail: visible(&detail, MAX_SHOWN) })
}

impl Connection {
    async fn open(address: SocketAddr) -> Result<Self, CallError> {
        let broken = |error: std::io::Error| CallError::Broken(error.to_string());
        let stream = TcpStream::connect(address).await.map_err(broken)?;
        // A message is sent whole.
        stream.set_nodelay(true).map_err(broken)?;
        let (requests, connection) = http1::Builder::new()
            .max_buf_size(super::super::MAX_BUFFER_BYTES)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| CallError::Broken(error.to_string()))?;
        let task = tokio::spawn(async move {
            // The end of the connection is told to whoever waits for an answer.
            let _ = connection.await;
        });
        Ok(Self { requests, _task: AbortOnDropHandle::new(task) })
    }

    async fn exchange(&mut self, request: Request<Body>) -> Result<(StatusCode, Vec<u8>), CallError> {
        let broken = |error: &dyn std::fmt::Display| CallError::Broken(error.to_string());
        self.requests.ready().await.map_err(|error| broken(&error))?;
        let response = self.requests.send_request(request).await.map_err(|error| broken(&error))?;
        let status = response.status();
        let answer = axum::body::to_bytes(Body::new(response.into_body()), MAX_ANSWER_BYTES).await;
        Ok((status, answer.map_err(|error| broken(&error))?.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn an_answer_is_read_up_to_its_bound_and_not_beyond() {
        for (length, is_read) in [(MAX_ANSWER_BYTES, true), (MAX_ANSWER_BYTES + 1, false)] {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("bound");
            let answering = async {
                let (mut stream, _) = listener.accept().await.expect("called");
                assert!(stream.read(&mut [0; 4096]).await.expect("asked") > 0);
                let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{}", "x".repeat(length));
                // The caller may have gone away by then.
                let _ = stream.write_all(answer.as_bytes()).await;
            };
            let asking = async {
                let mut connection = Connection::open(address).await.expect("listening");
                let request = Request::builder().header(header::HOST, address.to_string()).body(Body::empty());
                connection.exchange(request.expect("a request")).await
            };
            let ((), answer) = tokio::join!(answering, asking);
            assert_eq!(answer.map(|(_, answer)| answer.len()).ok(), is_read.then_some(length));
        }
    }

    #[test]
    fn only_what_an_agent_answers_counts() {
        assert!(matches!(read(StatusCode::ACCEPTED, br#"{"id":"x","delivered":true}"#), Ok(true)));
        assert!(matches!(read(StatusCode::ACCEPTED, br#"{"id":"x","delivered":false}"#), Ok(false)));
        for (status, answer) in
            [(StatusCode::ACCEPTED, &b"welcome"[..]), (StatusCode::OK, br#"{"id":"x","delivered":true}"#)]
        {
            assert!(read(status, answer).is_err(), "{status}");
        }
        let told = read(StatusCode::NOT_FOUND, b"\x1b[31mgo away\n").expect_err("refused").to_string();
        assert!(told.contains("404") && told.contains("upgrade") && !told.contains(['\x1b', '\n']), "{told}");
        let told = read(StatusCode::UNAUTHORIZED, b"").expect_err("refused");
        assert!(told.to_string().contains("same token") && !told.is_passing());
        assert!(read(StatusCode::TOO_MANY_REQUESTS, b"").expect_err("refused").is_passing());
    }
}
