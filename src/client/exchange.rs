//! One call and its answer, as bytes or JSON.
//!
//! Invariant: an answer with a status of failure is an error; the bodies of all others are read up to a bound.

use std::fmt;
use std::io::BufReader;

use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::{Request, Response};
use ureq::{AsSendBody, Body, BodyReader};

use super::Client;
use super::error::ClientError;
use super::sse::Frames;
use crate::json::Problem;
use crate::text::visible;

/// The largest answer, in bytes: the members of a very large cluster. (Without a test, which would have to send so much.)
const MAX_ANSWER_BYTES: u64 = 256 * 1024 * 1024;
/// Name of the header that says where a stream starts, and where to go on.
const LAST_EVENT_ID: &str = "last-event-id";

/// An open event stream.
pub(super) struct Stream {
    pub(super) frames: Frames<BufReader<BodyReader<'static>>>,
    /// Id of the event after which the stream starts.
    pub(super) start: Option<String>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("start", &self.start).finish_non_exhaustive()
    }
}

/// An answer with a status of success.
pub(super) struct Answer<'a> {
    client: &'a Client,
    path: &'a str,
    response: Response<Body>,
}

impl Answer<'_> {
    pub(super) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// Returns the time by the agent's clock at which it answered, as the header `Date` says it.
    pub(super) fn date(&self) -> Option<String> {
        self.response.headers().get("date").and_then(|date| date.to_str().ok()).map(str::to_owned)
    }

    pub(super) fn json<T: DeserializeOwned>(self) -> Result<T, ClientError> {
        let Self { client, path, response } = self;
        let answer = response.into_body().into_with_config().limit(MAX_ANSWER_BYTES).read_json();
        answer.map_err(|error| match error {
            // The answer began and did not go on.
            ureq::Error::Timeout(_) | ureq::Error::Io(_) => ClientError::unanswered(&client.address, error),
            error => client.unreadable(path, &error.to_string()),
        })
    }

    pub(super) fn bytes(self) -> Result<Vec<u8>, ClientError> {
        let answer = self.response.into_body().into_with_config().limit(MAX_ANSWER_BYTES).read_to_vec();
        answer.map_err(|error| ClientError::unanswered(&self.client.address, error))
    }
}

impl Client {
    pub(super) fn get<'a>(&'a self, path: &'a str) -> Result<Answer<'a>, ClientError> {
        self.call("GET", path, None, ())
    }

    pub(super) fn delete<'a>(&'a self, path: &'a str) -> Result<Answer<'a>, ClientError> {
        self.call("DELETE", path, None, ())
    }

    /// Posts without a body.
    pub(super) fn post<'a>(&'a self, path: &'a str) -> Result<Answer<'a>, ClientError> {
        self.call("POST", path, None, ())
    }

    /// Posts raw bytes.
    pub(super) fn post_bytes<'a>(&'a self, path: &'a str, body: &[u8]) -> Result<Answer<'a>, ClientError> {
        self.call("POST", path, Some("application/octet-stream"), body)
    }

    /// Sends JSON and reads JSON.
    pub(super) fn send_json<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        // The requests of `json` are strings and numbers, which cannot fail to be encoded.
        let body = serde_json::to_vec(body).unwrap_or_default();
        self.call(method, path, Some("application/json"), &body[..])?.json()
    }

    /// Opens an event stream, after an event if one is given.
    pub(super) fn open(&self, path: &str, after: Option<&str>) -> Result<Stream, ClientError> {
        let mut request = self.build("GET", path);
        if let Some(after) = after {
            request = request.header(LAST_EVENT_ID, after);
        }
        let request = request.header("accept", "text/event-stream").body(()).map_err(|error| self.malformed(&error))?;
        let request = self
            .http
            .configure_request(request)
            .timeout_recv_response(Some(self.timeout))
            .timeout_per_read(Some(self.silence))
            .build();
        let response = self.checked(self.http.run(request), path)?;
        let start = response.headers().get(LAST_EVENT_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
        let body = response.into_body().into_with_config().limit(u64::MAX).reader();
        Ok(Stream { frames: Frames::new(BufReader::new(body)), start })
    }

    /// Returns the error of an answer that cannot be read.
    pub(super) fn unreadable(&self, path: &str, reason: &str) -> ClientError {
        let (path, reason) = (path.to_owned(), visible(reason, usize::MAX));
        ClientError::Answer { agent: self.address.clone(), path, reason }
    }

    fn build(&self, method: &str, path: &str) -> ureq::http::request::Builder {
        let request = Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        match &self.token {
            Some(token) => request.header("authorization", token.header()),
            None => request,
        }
    }

    fn call<'a>(
        &'a self,
        method: &str,
        path: &'a str,
        content_type: Option<&str>,
        body: impl AsSendBody,
    ) -> Result<Answer<'a>, ClientError> {
        let mut request = self.build(method, path);
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        let request = request.body(body).map_err(|error| self.malformed(&error))?;
        let request = self.http.configure_request(request).timeout_global(Some(self.timeout)).build();
        let response = self.checked(self.http.run(request), path)?;
        Ok(Answer { client: self, path, response })
    }

    /// Gets a text, whatever the status: a failure of health is an answer.
    pub(super) fn get_text(&self, path: &str) -> Result<(u16, String), ClientError> {
        let unanswered = |error| ClientError::unanswered(&self.address, error);
        let request = self.build("GET", path).body(()).map_err(|error| self.malformed(&error))?;
        let request = self.http.configure_request(request).timeout_global(Some(self.timeout)).build();
        let response = self.http.run(request).map_err(unanswered)?;
        let status = response.status().as_u16();
        let bytes =
            response.into_body().into_with_config().limit(MAX_ANSWER_BYTES).read_to_vec().map_err(unanswered)?;
        Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Returns the answer if its status is a success.
    fn checked(&self, answer: Result<Response<Body>, ureq::Error>, path: &str) -> Result<Response<Body>, ClientError> {
        let mut response = answer.map_err(|error| ClientError::unanswered(&self.address, error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        Err(match response.body_mut().read_json::<Problem>() {
            Ok(problem) => ClientError::Refused(Box::new(Problem { status: status.as_u16(), ..problem })),
            Err(_) => {
                ClientError::Status { agent: self.address.clone(), status: status.as_u16(), path: path.to_owned() }
            }
        })
    }

    fn malformed(&self, error: &ureq::http::Error) -> ClientError {
        ClientError::Address { address: self.address.clone(), reason: Some(error.to_string()) }
    }
}
