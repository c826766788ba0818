//! Streams of events and messages, across broken connections.
//!
//! Invariant: nothing is lost silently. A stream of events that breaks is resumed after the last event that was taken
//! from the iterator, or begun anew if it was to begin with all members and those had not come; events that the agent no
//! longer keeps are reported ([`EventUpdate::Lagged`]), followed by all members. Messages that come while a stream is broken are lost, which [`MessageUpdate::Lost`] says.

use std::thread::sleep;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::Client;
use super::address::with_query;
use super::error::ClientError;
use super::exchange::Stream;
use super::sse::Frame;
use crate::json::{Event, Lagged, Message, Missed, Snapshot};
use crate::text::visible;

/// Pause before an agent that is away is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The events that are asked for, and the place in the stream where they begin: now, unless said otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventQuery {
    kinds: Vec<String>,
    nodes: Vec<String>,
    leases: Vec<String>,
    with_snapshot: bool,
    after: Option<String>,
}

impl EventQuery {
    /// Returns a query for all events from now on.
    pub fn all() -> Self {
        Self::default()
    }

    /// Asks for these kinds of events only, by their [names](crate::EventKind::NAMES).
    #[must_use]
    pub fn kinds(mut self, kinds: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.kinds.extend(kinds.into_iter().map(Into::into));
        self
    }

    /// Asks for events about these nodes only.
    #[must_use]
    pub fn nodes(mut self, nodes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.nodes.extend(nodes.into_iter().map(Into::into));
        self
    }

    /// Asks for events about the leaders by these leases in a database only.
    #[must_use]
    pub fn leases(mut self, leases: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.leases.extend(leases.into_iter().map(Into::into));
        self
    }

    /// Begins with all members, followed by every event after that.
    #[must_use]
    pub fn from_snapshot(mut self) -> Self {
        self.with_snapshot = true;
        self
    }

    /// Begins after this event: the `id` of an [`Event`] or a [`Snapshot`] that was seen before.
    #[must_use]
    pub fn after(mut self, id: impl Into<String>) -> Self {
        self.after = Some(id.into());
        self
    }

    fn path(&self) -> String {
        let flag: &[String] = if self.with_snapshot { &["true".to_owned()] } else { &[] };
        let asked = [("kind", &*self.kinds), ("node", &*self.nodes), ("lease", &*self.leases), ("snapshot", flag)];
        with_query("/v1/events", &asked)
    }
}

/// One item of a stream of events.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum EventUpdate {
    /// All members: the view so far is to be replaced.
    Snapshot(Snapshot),
    /// One event.
    Event(Box<Event>),
    /// Events were missed; a snapshot follows.
    Lagged(Lagged),
    /// The stream broke. The next item is awaited until the agent is back.
    Lost {
        /// The reason, as in `ended` or `broke (…)`.
        reason: String,
    },
    /// The stream goes on after the last event.
    Resumed,
}

/// One item of a stream of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageUpdate {
    /// One message.
    Message(Message),
    /// Messages were missed, because they were taken too slowly.
    Missed(Missed),
    /// The stream broke: messages that come before it goes on are lost.
    Lost {
        /// The reason, as in `ended` or `broke (…)`.
        reason: String,
    },
    /// The stream goes on.
    Resumed,
}

impl Client {
    /// Opens the stream of events. An agent that cannot be reached now is an error; one that is away later is waited
    /// for.
    pub fn events(&self, query: &EventQuery) -> Result<Events, ClientError> {
        let resumes = if query.with_snapshot { Resumes::AfterFrames } else { Resumes::FromTheStart };
        Follower::open(self, query.path(), query.after.clone(), resumes).map(|follower| Events { follower })
    }

    /// Opens the stream of messages about these topics; all topics, if there are none.
    pub fn listen(&self, topics: impl IntoIterator<Item = impl Into<String>>) -> Result<Messages, ClientError> {
        let topics: Vec<String> = topics.into_iter().map(Into::into).collect();
        let path = with_query("/v1/events", &[("kind", &["message".to_owned()]), ("topic", &topics)]);
        Follower::open(self, path, None, Resumes::Never).map(|follower| Messages { follower })
    }
}

/// The events of an agent, as they happen: an iterator that waits. It ends after an error, which no retry would mend.
#[derive(Debug)]
pub struct Events {
    follower: Follower,
}

impl Events {
    /// Returns the id after which the stream goes on: to be kept, and given to [`EventQuery::after`] by a later
    /// process.
    pub fn last_id(&self) -> Option<&str> {
        self.follower.last.as_deref()
    }

