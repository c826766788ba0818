//! Links: TCP connections that carry frames, on the same port number as the gossip socket.
//!
//! ```text
//! listener ──accepted──▶ ┐                                   ┌─▶ frames, events ──▶ Links::next ──▶ driver
//!                        ├─ one task per connection, bounded ┤
//! Links::open ─connect─▶ ┘                                   └─◀ frames ◀── Links::send ◀── driver
//! ```
//!
//! A frame is a four-byte length and that many bytes, at most [`MAX_FRAME_BYTES`] before it is sealed. Idle connections are
//! silent: the kernel's keepalive checks them, rarely. Where packets are sealed, both ends greet first (see
//! [`seal`](crate::seal)), before the driver hears of an accepted connection.
//!
//! Invariants:
//! - Nothing here waits for a peer: a full queue drops the frame, and a peer that does not read is given up.
//! - Opened and accepted connections never exceed the budget given at the start, so that they leave descriptors to
//!   everything else. Connections that have not sent anything, or whose first frame still waits for the driver, are few
//!   ([`MAX_SILENT`]) and have little time; the driver learns of an accepted connection by its first frame.
//! - After [`Links::close`] the driver gets no more events of a link, except for those in the queue.
//! - A connection whose first frame is not sealed, where that is required, is closed at once and without a word; so is one
//!   that is clear when sealing becomes required, and one with a frame that does not fit its place.
//! - All tasks end when this is dropped, after they have sent the queued frames. None waits for a peer then.
//!
//! Must not know: the content of a frame, or the member that a link belongs to.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinError;
use tokio::time::timeout;
use tokio_util::bytes::{Bytes, BytesMut};
use tokio_util::codec::{Framed, LengthDelimitedCodec};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::Level;

use super::sealing::Sealing;
use super::udp::canonical;
use crate::core::LinkId;
use crate::core::limits::{LINK_TIMEOUT, MAX_FRAME_BYTES};
use crate::journal::Journal;
use crate::seal::{FRAME_OVERHEAD, LinkSealer, LinkStep};
use crate::trouble::Trouble;

/// The largest number of accepted connections whose first frame has not reached the driver yet; at most a quarter of
/// the budget.
const MAX_SILENT: usize = 64;
/// The largest number of frames that wait to be sent over one link.
const MAX_QUEUED_FRAMES: usize = 64;
/// The largest number of events that wait for the driver; connections wait for room, and so do the peers behind them.
const MAX_QUEUED_EVENTS: usize = 256;
/// Time limit for sending a frame; one that takes longer ends its link.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// The largest number of connections that the kernel holds for us before we take them.
const BACKLOG: i32 = 256;
/// The idle time after which the kernel checks that the other end of a connection is still there …
const KEEPALIVE_IDLE: Duration = Duration::from_secs(120);
/// … and the interval at which it then repeats that.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
/// The longest first frame where packets are sealed: a greeting.
const MAX_GREETING_BYTES: usize = 96;
/// The pause after an error of our own system: too many open files do not go away by trying again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// An event of a link, for the driver.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The link was opened.
    Connected,
    /// The peer's system answered that no process listens there.
    Refused,
    /// The link could not be opened for any other reason.
    Unreachable,
    /// A frame, and the address of its sender.
    Frame(SocketAddr, BytesMut),
    /// The link has ended.
    Closed,
}

/// Totals, readable while the links work.
#[derive(Debug, Default)]
pub(crate) struct LinkCounters {
    dropped_frames: AtomicU64,
    turned_away: AtomicU64,
    accept_errors: AtomicU64,
}

impl LinkCounters {
    /// Returns the number of frames not sent because their link was congested.
    pub(crate) fn dropped_frames(&self) -> u64 {
        self.dropped_frames.load(Ordering::Relaxed)
    }

    /// Returns the number of connections closed because too many others were silent, or open, already.
    pub(crate) fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }

    /// Returns the number of errors survived while accepting.
    pub(crate) fn accept_errors(&self) -> u64 {
        self.accept_errors.load(Ordering::Relaxed)
    }
}

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
}

/// All links of one agent.
#[derive(Debug)]
pub(crate) struct Links {
    queues: BTreeMap<LinkId, mpsc::Sender<Bytes>>,
    events: mpsc::Receiver<(LinkId, Event, Option<mpsc::Sender<Bytes>>)>,
    announce: Announcer,
    tasks: TaskTracker,
    counters: Arc<LinkCounters>,
    /// Permits for further connections.
    budget: Arc<Semaphore>,
    sealing: Sealing,
    /// The task that accepts connections; taken once its end was reported.
    accepting: Option<AbortOnDropHandle<Infallible>>,
}

