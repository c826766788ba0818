//! The task of one handler: takes events, lets them wait, runs them; and takes up another configuration of it.
//!
//! Invariants:
//! - It is always ready to take the next event, so that what is dropped is dropped here, by the rules of the queue.
//! - Events from before a change are filtered and handled as it was configured then, later ones as it is now; in one
//!   queue, so that events about one node stay in order.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Context;
use super::event::Notice;
use super::figures::Counters;
use super::queue::{Job, MAX_QUEUED_EVENTS, Queue, Subject};
use super::webhook::Webhook;
use crate::agent::{Agent, Filter, Inbox, Message, Reader, ReceiveError, RecvError, Subscription};
use crate::config::{HandlerAction, HandlerConfig, MESSAGE};
use crate::core::Run;
use crate::quiet::Quiet;

/// The shortest time between two lines of one kind about one handler.
const PAUSE: Duration = Duration::from_secs(10);

/// One handler.
#[derive(Debug)]
pub(super) struct Handler {
    config: HandlerConfig,
    action: Action,
    context: Context,
    run: Run,
    counters: Arc<Counters>,
    /// Ends runs under way, and drops what waits.
    end: CancellationToken,
}

#[derive(Debug)]
enum Action {
    Command(Vec<String>),
    Webhook(Webhook),
}

/// A run that has ended.
struct Done {
    missed: u64,
    result: Result<(), String>,
}

impl Handler {
    pub(super) fn new(
        config: HandlerConfig,
        context: Context,
        run: Run,
        counters: Arc<Counters>,
        end: CancellationToken,
    ) -> Self {
        let action = match &config.action {
            HandlerAction::Command(words) => Action::Command(words.clone()),
            HandlerAction::Webhook { url, token_file, retry_for } => {
                Action::Webhook(Webhook::new(url.clone(), token_file.clone(), *retry_for))
            }
        };
        Self { config, action, context, run, counters, end }
    }

    /// Returns the filter of events, by kind and node. Tags are looked at later.
    fn filter(&self) -> Filter {
        let mut filter = Filter::all();
        if !self.config.kinds.is_empty() {
            let kinds = self.config.kinds.iter().filter(|kind| *kind != MESSAGE);
            // Kinds were checked with the configuration.
            filter = filter.kinds(kinds).unwrap_or_default();
        }
        if !self.config.nodes.is_empty() {
            filter = filter.nodes(self.config.nodes.iter().cloned());
        }
        filter
    }

    /// Returns true if the member that an event is about bears all tags asked for.
    fn has_tags(&self, event: &crate::Event) -> bool {
        let tags = &self.config.tags;
        let bears =
            |member: &crate::Member| tags.iter().all(|(key, value)| member.tags.get(key) == Some(value.as_str()));
        tags.is_empty() || event.kind.member().is_some_and(bears)
    }

    fn wants(&self, message: &Message) -> bool {
        self.config.tags.is_empty() && (self.config.nodes.is_empty() || self.config.nodes.contains(&message.from))
    }

    async fn run(self: Arc<Self>, notice: Notice, missed: u64) -> Done {
        let began = Instant::now();
        let limit = self.config.timeout;
        let result = match &self.action {
            #[cfg(unix)]
            Action::Command(words) => {
                super::command::run(words, &notice, missed, &self.context, limit, &self.end).await
            }
            #[cfg(not(unix))]
            Action::Command(_) => Err("commands are run on Unix systems only: use a url".to_owned()),
            Action::Webhook(webhook) => {
                webhook.run(&notice, missed, &self.context, limit, &self.counters, &self.end).await
            }
        };
        let result = result.map_err(|why| format!("{} {}: {why}", notice.kind, notice.id));
        self.counters.ended(began.elapsed(), result.is_err());
        Done { missed, result }
    }
}

/// The lines of the log about one handler.
#[derive(Default)]
struct Log {
    failures: Quiet,
    missed: Quiet,
}

impl Log {
    fn failed(&mut self, name: &str, why: &str) {
        match self.failures.take_turn(PAUSE, 1) {
            Some(0) => tracing::warn!("handler {name} failed at {why}"),
            Some(more) => {
                tracing::warn!("handler {name} failed at {why} ({more} before it not logged)");
            }
            None => {}
        }
    }

