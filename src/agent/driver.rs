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
//! - The driver does not keep its own agent alive: it holds no handle, and when the last one is gone it ends.
//!
//! Must not know: what packets say, when to do what. The core decides, the driver obeys.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::yield_now;
use tokio::time::Instant;
use tracing::Level;

use super::clock::Clock;
use super::error::{Failure, Stop};
use super::shared::{Figures, Shared};
#[cfg(feature = "agent")]
use crate::core::Direct;
use crate::core::election::{Election, Electorate, Term};
use crate::core::limits::MAX_PENDING_COMMANDS;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
use crate::core::wire::LeaseWord;
use crate::core::{
    Change, ChangeKind, Command, CommandError, Core, Input, LinkEvent, LinkId, MessageId, NodeId, Output, Payload,
    Reply, Status, StopReason, Tags, Ticket, Time, Topic,
};
use crate::event::EventKind;
use crate::store::{Durability, Stored, WriterDied, Written};
use crate::transport::links::{self, Links};
use crate::transport::resolve::{Found, Resolver, SeedLookup};
use crate::transport::udp::{MAX_DATAGRAM_BYTES, Received, Trouble, Udp};

/// Requests that may wait for the driver; further callers wait for room.
pub(super) const MAX_QUEUED_REQUESTS: usize = 64;

/// Datagrams taken from the socket in one go, so that a flood cannot keep commands and deadlines waiting.
const MAX_BATCH: usize = 256;

/// Datagrams that are handed in before time is judged: more than the receive buffer holds. What comes on top of that has
/// arrived after we began to look.
const MAX_BACKLOG: usize = 8_192;

/// A driver that is called later than this lets its links catch up with the sockets before it judges time.
const LATE: Duration = Duration::from_millis(20);

/// In one turn the runtime looks at the sockets, in the next the links read them, whichever task comes first.
const TURNS_FOR_LINKS: usize = 3;

/// After this many errors of our own system in a row the socket is left alone for [`ERROR_PAUSE`]: an error that
/// does not pass must not become a loop that eats a core.
const MAX_ERRORS_IN_A_ROW: usize = 16;

/// See [`MAX_ERRORS_IN_A_ROW`].
const ERROR_PAUSE: Duration = Duration::from_millis(50);

/// The longest sleep before the clock is looked at again: it counts time in which the machine is suspended, the
/// runtime's timers do not, and a machine that wakes should know soon how late it is.
const MAX_NAP: Duration = Duration::from_secs(1);

/// What programs say to each other.
#[derive(Debug)]
pub(super) enum Say {
    /// [`Command::Broadcast`].
    Broadcast { topic: Topic, payload: Payload },
    /// [`Command::Send`].
    Send { to: NodeId, topic: Topic, payload: Payload },
    /// [`Command::Request`].
    Request { to: NodeId, topic: Topic, payload: Payload, timeout: Duration },
    /// [`Command::Answer`].
    Answer { request: MessageId, payload: Payload },
    /// [`Command::Deliver`].
    #[cfg(feature = "agent")]
    Deliver(Direct),
}

impl Say {
    fn command(self, ticket: Ticket) -> Command {
        match self {
            Say::Broadcast { topic, payload } => Command::Broadcast { ticket, topic, payload },
            Say::Send { to, topic, payload } => Command::Send { ticket, to, topic, payload },
            Say::Request { to, topic, payload, timeout } => Command::Request { ticket, to, topic, payload, timeout },
            Say::Answer { request, payload } => Command::Answer { ticket, request, payload },
            #[cfg(feature = "agent")]
            Say::Deliver(direct) => Command::Deliver { ticket, direct },
        }
    }
}

