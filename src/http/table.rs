//! The table of open connections: who is admitted, who is shed when it is full, how many long answers there may be.
//!
//! A full table does not turn newcomers away. It sheds who costs nobody anything, the longest without progress first:
//! connections that owe us a request or the rest of one, then readers that do not read. Connections that are being
//! answered are shed last.
//!
//! Answers that last are counted by [`Kind`], in tiers: event streams leave room for large listings, those for commands,
//! and all of them for short answers. So nothing that lasts can lock out what is above it, health checks above all.
//!
//! Invariants:
//! - There are never more connections than [`Limits::connections`], and never more of a kind than its tier.
//! - The lock is held to look through the table once, never across an await.
//!
//! This module must not know HTTP: a connection is what it waits for and when it last got on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The smallest limit of connections the server works with; smaller ones are raised to it.
pub const MIN_CONNECTIONS: usize = 4;
/// Connections kept free for each tier of answers above event streams, where there are enough of them.
const TIER_CONNECTIONS: usize = 8;
/// Large answers under way at one time.
pub const MAX_LARGE_ANSWERS: usize = 256;
/// Commands under way at one time.
pub const MAX_COMMANDS: usize = 64;
/// A reader that took nothing for this long may be shed.
const STALLED_AFTER: Duration = Duration::from_millis(250);
/// A large answer may be shed for another one when its reader has had this long.
pub(super) const MIN_READ_TIME: Duration = Duration::from_secs(10);
/// How long a newcomer waits for a place in a table full of connections that are all being answered.
const ADMIT_PATIENCE: Duration = Duration::from_millis(500);
/// How often it looks for one meanwhile.
const ADMIT_RETRY: Duration = Duration::from_millis(20);

/// How many of what, derived from the two figures of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// Connections open at one time, event streams included.
    pub(super) connections: usize,
    /// Event streams.
    pub(super) streams: usize,
    /// Connections that the tiers above keep free.
    tier: usize,
}

impl Limits {
    pub(super) fn new(connections: usize, streams: usize) -> Self {
        let connections = connections.max(MIN_CONNECTIONS);
        let tier = (connections / (3 * TIER_CONNECTIONS)).clamp(1, TIER_CONNECTIONS);
        Self { connections, streams: streams.clamp(1, connections - 3 * tier), tier }
    }

    /// The most of one kind.
    fn of(self, kind: Kind) -> usize {
        match kind {
            Kind::Short => self.connections,
            Kind::Stream => self.streams,
            Kind::Large => MAX_LARGE_ANSWERS.min(self.connections / 2),
            Kind::Command => MAX_COMMANDS.min(self.connections / 2),
        }
    }

    /// The most of this kind and the kinds below it together.
    fn tier(self, kind: Kind) -> usize {
        match kind {
            Kind::Short => self.connections,
            Kind::Stream => self.connections - 3 * self.tier,
            Kind::Large => self.connections - 2 * self.tier,
            Kind::Command => self.connections - self.tier,
        }
    }
}

/// What a connection is used for, from what yields to what does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Kind {
    /// An event stream.
    Stream,
    /// An answer of many bytes.
    Large,
    /// A command, which takes as long as the cluster does.
    Command,
    /// Anything else, waiting for a request included.
    Short,
}

/// What a connection is waiting for.
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

/// One open connection.
#[derive(Debug)]
pub(super) struct Line {
    id: u64,
    epoch: Instant,
    phase: AtomicU8,
    kind: AtomicU8,
    /// Milliseconds since `epoch` at which it was accepted, or bytes of an answer left last.
    progress: AtomicU64,
    /// Milliseconds since `epoch` at which `kind` began.
    since: AtomicU64,
    shed: CancellationToken,
    /// Cancelled when its descriptor has been given back.
    gone: CancellationToken,
    has_ended: AtomicBool,
    ended: Notify,
}

impl Line {
    fn new(id: u64, epoch: Instant, shed: CancellationToken) -> Self {
        let line = Self {
            id,
            epoch,
            phase: AtomicU8::new(Phase::Busy as u8),
            kind: AtomicU8::new(Kind::Short as u8),
            progress: AtomicU64::new(0),
            since: AtomicU64::new(0),
            shed,
            gone: CancellationToken::new(),
            has_ended: AtomicBool::new(false),
            ended: Notify::new(),
        };
        line.got_on();
        line
    }

    /// Its peer took bytes.
    pub(super) fn got_on(&self) {
        self.progress.store(self.now(), Ordering::Relaxed);
        self.set_phase(Phase::Busy);
    }

