//! Connecting: host after host, each within the connect timeout.
//!
//! Invariants: the first host is used that accepts the connection, and takes writes if that is asked for. A
//! connection's socket is closed as soon as the connection is dropped.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::{SslMode as Negotiation, TargetSessionAttrs};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::parameters::{Host, Parameters, SslMode};
use super::{password, tls};
use crate::lease::store::StoreError;
use crate::lease::store::error::with_causes;

/// The longest wait for the server to notice that the connection is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// An open connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) client: Client,
    socket: Socket,
}

/// The task that reads and writes. It is aborted when dropped: one that hangs is not waited for.
#[derive(Debug)]
struct Socket(JoinHandle<()>);

impl Drop for Socket {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Connection {
    /// Closes the connection.
    pub(super) async fn close(self) {
        let Self { client, mut socket } = self;
        drop(client);
        let _ = timeout(CLOSE_TIMEOUT, &mut socket.0).await;
    }
}

/// The reason why a host cannot be used.
enum ConnectFailure {
    /// The server is not there, or has no time.
    Away(String),
    /// The server takes no writes.
    Standby,
    /// The server refuses the connection, or is not trusted.
    Down(String),
}

/// Connects to the first host that can be used.
pub(super) async fn connect(parameters: &Parameters, place: &str) -> Result<Connection, StoreError> {
    let mut tried = Vec::new();
    for host in &parameters.hosts {
        let attempt = timeout(parameters.connect_timeout, connect_to(parameters, host)).await;
        let turned = match attempt {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(turned)) => turned,
            Err(_) => ConnectFailure::Away(format!("no answer within {:?}", parameters.connect_timeout)),
        };
        tried.push((host, turned));
    }
    Err(failure(&tried, place))
}

/// Returns the error for the attempts: a server that is only away may come back, so that comes before errors that need
/// people.
fn failure(tried: &[(&Host, ConnectFailure)], place: &str) -> StoreError {
    let tell = |(host, turned): &(&Host, ConnectFailure)| {
        let said = match turned {
            ConnectFailure::Away(said) | ConnectFailure::Down(said) => said.as_str(),
            ConnectFailure::Standby => "takes no writes",
        };
        if tried.len() == 1 { (*said).to_owned() } else { format!("{}:{}: {said}", host.name, host.port) }
    };
    let place = place.to_owned();
    let reason = tried.iter().map(tell).collect::<Vec<_>>().join("; ");
    if tried.iter().any(|(_, turned)| matches!(turned, ConnectFailure::Away(_))) {
        StoreError::Unreachable { place, reason }
    } else if tried.iter().any(|(_, turned)| matches!(turned, ConnectFailure::Standby)) {
        StoreError::ReadOnly { place, reason }
    } else {
        let hint = String::from("check user, password, database and sslmode");
        StoreError::Refused { place, reason, hint }
    }
}

async fn connect_to(parameters: &Parameters, host: &Host) -> Result<Connection, ConnectFailure> {
    // The files may lie on a disk that hangs.
    let (for_files, of_host) = (parameters.clone(), host.clone());
    let files = move || (password::password(&for_files, &of_host), tls::config(&for_files));
    let (password, tls) =
        tokio::task::spawn_blocking(files).await.map_err(|error| ConnectFailure::Away(error.to_string()))?;
    // Said where it matters: with the refusal of a server that wanted a password.
    let (password, unused) = match password {
        Ok(password) => (password, None),
        Err(unused) => (None, Some(unused)),
    };
    let config = config(parameters, host, password);
    let connected = config.connect(MakeRustlsConnect::new(tls.map_err(ConnectFailure::Down)?)).await;
    let (client, connection) = connected.map_err(|error| match (classify(&error), unused) {
        (ConnectFailure::Down(said), Some(unused)) => ConnectFailure::Down(format!("{said}; {unused}")),
        (turned, _) => turned,
    })?;
    let run = async move {
        if let Err(error) = connection.await {
            tracing::debug!(error = %with_causes(&error), "a connection to the database ended");
        }
    };
    Ok(Connection { client, socket: Socket(tokio::spawn(run)) })
}

