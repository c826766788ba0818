//! The state that the driver publishes and every handle reads.
//!
//! Invariants:
//! - The driver writes, handles read, and reading never makes the driver wait for more than a copy of a few hundred bytes.
//! - Nothing here keeps the driver running: handles are counted elsewhere.
//! - The end is published once, the first word stands, and nothing that may block or panic comes before it.
//!
//! Must not know: the core, the socket.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::Level;

use super::bus::Bus;
use super::clock::Clock;
use super::directory::Directory;
use super::error::{Failure, Stop};
use super::leadership::{Leadership, LeadershipPublisher};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
use super::lease_state::Leases;
use super::messages::Listeners;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
use super::messages::Outbox;
#[cfg(feature = "metrics")]
use super::verdict::Recent;
#[cfg(feature = "agent")]
use super::watchdog::Watchdog;
use crate::core::election::{Electorate, EndedElectorate, Lineage, NumberedView, VoterStandings};
use crate::core::{self, Change, Counters, JoinReport, NodeId, OtherElectorate, Status, Time};
use crate::event::{Event, EventKind};
use crate::journal::Journal;
#[cfg(feature = "metrics")]
use crate::lease::LeaseName;
use crate::store::WriterHealth;
use crate::transport::links::LinkCounters;
use crate::transport::udp::SocketCounters;

/// A driver that has not moved for this long is ill: it looks at its clock every second, whatever happens.
const MAX_STANDSTILL: Duration = Duration::from_secs(10);

/// The core's figures as of the driver's last wait.
#[derive(Debug, Clone, Default)]
pub(super) struct Figures {
    pub(super) changes: u64,
    pub(super) fingerprint: u64,
    pub(super) counters: Counters,
    pub(super) open_links: usize,
    pub(super) health_score: u32,
    pub(super) degraded_links: usize,
    /// The members of a suspected partition that are missing.
    pub(super) unreachable: Arc<Vec<NodeId>>,
    /// The report of joining, until this node is Up.
    pub(super) joining: Option<Arc<JoinReport>>,
    /// Members say that this node does not answer at the address that it advertises.
    pub(super) is_misplaced: bool,
    /// The last sign of life of the observed member that has been silent for longest.
    pub(super) oldest_sign: Option<Time>,
    /// Leaders elected, as this node saw it.
    pub(super) leaders_elected: u64,
    pub(super) voter_aside: bool,
    pub(super) agreed: Option<NumberedView>,
    pub(super) electorate: Option<Arc<Electorate>>,
    pub(super) standings: Option<Arc<VoterStandings>>,
    /// The electorate in which this node voted until it ended.
    #[cfg_attr(not(feature = "agent"), allow(dead_code, reason = "the interfaces of the agent show it"))]
    pub(super) ended: Option<Arc<EndedElectorate>>,
    #[cfg_attr(not(feature = "agent"), allow(dead_code, reason = "the interfaces of the agent show it"))]
    pub(super) other_electorate: Option<Arc<OtherElectorate>>,
    /// The electorate that this node is sure of, perhaps without knowing its voters.
    #[cfg_attr(not(feature = "agent"), allow(dead_code, reason = "the interfaces of the agent show it"))]
    pub(super) lineage: Option<Lineage>,
}

/// The state that the driver publishes, and every handle reads.
#[derive(Debug)]
pub(super) struct Shared {
    /// This node's name.
    pub(super) me: NodeId,
    pub(super) bus: Arc<Bus>,
    pub(super) clock: Clock,
    pub(super) socket: Arc<SocketCounters>,
    pub(super) links: Arc<LinkCounters>,
    state_writer: Arc<WriterHealth>,
    figures: Mutex<Figures>,
    /// True if no other member was there when this node became Up.
    has_begun_alone: AtomicBool,
    /// This node's own status.
    status: watch::Sender<Status>,
    stop: watch::Sender<Option<Stop>>,
    /// The first task that died.
    failure: OnceLock<Failure>,
    /// Tells the driver to end, without leaving.
    pub(super) cancel: CancellationToken,
    /// Why it is told so.
    cancelled_by: OnceLock<Stop>,
    /// A clock that stands still while the machine is suspended: nobody is ill because of that.
    awake_since: Instant,
    /// The time at which the driver moved last, in milliseconds of that clock.
    moved_at: AtomicU64,
    /// Of the cluster's leader.
    pub(super) publisher: Arc<LeadershipPublisher>,
    /// Set before anybody has a handle, where leadership comes from a database.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    leases: OnceLock<Arc<Leases>>,
    /// Messages, and who listens to them.
    pub(super) listeners: Arc<Listeners>,
    /// This node's own broadcasts, for nodes that its view lacks.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(super) outbox: Arc<Outbox>,
    pub(super) journal: Journal,
    #[cfg(feature = "metrics")]
    pub(super) recent: Recent,
    #[cfg(feature = "agent")]
    watchdog: OnceLock<Watchdog>,
}

