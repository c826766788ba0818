//! Connections that others open: the listener, and what happens to a connection until the driver hears of it.
//!
//! Invariants: connections that have said nothing, or whose first frame waits for the driver, hold one of few places
//! (`silent`); whoever finds none is turned away at once. An error of this system is survived, and told once.
//!
//! Must not know: the content of a frame.

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;
use tracing::Level;

use super::connection::{Connection, carry};
use super::queues::Announcer;
use super::silent::{Entered, Silent};
use super::{Event, LinkCounters, queues};
use crate::core::{LinkId, canonical};
use crate::journal::Journal;
use crate::seal::SealError;
use crate::transport::sealing::Sealing;
use crate::trouble::Trouble;

/// The largest number of connections that the kernel holds for us before we take them.
const BACKLOG: i32 = 1024;
/// The pause after an error of our own system: too many open files do not go away by trying again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The listener, bound before anything runs.
#[derive(Debug)]
pub(crate) struct Listener(std::net::TcpListener);

impl Listener {
    /// Binds to the gossip socket's own address, of which the port is known by now.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        if address.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        // Lingering connections of an earlier run must not keep a restarted agent from its port.
        #[cfg(unix)]
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(Self(socket.into()))
    }

    /// Returns the address that it is bound to.
    #[cfg(test)]
    pub(crate) fn local_address(&self) -> SocketAddr {
        self.0.local_addr().expect("bound")
    }

    pub(super) fn into_std(self) -> std::net::TcpListener {
        self.0
    }
}

/// Takes connections from the listener, for ever.
pub(super) struct Acceptor {
    pub(super) announce: Announcer,
    pub(super) tasks: TaskTracker,
    pub(super) counters: Arc<LinkCounters>,
    pub(super) budget: Arc<Semaphore>,
    pub(super) silent: Silent,
    pub(super) sealing: Sealing,
    pub(super) keepalive: Duration,
    pub(super) journal: Journal,
}

impl Acceptor {
    pub(super) async fn run(self, listener: TcpListener) -> Infallible {
        let mut last = 0;
        let mut trouble = Trouble::default();
        loop {
            match listener.accept().await {
                Ok((stream, from)) => {
                    if trouble.end() {
                        self.journal.say(Level::INFO, "links are accepted again");
                    }
                    last += 1;
                    self.take(LinkId::Accepted(last), stream, canonical(from));
                }
                Err(error) => {
                    self.counters.accept_errors.fetch_add(1, Ordering::Relaxed);
                    if error.kind() == ErrorKind::ConnectionAborted {
                        continue;
                    }
                    if trouble.begins() {
                        let text = format!(
                            "no links can be accepted: {error}; crashes of others are found out by their silence \
                             meanwhile. Raise the limit on open files if that is what is missing"
                        );
                        self.journal.say(Level::WARN, text);
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn take(&self, link: LinkId, stream: TcpStream, from: SocketAddr) {
        if self.sealing.policy().keeps_out(from) {
            return self.sealing.refuse(from, SealError::NotLoopback);
        }
        let permit = Arc::clone(&self.budget).try_acquire_owned().ok();
        let entered = permit.and_then(|permit| self.silent.enter(from).map(|entered| (entered, permit)));
        if entered.as_ref().is_none_or(|(entered, _)| entered.has_displaced) {
            self.counters.turned_away.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(entered) = entered {
            let sealed = (self.sealing.clone(), self.keepalive);
            self.tasks.spawn(greet(link, stream, from, entered, self.announce.clone(), sealed));
        }
    }
}

/// Serves an accepted connection: the driver does not know it before it has its first frame.
async fn greet(
    link: LinkId,
    stream: TcpStream,
    from: SocketAddr,
    (Entered { place, gone, .. }, _permit): (Entered, OwnedSemaphorePermit),
    announce: Announcer,
    (sealing, keepalive): (Sealing, Duration),
) {
    let Some(mut connection) = Connection::new(stream, from, sealing, false, keepalive) else { return };
    let first = tokio::select! {
        first = connection.first() => first,
        _ = gone => return,
        () = announce.closed() => return,
    };
    let Some(first) = first.filter(|_| place.keep()) else { return };
    let (queue, frames) = queues::outgoing();
    let announced = announce.send(link, Event::Frame(from, first), Some(queue)).await;
    // Only now: so the frames that wait for the driver are as few as silent connections may be.
    drop(place);
    if announced {
        carry(link, connection, frames, announce).await;
    }
}
