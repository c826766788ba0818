//! The accept loop: accepts connections, gives each a task of its own, and survives errors.
//!
//! Invariants:
//! - Nothing that one connection does, a panic included, ends the loop or another connection.
//! - Errors of the system, such as too many open files, are survived, counted, and logged once until they are over.
//!   Only a listener that will never accept again ends the loop, with its error.
//! - If descriptors are short, a connection that waits to be accepted gets that of another one, see
//!   [`Table::make_room_for_descriptor`]; so a health check is answered however long the shortage lasts, as long as there is a
//!   connection that can go. The loop waits until it is closed; if there is none, it pauses.
//! - After `shutdown` no connection is accepted, and open ones get [`STOP_TIMEOUT`] to end.
//!
//! This module must not know the contents of requests and answers.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection;
use super::limits::STOP_TIMEOUT;
use super::table::Table;
use crate::trouble::Trouble;

/// The longest pause of the loop after an error of our own system, in which a connection gives its descriptor back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A source of connections.
pub(super) trait Accept {
    /// Returns the next connection.
    fn accept(&self) -> impl Future<Output = io::Result<TcpStream>> + Send;
}

impl Accept for TcpListener {
    async fn accept(&self) -> io::Result<TcpStream> {
        TcpListener::accept(self).await.map(|(stream, _)| stream)
    }
}

/// Serves until `shutdown`; returns an error if no more connections can be accepted.
pub(super) async fn run(
    listener: impl Accept,
    router: Router,
    table: Arc<Table>,
    close: CancellationToken,
    shutdown: CancellationToken,
) -> io::Result<()> {
    // Dropping this future drops the connections.
    let _close = close.drop_guard();
    let connections = TaskTracker::new();
    let mut trouble = Trouble::default();
    let end = loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break Ok(()),
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok(stream) => {
                if trouble.end() {
                    tracing::info!("HTTP accepts connections again");
                }
                if let Some(seat) = table.admit().await {
                    connections.spawn(connection::serve(stream, seat, router.clone(), shutdown.clone()));
                }
            }
            // The peer was gone before its connection was accepted.
            Err(error) if is_of_the_peer(&error) => table.count_accept_error(),
            // The listener itself was closed.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => break Err(error),
            Err(error) => {
                table.count_accept_error();
                if trouble.begins() {
                    tracing::warn!("HTTP cannot accept connections: {}", in_words(&error));
                }
                table.make_room_for_descriptor(ACCEPT_PAUSE).await;
            }
        }
    };
    drop(listener);
    connections.close();
    // Connections that are not done by then are dropped.
    let _ = timeout(STOP_TIMEOUT, connections.wait()).await;
    end
}

