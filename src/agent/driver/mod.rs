//! The driver: one task that owns the core and is the only one to touch it, on a thread of its own.
//!
//! ```text
//!   socket, deadline, commands, lookups, disk ──▶ Core::handle ──▶ Core::poll until None ──▶ socket, bus, callers, disk
//! ```
//!
//! Invariants:
//! - Every input is followed by draining the core's outputs, and the clock is read once per input.
//! - Before time is judged ([`Input::Tick`]), what has already arrived is handed in: a process that was stopped for a
//!   minute must not accuse peers whose packets wait in its own socket.
//! - Nothing in the loop blocks: lookups, writes and log lines are other threads' work, sends do not wait, and whoever waits
//!   for an answer waits on a channel of its own.
//! - Members that were gone before this node was Up are listed, and are no news: a restart must not replay a day of deaths
//!   into somebody's alerts.
//! - Whoever is answered reads what it did: figures, members and leadership are published before the answer is given.
//! - The driver does not keep its own agent alive: it holds no handle, and when the last one is gone it ends.
//!
//! This file owns the task, its state and its loop. `sealing` has the seals of datagrams, `request` has what handles and other agents ask
//! for, `arrivals` what sockets, links and lookups bring, `workload` the share of a delay that was work, `outputs` what
//! the core wants done.
//!
//! Must not know: what packets say, when to do what. The core decides, the driver obeys.

mod arrivals;
mod outputs;
mod request;
mod sealing;
#[cfg(test)]
mod tests;
mod workload;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use self::request::Caller;
use self::workload::Workload;
use super::clock::Clock;
use super::error::{Failure, Stop};
use super::keys::KeyResponder;
use super::request::Request;
use super::shared::Shared;
use crate::core::election::{Electorate, EndedElectorate, Term};
use crate::core::{Core, Input, LinkId, NodeId, Reply, Ticket, Time};
use crate::seal::DatagramSealer;
use crate::store::StateWriter;
use crate::transport::links::Links;
use crate::transport::resolve::{Found, Resolver, SeedLookup};
use crate::transport::sealing::Sealing;
use crate::transport::sources::SeedSources;
use crate::transport::udp::{MAX_DATAGRAM_BYTES, Udp};

/// Requests that may wait for the driver; further callers wait for room.
pub(super) const MAX_QUEUED_REQUESTS: usize = 64;

/// The longest sleep before the clock is looked at again: it counts time in which the machine is suspended, the
/// runtime's timers do not, and a machine that wakes should know soon how late it is.
const MAX_NAP: Duration = Duration::from_secs(1);

/// The parts that a driver is made of.
pub(super) struct Parts {
    pub(super) core: Core,
    pub(super) clock: Clock,
    pub(super) socket: Udp,
    pub(super) links: Links,
    pub(super) sealing: Sealing,
    pub(super) sealer: DatagramSealer,
    pub(super) key_responder: KeyResponder,
    pub(super) resolver: Resolver,
    pub(super) seeds: SeedSources,
    pub(super) state_writer: StateWriter,
    pub(super) requests: mpsc::Receiver<Request>,
    pub(super) shared: Arc<Shared>,
}

/// The task's state.
pub(super) struct Driver {
    parts: Parts,
    buffer: Box<[u8; MAX_DATAGRAM_BYTES + 1]>,
    /// The packet in the last sealed datagram.
    opened: Vec<u8>,
    /// True once the core was told to leave room for seals: it is not taken back.
    leaves_room: bool,
    /// The lookup under way, if any: one at a time, since its answer serves every question asked meanwhile.
    lookup: Option<SeedLookup>,
    /// The addresses known of each seed; a name that is being looked up keeps its last ones.
    seed_addresses: BTreeMap<String, Vec<SocketAddr>>,
    /// Seeds that the lookup under way has found.
    seeds_found: BTreeSet<String>,
    /// Callers that wait for the core's answer, at most [`MAX_PENDING_COMMANDS`](crate::core::limits::MAX_PENDING_COMMANDS).
    waiting: BTreeMap<Ticket, Caller>,
    /// The core's answers since the figures were published last: whoever has its answer finds what it did in the figures.
    answered: Vec<(Caller, Reply)>,
    /// Connections by which other agents call, the one that was used last at the end; at most [`Links::share`].
    calling: VecDeque<LinkId>,
    last_ticket: Ticket,
    /// Errors since the last datagram.
    errors_in_a_row: usize,
    /// The end of the pause in which the socket is left alone.
    paused_until: Option<Instant>,
    writer_died: bool,
    /// The core wants something stored, and nobody stores it any more.
    is_unwritten: bool,
    /// The wall clock, which the core found behind.
    wall_clock: Option<u64>,
    /// Pieces of led work that are not gone yet.
    led_work: watch::Receiver<usize>,
    /// The term whose led work is to end before leadership is handed over.
    ending: Option<Term>,
    leaders_elected: u64,
    /// The time at which this node became a member.
    up_since: Option<Time>,
    /// The time at which the operator was told last that the state is not stored.
    told_not_stored: Option<Instant>,
    /// Time at which the log first said that state is not stored; `None` if something was stored since.
    unstored_since: Option<Instant>,
    /// The time at which the operator was told last of a leader in another mode of leadership than that of this node.
    told_other_mode: Option<Instant>,
    /// The electorate that was published last.
    electorate: Option<Arc<Electorate>>,
    /// The missing members of a suspected partition that were published last.
    unreachable: Arc<Vec<NodeId>>,
    /// The electorate that was published last as the one that ended.
    ended: Option<Arc<EndedElectorate>>,
    end: Option<Stop>,
    workload: Workload,
}