/// The channel from a connection to the driver. An accepted connection sends its queue along with its first frame.
type Announcer = mpsc::Sender<(LinkId, Event, Option<mpsc::Sender<Bytes>>)>;

impl Links {
    /// Begins to accept. At most `budget` connections, opened or accepted, exist at one time. Inside a tokio runtime.
    pub(crate) fn start(
        listener: Listener,
        tasks: &TaskTracker,
        budget: usize,
        sealing: Sealing,
        journal: Journal,
    ) -> io::Result<Self> {
        let listener = TcpListener::from_std(listener.0)?;
        let (announce, events) = mpsc::channel(MAX_QUEUED_EVENTS);
        let counters = Arc::<LinkCounters>::default();
        let silent = Arc::new(Semaphore::new(MAX_SILENT.min(budget.div_ceil(4))));
        let budget = Arc::new(Semaphore::new(budget));
        let acceptor = Acceptor {
            announce: announce.clone(),
            tasks: tasks.clone(),
            counters: Arc::clone(&counters),
            budget: Arc::clone(&budget),
            silent,
            sealing: sealing.clone(),
            journal,
        };
        Ok(Self {
            queues: BTreeMap::new(),
            events,
            announce,
            tasks: tasks.clone(),
            counters,
            budget,
            sealing,
            accepting: Some(AbortOnDropHandle::new(tasks.spawn(acceptor.run(listener)))),
        })
    }

    /// Returns the shared counters.
    pub(crate) fn counters(&self) -> Arc<LinkCounters> {
        Arc::clone(&self.counters)
    }

    /// Opens a link; the outcome is an event.
    pub(crate) fn open(&mut self, link: LinkId, to: SocketAddr) {
        let (queue, frames) = mpsc::channel(MAX_QUEUED_FRAMES);
        self.queues.insert(link, queue);
        let permit = Arc::clone(&self.budget).try_acquire_owned().ok();
        self.tasks.spawn(connect(link, to, permit, frames, self.announce.clone(), self.sealing.clone()));
    }

