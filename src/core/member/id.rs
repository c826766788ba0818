//! Names: the node's name, chosen by people, and its run, drawn by the process.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A node's name: 1–63 bytes of `[A-Za-z0-9._-]`, unique in its cluster. Cheap to clone.
#[derive(Clone)]
pub struct NodeId(Text);

/// The text of a name. Most are short and are stored inline: finding one among many then follows no pointer.
#[derive(Clone)]
enum Text {
    Short { length: u8, bytes: [u8; NodeId::SHORT_BYTES] },
    Long(Arc<str>),
}

impl NodeId {
    /// The longest name, in bytes.
    pub const MAX_BYTES: usize = 63;
    /// The longest name that is stored inline, in bytes: with it, a name is three words.
    const SHORT_BYTES: usize = 22;

    /// Checks a name against the alphabet and the length.
    pub fn new(name: &str) -> Result<Self, InvalidName> {
        check_name(name)?;
        let mut bytes = [0; Self::SHORT_BYTES];
        Ok(Self(match bytes.get_mut(..name.len()) {
            Some(place) => {
                place.copy_from_slice(name.as_bytes());
                Text::Short { length: name.len() as u8, bytes }
            }
            None => Text::Long(Arc::from(name)),
        }))
    }

    /// Returns the name as text.
    ///
    /// # Panics
    /// Never: names are ASCII.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Text::Short { length, bytes } => {
                std::str::from_utf8(&bytes[..usize::from(*length)]).expect("names are ASCII")
            }
            Text::Long(text) => text,
        }
    }

    /// Returns the memory that the name takes where it is kept, in bytes: at the most, since copies share a long text.
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + match &self.0 {
                Text::Short { .. } => 0,
                Text::Long(text) => 2 * size_of::<usize>() + text.len(),
            }
    }

    fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Text::Short { length, bytes } => &bytes[..usize::from(*length)],
            Text::Long(text) => text.as_bytes(),
        }
    }
}

impl PartialEq for NodeId {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for NodeId {}

impl PartialOrd for NodeId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for NodeId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for NodeId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Hashed as its text, since it is borrowed as text.
        self.as_str().hash(state);
    }
}

/// Checks a name of a node or of a cluster; both have the same alphabet.
pub fn check_name(name: &str) -> Result<(), InvalidName> {
    if name.is_empty() {
        return Err(InvalidName::Empty);
    }
    if name.len() > NodeId::MAX_BYTES {
        return Err(InvalidName::TooLong { bytes: name.len() });
    }
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')) {
        return Ok(());
    }
    match name.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))) {
        Some(found) => Err(InvalidName::Character { found }),
        None => Ok(()),
    }
}

/// The reason why a text is not a name. Names are 1–63 bytes of `[A-Za-z0-9._-]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidName {
    /// The text is empty.
    #[error("a name has at least one character of [A-Za-z0-9._-]")]
    Empty,
    /// The text is longer than [`NodeId::MAX_BYTES`].
    #[error("a name has at most 63 bytes, this one has {bytes}")]
    TooLong {
        /// The length of the text, in bytes.
        bytes: usize,
    },
    /// A character outside the alphabet.
    #[error("a name is made of [A-Za-z0-9._-], this one contains {found:?}")]
    Character {
        /// The first such character.
        found: char,
    },
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl FromStr for NodeId {
    type Err = InvalidName;
    fn from_str(name: &str) -> Result<Self, InvalidName> {
        Self::new(name)
    }
}

impl Borrow<str> for NodeId {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for NodeId {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl TryFrom<String> for NodeId {
    type Error = InvalidName;

    fn try_from(name: String) -> Result<Self, InvalidName> {
        Self::new(&name)
    }
}

impl From<NodeId> for String {
    fn from(id: NodeId) -> Self {
        id.as_str().to_owned()
    }
}

impl PartialEq<String> for NodeId {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<str> for NodeId {
    fn eq(&self, other: &str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialEq<&str> for NodeId {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl Serialize for NodeId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for NodeId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl Visitor<'_> for NameVisitor {
            type Value = NodeId;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a node name")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<NodeId, E> {
                NodeId::new(name).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(NameVisitor)
    }
}

/// The identity of one process: 64 random bits drawn at its start.
///
/// It tells a restart from a refutation, and deduplication and replay windows are keyed by it. Shown as 16 hex digits;
/// eight raw bytes on the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Run(#[serde(with = "postcard::fixint::le")] pub u64);

impl Run {
    /// The run in anonymous packets. No process has it.
    pub const NOBODY: Run = Run(0);

    /// Returns true if this is [`Run::NOBODY`].
    pub const fn is_nobody(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_outside_the_alphabet_are_refused_with_the_reason() {
        assert_eq!(NodeId::new(""), Err(InvalidName::Empty));
        assert_eq!(NodeId::new("a b"), Err(InvalidName::Character { found: ' ' }));
        assert_eq!(NodeId::new(&"x".repeat(64)), Err(InvalidName::TooLong { bytes: 64 }));
        assert!(NodeId::new(&"x".repeat(63)).is_ok());
        assert!(NodeId::new("eu-1_a.b").is_ok());
    }

    #[test]
    fn runs_are_sixteen_hex_digits() {
        assert_eq!(Run(0xab).to_string(), "00000000000000ab");
    }
}
