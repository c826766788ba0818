//! The agent's journal: the messages to its operator, on their way to the tracing subscriber.
//!
//! Purpose: subscribers belong to the user, and may block for ever or panic. So lines travel through a [`LossyQueue`] to a
//! thread of their own, which alone calls the subscriber. Each line is in the span `headcount{agent=…}`, by which several
//! agents of one process, or the collected logs of many, are told apart.
//!
//! Invariants:
//! - No task of the agent calls the subscriber: writing a line neither waits nor fails.
//! - Lost lines are counted, and reported as soon as a line gets through.
//! - The subscriber is the one that was in force where the agent was started, otherwise the global one.
//!
//! Must not know: which messages are worth sending.

mod lossy;
mod words;

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::dispatcher::{self, Dispatch};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::NoSubscriber;
use tracing::{Level, Span, debug, error, error_span, info, warn};

pub(crate) use lossy::{Item, LossyQueue};

use crate::core::{NodeId, Notice};
use crate::event::Event;

/// The largest number of lines that wait for the subscriber: a view of some thousand members arriving at once.
pub(crate) const MAX_QUEUED_LINES: usize = 8_192;

/// The largest number of lines about members at once; further ones are lost, and counted. An attacker who invents
/// members by the thousand must not fill a disk with them. (Subscribers get every event.)
pub(crate) const MAX_EVENT_LINES: u32 = 2_000;

/// The number of further lines about members in each second after that: twenty seconds bring all of them back.
pub(crate) const EVENT_LINES_PER_SECOND: u32 = 100;

/// A handle to the journal. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Journal {
    lines: LossyQueue<Line>,
    pace: Arc<Mutex<RateLimit>>,
}

/// The time until which lines about members are spent; each one takes its share of a second.
#[derive(Debug)]
struct RateLimit {
    spent_until: Instant,
}

impl RateLimit {
    fn admits(&mut self, now: Instant) -> bool {
        let share = Duration::from_secs(1) / EVENT_LINES_PER_SECOND;
        let next = self.spent_until.max(now) + share;
        let is_admitted = next.duration_since(now) <= share * MAX_EVENT_LINES;
        if is_admitted {
            self.spent_until = next;
        }
        is_admitted
    }
}

/// Returns the span that every line of an agent's log is in: it bears the agent's name.
pub(crate) fn span(agent: &NodeId) -> Span {
    error_span!(target: "headcount", "headcount", %agent)
}

#[derive(Debug)]
enum Line {
    Event(Arc<Event>),
    Notice(Notice),
    Text(Level, String),
}

impl Journal {
    /// Starts the journal of one agent.
    pub(crate) fn start(agent: &NodeId) -> io::Result<Self> {
        let agent = agent.clone();
        let subscriber = dispatcher::get_default(Dispatch::clone);
        let write = move |line| {
            let write = || span(&agent).in_scope(|| write(line));
            // A subscriber that is set later counts, if there was none.
            if subscriber.is::<NoSubscriber>() {
                write();
            } else {
                dispatcher::with_default(&subscriber, write);
            }
            true
        };
        let pace = RateLimit { spent_until: Instant::now() };
        Ok(Self {
            lines: LossyQueue::start("headcount-log", MAX_QUEUED_LINES, write)?,
            pace: Arc::new(Mutex::new(pace)),
        })
    }

    /// Writes a line about an event.
    pub(crate) fn event(&self, event: &Arc<Event>) {
        if !is_wanted(words::level(&event.kind)) {
            return;
        }
        if self.pace.lock().unwrap_or_else(PoisonError::into_inner).admits(Instant::now()) {
            self.lines.push(Line::Event(Arc::clone(event)));
        } else {
            self.lines.lose();
        }
    }

    /// Writes a line about something that the core noticed.
    pub(crate) fn notice(&self, notice: Notice) {
        if is_wanted(Level::WARN) {
            self.lines.push(Line::Notice(notice));
        }
    }

    /// Writes a line of any other text.
    pub(crate) fn say(&self, level: Level, text: impl Into<String>) {
        if is_wanted(level) {
            self.lines.push(Line::Text(level, text.into()));
        }
    }

    /// Returns the number of lines lost so far.
    pub(crate) fn lost(&self) -> u64 {
        self.lines.lost()
    }

    /// Returns the number of lines that wait for the subscriber.
    pub(crate) fn queued(&self) -> usize {
        self.lines.queued()
    }

