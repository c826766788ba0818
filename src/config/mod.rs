//! [`Config`]: the checked configuration of an agent.
//!
//! The top of this module is for programs that build a [`Config`] in code: it holds the values and the checks on
//! combinations of values, and knows nothing of files, variables or flags. The core's own settings are checked by
//! [`Settings::check`], so that a value from code, a file or the wire meets the same bounds.
//!
//! With the cargo feature `agent` come the layers of the binary: [`Loader`] merges flags, environment, file and profile
//! into an [`AgentConfig`] and remembers the source of each value. All of it works from one table of keys ([`keys()`]);
//! a key that is not in the table does not exist.
//!
//! ```
//! use headcount::{Config, Profile};
//!
//! let config = Config::new("cache-1")?
//!     .with_profile(Profile::Lan)
//!     .with_key_file("cluster.key")
//!     .with_seeds(["10.0.0.1:7117", "seeds.example.internal:7117"])
//!     .with_tags([("zone", "eu-1")])?;
//! config.check()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// | idea | file |
// |---|---|
// | the table of keys; storing a given value in its field | `keys`, `set` |
// | layers and where each value comes from; a value before it is checked | `layers`, `given` |
// | files: TOML, and reading what a configuration names | `file`, `read` |
// | parts: of the binary, leadership, leases, seals, the token, handlers | `agent`, `leadership`, `lease`, `seal`, `token`, `handlers` |
// | texts that mean something else: addresses, durations, paths | `addresses`, `words` |
// | what a running agent applies | `reload` |
// | `config show`; reasons to refuse, and problems for people | `show`, `error`, `problem` |

mod addresses;
#[cfg(feature = "agent")]
mod agent;
mod error;
#[cfg(feature = "agent")]
mod file;
#[cfg(feature = "agent")]
mod given;
#[cfg(feature = "agent")]
mod handlers;
#[cfg(feature = "agent")]
mod keys;
#[cfg(feature = "agent")]
mod layers;
mod leadership;
mod lease;
#[cfg(feature = "agent")]
mod problem;
mod read;
#[cfg(feature = "agent")]
mod reload;
mod seal;
#[cfg(feature = "agent")]
mod set;
#[cfg(feature = "agent")]
mod show;
#[cfg(feature = "client")]
mod token;
#[cfg(feature = "agent")]
mod words;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use crate::core::{InvalidName, InvalidTags, NodeId, Profile, Settings, Tags};
use crate::seal::{Key as SealKey, SealMode};

pub(crate) use addresses::{SRV, check_host_port, is_loopback, literal, stays_on_this_machine};
use addresses::{check_advertise, check_api_address, check_bind, check_bind_reaches, check_seed, check_seed_count};
#[cfg(feature = "agent")]
pub use agent::{AgentConfig, HttpConfig, LogConfig, LogFormat, MetricsConfig};
use error::quoted;
pub use error::{ConfigError, SeedFault};
#[cfg(feature = "agent")]
pub use handlers::{HandlerAction, HandlerConfig, MAX_CONCURRENCY, MAX_HANDLERS, WebhookUrl};
#[cfg(feature = "agent")]
pub(crate) use handlers::{MESSAGE, nearest as nearest_kind};
#[cfg(feature = "agent")]
pub use keys::{Key, LivePart, keys};
#[cfg(feature = "agent")]
pub use layers::{Loaded, Loader, check_file};
pub use leadership::{LeadershipConfig, LeadershipMode};
pub use lease::{DatabaseUrl, LeaseConfig};
#[cfg(feature = "agent")]
pub use problem::{LoadError, Problem, Source};
#[cfg(feature = "agent")]
pub use reload::SettingChange;
#[cfg(test)]
pub(crate) use seal::tests::key;
pub use seal::{KeyFileError, SealConfig};
pub(crate) use seal::{Reach, ReadKeys, read_key_file};
#[cfg(feature = "client")]
pub use token::{BadToken, Token, TokenFileError};