/// What handles ask the driver for.
#[derive(Debug)]
pub(super) enum Request {
    /// One of the commands about messages.
    Say { what: Say, answer: oneshot::Sender<Reply> },
    /// [`Command::Join`].
    Join { addresses: Vec<SocketAddr>, answer: oneshot::Sender<Reply> },
    /// [`Command::Remove`].
    Remove { id: NodeId, force: bool, answer: oneshot::Sender<Reply> },
    /// [`Command::SetTags`].
    SetTags { tags: Tags, answer: oneshot::Sender<Reply> },
    /// [`Command::SetAddress`].
    SetAddress { address: SocketAddr, answer: oneshot::Sender<Reply> },
    /// [`Command::AddVoter`].
    AddVoter { id: NodeId, answer: oneshot::Sender<Reply> },
    /// [`Command::ReplaceVoter`].
    ReplaceVoter { old: NodeId, new: NodeId, answer: oneshot::Sender<Reply> },
    /// [`Command::RemoveVoter`].
    RemoveVoter { id: NodeId, answer: oneshot::Sender<Reply> },
    /// [`Command::Resign`].
    Resign { to: Option<NodeId>, answer: oneshot::Sender<Reply> },
    /// [`Command::ConfirmLeadership`].
    ConfirmLeadership { answer: oneshot::Sender<Reply> },
    /// [`Command::Recover`].
    Recover { voters: Vec<NodeId>, answer: oneshot::Sender<Reply> },
    /// [`Command::FoundAnew`].
    FoundAnew { voters: Vec<NodeId>, answer: oneshot::Sender<Reply> },
    /// [`Command::TellLease`].
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    TellLease(LeaseWord),
    /// [`Command::Leave`]; the answer is the end of the driver.
    Leave,
}

/// What the driver is made of.
pub(super) struct Parts {
    pub(super) core: Core,
    pub(super) clock: Clock,
    pub(super) socket: Udp,
    pub(super) links: Links,
    pub(super) resolver: Resolver,
    pub(super) seeds: Arc<[String]>,
    pub(super) durability: Durability,
    pub(super) requests: mpsc::Receiver<Request>,
    pub(super) shared: Arc<Shared>,
}

/// The task's state.
pub(super) struct Driver {
    parts: Parts,
    buffer: Box<[u8; MAX_DATAGRAM_BYTES + 1]>,
    /// The lookup under way, if any: one at a time, since its answer serves every question asked meanwhile.
    lookup: Option<SeedLookup>,
    /// The addresses known of each seed; a name that is being looked up keeps its last ones.
    seed_addresses: Vec<Vec<SocketAddr>>,
    /// Seeds that the lookup under way has found.
    seeds_found: usize,
    /// Callers that wait for the core's answer, at most [`MAX_PENDING_COMMANDS`].
    waiting: BTreeMap<Ticket, oneshot::Sender<Reply>>,
    last_ticket: Ticket,
    /// Errors since the last datagram.
    errors_in_a_row: usize,
    /// Until when the socket is left alone.
    paused_until: Option<Instant>,
    writer_died: bool,
    /// The core wants something stored, and nobody stores it any more.
    is_unwritten: bool,
    /// Pieces of led work that are not gone yet.
    led_work: watch::Receiver<usize>,
    /// The term whose led work is to end before leadership is handed over.
    ending: Option<Term>,
    leaders_elected: u64,
    /// Since when this node has been a member.
    up_since: Option<Time>,
    /// The electorate that was published last.
    electorate: Option<Arc<Electorate>>,
    end: Option<Stop>,
}

impl Driver {
    /// Takes the parts and carries out what the core wants done first, so that whoever holds a handle afterwards finds
    /// this node in its directory. Inside a tokio runtime.
    pub(super) fn new(parts: Parts) -> Self {
        let mut driver = Self {
            led_work: parts.shared.office.running(),
            ending: None,
            leaders_elected: 0,
            up_since: None,
            electorate: None,
            seed_addresses: vec![Vec::new(); parts.seeds.len()],
            seeds_found: 0,
            parts,
            buffer: Box::new([0; MAX_DATAGRAM_BYTES + 1]),
            lookup: None,
            waiting: BTreeMap::new(),
            last_ticket: 0,
            errors_in_a_row: 0,
            paused_until: None,
            writer_died: false,
            is_unwritten: false,
            end: None,
        };
        let now = driver.parts.clock.now();
        driver.drain(now);
        driver.publish_figures();
        driver
    }