    /// Waits until the subscriber has seen all lines, for `within` at most.
    pub(crate) async fn flush(&self, within: Duration) {
        self.lines.flush(within).await;
    }
}

/// Returns true if any subscriber may want lines of this level. Calls none of them.
fn is_wanted(level: Level) -> bool {
    level <= LevelFilter::current()
}

fn write(line: Item<Line>) {
    match line {
        Item::One(Line::Event(event)) => words::log(&event.kind),
        Item::One(Line::Notice(notice)) => words::log_notice(&notice),
        Item::One(Line::Text(level, text)) => match level {
            Level::ERROR => error!("{text}"),
            Level::WARN => warn!("{text}"),
            Level::INFO => info!("{text}"),
            _ => debug!("{text}"),
        },
        Item::Lost(lines) => {
            warn!(
                lines,
                "{lines} log lines were lost: they could not be written, not fast enough, or were too many at once"
            );
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fmt::{self, Write as _};
    use std::sync::atomic::{AtomicBool, Ordering};

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event as TracingEvent, Metadata, Subscriber};

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    /// A subscriber that keeps the texts of lines and spans, and panics while it is told to.
    #[derive(Debug, Clone, Default)]
    pub(crate) struct Kept {
        lines: Arc<Mutex<Vec<String>>>,
        panics: Arc<AtomicBool>,
    }

    impl Kept {
        fn keep(&self, record: impl FnOnce(&mut Text)) {
            assert!(!self.panics.load(Ordering::SeqCst), "by the test");
            let mut text = Text(String::new());
            record(&mut text);
            self.lines.lock().expect("not poisoned").push(text.0);
        }

        pub(crate) fn all(&self) -> Vec<String> {
            self.lines.lock().expect("not poisoned").clone()
        }
    }

    struct Text(String);

    impl Visit for Text {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            let _ = write!(self.0, "{}={value:?};", field.name());
        }
    }

    impl Subscriber for Kept {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, span: &Attributes<'_>) -> Id {
            self.keep(|text| span.record(text));
            Id::from_u64(1)
        }
        fn event(&self, event: &TracingEvent<'_>) {
            self.keep(|text| event.record(text));
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[tokio::test]
    async fn each_line_says_which_agent_speaks() {
        let kept = Kept::default();
        let journal = dispatcher::with_default(&Dispatch::new(kept.clone()), || {
            Journal::start(&NodeId::new("me").expect("a name"))
        });
        let journal = journal.expect("a thread");
        journal.say(Level::INFO, "hello");
        journal.flush(LONG).await;
        assert_eq!(kept.all(), ["agent=me;", "message=hello;"]);
    }

    #[test]
    fn there_are_so_many_lines_about_members_at_once_and_a_few_in_each_second_after_that() {
        let now = Instant::now();
        let mut pace = RateLimit { spent_until: now };
        let admitted = |pace: &mut RateLimit, at: Instant| (0..2 * MAX_EVENT_LINES).filter(|_| pace.admits(at)).count();
        assert_eq!(admitted(&mut pace, now) as u32, MAX_EVENT_LINES);
        assert_eq!(admitted(&mut pace, now + Duration::from_millis(9)), 0);
        for second in 1..=60 {
            let later = admitted(&mut pace, now + Duration::from_secs(second)) as u32;
            assert_eq!(later, EVENT_LINES_PER_SECOND, "second {second}");
        }
        assert_eq!(admitted(&mut pace, now + Duration::from_secs(80)) as u32, MAX_EVENT_LINES);
    }

    #[tokio::test]
    async fn a_subscriber_that_panics_costs_lines_which_are_counted_and_told() {
        let kept = Kept::default();
        let journal = dispatcher::with_default(&Dispatch::new(kept.clone()), || {
            Journal::start(&NodeId::new("me").expect("a name"))
        });
        let journal = journal.expect("a thread");
        kept.panics.store(true, Ordering::SeqCst);
        journal.say(Level::WARN, "one");
        journal.say(Level::ERROR, "two");
        journal.flush(LONG).await;
        assert_eq!(journal.lost(), 2);
        kept.panics.store(false, Ordering::SeqCst);
        journal.say(Level::INFO, "three");
        journal.flush(LONG).await;
        let lines = kept.all();
        assert_eq!(lines[1], "message=three;", "{lines:?}");
        assert!(lines.iter().any(|line| line.contains("2 log lines were lost")), "{lines:?}");
    }
}
