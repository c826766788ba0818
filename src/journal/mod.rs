//! The agent's journal: the messages to its operator, on their way to the tracing subscriber.
//!
//! Purpose: subscribers belong to the user, and may block for ever or panic. So lines travel through a [`LossyQueue`] to a
//! thread of their own, which alone calls the subscriber. Each line is in the span `headcount{agent=…}`, by which several
//! agents of one process, or the collected logs of many, are told apart.
//!
//! Invariants:
//! - No task of the agent calls the subscriber: writing a line neither waits nor fails.
//! - Lost lines are counted, and reported as soon as a line gets through. Lines about events that are too many are left
//!   out, and summed up.
//! - Lines have targets by which a user can filter, whatever the files are called that write them.
//! - The subscriber is the one that was in force where the agent was started, otherwise the global one.
//!
//! Must not know: which messages are worth sending.
//!
//! | idea | file |
//! |---|---|
//! | the texts of the lines | `words` |
//! | so many lines about events in a time | `pace` |
//! | the queue that loses what does not fit, and counts it | `lossy` |

mod lossy;
mod pace;
mod words;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::dispatcher::{self, Dispatch};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::NoSubscriber;
use tracing::{Level, Span, debug, error, error_span, info, warn};

pub(crate) use lossy::{Item, LossyQueue};
use pace::Pace;

use crate::core::{NodeId, Notice};
use crate::event::Event;

/// The largest number of lines that wait for the subscriber: a view of some thousand members arriving at once.
pub(crate) const MAX_QUEUED_LINES: usize = 8_192;

/// The target of lines that are neither about members nor about leaders (see `words`), and the beginning of those.
const TARGET: &str = "headcount";

/// A handle to the journal. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Journal {
    lines: LossyQueue<Line>,
    pace: Arc<Mutex<Pace>>,
}

