//! The table of open connections: admission, shedding when it is full, and the number of long answers there may be.
//!
//! A full table does not turn newcomers away. It sheds who costs nobody anything: connections that owe us a request or the
//! rest of one, then readers that do not read, then those whose answer is not begun, for it is not their turn. Of each of
//! these one of the host with the most connections goes first, so that no flood from elsewhere holds up a health check; of
//! that host's the longest without progress (of those in line whoever has had the most answers). Connections that are being
//! answered are shed last; but while a newcomer finds nobody to shed ([`Table::is_crowded`]), they get no second answer.
//!
//! Answers that last are counted by [`Kind`], in tiers: event streams leave room for large listings, those for messages
//! that wait, all of these for commands, and all of them for short answers. So nothing that lasts can lock out what is above it, health checks above all.
//!
//! Invariants:
//! - There are never more connections than [`Limits::connections`], beside [`MAX_LEAVING`] that were shed and whose tasks
//!   have not run yet, and never more of a kind than its tier.
//! - Frames that were made for one reader each take at most [`MAX_UNREAD_MESSAGE_BYTES`] together, as far as readers that take
//!   nothing hold them: of these the longest without progress is shed.
//! - The lock is held to look through the table once, never across an await.
//!
//! `connection_state` owns the state of one connection, `hosts` the number of each host's, `limits` the figures.
//!
//! This module must not know HTTP: a connection is what it waits for and when it last got on.

mod connection_state;
mod hosts;
mod limits;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(super) use connection_state::{ConnectionState, Kind, MIN_READ_TIME, Phase};
use hosts::Hosts;
pub(super) use limits::Limits;
pub use limits::{
    MAX_COMMANDS, MAX_LARGE_ANSWERS, MAX_MESSAGES, MAX_REPLIES, MAX_UNREAD_MESSAGE_BYTES, MIN_CONNECTIONS,
};

/// The time that a newcomer waits for a place in a table full of connections that are all being answered.
const ADMIT_PATIENCE: Duration = Duration::from_millis(500);
/// The time between its looks for one meanwhile.
const ADMIT_RETRY: Duration = Duration::from_millis(20);

/// The number of connections that are shed and not yet dropped, beside those that are open: their tasks have to run once
/// more. The next newcomer waits for one of them.
pub(super) const MAX_LEAVING: usize = 32;

/// The connections, and what was counted about them.
#[derive(Debug)]
pub(super) struct Table {
    limits: Limits,
    epoch: Instant,
    lines: Mutex<Lines>,
    shed: AtomicU64,
    /// The number of those that are shed and not yet dropped.
    leaving: AtomicUsize,
    /// Notified when one of them is dropped.
    left: Notify,
    refused: AtomicU64,
    accept_errors: AtomicU64,
    panics: AtomicU64,
    /// The size of all frames that were made for one reader each and that may not be sent yet, in bytes.
    frames: AtomicUsize,
    /// True while a newcomer waits for a place.
    is_crowded: AtomicBool,
    /// Cancelled when all connections have to end.
    close: CancellationToken,
}

#[derive(Debug, Default)]
struct Lines {
    open: BTreeMap<u64, Arc<ConnectionState>>,
    hosts: Hosts,
    last: u64,
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

impl Lines {
    fn remove(&mut self, id: u64) -> Option<Arc<ConnectionState>> {
        let line = self.open.remove(&id)?;
        self.hosts.leave(&line.host);
        Some(line)
    }

    /// Returns the one without progress for the longest among those that may go, of the host with the most connections.
    fn longest_without_progress(&self, may_go: impl Fn(&ConnectionState) -> bool) -> Option<Arc<ConnectionState>> {
        let candidates = self.open.values().filter(|line| may_go(line));
        let of = |line: &&Arc<ConnectionState>| (Reverse(line.host.get()), line.progress.load(Ordering::Relaxed));
        candidates.min_by_key(of).cloned()
    }

    /// Returns the one that waits for its turn and has had the most answers, the longest without progress among equals; of
    /// the host with the most connections.
    fn longest_in_line(&self) -> Option<Arc<ConnectionState>> {
        let candidates = self.open.values().filter(|line| line.is_in(Phase::Waiting));
        let of = |line: &&Arc<ConnectionState>| {
            let answers = line.answers.load(Ordering::Relaxed);
            (Reverse(line.host.get()), Reverse(answers), line.progress.load(Ordering::Relaxed))
        };
        candidates.min_by_key(of).cloned()
    }

