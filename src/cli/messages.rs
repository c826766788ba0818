//! The commands about messages: broadcast, send, request, reply, listen.
//!
//! Invariant: payloads are bytes: input by `-` is sent unchanged, and an answer is written unchanged, unless JSON is
//! asked for.

use std::io::{self, Read as _, Write};
use std::thread::sleep;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::json;

use super::args::{Format, LineFormat, ListenArgs, ReplyArgs, RequestArgs, SayArgs, SendArgs};
use super::client::{Client, Stream};
use super::commands::{json_line, with_query};
use super::failure::{Exit, Failure};
use super::human::plain;
use super::sse::Frame;
use super::watch::{end_with_the_reader, tell};
use crate::core::limits::MAX_PAYLOAD_BYTES;
use crate::json::{Answered, Message, Missed, Sent};

/// Pause before the agent is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// Time for which the agent's answer is awaited beyond the timeout of the request itself.
const GRACE: Duration = Duration::from_secs(5);

/// Returns the bytes to send: the text itself, or for `-` those on standard input, up to one byte more than may be
/// sent.
fn payload(text: Option<&str>) -> Result<Vec<u8>, Failure> {
    match text {
        Some("-") => {
            let mut bytes = Vec::new();
            io::stdin().lock().take(MAX_PAYLOAD_BYTES as u64 + 1).read_to_end(&mut bytes)?;
            Ok(bytes)
        }
        text => Ok(text.unwrap_or_default().as_bytes().to_vec()),
    }
}

pub(super) fn broadcast(args: &SayArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let client = Client::new(&args.target.agent)?;
    let body = payload(args.payload.as_deref())?;
    let sent: Sent = client.post_bytes(&format!("/v1/broadcast/{}", args.topic), &body)?;
    match args.target.format {
        Format::Json => json_line(out, &sent)?,
        Format::Table => writeln!(out, "on its way to {}", members(sent.addressed))?,
    }
    Ok(Exit::DONE)
}

fn members(addressed: Option<usize>) -> String {
    super::human::count(addressed.unwrap_or_default(), "member")
}

pub(super) fn send(args: &SendArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let client = Client::new(&args.target.agent)?;
    let body = payload(args.payload.as_deref())?;
    let sent: Sent = client.post_bytes(&format!("/v1/send/{}/{}", args.node, args.topic), &body)?;
    match args.target.format {
        Format::Json => json_line(out, &sent)?,
        Format::Table => writeln!(out, "{} has it", args.node)?,
    }
    Ok(Exit::DONE)
}

pub(super) fn request(args: &RequestArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let client = Client::new(&args.send.target.agent)?;
    let body = payload(args.send.payload.as_deref())?;
    let timeout = args.timeout.as_millis();
    let path = format!("/v1/request/{}/{}?timeout_ms={timeout}", args.send.node, args.send.topic);
    let answer = client.exchange_bytes(&path, &body, args.timeout.saturating_add(GRACE))?;
    match args.send.target.format {
        Format::Json => json_line(out, &Answered::new(&answer))?,
        Format::Table => {
            out.write_all(&answer)?;
            if !answer.is_empty() && !answer.ends_with(b"\n") {
                writeln!(out)?;
            }
            out.flush()?;
        }
    }
    Ok(Exit::DONE)
}

pub(super) fn reply(args: &ReplyArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let client = Client::new(&args.target.agent)?;
    let body = payload(args.payload.as_deref())?;
    let sent: Sent = client.post_bytes(&format!("/v1/reply/{}", args.id), &body)?;
    match args.target.format {
        Format::Json => json_line(out, &sent)?,
        Format::Table => writeln!(out, "answered")?,
    }
    Ok(Exit::DONE)
}

pub(super) fn listen(args: &ListenArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let client = Client::new(&args.agent)?;
    let topics: Vec<String> = args.topics.iter().map(ToString::to_string).collect();
    let path = with_query("/v1/events", &[("kind", &["message".to_owned()]), ("topic", &topics)]);
    #[cfg(unix)]
    end_with_the_reader();
    let mut stream = client.stream(&path, None)?;
    // Scripts wait for this before they send: earlier messages are not received.
    tell(&format!("listening at {}", client.address()));
    loop {
        let why = follow(&mut stream, args.format, out)?;
        let lost = "what is said meanwhile is lost";
        tell(&format!("the stream of {} {why}: trying again every second; {lost}", client.address()));
        stream = loop {
            sleep(TRY_AGAIN);
            match client.stream(&path, None) {
                Ok(stream) => break stream,
                Err(failure) if failure.is_transient() => {}
                Err(failure) => return Err(failure),
            }
        };
        tell(&format!("the stream of {} goes on", client.address()));
    }
}

/// Prints messages until the stream ends; returns the reason for the end.
fn follow(stream: &mut Stream, format: LineFormat, out: &mut impl Write) -> Result<String, Failure> {
    loop {
        match stream.frames.next() {
            Ok(Some(frame)) => print(&frame, format, out)?,
            Ok(None) => return Ok("ended".to_owned()),
            Err(error) => return Ok(format!("broke ({error})")),
        }
    }
}

fn print(frame: &Frame, format: LineFormat, out: &mut impl Write) -> Result<(), Failure> {
    match (frame.event.as_str(), format) {
        ("message", LineFormat::Json) => json_line(out, &read::<Message>(frame)?)?,
        ("message", LineFormat::Text) => {
            let message: Message = read(frame)?;
            let bytes = message.bytes().unwrap_or_default();
            let said = String::from_utf8_lossy(&bytes);
            // A request is shown with its id, which a reply needs.
            let asked =
                if message.kind == "request" { format!(" (request {})", plain(&message.id)) } else { String::new() };
            writeln!(out, "{} {}{asked}: {}", plain(&message.topic), plain(&message.node), plain(&said))?;
            out.flush()?;
        }
        ("lagged", LineFormat::Json) => {
            let Missed { missed, .. } = read(frame)?;
            json_line(out, &json!({ "event": "lagged", "missed": missed }))?;
        }
        ("lagged", LineFormat::Text) => {
            writeln!(out, "{} messages were missed", read::<Missed>(frame)?.missed)?;
            out.flush()?;
        }
        _ => {}
    }
    Ok(())
}

fn read<T: DeserializeOwned>(frame: &Frame) -> Result<T, Failure> {
    serde_json::from_str(&frame.data)
        .map_err(|error| Failure::failed(format!("cannot read what the agent sent: {error}")))
}
