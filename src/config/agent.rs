//! [`AgentConfig`]: the configuration of the binary: the library's [`Config`], and the settings of HTTP,
//! handlers and logs.
//!
//! Values only. Their names and texts are in the table of keys, their merging in the layers; this module does not know
//! how they are used.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use super::addresses::is_loopback;
use super::{Config, DEFAULT_HTTP_PORT, HandlerConfig};

/// The configuration of `headcount agent`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentConfig {
    /// The library's configuration.
    pub config: Config,
    /// The HTTP interface.
    pub http: HttpConfig,
    /// The metrics.
    pub metrics: MetricsConfig,
    /// The handlers of events.
    pub handlers: Vec<HandlerConfig>,
    /// The logs.
    pub log: LogConfig,
}

/// Section `[http]`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpConfig {
    /// The address that accepts requests; port 0 takes a free one. `None`: HTTP is off (`bind = "off"`).
    pub bind: Option<SocketAddr>,
    /// A file with the token that every request must bear. `None`: no token is asked for.
    pub token_file: Option<PathBuf>,
    /// A file with a second token, for requests that change nothing. `None`: there is none.
    pub read_token_file: Option<PathBuf>,
    /// True if an address that is not loopback may be bound without a token.
    pub insecure: bool,
    /// Host names under which HTTP may be called without a token, besides IP addresses and `localhost`; without ports.
    pub allowed_hosts: Vec<String>,
    /// The greatest number of connections open at one time, event streams included.
    pub max_connections: usize,
    /// The greatest number of event streams open at one time.
    pub max_streams: usize,
}

/// Section `[metrics]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct MetricsConfig {
    /// True if `GET /metrics` has series for each member: two, in views of at most 200 live members.
    pub per_member: bool,
}

/// Section `[log]`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogConfig {
    /// Directives of `tracing_subscriber`'s `Targets`, checked: a level, or `target=level` with commas between.
    pub level: String,
    /// The format of a log line.
    pub format: LogFormat,
}

/// The format of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object a line, for collectors.
    Json,
}

impl AgentConfig {
    /// Returns this library configuration, with defaults for the rest.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            http: HttpConfig::default(),
            metrics: MetricsConfig::default(),
            handlers: Vec::new(),
            log: LogConfig::default(),
        }
    }

    /// Returns true if HTTP would be open to other machines without a token, and `insecure` does not say that this is
    /// meant.
    pub(super) fn http_is_open_by_accident(&self) -> bool {
        let HttpConfig { bind, token_file, insecure, .. } = &self.http;
        let is_remote = bind.is_some_and(|address| !is_loopback(&address));
        is_remote && token_file.is_none() && !insecure
    }

    /// Returns true if gossip, which takes UDP and TCP on one port number, would leave no TCP port for HTTP.
    pub(super) fn http_and_gossip_collide(&self) -> bool {
        let gossip = self.config.listens_at();
        // `[::]` takes both address families.
        let covers =
            |one: IpAddr, other: IpAddr| one == other || one.is_unspecified() && (one.is_ipv6() || other.is_ipv4());
        self.http.bind.is_some_and(|http| {
            let overlap = covers(http.ip(), gossip.ip()) || covers(gossip.ip(), http.ip());
            http.port() != 0 && http.port() == gossip.port() && overlap
        })
    }
}

impl Default for HttpConfig {
    fn default() -> Self {
        let bind = SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_HTTP_PORT));
        Self {
            bind: Some(bind),
            token_file: None,
            read_token_file: None,
            insecure: false,
            allowed_hosts: Vec::new(),
            max_connections: 1_024,
            max_streams: 1_024,
        }
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: LogFormat::default() }
    }
}

impl LogFormat {
    /// Returns the format's name in configuration files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        }
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for LogFormat {
    type Err = crate::core::OutOfRange;
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err(crate::core::OutOfRange {
                key: "log.format",
                found: name.to_owned(),
                allowed: "text, json".to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(gossip: Option<&str>, http: &str) -> AgentConfig {
        let mut agent = AgentConfig::new(Config::new("a").expect("a good name"));
        agent.config.bind = gossip.map(|address| address.parse().expect("an address"));
        agent.http.bind = Some(http.parse().expect("an address"));
        agent
    }

    #[test]
    fn only_a_remote_address_without_token_or_word_is_open_by_accident() {
        for loopback in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(!agent(None, loopback).http_is_open_by_accident(), "{loopback}");
        }
        for remote in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1"] {
            let mut agent = agent(None, remote);
            assert!(agent.http_is_open_by_accident(), "{remote}");
            agent.http.insecure = true;
            assert!(!agent.http_is_open_by_accident());
            agent.http = HttpConfig { insecure: false, token_file: Some("token".into()), ..agent.http };
            assert!(!agent.http_is_open_by_accident());
        }
    }

    #[test]
    fn one_port_cannot_serve_both_gossip_and_http() {
        assert!(agent(None, "127.0.0.1:7117").http_and_gossip_collide());
        assert!(agent(Some("127.0.0.1:1"), "127.0.0.1:1").http_and_gossip_collide());
        assert!(agent(Some("127.0.0.1:1"), "0.0.0.0:1").http_and_gossip_collide());
        assert!(!agent(Some("127.0.0.1:1"), "127.0.0.2:1").http_and_gossip_collide());
        assert!(!agent(Some("0.0.0.0:1"), "[::1]:1").http_and_gossip_collide());
        assert!(!agent(Some("127.0.0.1:0"), "127.0.0.1:0").http_and_gossip_collide());
        assert!(!agent(None, "127.0.0.1:7118").http_and_gossip_collide());
    }
}
