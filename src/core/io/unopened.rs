//! Why an agent does not take what another one sends: no packet of it reaches the core.

use std::fmt;

/// The reason why an agent does not take what another one sends: they have no key in common, or one has none at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unopened {
    /// It takes sealed packets alone, and this node sends clear ones.
    KeyNeeded,
    /// It has no keys, and this node seals.
    NoKeys,
    /// It does not hold the key with which this node seals.
    OtherKey,
    /// It holds a key of that id, in a cluster of another name.
    OtherCluster,
}

impl Unopened {
    /// All reasons, in the order of their numbers on the wire.
    pub const ALL: [Unopened; 4] = [Unopened::KeyNeeded, Unopened::NoKeys, Unopened::OtherKey, Unopened::OtherCluster];
}

impl fmt::Display for Unopened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unopened::KeyNeeded => {
                "it takes sealed packets alone, and this node sends clear ones: give this node the cluster's key file"
            }
            Unopened::NoKeys => {
                "it has no keys, and this node sends sealed packets: give both the same key file, or take it from this node"
            }
            Unopened::OtherKey => "it has other keys than this node: give both the same key file",
            Unopened::OtherCluster => {
                "its cluster has another name: check the cluster's name and the seeds"
            }
        })
    }
}
