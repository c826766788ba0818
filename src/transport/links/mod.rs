//! Links: TCP connections that carry frames, on the same port number as the gossip socket.
//!
//! ```text
//! listener ──accepted──▶ ┐                                   ┌─▶ frames, events ──▶ Links::next ──▶ driver
//!                        ├─ one task per connection, bounded ┤
//! Links::open ─connect─▶ ┘                                   └─◀ frames ◀── Links::send ◀── driver
//! ```
//!
//! A frame is a four-byte length and that many bytes, at most [`MAX_FRAME_BYTES`] before it is sealed. An empty one keeps an
//! idle connection alive, and shows that the other end's machine is still there: firewalls forget flows that are idle, and
//! drop whatever comes later. Where packets are sealed, both ends greet first (see
//! [`seal`](crate::seal)), before the driver hears of an accepted connection.
//!
//! Invariants:
//! - Nothing here waits for a peer: a full queue drops the frame, and a peer that does not read is given up.
//! - Opened and accepted connections never exceed the budget given at the start, so that they leave descriptors to
//!   everything else. Connections that have not sent anything, or whose first frame still waits for the driver, are few
//!   ([`MAX_SILENT`]), have little time, and make room for others; the driver learns of an accepted connection by its first frame.
//! - After [`Links::close`] the driver gets no more frames of a link.
//! - A connection whose first frame is not sealed, where that is required, or not opened, is closed at once: an agent is
//!   told why, in nine bytes, and everybody else nothing. One that is clear when sealing becomes required is
//!   closed without a word, and so is one with a frame that does not fit its place.
//! - All tasks end when this is dropped, after they have sent the queued frames. None waits for a peer then.
//!
//! Must not know: the content of a frame, or the member that a link belongs to.
//!
//! | idea | file |
//! |---|---|
//! | all links, as the driver sees them | here |
//! | connections that others open | `accepting` |
//! | one connection, from its greeting to its end | `connection` |
//! | a connection that is no link: frames, each answered by one | `exchange` |
//! | accepted connections that have said nothing | `silent` |
//! | what waits between connections and the driver | `queues` |

mod accepting;
mod connection;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod exchange;
mod queues;
mod silent;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_sealed;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinError;
use tokio_util::bytes::BytesMut;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use self::accepting::Acceptor;
pub(crate) use self::accepting::Listener;
#[cfg(test)]
use self::connection::GREETING_TIMEOUT;
use self::connection::connect;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) use self::exchange::Exchange;
use self::queues::{Announced, Announcer, MAX_SENT_BYTES, Outgoing};
#[cfg(test)]
use self::queues::{MAX_LINK_BYTES, MAX_QUEUED_EVENTS, MAX_QUEUED_FRAMES};
use self::silent::Silent;
use super::sealing::Sealing;
#[cfg(doc)]
use crate::core::limits::MAX_FRAME_BYTES;
use crate::core::{LinkId, Unopened};
use crate::journal::Journal;

/// The largest number of accepted connections whose first frame has not reached the driver yet; at most a quarter of
/// the budget.
pub(crate) const MAX_SILENT: usize = 64;

/// An event of a link, for the driver.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The link was opened.
    Connected,
    /// The peer's system answered that no process listens there.
    Refused,
    /// The link could not be opened for any other reason.
    Unreachable,
    /// A frame, and the address of its sender.
    Frame(SocketAddr, BytesMut),
    /// The link has ended.
    Closed,
    /// The link has ended, since the other end does not take what was sent first, as it said.
    Unopened(Unopened),
}

/// Totals, readable while the links work.
#[derive(Debug, Default)]
pub(crate) struct LinkCounters {
    dropped_frames: AtomicU64,
    turned_away: AtomicU64,
    accept_errors: AtomicU64,
}

impl LinkCounters {
    /// Returns the number of frames not sent because their link was congested.
    pub(crate) fn dropped_frames(&self) -> u64 {
        self.dropped_frames.load(Ordering::Relaxed)
    }

    /// Returns the number of connections closed because too many others were silent, or open, already.
    pub(crate) fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }

    /// Returns the number of errors survived while accepting.
    pub(crate) fn accept_errors(&self) -> u64 {
        self.accept_errors.load(Ordering::Relaxed)
    }
}

/// All links of one agent.
#[derive(Debug)]
pub(crate) struct Links {
    queues: BTreeMap<LinkId, Outgoing>,
    /// Room for the frames that wait to be sent over all of them.
    room: Arc<Semaphore>,
    events: mpsc::Receiver<Announced>,
    announce: Announcer,
    tasks: TaskTracker,
    counters: Arc<LinkCounters>,
    /// Permits for further connections.
    budget: Arc<Semaphore>,
    /// The share of them that those may have who are no members' links.
    share: usize,
    sealing: Sealing,
    keepalive: Duration,
    /// The task that accepts connections; taken once its end was reported.
    accepting: Option<AbortOnDropHandle<Infallible>>,
}

