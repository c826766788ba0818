//! Connection parameters: an address, the environment and the defaults put together.
//!
//! Invariants: every setting that can be known to be wrong before connecting is refused here, by name.

use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::config::ChannelBinding;

use super::PostgresUrl;
use crate::lease::store::{StoreError, StoreOptions};

/// The largest number of hosts in one address.
pub const MAX_HOSTS: usize = 8;

const DEFAULT_PORT: u16 = 5432;
/// The directory of sockets that distributions use.
const SOCKETS: &str = "/var/run/postgresql";
/// The name that an agent's sessions have unless another is given.
const APPLICATION: &str = "headcount";
/// The time after which a silent peer is asked if it still lives, unless another is given.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);

/// The address of a server. A host that begins with a slash is a directory of sockets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) port: u16,
}

impl Host {
    pub(super) fn is_socket(&self) -> bool {
        self.name.starts_with('/')
    }
}

/// The protection of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SslMode {
    Disable,
    /// The connection is encrypted if the server can do so.
    Prefer,
    /// The connection is encrypted; the server's certificate is checked if there are authorities to check it by.
    Require,
    /// The certificate must be one that the authorities issued.
    VerifyCa,
    /// The certificate must also be that of the requested host.
    VerifyFull,
}

/// The authorities by which a server's certificate is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Roots {
    System,
    File(PathBuf),
}

/// The environment of this process: its variables, its user, its files.
pub(super) struct Environment<'a> {
    pub(super) variable: &'a dyn Fn(&str) -> Option<String>,
    pub(super) user: Option<String>,
    pub(super) exists: &'a dyn Fn(&std::path::Path) -> bool,
}

/// All parameters of a connection.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Parameters {
    pub(super) hosts: Vec<Host>,
    pub(super) user: String,
    pub(super) database: String,
    pub(super) password: Option<String>,
    pub(super) password_file: Option<PathBuf>,
    pub(super) ssl_mode: SslMode,
    pub(super) roots: Option<Roots>,
    /// The client's certificate and its key.
    pub(super) certificate: Option<(PathBuf, PathBuf)>,
    pub(super) application: String,
    pub(super) connect_timeout: Duration,
    pub(super) needs_primary: bool,
    pub(super) channel_binding: ChannelBinding,
    pub(super) options: Option<String>,
    pub(super) keepalive: Option<Keepalive>,
}

/// The keepalive settings for a silent peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Keepalive {
    pub(super) idle: Duration,
    pub(super) interval: Option<Duration>,
    pub(super) count: Option<u32>,
}

impl Parameters {
    pub(super) fn new(
        url: &PostgresUrl,
        options: &StoreOptions,
        environment: &Environment<'_>,
    ) -> Result<Self, StoreError> {
        let value = |keyword: &str| url.value(keyword, environment.variable);
        let home = (environment.variable)("HOME").map(PathBuf::from);
        // A file that libpq finds below the home directory by itself.
        let usual = |name: &str| {
            let path = home.as_ref()?.join(".postgresql").join(name);
            (environment.exists)(&path).then_some(path)
        };
        let hosts = hosts(value("host"), value("port"), environment.exists)?;
        let database = value("dbname");
        if database.as_deref().is_some_and(|name| name.contains(['@', '=']) || name.contains("://")) {
            let reason = "has an '@', '=' or \"://\", as if it were an address; if it belongs to a password, write / and @ as %2F and %40";
            return Err(StoreError::configuration("the database's name", reason));
        }
        let user = value("user").or_else(|| environment.user.clone());
        let user =
            user.ok_or_else(|| StoreError::configuration("user", "is not known: postgres://USER@…, or PGUSER"))?;
        let ssl_mode = ssl_mode(value("sslmode").as_deref())?;
        let roots = match value("sslrootcert") {
            Some(word) if word == "system" => Some(Roots::System),
            Some(file) => Some(Roots::File(PathBuf::from(file))),
            None => usual("root.crt").map(Roots::File),
        };
        if matches!(ssl_mode, SslMode::VerifyCa | SslMode::VerifyFull) && roots.is_none() {
            return Err(StoreError::configuration(
                "sslmode",
                "verifies certificates, and there are no authorities: sslrootcert=FILE, sslrootcert=system, or \
                 ~/.postgresql/root.crt",
            ));
        }
        let certificate = value("sslcert").map(PathBuf::from).or_else(|| usual("postgresql.crt"));
        let key = value("sslkey").map(PathBuf::from).or_else(|| usual("postgresql.key"));
        let certificate = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (Some(_), None) => return Err(StoreError::configuration("sslcert", "needs sslkey=FILE")),
            (None, _) => None,
        };
        let seconds = |keyword| number(keyword, value(keyword)).map(|number| number.map(Duration::from_secs));
        // 0 is libpq's way to say that there is no limit; here there always is one.
        let asked = seconds("connect_timeout")?.filter(|timeout| !timeout.is_zero());
        let keepalive = if number("keepalives", value("keepalives"))? == Some(0) {
            None
        } else {
            let count = number("keepalives_count", value("keepalives_count"))?;
            Some(Keepalive {
                idle: seconds("keepalives_idle")?.filter(|idle| !idle.is_zero()).unwrap_or(KEEPALIVE_IDLE),
                interval: seconds("keepalives_interval")?.filter(|interval| !interval.is_zero()),
                count: count.and_then(|count| u32::try_from(count).ok()).filter(|count| *count > 0),
            })
        };
        Ok(Self {
            needs_primary: needs_primary(value("target_session_attrs").as_deref(), hosts.len())?,
            hosts,
            database: database.unwrap_or_else(|| user.clone()),
            user,
            password: value("password"),
            password_file: value("passfile").map(PathBuf::from).or_else(|| home.map(|home| home.join(".pgpass"))),
            ssl_mode,
            roots,
            certificate,
            application: value("application_name").unwrap_or_else(|| APPLICATION.to_owned()),
            connect_timeout: options.connect_timeout().or(asked).unwrap_or(StoreOptions::DEFAULT_CONNECT_TIMEOUT),
            channel_binding: channel_binding(value("channel_binding").as_deref())?,
            options: value("options"),
            keepalive,
        })
    }
}

