//! The task of one handler: takes events, lets them wait, runs them.
//!
//! Invariant: it is always ready to take the next event, so that what is dropped is dropped here, by the rules of the
//! queue.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Context;
use super::event::Notice;
use super::figures::Counters;
use super::queue::{Job, MAX_QUEUED_EVENTS, Queue, Subject};
use super::quiet::Quiet;
use super::webhook::Webhook;
use crate::agent::{Filter, Inbox, Message, ReceiveError, RecvError, Subscription};
use crate::config::{HandlerAction, HandlerConfig, MESSAGE};
use crate::core::Run;

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

    async fn run(self: Arc<Self>, job: Job<Notice>) -> Done {
        let Job { what: notice, missed, .. } = job;
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
struct Log<'a> {
    name: &'a str,
    failures: Quiet,
    missed: Quiet,
}

impl Log<'_> {
    fn failed(&mut self, why: &str) {
        let name = self.name;
        match self.failures.may_say(1) {
            Some(0) => tracing::warn!("handler {name} failed at {why}"),
            Some(more) => {
                tracing::warn!("handler {name} failed at {why} (and {more} times before that were not logged)");
            }
            None => {}
        }
    }

    fn missed(&mut self, events: u64) {
        let Some(before) = self.missed.may_say(events) else { return };
        let (name, events) = (self.name, events + before);
        tracing::warn!(
            "handler {name} is too slow and misses events: {events} were dropped, since {MAX_QUEUED_EVENTS} wait; \
             make it faster, raise its concurrency, or narrow its kinds"
        );
    }
}

/// Runs a handler until there are no more events, or it is retired.
pub(super) async fn run(
    handler: Arc<Handler>,
    subscription: Subscription,
    mut inbox: Option<Inbox>,
    retire: CancellationToken,
) {
    let mut events = handler.config.wants_events().then(|| subscription.filtered(handler.filter()));
    let mut queue = Queue::new(handler.config.concurrency);
    let (mut runs, mut subjects) = (JoinSet::new(), HashMap::<Id, Subject>::new());
    let mut log = Log { name: &handler.config.name, failures: Quiet::default(), missed: Quiet::default() };
    let mut has_ended = false;
    loop {
        while let Some(job) = queue.next() {
            let subject = job.subject.clone();
            subjects.insert(runs.spawn(Arc::clone(&handler).run(job)).id(), subject);
        }
        handler.counters.set_load(queue.waiting(), queue.running());
        if events.is_none() && inbox.is_none() && runs.is_empty() {
            return;
        }
        tokio::select! {
            Some(done) = runs.join_next_with_id() => {
                let id = match &done {
                    Ok((id, _)) => *id,
                    Err(died) => died.id(),
                };
                // Also after a bug of ours: what is about the same node would wait for ever.
                queue.done(&subjects.remove(&id).flatten());
                let Ok((_, Done { missed, result })) = done else { continue };
                if let Err(why) = result {
                    queue.miss(missed);
                    log.failed(&why);
                }
            }
            event = next(&mut events) => match event {
                Ok(event) if handler.has_tags(&event) => {
                    take(&handler, &mut queue, &mut log, Notice::of_event(handler.run, &event));
                }
                Ok(_) => {}
                Err(RecvError::Lagged { missed }) => lose(&handler, &mut queue, &mut log, missed),
                Err(RecvError::Closed) => events = None,
            },
            message = next_message(&mut inbox) => match message {
                Ok(message) if handler.wants(&message) => {
                    take(&handler, &mut queue, &mut log, Notice::of_message(&message));
                }
                Ok(_) | Err(ReceiveError::Undecodable { .. }) => {}
                Err(ReceiveError::Lagged { missed }) => lose(&handler, &mut queue, &mut log, missed),
                Err(_) => inbox = None,
            },
            () = retire.cancelled(), if events.is_some() || inbox.is_some() => (events, inbox) = (None, None),
            () = handler.end.cancelled(), if !has_ended => {
                has_ended = true;
                (events, inbox) = (None, None);
                let dropped = queue.clear();
                if dropped > 0 {
                    handler.counters.missed(dropped);
                    let name = &handler.config.name;
                    tracing::warn!("handler {name} has not handled {dropped} events before the agent ended");
                }
            }
        }
    }
}

fn take(handler: &Handler, queue: &mut Queue<Notice>, log: &mut Log<'_>, notice: serde_json::Result<Notice>) {
    // Everything that an event is made of can be written.
    let Ok(notice) = notice else { return lose(handler, queue, log, 1) };
    let dropped = queue.push(notice.node.clone(), notice.bytes(), notice);
    if dropped > 0 {
        handler.counters.missed(dropped);
        log.missed(dropped);
    }
}

/// Notes events that nobody here saw.
fn lose(handler: &Handler, queue: &mut Queue<Notice>, log: &mut Log<'_>, missed: u64) {
    queue.miss(missed);
    handler.counters.missed(missed);
    log.missed(missed);
}

async fn next(events: &mut Option<Subscription>) -> Result<crate::Event, RecvError> {
    match events {
        Some(events) => events.recv().await,
        None => std::future::pending().await,
    }
}

async fn next_message(inbox: &mut Option<Inbox>) -> Result<Message, ReceiveError> {
    match inbox {
        Some(inbox) => inbox.recv().await,
        None => std::future::pending().await,
    }
}