    pub(super) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    fn is_in(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Relaxed) == phase as u8
    }

    pub(super) fn is(&self, kind: Kind) -> bool {
        self.kind.load(Ordering::Relaxed) == kind as u8
    }

    fn become_kind(&self, kind: Kind) {
        self.since.store(self.now(), Ordering::Relaxed);
        self.kind.store(kind as u8, Ordering::Relaxed);
    }

    /// The peer will send nothing more: it hung up, or closed its half.
    pub(super) fn end(&self) {
        if !self.has_ended.swap(true, Ordering::Relaxed) {
            self.ended.notify_one();
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// Waits for [`Line::end`].
    pub(super) async fn ended(&self) {
        if !self.has_ended() {
            self.ended.notified().await;
        }
    }

    /// Waits until the connection has to be dropped at once.
    pub(super) async fn shed(&self) {
        self.shed.cancelled().await;
    }

    /// Waits until the connection is closed.
    pub(super) async fn gone(&self) {
        self.gone.cancelled().await;
    }

    fn now(&self) -> u64 {
        self.epoch.elapsed().as_millis() as u64
    }

    fn is_stalled(&self) -> bool {
        let quiet = self.now().saturating_sub(self.progress.load(Ordering::Relaxed));
        self.is_in(Phase::Writing) && quiet >= STALLED_AFTER.as_millis() as u64
    }

    fn is_overdue(&self) -> bool {
        let age = self.now().saturating_sub(self.since.load(Ordering::Relaxed));
        self.is(Kind::Large) && age >= MIN_READ_TIME.as_millis() as u64
    }
}

/// The connections, and what was counted about them.
#[derive(Debug)]
pub(super) struct Table {
    limits: Limits,
    epoch: Instant,
    lines: Mutex<Lines>,
    shed: AtomicU64,
    refused: AtomicU64,
    accept_errors: AtomicU64,
    panics: AtomicU64,
    /// Cancelled when all connections have to end.
    close: CancellationToken,
}

#[derive(Debug, Default)]
struct Lines {
    open: BTreeMap<u64, Arc<Line>>,
    last: u64,
}

/// What was counted, for metrics.
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
    /// The one without progress for the longest among those that may go.
    fn longest_without_progress(&self, may_go: impl Fn(&Line) -> bool) -> Option<Arc<Line>> {
        let candidates = self.open.values().filter(|line| may_go(line));
        candidates.min_by_key(|line| line.progress.load(Ordering::Relaxed)).cloned()
    }

    /// The one that has been of this kind for the longest.
    fn oldest(&self, kind: Kind) -> Option<Arc<Line>> {
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
    /// An empty table; its connections end with `close`.
    pub(super) fn new(limits: Limits, close: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            limits,
            epoch: Instant::now(),
            lines: Mutex::default(),
            shed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            accept_errors: AtomicU64::new(0),
            panics: AtomicU64::new(0),
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

    /// A place for a new connection, another one's if need be; `None` if all are being answered and none gets done.
    pub(super) async fn admit(self: &Arc<Self>) -> Option<Seat> {
        let deadline = Instant::now() + ADMIT_PATIENCE;
        loop {
            let is_urgent = Instant::now() >= deadline;
            if let Some(seat) = self.try_admit(is_urgent) {
                return Some(seat);
            }
            if is_urgent {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return None;
            }
            tokio::time::sleep(ADMIT_RETRY).await;
        }
    }

    fn try_admit(self: &Arc<Self>, is_urgent: bool) -> Option<Seat> {
        let mut lines = self.lines();
        if lines.open.len() >= self.limits.connections {
            let waiting = lines.longest_without_progress(|line| line.is_in(Phase::Reading));
            let stalled = || lines.longest_without_progress(Line::is_stalled);
            let slow = || lines.longest_without_progress(|line| is_urgent && line.is_in(Phase::Writing));
            let victim = waiting.or_else(stalled).or_else(slow)?;
            self.shed(&mut lines, &victim);
        }
        lines.last += 1;
        let line = Arc::new(Line::new(lines.last, self.epoch, self.close.child_token()));
        lines.open.insert(line.id, Arc::clone(&line));
        Some(Seat { line, table: Arc::clone(self) })
    }

    fn shed(&self, lines: &mut Lines, victim: &Line) {
        lines.open.remove(&victim.id);
        victim.shed.cancel();
        self.shed.fetch_add(1, Ordering::Relaxed);
    }

    /// Sheds one connection to have its descriptor: one that waits for its peer, else the oldest event stream (its reader
    /// comes back and goes on where it was), else a reader that takes nothing, else the oldest large answer. The one that is
    /// shed; `None` if there are only commands and short answers.
    pub(super) fn shed_for_descriptor(&self) -> Option<Arc<Line>> {
        let mut lines = self.lines();
        let waiting = lines.longest_without_progress(|line| line.is_in(Phase::Reading) && !line.is(Kind::Stream));
        let stream = || lines.oldest(Kind::Stream);
        let stalled = || lines.longest_without_progress(Line::is_stalled);
        let large = || lines.oldest(Kind::Large);
        let victim = waiting.or_else(stream).or_else(stalled).or_else(large)?;
        self.shed(&mut lines, &victim);
        Some(victim)
    }

    /// Counts a connection as one of a kind for as long as the result lives; `None` if there are too many, all of them
    /// with readers that read.
    pub(super) fn enter(self: &Arc<Self>, line: &Arc<Line>, kind: Kind) -> Option<Hold> {
        let mut lines = self.lines();
        while lines.of(kind) >= self.limits.of(kind) || lines.up_to(kind) >= self.limits.tier(kind) {
            let is_full = lines.of(kind) >= self.limits.of(kind);
            let counts = |line: &Line| {
                if is_full { line.is(kind) } else { line.kind.load(Ordering::Relaxed) <= kind as u8 }
            };
            let stalled = lines.longest_without_progress(|line| counts(line) && line.is_stalled());
            let overdue = || lines.longest_without_progress(|line| counts(line) && line.is_overdue());
            let victim = stalled.or_else(overdue)?;
            self.shed(&mut lines, &victim);
        }
        line.become_kind(kind);
        Some(Hold { line: Arc::clone(line) })
    }

    /// Sheds one large answer that nobody reads. Whether there was one.
    pub(super) fn shed_stalled_answer(&self) -> bool {
        let mut lines = self.lines();
        let may_go = |line: &Line| line.is(Kind::Large) && (line.is_stalled() || line.is_overdue());
        let victim = lines.longest_without_progress(may_go);
        if let Some(victim) = &victim {
            self.shed(&mut lines, victim);
        }
        victim.is_some()
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
    pub(super) line: Arc<Line>,
    table: Arc<Table>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.table.panics.fetch_add(1, Ordering::Relaxed);
        }
        let line = self.table.lines().open.remove(&self.line.id);
        drop(line);
        // The connection itself was dropped before.
        self.line.gone.cancel();
    }
}

/// A connection's time as one of a kind.
#[derive(Debug)]
pub(super) struct Hold {
    line: Arc<Line>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.line.become_kind(Kind::Short);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(connections: usize, streams: usize) -> Arc<Table> {
        Table::new(Limits::new(connections, streams), CancellationToken::new())
    }

    async fn admit(table: &Arc<Table>) -> Seat {
        table.admit().await.expect("a place")
    }

    /// A full table of connections that are being answered.
    async fn full(table: &Arc<Table>) -> Vec<Seat> {
        let mut seats = Vec::new();
        for _ in 0..table.limits.connections {
            seats.push(admit(table).await);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        seats
    }

    fn shed(seats: &[Seat]) -> Vec<usize> {
        (0..seats.len()).filter(|at| seats[*at].line.shed.is_cancelled()).collect()
    }

    #[test]
    fn every_tier_keeps_room_for_those_above_it_whatever_the_limits() {
        for connections in (0..200).chain([512, 1_024, 65_536]) {
            for streams in [0, 1, 100, 1_024, usize::MAX] {
                let limits = Limits::new(connections, streams);
                let tiers = [Kind::Stream, Kind::Large, Kind::Command, Kind::Short].map(|kind| limits.tier(kind));
                assert!(tiers.is_sorted_by(|below, above| below < above), "{limits:?}: {tiers:?}");
                assert!((1..=tiers[0]).contains(&limits.streams), "{limits:?}");
                assert!(limits.of(Kind::Large) > 0 && limits.of(Kind::Command) > 0);
            }
        }
        assert_eq!(Limits::new(1_024, 1_024).streams, 1_000, "the documented figure");
    }

    #[tokio::test(start_paused = true)]
    async fn the_one_that_owes_a_request_for_the_longest_goes_first() {
        let table = table(8, 8);
        let mut seats = full(&table).await;
        for at in [5, 3, 6] {
            seats[at].line.set_phase(Phase::Reading);
        }
        seats.push(admit(&table).await);
        assert_eq!(shed(&seats), [3]);
        // An answer makes a connection young again.
        seats[5].line.got_on();
        seats[5].line.set_phase(Phase::Reading);
        seats.push(admit(&table).await);
        assert_eq!(shed(&seats), [3, 6]);
        assert_eq!((table.figures().connections, table.figures().shed), (8, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn then_go_readers_that_take_nothing_and_answers_last() {
        let table = table(8, 8);
        let mut seats = full(&table).await;
        for at in [4, 2] {
            seats[at].line.got_on();
            seats[at].line.set_phase(Phase::Writing);
        }
        tokio::time::advance(STALLED_AFTER).await;
        seats[2].line.got_on();
        seats[2].line.set_phase(Phase::Writing);
        seats.push(admit(&table).await);
        assert_eq!(shed(&seats), [4], "the other one got on a moment ago");
        let begun = Instant::now();
        seats.push(admit(&table).await);
        assert_eq!(shed(&seats), [2, 4], "somebody must go");
        assert!(begun.elapsed() <= ADMIT_PATIENCE + ADMIT_RETRY);
        assert!(table.admit().await.is_none(), "those that are being answered stay");
        assert_eq!((table.figures().refused, table.figures().connections), (1, 8));
        drop(seats.pop());
        admit(&table).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_descriptor_is_taken_from_who_waits_then_from_the_oldest_stream_and_never_from_a_command() {
        let table = table(32, 8);
        let mut seats = Vec::new();
        for _ in 0..7 {
            seats.push(admit(&table).await);
        }
        let mut holds = Vec::new();
        for (at, kind) in [(2, Kind::Large), (1, Kind::Stream), (0, Kind::Stream), (3, Kind::Command), (6, Kind::Large)]
        {
            holds.push(table.enter(&seats[at].line, kind).expect("a place"));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        seats[6].line.set_phase(Phase::Writing);
        seats[5].line.set_phase(Phase::Reading);
        tokio::time::advance(STALLED_AFTER).await;
        let mut order = Vec::new();
        while let Some(victim) = table.shed_for_descriptor() {
            order.extend(seats.iter().position(|seat| Arc::ptr_eq(&seat.line, &victim)));
        }
        assert_eq!(order, [5, 1, 0, 6, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_that_lasts_takes_the_places_of_what_is_above_it() {
        let table = table(48, 1_000);
        let mut seats = Vec::new();
        let mut holds = Vec::new();
        let mut fill = async |kind: Kind| {
            let before = holds.len();
            loop {
                let seat = admit(&table).await;
                let hold = table.enter(&seat.line, kind);
                let is_full = hold.is_none();
                holds.extend(hold);
                if is_full {
                    break;
                }
                seats.push(seat);
            }
            holds.len() - before
        };
        assert_eq!(fill(Kind::Stream).await, 42);
        assert_eq!(fill(Kind::Large).await, 2);
        assert_eq!(fill(Kind::Command).await, 2);
        assert_eq!(table.figures().streams, 42);
        assert_eq!(table.figures().connections, 46, "two are left for short answers");
        drop(holds);
        assert_eq!(table.figures().streams, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_nobody_reads_makes_room_for_one_that_somebody_does() {
        let table = table(8, 2);
        let seats = [admit(&table).await, admit(&table).await, admit(&table).await];
        let _first = table.enter(&seats[0].line, Kind::Stream).expect("a place");
        let _second = table.enter(&seats[1].line, Kind::Stream).expect("a place");
        assert!(table.enter(&seats[2].line, Kind::Stream).is_none());
        seats[1].line.set_phase(Phase::Writing);
        assert!(table.enter(&seats[2].line, Kind::Stream).is_none(), "not yet");
        tokio::time::advance(STALLED_AFTER).await;
        let _third = table.enter(&seats[2].line, Kind::Stream).expect("a place");
        assert_eq!(shed(&seats), [1]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_answer_yields_to_another_when_it_had_its_time() {
        let table = table(8, 2);
        let mut seats = Vec::new();
        let mut holds = Vec::new();
        for _ in 0..table.limits.of(Kind::Large) {
            let seat = admit(&table).await;
            holds.push(table.enter(&seat.line, Kind::Large).expect("a place"));
            seats.push(seat);
        }
        let late = admit(&table).await;
        assert!(table.enter(&late.line, Kind::Large).is_none());
        tokio::time::advance(MIN_READ_TIME).await;
        holds.push(table.enter(&late.line, Kind::Large).expect("a place"));
        assert_eq!(shed(&seats).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_is_counted_and_leaves_a_free_place() {
        let table = table(8, 2);
        let seat = admit(&table).await;
        let task = tokio::spawn(async move {
            let _seat = seat;
            panic!("on purpose");
        });
        assert!(task.await.expect_err("it panics").is_panic());
        assert_eq!((table.figures().panics, table.figures().connections), (1, 0));
    }
}