fn hosts(
    hosts: Option<String>,
    ports: Option<String>,
    exists: &dyn Fn(&std::path::Path) -> bool,
) -> Result<Vec<Host>, StoreError> {
    let usual = || if exists(SOCKETS.as_ref()) { SOCKETS.to_owned() } else { String::from("localhost") };
    let hosts = hosts.unwrap_or_default();
    let names: Vec<&str> = hosts.split(',').collect();
    let ports = ports.unwrap_or_default();
    let ports: Vec<&str> = ports.split(',').collect();
    if names.len() > MAX_HOSTS {
        return Err(StoreError::configuration("host", format!("names too many: at most {MAX_HOSTS}")));
    }
    if ports.len() != 1 && ports.len() != names.len() {
        return Err(StoreError::configuration("port", "is to be one for all hosts, or one for each"));
    }
    let host = |(place, name): (usize, &&str)| {
        let text = ports.get(place).copied().unwrap_or(ports[0]);
        let port = if text.is_empty() { Some(DEFAULT_PORT) } else { text.parse().ok().filter(|port| *port > 0) };
        let Some(port) = port else {
            // It is not repeated: behind USER: without a host stands a password.
            let which = if names.len() > 1 { format!("port (of host {})", place + 1) } else { String::from("port") };
            return Err(StoreError::configuration(
                which,
                "is none from 1 to 65535; if a user and a password stand there, an '@' and the host follow them",
            ));
        };
        // It would be shown wherever the database is named.
        if !name.starts_with('/') && name.contains(['@', '=', '?']) {
            return Err(StoreError::configuration("host", "has an '@', '=' or '?': name hosts alone"));
        }
        Ok(Host { name: if name.is_empty() { usual() } else { (*name).to_owned() }, port })
    };
    names.iter().enumerate().map(host).collect()
}

fn ssl_mode(word: Option<&str>) -> Result<SslMode, StoreError> {
    Ok(match word {
        Some("disable") => SslMode::Disable,
        None | Some("prefer") => SslMode::Prefer,
        Some("require") => SslMode::Require,
        Some("verify-ca") => SslMode::VerifyCa,
        Some("verify-full") => SslMode::VerifyFull,
        Some(other) => return Err(unknown("sslmode", other, "disable, prefer, require, verify-ca, verify-full")),
    })
}

/// Returns true if only a host that takes writes will do: so with several hosts, unless something else is set.
fn needs_primary(word: Option<&str>, hosts: usize) -> Result<bool, StoreError> {
    match word {
        None => Ok(hosts > 1),
        Some("any") => Ok(false),
        Some("read-write" | "primary") => Ok(true),
        Some(other) => Err(unknown("target_session_attrs", other, "any, read-write, primary (leases are written)")),
    }
}

fn channel_binding(word: Option<&str>) -> Result<ChannelBinding, StoreError> {
    Ok(match word {
        None | Some("prefer") => ChannelBinding::Prefer,
        Some("disable") => ChannelBinding::Disable,
        Some("require") => ChannelBinding::Require,
        Some(other) => return Err(unknown("channel_binding", other, "disable, prefer, require")),
    })
}

fn number(keyword: &str, text: Option<String>) -> Result<Option<u64>, StoreError> {
    let parse = |text: String| text.trim().parse().map_err(|_| unknown(keyword, &text, "a whole number"));
    text.map(parse).transpose()
}

fn unknown(keyword: &str, found: &str, range: &str) -> StoreError {
    // Only what looks like such a word is repeated: it may be a password in the wrong place.
    let is_word =
        (1..=20).contains(&found.len()) && found.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    let shown = if is_word { format!("\"{found}\" ") } else { String::new() };
    StoreError::configuration(keyword, format!("{shown}is unknown; allowed is {range}"))
}

#[cfg(test)]
mod tests;