    /// Queues a frame, or drops it if too many wait already.
    pub(crate) fn send(&self, link: LinkId, bytes: Vec<u8>) {
        let is_queued = self.queues.get(&link).is_some_and(|queue| queue.try_send(bytes.into()).is_ok());
        if !is_queued {
            self.counters.dropped_frames.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends a link, once its frames are sent.
    pub(crate) fn close(&mut self, link: LinkId) {
        self.queues.remove(&link);
    }

    /// Waits for the next event. The error reports, once, that the task that accepts connections died; open connections
    /// go on. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<(LinkId, Event), JoinError> {
        tokio::select! {
            // `announce` is held here, so the channel never ends.
            Some((link, event, queue)) = self.events.recv() => Ok(self.register(link, event, queue)),
            died = died(&mut self.accepting) => {
                self.accepting = None;
                Err(died)
            }
        }
    }

    /// Returns the next event, if there is one.
    pub(crate) fn try_next(&mut self) -> Option<(LinkId, Event)> {
        let (link, event, queue) = self.events.try_recv().ok()?;
        Some(self.register(link, event, queue))
    }

    fn register(&mut self, link: LinkId, event: Event, queue: Option<mpsc::Sender<Bytes>>) -> (LinkId, Event) {
        if let Some(queue) = queue {
            self.queues.insert(link, queue);
        }
        if matches!(event, Event::Refused | Event::Unreachable | Event::Closed) {
            self.queues.remove(&link);
        }
        (link, event)
    }
}

/// Waits for the end of a task that never ends by itself; for ever if its end was reported before.
async fn died(task: &mut Option<AbortOnDropHandle<Infallible>>) -> JoinError {
    match task {
        Some(task) => match task.await {
            Ok(never) => match never {},
            Err(error) => error,
        },
        None => std::future::pending().await,
    }
}

/// Takes connections from the listener, for ever.
struct Acceptor {
    announce: Announcer,
    tasks: TaskTracker,
    counters: Arc<LinkCounters>,
    budget: Arc<Semaphore>,
    silent: Arc<Semaphore>,
    sealing: Sealing,
    journal: Journal,
}

impl Acceptor {
    async fn run(self, listener: TcpListener) -> Infallible {
        let mut last = 0;
        let mut trouble = Trouble::default();
        loop {
            match listener.accept().await {
                Ok((stream, from)) => {
                    if trouble.is_over() {
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
        let silent = Arc::clone(&self.silent).try_acquire_owned();
        let permit = Arc::clone(&self.budget).try_acquire_owned();
        if let (Ok(silent), Ok(permit)) = (silent, permit) {
            let greeting = greet(link, stream, from, (silent, permit), self.announce.clone(), self.sealing.clone());
            self.tasks.spawn(greeting);
        } else {
            self.counters.turned_away.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Serves an accepted connection: the driver does not know it before it has its first frame.
async fn greet(
    link: LinkId,
    stream: TcpStream,
    from: SocketAddr,
    (silent, _permit): (OwnedSemaphorePermit, OwnedSemaphorePermit),
    announce: Announcer,
    sealing: Sealing,
) {
    tune(&stream);
    let Some(mut connection) = Connection::new(stream, from, sealing, false) else { return };
    let first = tokio::select! {
        first = timeout(LINK_TIMEOUT, connection.next()) => first,
        () = announce.closed() => return,
    };
    let Ok(Some(first)) = first else { return };
    let (queue, frames) = mpsc::channel(MAX_QUEUED_FRAMES);
    let announced = announce.send((link, Event::Frame(from, first), Some(queue))).await;
    // Only now: so the frames that wait for the driver are as few as silent connections may be.
    drop(silent);
    if announced.is_ok() {
        carry(link, connection, frames, announce).await;
    }
}

/// Opens a connection. Without a permit it fails: too many are open already.
async fn connect(
    link: LinkId,
    to: SocketAddr,
    permit: Option<OwnedSemaphorePermit>,
    mut frames: mpsc::Receiver<Bytes>,
    announce: Announcer,
    sealing: Sealing,
) {
    if permit.is_none() {
        let _ = announce.send((link, Event::Unreachable, None)).await;
        return;
    }
    let attempt = tokio::select! {
        attempt = timeout(LINK_TIMEOUT, TcpStream::connect(to)) => attempt,
        // Given up by the driver: nothing is sent before the connection stands.
        _ = frames.recv() => return,
    };
    let event = match &attempt {
        Ok(Ok(_)) => Event::Connected,
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => Event::Refused,
        Ok(Err(_)) | Err(_) => Event::Unreachable,
    };
    if announce.send((link, event, None)).await.is_err() {
        return;
    }
    let Ok(Ok(stream)) = attempt else { return };
    tune(&stream);
    let greeted = async {
        let mut connection = Connection::new(stream, to, sealing, true)?;
        connection.greet().await.then_some(connection)
    };
    let greeted = tokio::select! {
        greeted = timeout(LINK_TIMEOUT, greeted) => greeted,
        () = announce.closed() => return,
    };
    match greeted {
        Ok(Some(connection)) => carry(link, connection, frames, announce).await,
        Ok(None) | Err(_) => {
            let _ = announce.send((link, Event::Closed, None)).await;
        }
    }
}

/// A connection, and the seal of its frames.
struct Connection {
    framed: Framed<TcpStream, LengthDelimitedCodec>,
    from: SocketAddr,
    sealer: LinkSealer,
    sealing: Sealing,
}

impl Connection {
    fn new(stream: TcpStream, from: SocketAddr, sealing: Sealing, is_opener: bool) -> Option<Self> {
        let sealer = sealing.link(is_opener)?;
        let most = if sealing.policy().mode().accepts_clear() { MAX_FRAME_BYTES } else { MAX_GREETING_BYTES };
        let framed = LengthDelimitedCodec::builder().max_frame_length(most).new_framed(stream);
        Some(Self { framed, from, sealer, sealing })
    }

    /// Greets the acceptor and waits for its answer, if frames are sealed; returns false if the connection is of no use.
    async fn greet(&mut self) -> bool {
        let policy = self.sealing.policy();
        let Some(ring) = policy.ring().filter(|_| policy.mode().seals()) else {
            self.sealer.stay_clear();
            self.allow_frames();
            return true;
        };
        let greeting = self.sealer.greeting(ring.sealing());
        if self.framed.send(Bytes::from(greeting)).await.is_err() {
            return false;
        }
        let Some(Ok(answer)) = self.framed.next().await else { return false };
        let step = self.sealing.take(&mut self.sealer, self.from, &answer);
        self.allow_frames();
        matches!(step, Ok(LinkStep::Greeted(_)))
    }

    /// Takes frames of any length that is allowed from now on.
    fn allow_frames(&mut self) {
        let overhead = if self.sealer.is_clear() { 0 } else { FRAME_OVERHEAD };
        self.framed.codec_mut().set_max_frame_length(MAX_FRAME_BYTES + overhead);
    }

    /// Waits for the next frame, opened; `None` at the end, or if one is refused. Cancel safe once the other end has
    /// greeted.
    async fn next(&mut self) -> Option<BytesMut> {
        loop {
            let frame = self.framed.next().await?.ok()?;
            match self.sealing.take(&mut self.sealer, self.from, &frame).ok()? {
                LinkStep::Clear => {
                    self.allow_frames();
                    return Some(frame);
                }
                LinkStep::Frame(packet) => return Some(BytesMut::from(&packet[..])),
                LinkStep::Greeted(answer) => {
                    self.allow_frames();
                    if let Some(answer) = answer {
                        timeout(WRITE_TIMEOUT, self.framed.send(Bytes::from(answer))).await.ok()?.ok()?;
                    }
                }
            }
        }
    }

    /// Sends a frame; returns false if that is not possible any more.
    async fn send(&mut self, frame: Bytes) -> bool {
        let frame = if self.sealer.is_clear() {
            frame
        } else {
            let policy = self.sealing.policy();
            match policy.ring().and_then(|ring| self.sealer.seal(ring.sealing(), &frame)) {
                Some(sealed) => Bytes::from(sealed),
                None => return false,
            }
        };
        matches!(timeout(WRITE_TIMEOUT, self.framed.send(frame)).await, Ok(Ok(())))
    }

    /// Returns true if the mode allows the connection to go on as it is.
    fn is_allowed(&self) -> bool {
        let mode = self.sealing.policy().mode();
        if self.sealer.is_clear() { mode.accepts_clear() } else { mode.accepts_sealed() }
    }
}

/// Carries frames both ways until either side ends the connection.
async fn carry(link: LinkId, mut connection: Connection, mut frames: mpsc::Receiver<Bytes>, announce: Announcer) {
    let mut policy = connection.sealing.watch();
    while connection.is_allowed() {
        tokio::select! {
            // Frames to be sent come first: a goodbye must not wait behind a peer's frames.
            biased;
            frame = frames.recv() => {
                let Some(frame) = frame else {
                    let _ = timeout(WRITE_TIMEOUT, SinkExt::<Bytes>::close(&mut connection.framed)).await;
                    return;
                };
                if !connection.send(frame).await {
                    break;
                }
            }
            received = connection.next() => match received {
                Some(bytes) => {
                    if announce.send((link, Event::Frame(connection.from, bytes), None)).await.is_err() {
                        return;
                    }
                }
                None => break,
            },
            // It is looked at above.
            Ok(()) = policy.changed() => {}
        }
    }
    let _ = announce.send((link, Event::Closed, None)).await;
}

/// Sets options that make a link quick and quiet. A connection without them works all the same.
fn tune(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL);
    let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::sealing::SealPolicy;
    use super::*;
    use crate::core::Run;
    use crate::seal::tests::key;
    use crate::seal::{KeyRing, SealMode};

    const DEADLINE: Duration = Duration::from_secs(10);
    const OPENED: LinkId = LinkId::Opened(1);

    fn journal() -> Journal {
        Journal::start(&crate::core::NodeId::new("me").expect("a name")).expect("a thread")
    }

    /// Starts the links of one agent; returns them with their address and their tasks.
    fn links() -> (Links, SocketAddr, TaskTracker) {
        links_within(1_000)
    }

    fn links_within(budget: usize) -> (Links, SocketAddr, TaskTracker) {
        let listener = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a free port");
        let address = listener.0.local_addr().expect("bound");
        links_sealed(listener, budget, Sealing::off(journal()), address)
    }

    fn links_sealed(
        listener: Listener,
        budget: usize,
        sealing: Sealing,
        address: SocketAddr,
    ) -> (Links, SocketAddr, TaskTracker) {
        let tasks = TaskTracker::new();
        let links = Links::start(listener, &tasks, budget, sealing, journal()).expect("in a runtime");
        (links, address, tasks)
    }

    async fn next(links: &mut Links) -> (LinkId, Event) {
        timeout(DEADLINE, links.next()).await.expect("in time").expect("connections are accepted")
    }

    /// Creates two agents with a link between them; returns the link's id at the second, too.
    async fn pair() -> (Links, Links, LinkId) {
        let ((mut a, _, _), (mut b, address, _)) = (links(), links());
        a.open(OPENED, address);
        assert_eq!(next(&mut a).await, (OPENED, Event::Connected));
        a.send(OPENED, b"hello".to_vec());
        let (accepted, event) = next(&mut b).await;
        assert!(matches!(event, Event::Frame(_, bytes) if bytes == b"hello"[..]));
        (a, b, accepted)
    }

    #[tokio::test]
    async fn frames_travel_both_ways_whole_and_in_order() {
        let (mut a, b, accepted) = pair().await;
        for size in [0, 1, 1_400, MAX_FRAME_BYTES] {
            b.send(accepted, vec![7; size]);
            let (link, event) = next(&mut a).await;
            assert_eq!(link, OPENED);
            assert!(matches!(event, Event::Frame(_, bytes) if bytes == vec![7; size]), "{size} bytes");
        }
    }

    #[tokio::test]
    async fn a_link_that_is_closed_says_what_was_queued_and_then_ends_at_the_other_end() {
        let (mut a, mut b, accepted) = pair().await;
        a.send(OPENED, b"bye".to_vec());
        a.close(OPENED);
        assert!(
            matches!(next(&mut b).await, (link, Event::Frame(_, bytes)) if link == accepted && bytes == b"bye"[..])
        );
        assert_eq!(next(&mut b).await, (accepted, Event::Closed));
        assert_eq!(a.try_next(), None, "who closes needs no news of it");
    }

    #[tokio::test]
    async fn an_agent_that_is_gone_ends_its_links_and_refuses_new_ones() {
        let ((mut a, _, _), (mut b, address, _)) = (links(), links());
        a.open(OPENED, address);
        assert_eq!(next(&mut a).await, (OPENED, Event::Connected));
        a.send(OPENED, b"hello".to_vec());
        next(&mut b).await;
        drop(b);
        assert_eq!(next(&mut a).await, (OPENED, Event::Closed));
        a.open(LinkId::Opened(2), address);
        // The listener closes a moment after its links do.
        let mut last = next(&mut a).await;
        for number in 3.. {
            if last.1 == Event::Refused {
                break;
            }
            a.open(LinkId::Opened(number), address);
            last = next(&mut a).await;
        }
    }

    #[tokio::test]
    async fn a_frame_longer_than_the_limit_ends_its_link_before_it_is_read() {
        let (mut links, address, _) = links();
        let mut stream = TcpStream::connect(address).await.expect("listening");
        stream.write_all(&[0, 0, 0, 1, b'x']).await.expect("sent");
        let (accepted, _) = next(&mut links).await;
        let length = u32::try_from(MAX_FRAME_BYTES + 1).expect("small").to_be_bytes();
        stream.write_all(&length).await.expect("sent");
        assert_eq!(next(&mut links).await, (accepted, Event::Closed));
    }

    #[tokio::test]
    async fn connections_that_say_nothing_are_few() {
        let (links, address, _) = links();
        let mut held = Vec::new();
        for _ in 0..MAX_SILENT {
            held.push(TcpStream::connect(address).await.expect("listening"));
        }
        let mut one_more = TcpStream::connect(address).await.expect("listening");
        let ended = timeout(DEADLINE, one_more.read(&mut [0; 1])).await.expect("closed at once");
        assert!(matches!(ended, Ok(0) | Err(_)));
        assert_eq!(links.counters().turned_away(), 1);
    }

    #[tokio::test]
    async fn first_frames_that_the_driver_does_not_take_are_as_few_as_silent_connections() {
        let (links, address, _) = links();
        let (filler, mut full) = (links.announce.clone(), 0);
        while filler.try_send((OPENED, Event::Closed, None)).is_ok() {
            full += 1;
        }
        assert_eq!(full, MAX_QUEUED_EVENTS);
        let mut held = Vec::new();
        for _ in 0..3 * MAX_SILENT {
            let mut stream = TcpStream::connect(address).await.expect("listening");
            // The connection may have been turned away already.
            let _ = stream.write_all(&[0, 0, 0, 1, b'x']).await;
            held.push(stream);
            tokio::task::yield_now().await;
        }
        let turned_away = async {
            while links.counters().turned_away() < 2 * MAX_SILENT as u64 {
                tokio::task::yield_now().await;
            }
        };
        timeout(DEADLINE, turned_away).await.expect("no more than the bound wait with a frame");
    }

    #[tokio::test]
    async fn connections_are_never_more_than_the_budget_whoever_opens_them() {
        let ((mut a, a_address, _), (mut b, address, _)) = (links_within(4), links());
        for number in 1..=5 {
            a.open(LinkId::Opened(number), address);
        }
        let mut outcomes = Vec::new();
        for _ in 1..=5 {
            outcomes.push(next(&mut a).await);
        }
        assert!(outcomes.contains(&(LinkId::Opened(5), Event::Unreachable)), "{outcomes:?}");
        assert_eq!(outcomes.iter().filter(|(_, event)| *event == Event::Connected).count(), 4);
        b.open(OPENED, a_address);
        assert_eq!(next(&mut b).await, (OPENED, Event::Connected), "the kernel takes it");
        assert_eq!(next(&mut b).await, (OPENED, Event::Closed), "and it is turned away");
        assert_eq!(a.counters().turned_away(), 1);
        a.close(LinkId::Opened(1));
        while b.budget.available_permits() > 0 && a.budget.available_permits() == 0 {
            tokio::task::yield_now().await;
        }
        a.open(LinkId::Opened(6), address);
        assert_eq!(next(&mut a).await, (LinkId::Opened(6), Event::Connected), "one that ended makes room");
    }

    #[tokio::test]
    async fn a_silent_connection_delays_nobodys_end() {
        let (links, address, tasks) = links();
        let _silent = TcpStream::connect(address).await.expect("listening");
        while links.budget.available_permits() == 1_000 {
            tokio::task::yield_now().await;
        }
        tokio::time::pause();
        drop(links);
        tasks.close();
        let before = tokio::time::Instant::now();
        timeout(DEADLINE, tasks.wait()).await.expect("it ends");
        assert!(before.elapsed() < LINK_TIMEOUT, "without waiting for its first word");
    }

    #[tokio::test]
    async fn a_peer_that_does_not_read_costs_a_bounded_queue() {
        let (a, _b, _) = pair().await;
        let frames = 4 * MAX_QUEUED_FRAMES;
        for _ in 0..frames {
            a.send(OPENED, vec![0; MAX_FRAME_BYTES]);
        }
        let dropped = a.counters().dropped_frames();
        assert_eq!(dropped as usize, frames - MAX_QUEUED_FRAMES, "nothing was sent between two turns of the runtime");
    }

    #[tokio::test]
    async fn all_tasks_end_with_the_links() {
        let ((mut a, _, tasks), (_b, address, _)) = (links(), links());
        a.open(OPENED, address);
        assert_eq!(next(&mut a).await, (OPENED, Event::Connected));
        drop(a);
        tasks.close();
        timeout(DEADLINE, tasks.wait()).await.expect("no task outlives its links");
    }

    /// Starts the links of an agent that seals with these keys.
    fn sealed(run: u64, mode: SealMode, keys: &[u8]) -> (Links, SocketAddr, Sealing) {
        let ring = KeyRing::new(keys.iter().map(|number| key(*number))).expect("keys");
        let sealing = Sealing::new(Run(run), 7, SealPolicy::new(mode, Some(ring)), journal());
        let listener = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a free port");
        let address = listener.0.local_addr().expect("bound");
        let (links, address, _) = links_sealed(listener, 1_000, sealing.clone(), address);
        (links, address, sealing)
    }

    #[tokio::test]
    async fn sealed_frames_of_any_size_travel_both_ways() {
        let ((mut a, _, _), (mut b, address, _)) =
            (sealed(1, SealMode::Require, &[1]), sealed(2, SealMode::Require, &[1]));
        a.open(OPENED, address);
        assert_eq!(next(&mut a).await, (OPENED, Event::Connected));
        a.send(OPENED, b"hello".to_vec());
        let (accepted, event) = next(&mut b).await;
        assert!(matches!(event, Event::Frame(_, bytes) if bytes == b"hello"[..]));
        for size in [0, 1, 1_400, MAX_FRAME_BYTES] {
            b.send(accepted, vec![7; size]);
            assert!(
                matches!(next(&mut a).await, (_, Event::Frame(_, bytes)) if bytes == vec![7; size]),
                "{size} bytes"
            );
        }
    }

    #[tokio::test]
    async fn a_connection_that_is_not_sealed_is_closed_at_once_and_without_a_word() {
        let (links, address, sealing) = sealed(1, SealMode::Require, &[1]);
        for first in [&b"\0\0\0\x04HC\x01\0"[..], b"GET / HTTP/1.1\r\n\r\n", &[0, 0, 4, 0], &[0; 64]] {
            let mut stream = TcpStream::connect(address).await.expect("listening");
            stream.write_all(first).await.expect("sent");
            let mut answer = Vec::new();
            let ended = timeout(LINK_TIMEOUT / 2, stream.read_to_end(&mut answer)).await;
            assert!(ended.is_ok(), "{first:?} is not waited for");
            assert!(answer.is_empty(), "{first:?} is not answered");
        }
        assert!(sealing.refused()[0] >= 1, "counted");
        assert_eq!(links.counters().turned_away(), 0);
    }

    #[tokio::test]
    async fn ends_without_a_key_in_common_close_their_connection() {
        let ((mut a, _, at_a), (_b, address, at_b)) =
            (sealed(1, SealMode::Require, &[1]), sealed(2, SealMode::Require, &[2]));
        a.open(OPENED, address);
        assert_eq!(next(&mut a).await, (OPENED, Event::Connected), "the kernel takes it");
        assert_eq!(next(&mut a).await, (OPENED, Event::Closed));
        assert_eq!((at_a.refused()[3], at_b.refused()[3]), (0, 1), "who lacks the key knows");
    }

    #[tokio::test]
    async fn keys_are_changed_under_a_link_that_stands() {
        let ((mut a, _, at_a), (mut b, address, at_b)) =
            (sealed(1, SealMode::Require, &[1]), sealed(2, SealMode::Require, &[1]));
        a.open(OPENED, address);
        assert_eq!(next(&mut a).await, (OPENED, Event::Connected));
        for keys in [&[1, 2][..], &[2, 1], &[2]] {
            for sealing in [&at_a, &at_b] {
                let ring = KeyRing::new(keys.iter().map(|number| key(*number))).expect("keys");
                sealing.set_policy(SealPolicy::new(SealMode::Require, Some(ring)));
            }
            a.send(OPENED, b"hello".to_vec());
            assert!(matches!(next(&mut b).await, (_, Event::Frame(..))), "{keys:?}");
        }
    }

    #[tokio::test]
    async fn a_clear_link_ends_when_sealing_becomes_required_and_not_before() {
        let ((mut a, _, at_a), (mut b, address, _)) =
            (sealed(1, SealMode::Permit, &[1]), sealed(2, SealMode::Prefer, &[1]));
        a.open(OPENED, address);
        assert_eq!(next(&mut a).await, (OPENED, Event::Connected));
        a.send(OPENED, b"hello".to_vec());
        let (accepted, _) = next(&mut b).await;
        let ring = || Some(KeyRing::new([key(1)]).expect("a key"));
        at_a.set_policy(SealPolicy::new(SealMode::Prefer, ring()));
        b.send(accepted, b"still clear".to_vec());
        assert!(matches!(next(&mut a).await, (_, Event::Frame(_, bytes)) if bytes == b"still clear"[..]));
        at_a.set_policy(SealPolicy::new(SealMode::Require, ring()));
        assert_eq!(next(&mut a).await, (OPENED, Event::Closed));
        assert_eq!(next(&mut b).await, (accepted, Event::Closed));
    }

    #[tokio::test]
    async fn who_sends_clear_and_who_sends_sealed_frames_have_links_both_ways() {
        for (opener, acceptor) in [(SealMode::Prefer, SealMode::Permit), (SealMode::Permit, SealMode::Prefer)] {
            let ((mut a, _, _), (mut b, address, _)) = (sealed(1, opener, &[1]), sealed(2, acceptor, &[1]));
            a.open(OPENED, address);
            assert_eq!(next(&mut a).await, (OPENED, Event::Connected));
            a.send(OPENED, b"hello".to_vec());
            let (accepted, _) = next(&mut b).await;
            b.send(accepted, b"yes".to_vec());
            assert!(matches!(next(&mut a).await, (_, Event::Frame(_, bytes)) if bytes == b"yes"[..]), "{opener}");
        }
    }
}
