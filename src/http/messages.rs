//! Messages between programs: broadcast, sent, requested and answered over HTTP. Listening to them is a kind of event
//! stream, see [`events`](super::events).
//!
//! Invariant: bodies are raw bytes in both directions, and are never interpreted here.

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::App;
use super::problem::Refusal;
use super::query::{NoQuery, Pairs};
use crate::agent::MessageError;
use crate::core::limits::REQUEST_TIMEOUT;
use crate::core::{MessageId, NodeId, Payload, Topic};
use crate::json;

/// The longest time that a request over HTTP may wait for its answer: less than the time for which a connection may be
/// silent.
pub const MAX_ANSWER_WAIT: Duration = Duration::from_secs(25);
const _: () = assert!(MAX_ANSWER_WAIT.as_secs() < super::SILENCE_TIMEOUT.as_secs());

pub(super) async fn broadcast(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    _: NoQuery,
    body: Bytes,
) -> Result<(StatusCode, Json<json::Sent>), Refusal> {
    let Path(topic) = path?;
    let sent = app.agent.broadcast(&topic, &body).await?;
    Ok((StatusCode::ACCEPTED, Json(json::Sent::new(sent.id, Some(sent.addressed)))))
}

pub(super) async fn send(
    State(app): State<App>,
    path: Result<Path<(String, String)>, PathRejection>,
    _: NoQuery,
    body: Bytes,
) -> Result<Json<json::Sent>, Refusal> {
    let Path((node, topic)) = path?;
    let (topic, payload) = said(&topic, body)?;
    let id = app.agent.send_payload(named(&node)?, topic, payload).await?;
    Ok(Json(json::Sent::new(id, None)))
}

pub(super) async fn request(
    State(app): State<App>,
    path: Result<Path<(String, String)>, PathRejection>,
    query: Pairs,
    body: Bytes,
) -> Result<Response, Refusal> {
    let Path((node, topic)) = path?;
    query.only(&["timeout_ms"])?;
    let timeout = query.word("timeout_ms")?.map_or(Ok(REQUEST_TIMEOUT), patience)?;
    let asked = named(&node)?;
    let (topic, payload) = said(&topic, body)?;
    let answer = app.agent.request_payload(asked.clone(), topic.clone(), payload, timeout).await;
    let answer = answer.map_err(|error| match error {
        error @ MessageError::NoAnswer { .. } => {
            Refusal::from(error).hint(format!("does a program at {asked} listen to \"{topic}\" and reply?"))
        }
        error => error.into(),
    })?;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], answer).into_response())
}

pub(super) async fn reply(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    _: NoQuery,
    body: Bytes,
) -> Result<Json<json::Sent>, Refusal> {
    let Path(id) = path?;
    let id: MessageId = id.parse().map_err(|_| Refusal::no_such_request(&id))?;
    let payload = Payload::new(&body).map_err(MessageError::from)?;
    drop(body);
    app.agent.reply_payload(id, payload).await?;
    Ok(Json(json::Sent::new(id, None)))
}

/// Takes a message out of a body, which nobody keeps while the message waits for its answer.
fn said(topic: &str, body: Bytes) -> Result<(Topic, Payload), Refusal> {
    let topic = Topic::of_program(topic).map_err(MessageError::from)?;
    let payload = Payload::new(&body).map_err(MessageError::from)?;
    drop(body);
    Ok((topic, payload))
}

/// Parses a node name; a text that is not a valid name cannot be a member's name, and is refused as an unknown member.
fn named(id: &str) -> Result<NodeId, Refusal> {
    NodeId::new(id).map_err(|_| Refusal::no_such_member(id))
}

fn patience(text: &str) -> Result<Duration, Refusal> {
    let most = MAX_ANSWER_WAIT.as_millis() as u64;
    match text.parse::<u64>() {
        Ok(ms) if (1..=most).contains(&ms) => Ok(Duration::from_millis(ms)),
        _ => Err(Refusal::query(format!("timeout_ms is a number from 1 to {most}, found \"{}\"", text.escape_debug()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_has_its_bounds() {
        assert_eq!(patience("25000").ok(), Some(MAX_ANSWER_WAIT));
        for wrong in ["0", "25001", "-1", "1s", ""] {
            assert!(patience(wrong).is_err(), "{wrong}");
        }
    }
}
