//! The event stream: server-sent events that can be resumed.
//!
//! A stream begins *now*, with a snapshot, or after an event that the caller names. If the events in between are no
//! longer kept, or belong to another run of this node, the caller is told (`lagged`) and gets a snapshot instead: a
//! caller that applies everything it receives always has the right view.
//!
//! Invariants:
//! - The number of open streams is limited by the table of connections; a slow reader loses its own events only.
//! - A stream holds a position, one frame that is shared with the others, and at most one page of a snapshot: it has no
//!   queue of its own. A message's frame counts for each reader until it was sent to it. A reader that takes no
//!   bytes is cut off after [`SILENCE_TIMEOUT`](super::SILENCE_TIMEOUT).
//! - A stream ends when the tokens are replaced: its reader comes back with a good one, or does not.
//! - A stream can be resumed after every event that carries an `id:`; the header `Last-Event-ID` of the answer names
//!   the event after which a stream starts, so that a stream without any event can be resumed as well.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use super::App;
use super::frames::{COMMENT, MESSAGE, frame, head};
use super::guard::JudgedBy;
use super::head::LAST_EVENT_ID;
use super::held::held;
use super::limits::{COMMENT_INTERVAL, PROBE_INTERVAL};
use super::listing::{Pages, Revoked, Selection};
use super::problem::Refusal;
use super::query::Pairs;
use super::reference::Access;
use super::table::{ConnectionState, Hold, Kind, Unread};
use crate::agent::{Filter, Inbox, Message, Reader, ReceiveError, RecvError, Subscription};
use crate::core::{NodeId, Run};
use crate::event::EventKind;
use crate::json::{self, EventId};
use crate::lease::LeaseName;

/// A header that tells reverse proxies not to buffer events.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