impl Shared {
    pub(super) fn new(
        bus: Arc<Bus>,
        clock: Clock,
        socket: Arc<SocketCounters>,
        links: Arc<LinkCounters>,
        state_writer: Arc<WriterHealth>,
        journal: Journal,
    ) -> Self {
        Self {
            me: bus.directory().me().clone(),
            awake_since: Instant::now(),
            moved_at: AtomicU64::new(0),
            bus,
            clock,
            socket,
            links,
            state_writer,
            figures: Mutex::default(),
            has_begun_alone: AtomicBool::new(false),
            status: watch::Sender::new(Status::Joining),
            stop: watch::Sender::new(None),
            failure: OnceLock::new(),
            cancel: CancellationToken::new(),
            cancelled_by: OnceLock::new(),
            publisher: LeadershipPublisher::new(),
            #[cfg(any(feature = "sqlite", feature = "postgres"))]
            leases: OnceLock::new(),
            listeners: Arc::default(),
            #[cfg(any(feature = "sqlite", feature = "postgres"))]
            outbox: Arc::default(),
            journal,
            #[cfg(feature = "metrics")]
            recent: Recent::default(),
            #[cfg(feature = "agent")]
            watchdog: OnceLock::new(),
        }
    }

    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(super) fn set_leases(&self, leases: Arc<Leases>) {
        let _ = self.leases.set(leases);
    }

    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(super) fn leases(&self) -> Option<&Arc<Leases>> {
        self.leases.get()
    }

