//! One connection: opened or accepted, greeted where frames are sealed, and carried until either side ends it.
//!
//! Invariants: an end that waits until it can write reads meanwhile, or two that write at once would wait for each other;
//! nothing waits for a peer beyond [`WRITE_TIMEOUT`] or [`LINK_TIMEOUT`], nor the kernel beyond ten seconds
//! where it can be told so; a frame that does not fit its place
//! ends the connection, and so does a mode that forbids it.
//!
//! Must not know: the content of a frame, or how connections are counted.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::task::Poll;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
#[cfg(any(target_os = "linux", target_os = "android"))]
use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::bytes::{Bytes, BytesMut};
use tokio_util::codec::{Framed, LengthDelimitedCodec};

use super::Event;
use super::queues::{Announcer, Waiting};
use crate::core::limits::{LINK_TIMEOUT, MAX_FRAME_BYTES};
use crate::core::{LinkId, Unopened};
use crate::seal::{FRAME_OVERHEAD, LinkSealer, LinkStep, SealError, is_clear_packet, turned_down, why_turned_down};
use crate::transport::sealing::Sealing;

/// Time limit for sending a frame; one that takes longer ends its link.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// The time in which whoever opened a connection must greet, where packets are sealed.
pub(crate) const GREETING_TIMEOUT: Duration = Duration::from_secs(1);
/// The time after which the kernel gives up a connection whose other end acknowledges nothing of what was sent: its
/// own, a quarter of an hour, is too long for a link that leads to where nobody is any more.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause between two looks whether a connection was given up while it is greeted.
const GIVEN_UP_PAUSE: Duration = Duration::from_millis(50);
/// The longest first frame where packets are sealed: a greeting.
pub(super) const MAX_GREETING_BYTES: usize = 96;

