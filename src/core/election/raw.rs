//! Numbers that are drawn or hashed, and so are sent as eight raw bytes.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! raw {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.0.to_le_bytes().serialize(serializer)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <[u8; 8]>::deserialize(deserializer).map(|bytes| $name(u64::from_le_bytes(bytes)))
            }
        }
    };
}

raw! {
    /// 64 random bits drawn by a voter at its first start, and kept in its data directory.
    Identity
}
raw! {
    /// The hash of a numbered view's contents.
    Digest
}
raw! {
    /// The name of an electorate, kept when its voters change: the hash of the first electorate, or a number drawn at a
    /// recovery. Electorates of different lineages refuse each other.
    Lineage
}