fn is_of_the_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Returns the error in words, with one thing to try if we know one.
fn in_words(error: &io::Error) -> String {
    #[cfg(unix)]
    if let Some(number) = error.raw_os_error() {
        use nix::errno::Errno;
        if let known @ (Errno::EMFILE | Errno::ENFILE) = Errno::from_raw(number) {
            let whose = if known == Errno::EMFILE { "" } else { " in the whole system" };
            return format!("too many open files{whose}; raise the limit (ulimit -n)");
        }
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::super::table::Limits;
    use super::*;

    /// A listener that first returns some errors.
    struct Troubled {
        errors: Mutex<VecDeque<io::Error>>,
        listener: TcpListener,
    }

    impl Accept for Troubled {
        async fn accept(&self) -> io::Result<TcpStream> {
            let error = self.errors.lock().expect("not poisoned").pop_front();
            match error {
                Some(error) => Err(error),
                None => Accept::accept(&self.listener).await,
            }
        }
    }

    fn table() -> (Arc<Table>, CancellationToken) {
        let close = CancellationToken::new();
        (Table::new(Limits::new(8, 8), close.clone()), close)
    }

    async fn panics() -> &'static str {
        panic!("on purpose")
    }

    async fn ask(address: std::net::SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.expect("connected");
        let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        answer
    }

    async fn started(
        errors: Vec<io::Error>,
    ) -> (std::net::SocketAddr, Arc<Table>, impl Future<Output = io::Result<()>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("an address");
        let (table, close) = table();
        let router = Router::new().route("/", get(async || "fine")).route("/panic", get(panics));
        let troubled = Troubled { errors: Mutex::new(errors.into()), listener };
        let shutdown = CancellationToken::new();
        (address, Arc::clone(&table), run(troubled, router, table, close, shutdown))
    }

    #[tokio::test]
    async fn errors_of_the_system_are_survived_and_counted() {
        #[cfg(unix)]
        let errors = [nix::errno::Errno::EMFILE, nix::errno::Errno::ENFILE].map(io::Error::from);
        #[cfg(not(unix))]
        let errors = [io::ErrorKind::OutOfMemory, io::ErrorKind::Other].map(io::Error::from);
        let mut errors = Vec::from(errors);
        errors.push(io::ErrorKind::ConnectionAborted.into());
        let (address, table, serving) = started(errors).await;
        let serving = tokio::spawn(serving);
        assert!(ask(address, "/").await.ends_with("fine"));
        assert_eq!(table.figures().accept_errors, 3);
        serving.abort();
    }

    #[cfg(unix)]
    #[test]
    fn too_many_open_files_are_told_with_what_to_try() {
        let told = in_words(&nix::errno::Errno::EMFILE.into());
        assert_eq!(told, "too many open files; raise the limit (ulimit -n)");
        assert_eq!(in_words(&io::ErrorKind::TimedOut.into()), "timed out");
    }

    /// A listener that returns only errors, until it has returned so many.
    struct Short {
        left: Mutex<usize>,
        done: CancellationToken,
    }

    impl Accept for Short {
        async fn accept(&self) -> io::Result<TcpStream> {
            {
                let mut left = self.left.lock().expect("not poisoned");
                if *left > 0 {
                    *left -= 1;
                    return Err(io::ErrorKind::OutOfMemory.into());
                }
            }
            self.done.cancel();
            std::future::pending().await
        }
    }

    /// Returns the table, and the virtual time that so many errors take, with a connection for each of `shed` of them
    /// to shed.
    async fn time_of(errors: usize, shed: usize) -> (Arc<Table>, Duration) {
        let (table, close) = table();
        for _ in 0..shed {
            let seat = table.admit().await.expect("a place");
            seat.line.set_phase(super::super::table::Phase::Reading);
            tokio::spawn(async move { seat.line.shed().await });
        }
        let done = CancellationToken::new();
        let listener = Short { left: Mutex::new(errors), done: done.clone() };
        let begun = tokio::time::Instant::now();
        let running = run(listener, Router::new(), Arc::clone(&table), close, CancellationToken::new());
        tokio::select! {
            _ = running => {}
            () = done.cancelled() => {}
        }
        (table, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_descriptor_gets_that_of_another_connection_without_a_pause() {
        let (table, time) = time_of(5, 7).await;
        assert_eq!((time, table.figures().shed, table.figures().accept_errors), (Duration::ZERO, 5, 5));
    }

    #[tokio::test(start_paused = true)]
    async fn where_nothing_can_be_shed_there_is_a_pause_after_each_error() {
        let (table, time) = time_of(5 + 4, 5).await;
        assert!(time >= 4 * ACCEPT_PAUSE, "{time:?}");
        assert_eq!(table.figures().shed, 5);
    }

    #[tokio::test]
    async fn a_listener_that_is_gone_ends_the_loop_with_its_error() {
        let (_, _, serving) = started(vec![io::ErrorKind::InvalidInput.into()]).await;
        assert_eq!(serving.await.expect_err("it ends").kind(), io::ErrorKind::InvalidInput);
    }

    #[tokio::test]
    async fn a_panic_costs_one_connection() {
        let (address, table, serving) = started(Vec::new()).await;
        let serving = tokio::spawn(serving);
        assert_eq!(ask(address, "/panic").await, "");
        assert!(ask(address, "/").await.ends_with("fine"));
        assert_eq!(table.figures().panics, 1);
        serving.abort();
    }
}