/// Opens a connection. Without a permit it fails: too many are open already.
pub(super) async fn connect(
    link: LinkId,
    to: SocketAddr,
    permit: Option<OwnedSemaphorePermit>,
    mut frames: mpsc::Receiver<Waiting>,
    announce: Announcer,
    (sealing, keepalive): (Sealing, Duration),
) {
    if permit.is_none() || sealing.policy().keeps_out(to) {
        announce.send(link, Event::Unreachable, None).await;
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
    if !announce.send(link, event, None).await {
        return;
    }
    let Ok(Ok(stream)) = attempt else { return };
    let greeted = async {
        let mut connection = Connection::new(stream, to, sealing, true, keepalive)?;
        Some(if connection.greet().await { Ok(connection) } else { Err(connection.end()) })
    };
    let greeted = tokio::select! {
        greeted = timeout(LINK_TIMEOUT, greeted) => greeted,
        () = announce.closed() => return,
        // Given up by the driver: a process that hangs greets nobody.
        () = is_given_up(&frames) => return,
    };
    match greeted {
        Ok(Some(Ok(connection))) => carry(link, connection, frames, announce).await,
        Ok(Some(Err(end))) => _ = announce.send(link, end, None).await,
        Ok(None) | Err(_) => _ = announce.send(link, Event::Closed, None).await,
    }
}

/// Waits until nobody can send frames any more, and looks for that every now and then.
async fn is_given_up(frames: &mpsc::Receiver<Waiting>) {
    while !frames.is_closed() {
        sleep(GIVEN_UP_PAUSE).await;
    }
}

/// A connection, and the seal of its frames.
pub(super) struct Connection {
    framed: Framed<TcpStream, LengthDelimitedCodec>,
    from: SocketAddr,
    sealer: LinkSealer,
    sealing: Sealing,
    is_opener: bool,
    /// Nothing has come yet.
    is_first: bool,
    /// The reason why the opener's first frame is not taken, at either end.
    unopened: Option<Unopened>,
    /// The idle time after which an empty frame is sent, so that no firewall forgets the connection.
    keepalive: Duration,
}

impl Connection {
    /// Returns a connection over this stream; `None` if the system has no random numbers.
    pub(super) fn new(
        stream: TcpStream,
        from: SocketAddr,
        sealing: Sealing,
        is_opener: bool,
        keepalive: Duration,
    ) -> Option<Self> {
        tune(&stream);
        let sealer = sealing.link(is_opener)?;
        let most = if sealing.policy().mode().accepts_clear() { MAX_FRAME_BYTES } else { MAX_GREETING_BYTES };
        let framed = LengthDelimitedCodec::builder().max_frame_length(most).new_framed(stream);
        Some(Self { framed, from, sealer, sealing, is_opener, is_first: true, unopened: None, keepalive })
    }

    /// Greets the acceptor and waits for its answer, if frames are sealed; returns false if the connection is of no use.
    pub(super) async fn greet(&mut self) -> bool {
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
        // The answer to a greeting holds no packet.
        matches!(self.step().await, Some(None))
    }

    /// Returns the reason why the other end does not take what was sent first, if it said one.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(super) fn unopened(&self) -> Option<Unopened> {
        self.unopened
    }

    /// Returns the event of its end.
    fn end(&self) -> Event {
        self.unopened.map_or(Event::Closed, Event::Unopened)
    }

    /// Takes frames of any length that is allowed from now on.
    fn allow_frames(&mut self) {
        let overhead = if self.sealer.is_clear() { 0 } else { FRAME_OVERHEAD };
        self.framed.codec_mut().set_max_frame_length(MAX_FRAME_BYTES + overhead);
    }

    /// Waits for the first frame of an accepted connection, opened; `None` at the end, if one is refused, or if it takes too
    /// long.
    pub(super) async fn first(&mut self) -> Option<BytesMut> {
        let is_greeted_soon = !self.sealing.policy().mode().accepts_clear();
        let patience = if is_greeted_soon { GREETING_TIMEOUT } else { LINK_TIMEOUT };
        match timeout(patience, self.step()).await.ok()? {
            Some(Some(frame)) => Some(frame),
            Some(None) => {
                let frame = timeout(LINK_TIMEOUT, self.framed.next()).await.ok()??.ok()?;
                self.open(frame)
            }
            None => {
                let _ = timeout(GREETING_TIMEOUT, self.turn_down(self.unopened?)).await;
                None
            }
        }
    }

    /// Tells the opener why its first frame is not taken, and waits until it has heard that: an end that closes with
    /// something unread takes back what it said.
    async fn turn_down(&mut self, why: Unopened) -> std::io::Result<()> {
        self.framed.send(Bytes::copy_from_slice(&turned_down(why))).await?;
        let stream = self.framed.get_mut();
        stream.shutdown().await?;
        while stream.read(&mut [0; 256]).await? > 0 {}
        Ok(())
    }

    /// Takes the first frame: that of the core, or a greeting, which is answered.
    async fn step(&mut self) -> Option<Option<BytesMut>> {
        let Ok(frame) = self.framed.next().await? else {
            // Longer than any greeting: the packet of an agent without keys.
            if self.is_first && !self.is_opener && self.framed.read_buffer().get(4..).is_some_and(is_clear_packet) {
                self.sealing.refuse(self.from, SealError::Unsealed);
                self.unopened = Some(Unopened::KeyNeeded);
            }
            return None;
        };
        match self.take(&frame)? {
            LinkStep::Clear => Some(Some(frame)),
            LinkStep::Greeted(answer) => {
                if let Some(answer) = answer {
                    timeout(WRITE_TIMEOUT, self.framed.send(Bytes::from(answer))).await.ok()?.ok()?;
                }
                Some(None)
            }
            LinkStep::Frame(_) => None,
        }
    }

    /// Opens a frame of an end that has greeted, or need not; `None` if it is refused.
    pub(super) fn open(&mut self, frame: BytesMut) -> Option<BytesMut> {
        match self.take(&frame)? {
            LinkStep::Clear => Some(frame),
            LinkStep::Frame(packet) => Some(BytesMut::from(&packet[..])),
            LinkStep::Greeted(_) => None,
        }
    }

    /// Judges a frame; `None` if it is refused.
    fn take(&mut self, frame: &[u8]) -> Option<LinkStep> {
        let is_first = std::mem::take(&mut self.is_first);
        if is_first
            && self.is_opener
            && let Some(why) = why_turned_down(frame)
        {
            self.unopened = Some(why);
            return None;
        }
        match self.sealing.take(&mut self.sealer, self.from, frame) {
            Ok(step) => {
                self.allow_frames();
                Some(step)
            }
            Err(error) => {
                self.unopened = self.sealing.why_unopened(error, frame).filter(|_| is_first && !self.is_opener);
                None
            }
        }
    }

    /// Takes a frame to be sent, which [`Connection::turn`] does; returns false if that is not possible any more, or not
    /// allowed.
    pub(super) async fn begin(&mut self, frame: Bytes) -> bool {
        // The mode may have changed since this frame was waited for.
        if !self.is_allowed() {
            return false;
        }
        let frame = if self.sealer.is_clear() {
            frame
        } else {
            let policy = self.sealing.policy();
            match policy.ring().and_then(|ring| self.sealer.seal(ring.sealing(), &frame)) {
                Some(sealed) => Bytes::from(sealed),
                None => return false,
            }
        };
        // It is encoded, no more: the one before has been sent.
        self.framed.feed(frame).await.is_ok()
    }

    /// Goes on sending the frame that was begun, if one has to be sent until `deadline`, and waits for the other end's next
    /// one; `None` at the end. Cancel safe.
    pub(super) async fn turn(&mut self, deadline: Option<Instant>) -> Option<Turn> {
        let turn = poll_fn(|context| {
            if let Some(deadline) = deadline {
                match SinkExt::<Bytes>::poll_flush_unpin(&mut self.framed, context) {
                    Poll::Ready(sent) => return Poll::Ready(sent.ok().map(|()| Turn::Sent)),
                    // Whatever the other end sends, it has to read.
                    Poll::Pending if Instant::now() >= deadline => return Poll::Ready(None),
                    Poll::Pending => {}
                }
            }
            self.framed.poll_next_unpin(context).map(|frame| frame?.ok().map(Turn::Received))
        });
        match deadline {
            Some(deadline) => timeout_at(deadline, turn).await.ok()?,
            None => turn.await,
        }
    }

    /// Returns true if the mode allows the connection to go on as it is.
    fn is_allowed(&self) -> bool {
        let mode = self.sealing.policy().mode();
        if self.sealer.is_clear() { mode.accepts_clear() } else { mode.accepts_sealed() }
    }
}

