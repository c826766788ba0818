//! An exchange: a connection of its own to another agent, over which each frame is answered by one frame.
//!
//! It is greeted and sealed as a link is, and is none: nobody but its owner knows of it, and the other end's driver gets its
//! frames as those of an accepted connection. Whoever asks sets the time limit, and drops this when it has passed.
//!
//! Must not know: the content of a frame.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_util::bytes::BytesMut;

use super::connection::{Connection, Turn, WRITE_TIMEOUT};
use crate::transport::sealing::Sealing;

/// The connection; closed when dropped.
pub(crate) struct Exchange(Connection);

impl Exchange {
    /// Opens a connection, and greets the other end. The error is for people.
    pub(crate) async fn open(to: SocketAddr, sealing: &Sealing, keepalive: Duration) -> Result<Self, String> {
        if sealing.policy().keeps_out(to) {
            return Err("this node has no key, and speaks to its own machine alone".to_owned());
        }
        let stream = TcpStream::connect(to).await.map_err(|error| error.to_string())?;
        let connection = Connection::new(stream, to, sealing.clone(), true, keepalive);
        let mut exchange = Self(connection.ok_or("the system has no random numbers")?);
        if exchange.0.greet().await { Ok(exchange) } else { Err(exchange.why_closed()) }
    }

    /// Sends a frame, and waits for the answer. After an error the connection is of no use.
    pub(crate) async fn ask(&mut self, frame: Vec<u8>) -> Result<BytesMut, String> {
        if !self.0.begin(frame.into()).await {
            return Err(self.why_closed());
        }
        let mut sent_by = Some(Instant::now() + WRITE_TIMEOUT);
        loop {
            match self.0.turn(sent_by).await {
                Some(Turn::Sent) => sent_by = None,
                // The other end keeps the connection alive.
                Some(Turn::Received(frame)) if frame.is_empty() => {}
                Some(Turn::Received(frame)) => return self.0.open(frame).ok_or_else(|| self.why_closed()),
                None => return Err(self.why_closed()),
            }
        }
    }

    fn why_closed(&self) -> String {
        self.0.unopened().map_or_else(|| "the connection was closed".to_owned(), |why| why.to_string())
    }
}
