//! Arrivals: what sockets, links, lookups and the disk bring is handed to the core.
//!
//! Invariants: no source is read without a bound, so that none keeps the others waiting; before time is judged, everything
//! that has already arrived is handed in.
//!
//! Must not know: what packets and frames say.

use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::Instant;
use tracing::Level;

use super::Driver;
use crate::agent::error::Failure;
use crate::agent::messages::DirectCall;
use crate::core::{Input, LinkEvent, LinkId};
use crate::store::{Stored, WriterDied, Written};
use crate::transport::links;
use crate::transport::resolve::{Found, SeedLookup};
use crate::transport::udp::{Received, SocketErrorKind};

/// Datagrams taken from the socket in one go, so that a flood cannot keep commands and deadlines waiting.
pub(super) const MAX_BATCH: usize = 256;

/// Datagrams that are handed in before time is judged: more than the receive buffer holds. What comes on top of that has
/// arrived after we began to look. ([`MAX_BACKLOG_TIME`] is over first on any machine that takes longer than 5 µs for a
/// datagram; this is the end of the loop if its clock stands still.)
pub(super) const MAX_BACKLOG: usize = 8_192;

/// The longest time that these are read for. A process that was stopped reads a whole buffer in less; a flood of packets
/// that are slow to read must not delay what is due, such as the questions after a crash, by a third of a second each.
const MAX_BACKLOG_TIME: Duration = Duration::from_millis(40);

/// The time after which the operator is told again that the state is not stored.
pub(super) const NOT_STORED_TOLD_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// A driver that is called later than this lets its links catch up with the sockets before it judges time.
pub(super) const LATE: Duration = Duration::from_millis(20);

/// Turns that links get to catch up: in one the runtime looks at the sockets, in the next the links read them, whichever
/// task comes first.
const TURNS_FOR_LINKS: usize = 3;

/// After this many errors of our own system in a row the socket is left alone for [`ERROR_PAUSE`]: an error that
/// does not pass must not become a loop that eats a core.
pub(super) const MAX_ERRORS_IN_A_ROW: usize = 16;

/// See [`MAX_ERRORS_IN_A_ROW`].
const ERROR_PAUSE: Duration = Duration::from_millis(50);

/// Goes on while there is more, at most [`MAX_BACKLOG`] times.
pub(super) fn up_to_backlog(mut goes_on: impl FnMut() -> bool) {
    for _ in 0..MAX_BACKLOG {
        if !goes_on() {
            return;
        }
    }
}

impl Driver {
    /// Lets time pass, once everything that has arrived is handed in.
    pub(super) async fn judge(&mut self, lateness: Duration) {
        if lateness >= LATE {
            // Links are read by tasks of this thread, which had no turn either.
            for _ in 0..TURNS_FOR_LINKS {
                yield_now().await;
            }
        }
        self.receive_backlog(MAX_BACKLOG_TIME);
        self.receive_links();
        self.feed(Input::Tick);
    }

    /// Hands in what is known to have arrived, up to a bound.
    pub(super) fn receive(&mut self) {
        for _ in 0..MAX_BATCH {
            let received = self.parts.socket.receive(&mut self.buffer);
            if !self.take(received) {
                return;
            }
        }
    }

    /// Hands in what waits in the socket, whether or not the runtime has come to look at it.
    pub(super) fn receive_backlog(&mut self, at_most: Duration) {
        if self.paused_until.is_some() {
            return;
        }
        let began = self.parts.clock.now();
        up_to_backlog(|| {
            let received = self.parts.socket.receive_now(&mut self.buffer);
            self.take(received) && self.parts.clock.now().since(began) < at_most
        });
    }

    /// Deals with one attempt to receive, and returns true if there may be more.
    pub(super) fn take(&mut self, received: Received) -> bool {
        match received {
            Received::Empty => return false,
            Received::Datagram { from, length } => {
                self.errors_in_a_row = 0;
                let now = self.parts.clock.now();
                self.tell_work(now);
                self.take_datagram(from, length, now);
            }
            Received::Failed(SocketErrorKind::Fatal) => {
                self.fail(Failure::new("gossip socket", "the system no longer knows it"));
            }
            // Errors that peers and routers can provoke are used up by being reported, and must not be a way to stop us.
            Received::Failed(
                SocketErrorKind::TooLong | SocketErrorKind::PeerRefused | SocketErrorKind::Unreachable,
            ) => {}
            Received::Failed(SocketErrorKind::NoBuffers | SocketErrorKind::Other) => {
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

    pub(super) fn link(&mut self, link: LinkId, event: &links::Event) {
        match event {
            links::Event::Frame(_, bytes) if matches!(link, LinkId::Accepted(_)) => {
                if let Some(call) = DirectCall::read(bytes) {
                    return self.called(link, call.ok());
                }
            }
            links::Event::Closed => self.calling.retain(|calling| *calling != link),
            _ => {}
        }
        let event = match event {
            links::Event::Connected => LinkEvent::Connected,
            links::Event::Refused => LinkEvent::Refused,
            links::Event::Unreachable => LinkEvent::Unreachable,
            links::Event::Frame(from, bytes) => LinkEvent::Frame { from: *from, bytes },
            links::Event::Closed => LinkEvent::Closed,
            links::Event::Unopened(why) => LinkEvent::Unopened(*why),
        };
        self.feed(Input::Link { link, event });
    }

    /// Hands in the seeds that were found, some or all.
    pub(super) fn found(&mut self, found: Option<Found>) {
        let is_over = found.is_none();
        let mut next = found;
        while let Some((seed, addresses)) = next {
            self.seed_addresses.insert(seed.clone(), addresses);
            self.seeds_found.insert(seed);
            next = self.lookup.as_mut().and_then(SeedLookup::try_next);
        }
        let count = self.seeds_found.len();
        let is_whole = is_over || self.lookup.as_ref().is_some_and(|lookup| lookup.is_whole(count));
        if is_whole {
            self.lookup = None;
            // Seeds that no source names any more.
            self.seed_addresses.retain(|seed, _| self.seeds_found.contains(seed));
        }
        let addresses = self.seed_addresses.values().cloned().collect();
        self.feed(if is_whole { Input::SeedAddresses(addresses) } else { Input::SomeSeedAddresses(addresses) });
    }

    /// Says that the state is not stored, at most once in [`NOT_STORED_TOLD_AGAIN_AFTER`]: it is tried several times a
    /// second.
    pub(super) fn tell_not_stored(&mut self, why: &str) {
        let now = Instant::now();
        if self.told_not_stored.is_some_and(|told| now - told < NOT_STORED_TOLD_AGAIN_AFTER) {
            return;
        }
        self.told_not_stored = Some(now);
        self.unstored_since.get_or_insert(now);
        let text = format!(
            "state not stored, which is tried again and told at most once a minute; what is stored already counts on: {why}"
        );
        self.parts.shared.journal.say(Level::WARN, text);
    }

    pub(super) fn written(&mut self, written: Result<Written, WriterDied>) {
        if let Ok(Written { stored, error }) = written {
            if let Some(Stored { incarnation_bound, ballot_version }) = stored {
                self.feed(Input::Persisted { incarnation_bound, ballot_version });
                // Told as seldom as the failures before it.
                if error.is_none() && self.unstored_since.take().is_some() {
                    self.parts.shared.journal.say(Level::INFO, "state stored again");
                }
            }
            if let Some(error) = error {
                self.tell_not_stored(&error);
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
}
