//! The event stream: server-sent events that can be resumed.
//!
//! A stream begins *now*, with a snapshot, or after an event that the caller names. Where the events in between are not
//! kept any more, or belong to another process of this node, the caller is told (`lagged`) and gets a snapshot instead:
//! whoever applies what arrives always has the right view.
//!
//! Invariants:
//! - At most so many streams are open as the table of connections has places for; a slow reader costs its own events
//!   only.
//! - A stream holds a position, one frame that is shared with the others, and at most one page of a snapshot: it has no
//!   queue of its own. A reader that takes nothing is cut off after [`SILENCE_TIMEOUT`](super::SILENCE_TIMEOUT).
//! - Every event that carries an `id:` can be resumed after; the header `Last-Event-ID` of the answer says where a
//!   stream starts, so that one without any event can be resumed as well.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use super::frames::{COMMENT, frame, head};
use super::listing::{Listing, Pages, Revoked, SMALL_VIEW, Selection};
use super::problem::Refusal;
use super::query::Pairs;
use super::table::{Hold, Kind, Line};
use super::{App, COMMENT_INTERVAL, PROBE_INTERVAL};
use crate::agent::{Filter, Inbox, KEPT_EVENTS, Message, ReceiveError, RecvError, Subscription};
use crate::core::{NodeId, Run};
use crate::event::EventKind;
use crate::json::{self, EventId};

/// The header that says after which event a stream starts.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Tells reverse proxies not to hold events back.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

pub(super) async fn events(
    State(app): State<App>,
    Extension(line): Extension<Arc<Line>>,
    headers: HeaderMap,
    query: Pairs,
) -> Result<Response, Refusal> {
    query.only(&["after", "kind", "node", "snapshot", "topic"])?;
    let nodes = query.nodes("node")?;
    let kinds = query.words("kind", &KINDS)?;
    let events: Vec<&'static str> = kinds.iter().copied().filter(|kind| *kind != MESSAGE).collect();
    let inbox = if events.len() < kinds.len() { Some(listen(&app, &query)?) } else { None };
    if inbox.is_none() && query.last("topic").is_some() {
        return Err(Refusal::query("topics are those of messages").hint("ask for them: kind=message"));
    }
    let wants_events = kinds.is_empty() || !events.is_empty();
    let filter = filter(&events, &nodes)?;
    let start = start(&headers, &query)?;
    let hold = app.table.enter(&line, Kind::Stream);
    let hold = hold.ok_or_else(|| Refusal::too_many_streams(app.table.limits().streams))?;
    let mut feed = Feed::open(app, line, hold, filter, nodes, &start).await;
    (feed.inbox, feed.wants_events) = (inbox, wants_events);
    let start = EventId { run: feed.run, sequence: feed.subscription.position() };
    let frames = stream::unfold(Some(feed), |feed| async move {
        let mut feed = feed?;
        let frame = feed.next().await?;
        // After an error there is nothing more to say.
        let next = frame.is_ok().then_some(feed);
        Some((frame, next))
    });
    let mut response = Body::from_stream(frames).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    if let Ok(id) = HeaderValue::from_str(&start.to_string()) {
        headers.insert(LAST_EVENT_ID, id);
    }
    Ok(response)
}

/// The kind of event that a message is.
const MESSAGE: &str = "message";

/// All kinds that can be asked for.
const KINDS: [&str; EventKind::NAMES.len() + 1] = {
    let mut kinds = [MESSAGE; EventKind::NAMES.len() + 1];
    let mut at = 0;
    while at < EventKind::NAMES.len() {
        kinds[at] = EventKind::NAMES[at];
        at += 1;
    }
    kinds
};

/// A listener to the topics of the query; to all, if it names none.
fn listen(app: &App, query: &Pairs) -> Result<Inbox, Refusal> {
    let topics: Vec<&str> = query.items("topic").collect();
    app.agent.listen(topics).map_err(|error| Refusal::query(error.to_string()))
}