    fn read(&mut self, frame: &Frame) -> Result<EventUpdate, ClientError> {
        let client = &self.follower.client;
        match frame.event.as_str() {
            "snapshot" => read(client, frame).map(EventUpdate::Snapshot),
            "lagged" => read(client, frame).map(EventUpdate::Lagged),
            _ => read(client, frame).map(|event| EventUpdate::Event(Box::new(event))),
        }
    }
}

impl Iterator for Events {
    type Item = Result<EventUpdate, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        let update = match self.follower.next()? {
            Ok(Step::Frame(frame)) => self.read(&frame),
            Ok(Step::Lost(reason)) => Ok(EventUpdate::Lost { reason }),
            Ok(Step::Resumed) => Ok(EventUpdate::Resumed),
            Err(error) => Err(error),
        };
        self.follower.has_ended |= update.is_err();
        Some(update)
    }
}

/// The messages that come to an agent: an iterator that waits. It ends after an error, which no retry would mend.
#[derive(Debug)]
pub struct Messages {
    follower: Follower,
}

impl Iterator for Messages {
    type Item = Result<MessageUpdate, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        let update = loop {
            break match self.follower.next()? {
                Ok(Step::Frame(frame)) => match frame.event.as_str() {
                    "message" => read(&self.follower.client, &frame).map(MessageUpdate::Message),
                    "lagged" => read(&self.follower.client, &frame).map(MessageUpdate::Missed),
                    _ => continue,
                },
                Ok(Step::Lost(reason)) => Ok(MessageUpdate::Lost { reason }),
                Ok(Step::Resumed) => Ok(MessageUpdate::Resumed),
                Err(error) => Err(error),
            };
        };
        self.follower.has_ended |= update.is_err();
        Some(update)
    }
}

fn read<T: DeserializeOwned>(client: &Client, frame: &Frame) -> Result<T, ClientError> {
    serde_json::from_str(&frame.data)
        .map_err(|error| client.unreadable("/v1/events", &format!("event \"{}\": {error}", frame.event)))
}

/// One step of a stream.
#[derive(Debug)]
enum Step {
    Frame(Frame),
    Lost(String),
    Resumed,
}

/// The place at which a stream that broke is taken up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resumes {
    /// Wherever the agent is by then.
    Never,
    /// After the last frame that came; at its beginning, before one did.
    AfterFrames,
    /// After the last frame that came; before one did, after the id that the agent named when the stream was opened.
    FromTheStart,
}

/// A stream that is opened again when it breaks.
#[derive(Debug)]
struct Follower {
    client: Client,
    path: String,
    resumes: Resumes,
    last: Option<String>,
    /// The open stream; `None` while the agent is away.
    stream: Option<Stream>,
    has_ended: bool,
}

impl Follower {
    fn open(client: &Client, path: String, after: Option<String>, resumes: Resumes) -> Result<Self, ClientError> {
        let mut follower = Self { client: client.clone(), path, resumes, last: after, stream: None, has_ended: false };
        follower.connect()?;
        Ok(follower)
    }

    fn connect(&mut self) -> Result<(), ClientError> {
        let after = self.last.as_deref().filter(|_| self.resumes != Resumes::Never);
        let stream = self.client.open(&self.path, after)?;
        if self.last.is_none() && self.resumes != Resumes::AfterFrames {
            self.last.clone_from(&stream.start);
        }
        self.stream = Some(stream);
        Ok(())
    }

    /// Returns the next step; `None` after an error.
    fn next(&mut self) -> Option<Result<Step, ClientError>> {
        if self.has_ended {
            return None;
        }
        let Some(stream) = &mut self.stream else { return Some(self.come_back()) };
        let reason = match stream.frames.next() {
            Ok(Some(frame)) => {
                if frame.id.is_some() {
                    self.last.clone_from(&frame.id);
                }
                return Some(Ok(Step::Frame(frame)));
            }
            Ok(None) => "ended".to_owned(),
            Err(error) => format!("broke ({})", visible(&error.to_string(), usize::MAX)),
        };
        self.stream = None;
        Some(Ok(Step::Lost(reason)))
    }

    /// Waits until the agent is back.
    fn come_back(&mut self) -> Result<Step, ClientError> {
        loop {
            sleep(RETRY_INTERVAL);
            match self.connect() {
                Ok(()) => return Ok(Step::Resumed),
                Err(error) if error.is_transient() => {}
                Err(error) => {
                    self.has_ended = true;
                    return Err(error);
                }
            }
        }
    }
}
