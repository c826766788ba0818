//! The open connections: how many there may be, who makes room for a newcomer, and how much may wait to be read.
//!
//! One rule: when places, memory or descriptors run out, the connection goes that has waited for its peer for the longest,
//! be it for a request, for the rest of one, or for an answer to be taken. Who is being answered stays. If all are, a few
//! newcomers more get in, for health checks alone ([`SPARE_CONNECTIONS`]); and as long as there are such, each answer is the
//! last one of its connection.
//!
//! Calls that last are counted by [`Kind`], and each kind leaves connections free for those after it: event streams for
//! messages that wait for the other side, these for replies, all of them for commands.
//!
//! Invariants:
//! - There are never more connections than [`Limits::connections`] and [`SPARE_CONNECTIONS`]: one that goes has its place
//!   until its task has ended, and the newcomer waits for it.
//! - Answers, and messages, that wait to be read weigh at most [`MAX_UNREAD_BYTES`] each; a single answer may be larger.
//! - The lock is held to look through the table once, never across an await.
//!
//! Must not know: HTTP. A connection is what it waits for, and when it last got on.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// The smallest limit of connections the server works with; smaller ones are raised to it.
pub const MIN_CONNECTIONS: usize = 8;
/// Connections beyond the limit, for health checks, while all others are being answered.
pub const SPARE_CONNECTIONS: usize = 16;
/// Messages under way at one time that were sent to one node, most of them requests that wait for a program's answer.
pub const MAX_MESSAGES: usize = 256;
/// Answers to requests under way at one time.
pub const MAX_REPLIES: usize = 128;
/// All other commands under way at one time.
pub const MAX_COMMANDS: usize = 64;
/// Connections that streams leave free for messages, and these for replies, where there are enough; as many again are left
/// for commands, and for all that does not last.
const KEPT_FREE: usize = 4;
/// The size of the answers, in bytes together, that were made for one reader each and that it has not taken; and that of the
/// messages.
pub const MAX_UNREAD_BYTES: usize = 4 * 1024 * 1024;
/// The time that a newcomer waits for a place, in which one that goes ends.
const ADMIT_PATIENCE: Duration = Duration::from_millis(500);
/// A reader that takes nothing for this long waits to take it: until then the answer is on its way.
const TAKES_NOTHING: Duration = Duration::from_millis(250);
/// The time that a reader has for a large answer while others wait for room, however it takes it.
const READ_TIME: Duration = Duration::from_secs(10);

/// The calls that last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An event stream.
    Stream,
    /// A message to another node or program, which waits for the other side.
    Message,
    /// An answer to a request, which waits for a link at most.
    Reply,
    /// A command, which takes as long as the cluster does.
    Command,
}

const KINDS: usize = 4;

/// The things that wait to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    /// Answers that were made whole. One that is taken stays for [`READ_TIME`].
    Answer,
    /// Messages between programs. Any reader that does not take them at once may go.
    Message,
}

/// The most connections, and the most calls of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// Connections open at one time, event streams included.
    connections: usize,
    /// Calls of each kind.
    calls: [usize; KINDS],
    /// Calls of each kind and the kinds before it together.
    up_to: [usize; KINDS],
}

impl Limits {
    pub(super) fn new(connections: usize, streams: usize) -> Self {
        let connections = connections.max(MIN_CONNECTIONS);
        let free = (connections / 48).clamp(1, KEPT_FREE);
        let up_to = [6, 5, 4, 2].map(|after| connections - after * free);
        let lasting = [MAX_MESSAGES, MAX_REPLIES, MAX_COMMANDS].map(|most| most.min(connections / 2));
        Self { connections, calls: [streams.clamp(1, up_to[0]), lasting[0], lasting[1], lasting[2]], up_to }
    }

    /// Returns the most event streams.
    pub(super) fn streams(&self) -> usize {
        self.calls[Kind::Stream as usize]
    }
}

/// The connections, and what was counted about them.
#[derive(Debug)]
pub(super) struct Table {
    limits: Limits,
    lines: Mutex<Lines>,
    /// Notified when a connection has ended.
    left: Notify,
    shed: AtomicU64,
    refused: AtomicU64,
    accept_errors: AtomicU64,
    panics: AtomicU64,
    /// The weight of all that waits to be read, in bytes, by [`Unread`].
    unread: [AtomicUsize; 2],
    /// The number of connections beyond the limit.
    spares: AtomicUsize,
    /// Cancelled when all connections have to end.
    close: CancellationToken,
}

#[derive(Debug, Default)]
struct Lines {
    open: BTreeMap<u64, Arc<ConnectionState>>,
    /// The calls under way, of each kind.
    calls: [usize; KINDS],
    last: u64,
}

impl Lines {
    /// Returns true if one has not ended yet that is to make room: the next newcomer waits for that.
    fn has_ending(&self) -> bool {
        self.open.values().any(|line| line.shed.is_cancelled())
    }
}