    /// Runs until something ends it.
    pub(super) async fn run(mut self) -> Stop {
        loop {
            self.parts.shared.moved();
            self.publish_figures();
            if let Some(end) = self.end.take() {
                return end;
            }
            let deadline = self.parts.core.next_deadline();
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
                written = self.parts.durability.written(), if !self.writer_died => self.written(written),
                () = all_gone(&mut self.led_work), if self.ending.is_some() => self.work_ended(),
            }
        }
    }

    /// Lets time pass, once everything that has arrived is handed in.
    async fn judge(&mut self, lateness: Duration) {
        if lateness >= LATE {
            // Links are read by tasks of this thread, which had no turn either.
            for _ in 0..TURNS_FOR_LINKS {
                yield_now().await;
            }
        }
        self.receive_backlog();
        self.receive_links();
        self.feed(Input::Tick);
    }

    /// Hands the core an input and carries out what it wants.
    fn feed(&mut self, input: Input<'_>) {
        if self.end.is_none() {
            let now = self.parts.clock.now();
            self.parts.core.handle(now, input);
            self.drain(now);
        }
    }

    /// Hands in what is known to have arrived, up to a bound.
    fn receive(&mut self) {
        for _ in 0..MAX_BATCH {
            let received = self.parts.socket.receive(&mut self.buffer);
            if !self.take(received) {
                return;
            }
        }
    }

    /// Hands in what waits in the socket, whether or not the runtime has come to look at it.
    fn receive_backlog(&mut self) {
        if self.paused_until.is_some() {
            return;
        }
        for _ in 0..MAX_BACKLOG {
            let received = self.parts.socket.receive_now(&mut self.buffer);
            if !self.take(received) {
                return;
            }
        }
    }

    /// Deals with one attempt to receive, and says whether to try again.
    fn take(&mut self, received: Received) -> bool {
        match received {
            Received::Empty => return false,
            Received::Datagram { from, length } => {
                self.errors_in_a_row = 0;
                let now = self.parts.clock.now();
                self.parts.core.handle(now, Input::Packet { from, bytes: &self.buffer[..length] });
                self.drain(now);
            }
            Received::Trouble(Trouble::Fatal) => {
                self.fail(Failure::new("gossip socket", "the system no longer knows it"));
            }
            // What peers and routers can provoke is used up by being reported, and must not be a way to stop us.
            Received::Trouble(Trouble::TooLong | Trouble::PeerRefused | Trouble::Unreachable) => {}
            Received::Trouble(Trouble::NoBuffers | Trouble::Other) => {
                self.errors_in_a_row += 1;
                if self.errors_in_a_row >= MAX_ERRORS_IN_A_ROW {
                    self.errors_in_a_row = 0;
                    self.paused_until = Some(Instant::now() + ERROR_PAUSE);
                    return false;
                }
            }
        }
        self.end.is_none()
    }

    /// Hands in what links have brought, up to a bound.
    fn receive_links(&mut self) {
        for _ in 0..MAX_BATCH {
            let Some((link, event)) = self.parts.links.try_next() else { return };
            self.link(link, &event);
        }
    }

    fn link(&mut self, link: LinkId, event: &links::Event) {
        let event = match event {
            links::Event::Connected => LinkEvent::Connected,
            links::Event::Refused => LinkEvent::Refused,
            links::Event::Unreachable => LinkEvent::Unreachable,
            links::Event::Frame(from, bytes) => LinkEvent::Frame { from: *from, bytes },
            links::Event::Closed => LinkEvent::Closed,
        };
        self.feed(Input::Link { link, event });
    }

    /// Passes a request on, under a ticket if it is answered.
    fn ask(&mut self, request: Request) {
        match request {
            Request::Say { what, answer } => self.ask_with_ticket(answer, |ticket| what.command(ticket)),
            Request::Leave => self.feed(Input::Command(Command::Leave)),
            #[cfg(any(feature = "sqlite", feature = "postgres"))]
            Request::TellLease(word) => self.feed(Input::Command(Command::TellLease(word))),
            Request::Join { addresses, answer } => {
                self.ask_with_ticket(answer, |ticket| Command::Join { ticket, addresses });
            }
            Request::Remove { id, force, answer } => {
                self.ask_with_ticket(answer, |ticket| Command::Remove { ticket, id, force });
            }
            Request::SetAddress { address, answer } => {
                self.ask_with_ticket(answer, |ticket| Command::SetAddress { ticket, address });
            }
            Request::AddVoter { id, answer } => {
                self.ask_with_ticket(answer, |ticket| Command::AddVoter { ticket, id });
            }
            Request::RemoveVoter { id, answer } => {
                self.ask_with_ticket(answer, |ticket| Command::RemoveVoter { ticket, id });
            }
            Request::ReplaceVoter { old, new, answer } => {
                self.ask_with_ticket(answer, |ticket| Command::ReplaceVoter { ticket, old, new });
            }
            Request::Resign { to, answer } => {
                self.ask_with_ticket(answer, |ticket| Command::Resign { ticket, to });
            }
            Request::ConfirmLeadership { answer } => {
                self.ask_with_ticket(answer, |ticket| Command::ConfirmLeadership { ticket });
            }
            Request::Recover { voters, answer } => {
                self.ask_with_ticket(answer, |ticket| Command::Recover { ticket, voters });
            }
            Request::FoundAnew { voters, answer } => {
                self.ask_with_ticket(answer, |ticket| Command::FoundAnew { ticket, voters });
            }
            Request::SetTags { tags, answer } => {
                self.ask_with_ticket(answer, |ticket| Command::SetTags { ticket, tags });
            }
        }
    }

    fn ask_with_ticket(&mut self, answer: oneshot::Sender<Reply>, command: impl FnOnce(Ticket) -> Command) {
        // A caller that went away needs no answer; the core's comes all the same and finds nobody.
        self.waiting.retain(|_, waiting| !waiting.is_closed());
        if self.waiting.len() >= MAX_PENDING_COMMANDS {
            let _ = answer.send(Reply::Refused(CommandError::Busy));
            return;
        }
        self.last_ticket += 1;
        self.waiting.insert(self.last_ticket, answer);
        self.feed(Input::Command(command(self.last_ticket)));
    }

    /// Some seeds were found, or all.
    fn found(&mut self, found: Option<Found>) {
        let is_over = found.is_none();
        let mut next = found;
        while let Some((place, addresses)) = next {
            self.seed_addresses[place] = addresses;
            self.seeds_found += 1;
            next = self.lookup.as_mut().and_then(SeedLookup::try_next);
        }
        let addresses = self.seed_addresses.clone();
        if is_over || self.seeds_found == self.parts.seeds.len() {
            self.lookup = None;
            self.feed(Input::SeedAddresses(addresses));
        } else {
            self.feed(Input::SomeSeedAddresses(addresses));
        }
    }

    fn written(&mut self, written: Result<Written, WriterDied>) {
        if let Ok(Written { stored, error }) = written {
            if let Some(Stored { incarnation_bound, ballot_version }) = stored {
                self.feed(Input::Persisted { incarnation_bound, ballot_version });
            }
            if let Some(error) = error {
                let text = format!("state not stored, which is tried again; what is stored already counts on: {error}");
                self.parts.shared.journal.say(Level::WARN, text);
                self.feed(Input::PersistFailed);
            }
            return;
        }
        // The node is still of use to the cluster; its operator learns it from its health.
        self.writer_died = true;
        self.parts.shared.report(Failure::new("state writer", "it ended before the agent"));
        // No ballot is written any more: as a voter it stands aside as soon as one would have to be.
        self.feed(Input::PersistFailed);
    }

    fn work_ended(&mut self) {
        if let Some(term) = self.ending.take() {
            self.feed(Input::WorkEnded { term });
        }
    }

    fn announce(&self, kind: EventKind) {
        let shared = &self.parts.shared;
        shared.journal.event(&shared.announce(kind, SystemTime::now()));
    }

    /// Takes a change to directory and subscribers. News of who was gone before this node was a member is no news.
    fn publish(&mut self, change: &Change, now: Time) {
        let Parts { core, shared, .. } = &self.parts;
        let (id, at) = (&change.record.id, SystemTime::now());
        if *id == shared.me {
            match change.record.status {
                Status::Joining => self.up_since = None,
                Status::Up => self.up_since = self.up_since.or(Some(now)),
                _ => {}
            }
        }
        let is_first_word = change.previous.is_none() && change.kind != ChangeKind::Removed;
        let was_gone_before = || match self.up_since {
            None => true,
            Some(since) => core.gone_for(id).is_some_and(|age| age > now.since(since)),
        };
        if is_first_word && matches!(change.record.status, Status::Down | Status::Left(_)) && was_gone_before() {
            shared.list(change, at);
        } else {
            shared.journal.event(&shared.publish(change, at));
        }
    }

    /// Carries out everything that the core wants done.
    fn drain(&mut self, now: Time) {
        loop {
            while let Some(output) = self.parts.core.poll() {
                self.carry_out(output, now);
            }
            if !std::mem::take(&mut self.is_unwritten) || self.end.is_some() {
                return;
            }
            self.parts.core.handle(now, Input::PersistFailed);
        }
    }

    fn carry_out(&mut self, output: Output, now: Time) {
        let Parts { core, socket, links, resolver, seeds, durability, shared, .. } = &mut self.parts;
        match output {
            Output::Transmit { to, bytes } => {
                // Counted where it failed. The protocol expects losses and repeats what matters.
                let _ = socket.send(to, &bytes);
            }
            Output::OpenLink { link, to } => links.open(link, to),
            Output::SendFrame { link, bytes } => links.send(link, bytes),
            Output::CloseLink { link } => links.close(link),
            Output::Change(change) => self.publish(&change, now),
            Output::PartitionSuspected { unreachable, reachable } => {
                self.announce(EventKind::PartitionSuspected { unreachable, reachable });
            }
            Output::PartitionHealed { unreachable, reachable } => {
                self.announce(EventKind::PartitionHealed { unreachable, reachable });
            }
            Output::Leadership(leadership) => shared.publish_leadership(leadership),
            Output::LeaderElected { leader, term } => {
                self.leaders_elected += 1;
                let member = shared.directory().member(&leader);
                self.announce(EventKind::LeaderElected { leader, member, term: term.0, lease: None });
            }
            Output::LeaderLost { leader, term, reason } => {
                let member = shared.directory().member(&leader);
                self.announce(EventKind::LeaderLost { leader, member, term: term.0, reason, lease: None });
            }
            // Leadership was published as ended before: no work begins any more, and what runs is told by that.
            Output::EndWork { term } => self.ending = Some(term),
            Output::Quorum { term, is_reached: true } => self.announce(EventKind::QuorumRegained { term: term.0 }),
            Output::Quorum { term, is_reached: false } => self.announce(EventKind::QuorumLost { term: term.0 }),
            Output::ViewAgreed(view) => {
                self.announce(EventKind::ViewAgreed { term: view.term.0, number: view.number });
            }
            Output::Heard(id) => shared.directory().heard(&id, now, core.rtt(&id)),
            Output::Persist(durable) => {
                durability.persist(durable);
                self.is_unwritten |= self.writer_died;
            }
            Output::ResolveSeeds => {
                if self.lookup.is_none() {
                    self.seeds_found = 0;
                    self.lookup = Some(resolver.look_up(seeds));
                }
            }
            Output::Reply { ticket, reply } => {
                if let Some(answer) = self.waiting.remove(&ticket) {
                    let _ = answer.send(reply);
                }
            }
            #[cfg(any(feature = "sqlite", feature = "postgres"))]
            Output::LeaseWord { word, is_of_elder } => {
                if let Some(leases) = shared.leases() {
                    leases.hear(word, is_of_elder);
                }
            }
            #[cfg(not(any(feature = "sqlite", feature = "postgres")))]
            Output::LeaseWord { .. } => {}
            Output::Message(message) => {
                #[cfg(feature = "agent")]
                shared.outbox.look_at(&message, core.me().run, now);
                shared.mailroom.deliver(*message, SystemTime::now());
            }
            Output::Notice(notice) => shared.journal.notice(notice),
            Output::Stopped(reason) => {
                let level = if reason == StopReason::Left { Level::INFO } else { Level::ERROR };
                shared.journal.say(level, reason.to_string());
                self.end.get_or_insert(Stop::Core(reason));
            }
        }
    }

    /// What others may know without asking: up to date whenever the driver waits.
    fn publish_figures(&mut self) {
        let core = &self.parts.core;
        if core.electorate() != self.electorate.as_deref() {
            self.electorate = core.electorate().cloned().map(Arc::new);
        }
        self.parts.shared.set_figures(Figures {
            changes: core.changes(),
            fingerprint: core.fingerprint(),
            counters: core.counters().clone(),
            open_links: core.open_links(),
            health_score: core.health_score(),
            degraded_links: core.degraded_links(),
            unreachable: core.unreachable(),
            is_misplaced: !core.is_reachable(),
            leaders_elected: self.leaders_elected,
            voter_aside: core.election().is_some_and(Election::is_aside),
            agreed: core.agreed_view().cloned(),
            electorate: self.electorate.clone(),
            standings: core.election().and_then(Election::standings).map(Arc::new),
        });
    }

    fn fail(&mut self, failure: Failure) {
        self.end.get_or_insert(Stop::Failed(failure));
    }
}

