//! The event stream: server-sent events that can be resumed.
//!
//! A stream begins *now*, with a snapshot, or after an event that the caller names. Where the events in between are not
//! kept any more, or belong to another process of this node, the caller is told (`lagged`) and gets a snapshot instead:
//! whoever applies what arrives always has the right view.
//!
//! Invariants:
//! - At most [`MAX_EVENT_STREAMS`](super::MAX_EVENT_STREAMS) streams are open; a slow reader costs its own events only.
//! - Every event that carries an `id:` can be resumed after; the header `Last-Event-ID` of the answer says where a
//!   stream starts, so that one without any event can be resumed as well.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::sse::{Event as Frame, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;

use super::problem::Refusal;
use super::query::Pairs;
use super::{App, COMMENT_INTERVAL, MAX_EVENT_STREAMS};
use crate::agent::{Filter, RecvError, Subscription};
use crate::core::{NodeId, Run, Status};
use crate::event::EventKind;
use crate::json::{self, EventId};

/// The header that says after which event a stream starts.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Tells reverse proxies not to hold events back.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

pub(super) async fn events(State(app): State<App>, headers: HeaderMap, query: Pairs) -> Result<Response, Refusal> {
    query.only(&["after", "kind", "node", "snapshot"])?;
    let nodes = query.nodes("node")?;
    let filter = filter(&query.words("kind", &EventKind::NAMES)?, &nodes)?;
    let start = start(&headers, &query)?;
    let slot = Arc::clone(&app.streams).try_acquire_owned();
    let slot = slot.map_err(|_| Refusal::too_many_streams(MAX_EVENT_STREAMS))?;
    let (feed, start) = Feed::open(app, filter, nodes, &start, slot);
    let mut response =
        Sse::new(Frames::new(feed)).keep_alive(KeepAlive::new().interval(COMMENT_INTERVAL)).into_response();
    let headers = response.headers_mut();
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    if let Ok(id) = HeaderValue::from_str(&start.to_string()) {
        headers.insert(LAST_EVENT_ID, id);
    }
    Ok(response)
}

/// Where a stream begins.
#[derive(Debug, PartialEq, Eq)]
enum Start {
    Now,
    Snapshot,
    After(EventId),
    /// After an event of which nothing is known.
    AfterUnknown,
}

fn start(headers: &HeaderMap, query: &Pairs) -> Result<Start, Refusal> {
    let snapshot = query.flag("snapshot")?;
    if let Some(id) = headers.get(LAST_EVENT_ID).filter(|id| !id.is_empty()) {
        // A browser sends back what it once received; refusing it would make it give up for good.
        let id = id.to_str().ok().and_then(|id| id.parse().ok());
        return Ok(id.map_or(Start::AfterUnknown, Start::After));
    }
    match query.last("after") {
        Some(id) => match id.parse() {
            Ok(id) => Ok(Start::After(id)),
            Err(error) => Err(Refusal::query(format!("after=\"{}\": {error}", id.escape_debug()))),
        },
        None if snapshot => Ok(Start::Snapshot),
        None => Ok(Start::Now),
    }
}

/// What the query asks for; empty lists ask for all.
fn filter(kinds: &[&'static str], nodes: &[NodeId]) -> Result<Filter, Refusal> {
    let mut filter = Filter::all();
    if !kinds.is_empty() {
        filter = filter.kinds(kinds).map_err(|error| Refusal::query(error.to_string()))?;
    }
    if !nodes.is_empty() {
        filter = filter.nodes(nodes.iter().cloned());
    }
    Ok(filter)
}

/// One caller's stream.
struct Feed {
    app: App,
    run: Run,
    subscription: Subscription,
    /// Whom snapshots are about; all, if empty.
    nodes: Vec<NodeId>,
    /// Said before the next event.
    ahead: VecDeque<Frame>,
    _slot: OwnedSemaphorePermit,
}

impl Feed {
    /// A feed and the event after which it starts.
    fn open(
        app: App,
        filter: Filter,
        nodes: Vec<NodeId>,
        start: &Start,
        slot: OwnedSemaphorePermit,
    ) -> (Self, EventId) {
        let run = app.agent.run();
        let resumed = match start {
            Start::After(id) if id.run == run => app.agent.subscribe_after(id.sequence).map_err(Some),
            Start::After(_) | Start::AfterUnknown => Err(None),
            Start::Now | Start::Snapshot => Ok(app.agent.subscribe()),
        };
        let (subscription, gap) = match resumed {
            Ok(subscription) => (subscription, None),
            // Zero: that many is not what was missed, the number is not of this run's.
            Err(lagged) => {
                (app.agent.subscribe(), Some(lagged.map(|lagged| lagged.missed).filter(|missed| *missed > 0)))
            }
        };
        let subscription = subscription.filtered(filter);
        let sequence = subscription.position();
        let mut feed = Self { app, run, subscription, nodes, ahead: VecDeque::new(), _slot: slot };
        if let Some(missed) = gap {
            feed.say("lagged", None, &json::Lagged { missed });
        }
        if gap.is_some() || *start == Start::Snapshot {
            feed.say_snapshot();
        }
        (feed, EventId { run, sequence })
    }

    /// What is said next; `None` at the end.
    async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.ahead.pop_front() {
                return Some(frame);
            }
            let received = tokio::select! {
                // What has happened is said before the server stops, the node's own departure above all.
                biased;
                received = self.subscription.recv() => received,
                () = self.app.shutdown.cancelled() => return None,
            };
            match received {
                Ok(event) => {
                    let event = json::Event::new(self.run, &event);
                    self.say(&event.event, Some(&event.id), &event);
                }
                Err(RecvError::Lagged { missed }) => {
                    self.say("lagged", None, &json::Lagged { missed: Some(missed) });
                    self.say_snapshot();
                }
                Err(_) => return None,
            }
        }
    }

    /// The members as they are; the stream goes on from there.
    fn say_snapshot(&mut self) {
        let snapshot = self.subscription.resync();
        let id = EventId { run: self.run, sequence: snapshot.sequence };
        let listed = |member: &&crate::Member| {
            !matches!(member.status, Status::Left(_)) && (self.nodes.is_empty() || self.nodes.contains(&member.id))
        };
        let members = snapshot.members.iter().filter(listed).map(json::Member::from).collect();
        let snapshot = json::Snapshot::new(id, members);
        self.say("snapshot", Some(&snapshot.id), &snapshot);
    }

    fn say(&mut self, event: &str, id: Option<&str>, data: &impl Serialize) {
        let mut frame = Frame::default();
        if let Some(id) = id {
            frame = frame.id(id);
        }
        // These shapes have nothing that could fail to be written, see the tests of `json`.
        let data = serde_json::to_string(data).unwrap_or_default();
        self.ahead.push_back(frame.event(event).data(data));
    }
}

type Step = Pin<Box<dyn Future<Output = (Feed, Option<Frame>)> + Send>>;

/// A [`Feed`] as a stream: polls its next step until there is none. When the caller hangs up, all of it is dropped.
struct Frames(Option<Step>);

impl Frames {
    fn new(feed: Feed) -> Self {
        Self(Some(Self::step(feed)))
    }

    fn step(mut feed: Feed) -> Step {
        Box::pin(async move {
            let frame = feed.next().await;
            (feed, frame)
        })
    }
}

impl Stream for Frames {
    type Item = Result<Frame, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(step) = self.0.as_mut() else { return Poll::Ready(None) };
        let (feed, frame) = ready!(step.as_mut().poll(cx));
        self.0 = frame.is_some().then(|| Self::step(feed));
        Poll::Ready(frame.map(Ok))
    }
}
