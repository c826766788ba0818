//! The HTTP client of the client commands.
//!
//! Invariants:
//! - It talks to the given agent only: no proxy, no redirects.
//! - Every error becomes one [`Failure`] that names the agent and says what to try.

use std::io::{BufReader, ErrorKind};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::{Request, Response};
use ureq::{AsSendBody, Body, BodyReader};

use super::args::AgentAddress;
use super::failure::{Exit, Failure, RetryOutlook};
use super::human::plain;
use super::sse::Frames;
use crate::config::{DEFAULT_HTTP_PORT, Token, TokenFileError};
use crate::json::{LeaderAddress, Problem};

/// Time limit for a connection: an agent accepts at once or not at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Time limit for a call, longer than the slowest call takes.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);
/// Time limit for silence on an event stream, on which something comes every 15 s.
const STREAM_SILENCE: Duration = Duration::from_secs(45);
/// The largest answer, in bytes: the members of a very large cluster.
const MAX_ANSWER_BYTES: u64 = 256 * 1024 * 1024;
/// Name of the header that says where a stream starts, and where to go on.
const LAST_EVENT_ID: &str = "last-event-id";

/// A client of one agent.
#[derive(Debug)]
pub(super) struct Client {
    agent: ureq::Agent,
    address: String,
    authorization: Option<String>,
}

/// An event stream.
pub(super) struct Stream {
    pub(super) frames: Frames<BufReader<BodyReader<'static>>>,
    /// Id of the event after which the stream starts.
    pub(super) start: Option<String>,
}

impl Client {
    pub(super) fn new(agent: &AgentAddress) -> Result<Self, Failure> {
        let address = authority(&agent.http)?;
        let authorization = agent.token_file.as_deref().map(read_token).transpose()?.map(|token| token.header());
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .user_agent(concat!("headcount/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self { agent: config.new_agent(), address, authorization })
    }

    /// Returns the agent's address, as it is shown in messages.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.get_within(path, CALL_TIMEOUT)
    }

    /// Gets an answer within a shorter time limit, for callers that ask repeatedly.
    pub(super) fn get_within<T: DeserializeOwned>(&self, path: &str, timeout: Duration) -> Result<T, Failure> {
        self.read(self.call("GET", path, None, (), timeout.min(CALL_TIMEOUT))?, path)
    }

    pub(super) fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<(u16, T), Failure> {
        self.delete_within(path, CALL_TIMEOUT)
    }

    pub(super) fn delete_within<T: DeserializeOwned>(
        &self,
        path: &str,
        timeout: Duration,
    ) -> Result<(u16, T), Failure> {
        let response = self.call("DELETE", path, None, (), timeout)?;
        Ok((response.status().as_u16(), self.read(response, path)?))
    }

    pub(super) fn send<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        self.send_within(method, path, body, CALL_TIMEOUT)
    }

