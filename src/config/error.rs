//! The reasons for which a [`Config`](super::Config) is refused: each with the key, the value found and the values
//! allowed.
//!
//! Knows nothing of the source of a value; the layers put it in front.

use std::net::SocketAddr;
use std::time::Duration;

use crate::core::limits::MAX_VOTERS;
use crate::core::{NodeId, OutOfRange};
use crate::lease::{LeaseName, MAX_LEASES};
use crate::seal::{RingError, SealMode};
use crate::text::{MAX_SHOWN, visible};

/// A value, or a combination of values, that an agent cannot work with. Nothing was started or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A value of [`Settings`](crate::Settings) is out of range.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// `bind` is a multicast group, or the broadcast address; packets are sent from one address.
    #[error("{}", self.text())]
    BindMulticast {
        /// The value of `bind`.
        address: SocketAddr,
    },
    /// `bind` is reached from this machine only, and all seeds are on other machines.
    #[error("{}", self.text())]
    BindUnreachable {
        /// The value of `bind`.
        address: SocketAddr,
        /// One of `seeds`.
        seed: String,
    },
    /// `advertise` is an address that no packet can be sent to.
    #[error("{}", self.text())]
    AdvertiseUnreachable {
        /// The value of `advertise`.
        address: SocketAddr,
    },
    /// `api_address` is empty, too long, or not printable.
    #[error("{}", self.text())]
    ApiAddress {
        /// The value of `api_address`.
        found: String,
    },
    /// `seeds` has more than 64 entries.
    #[error("{}", self.text())]
    TooManySeeds {
        /// The number of seeds.
        count: usize,
    },
    /// One of `seeds` is not a valid `host:port`.
    #[error("{}", self.text())]
    Seed {
        /// The seed.
        seed: String,
        /// The fault of the seed.
        fault: SeedFault,
    },
    /// `seeds_command` names no program.
    #[error("{}", self.text())]
    SeedsCommand,
    /// `leadership.voters` has more than seven entries.
    #[error("{}", self.text())]
    TooManyVoters {
        /// The number of voters.
        count: usize,
    },
    /// One of `leadership.voters` is listed twice.
    #[error("{}", self.text())]
    VoterTwice {
        /// The voter's name.
        id: NodeId,
    },
    /// There are voters, but the mode is not `quorum`, so that nothing is elected.
    #[error("{}", self.text())]
    VotersWithoutQuorum {
        /// The number of voters.
        count: usize,
        /// The configured mode.
        mode: &'static str,
    },
    /// The mode is `lease`, but no database is named.
    #[error("{}", self.text())]
    LeaseWithoutUrl,
    /// There is a database, but the mode is not `lease`.
    #[error("{}", self.text())]
    UrlWithoutLease {
        /// The value of `leadership.lease.url`, without a password.
        found: String,
        /// The configured mode.
        mode: &'static str,
    },
    /// `leadership.lease.url` is not the address of a database.
    #[error("{}", self.text())]
    LeaseUrl {
        /// The value of `leadership.lease.url`, without a password.
        found: String,
        /// The reason in words.
        reason: String,
    },
    /// A name of tables, or of their schema, that the database would refuse.
    #[error("{}", self.text())]
    LeaseTables {
        /// The key.
        key: &'static str,
        /// Its value, safe to print.
        found: String,
        /// The reason in words.
        reason: String,
    },
    /// A statement timeout that the database would refuse.
    #[error("{}", self.text())]
    StatementTimeout {
        /// The timeout.
        found: Duration,
        /// The reason in words.
        reason: String,
    },
    /// `leadership.lease.leases` is empty, or has more entries than an agent contends for.
    #[error("{}", self.text())]
    LeaseCount {
        /// The number of leases.
        count: usize,
    },
    /// One of `leadership.lease.leases` is listed twice.
    #[error("{}", self.text())]
    LeaseTwice {
        /// The lease's name.
        lease: LeaseName,
    },
    /// The mode is `quorum` without a data directory; a voter's promises must outlive its process.
    #[error("{}", self.text())]
    QuorumWithoutDataDir,
    /// Other machines would reach a node that has no keys, and nobody said that this is meant.
    #[error("{}", self.text())]
    NotSealed {
        /// The key: `bind`, `advertise`, or one that names seeds.
        key: &'static str,
        /// Its value, safe to print.
        found: String,
    },
    /// Clear packets are taken from other machines, and the cluster has the name that others have by default.
    #[error("{}", self.text())]
    ClearWithoutName {
        /// The cluster's name.
        cluster: NodeId,
    },
    /// `seal.mode` is not `off`, and there are no keys.
    #[error("{}", self.text())]
    SealWithoutKeys {
        /// The mode.
        mode: SealMode,
    },
    /// `seal.keys` and `seal.key_file` are both given.
    #[error("{}", self.text())]
    KeysTwice,
    /// `seal.keys` make no ring.
    #[error("{}", self.text())]
    Keys {
        /// The reason.
        error: RingError,
        /// The number of keys.
        count: usize,
    },
}