/// The next message; never, if none were asked for.
async fn next_message(inbox: Option<&mut Inbox>) -> Result<Message, ReceiveError> {
    match inbox {
        Some(inbox) => inbox.recv().await,
        None => std::future::pending().await,
    }
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
    line: Arc<Line>,
    run: Run,
    filter: Filter,
    /// Whom snapshots are about; all, if empty.
    nodes: Vec<NodeId>,
    subscription: Subscription,
    /// Messages, if they were asked for.
    inbox: Option<Inbox>,
    /// Whether anything but messages was.
    wants_events: bool,
    /// Said before anything else …
    lagged: Option<Bytes>,
    /// … and this before the next event.
    snapshot: Option<Pages>,
    _hold: Hold,
}

impl Feed {
    async fn open(app: App, line: Arc<Line>, hold: Hold, filter: Filter, nodes: Vec<NodeId>, start: &Start) -> Self {
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
        let subscription = subscription.filtered(filter.clone());
        let mut feed = Self {
            app,
            line,
            run,
            filter,
            nodes,
            subscription,
            inbox: None,
            wants_events: true,
            lagged: None,
            snapshot: None,
            _hold: hold,
        };
        if let Some(missed) = gap {
            feed.lagged = Some(frame("lagged", None, &json::Lagged { missed }));
        }
        if gap.is_some() || *start == Start::Snapshot {
            feed.start_again().await;
        }
        feed
    }

    /// The next bytes; `None` at the end.
    async fn next(&mut self) -> Option<Result<Bytes, Revoked>> {
        loop {
            if let Some(lagged) = self.lagged.take() {
                return Some(Ok(lagged));
            }
            if let Some(page) = self.snapshot.as_mut().and_then(Iterator::next) {
                return Some(page);
            }
            self.snapshot = None;
            // A peer that will send nothing more may have hung up: bytes on their way to it find that out.
            let has_ended = self.line.has_ended();
            let silence = if has_ended { PROBE_INTERVAL } else { COMMENT_INTERVAL };
            let received = tokio::select! {
                // What has happened is said before the server stops, the node's own departure above all.
                biased;
                received = self.subscription.recv(), if self.wants_events => received,
                message = next_message(self.inbox.as_mut()) => match message {
                    Ok(message) if self.nodes.is_empty() || self.nodes.contains(&message.from) => {
                        return Some(Ok(frame(MESSAGE, None, &json::Message::from(&message))));
                    }
                    Ok(_) => continue,
                    Err(ReceiveError::Lagged { missed }) => {
                        return Some(Ok(frame("lagged", None, &json::Missed::new(missed))));
                    }
                    Err(_) => return None,
                },
                () = self.app.shutdown.cancelled() => return None,
                () = self.line.ended(), if !has_ended => return Some(Ok(COMMENT)),
                () = tokio::time::sleep(silence) => return Some(Ok(COMMENT)),
            };
            match received {
                Ok(event) => return Some(Ok(self.app.frames.of(&event))),
                Err(RecvError::Lagged { missed }) => {
                    self.lagged = Some(frame("lagged", None, &json::Lagged { missed: Some(missed) }));
                    self.start_again().await;
                }
                Err(_) => return None,
            }
        }
    }

    /// Says the members as they are, or were a moment ago, and goes on from there.
    async fn start_again(&mut self) {
        let agent = &self.app.agent;
        let (listing, subscription) = if agent.info().members.iter().sum::<usize>() <= SMALL_VIEW {
            let (snapshot, subscription) = agent.subscribe_from_snapshot();
            (Arc::new(Listing::new(snapshot, 0)), subscription)
        } else {
            loop {
                // What came after it has to be kept, and to stay so until it is read.
                let oldest = agent.subscribe().position().saturating_sub(KEPT_EVENTS as u64 / 2);
                let listing = self.app.listings.get(oldest).await;
                if let Ok(subscription) = agent.subscribe_after(listing.sequence) {
                    break (listing, subscription);
                }
            }
        };
        self.subscription = subscription.filtered(self.filter.clone());
        let id = EventId { run: self.run, sequence: listing.sequence }.to_string();
        let selection = Selection { nodes: self.nodes.clone(), ..Selection::default() };
        let head = format!("{}{{\"id\":\"{id}\",\"members\":", head("snapshot", Some(&id)));
        self.snapshot = Some(listing.pages(selection, &head, "}\n\n"));
    }
}