    pub(super) fn send_within<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: &impl Serialize,
        timeout: Duration,
    ) -> Result<T, Failure> {
        let body = serde_json::to_vec(body).map_err(|error| Failure::failed(format!("cannot write JSON: {error}")))?;
        self.read(self.call(method, path, Some("application/json"), &body[..], timeout)?, path)
    }

    /// Posts raw bytes and reads JSON.
    pub(super) fn post_bytes<T: DeserializeOwned>(&self, path: &str, body: &[u8]) -> Result<T, Failure> {
        self.read(self.call("POST", path, Some("application/octet-stream"), body, CALL_TIMEOUT)?, path)
    }

    /// Posts raw bytes and reads raw bytes.
    pub(super) fn exchange_bytes(&self, path: &str, body: &[u8], timeout: Duration) -> Result<Vec<u8>, Failure> {
        let response = self.call("POST", path, Some("application/octet-stream"), body, timeout)?;
        let answer = response.into_body().into_with_config().limit(MAX_ANSWER_BYTES).read_to_vec();
        answer.map_err(|error| self.unreachable(error))
    }

    /// Posts without a body, and ignores the body of the answer.
    pub(super) fn post_nothing(&self, path: &str) -> Result<(), Failure> {
        self.call("POST", path, None, (), CALL_TIMEOUT).map(drop)
    }

    /// Opens the event stream, after an event if one is given.
    pub(super) fn stream(&self, path: &str, after: Option<&str>) -> Result<Stream, Failure> {
        let mut request = self.request("GET", path);
        if let Some(after) = after {
            request = request.header(LAST_EVENT_ID, after);
        }
        let request = request.header("accept", "text/event-stream").body(()).map_err(|error| self.malformed(&error))?;
        let request = self
            .agent
            .configure_request(request)
            .timeout_recv_response(Some(CALL_TIMEOUT))
            .timeout_per_read(Some(STREAM_SILENCE))
            .build();
        let response = self.checked(self.agent.run(request), path)?;
        let start = response.headers().get(LAST_EVENT_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
        let body = response.into_body().into_with_config().limit(u64::MAX).reader();
        Ok(Stream { frames: Frames::new(BufReader::new(body)), start })
    }

    fn request(&self, method: &str, path: &str) -> ureq::http::request::Builder {
        let request = Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        match &self.authorization {
            Some(authorization) => request.header("authorization", authorization),
            None => request,
        }
    }

    fn call(
        &self,
        method: &str,
        path: &str,
        content_type: Option<&str>,
        body: impl AsSendBody,
        timeout: Duration,
    ) -> Result<Response<Body>, Failure> {
        let mut request = self.request(method, path);
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        let request = request.body(body).map_err(|error| self.malformed(&error))?;
        let request = self.agent.configure_request(request).timeout_global(Some(timeout)).build();
        self.checked(self.agent.run(request), path)
    }

    fn read<T: DeserializeOwned>(&self, response: Response<Body>, path: &str) -> Result<T, Failure> {
        let answer = response.into_body().into_with_config().limit(MAX_ANSWER_BYTES).read_json();
        answer.map_err(|error| match error {
            // The answer began and did not go on.
            ureq::Error::Timeout(_) | ureq::Error::Io(_) => self.unreachable(error),
            error => Failure::failed(format!("cannot read the answer of {} to {path}: {error}", plain(&self.address)))
                .hint("is this a headcount agent, and not much older than this command?"),
        })
    }

    /// Returns the answer if its status is a success.
    fn checked(&self, answer: Result<Response<Body>, ureq::Error>, path: &str) -> Result<Response<Body>, Failure> {
        let mut response = answer.map_err(|error| self.unreachable(error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let problem = response.body_mut().read_json::<Problem>().ok();
        let failure = match problem {
            Some(problem) => told(&problem),
            None => Failure::failed(format!("{} answered {status} to {path}", plain(&self.address)))
                .hint("is this a headcount agent? name one with --http"),
        };
        let is_transient = matches!(status.as_u16(), 408 | 429 | 503);
        Err(if is_transient { failure.with(RetryOutlook::MaySucceed) } else { failure })
    }

    fn malformed(&self, error: &ureq::http::Error) -> Failure {
        Failure::usage(format!("\"{}\" is not an address of an agent: {error}", plain(&self.address)))
            .hint("write it as in --http 127.0.0.1:7118")
    }

    fn unreachable(&self, error: ureq::Error) -> Failure {
        let address = plain(&self.address);
        let retry_outlook = retry_outlook(&error);
        match error {
            ureq::Error::BadUri(what) => Failure::usage(format!("\"{address}\" is not an address of an agent: {what}"))
                .hint("write it as in --http 127.0.0.1:7118"),
            ureq::Error::HostNotFound => {
                Failure::failed(format!("cannot find the host of {address}")).hint("check the name given with --http")
            }
            ureq::Error::Timeout(_) => Failure::failed(format!("the agent at {address} did not answer in time"))
                .hint("is it overloaded or stopped (SIGSTOP)? look at its log"),
            ureq::Error::Protocol(error) => {
                Failure::failed(format!("what answers at {address} does not speak HTTP ({error})"))
                    .hint("the HTTP port is not the gossip port: by default it is 7118")
            }
            other => {
                let why = match &other {
                    ureq::Error::Io(error) => format!(" ({error})"),
                    ureq::Error::ConnectionFailed => String::new(),
                    other => format!(" ({other})"),
                };
                Failure::failed(format!("cannot reach an agent at {address}{why}"))
                    .hint("is it running? start one with `headcount agent`, or name another with --http")
            }
        }
        .with(retry_outlook)
    }
}

/// Returns what a failed call says about the next one.
fn retry_outlook(error: &ureq::Error) -> RetryOutlook {
    match error {
        ureq::Error::BadUri(_) => RetryOutlook::Fails,
        ureq::Error::Io(error) => match error.kind() {
            ErrorKind::ConnectionRefused => RetryOutlook::NobodyListens,
            ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe => RetryOutlook::HungUp,
            _ => RetryOutlook::MaySucceed,
        },
        _ => RetryOutlook::MaySucceed,
    }
}

/// Returns the failure for an agent's refusal, with a hint in terms of the command line instead of HTTP.
fn told(problem: &Problem) -> Failure {
    let failure = Failure::failed(plain(&problem.detail));
    let word = problem.kind.rsplit(':').next().unwrap_or_default();
    match (word, &problem.hint) {
        ("no-such-member", _) => failure.hint("`headcount members` lists them all"),
        ("not-down", _) => failure.hint("--force removes it all the same, and its process will stop"),
        ("oneself", _) => failure.hint("`headcount leave` has it leave"),
        ("not-leader", _) => failure.hint(match &problem.leader {
            Some(leader) => {
                format!("ask {}, by the HTTP address of its agent: --http{}", plain(&leader.id), place(leader))
            }
            None => "`headcount leader` says who leads, or why nobody does".to_owned(),
        }),
        ("token", _) => failure.hint("name the file with the agent's token by --token-file"),
        (_, Some(hint)) => failure.hint(plain(hint)),
        (_, None) => failure,
    }
}

/// Returns the known addresses of a leader, as a text; its HTTP address is not among them.
fn place(leader: &LeaderAddress) -> String {
    let gossip = leader.address.as_ref().map(|address| format!("its gossip is at {}", plain(address)));
    let api = leader.api_address.as_ref().map(|address| format!("its api_address is {}", plain(address)));
    let known: Vec<_> = gossip.into_iter().chain(api).collect();
    if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) }
}