/// The next thing that happens on a connection.
#[derive(Debug)]
pub(super) enum Turn {
    /// The frame that was begun is sent.
    Sent,
    /// A frame came, still as it travels.
    Received(BytesMut),
}

/// Carries frames both ways until either side ends the connection.
pub(super) async fn carry(
    link: LinkId,
    mut connection: Connection,
    mut frames: mpsc::Receiver<Waiting>,
    announce: Announcer,
) {
    let mut policy = connection.sealing.watch();
    // The room that a frame takes until it is sent, and the time limit for that.
    let mut sending = None;
    let mut busy = Instant::now();
    while connection.is_allowed() {
        let idle_until = busy + connection.keepalive;
        // Neither way goes first: a goodbye waits behind no flood of a peer's frames, and these behind none of ours.
        tokio::select! {
            frame = frames.recv(), if sending.is_none() => {
                let Some(Waiting { bytes, room }) = frame else {
                    let _ = timeout(WRITE_TIMEOUT, SinkExt::<Bytes>::close(&mut connection.framed)).await;
                    return;
                };
                if !connection.begin(bytes).await {
                    break;
                }
                sending = Some((room, Instant::now() + WRITE_TIMEOUT));
            }
            turn = connection.turn(sending.as_ref().map(|(_, deadline)| *deadline)) => {
                busy = Instant::now();
                match turn {
                    Some(Turn::Sent) => sending = None,
                    // The other end keeps the connection alive.
                    Some(Turn::Received(frame)) if frame.is_empty() => {}
                    Some(Turn::Received(frame)) => {
                        let Some(bytes) = connection.open(frame) else { break };
                        // If nobody listens any more, what waits is sent, a goodbye perhaps, and the queue ends.
                        announce.send(link, Event::Frame(connection.from, bytes), None).await;
                        // Nothing was sent meanwhile: that the driver is busy is not held against the peer.
                        if let Some((_, deadline)) = &mut sending {
                            *deadline += busy.elapsed();
                        }
                    }
                    None => break,
                }
            }
            // Data, which is sent again until it arrives: of the kernel's own keepalives the first that is lost would end
            // the connection, within the time limit that it has for what is not acknowledged.
            () = sleep_until(idle_until), if sending.is_none() => {
                if connection.framed.feed(Bytes::new()).await.is_err() {
                    break;
                }
                sending = Some((None, Instant::now() + WRITE_TIMEOUT));
            }
            // It is looked at above.
            Ok(()) = policy.changed() => {}
        }
    }
    announce.send(link, connection.end(), None).await;
}

