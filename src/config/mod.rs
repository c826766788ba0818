//! [`Config`]: everything an agent can be told, checked.
//!
//! This module holds the values and what they mean together. Where they come from (flags, environment, file, profile) is
//! the business of the layers above; the core's own figures are checked by [`Settings::check`].

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::core::{InvalidName, NodeId, OutOfRange, Profile, Settings, Tags};

/// The gossip port where none is said.
pub const DEFAULT_GOSSIP_PORT: u16 = 7117;
/// The HTTP port where none is said.
pub const DEFAULT_HTTP_PORT: u16 = 7118;

/// Everything an agent can be told. Start from [`Config::new`] and change what you must.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The node's name, unique in the cluster.
    pub name: NodeId,
    /// The cluster's name; nodes of other clusters refuse each other.
    pub cluster: NodeId,
    /// Where the figures of `settings` come from, shown to operators.
    pub profile: Profile,
    /// Pace and sizes.
    pub settings: Settings,
    /// Where gossip is received. `None`: port 7117 on every address, IPv6 and IPv4 where both exist.
    pub bind: Option<SocketAddr>,
    /// Where others send to. `None`: the bound address if it is specific, else the source address toward the first
    /// seed, else the first address that is not loopback.
    pub advertise: Option<SocketAddr>,
    /// Where users of this node reach it: free text for the members' listing.
    pub api_address: Option<String>,
    /// `host:port` of nodes to join through, at most 64. Names are looked up again at every try.
    pub seeds: Vec<String>,
    /// Where the state that survives a restart lives. `None`: nowhere.
    pub data_dir: Option<PathBuf>,
    /// What the node tells about itself.
    pub tags: Tags,
}

impl Config {
    /// A node of this name with defaults for everything else.
    pub fn new(name: &str) -> Result<Self, InvalidName> {
        Ok(Self {
            name: NodeId::new(name)?,
            cluster: NodeId::new("headcount")?,
            profile: Profile::Default,
            settings: Profile::Default.settings(),
            bind: None,
            advertise: None,
            api_address: None,
            seeds: Vec::new(),
            data_dir: None,
            tags: Tags::default(),
        })
    }

    /// The same with the figures of a profile.
    #[must_use]
    pub fn with_profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self.settings = profile.settings();
        self
    }

    /// Checks the figures that [`Config`] cannot keep by type.
    pub fn check(&self) -> Result<(), OutOfRange> {
        self.settings.check()
    }
}