/// Parses an agent's address, in any of the forms that people write, into `host:port`.
fn authority(text: &str) -> Result<String, Failure> {
    let text = text.trim();
    if text.starts_with("https://") {
        return Err(Failure::usage("agents serve HTTP, not HTTPS").hint("write it as in --http 127.0.0.1:7118"));
    }
    let text = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
    // A port alone is one of this machine.
    if text.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok()) {
        return Ok(format!("127.0.0.1{text}"));
    }
    let has_host = !text.is_empty() && (!text.starts_with(':') || text.starts_with("::"));
    if !has_host || text.contains(['/', '?', '#', '@', ' ']) {
        return Err(Failure::usage(format!("\"{}\" is not an address of an agent", plain(text)))
            .hint("write it as in --http 127.0.0.1:7118"));
    }
    if text.parse::<std::net::Ipv6Addr>().is_ok() {
        return Ok(format!("[{text}]:{DEFAULT_HTTP_PORT}"));
    }
    let has_port = text.rsplit_once(':').is_some_and(|(host, _)| !host.contains(':') || host.ends_with(']'));
    Ok(if has_port { text.to_owned() } else { format!("{text}:{DEFAULT_HTTP_PORT}") })
}

/// Reads the token from a file.
pub(super) fn read_token(path: &Path) -> Result<Token, Failure> {
    Token::read(path).map_err(|error| {
        let path = plain(&path.to_string_lossy());
        let hint = match &error {
            TokenFileError::Unreadable(_) => "name the file with the agent's token by --token-file",
            _ => "make one with `openssl rand -hex 32`",
        };
        Failure::new(Exit::USAGE, format!("the token file {path} {error}")).hint(hint)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_understood_as_people_write_them() {
        for (text, expected) in [
            ("127.0.0.1:7118", "127.0.0.1:7118"),
            ("http://127.0.0.1:7118/", "127.0.0.1:7118"),
            ("localhost", "localhost:7118"),
            (":7128", "127.0.0.1:7128"),
            ("10.0.0.1", "10.0.0.1:7118"),
            ("::1", "[::1]:7118"),
            ("[::1]", "[::1]:7118"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(authority(text).expect(text), expected);
        }
        for text in ["", "https://10.0.0.1:7118", "10.0.0.1/x", "a b", "user@host", ":", ":x", ":99999"] {
            assert_eq!(authority(text).expect_err(text).exit(), Exit::USAGE);
        }
    }

    #[test]
    fn an_agent_that_is_not_there_is_said_so_with_what_to_try() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let http = listener.local_addr().expect("an address").to_string();
        drop(listener);
        let client = Client::new(&AgentAddress { http: http.clone(), token_file: None }).expect("a client");
        let failure = client.get::<crate::json::Info>("/v1/info").expect_err("nobody is there");
        let text = failure.to_string();
        assert!(text.starts_with(&format!("cannot reach an agent at {http}")), "{text}");
        assert!(text.contains("headcount agent") && text.contains("--http"), "{text}");
        assert_eq!(failure.exit(), Exit::FAILED);
        assert_eq!(failure.retry_outlook(), RetryOutlook::NobodyListens);
    }

    #[test]
    fn a_refusal_of_a_follower_says_whom_to_ask_and_how() {
        let told = |leader: &str| {
            let json = format!(
                r#"{{"type":"urn:headcount:problem:not-leader","title":"","status":409,"detail":"no","hint":"ask"{leader}}}"#
            );
            told(&serde_json::from_str(&json).expect("a problem")).to_string()
        };
        let leader = r#","leader":{"id":"b","address":"10.0.0.2:7117","api_address":null}"#;
        let expected = "no: ask b, by the HTTP address of its agent: --http (its gossip is at 10.0.0.2:7117)";
        assert_eq!(told(leader), expected);
        assert_eq!(told(""), "no: `headcount leader` says who leads, or why nobody does");
    }
}
