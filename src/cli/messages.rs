//! The commands about messages: broadcast, send, request, reply, listen.
//!
//! Invariant: payloads are bytes: input by `-` is sent unchanged, and an answer is written unchanged, unless JSON is
//! asked for.

use serde_json::json;
use std::io::{self, Read as _, Write};

use super::args::{Format, LineFormat, ListenArgs, ReplyArgs, RequestArgs, SayArgs, SendArgs};
use super::client::connect;
use super::commands::json_line;
use super::failure::{Exit, Failure};
use super::human::plain;
use super::watch::{end_with_the_reader, tell};
use crate::client::MessageUpdate;
use crate::core::limits::MAX_PAYLOAD_BYTES;
use crate::json::Answered;

/// Returns the bytes to send: the text itself, or for `-` those on standard input, up to one byte more than may be
/// sent.
fn payload(text: Option<&str>) -> Result<Vec<u8>, Failure> {
    let mut input = io::stdin().lock();
    payload_of(text, &mut input)
}

/// Returns the bytes to send, or refuses more of them than a message has.
fn payload_of(text: Option<&str>, input: &mut impl io::Read) -> Result<Vec<u8>, Failure> {
    let too_large = |has: String| {
        Failure::failed(format!(
            "the payload has {has}; a message has at most {MAX_PAYLOAD_BYTES} bytes: nothing was sent"
        ))
        .hint("send where the data is instead")
    };
    let bytes = match text {
        Some("-") => {
            let mut bytes = Vec::new();
            input.take(MAX_PAYLOAD_BYTES as u64 + 1).read_to_end(&mut bytes)?;
            if bytes.len() > MAX_PAYLOAD_BYTES {
                return Err(too_large(format!("more than {MAX_PAYLOAD_BYTES} bytes")));
            }
            bytes
        }
        text => text.unwrap_or_default().as_bytes().to_vec(),
    };
    if bytes.len() > MAX_PAYLOAD_BYTES { Err(too_large(format!("{} bytes", bytes.len()))) } else { Ok(bytes) }
}

pub(super) fn broadcast(args: &SayArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let client = connect(&args.target.agent)?;
    let body = payload(args.payload.as_deref())?;
    let sent = client.broadcast(args.topic.as_str(), &body)?;
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
    let client = connect(&args.target.agent)?;
    let body = payload(args.payload.as_deref())?;
    let sent = client.send(args.node.as_str(), args.topic.as_str(), &body)?;
    match args.target.format {
        Format::Json => json_line(out, &sent)?,
        Format::Table => writeln!(out, "{} has it", args.node)?,
    }
    Ok(Exit::DONE)
}

pub(super) fn request(args: &RequestArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let client = connect(&args.send.target.agent)?;
    let body = payload(args.send.payload.as_deref())?;
    let answer = client.request(args.send.node.as_str(), args.send.topic.as_str(), &body, args.timeout)?;
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
    let client = connect(&args.target.agent)?;
    let body = payload(args.payload.as_deref())?;
    let sent = client.reply(&args.id.to_string(), &body)?;
    match args.target.format {
        Format::Json => json_line(out, &sent)?,
        Format::Table => writeln!(out, "answered")?,
    }
    Ok(Exit::DONE)
}

pub(super) fn listen(args: &ListenArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let client = connect(&args.agent)?;
    #[cfg(unix)]
    end_with_the_reader();
    let messages = client.listen(args.topics.iter().map(ToString::to_string))?;
    // Scripts wait for this before they send: earlier messages are not received.
    tell(&format!("listening at {}", client.address()));
    for update in messages {
        match update? {
            MessageUpdate::Lost { reason } => tell(&format!(
                "the stream of {} {reason}: trying again every second; what is said meanwhile is lost",
                client.address()
            )),
            MessageUpdate::Resumed => tell(&format!("the stream of {} goes on", client.address())),
            update => print(update, args.format, out)?,
        }
    }
    // The iterator ends after an error alone.
    Ok(Exit::FAILED)
}

fn print(update: MessageUpdate, format: LineFormat, out: &mut impl Write) -> Result<(), Failure> {
    match (update, format) {
        (MessageUpdate::Message(message), LineFormat::Json) => json_line(out, &message)?,
        (MessageUpdate::Message(message), LineFormat::Text) => {
            let bytes = message.bytes().unwrap_or_default();
            let said = String::from_utf8_lossy(&bytes);
            // A request is shown with its id, which a reply needs.
            let asked =
                if message.kind == "request" { format!(" (request {})", plain(&message.id)) } else { String::new() };
            writeln!(out, "{} {}{asked}: {}", plain(&message.topic), plain(&message.node), plain(&said))?;
            out.flush()?;
        }
        (MessageUpdate::Missed(missed), LineFormat::Json) => {
            json_line(out, &json!({ "event": "lagged", "missed": missed.missed }))?;
        }
        (MessageUpdate::Missed(missed), LineFormat::Text) => {
            writeln!(out, "messages were missed: {}", missed.missed)?;
            out.flush()?;
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_that_is_too_large_is_told_with_its_size_before_anything_is_sent() {
        let most = "x".repeat(MAX_PAYLOAD_BYTES);
        let of = |text: &str, input: &str| payload_of(Some(text), &mut input.as_bytes());
        assert_eq!(of(&most, "").map(|bytes| bytes.len()).ok(), Some(MAX_PAYLOAD_BYTES));
        assert_eq!(of("-", &most).map(|bytes| bytes.len()).ok(), Some(MAX_PAYLOAD_BYTES));
        let one_more = format!("{most}x");
        for (failure, size) in [(of(&one_more, ""), "has 65537 bytes"), (of("-", &one_more), "more than 65536 bytes")] {
            let told = failure.expect_err("too large").to_string();
            assert!(told.contains(size) && told.contains("nothing was sent"), "{told}");
        }
    }
}