/// Sets options that make a link quick and quiet. A connection without them works all the same.
fn tune(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = SockRef::from(stream).set_tcp_user_timeout(Some(UNACKNOWLEDGED_TIMEOUT));
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpSocket;

    use super::super::queues::{self, Announced, Outgoing};
    use super::super::tests::{KEEPALIVE, journal};
    use super::*;
    use crate::config::key;
    use crate::core::Run;
    use crate::seal::{KeyRing, SealMode};
    use crate::transport::sealing::SealPolicy;

    /// Returns what the drivers at both ends hold of a link whose kernels take few bytes.
    async fn ends_of_a_narrow_link(sealing: [Sealing; 2]) -> [(Outgoing, mpsc::Receiver<Announced>); 2] {
        let narrow = || {
            let socket = TcpSocket::new_v4().expect("a socket");
            socket.set_recv_buffer_size(8 * 1024).expect("an option");
            socket.set_send_buffer_size(8 * 1024).expect("an option");
            socket
        };
        let listener = narrow();
        listener.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let listener = listener.listen(1).expect("listening");
        let to = listener.local_addr().expect("bound");
        let (stream, accepted) = tokio::join!(narrow().connect(to), listener.accept());
        let [of_opener, of_acceptor] = sealing;
        let mut opener =
            Connection::new(stream.expect("connected"), to, of_opener, true, KEEPALIVE).expect("random numbers");
        let (accepted, from) = accepted.expect("accepted");
        let mut acceptor = Connection::new(accepted, from, of_acceptor, false, KEEPALIVE).expect("random numbers");
        let greeted = async {
            let sent_by = Some(Instant::now() + WRITE_TIMEOUT);
            opener.greet().await
                && opener.begin(Bytes::from_static(b"hello")).await
                && matches!(opener.turn(sent_by).await, Some(Turn::Sent))
        };
        assert_eq!(tokio::join!(greeted, acceptor.first()), (true, Some(BytesMut::from("hello"))));
        [(opener, LinkId::Opened(1)), (acceptor, LinkId::Accepted(1))].map(|(connection, link)| {
            let ((queue, frames), (announce, events)) = (queues::outgoing(), queues::incoming());
            tokio::spawn(carry(link, connection, frames, announce));
            (queue, events)
        })
    }

    #[tokio::test]
    async fn large_frames_that_both_ends_send_at_once_pass_each_other() {
        const FRAMES: usize = 32;
        let room = || std::sync::Arc::new(tokio::sync::Semaphore::new(queues::MAX_SENT_BYTES));
        let sealed = |run| {
            let ring = KeyRing::new([key(1)]).expect("a key");
            Sealing::new(Run(run), "test", SealPolicy::new(SealMode::Require, ring), journal())
        };
        for sealing in [[Sealing::off(journal()), Sealing::off(journal())], [sealed(1), sealed(2)]] {
            let [(to_b, at_a), (to_a, at_b)] = ends_of_a_narrow_link(sealing).await;
            let (of_a, of_b) = (room(), room());
            for _ in 0..FRAMES {
                assert!(to_a.offer(vec![1; 60_000], &of_b) && to_b.offer(vec![2; 60_000], &of_a));
            }
            let taken = |mut events: mpsc::Receiver<Announced>| async move {
                for _ in 0..FRAMES {
                    match events.recv().await.map(|announced| announced.event) {
                        Some(Event::Frame(_, bytes)) => assert_eq!(bytes.len(), 60_000),
                        other => return Err(other),
                    }
                }
                Ok(events)
            };
            let (at_a, at_b) = tokio::join!(taken(at_a), taken(at_b));
            assert!(at_a.is_ok() && at_b.is_ok(), "{at_a:?} {at_b:?}");
        }
    }

    #[tokio::test]
    async fn peers_that_read_keep_their_link_however_long_both_drivers_are_busy() {
        let sealing = [Sealing::off(journal()), Sealing::off(journal())];
        let [(to_b, at_a), (to_a, at_b)] = ends_of_a_narrow_link(sealing).await;
        let of_all = std::sync::Arc::new(tokio::sync::Semaphore::new(4 * queues::MAX_SENT_BYTES));
        let (mut offered, mut refusals) = ([0, 0], 0);
        // Until nothing moves any more: both wait for room at their drivers, each in the middle of a frame.
        while refusals < 100 {
            let taken = [&to_b, &to_a].map(|queue| queue.offer(vec![1; 60_000], &of_all));
            refusals = if taken.contains(&true) { 0 } else { refusals + 1 };
            for (offered, is_taken) in offered.iter_mut().zip(taken) {
                *offered += usize::from(is_taken);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::pause();
        tokio::time::advance(WRITE_TIMEOUT * 2).await;
        tokio::time::resume();
        let taken = |mut events: mpsc::Receiver<Announced>, frames| async move {
            for nth in 0..frames {
                let event = events.recv().await.map(|announced| announced.event);
                assert!(matches!(event, Some(Event::Frame(..))), "{nth} of {frames}: {event:?}");
            }
            events
        };
        let _open = tokio::join!(taken(at_a, offered[1]), taken(at_b, offered[0]));
    }

    #[tokio::test]
    async fn a_connection_is_quick_and_is_given_up_when_nothing_is_acknowledged() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let to = listener.local_addr().expect("an address");
        let stream = TcpStream::connect(to).await.expect("connected");
        tune(&stream);
        assert!(stream.nodelay().expect("an option"));
        #[cfg(any(target_os = "linux", target_os = "android"))]
        assert_eq!(SockRef::from(&stream).tcp_user_timeout().expect("an option"), Some(UNACKNOWLEDGED_TIMEOUT));
    }
}