/// The fault of a seed that is not a valid `host:port`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SeedFault {
    /// No port. A port is never guessed, since a wrong guess looks like a node that is down.
    #[error("has no port; write it as in \"10.0.0.1:7117\"")]
    NoPort,
    /// Not a valid port number.
    #[error("has no usable port after the last ':'")]
    Port,
    /// Not a valid name of SRV records.
    #[error("is no name of SRV records; write it as in \"srv:_headcount._udp.example.internal\", without a port")]
    Srv,
    /// SRV records, in a program that was built without them.
    #[error("names SRV records, which this program was built without (cargo feature srv)")]
    NoSrv,
    /// Neither a host name nor an address in front of the port.
    #[error("has no host name or address before the ':'")]
    Host,
    /// An IPv6 address without brackets, where the port cannot be told from the address.
    #[error("has more than one ':'; write an IPv6 address in brackets, as in \"[2001:db8::1]:7117\"")]
    Brackets,
    /// An address that no packet can be sent to.
    #[error("is an address that no packet can be sent to")]
    Unreachable,
    /// A link-local IPv6 address with the name of its zone.
    #[error(
        "names a zone, which other machines do not know; use a unique local address (fd00::/8), a global one, or IPv4"
    )]
    Zone,
}

impl ConfigError {
    /// Returns the key, with its section, as in the configuration file.
    pub fn key(&self) -> &'static str {
        match self {
            ConfigError::OutOfRange(error) => error.key,
            ConfigError::BindMulticast { .. } | ConfigError::BindUnreachable { .. } => "bind",
            ConfigError::AdvertiseUnreachable { .. } => "advertise",
            ConfigError::ApiAddress { .. } => "api_address",
            ConfigError::TooManySeeds { .. } | ConfigError::Seed { .. } => "seeds",
            ConfigError::SeedsCommand => "seeds_command",
            ConfigError::TooManyVoters { .. }
            | ConfigError::VoterTwice { .. }
            | ConfigError::VotersWithoutQuorum { .. } => "leadership.voters",
            ConfigError::QuorumWithoutDataDir | ConfigError::LeaseWithoutUrl => "leadership.mode",
            ConfigError::UrlWithoutLease { .. } | ConfigError::LeaseUrl { .. } => "leadership.lease.url",
            ConfigError::LeaseTables { key, .. } | ConfigError::NotSealed { key, .. } => key,
            ConfigError::StatementTimeout { .. } => "leadership.lease.statement_timeout",
            ConfigError::LeaseCount { .. } | ConfigError::LeaseTwice { .. } => "leadership.lease.leases",
            ConfigError::SealWithoutKeys { .. } => "seal.mode",
            ConfigError::ClearWithoutName { .. } => "cluster",
            ConfigError::KeysTwice | ConfigError::Keys { .. } => "seal.keys",
        }
    }

    /// Returns the other key, if two values contradict each other and the bounds do not name it.
    pub const fn other_key(&self) -> Option<&'static str> {
        match self {
            ConfigError::BindUnreachable { .. } => Some("seeds"),
            ConfigError::VotersWithoutQuorum { .. } | ConfigError::UrlWithoutLease { .. } => Some("leadership.mode"),
            ConfigError::KeysTwice => Some("seal.key_file"),
            _ => None,
        }
    }

    /// Returns the value found, safe to print.
    pub fn found(&self) -> String {
        match self {
            ConfigError::OutOfRange(error) => error.found.clone(),
            ConfigError::BindMulticast { address }
            | ConfigError::BindUnreachable { address, .. }
            | ConfigError::AdvertiseUnreachable { address } => address.to_string(),
            ConfigError::ApiAddress { found } => quoted(found),
            ConfigError::TooManySeeds { count }
            | ConfigError::TooManyVoters { count }
            | ConfigError::LeaseCount { count }
            | ConfigError::Keys { count, .. }
            | ConfigError::VotersWithoutQuorum { count, .. } => format!("a list of {count}"),
            ConfigError::VoterTwice { .. } | ConfigError::LeaseTwice { .. } => "[…]".to_owned(),
            ConfigError::QuorumWithoutDataDir => "\"quorum\"".to_owned(),
            ConfigError::SeedsCommand => "[\"\"]".to_owned(),
            ConfigError::LeaseWithoutUrl => "\"lease\"".to_owned(),
            ConfigError::UrlWithoutLease { found, .. } | ConfigError::LeaseUrl { found, .. } => format!("\"{found}\""),
            ConfigError::LeaseTables { found, .. } | ConfigError::NotSealed { found, .. } => found.clone(),
            ConfigError::StatementTimeout { found, .. } => humantime::format_duration(*found).to_string(),
            ConfigError::Seed { seed, .. } => quoted(seed),
            ConfigError::SealWithoutKeys { mode } => format!("\"{mode}\""),
            ConfigError::ClearWithoutName { cluster } => format!("\"{cluster}\""),
            // Never the keys themselves.
            ConfigError::KeysTwice => "…".to_owned(),
        }
    }

    /// Returns the reason in words.
    pub fn reason(&self) -> String {
        match self {
            ConfigError::OutOfRange(_) => "is out of range".to_owned(),
            ConfigError::BindMulticast { .. } => {
                "is a multicast or broadcast address, not one of this machine".to_owned()
            }
            ConfigError::BindUnreachable { seed, .. } => {
                format!("is reached from this machine only, and all seeds are on others ({seed})")
            }
            ConfigError::AdvertiseUnreachable { .. } => "is an address that no packet can be sent to".to_owned(),
            ConfigError::ApiAddress { found } if found.is_empty() => "is empty; leave the key out instead".to_owned(),
            ConfigError::ApiAddress { found } if found.contains(char::is_control) => {
                "contains a control character".to_owned()
            }
            ConfigError::ApiAddress { found } => format!("has {} bytes", found.len()),
            ConfigError::TooManySeeds { .. } => "is too long; a few seeds are enough to find all others".to_owned(),
            ConfigError::Seed { fault, .. } => fault.to_string(),
            ConfigError::SeedsCommand => "names no program".to_owned(),
            ConfigError::TooManyVoters { .. } => {
                "is too long; three or five voters are enough for any number of members".to_owned()
            }
            ConfigError::VoterTwice { id } => format!("names {id:?} twice"),
            ConfigError::LeaseTwice { lease } => format!("names {lease:?} twice"),
            ConfigError::VotersWithoutQuorum { mode, .. } => {
                format!("have no effect while leadership.mode is \"{mode}\"")
            }
            ConfigError::LeaseWithoutUrl => "needs a database, and none is named".to_owned(),
            ConfigError::UrlWithoutLease { mode, .. } => {
                format!("is a database that nobody asks while leadership.mode is \"{mode}\"")
            }
            ConfigError::LeaseUrl { reason, .. }
            | ConfigError::LeaseTables { reason, .. }
            | ConfigError::StatementTimeout { reason, .. } => format!("is refused: {reason}"),
            ConfigError::LeaseCount { .. } => "is no number of leases to contend for".to_owned(),
            ConfigError::SealWithoutKeys { .. } => "needs keys, and there are none".to_owned(),
            ConfigError::NotSealed { key, .. } => {
                let what = match *key {
                    "bind" => "lets other machines in",
                    "advertise" => "tells other machines to send here",
                    _ => "may name other machines",
                };
                format!("{what}, and this node has no key: whoever can send to it could change the membership")
            }
            ConfigError::ClearWithoutName { .. } => {
                "is what every cluster is called that was given no name, and this one \
                takes clear packets from other machines: it would become one with any such cluster that it meets"
                    .to_owned()
            }
            ConfigError::KeysTwice => "stands beside a key file, and only one of the two can count".to_owned(),
            ConfigError::Keys { error, .. } => format!("is refused: {error}"),
            ConfigError::QuorumWithoutDataDir => "needs a data directory: a voter that forgets in a restart what it \
                promised can vote twice, and that makes two leaders"
                .to_owned(),
        }
    }

    /// Returns the values allowed, in words.
    pub fn allowed(&self) -> &str {
        match self {
            ConfigError::OutOfRange(error) => &error.allowed,
            ConfigError::BindMulticast { .. } => "IP:PORT of this machine; 0.0.0.0 or [::] for all",
            ConfigError::BindUnreachable { .. } => {
                "an address that the seeds can send to, as in \"0.0.0.0:7117\" with seal.key_file set, or none with it"
            }
            ConfigError::AdvertiseUnreachable { .. } => {
                "IP:PORT, neither unspecified nor multicast nor broadcast, port not 0"
            }
            ConfigError::ApiAddress { .. } => "1 to 100 bytes without control characters",
            ConfigError::TooManySeeds { .. } => "at most 64",
            ConfigError::Seed { .. } => "host:port, port 1 to 65535; or srv:NAME",
            ConfigError::SeedsCommand => "a list of words, as in [\"/usr/local/bin/seeds\"]; there is no shell",
            ConfigError::TooManyVoters { .. } | ConfigError::VoterTwice { .. } => {
                const { assert!(MAX_VOTERS == 7) };
                "at most 7 different names of nodes"
            }
            ConfigError::VotersWithoutQuorum { .. } => "a list together with leadership.mode = \"quorum\", or none",
            ConfigError::QuorumWithoutDataDir => "quorum with data_dir set, or none",
            ConfigError::SealWithoutKeys { .. } => "any with seal.key_file set, or off",
            ConfigError::NotSealed { .. } => {
                "any with seal.key_file set, or with seal.mode = \"off\" if all who reach it are trusted; else loopback alone"
            }
            ConfigError::ClearWithoutName { .. } => {
                "a name of this cluster's own, or the default one with keys and seal.mode = \"require\""
            }
            ConfigError::KeysTwice => "seal.keys or seal.key_file",
            ConfigError::Keys { .. } => "at most 8 different keys, each 32 random bytes in base64",
            ConfigError::LeaseWithoutUrl => "lease with leadership.lease.url set, or none",
            ConfigError::LeaseUrl { .. } => "sqlite://FILE for nodes on one machine, or postgres://USER@HOST/DATABASE",
            ConfigError::UrlWithoutLease { .. } => "a url together with leadership.mode = \"lease\", or none",
            ConfigError::LeaseTables { .. } => {
                "1 to 40 characters of a-z, 0-9 and _, not beginning with a digit; a schema in PostgreSQL only"
            }
            ConfigError::StatementTimeout { .. } => "100ms to renewal_interval",
            ConfigError::LeaseCount { .. } | ConfigError::LeaseTwice { .. } => {
                const { assert!(MAX_LEASES == 64) };
                "1 to 64 different names of 1 to 63 bytes of [A-Za-z0-9._-]"
            }
        }
    }

    fn text(&self) -> String {
        format!("{} = {} {}; allowed is {}", self.key(), self.found(), self.reason(), self.allowed())
    }
}

/// Returns a text of the user in quotes, safe to print.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", visible(text, MAX_SHOWN))
}