impl Links {
    /// Begins to accept. At most `budget` connections, opened or accepted, exist at one time; over each that is idle for
    /// `keepalive` something is sent. Inside a tokio runtime.
    pub(crate) fn start(
        listener: Listener,
        tasks: &TaskTracker,
        budget: usize,
        keepalive: Duration,
        sealing: Sealing,
        journal: Journal,
    ) -> io::Result<Self> {
        let listener = TcpListener::from_std(listener.into_std())?;
        let (announce, events) = queues::incoming();
        let counters = Arc::<LinkCounters>::default();
        let share = MAX_SILENT.min(budget.div_ceil(4));
        let silent = Silent::new(share);
        let budget = Arc::new(Semaphore::new(budget));
        let acceptor = Acceptor {
            announce: announce.clone(),
            tasks: tasks.clone(),
            counters: Arc::clone(&counters),
            budget: Arc::clone(&budget),
            silent,
            sealing: sealing.clone(),
            keepalive,
            journal,
        };
        Ok(Self {
            queues: BTreeMap::new(),
            room: Arc::new(Semaphore::new(MAX_SENT_BYTES)),
            events,
            announce,
            tasks: tasks.clone(),
            counters,
            budget,
            share,
            sealing,
            keepalive,
            accepting: Some(AbortOnDropHandle::new(tasks.spawn(acceptor.run(listener)))),
        })
    }

    /// Returns the shared counters.
    pub(crate) fn counters(&self) -> Arc<LinkCounters> {
        Arc::clone(&self.counters)
    }

    /// Returns the number of connections that those may have who are no members' links: [`MAX_SILENT`], or a quarter of a small
    /// budget.
    pub(crate) const fn share(&self) -> usize {
        self.share
    }

    /// Opens a link; the outcome is an event.
    pub(crate) fn open(&mut self, link: LinkId, to: SocketAddr) {
        let (queue, frames) = queues::outgoing();
        self.queues.insert(link, queue);
        let permit = Arc::clone(&self.budget).try_acquire_owned().ok();
        let sealed = (self.sealing.clone(), self.keepalive);
        self.tasks.spawn(connect(link, to, permit, frames, self.announce.clone(), sealed));
    }

    /// Queues a frame, or drops it if there is no room.
    pub(crate) fn send(&self, link: LinkId, bytes: Vec<u8>) {
        let is_queued = self.queues.get(&link).is_some_and(|queue| queue.offer(bytes, &self.room));
        if !is_queued {
            self.counters.dropped_frames.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends a link, once its frames are sent.
    pub(crate) fn close(&mut self, link: LinkId) {
        self.queues.remove(&link);
    }

    /// Waits for the next event. The error reports, once, that the task that accepts connections died; open connections
    /// go on. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<(LinkId, Event), JoinError> {
        loop {
            tokio::select! {
                // `announce` is held here, so the channel never ends.
                Some(announced) = self.events.recv() => {
                    if let Some(event) = self.register(announced) {
                        return Ok(event);
                    }
                }
                died = died(&mut self.accepting) => {
                    self.accepting = None;
                    return Err(died);
                }
            }
        }
    }

    /// Returns the next event, if there is one.
    pub(crate) fn try_next(&mut self) -> Option<(LinkId, Event)> {
        loop {
            let announced = self.events.try_recv().ok()?;
            if let Some(event) = self.register(announced) {
                return Some(event);
            }
        }
    }

    /// Keeps the queue of a new link; returns the event, unless it is a frame that waited here while its link was closed.
    fn register(&mut self, Announced { link, event, queue, .. }: Announced) -> Option<(LinkId, Event)> {
        if let Some(queue) = queue {
            self.queues.insert(link, queue);
        }
        if !matches!(event, Event::Connected | Event::Frame(..)) {
            self.queues.remove(&link);
        }
        let is_late = matches!(event, Event::Frame(..)) && !self.queues.contains_key(&link);
        (!is_late).then_some((link, event))
    }
}

/// Waits for the end of a task that never ends by itself; for ever if its end was reported before.
async fn died(task: &mut Option<AbortOnDropHandle<Infallible>>) -> JoinError {
    match task {
        Some(task) => match task.await {
            Ok(never) => match never {},
            Err(error) => error,
        },
        None => std::future::pending().await,
    }
}