/// Returns the span that every line of an agent's log is in: it bears the agent's name, and is in no other one, so that what
/// is started in it, as by a reload, does not name the agent twice.
pub(crate) fn span(agent: &NodeId) -> Span {
    error_span!(target: TARGET, parent: None, "headcount", %agent)
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
        Ok(Self {
            lines: LossyQueue::start("headcount-log", MAX_QUEUED_LINES, write)?,
            pace: Arc::new(Mutex::new(Pace::new(Instant::now()))),
        })
    }

    /// Writes a line about an event, or leaves it for the next sum (see `pace`).
    pub(crate) fn event(&self, event: &Arc<Event>) {
        if !is_wanted(words::level(&event.kind)) {
            return;
        }
        if self.pace().admits(Instant::now(), &event.kind) {
            self.lines.push(Line::Event(Arc::clone(event)));
        }
    }

    /// Writes the sum of the lines left out, if it is due. To be called at least once a second.
    pub(crate) fn sum_up(&self) {
        self.write_sum(false);
    }

    fn write_sum(&self, is_last: bool) {
        let sum = self.pace().sum(Instant::now(), is_last);
        if let Some(text) = sum {
            self.say(Level::WARN, text);
        }
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Returns the number of lines lost so far, those left out because of their number included.
    pub(crate) fn lost(&self) -> u64 {
        self.lines.lost() + self.pace().lost()
    }

    /// Returns the number of lines that wait for the subscriber.
    pub(crate) fn queued(&self) -> usize {
        self.lines.queued()
    }

    /// Waits until the subscriber has seen all lines, for `within` at most.
    pub(crate) async fn flush(&self, within: Duration) {
        self.write_sum(true);
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
            Level::ERROR => error!(target: TARGET, "{text}"),
            Level::WARN => warn!(target: TARGET, "{text}"),
            Level::INFO => info!(target: TARGET, "{text}"),
            _ => debug!(target: TARGET, "{text}"),
        },
        Item::Lost(lines) => {
            warn!(target: TARGET, lines, "log lines were lost: {lines} could not be written, or not fast enough");
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fmt::{self, Write as _};
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event as TracingEvent, Metadata, Subscriber};

    use super::pace::MAX_EVENT_LINES;
    use super::*;
    use crate::event::EventKind;

    const LONG: Duration = Duration::from_secs(30);

    /// A subscriber that keeps the texts of lines and spans, and panics while it is told to.
    #[derive(Debug, Clone, Default)]
    pub(crate) struct Kept {
        lines: Arc<Mutex<Vec<String>>>,
        targets: Arc<Mutex<Vec<String>>>,
        panics: Arc<AtomicBool>,
        /// A span was made in another one.
        is_nested: Arc<AtomicBool>,
    }

    impl Kept {
        fn keep(&self, record: impl FnOnce(&mut Text)) {
            assert!(!self.panics.load(Ordering::SeqCst), "by the test");
            let mut text = Text(String::new());
            record(&mut text);
            self.lines.lock().expect("not poisoned").push(text.0);
        }

        /// Returns a dispatcher to this subscriber. A second one lives for as long as the process: while there is only one,
        /// tracing asks the subscriber of whatever thread comes to a line first whether anybody wants it, and remembers
        /// the no of another test's thread that has none.
        pub(crate) fn dispatch(&self) -> Dispatch {
            static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Kept::default()));
            LazyLock::force(&SECOND);
            Dispatch::new(self.clone())
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
            self.is_nested.fetch_or(!span.is_root(), Ordering::SeqCst);
            Id::from_u64(1)
        }
        fn event(&self, event: &TracingEvent<'_>) {
            self.targets.lock().expect("not poisoned").push(event.metadata().target().to_owned());
            self.keep(|text| event.record(text));
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    /// Returns the journal of a node, whose lines are kept.
    fn started(kept: &Kept) -> Journal {
        let start = || Journal::start(&NodeId::new("me").expect("a name"));
        dispatcher::with_default(&kept.dispatch(), start).expect("a thread")
    }

    #[tokio::test]
    async fn each_line_says_which_agent_speaks() {
        let kept = Kept::default();
        let journal = started(&kept);
        journal.say(Level::INFO, "hello");
        journal.flush(LONG).await;
        assert_eq!(kept.all(), ["agent=me;", "message=hello;"]);
    }

    #[tokio::test]
    async fn lines_have_targets_by_their_topic() {
        let kept = Kept::default();
        let journal = started(&kept);
        let member = crate::member::Member::for_tests("a", crate::core::Status::Up);
        for kind in [EventKind::NodeJoined { member }, EventKind::QuorumLost { term: 7 }] {
            journal.event(&Arc::new(Event { sequence: 1, at: std::time::SystemTime::now(), live_members: 1, kind }));
        }
        journal.notice(Notice::Founded);
        journal.say(Level::WARN, "hello");
        journal.flush(LONG).await;
        let targets = kept.targets.lock().expect("not poisoned").clone();
        assert_eq!(targets, ["headcount::membership", "headcount::leadership", "headcount::membership", "headcount"]);
    }

    #[cfg(feature = "agent")]
    #[tokio::test]
    async fn directives_let_lines_through_by_topic_and_level() {
        use tracing_subscriber::Layer as _;
        use tracing_subscriber::filter::Targets;

        let told = async |directives: &str| {
            let kept = Kept::default();
            drop(kept.dispatch());
            let filter: Targets = directives.parse().expect("directives");
            let subscriber = Dispatch::new(filter.with_subscriber(kept.clone()));
            let journal = dispatcher::with_default(&subscriber, || Journal::start(&NodeId::new("me").expect("a name")))
                .expect("a thread");
            let member = crate::member::Member::for_tests("a", crate::core::Status::Up);
            for kind in [EventKind::NodeJoined { member }, EventKind::QuorumLost { term: 7 }] {
                journal.event(&Arc::new(Event {
                    sequence: 1,
                    at: std::time::SystemTime::now(),
                    live_members: 1,
                    kind,
                }));
            }
            journal.say(Level::INFO, "hello");
            journal.say(Level::DEBUG, "details");
            journal.flush(LONG).await;
            let targets = kept.targets.lock().expect("not poisoned").clone();
            targets.join(" ")
        };
        let (members, leaders) = ("headcount::membership", "headcount::leadership");
        assert_eq!(told("info").await, format!("{members} {leaders} headcount"));
        assert_eq!(told("debug").await, format!("{members} {leaders} headcount headcount"));
        assert_eq!(told("warn").await, leaders, "a majority is gone");
        assert_eq!(told(members).await, members);
        assert_eq!(told("headcount=info,headcount::membership=warn").await, format!("{leaders} headcount"));
        assert_eq!(told("info,headcount=off").await, "");
        assert_eq!(told("headcount=off,headcount::leadership=info").await, leaders);
    }

    #[test]
    fn what_is_started_in_an_agent_s_span_does_not_name_the_agent_twice() {
        let kept = Kept::default();
        let me = NodeId::new("me").expect("a name");
        dispatcher::with_default(&kept.dispatch(), || span(&me).in_scope(|| drop(span(&me))));
        assert_eq!(kept.all(), ["agent=me;", "agent=me;"]);
        assert!(!kept.is_nested.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn lines_that_are_left_out_are_summed_up_and_counted() {
        let kept = Kept::default();
        let journal = started(&kept);
        let (at, kind) = (std::time::SystemTime::now(), EventKind::QuorumLost { term: 7 });
        let event = Arc::new(Event { sequence: 1, at, live_members: 1, kind });
        (0..MAX_EVENT_LINES + 5).for_each(|_| journal.event(&event));
        journal.sum_up();
        journal.flush(LONG).await;
        let lines = kept.all();
        let of_members = lines.iter().filter(|line| line.contains("term=7")).count();
        assert_eq!(of_members as u32, MAX_EVENT_LINES);
        let sums: Vec<&String> = lines.iter().filter(|line| line.contains("no line of their own")).collect();
        assert!(sums.len() == 1 && sums[0].contains("5 quorum_lost"), "{sums:?}");
        assert_eq!(journal.lost(), 5);
    }

    #[tokio::test]
    async fn a_subscriber_that_stands_still_keeps_so_many_lines_waiting_and_no_more() {
        let kept = Kept::default();
        let journal = started(&kept);
        journal.flush(LONG).await;
        {
            // Whoever writes a line waits for this.
            let _held = kept.lines.lock().expect("not poisoned");
            journal.say(Level::INFO, "the one that is being written");
            while journal.queued() > 0 {
                std::thread::yield_now();
            }
            (0..MAX_QUEUED_LINES).for_each(|_| journal.say(Level::INFO, "waits"));
            assert_eq!((journal.queued(), journal.lost()), (MAX_QUEUED_LINES, 0));
            journal.say(Level::INFO, "is lost");
            assert_eq!((journal.queued(), journal.lost()), (MAX_QUEUED_LINES, 1));
        }
        journal.flush(LONG).await;
        assert_eq!(kept.all().iter().filter(|line| line.contains("waits")).count(), MAX_QUEUED_LINES);
    }

    #[tokio::test]
    async fn a_subscriber_that_panics_costs_lines_which_are_counted_and_told() {
        let kept = Kept::default();
        let journal = started(&kept);
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
        assert!(lines.iter().any(|line| line.contains("log lines were lost: 2 ")), "{lines:?}");
    }
}
