//! News of the agent, from threads of their own: what happens, and figures that no event tells.
//!
//! Invariant: at most [`QUEUED_NEWS`] items wait; a screen that is not drawn slows the threads down, and the agent then
//! says what was missed.

use std::sync::mpsc::SyncSender;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use crate::cli::failure::Failure;
use crate::client::{Client, ClientError, EventQuery, EventUpdate};
use crate::json::{Info, Leader, Member, Verdict};

/// The largest number of items that wait to be drawn.
pub(super) const QUEUED_NEWS: usize = 1_024;
/// The shortest pause between two polls of figures …
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// … and how many times as long as a poll took it is at least: ten thousand members are no load for the agent either.
const POLL_SHARE: u32 = 20;
/// Time limit for one poll.
const POLL_TIMEOUT: Duration = Duration::from_secs(5);

/// The status of a refusal because there are too many of something.
const TOO_MANY: u16 = 429;

/// One item of news.
#[derive(Debug)]
pub(super) enum News {
    /// An item of the event stream.
    Update(EventUpdate),
    /// The agent was reached, and serves no event stream at the moment: the reason. Another try follows.
    Unstreamed(String),
    /// The agent's figures, as of now.
    Figures(Box<Figures>),
    /// No answer to a poll: the reason.
    Silent(String),
    /// An error that no retry would mend.
    Failed(Failure),
    /// This process is to end.
    Stop,
}

/// The answers to one round of polling: the figures that events do not carry.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) info: Info,
    pub(super) leader: Leader,
    /// The agent's judgement; `None` from an older one, which makes none.
    pub(super) verdict: Option<Verdict>,
    /// All members, those that left included.
    pub(super) members: Vec<Member>,
}

/// Starts the threads. They end with the process, or when nobody takes their news any more.
pub(super) fn start(client: &Client, after: &str, news: &SyncSender<News>) -> Result<(), Failure> {
    let failed = |error| Failure::failed(format!("cannot start a thread: {error}"));
    let (events, told, query) = (client.clone(), news.clone(), EventQuery::all().after(after));
    let follow = move || follow_events(&events, &query, &told);
    thread::Builder::new().name("headcount-events".to_owned()).spawn(follow).map_err(failed)?;
    let (polled, told) = (client.clone().with_timeout(POLL_TIMEOUT), news.clone());
    let poll = move || poll_figures(&polled, &told);
    thread::Builder::new().name("headcount-poll".to_owned()).spawn(poll).map_err(failed)?;
    Ok(())
}

fn follow_events(client: &Client, query: &EventQuery, told: &SyncSender<News>) {
    let events = loop {
        match client.events(query) {
            Ok(events) => break events,
            Err(error) if error.is_transient() => {
                if told.send(not_streamed(&error)).is_err() {
                    return;
                }
                sleep(POLL_INTERVAL);
            }
            Err(error) => return drop(told.send(News::Failed(error.into()))),
        }
    };
    if told.send(News::Update(EventUpdate::Resumed)).is_err() {
        return;
    }
    for update in events {
        let item = update.map_or_else(|error| News::Failed(error.into()), News::Update);
        if told.send(item).is_err() {
            return;
        }
    }
}

/// Tells an agent that answers, and has no stream to spare, from one that is away.
pub(super) fn not_streamed(error: &ClientError) -> News {
    match error {
        ClientError::Refused(problem) if problem.status == TOO_MANY => {
            let hint = problem.hint.as_deref().map(|hint| format!("; {hint}")).unwrap_or_default();
            News::Unstreamed(format!("{error}{hint}"))
        }
        _ => News::Update(EventUpdate::Lost { reason: error.to_string() }),
    }
}

fn poll_figures(client: &Client, told: &SyncSender<News>) {
    loop {
        let asked = Instant::now();
        let item = match figures(client) {
            Ok(figures) => News::Figures(Box::new(figures)),
            Err(error) if error.is_transient() => News::Silent(error.to_string()),
            Err(error) => News::Failed(error.into()),
        };
        if told.send(item).is_err() {
            return;
        }
        sleep(POLL_INTERVAL.max(asked.elapsed() * POLL_SHARE));
    }
}

fn figures(client: &Client) -> Result<Figures, ClientError> {
    let all = crate::client::MemberQuery::all().statuses(crate::Status::NAMES);
    let (info, leader, members) = (client.info()?, client.leader(None)?, client.members_where(&all)?);
    Ok(Figures { info, leader, members, verdict: client.verdict().ok() })
}
