//! The accept loop: takes connections in, gives each a task of its own, survives what goes wrong.
//!
//! Invariants:
//! - Nothing that one connection does, a panic included, ends the loop or another connection.
//! - Errors of the system, such as too many open files, are survived with a pause, counted, and told once until
//!   connections are accepted again. Only a listener that will never accept again ends the loop, with its error.
//! - After `shutdown` no connection is accepted, and those there are get [`STOP_TIMEOUT`] to end.
//!
//! This module must not know what is answered.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::table::Table;
use super::{STOP_TIMEOUT, connection};

/// How long the loop rests after an error of our own system.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where connections come from.
pub(super) trait Accept {
    fn accept(&self) -> impl Future<Output = io::Result<TcpStream>> + Send;
}

impl Accept for TcpListener {
    async fn accept(&self) -> io::Result<TcpStream> {
        TcpListener::accept(self).await.map(|(stream, _)| stream)
    }
}

/// Serves until `shutdown`; an error says why no more connections can be accepted.
pub(super) async fn run(
    listener: impl Accept,
    router: Router,
    table: Arc<Table>,
    close: CancellationToken,
    shutdown: CancellationToken,
) -> io::Result<()> {
    // Whoever drops this future drops the connections.
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
                trouble.is_over();
                if let Some(seat) = table.admit().await {
                    connections.spawn(connection::serve(stream, seat, router.clone(), shutdown.clone()));
                }
            }
            // The peer was gone before we came.
            Err(error) if is_of_the_peer(&error) => table.count_accept_error(),
            // The listener was closed under us.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => break Err(error),
            Err(error) => {
                table.count_accept_error();
                trouble.note(&error);
                // Who waits for nothing in particular gives its descriptor to somebody who may.
                table.shed_waiting();
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    };
    drop(listener);
    connections.close();
    // What is not done then is dropped.
    let _ = timeout(STOP_TIMEOUT, connections.wait()).await;
    end
}

fn is_of_the_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Whether connections cannot be accepted at the moment, so that it is told once and its end, too.
#[derive(Debug, Default)]
struct Trouble {
    is_told: bool,
}

impl Trouble {
    fn note(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.is_told, true) {
            tracing::warn!("HTTP cannot accept connections: {}", in_words(error));
        }
    }

    fn is_over(&mut self) {
        if std::mem::take(&mut self.is_told) {
            tracing::info!("HTTP accepts connections again");
        }
    }
}

/// The error, and what to try where we know it.
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

    /// A listener that first has some errors.
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

    #[test]
    fn trouble_is_told_once_and_again_after_it_was_over() {
        let mut trouble = Trouble::default();
        let error = io::Error::from(io::ErrorKind::OutOfMemory);
        trouble.note(&error);
        assert!(trouble.is_told);
        trouble.note(&error);
        trouble.is_over();
        assert!(!trouble.is_told);
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