    /// Returns the one that has been of this kind for the longest.
    fn oldest(&self, kind: Kind) -> Option<Arc<ConnectionState>> {
        let candidates = self.open.values().filter(|line| line.is(kind));
        candidates.min_by_key(|line| line.since.load(Ordering::Relaxed)).cloned()
    }

    fn up_to(&self, kind: Kind) -> usize {
        self.open.values().filter(|line| line.kind.load(Ordering::Relaxed) <= kind as u8).count()
    }

    fn of(&self, kind: Kind) -> usize {
        self.open.values().filter(|line| line.is(kind)).count()
    }
}

impl Table {
    /// Returns an empty table; its connections end with `close`.
    pub(super) fn new(limits: Limits, close: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            limits,
            epoch: Instant::now(),
            lines: Mutex::default(),
            shed: AtomicU64::new(0),
            leaving: AtomicUsize::new(0),
            left: Notify::new(),
            refused: AtomicU64::new(0),
            accept_errors: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            frames: AtomicUsize::new(0),
            is_crowded: AtomicBool::new(false),
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

    /// Returns true while a newcomer waits for a place: whoever has been answered is to go.
    pub(super) fn is_crowded(&self) -> bool {
        self.is_crowded.load(Ordering::Relaxed)
    }

    /// Takes a place for a new connection of this peer, another one's if need be; `None` if all are being answered and none gets done.
    /// Newcomers come one after the other.
    pub(super) async fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<Seat> {
        while self.leaving.load(Ordering::Relaxed) >= MAX_LEAVING {
            // A permit that was left by one that went before is used up first.
            self.left.notified().await;
        }
        let seat = self.wait_for_place(peer).await;
        self.is_crowded.store(false, Ordering::Relaxed);
        seat
    }

    async fn wait_for_place(self: &Arc<Self>, peer: IpAddr) -> Option<Seat> {
        let deadline = Instant::now() + ADMIT_PATIENCE;
        loop {
            let is_urgent = Instant::now() >= deadline;
            if let Some(seat) = self.try_admit(peer, is_urgent) {
                return Some(seat);
            }
            if is_urgent {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return None;
            }
            self.is_crowded.store(true, Ordering::Relaxed);
            tokio::time::sleep(ADMIT_RETRY).await;
        }
    }

    fn try_admit(self: &Arc<Self>, peer: IpAddr, is_urgent: bool) -> Option<Seat> {
        let mut lines = self.lines();
        if lines.open.len() >= self.limits.connections {
            let waiting = lines.longest_without_progress(|line| line.is_in(Phase::Reading));
            let stalled = || lines.longest_without_progress(ConnectionState::is_stalled);
            let in_line = || lines.longest_in_line();
            let slow = || lines.longest_without_progress(|line| is_urgent && line.is_in(Phase::Writing));
            let victim = waiting.or_else(stalled).or_else(in_line).or_else(slow)?;
            self.shed(&mut lines, &victim);
        }
        lines.last += 1;
        let host = lines.hosts.enter(peer);
        let line = Arc::new(ConnectionState::new(lines.last, host, self.epoch, self.close.child_token()));
        lines.open.insert(line.id, Arc::clone(&line));
        Some(Seat { line, table: Arc::clone(self) })
    }

    fn shed(&self, lines: &mut Lines, victim: &ConnectionState) {
        lines.remove(victim.id);
        self.leaving.fetch_add(1, Ordering::Relaxed);
        victim.shed.cancel();
        self.shed.fetch_add(1, Ordering::Relaxed);
    }

    /// Sheds one connection to have its descriptor: one that waits for its peer, else the oldest event stream (its reader
    /// comes back and goes on where it was), else a reader that takes nothing, else the oldest large answer. Returns the one
    /// that is shed; `None` if there are only commands and short answers.
    pub(super) fn shed_for_descriptor(&self) -> Option<Arc<ConnectionState>> {
        let mut lines = self.lines();
        let waiting = lines.longest_without_progress(|line| line.is_in(Phase::Reading) && !line.is(Kind::Stream));
        let stream = || lines.oldest(Kind::Stream);
        let stalled = || lines.longest_without_progress(ConnectionState::is_stalled);
        let large = || lines.oldest(Kind::Large);
        let victim = waiting.or_else(stream).or_else(stalled).or_else(large)?;
        self.shed(&mut lines, &victim);
        Some(victim)
    }

    /// Counts a connection as one of a kind for as long as the result lives; `None` if there are too many, all of them
    /// with readers that read.
    pub(super) fn enter(self: &Arc<Self>, line: &Arc<ConnectionState>, kind: Kind) -> Option<Hold> {
        let mut lines = self.lines();
        while lines.of(kind) >= self.limits.of(kind) || lines.up_to(kind) >= self.limits.tier(kind) {
            let is_full = lines.of(kind) >= self.limits.of(kind);
            let counts = |line: &ConnectionState| {
                if is_full { line.is(kind) } else { line.kind.load(Ordering::Relaxed) <= kind as u8 }
            };
            let stalled = lines.longest_without_progress(|line| counts(line) && line.is_stalled());
            let overdue = || lines.longest_without_progress(|line| counts(line) && line.is_overdue());
            let victim = stalled.or_else(overdue)?;
            self.shed(&mut lines, &victim);
        }
        let number = line.begin_use(kind);
        Some(Hold { table: Arc::clone(self), line: Arc::clone(line), number })
    }

    /// Sheds one large answer that nobody reads. Returns true if there was one.
    pub(super) fn shed_stalled_answer(&self) -> bool {
        let mut lines = self.lines();
        let may_go = |line: &ConnectionState| line.is(Kind::Large) && (line.is_stalled() || line.is_overdue());
        let victim = lines.longest_without_progress(may_go);
        if let Some(victim) = &victim {
            self.shed(&mut lines, victim);
        }
        victim.is_some()
    }

    /// Counts a message's frame on its way to this connection's reader, for as long as the result lives. If there are too
    /// many, readers that take nothing are shed, the longest without progress first.
    pub(super) fn hold_frame(self: &Arc<Self>, line: &Arc<ConnectionState>, bytes: usize) -> FrameHold {
        line.frames.fetch_add(bytes, Ordering::Relaxed);
        let held = self.frames.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if held > MAX_UNREAD_MESSAGE_BYTES {
            let mut lines = self.lines();
            while self.frames.load(Ordering::Relaxed) > MAX_UNREAD_MESSAGE_BYTES {
                let holds = |line: &ConnectionState| line.frames.load(Ordering::Relaxed) > 0;
                let may_go = |line: &ConnectionState| holds(line) && line.is_in(Phase::Writing);
                let Some(victim) = lines.longest_without_progress(may_go) else { break };
                self.release_frames(&victim, usize::MAX);
                self.shed(&mut lines, &victim);
            }
        }
        FrameHold { table: Arc::clone(self), line: Arc::clone(line), bytes }
    }

    /// Returns the size of all such frames, in bytes.
    #[cfg(test)]
    pub(crate) fn unread_messages(&self) -> usize {
        self.frames.load(Ordering::Relaxed)
    }

    /// Takes up to so many bytes of a connection's frames from the sums: less, if it was shed before.
    fn release_frames(&self, line: &ConnectionState, bytes: usize) {
        let rest = |held: usize| Some(held.saturating_sub(bytes));
        let held = line.frames.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest).unwrap_or_default();
        self.frames.fetch_sub(held.min(bytes), Ordering::Relaxed);
    }

    pub(super) fn count_accept_error(&self) {
        self.accept_errors.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn figures(&self) -> Figures {
        let (connections, streams) = {
            let lines = self.lines();
            (lines.open.len(), lines.of(Kind::Stream))
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

/// A connection's place in the table, free again when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) line: Arc<ConnectionState>,
    table: Arc<Table>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.table.panics.fetch_add(1, Ordering::Relaxed);
        }
        let open = self.table.lines().remove(self.line.id);
        if open.is_none() {
            self.table.leaving.fetch_sub(1, Ordering::Relaxed);
            self.table.left.notify_one();
        }
        // The connection itself was dropped before.
        self.line.gone.cancel();
    }
}

/// A frame that may not be sent yet.
#[derive(Debug)]
pub(super) struct FrameHold {
    table: Arc<Table>,
    line: Arc<ConnectionState>,
    bytes: usize,
}

impl Drop for FrameHold {
    fn drop(&mut self) {
        self.table.release_frames(&self.line, self.bytes);
    }
}

/// A connection's time as one of a kind.
#[derive(Debug)]
pub(super) struct Hold {
    table: Arc<Table>,
    line: Arc<ConnectionState>,
    number: u64,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let _lines = self.table.lines();
        self.line.end_use(self.number);
    }
}