pub(super) async fn events(
    State(app): State<App>,
    Extension(line): Extension<Arc<ConnectionState>>,
    Extension(judged_by): Extension<JudgedBy>,
    Extension(access): Extension<Access>,
    headers: HeaderMap,
    query: Pairs,
) -> Result<Response, Refusal> {
    query.only(&["after", "kind", "node", "snapshot", "topic", "lease"])?;
    query.no_empty("topic")?;
    let nodes = query.nodes("node")?;
    let kinds = query.words("kind", &KINDS)?;
    let events: Vec<&'static str> = kinds.iter().copied().filter(|kind| *kind != MESSAGE).collect();
    let wants_messages = events.len() < kinds.len();
    if wants_messages && access == Access::Read {
        let detail = "the token presented may look, and not read what programs tell each other";
        return Err(Refusal::read_only(detail));
    }
    let inbox = if wants_messages { Some(listen(&app, &query)?) } else { None };
    if inbox.is_none() && query.last("topic").is_some() {
        return Err(Refusal::query("topics are those of messages").hint("ask for them: kind=message"));
    }
    let wants_events = kinds.is_empty() || !events.is_empty();
    let filter = filter(&events, &nodes, &query.leases("lease")?)?;
    let start = start(&headers, &query)?;
    let hold = app.table.enter(&line, Kind::Stream);
    let hold = hold.ok_or_else(|| Refusal::too_many_streams(app.table.limits().streams()))?;
    let mut feed = Feed::open(app, line, hold, judged_by, filter, nodes.into(), &start).await;
    (feed.inbox, feed.wants_events) = (inbox, wants_events);
    let start = EventId { run: feed.run, sequence: feed.subscription.position() };
    let frames = stream::unfold(Some(feed), |feed| async move {
        let mut feed = feed?;
        let frame = feed.next().await?;
        // An error ends the stream.
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

/// All kinds that a query may name.
const KINDS: [&str; EventKind::NAMES.len() + 1] = {
    let mut kinds = [MESSAGE; EventKind::NAMES.len() + 1];
    let mut at = 0;
    while at < EventKind::NAMES.len() {
        kinds[at] = EventKind::NAMES[at];
        at += 1;
    }
    kinds
};

/// Listens to the topics of the query; to all, if it names none.
fn listen(app: &App, query: &Pairs) -> Result<Inbox, Refusal> {
    let topics: Vec<&str> = query.items("topic").collect();
    app.agent.listen(topics).map_err(|error| Refusal::query(error.to_string()))
}

/// Waits for the next message; for ever, if no messages were asked for.
async fn next_message(inbox: Option<&mut Inbox>) -> Result<Message, ReceiveError> {
    match inbox {
        Some(inbox) => inbox.recv().await,
        None => std::future::pending().await,
    }
}

/// The position at which a stream begins.
#[derive(Debug, PartialEq, Eq)]
enum Start {
    Now,
    Snapshot,
    After(EventId),
    /// After an event with an id that cannot be parsed.
    AfterUnknown,
}

fn start(headers: &HeaderMap, query: &Pairs) -> Result<Start, Refusal> {
    let snapshot = query.flag("snapshot")?;
    if let Some(id) = headers.get(LAST_EVENT_ID).filter(|id| !id.is_empty()) {
        // A browser sends back the id that it once received; a refusal would make it give up for good.
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

/// Returns the filter that the query describes; empty lists admit everything.
fn filter(kinds: &[&'static str], nodes: &[NodeId], leases: &[LeaseName]) -> Result<Filter, Refusal> {
    let mut filter = Filter::all();
    if !kinds.is_empty() {
        filter = filter.kinds(kinds).map_err(|error| Refusal::query(error.to_string()))?;
    }
    if !nodes.is_empty() {
        filter = filter.nodes(nodes.iter().cloned());
    }
    if !leases.is_empty() {
        filter = filter.leases(leases.iter().cloned());
    }
    Ok(filter)
}

/// The stream of one caller.
struct Feed {
    app: App,
    line: Arc<ConnectionState>,
    run: Run,
    filter: Filter,
    /// The nodes to include in snapshots; all, if empty.
    nodes: Arc<[NodeId]>,
    subscription: Subscription,
    /// The listener to messages, if they were asked for.
    inbox: Option<Inbox>,
    /// True if anything but messages was asked for.
    wants_events: bool,
    /// The report of missed events, sent before anything else.
    lagged: Option<Bytes>,
    /// The rest of a snapshot, sent before the next event.
    snapshot: Option<Pages>,
    judged_by: JudgedBy,
    _hold: Hold,
}

impl Feed {
    async fn open(
        app: App,
        line: Arc<ConnectionState>,
        hold: Hold,
        judged_by: JudgedBy,
        filter: Filter,
        nodes: Arc<[NodeId]>,
        start: &Start,
    ) -> Self {
        let run = app.agent.run();
        let resumed = match start {
            Start::After(id) if id.run == run => app.agent.subscribe_after(id.sequence).map_err(Some),
            Start::After(_) | Start::AfterUnknown => Err(None),
            Start::Now | Start::Snapshot => Ok(app.agent.subscribe()),
        };
        let (subscription, gap) = match resumed {
            Ok(subscription) => (subscription, None),
            // Zero: the sequence is not one of this run's, so that the number of missed events is unknown.
            Err(lagged) => {
                (app.agent.subscribe(), Some(lagged.map(|lagged| lagged.missed).filter(|missed| *missed > 0)))
            }
        };
        let subscription = subscription.filtered(filter.clone()).read_by(Reader::Http);
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
            judged_by,
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

    /// Returns the next bytes of the stream; `None` at its end.
    async fn next(&mut self) -> Option<Result<Bytes, Revoked>> {
        loop {
            if self.judged_by.0.has_changed().unwrap_or(true) {
                return None;
            }
            if let Some(lagged) = self.lagged.take() {
                return Some(Ok(lagged));
            }
            if let Some(page) = self.snapshot.as_mut().and_then(Iterator::next) {
                return Some(page);
            }
            self.snapshot = None;
            // A peer that will send nothing more may have hung up: sending bytes to it shows whether it did.
            let has_ended = self.line.has_ended();
            let silence = if has_ended { PROBE_INTERVAL } else { COMMENT_INTERVAL };
            let received = tokio::select! {
                // Events come first, so that they are still sent before the server stops: above all the node's own
                // departure.
                biased;
                received = self.subscription.recv(), if self.wants_events => received,
                message = next_message(self.inbox.as_mut()) => match message {
                    Ok(message) if self.nodes.is_empty() || self.nodes.contains(&message.from) => {
                        let frame = self.app.frames.of_message(&message);
                        let weight = self.app.table.weigh(&self.line, Unread::Message, frame.len());
                        return Some(Ok(held(frame, weight)));
                    }
                    Ok(_) => continue,
                    Err(ReceiveError::Lagged { missed }) => {
                        return Some(Ok(frame("lagged", None, &json::Missed::new(missed))));
                    }
                    Err(_) => return None,
                },
                () = self.app.shutdown.cancelled() => return None,
                _ = self.judged_by.0.changed() => return None,
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

    /// Sends the members as they are, or were a moment ago, and goes on with the events after that.
    async fn start_again(&mut self) {
        let agent = &self.app.agent;
        // Shared with the others that begin at about the same moment, in small views, too: there may be a thousand of them.
        let (listing, subscription) = loop {
            // The events after the listing have to be kept, and must still be kept when it has been read.
            let oldest = agent.subscribe().middle();
            let listing = self.app.listings.get(oldest).await;
            if let Ok(subscription) = agent.subscribe_after(listing.sequence) {
                break (listing, subscription);
            }
        };
        self.subscription = subscription.filtered(self.filter.clone()).read_by(Reader::Http);
        let id = EventId { run: self.run, sequence: listing.sequence }.to_string();
        let selection = Selection { nodes: Arc::clone(&self.nodes), ..Selection::default() };
        let head = format!("{}{{\"id\":\"{id}\",\"members\":", head("snapshot", Some(&id)));
        self.snapshot = Some(listing.pages(selection, &head, "}\n\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Shared;
    use super::*;

    #[tokio::test]
    async fn a_message_is_counted_until_its_last_byte_is_sent() {
        let config = crate::Config::new("a").expect("a name").with_profile(crate::Profile::Local);
        let config = config.with_bind("127.0.0.1:0".parse().expect("an address"));
        let agent = crate::Agent::start(config).await.expect("started");
        agent.wait_until_up().await.expect("up");
        let app = App::new(Shared::of(agent.clone()));
        let seat = app.table.admit().await.expect("a place");
        let hold = app.table.enter(&seat.line, Kind::Stream).expect("a place");
        let (line, judged_by) = (Arc::clone(&seat.line), JudgedBy(app.tokens.watch()));
        let mut feed =
            Feed::open(Arc::clone(&app), line, hold, judged_by, Filter::all(), Arc::default(), &Start::Now).await;
        feed.inbox = Some(agent.listen(["t"]).expect("a topic"));
        feed.wants_events = false;
        let mut unsent = Vec::new();
        for bytes in [60_000, 1_000] {
            agent.broadcast("t", &vec![0; bytes]).await.expect("said");
            let frame = feed.next().await.expect("open").expect("a frame");
            assert!(frame.len() > bytes, "its payload is in it");
            unsent.push(frame);
        }
        assert_eq!(app.table.unread(Unread::Message), unsent[0].len() + unsent[1].len());
        let last = unsent[0].split_off(60_000);
        unsent.remove(0);
        assert_eq!(app.table.unread(Unread::Message), last.len() + 60_000 + unsent[0].len(), "its end is not sent yet");
        drop(last);
        assert_eq!(app.table.unread(Unread::Message), unsent[0].len());
        drop((unsent, feed));
        assert_eq!(app.table.unread(Unread::Message), 0);
        agent.leave().await;
    }
}