/// Waits until the core wants to be called, for ever if it does not. Says how late it is then.
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
    // An error would mean that the office is gone, and with it everything that is led.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::bus::Bus;
    use crate::agent::directory::Directory;
    use crate::agent::directory::tests::name;
    use crate::core::{Birth, Profile, Run, StopReason};
    use crate::journal::Journal;

    /// A driver that nobody runs, its requests, and a socket that never answers.
    fn driver() -> (Driver, mpsc::Sender<Request>, Udp) {
        driver_with_seeds(0)
    }

    /// A driver like that of [`driver`], with so many seeds whose names do not resolve.
    fn driver_with_seeds(seeds: usize) -> (Driver, mpsc::Sender<Request>, Udp) {
        let bind = || crate::transport::bind_both(Some(SocketAddr::from(([127, 0, 0, 1], 0))), 0).expect("a free port");
        let ((socket, listener), clock) = (bind(), Clock::start());
        let journal = Journal::start(&name("me")).expect("a thread");
        let tasks = tokio_util::task::TaskTracker::new();
        let links = Links::start(listener, &tasks, 8, journal.clone()).expect("in a runtime");
        let birth = Birth {
            leadership: None,
            id: name("me"),
            run: Run(1),
            cluster: name("c"),
            incarnation: 1,
            stored_bound: u64::MAX >> 1,
            address: socket.local_address(),
            api_address: None,
            tags: Tags::default(),
            version: "0".into(),
            settings: Profile::Local.settings(),
            seeds,
            remembered: Vec::new(),
            random_seed: 1,
        };
        let bus = Bus::new(Directory::new(name("me"), clock));
        let (requests, receiver) = mpsc::channel(MAX_QUEUED_REQUESTS);
        let driver = Driver::new(Parts {
            core: Core::new(birth, clock.now()),
            clock,
            shared: Arc::new(Shared::new(
                bus,
                clock,
                socket.counters(),
                links.counters(),
                Arc::default(),
                journal.clone(),
            )),
            socket,
            links,
            resolver: Resolver::new(journal),
            seeds: (0..seeds).map(|seed| format!("seed-{seed}.invalid:1")).collect(),
            durability: Durability::none(),
            requests: receiver,
        });
        (driver, requests, bind().0)
    }

    fn join(driver: &mut Driver, address: SocketAddr) -> oneshot::Receiver<Reply> {
        let (answer, answered) = oneshot::channel();
        driver.ask(Request::Join { addresses: vec![address], answer });
        answered
    }

    #[tokio::test]
    async fn whoever_asks_when_too_many_wait_already_is_told_to_try_again() {
        let (mut driver, _requests, silent) = driver();
        let mut waiting: Vec<_> =
            (0..MAX_PENDING_COMMANDS).map(|_| join(&mut driver, silent.local_address())).collect();
        assert!(waiting.iter_mut().all(|answer| answer.try_recv().is_err()), "nobody is answered yet");
        let mut one_more = join(&mut driver, silent.local_address());
        assert_eq!(one_more.try_recv(), Ok(Reply::Refused(CommandError::Busy)));
        assert_eq!(driver.waiting.len(), MAX_PENDING_COMMANDS);
        waiting.clear();
        drop(join(&mut driver, silent.local_address()));
        assert!(driver.waiting.len() <= 1, "who went away waits no more");
    }

    #[tokio::test]
    async fn requests_beyond_the_bound_wait_at_the_door() {
        let (_driver, requests, _silent) = driver();
        for _ in 0..MAX_QUEUED_REQUESTS {
            requests.try_send(Request::Leave).expect("room");
        }
        assert!(requests.try_send(Request::Leave).is_err());
    }

    #[tokio::test]
    async fn a_flood_is_taken_in_bounded_batches() {
        let (mut driver, _requests, peer) = driver();
        let to = driver.parts.socket.local_address();
        // Small enough for the least receive buffer that systems grant.
        let sent = MAX_BATCH + 20;
        for _ in 0..sent {
            peer.send(to, b"?").expect("sent");
        }
        driver.parts.socket.readable().await.expect("readable");
        let before = driver.parts.core.counters().packets_received;
        driver.receive();
        assert_eq!(driver.parts.core.counters().packets_received - before, MAX_BATCH as u64);
        driver.receive();
        assert!(driver.parts.core.counters().packets_received - before <= sent as u64);
    }

    #[tokio::test]
    async fn what_has_arrived_is_handed_in_before_time_is_judged_although_the_runtime_has_not_looked() {
        let (mut driver, _requests, peer) = driver();
        let to = driver.parts.socket.local_address();
        let sent = MAX_BATCH as u64 / 2;
        for _ in 0..sent {
            peer.send(to, b"?").expect("sent");
        }
        // Not one turn of the event loop since: as in a process that was stopped, and whose timer fires first.
        driver.judge(Duration::ZERO).await;
        assert_eq!(driver.parts.core.counters().packets_received, sent);
    }

    #[tokio::test]
    async fn frames_that_wait_in_sockets_are_handed_in_before_a_late_driver_judges_time() {
        use tokio::io::AsyncWriteExt as _;
        let (mut driver, _requests, _silent) = driver();
        let mut link = tokio::net::TcpStream::connect(driver.parts.socket.local_address()).await.expect("listening");
        link.write_all(&[0, 0, 0, 1, b'x']).await.expect("sent");
        // Kept from the core, which would end a link that talks nonsense.
        let first = tokio::time::timeout(Duration::from_secs(30), driver.parts.links.next()).await;
        assert!(matches!(first, Ok(Ok((_, links::Event::Frame(..))))), "accepted");
        link.try_write(&[0, 0, 0, 1, b'y']).expect("sent, and nobody has had a turn since");
        driver.judge(LATE).await;
        assert_eq!(driver.parts.core.counters().frames_received, 1);
    }

    #[tokio::test]
    async fn a_seed_whose_other_names_are_still_looked_up_founds_no_cluster_of_its_own() {
        let (mut driver, _requests, _silent) = driver_with_seeds(2);
        let mine = driver.parts.socket.local_address();
        assert!(driver.lookup.is_some(), "the core wants its seeds");
        driver.found(Some((0, vec![mine])));
        assert!(driver.lookup.is_some(), "one is not found yet");
        let founding = crate::core::limits::FOUNDING_DELAY;
        tokio::time::sleep(founding + Duration::from_millis(50)).await;
        driver.judge(Duration::ZERO).await;
        assert_eq!(driver.parts.core.me().status, Status::Joining);
        driver.found(Some((1, Vec::new())));
        let founded = async {
            while driver.parts.core.me().status != Status::Up {
                tokio::time::sleep(Duration::from_millis(20)).await;
                driver.judge(Duration::ZERO).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), founded).await.expect("nobody else can be found");
    }

    #[tokio::test]
    async fn oversized_datagrams_do_not_stop_the_reading() {
        let (mut driver, _requests, peer) = driver();
        let to = driver.parts.socket.local_address();
        for _ in 0..MAX_ERRORS_IN_A_ROW {
            peer.send(to, &[0; MAX_DATAGRAM_BYTES + 1]).expect("sent");
        }
        driver.parts.socket.readable().await.expect("readable");
        driver.receive();
        assert_eq!(driver.paused_until, None);
        assert_eq!(driver.parts.shared.socket.oversized(), MAX_ERRORS_IN_A_ROW as u64);
    }

    #[tokio::test]
    async fn after_its_end_the_core_gets_no_more_input() {
        let (mut driver, _requests, _silent) = driver();
        driver.end = Some(Stop::Core(StopReason::Left));
        driver.feed(Input::Tick);
        driver.fail(Failure::new("test", "too late"));
        assert_eq!(driver.run().await, Stop::Core(StopReason::Left), "the first reason stands");
    }
}
