//! One connection: its deadlines, and the event that it waits for.
//!
//! Invariants:
//! - A connection lives as long as it is being answered. The deadline moves on when response bytes leave, and on
//!   nothing else: peers that send bytes one at a time, and peers that do not read the answers they asked for, run into
//!   it. A response that takes long must therefore send something in between, as event streams do.
//! - The table of connections always knows the phase of this one. hyper reads only when it needs a request or the rest
//!   of one, and not while it answers: so a read that waits means that the peer has not sent its part yet.
//! - A peer that closes its half still gets its answer. A stream's peer that hung up is noticed by the next bytes sent
//!   to it, which [`ConnectionState::end`] asks for.

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use super::head;
use super::limits::{HEAD_TIMEOUT, MAX_BUFFER_BYTES, MAX_HEADERS, SILENCE_TIMEOUT};
use super::table::{ConnectionState, Phase, Seat};

/// Serves one connection until its end, `shutdown`, or until it is shed.
pub(super) async fn serve(stream: TcpStream, seat: Seat, router: Router, shutdown: CancellationToken) {
    // Events are small and should not wait to be sent together.
    let _ = stream.set_nodelay(true);
    let io = TokioIo::new(Watched::new(stream, SILENCE_TIMEOUT, Arc::clone(&seat.line)));
    let service = Answering { router: TowerToHyperService::new(router), line: Arc::clone(&seat.line) };
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    builder.max_buf_size(MAX_BUFFER_BYTES).max_headers(MAX_HEADERS).half_close(true);
    let mut connection = pin!(builder.serve_connection(io, service));
    let mut is_stopping = false;
    loop {
        tokio::select! {
            // An error on one connection concerns its peer alone; the connection is closed either way.
            _ = connection.as_mut() => break,
            () = seat.line.shed() => break,
            () = shutdown.cancelled(), if !is_stopping => {
                is_stopping = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// The router; it learns with each request which connection the request came by.
struct Answering {
    router: TowerToHyperService<Router>,
    line: Arc<ConnectionState>,
}

impl Service<Request<Incoming>> for Answering {
    type Response = Response;
    type Error = Infallible;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request = head::keep_what_is_read(request);
        request.extensions_mut().insert(Arc::clone(&self.line));
        self.router.call(request)
    }
}

/// A stream that can tell, without being read, that its peer will send nothing more.
pub(super) trait HangUp {
    /// Ready if the peer has closed its half or hung up.
    fn poll_hang_up(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

impl HangUp for TcpStream {
    fn poll_hang_up(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut byte = [0];
        match self.poll_peek(cx, &mut ReadBuf::new(&mut byte)) {
            Poll::Ready(Ok(0)) => Poll::Ready(Ok(())),
            // The next request is already there.
            Poll::Ready(Ok(_)) | Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        }
    }
}

/// A connection that fails if nothing was written for too long.
#[derive(Debug)]
struct Watched<T = TcpStream> {
    stream: T,
    line: Arc<ConnectionState>,
    deadline: Pin<Box<Sleep>>,
    silence: Duration,
}

impl<T> Watched<T> {
    fn new(stream: T, silence: Duration, line: Arc<ConnectionState>) -> Self {
        Self { stream, line, deadline: Box::pin(tokio::time::sleep(silence)), silence }
    }

    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.deadline.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::Error::new(io::ErrorKind::TimedOut, "nothing was answered for too long")),
            Poll::Pending => Ok(()),
        }
    }

    /// Notes the outcome of a write.
    fn wrote(
        &mut self,
        written: Poll<io::Result<usize>>,
        wanted: usize,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Ready(Ok(bytes)) if *bytes > 0 || wanted == 0 => {
                self.line.progressed();
                self.deadline.as_mut().reset(Instant::now() + self.silence);
            }
            Poll::Ready(_) => {}
            Poll::Pending => {
                self.line.set_phase(Phase::Writing);
                self.check(cx)?;
            }
        }
        written
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.line.set_phase(if read.is_pending() { Phase::Reading } else { Phase::Busy });
        read
    }
}

impl<T: AsyncWrite + HangUp + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(written, bytes.len(), cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wanted = slices.iter().map(|slice| slice.len()).sum();
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.wrote(written, wanted, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Flushes, and looks for a hang-up first: hyper calls this on its every turn.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.line.is_stream() && !self.line.has_ended() {
            match self.stream.poll_hang_up(cx) {
                Poll::Ready(Ok(())) => self.line.end(),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {}
            }
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    use super::super::table::{Limits, Table};
    use super::*;

    const SILENCE: Duration = Duration::from_secs(30);

    impl HangUp for DuplexStream {
        fn poll_hang_up(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    async fn watched(stream: DuplexStream) -> (Watched<DuplexStream>, Seat) {
        let table = Table::new(Limits::new(8, 8), CancellationToken::new());
        let seat = table.admit().await.expect("a place");
        (Watched::new(stream, SILENCE, Arc::clone(&seat.line)), seat)
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_dribbles_its_question_is_cut_off() {
        let (mut peer, ours) = tokio::io::duplex(64);
        let (mut watched, _seat) = watched(ours).await;
        let dribbling = tokio::spawn(async move {
            while peer.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let mut read = 0;
        let error = loop {
            match watched.read_u8().await {
                Ok(_) => read += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!((29..=31).contains(&read), "{read} bytes read");
        drop(watched);
        dribbling.await.expect("it ends");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_answered_stays() {
        let (mut peer, ours) = tokio::io::duplex(64);
        let (mut watched, _seat) = watched(ours).await;
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_secs(20)).await;
            watched.write_all(b":\n\n").await.expect("in time");
            peer.read_exact(&mut [0; 3]).await.expect("three bytes");
        }
        peer.write_all(b"x").await.expect("written");
        assert_eq!(watched.read_u8().await.expect("still open"), b'x');
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_does_not_read_is_cut_off() {
        let (_peer, ours) = tokio::io::duplex(64);
        let (mut watched, _seat) = watched(ours).await;
        let error = watched.write_all(&[0; 1000]).await.expect_err("the peer never reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn the_table_knows_what_a_connection_waits_for() {
        let table = Table::new(Limits::new(8, 8), CancellationToken::new());
        let mut seats = Vec::new();
        for _ in 0..8 {
            seats.push(table.admit().await.expect("a place"));
        }
        let (mut peer, ours) = tokio::io::duplex(64);
        let mut watched = Watched::new(ours, SILENCE, Arc::clone(&seats[2].line));
        let mut byte = [0];
        assert!(tokio::time::timeout(Duration::ZERO, watched.read(&mut byte)).await.is_err());
        peer.write_all(b"x").await.expect("written");
        assert_eq!(watched.read(&mut byte).await.expect("read"), 1);
        table.make_room_for_descriptor(Duration::ZERO).await;
        assert_eq!(table.figures().shed, 0, "it has what it waited for");
        assert!(tokio::time::timeout(Duration::ZERO, watched.read(&mut byte)).await.is_err());
        table.make_room_for_descriptor(Duration::ZERO).await;
        seats[2].line.shed().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_whose_peer_takes_nothing_is_ended_after_the_time_for_silence() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("an address");
        let (peer, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (mut peer, (ours, _)) = (peer.expect("connected"), accepted.expect("accepted"));
        peer.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.expect("written");
        ours.readable().await.expect("the request is there");
        let endless = || async {
            let page = futures_util::stream::repeat_with(|| Ok::<_, Infallible>(vec![0_u8; 64 * 1024]));
            axum::body::Body::from_stream(page)
        };
        let router = Router::new().route("/", axum::routing::get(endless));
        let table = Table::new(Limits::new(8, 8), CancellationToken::new());
        let seat = table.admit().await.expect("a place");
        let began = Instant::now();
        let serving = serve(ours, seat, router, CancellationToken::new());
        tokio::time::timeout(SILENCE_TIMEOUT * 2, serving).await.expect("it ends");
        let silence = began.elapsed();
        assert!((SILENCE_TIMEOUT..SILENCE_TIMEOUT + Duration::from_secs(2)).contains(&silence), "{silence:?}");
    }
}
