//! Connections with bounds: how many, and how long a silent one may stay.
//!
//! Invariant: a connection lives as long as it is being answered. The deadline moves on when response bytes leave, and on
//! nothing else: heads that arrive a byte at a time, peers that ask nothing and peers that do not read what they asked
//! for all run into it. A response that takes long must therefore say something in between, as event streams do.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

/// A listener that accepts so many connections at one time and watches over each.
#[derive(Debug)]
pub(super) struct Bounded {
    listener: TcpListener,
    slots: Arc<Semaphore>,
    silence: Duration,
}

impl Bounded {
    pub(super) fn new(listener: TcpListener, connections: usize, silence: Duration) -> Self {
        Self { listener, slots: Arc::new(Semaphore::new(connections)), silence }
    }
}

impl Listener for Bounded {
    type Io = Watched;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Watched, SocketAddr) {
        // The slots are never closed, so that this never is an error; without a slot nothing would be accepted.
        let slot = Arc::clone(&self.slots).acquire_owned().await.ok();
        // axum's own `accept` waits and tries again on errors such as too many open files.
        let (stream, peer) = Listener::accept(&mut self.listener).await;
        // Events are small and should not wait for company.
        let _ = stream.set_nodelay(true);
        (Watched::new(stream, self.silence, slot), peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that fails when nothing was written for too long.
#[derive(Debug)]
pub(super) struct Watched<T = TcpStream> {
    stream: T,
    deadline: Pin<Box<Sleep>>,
    silence: Duration,
    _slot: Option<OwnedSemaphorePermit>,
}

impl<T> Watched<T> {
    fn new(stream: T, silence: Duration, slot: Option<OwnedSemaphorePermit>) -> Self {
        Self { stream, deadline: Box::pin(tokio::time::sleep(silence)), silence, _slot: slot }
    }

    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.deadline.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::Error::new(io::ErrorKind::TimedOut, "nothing was answered for too long")),
            Poll::Pending => Ok(()),
        }
    }

    fn moved(&mut self, written: &Poll<io::Result<usize>>) {
        if matches!(written, Poll::Ready(Ok(bytes)) if *bytes > 0) {
            self.deadline.as_mut().reset(Instant::now() + self.silence);
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.moved(&written);
        if written.is_pending() {
            self.check(cx)?;
        }
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.moved(&written);
        if written.is_pending() {
            self.check(cx)?;
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const SILENCE: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_dribbles_its_question_is_cut_off() {
        let (mut peer, ours) = tokio::io::duplex(64);
        let mut watched = Watched::new(ours, SILENCE, None);
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
        let mut watched = Watched::new(ours, SILENCE, None);
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
        let mut watched = Watched::new(ours, SILENCE, None);
        let error = watched.write_all(&[0; 1000]).await.expect_err("the peer never reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn no_more_connections_than_slots_are_accepted() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("an address");
        let mut bounded = Bounded::new(listener, 1, SILENCE);
        let _first = TcpStream::connect(address).await.expect("connected");
        let _second = TcpStream::connect(address).await.expect("queued");
        let (held, _) = bounded.accept().await;
        let refused = tokio::time::timeout(Duration::from_millis(50), bounded.accept()).await;
        assert!(refused.is_err(), "the only slot is taken");
        drop(held);
        bounded.accept().await;
    }
}