impl Driver {
    /// Takes the parts and carries out what the core wants done first, so that whoever holds a handle afterwards finds
    /// this node in its directory. Inside a tokio runtime.
    pub(super) fn new(parts: Parts) -> Self {
        let mut driver = Self {
            led_work: parts.shared.publisher.running(),
            ending: None,
            leaders_elected: 0,
            up_since: None,
            told_not_stored: None,
            unstored_since: None,
            told_other_mode: None,
            electorate: None,
            unreachable: Arc::default(),
            ended: None,
            seed_addresses: BTreeMap::new(),
            seeds_found: BTreeSet::new(),
            parts,
            buffer: Box::new([0; MAX_DATAGRAM_BYTES + 1]),
            opened: Vec::with_capacity(MAX_DATAGRAM_BYTES),
            leaves_room: false,
            lookup: None,
            waiting: BTreeMap::new(),
            answered: Vec::new(),
            calling: VecDeque::new(),
            last_ticket: 0,
            errors_in_a_row: 0,
            paused_until: None,
            writer_died: false,
            is_unwritten: false,
            wall_clock: None,
            end: None,
            workload: Workload::default(),
        };
        let now = driver.parts.clock.now();
        driver.leave_room_for_seals();
        driver.drain(now);
        driver.publish_figures();
        driver
    }

    /// Runs until something ends it.
    pub(super) async fn run(mut self) -> Stop {
        loop {
            self.begin_round();
            if let Some(end) = self.end.take() {
                return end;
            }
            let deadline = self.parts.core.next_deadline();
            self.workload.begin(self.parts.clock.now(), deadline);
            tokio::select! {
                () = self.parts.shared.cancel.cancelled() => self.end = Some(self.parts.shared.cancelled_by()),
                request = self.parts.requests.recv() => match request {
                    Some(request) => self.ask(request),
                    None => self.end = Some(Stop::Dropped),
                },
                readable = self.parts.socket.readable(), if self.paused_until.is_none() => match readable {
                    Ok(()) => self.receive(),
                    Err(error) => self.fail(Failure::new("gossip socket", error.to_string())),
                },
                () = sleep_until(self.paused_until), if self.paused_until.is_some() => self.paused_until = None,
                event = self.parts.links.next() => match event {
                    Ok((link, event)) => self.link(link, &event),
                    Err(died) => self.parts.shared.report(Failure::of("links", died)),
                },
                lateness = due(&self.parts.clock, deadline, &self.parts.shared) => self.judge(lateness).await,
                found = found(&mut self.lookup) => self.found(found),
                written = self.parts.state_writer.written(), if !self.writer_died => self.written(written),
                () = all_gone(&mut self.led_work), if self.ending.is_some() => self.work_ended(),
            }
        }
    }

    /// Does what is due before anything is waited for.
    fn begin_round(&mut self) {
        self.parts.shared.moved();
        self.parts.shared.journal.sum_up();
        // Keys may have come since the last round.
        self.leave_room_for_seals();
        self.publish_figures();
        self.answer();
    }

    /// Hands the core an input and carries out what it wants.
    fn feed(&mut self, input: Input<'_>) {
        if self.end.is_none() {
            let now = self.parts.clock.now();
            self.tell_work(now);
            let is_tick = matches!(input, Input::Tick);
            self.parts.core.handle(now, input);
            self.drain(now);
            if is_tick {
                // The next deadline may have passed already, by the work of this one.
                self.workload.begin_anew();
            }
        }
    }

    /// Tells the core, before an input that comes late, how much of the delay was this driver's own work.
    fn tell_work(&mut self, now: Time) {
        if let Some(worked) = self.workload.of_delay(now, self.parts.core.next_deadline()) {
            self.parts.core.handle(now, Input::Worked(worked));
        }
    }

    fn work_ended(&mut self) {
        if let Some(term) = self.ending.take() {
            self.feed(Input::WorkEnded { term });
        }
    }

    fn fail(&mut self, failure: Failure) {
        self.end.get_or_insert(Stop::Failed(failure));
    }
}

/// Waits until the core wants to be called, for ever if it does not. Returns how late it is then.
async fn due(clock: &Clock, deadline: Option<Time>, shared: &Shared) -> Duration {
    loop {
        let now = clock.now();
        let remaining = deadline.map_or(MAX_NAP, |deadline| deadline.since(now));
        if let Some(deadline) = deadline
            && remaining.is_zero()
        {
            return now.since(deadline);
        }
        tokio::time::sleep(remaining.min(MAX_NAP)).await;
        shared.moved();
    }
}

/// Waits until no led work is left.
async fn all_gone(led_work: &mut watch::Receiver<usize>) {
    // An error would mean that the publisher is gone, and with it everything that is led.
    let _ = led_work.wait_for(|running| *running == 0).await;
}

async fn sleep_until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// Waits for what the lookup under way finds next, for ever if there is none. `None` when it is over.
async fn found(lookup: &mut Option<SeedLookup>) -> Option<Found> {
    match lookup {
        Some(lookup) => lookup.next().await,
        None => std::future::pending().await,
    }
}