    fn missed(&mut self, name: &str, events: u64) {
        let Some(before) = self.missed.take_turn(PAUSE, events) else { return };
        let events = events + before;
        tracing::warn!(
            "handler {name} is too slow and misses events: {events} were dropped, since {MAX_QUEUED_EVENTS} wait; \
             make it faster, raise its concurrency, or narrow its kinds"
        );
    }
}

/// The sources of one handler's events.
#[derive(Debug)]
pub(super) struct Feed {
    agent: Agent,
    events: Option<Subscription>,
    inbox: Option<Inbox>,
}

/// An event, or a message.
enum Came {
    Event(Box<crate::Event>),
    Message(Box<Message>),
    /// The number of events or messages that were lost.
    Lost(u64),
}

impl Feed {
    /// Opens what a handler wants.
    pub(super) fn open(agent: Agent, handler: &Handler, from_the_start: bool) -> Self {
        let subscription = match agent.subscribe_after(0) {
            Ok(subscription) if from_the_start => subscription,
            _ => agent.subscribe(),
        };
        let mut feed = Self { agent, events: Some(subscription.read_by(Reader::Handler)), inbox: None };
        feed.adapt(handler, None);
        feed
    }

    /// Goes on with what another handler wants, without a gap in what both want.
    fn adapt(&mut self, handler: &Handler, before: Option<&Handler>) {
        let subscribe = || self.agent.subscribe().read_by(Reader::Handler);
        let events = self.events.take();
        let wanted = handler.config.wants_events();
        self.events = wanted.then(|| events.unwrap_or_else(subscribe).filtered(handler.filter()));
        let topics = |handler: &Handler| handler.config.wants_messages().then(|| handler.config.topics.clone());
        if topics(handler) != before.and_then(topics) {
            // Topics were checked with the configuration.
            self.inbox = topics(handler).and_then(|topics| self.agent.listen(topics.iter().map(String::as_str)).ok());
        }
    }

    /// Takes nothing more.
    fn close(&mut self) {
        (self.events, self.inbox) = (None, None);
    }

    fn is_open(&self) -> bool {
        self.events.is_some() || self.inbox.is_some()
    }

    /// Waits for what comes next; returns `None` when nothing can come any more.
    async fn next(&mut self) -> Option<Came> {
        while self.is_open() {
            let (events, inbox) = (&mut self.events, &mut self.inbox);
            let event = async {
                match events {
                    Some(events) => events.recv().await.map(Some),
                    None => std::future::pending().await,
                }
            };
            let message = async {
                match inbox {
                    Some(inbox) => inbox.recv().await.map(Some),
                    None => std::future::pending().await,
                }
            };
            let came = tokio::select! {
                event = event => self.event(event),
                message = message => self.message(message),
            };
            if came.is_some() {
                return came;
            }
        }
        None
    }

    /// Returns what has come already; `None` if that is all.
    fn next_now(&mut self) -> Option<Came> {
        while let Some(event) = self.events.as_mut().map(Subscription::try_recv) {
            if let Ok(None) = event {
                break;
            }
            if let Some(came) = self.event(event) {
                return Some(came);
            }
        }
        while let Some(message) = self.inbox.as_mut().map(Inbox::try_recv) {
            if let Ok(None) = message {
                break;
            }
            if let Some(came) = self.message(message) {
                return Some(came);
            }
        }
        None
    }

    fn event(&mut self, received: Result<Option<crate::Event>, RecvError>) -> Option<Came> {
        match received {
            Ok(event) => event.map(|event| Came::Event(Box::new(event))),
            Err(RecvError::Lagged { missed }) => Some(Came::Lost(missed)),
            Err(RecvError::Closed) => {
                self.events = None;
                None
            }
        }
    }