/// The figures that metrics show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) connections: usize,
    pub(super) streams: usize,
    pub(super) shed: u64,
    pub(super) refused: u64,
    pub(super) accept_errors: u64,
    pub(super) panics: u64,
}

impl Table {
    /// Returns an empty table; its connections end with `close`.
    pub(super) fn new(limits: Limits, close: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            limits,
            lines: Mutex::default(),
            left: Notify::new(),
            shed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            accept_errors: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            unread: Default::default(),
            spares: AtomicUsize::new(0),
            close,
        })
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        // Nothing that runs under the lock leaves it half done.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a new connection, another one's if need be; `None` if all are being answered and none gets done.
    /// Newcomers come one after the other.
    pub(super) async fn admit(self: &Arc<Self>) -> Option<Seat> {
        let deadline = Instant::now() + ADMIT_PATIENCE;
        loop {
            if let Some(seat) = self.try_admit(true) {
                return Some(seat);
            }
            if timeout_at(deadline, self.left.notified()).await.is_err() {
                // Whoever was to make room is not gone: it may be served last of all.
                let seat = self.try_admit(false);
                self.refused.fetch_add(u64::from(seat.is_none()), Ordering::Relaxed);
                return seat;
            }
        }
    }

    fn try_admit(self: &Arc<Self>, waits: bool) -> Option<Seat> {
        let mut lines = self.lines();
        let is_spare = lines.open.len() >= self.limits.connections;
        if is_spare {
            let is_full = lines.open.len() >= self.limits.connections + SPARE_CONNECTIONS;
            let has_room_soon = || lines.has_ending() || self.shed(&lines, ConnectionState::waits_for_peer);
            if is_full || waits && has_room_soon() {
                return None;
            }
            self.spares.fetch_add(1, Ordering::Relaxed);
        }
        lines.last += 1;
        let line = Arc::new(ConnectionState::new(is_spare, self.close.child_token()));
        let id = lines.last;
        lines.open.insert(id, Arc::clone(&line));
        Some(Seat { id, line, table: Arc::clone(self) })
    }

    /// Returns true while there are connections beyond the limit: whoever has been answered is to go.
    pub(super) fn is_crowded(&self) -> bool {
        self.spares.load(Ordering::Relaxed) > 0
    }

    /// Ends the connection without progress for the longest among those that may go. Returns true if there was one.
    fn shed(&self, lines: &Lines, may_go: impl Fn(&ConnectionState) -> bool) -> bool {
        let candidates = lines.open.values().filter(|line| !line.shed.is_cancelled() && may_go(line));
        let Some(victim) = candidates.min_by_key(|line| line.progress()) else { return false };
        victim.shed.cancel();
        self.shed.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Ends one connection to have its descriptor, one that waits for its peer or an event stream, whose reader comes back
    /// and goes on where it was; and waits for this a moment.
    pub(super) async fn make_room_for_descriptor(&self, patience: Duration) {
        {
            let lines = self.lines();
            let _ = lines.has_ending() || self.shed(&lines, |line| line.waits_for_peer() || line.is_stream());
        }
        let _ = timeout_at(Instant::now() + patience, self.left.notified()).await;
    }

    /// Counts a call that lasts for as long as the result lives; `None` if there are too many.
    pub(super) fn enter(self: &Arc<Self>, line: &Arc<ConnectionState>, kind: Kind) -> Option<Hold> {
        let (mut lines, at) = (self.lines(), kind as usize);
        let before: usize = lines.calls[..=at].iter().sum();
        if lines.calls[at] >= self.limits.calls[at] || before >= self.limits.up_to[at] {
            return None;
        }
        lines.calls[at] += 1;
        line.is_stream.store(kind == Kind::Stream, Ordering::Relaxed);
        Some(Hold { table: Arc::clone(self), line: Arc::clone(line), kind })
    }

    /// Counts bytes on their way to a connection's reader, for as long as the result lives. If too many wait, those who do
    /// not take them go.
    pub(super) fn weigh(self: &Arc<Self>, line: &Arc<ConnectionState>, what: Unread, bytes: usize) -> Weight {
        line.unread[what as usize].fetch_add(bytes, Ordering::Relaxed);
        line.weighed_at.store(line.now(), Ordering::Relaxed);
        if self.unread[what as usize].fetch_add(bytes, Ordering::Relaxed) + bytes > MAX_UNREAD_BYTES {
            let lines = self.lines();
            let stays = |line: &&Arc<ConnectionState>| !line.shed.is_cancelled();
            let weight = |line: &Arc<ConnectionState>| line.unread[what as usize].load(Ordering::Relaxed);
            let may_go = |line: &ConnectionState| {
                let holds = line.unread[what as usize].load(Ordering::Relaxed) > 0;
                holds && line.is_in(Phase::Writing) && (what == Unread::Message || line.has_had_its_time())
            };
            while lines.open.values().filter(stays).map(weight).sum::<usize>() > MAX_UNREAD_BYTES {
                if !self.shed(&lines, may_go) {
                    break;
                }
            }
        }
        Weight { table: Arc::clone(self), line: Arc::clone(line), what, bytes }
    }

    /// Returns the weight of what waits to be read, in bytes.
    pub(super) fn unread(&self, what: Unread) -> usize {
        self.unread[what as usize].load(Ordering::Relaxed)
    }

    pub(super) fn count_accept_error(&self) {
        self.accept_errors.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn figures(&self) -> Figures {
        let (connections, streams) = {
            let lines = self.lines();
            (lines.open.len(), lines.calls[Kind::Stream as usize])
        };
        Figures {
            connections,
            streams,
            shed: self.shed.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            accept_errors: self.accept_errors.load(Ordering::Relaxed),
            panics: self.panics.load(Ordering::Relaxed),
        }
    }
}

/// The waits of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    /// Nothing: it is new, or being answered.
    Busy,
    /// Bytes from its peer: a request or the rest of one.
    Reading,
    /// Its peer to take bytes.
    Writing,
}