fn config(parameters: &Parameters, host: &Host, password: Option<String>) -> Config {
    let mut config = Config::new();
    if host.is_socket() {
        config.host_path(&host.name);
    } else {
        config.host(&host.name);
    }
    let negotiation = match parameters.ssl_mode {
        SslMode::Disable => Negotiation::Disable,
        // Nobody eavesdrops on a socket of this machine.
        _ if host.is_socket() => Negotiation::Disable,
        SslMode::Prefer => Negotiation::Prefer,
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => Negotiation::Require,
    };
    config
        .port(host.port)
        .user(&parameters.user)
        .dbname(&parameters.database)
        .application_name(&parameters.application)
        .ssl_mode(negotiation)
        .channel_binding(parameters.channel_binding)
        .connect_timeout(parameters.connect_timeout)
        .keepalives(parameters.keepalive.is_some());
    if let Some(keepalive) = parameters.keepalive {
        config.keepalives_idle(keepalive.idle);
        if let Some(interval) = keepalive.interval {
            config.keepalives_interval(interval);
        }
        if let Some(count) = keepalive.count {
            config.keepalives_retries(count);
        }
    }
    if parameters.needs_primary {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    if let Some(password) = password {
        config.password(password);
    }
    if let Some(options) = &parameters.options {
        config.options(options);
    }
    config
}

/// Returns true if a pooler says that people have to change something. PgBouncer has one code for all that it says
/// itself, also for a server that is away.
fn is_refused_by_a_pooler(code: &str, said: &str) -> bool {
    let refusals =
        ["authentication failed", "no such database", "no such user", "login rejected", "not allowed", "unsupported"];
    code == "08P01" && refusals.iter().any(|refusal| said.contains(refusal))
}

fn classify(error: &tokio_postgres::Error) -> ConnectFailure {
    let said = with_causes(error);
    if let Some(code) = error.code() {
        let class = &code.code()[..2];
        // Authentication, no such database, too old a protocol. All other errors pass: starting, stopping, too many
        // clients.
        let is_refused = class == "28" || class == "3D" || *code == SqlState::INSUFFICIENT_PRIVILEGE;
        return if is_refused || is_refused_by_a_pooler(code.code(), &said) {
            ConnectFailure::Down(said)
        } else {
            ConnectFailure::Away(said)
        };
    }
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        if let Some(inner) = inner.downcast_ref::<std::io::Error>() {
            // The client's error for a server whose transactions are read-only.
            if inner.kind() == std::io::ErrorKind::PermissionDenied && said.contains("does not allow writes") {
                return ConnectFailure::Standby;
            }
            // Certificates that are not trusted.
            if inner.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()).is_some() {
                return ConnectFailure::Down(said);
            }
            return ConnectFailure::Away(said);
        }
        cause = inner.source();
    }
    ConnectFailure::Down(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pooler_that_refuses_is_told_from_one_whose_server_is_away() {
        for said in ["FATAL: password authentication failed", "FATAL: no such database: app", "FATAL: no such user: hc"]
        {
            assert!(is_refused_by_a_pooler("08P01", said), "{said}");
            assert!(!is_refused_by_a_pooler("57P03", said), "{said}");
        }
        for said in
            ["server conn crashed?", "pgbouncer cannot connect to server", "query_wait_timeout", "database is paused"]
        {
            assert!(!is_refused_by_a_pooler("08P01", said), "{said}");
        }
    }

    #[test]
    fn who_may_come_back_goes_before_what_needs_people() {
        let (a, b) = (Host { name: "a".into(), port: 1 }, Host { name: "b".into(), port: 2 });
        let away = || ConnectFailure::Away("gone".into());
        let down = || ConnectFailure::Down("wrong password".into());
        let unreachable = failure(&[(&a, down()), (&b, away())], "x");
        assert!(matches!(&unreachable, StoreError::Unreachable { .. }), "{unreachable}");
        assert!(unreachable.to_string().contains("a:1: wrong password; b:2: gone"), "{unreachable}");
        assert!(matches!(failure(&[(&a, down()), (&b, ConnectFailure::Standby)], "x"), StoreError::ReadOnly { .. }));
        assert!(matches!(failure(&[(&a, down())], "x"), StoreError::Refused { .. }));
    }
}
