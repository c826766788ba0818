//! The HTTP listener of a process: bound before the node starts, served with the access rules of the configuration.
//!
//! It is served by a thread of its own, as the agent's packets are: no flood of requests takes the time of handlers and
//! signals, and what a thousand connections allocate and free stays in one place, whatever the number of cores.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::mpsc;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::agent::{Agent, Unwaited};
use crate::cli::client::read_token;
use crate::cli::failure::{Exit, Failure};
use crate::config::HttpConfig;
use crate::descriptors;
use crate::http::{self, HttpSettings, Tokens};

/// Reads the tokens in the files that the configuration names.
fn tokens(config: &HttpConfig) -> Result<Tokens, Failure> {
    let read = |path: &Option<PathBuf>| path.as_deref().map(read_token).transpose();
    Ok(Tokens::new(read(&config.token_file)?, read(&config.read_token_file)?))
}

/// The future that the thread of HTTP runs.
type Serve = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An HTTP listener, with its access rules.
#[derive(Debug)]
pub(crate) struct HttpListener {
    pub(crate) address: SocketAddr,
    listener: TcpListener,
    /// The thread that serves, with its runtime. Started with the listener: what either needs is missing at once, or never.
    thread: mpsc::Sender<Serve>,
    pub(super) settings: HttpSettings,
}

impl HttpListener {
    /// Listens at the configured address; returns `None` if there is none.
    pub(crate) async fn open(config: &HttpConfig) -> Result<Option<Self>, Failure> {
        let Some(address) = config.bind else { return Ok(None) };
        let tokens = tokens(config)?;
        let bound = http::listen(address).await.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = bound.map_err(|error| {
            Failure::new(Exit::CANNOT_BIND, format!("cannot serve HTTP on {address}: {error}")).hint(
                if descriptors::are_short(&error) {
                    descriptors::RAISE
                } else {
                    "is another agent running? choose another address with --http, or none with --http off"
                },
            )
        })?;
        let thread = start_thread()
            .map_err(|error| Failure::failed(format!("cannot serve HTTP: {error}")).hint(descriptors::RAISE))?;
        let mut settings = HttpSettings { tokens, ..HttpSettings::default() };
        settings.allowed_hosts.clone_from(&config.allowed_hosts);
        settings.max_connections = config.max_connections;
        settings.max_streams = config.max_streams;
        Ok(Some(Self { address, listener, thread, settings }))
    }

    /// Takes the part of the limit on open files that the links of the agent leave; fails if there is none.
    pub(crate) fn fit(&mut self, agent: &Agent) -> Result<(), Failure> {
        let wanted = self.settings.max_connections;
        let Some(share) = descriptors::http_within_the_limit(agent.link_budget(), wanted) else {
            let limit = descriptors::limit().unwrap_or_default();
            let what =
                format!("cannot serve HTTP: the limit on open files is {limit}, and none is left for a connection");
            return Err(Failure::failed(what).hint(descriptors::RAISE));
        };
        self.settings.max_connections = share;
        if share < wanted {
            tracing::warn!(
                "the limit on open files leaves {share} HTTP connections at one time instead of {wanted}, and event streams \
                 end where others need theirs: {}",
                descriptors::RAISE
            );
        }
        Ok(())
    }

    /// Serves until told to stop. Dropping the future does not end it.
    pub(crate) async fn serve(self, agent: Agent, stopping: CancellationToken) -> std::io::Result<()> {
        let Self { listener, thread, settings, .. } = self;
        let (told, end) = oneshot::channel();
        let listener = listener.into_std()?;
        let serve = async move {
            let serve = async { http::serve(TcpListener::from_std(listener)?, agent, settings, stopping).await };
            let _ = told.send(serve.await);
        };
        // An error would mean that the thread is gone, which is said below.
        let _ = thread.send(Box::pin(serve));
        end.await.unwrap_or_else(|_| Err(std::io::Error::other("its thread has panicked")))
    }
}

/// Starts a thread with a runtime, which runs what it is sent; it ends when nothing comes any more.
fn start_thread() -> std::io::Result<mpsc::Sender<Serve>> {
    let runtime = Unwaited::build(&mut tokio::runtime::Builder::new_current_thread())?;
    let (thread, work) = mpsc::channel::<Serve>();
    let run = move || {
        if let Ok(serve) = work.recv() {
            runtime.block_on(serve);
        }
    };
    std::thread::Builder::new().name("http".to_owned()).spawn(run)?;
    Ok(thread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AgentConfig;

    #[tokio::test]
    async fn a_taken_http_address_has_its_own_exit_code() {
        let taken = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let mut config = AgentConfig::new(crate::Config::new("a").expect("a name")).http;
        config.bind = taken.local_addr().ok();
        let failure = HttpListener::open(&config).await.expect_err("it is taken");
        assert_eq!(failure.exit().code(), 3);
        assert!(failure.to_string().contains("--http"), "{failure}");
    }
}
