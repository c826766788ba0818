//! What the driver publishes and every handle reads.
//!
//! Invariants: the driver writes, handles read, and reading never makes the driver wait for more than a copy of a few
//! hundred bytes. Nothing here keeps the driver running: handles are counted elsewhere.
//!
//! Must not know: the core, the socket.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use tokio::sync::watch;

use super::bus::Bus;
use super::clock::Clock;
use super::directory::Directory;
use super::error::{Failure, Stop};
use super::leadership::{Leadership, Office};
use crate::core::election::{Electorate, NumberedView};
use crate::core::{self, Change, Counters, Status};
use crate::event::{Event, EventKind};
use crate::transport::links::LinkCounters;
use crate::transport::udp::SocketCounters;

/// The core's figures as of the driver's last wait.
#[derive(Debug, Clone, Default)]
pub(super) struct Figures {
    pub(super) changes: u64,
    pub(super) fingerprint: u64,
    pub(super) counters: Counters,
    pub(super) open_links: usize,
    pub(super) health_score: u32,
    pub(super) degraded_links: usize,
    pub(super) unreachable: usize,
    /// Leaders elected, as this node saw it.
    pub(super) leaders_elected: u64,
    pub(super) voter_aside: bool,
    pub(super) agreed: Option<NumberedView>,
    pub(super) electorate: Option<Arc<Electorate>>,
}

/// See the module's words.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) bus: Arc<Bus>,
    pub(super) clock: Clock,
    pub(super) socket: Arc<SocketCounters>,
    pub(super) links: Arc<LinkCounters>,
    write_failures: Arc<AtomicU64>,
    figures: Mutex<Figures>,
    /// This node's own status.
    status: watch::Sender<Status>,
    stop: watch::Sender<Option<Stop>>,
    /// The first task that died while the agent lives on.
    failure: OnceLock<Failure>,
    pub(super) office: Arc<Office>,
}

impl Shared {
    pub(super) fn new(
        bus: Arc<Bus>,
        clock: Clock,
        socket: Arc<SocketCounters>,
        links: Arc<LinkCounters>,
        write_failures: Arc<AtomicU64>,
    ) -> Self {
        Self {
            bus,
            clock,
            socket,
            links,
            write_failures,
            figures: Mutex::default(),
            status: watch::Sender::new(Status::Joining),
            stop: watch::Sender::new(None),
            failure: OnceLock::new(),
            office: Office::new(),
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

    /// Takes an event that changes no member to subscribers.
    pub(super) fn announce(&self, kind: EventKind, at: SystemTime) -> Arc<Event> {
        self.bus.announce(kind, at)
    }

    /// Takes it to whoever looks, and to led work.
    pub(super) fn publish_leadership(&self, told: core::Leadership) {
        self.office.publish(Leadership::new(told, self.clock));
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

    pub(super) fn write_failures(&self) -> u64 {
        self.write_failures.load(Ordering::Relaxed)
    }

    /// A task died and the agent goes on without it. The first one is remembered.
    pub(super) fn report(&self, failure: Failure) {
        tracing::error!(task = failure.task, cause = failure.cause, "{failure}");
        let _ = self.failure.set(failure);
    }

    pub(super) fn failure(&self) -> Option<Failure> {
        self.failure.get().cloned()
    }

    /// Everything has ended: socket closed, lock released. Tells who waits.
    pub(super) fn finish(&self, stop: Stop) {
        if let Stop::Failed(failure) = &stop {
            self.report(failure.clone());
        }
        self.stop.send_replace(Some(stop));
        self.bus.close();
    }

    pub(super) fn stop(&self) -> watch::Receiver<Option<Stop>> {
        self.stop.subscribe()
    }
}