    fn message(&mut self, received: Result<Option<Message>, ReceiveError>) -> Option<Came> {
        match received {
            Ok(message) => message.map(|message| Came::Message(Box::new(message))),
            Err(ReceiveError::Lagged { missed }) => Some(Came::Lost(missed)),
            Err(ReceiveError::Undecodable { .. }) => None,
            Err(_) => {
                self.inbox = None;
                None
            }
        }
    }
}

/// An event that waits, with the handler that it came to.
type Waiting = (Arc<Handler>, Notice);

/// The task.
struct Task {
    handler: Arc<Handler>,
    queue: Queue<Waiting>,
    log: Log,
}

/// Runs a handler until there are no more events, or it is told to end; takes up orders meanwhile.
pub(super) async fn run(handler: Arc<Handler>, mut feed: Feed, mut orders: watch::Receiver<Option<Arc<Handler>>>) {
    let (mut runs, mut subjects) = (JoinSet::new(), HashMap::<Id, Subject>::new());
    let (queue, end) = (Queue::new(handler.config.concurrency), handler.end.clone());
    let mut task = Task { handler, queue, log: Log::default() };
    let mut has_ended = false;
    loop {
        while let Some(Job { subject, what: (handler, notice), missed }) = task.queue.next() {
            subjects.insert(runs.spawn(handler.run(notice, missed)).id(), subject);
        }
        task.show_load();
        if !feed.is_open() && runs.is_empty() {
            return;
        }
        tokio::select! {
            Some(done) = runs.join_next_with_id() => {
                let id = match &done {
                    Ok((id, _)) => *id,
                    Err(died) => died.id(),
                };
                // Also after a bug of ours: what is about the same node would wait for ever.
                task.queue.done(&subjects.remove(&id).flatten());
                let Ok((_, Done { missed, result })) = done else { continue };
                if let Err(why) = result {
                    task.queue.miss(missed);
                    task.log.failed(&task.handler.config.name, &why);
                }
            }
            came = feed.next(), if feed.is_open() => if let Some(came) = came {
                task.take(came);
            },
            Ok(()) = orders.changed(), if feed.is_open() => {
                while let Some(came) = feed.next_now() {
                    task.take(came);
                }
                match orders.borrow_and_update().clone() {
                    Some(newer) => {
                        feed.adapt(&newer, Some(&task.handler));
                        task.replace(newer);
                    }
                    None => feed.close(),
                }
            }
            () = end.cancelled(), if !has_ended => {
                has_ended = true;
                feed.close();
                task.give_up();
            }
        }
    }
}

impl Task {
    fn show_load(&self) {
        self.handler.counters.set_load(self.queue.waiting(), self.queue.running());
    }

    /// Goes on as another handler.
    fn replace(&mut self, newer: Arc<Handler>) {
        self.handler.counters.set_load(0, 0);
        self.queue.set_concurrency(newer.config.concurrency);
        self.handler = newer;
    }

    fn take(&mut self, came: Came) {
        let notice = match came {
            Came::Event(event) if self.handler.has_tags(&event) => Notice::of_event(self.handler.run, &event),
            Came::Message(message) if self.handler.wants(&message) => Notice::of_message(&message),
            Came::Event(_) | Came::Message(_) => return,
            Came::Lost(missed) => return self.lose(missed),
        };
        // Everything that an event is made of can be written.
        let Ok(notice) = notice else { return self.lose(1) };
        let (subject, bytes) = (notice.node.clone(), notice.bytes());
        let dropped = self.queue.push(subject, bytes, (Arc::clone(&self.handler), notice));
        if dropped > 0 {
            self.count_missed(dropped);
        }
    }

    /// Notes events that nobody here saw.
    fn lose(&mut self, missed: u64) {
        self.queue.miss(missed);
        self.count_missed(missed);
    }

    fn count_missed(&mut self, missed: u64) {
        self.handler.counters.missed(missed);
        self.log.missed(&self.handler.config.name, missed);
    }

    /// Drops what waits, at the end of the agent.
    fn give_up(&mut self) {
        let dropped = self.queue.clear();
        if dropped > 0 {
            self.handler.counters.missed(dropped);
            let name = &self.handler.config.name;
            tracing::warn!("handler {name} ended with events that it had not handled: {dropped}");
        }
    }
}