/// The state of one open connection, which its task writes and the table reads.
#[derive(Debug)]
pub(super) struct ConnectionState {
    /// True for one beyond the limit.
    is_spare: bool,
    opened: Instant,
    phase: AtomicU8,
    /// Milliseconds after `opened` at which bytes of an answer left last.
    progress: AtomicU64,
    is_stream: AtomicBool,
    /// The weight of what waits to be read, in bytes, by [`Unread`].
    unread: [AtomicUsize; 2],
    /// Milliseconds after `opened` at which the last of that was made.
    weighed_at: AtomicU64,
    shed: CancellationToken,
    ended: CancellationToken,
}

impl ConnectionState {
    fn new(is_spare: bool, shed: CancellationToken) -> Self {
        Self {
            is_spare,
            opened: Instant::now(),
            phase: AtomicU8::new(Phase::Busy as u8),
            progress: AtomicU64::new(0),
            is_stream: AtomicBool::new(false),
            unread: Default::default(),
            weighed_at: AtomicU64::new(0),
            shed,
            ended: CancellationToken::new(),
        }
    }

    /// Returns true for a connection beyond the limit.
    pub(super) fn is_spare(&self) -> bool {
        self.is_spare
    }

    /// Its peer took bytes.
    pub(super) fn progressed(&self) {
        self.progress.store(self.now(), Ordering::Relaxed);
        self.set_phase(Phase::Busy);
    }

    pub(super) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    pub(super) fn is_stream(&self) -> bool {
        self.is_stream.load(Ordering::Relaxed)
    }

    /// The peer will send nothing more: it hung up, or closed its half.
    pub(super) fn end(&self) {
        self.ended.cancel();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Waits for [`ConnectionState::end`].
    pub(super) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Waits until the connection has to be dropped at once.
    pub(super) async fn shed(&self) {
        self.shed.cancelled().await;
    }

    fn now(&self) -> u64 {
        self.opened.elapsed().as_millis() as u64
    }

    fn progress(&self) -> Instant {
        self.opened + Duration::from_millis(self.progress.load(Ordering::Relaxed))
    }

    fn is_in(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Relaxed) == phase as u8
    }

    fn takes_nothing(&self) -> bool {
        self.is_in(Phase::Writing) && self.progress().elapsed() >= TAKES_NOTHING
    }

    fn waits_for_peer(&self) -> bool {
        self.is_in(Phase::Reading) || self.takes_nothing()
    }

    fn has_had_its_time(&self) -> bool {
        let age = self.now().saturating_sub(self.weighed_at.load(Ordering::Relaxed));
        self.takes_nothing() || age >= READ_TIME.as_millis() as u64
    }
}

/// A connection's place in the table, free again when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    id: u64,
    pub(super) line: Arc<ConnectionState>,
    table: Arc<Table>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.table.panics.fetch_add(1, Ordering::Relaxed);
        }
        if self.line.is_spare {
            self.table.spares.fetch_sub(1, Ordering::Relaxed);
        }
        // The connection itself was dropped before.
        self.table.lines().open.remove(&self.id);
        self.table.left.notify_one();
    }
}

/// Bytes that wait to be read.
#[derive(Debug)]
pub(super) struct Weight {
    table: Arc<Table>,
    line: Arc<ConnectionState>,
    what: Unread,
    bytes: usize,
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.line.unread[self.what as usize].fetch_sub(self.bytes, Ordering::Relaxed);
        self.table.unread[self.what as usize].fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A call that lasts.
#[derive(Debug)]
pub(super) struct Hold {
    table: Arc<Table>,
    line: Arc<ConnectionState>,
    kind: Kind,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.line.is_stream.store(false, Ordering::Relaxed);
        self.table.lines().calls[self.kind as usize] -= 1;
    }
}
