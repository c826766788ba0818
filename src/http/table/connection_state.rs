//! Lines: the state of one open connection, which its task writes and the table reads.
//!
//! Invariant: no lock; a reader may be late by one step of its peer, which is all that shedding needs.
//!
//! Must not know: other connections.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::hosts::HostCount;

/// A reader that took nothing for this long may be shed.
pub(super) const STALLED_AFTER: Duration = Duration::from_millis(250);
/// A large answer may be shed for another one when its reader has had this long.
pub(crate) const MIN_READ_TIME: Duration = Duration::from_secs(10);

/// The uses of a connection, from what yields to what does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Kind {
    /// An event stream.
    Stream,
    /// An answer of many bytes.
    Large,
    /// A message to another node or program, which waits for the other side.
    Message,
    /// An answer to a request, which waits for a link at most.
    Reply,
    /// A command, which takes as long as the cluster does.
    Command,
    /// Anything else, waiting for a request included.
    Short,
}

/// The waits of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Nothing: it is new, or being answered.
    Busy,
    /// Bytes from its peer: a request or the rest of one.
    Reading,
    /// Its peer to take bytes.
    Writing,
    /// Its turn: its answer is not begun.
    Waiting,
}

/// One open connection.
#[derive(Debug)]
pub(crate) struct ConnectionState {
    pub(super) id: u64,
    /// The connections of its host.
    pub(super) host: HostCount,
    epoch: Instant,
    phase: AtomicU8,
    pub(super) kind: AtomicU8,
    /// Milliseconds since `epoch` at which it was accepted, or bytes of an answer left last.
    pub(super) progress: AtomicU64,
    /// Milliseconds since `epoch` at which `kind` began.
    pub(super) since: AtomicU64,
    /// The number of uses that were begun, of which the last one is going on.
    uses: AtomicU64,
    pub(super) shed: CancellationToken,
    /// Cancelled when its descriptor has been given back.
    pub(super) gone: CancellationToken,
    /// The answers that were begun.
    pub(super) answers: AtomicU32,
    /// The size of the frames that were made for its reader alone and that may not be sent yet, in bytes.
    pub(super) frames: AtomicUsize,
    has_ended: AtomicBool,
    ended: Notify,
}

impl ConnectionState {
    pub(super) fn new(id: u64, host: HostCount, epoch: Instant, shed: CancellationToken) -> Self {
        let line = Self {
            id,
            host,
            epoch,
            phase: AtomicU8::new(Phase::Busy as u8),
            kind: AtomicU8::new(Kind::Short as u8),
            progress: AtomicU64::new(0),
            since: AtomicU64::new(0),
            uses: AtomicU64::new(0),
            shed,
            gone: CancellationToken::new(),
            answers: AtomicU32::new(0),
            frames: AtomicUsize::new(0),
            has_ended: AtomicBool::new(false),
            ended: Notify::new(),
        };
        line.progressed();
        line
    }

    /// Its peer took bytes.
    pub(crate) fn progressed(&self) {
        self.progress.store(self.now(), Ordering::Relaxed);
        self.set_phase(Phase::Busy);
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    pub(crate) fn is_in(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Relaxed) == phase as u8
    }

    pub(crate) fn is(&self, kind: Kind) -> bool {
        self.kind.load(Ordering::Relaxed) == kind as u8
    }

    /// Begins a use of this kind, and returns its number; called with the table's lock held.
    pub(super) fn begin_use(&self, kind: Kind) -> u64 {
        self.since.store(self.now(), Ordering::Relaxed);
        self.kind.store(kind as u8, Ordering::Relaxed);
        self.uses.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Ends this use, if no other one was begun meanwhile: the last bytes of an answer may be sent while the next request is
    /// already answered. Called with the table's lock held.
    pub(super) fn end_use(&self, number: u64) {
        if self.uses.load(Ordering::Relaxed) == number {
            self.begin_use(Kind::Short);
        }
    }

    /// The peer will send nothing more: it hung up, or closed its half.
    pub(crate) fn end(&self) {
        if !self.has_ended.swap(true, Ordering::Relaxed) {
            self.ended.notify_one();
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// An answer is begun.
    pub(crate) fn begins(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        self.set_phase(Phase::Busy);
    }

    /// Waits for [`ConnectionState::end`].
    pub(crate) async fn ended(&self) {
        if !self.has_ended() {
            self.ended.notified().await;
        }
    }

    /// Waits until the connection has to be dropped at once.
    pub(crate) async fn shed(&self) {
        self.shed.cancelled().await;
    }

    /// Waits until the connection is closed.
    pub(crate) async fn gone(&self) {
        self.gone.cancelled().await;
    }

    fn now(&self) -> u64 {
        self.epoch.elapsed().as_millis() as u64
    }

    pub(super) fn is_stalled(&self) -> bool {
        let quiet = self.now().saturating_sub(self.progress.load(Ordering::Relaxed));
        self.is_in(Phase::Writing) && quiet >= STALLED_AFTER.as_millis() as u64
    }

    pub(super) fn is_overdue(&self) -> bool {
        let age = self.now().saturating_sub(self.since.load(Ordering::Relaxed));
        self.is(Kind::Large) && age >= MIN_READ_TIME.as_millis() as u64
    }
}