/// The gossip port used if none is configured.
pub const DEFAULT_GOSSIP_PORT: u16 = 7117;
/// All addresses, IPv6 and IPv4 where both exist, at the default port.
pub(crate) const EVERYWHERE: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), DEFAULT_GOSSIP_PORT);
/// The HTTP port used if none is configured.
pub const DEFAULT_HTTP_PORT: u16 = 7118;
/// The cluster name used if none is configured.
pub const DEFAULT_CLUSTER: &str = "headcount";

/// The configuration of an agent. Start from [`Config::new`] and change what you must.
///
/// The fields are public; [`Config::check`] checks them together, and the agent calls it before it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The node's name, unique in the cluster. A second live node of the same name stops with an error.
    pub name: NodeId,
    /// The cluster's name; nodes of other clusters refuse each other. Default [`DEFAULT_CLUSTER`].
    pub cluster: NodeId,
    /// The profile that the values of `settings` were taken from.
    profile: Profile,
    /// Intervals, timeouts and sizes of the protocol.
    pub settings: Settings,
    /// The address that receives gossip, UDP and TCP on one port number; port 0 takes a free one. `None`: port
    /// [`DEFAULT_GOSSIP_PORT`], on every address, IPv6 and IPv4 where both exist, if packets are sealed or `seal.mode` says
    /// that clear ones are taken; else on 127.0.0.1.
    pub bind: Option<SocketAddr>,
    /// The address that other nodes send to; it must be one that a packet can be sent to. `None`: the bound address if
    /// it is specific, else the source address toward the first seed, else the first address that is not loopback.
    pub advertise: Option<SocketAddr>,
    /// The address at which users of this node reach it: free text for the members' listing, 1–100 bytes without
    /// control characters.
    pub api_address: Option<String>,
    /// Addresses (`host:port`) of nodes to join through, at most 64; IPv6 addresses in brackets. With the feature `srv` also
    /// `srv:_headcount._udp.example.internal`: the targets of SRV records. Names are resolved
    /// again at every try, and all their addresses count. One's own address among them is recognised and harmless, so
    /// that all nodes may share one list.
    pub seeds: Vec<String>,
    /// A file of further seeds, one `host:port` a line, `#` begins a comment; read again at every try. It may be missing
    /// or empty for a while.
    pub seeds_file: Option<PathBuf>,
    /// A command whose output is such a list: a program and its arguments, without a shell; run again at every try, for
    /// ten seconds at most. Empty: none.
    pub seeds_command: Vec<String>,
    /// The directory for the state that survives a restart; created if it is missing. `None`: no state is kept, and a
    /// restarted node has to find its way back through the seeds.
    pub data_dir: Option<PathBuf>,
    /// The tags in the node's record: at most 32 keys, 512 bytes in all.
    pub tags: Tags,
    /// The source, the voters and the timing of leadership.
    pub leadership: LeadershipConfig,
    /// The keys that packets are sealed with.
    pub seal: SealConfig,
}

impl Config {
    /// Returns the configuration of a node of this name, with defaults for everything else.
    pub fn new(name: &str) -> Result<Self, InvalidName> {
        Ok(Self {
            name: NodeId::new(name)?,
            cluster: NodeId::new(DEFAULT_CLUSTER)?,
            profile: Profile::Default,
            settings: Profile::Default.settings(),
            bind: None,
            advertise: None,
            api_address: None,
            seeds: Vec::new(),
            seeds_file: None,
            seeds_command: Vec::new(),
            data_dir: None,
            tags: Tags::default(),
            leadership: LeadershipConfig::of(Profile::Default),
            seal: SealConfig::default(),
        })
    }