    /// Returns true if leadership comes from a database.
    #[cfg_attr(
        not(any(feature = "sqlite", feature = "postgres")),
        expect(clippy::unused_self, reason = "there is none")
    )]
    pub(super) fn has_leases(&self) -> bool {
        #[cfg(any(feature = "sqlite", feature = "postgres"))]
        return self.leases().is_some();
        #[cfg(not(any(feature = "sqlite", feature = "postgres")))]
        false
    }

    /// Ends all claims to lead: none is renewed any more.
    pub(super) fn close_publishers(&self) {
        self.publisher.close();
        #[cfg(any(feature = "sqlite", feature = "postgres"))]
        if let Some(leases) = self.leases() {
            leases.close();
        }
    }

    pub(super) fn directory(&self) -> &Directory {
        self.bus.directory()
    }

    /// Takes a change of the core to directory, subscribers, and whoever waits for this node to be Up.
    pub(super) fn publish(&self, change: &Change, at: SystemTime) -> Arc<Event> {
        let event = self.bus.publish(change, at);
        if let Some(member) = event.kind.member().filter(|member| member.is_me) {
            self.status.send_replace(member.status);
        }
        event
    }

    /// Takes a change of the core to the directory alone.
    pub(super) fn list(&self, change: &Change, at: SystemTime) {
        self.bus.list(change, at);
    }

    /// Takes an event that changes no member to subscribers.
    pub(super) fn announce(&self, kind: EventKind, at: SystemTime) -> Arc<Event> {
        self.bus.announce(kind, at)
    }

    /// Publishes the leadership, also to led work.
    pub(super) fn publish_leadership(&self, told: core::Leadership) {
        self.publisher.publish(Leadership::new(told, self.clock));
    }

    /// Returns the leaderships that this node knows nobody to have: the cluster's is the lease `default`, however it is led.
    #[cfg(feature = "metrics")]
    pub(super) fn vacant(&self) -> Vec<LeaseName> {
        #[cfg(any(feature = "sqlite", feature = "postgres"))]
        if let Some(leases) = self.leases() {
            return leases.vacant();
        }
        let is_vacant = self.publisher.watch().get().leader.is_none();
        is_vacant.then(LeaseName::default).into_iter().collect()
    }

    /// Returns true if the database that keeps the leases does not carry out what this node asks of it.
    #[cfg(feature = "metrics")]
    #[cfg_attr(
        not(any(feature = "sqlite", feature = "postgres")),
        expect(clippy::unused_self, reason = "as elsewhere")
    )]
    pub(super) fn is_database_away(&self) -> bool {
        #[cfg(any(feature = "sqlite", feature = "postgres"))]
        return self.leases().is_some_and(|leases| leases.is_database_away());
        #[cfg(not(any(feature = "sqlite", feature = "postgres")))]
        false
    }

    /// Notes that no other member was there when this node became Up, or that one was. Before its status is published.
    pub(super) fn note_beginning(&self, is_alone: bool) {
        self.has_begun_alone.store(is_alone, Ordering::Relaxed);
    }

    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(super) fn has_begun_alone(&self) -> bool {
        self.has_begun_alone.load(Ordering::Relaxed)
    }

    pub(super) fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    pub(super) fn set_figures(&self, figures: Figures) {
        *self.figures.lock().unwrap_or_else(PoisonError::into_inner) = figures;
    }

    pub(super) fn figures(&self) -> Figures {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the figures of the task that writes the state.
    pub(super) fn state_writer(&self) -> &WriterHealth {
        &self.state_writer
    }

    /// Notes that the driver moves. Called by the driver alone.
    pub(super) fn moved(&self) {
        let awake = self.awake();
        self.moved_at.store(awake, Ordering::Relaxed);
        #[cfg(feature = "agent")]
        if let Some(watchdog) = self.watchdog.get() {
            watchdog.turned(awake);
        }
    }

    /// Notes that there is no driver that could stand still.
    #[cfg(any(test, feature = "test-util"))]
    pub(super) fn needs_no_driver(&self) {
        self.moved_at.store(u64::MAX, Ordering::Relaxed);
    }

    #[cfg(feature = "agent")]
    pub(super) fn feed(&self, watchdog: Watchdog) {
        let _ = self.watchdog.set(watchdog);
    }

    fn awake(&self) -> u64 {
        u64::try_from(self.awake_since.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Tells the driver to end, and why. The first reason stands.
    pub(super) fn end(&self, why: Stop) {
        let _ = self.cancelled_by.set(why);
        self.cancel.cancel();
    }

    /// Why the driver was told to end.
    pub(super) fn cancelled_by(&self) -> Stop {
        self.cancelled_by.get().cloned().unwrap_or(Stop::Cancelled)
    }

    /// A task died, and perhaps the agent goes on without it. The first one is remembered.
    pub(super) fn report(&self, failure: Failure) {
        let text = failure.to_string();
        let _ = self.failure.set(failure);
        self.journal.say(Level::ERROR, text);
    }

    /// Returns the part that died first, or that the driver stands still.
    pub(super) fn failure(&self) -> Option<Failure> {
        if let Some(failure) = self.failure.get() {
            return Some(failure.clone());
        }
        let standstill = self.awake().saturating_sub(self.moved_at.load(Ordering::Relaxed));
        let standstill = Duration::from_millis(standstill);
        let is_running = self.stop.borrow().is_none();
        (is_running && standstill > MAX_STANDSTILL)
            .then(|| Failure::new("driver", format!("it has not moved for {} s", standstill.as_secs())))
    }

    /// Everything has ended: socket closed, lock released. Tells who waits.
    pub(super) fn finish(&self, stop: Stop) {
        let mut news = None;
        self.stop.send_if_modified(|published| {
            let is_first = published.is_none();
            if let (true, Stop::Failed(failure)) = (is_first, &stop) {
                news = self.failure.set(failure.clone()).is_ok().then(|| failure.to_string());
            }
            published.get_or_insert(stop);
            is_first
        });
        self.close_publishers();
        self.bus.close();
        self.listeners.close();
        if let Some(text) = news {
            self.journal.say(Level::ERROR, text);
        }
    }

    pub(super) fn stop(&self) -> watch::Receiver<Option<Stop>> {
        self.stop.subscribe()
    }
}