    /// Sets a profile. Its values replace all of `settings` and the timing of leases: call it before changing single
    /// ones.
    #[must_use]
    pub fn with_profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self.settings = profile.settings();
        self.leadership.timing = LeadershipConfig::of(profile).timing;
        self
    }

    /// Returns the profile that the values of `settings` were taken from, as shown to operators: the one given to
    /// [`Config::with_profile`], which replaces the values.
    pub const fn profile(&self) -> Profile {
        self.profile
    }

    /// Lets leaders be elected by quorum; the names form the first electorate. Needs a `data_dir`.
    pub fn with_voters<'a>(mut self, voters: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidName> {
        self.leadership.mode = LeadershipMode::Quorum;
        self.leadership.voters = voters.into_iter().map(NodeId::new).collect::<Result<_, _>>()?;
        Ok(self)
    }

    /// Lets the holder of a lease in this database lead: `sqlite://FILE` for nodes on one machine,
    /// `postgres://USER@HOST/DATABASE` for many. Needs the cargo feature of its kind.
    #[must_use]
    pub fn with_lease(mut self, url: &str) -> Self {
        self.leadership.mode = LeadershipMode::Lease;
        self.leadership.lease.url = Some(DatabaseUrl::new(url));
        self
    }

    /// Seals every packet with the first of these keys, and takes only packets that are sealed with one of them. An agent
    /// does not start without any.
    #[must_use]
    pub fn with_keys(mut self, keys: impl IntoIterator<Item = SealKey>) -> Self {
        // Also if there are none, which is refused then: nobody who asks for seals gets a clear cluster.
        self.seal = SealConfig { keys: keys.into_iter().collect(), mode: Some(SealMode::Require), key_file: None };
        self
    }

    /// Takes the keys from a file, one a line: seals with the first, and takes only packets that are sealed with one of them.
    #[must_use]
    pub fn with_key_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.seal = SealConfig { key_file: Some(path.into()), ..SealConfig::default() };
        self
    }

    /// Seals nothing, and takes clear packets from other machines, too: whoever can send to this node may change the
    /// membership. Without keys and without this a node stays on loopback. The cluster needs a name of its own then.
    #[must_use]
    pub fn with_insecure(mut self) -> Self {
        self.seal.mode = Some(SealMode::Off);
        self
    }

    /// Names the cluster; nodes of other clusters are refused.
    pub fn with_cluster(mut self, name: &str) -> Result<Self, InvalidName> {
        self.cluster = NodeId::new(name)?;
        Ok(self)
    }

    /// Replaces the pace and the limits, which [`Config::with_profile`] sets, too.
    #[must_use]
    pub fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Keeps in this directory what survives a restart.
    #[must_use]
    pub fn with_data_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(path.into());
        self
    }

    /// Tells others to send to this address, if it is not where gossip is received.
    #[must_use]
    pub fn with_advertise(mut self, address: SocketAddr) -> Self {
        self.advertise = Some(address);
        self
    }

    /// Tells others where this node's program is reached; headcount itself does not use it.
    #[must_use]
    pub fn with_api_address(mut self, address: impl Into<String>) -> Self {
        self.api_address = Some(address.into());
        self
    }

    /// Reads seeds from this file, too, one a line.
    #[must_use]
    pub fn with_seeds_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.seeds_file = Some(path.into());
        self
    }

    /// Reads seeds from what this command prints, too, one a line.
    #[must_use]
    pub fn with_seeds_command<S: Into<String>>(mut self, command: impl IntoIterator<Item = S>) -> Self {
        self.seeds_command = command.into_iter().map(Into::into).collect();
        self
    }

    /// Receives gossip on this address only.
    #[must_use]
    pub fn with_bind(mut self, address: SocketAddr) -> Self {
        self.bind = Some(address);
        self
    }

    /// Replaces the seeds.
    #[must_use]
    pub fn with_seeds<S: Into<String>>(mut self, seeds: impl IntoIterator<Item = S>) -> Self {
        self.seeds = seeds.into_iter().map(Into::into).collect();
        self
    }

    /// Replaces the tags; of two with one key the later counts.
    pub fn with_tags<K: Into<String>, V: Into<String>>(
        mut self,
        tags: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, InvalidTags> {
        let tags: BTreeMap<_, _> = tags.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        self.tags = Tags::from_operator(tags)?;
        Ok(self)
    }

    /// Returns the address to bind; `None`: all addresses, at the default port.
    pub(crate) fn bind(&self) -> Option<SocketAddr> {
        self.bind.or_else(|| self.seal.is_local().then(|| (Ipv4Addr::LOCALHOST, DEFAULT_GOSSIP_PORT).into()))
    }

    /// Returns the address that is bound, or [`EVERYWHERE`].
    pub(crate) fn listens_at(&self) -> SocketAddr {
        self.bind().unwrap_or(EVERYWHERE)
    }

    /// Refuses clear packets from other machines, unless somebody said that they are meant.
    fn check_gate(&self) -> Result<(), ConfigError> {
        let reach = Reach { bound: self.listens_at(), advertised: self.advertise, cluster: self.cluster.clone() };
        reach.allows(&self.seal)?;
        if !self.seal.is_local() || self.bind.is_some() {
            return Ok(());
        }
        // A node that names others, and no address of its own, means to be reached by them.
        let refused = |key, found: &str| Err(ConfigError::NotSealed { key, found: quoted(found) });
        let elsewhere = self.seeds.iter().find(|seed| !stays_on_this_machine(seed));
        match (elsewhere, &self.seeds_file, self.seeds_command.first()) {
            (Some(seed), ..) => refused("seeds", seed),
            (None, Some(path), _) => refused("seeds_file", &path.to_string_lossy()),
            (None, None, Some(program)) => refused("seeds_command", program),
            (None, None, None) => Ok(()),
        }
    }

    /// Checks everything that the types do not enforce by themselves; the first problem is the error.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.problems().into_iter().next().map_or(Ok(()), Err)
    }

    /// Returns all problems that [`Config::check`] looks for, in order.
    pub fn problems(&self) -> Vec<ConfigError> {
        let mut problems: Vec<ConfigError> = self.settings.problems().into_iter().map(Into::into).collect();
        if let Some(address) = self.bind {
            problems.extend(check_bind(address).err());
        }
        if let Some(address) = self.advertise {
            problems.extend(check_advertise(address).err());
        }
        if let Some(text) = &self.api_address {
            problems.extend(check_api_address(text).err());
        }
        problems.extend(check_seed_count(self.seeds.len()).err());
        problems.extend(self.seeds.iter().filter_map(|seed| check_seed(seed).err()));
        if self.seeds_command.first().is_some_and(String::is_empty) {
            problems.push(ConfigError::SeedsCommand);
        }
        // Where seeds come from elsewhere too, it is not known where they are.
        if self.seeds_file.is_none() && self.seeds_command.is_empty() {
            problems.extend(check_bind_reaches(self.bind, &self.seeds).err());
        }
        problems.extend(self.check_gate().err());
        problems.extend(self.leadership.problems());
        problems.extend(self.seal.problems(self.settings.mtu));
        if self.leadership.mode == LeadershipMode::Quorum && self.data_dir.is_none() {
            problems.push(ConfigError::QuorumWithoutDataDir);
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config::new("a").expect("a good name")
    }

    #[test]
    fn a_new_config_is_complete() {
        assert_eq!(config().check(), Ok(()));
        for profile in Profile::ALL {
            assert_eq!(config().with_profile(profile).check(), Ok(()), "{profile}");
        }
    }

    #[test]
    fn each_bound_refuses_with_key_and_value() {
        type Change = fn(&mut Config);
        let address = |text: &str| -> Option<SocketAddr> { text.parse().ok() };
        assert!(address("[::]:0").is_some());
        let cases: [(&str, &str, Change); 12] = [
            ("mtu", "9000", |c| c.settings.mtu = 9000),
            ("bind", "224.0.0.1:7117", |c| c.bind = "224.0.0.1:7117".parse().ok()),
            ("bind", "[::ffff:224.0.0.1]:7117", |c| c.bind = "[::ffff:224.0.0.1]:7117".parse().ok()),
            ("bind", "255.255.255.255:7117", |c| c.bind = "255.255.255.255:7117".parse().ok()),
            ("advertise", "[::ffff:0.0.0.0]:7117", |c| c.advertise = "[::ffff:0.0.0.0]:7117".parse().ok()),
            ("advertise", "255.255.255.255:7117", |c| c.advertise = "255.255.255.255:7117".parse().ok()),
            ("advertise", "0.0.0.0:7117", |c| c.advertise = "0.0.0.0:7117".parse().ok()),
            ("advertise", "10.0.0.1:0", |c| c.advertise = "10.0.0.1:0".parse().ok()),
            ("api_address", "", |c| c.api_address = Some(String::new())),
            ("api_address", "a\\nb", |c| c.api_address = Some("a\nb".into())),
            ("seeds", "65", |c| c.seeds = vec!["a:1".into(); 65]),
            ("seeds", "host", |c| c.seeds = vec!["a:1".into(), "host".into()]),
        ];
        for (key, found, change) in cases {
            let mut config = config();
            change(&mut config);
            let error = config.check().expect_err(key);
            assert_eq!(error.key(), key);
            let text = error.to_string();
            assert!(text.contains(key) && text.contains(found) && text.contains("allowed"), "{text}");
        }
        let api_address = |bytes| Config { api_address: Some("a".repeat(bytes)), ..config() };
        assert_eq!(api_address(100).check(), Ok(()));
        assert!(api_address(101).check().is_err());
        assert_eq!(config().with_seeds(vec!["localhost:1"; 64]).check(), Ok(()));
    }

    #[test]
    fn a_node_that_is_bound_to_loopback_needs_a_seed_that_it_may_reach() {
        let with = |bind: &str, seeds: &[&str]| {
            let config = config().with_bind(bind.parse().expect("an address")).with_key_file("keys");
            config.with_seeds(seeds.iter().copied()).check()
        };
        for bind in ["127.0.0.1:7117", "[::1]:0", "[::ffff:127.0.0.1]:7117"] {
            for seeds in [&["10.0.0.1:7117"][..], &["10.0.0.1:7117", "[2001:db8::1]:7117"]] {
                let refused = with(bind, seeds).expect_err(bind);
                assert_eq!((refused.key(), refused.other_key()), ("bind", Some("seeds")));
                let text = refused.to_string();
                let names = [refused.found(), "10.0.0.1:7117".to_owned(), "\"0.0.0.0:7117\"".to_owned()];
                assert!(names.iter().all(|name| text.contains(name)), "{text}");
            }
            for seeds in [&[][..], &["127.0.0.1:1"], &["10.0.0.1:7117", "127.0.0.1:1"], &["10.0.0.1:7117", "name:1"]] {
                assert_eq!(with(bind, seeds), Ok(()), "{bind} {seeds:?}");
            }
        }
        for bind in ["0.0.0.0:7117", "[::]:7117", "10.0.0.2:7117"] {
            assert_eq!(with(bind, &["10.0.0.1:7117"]), Ok(()));
        }
    }

    #[test]
    fn a_node_without_keys_and_consent_is_bound_to_loopback() {
        let bind = |config: &Config| config.bind().map(|bind| bind.to_string());
        assert_eq!(bind(&config()), Some("127.0.0.1:7117".to_owned()));
        for reached in [config().with_key_file("keys"), config().with_insecure()] {
            assert_eq!(bind(&reached), None);
        }
        let chosen = config().with_bind(([127, 0, 0, 2], 1).into());
        assert_eq!(bind(&chosen.clone().with_insecure()), bind(&chosen));
        let elsewhere = config().with_bind(([10, 0, 0, 1], 1).into());
        let refused = ConfigError::NotSealed { key: "bind", found: "10.0.0.1:1".to_owned() };
        assert_eq!(elsewhere.check(), Err(refused));
        let told = elsewhere.check().expect_err("no key").to_string();
        assert!(told.contains("seal.key_file") && told.contains("seal.mode = \"off\""), "{told}");
        let unnamed = elsewhere.with_insecure();
        assert_eq!(unnamed.check(), Err(ConfigError::ClearWithoutName { cluster: unnamed.cluster.clone() }));
        let cluster = NodeId::new("mine").expect("a name");
        assert_eq!(Config { cluster, ..unnamed }.check(), Ok(()));
    }

    #[test]
    fn tags_are_checked_as_they_are_set() {
        let config = config().with_tags([("zone", "eu-1"), ("zone", "eu-2")]).expect("good tags");
        assert_eq!(config.tags.get("zone"), Some("eu-2"));
        assert!(config.with_tags([("a=b", "")]).is_err());
    }
}
