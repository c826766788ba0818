//! Topics: the texts by which programs tell their messages apart.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};

/// The subject of a message: 1–63 bytes of `[A-Za-z0-9._-]`. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic(Arc<str>);

impl Topic {
    /// The longest topic, in bytes.
    pub const MAX_BYTES: usize = 63;
    /// The beginning of topics between agents, which programs neither see nor use.
    pub const RESERVED: &str = "_headcount.";

    /// Checks a topic against the alphabet and the length.
    pub fn new(topic: &str) -> Result<Self, InvalidTopic> {
        match topic.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))) {
            Some(found) => Err(InvalidTopic::Character { found }),
            None if topic.is_empty() => Err(InvalidTopic::Empty),
            None if topic.len() > Self::MAX_BYTES => Err(InvalidTopic::TooLong { bytes: topic.len() }),
            None => Ok(Self(Arc::from(topic))),
        }
    }

    /// Checks a topic of a program: agents keep some for themselves.
    pub fn of_program(topic: &str) -> Result<Self, InvalidTopic> {
        if topic.starts_with(Self::RESERVED) { Err(InvalidTopic::Reserved) } else { Self::new(topic) }
    }

    /// Returns the topic on which agents speak of keys.
    pub fn keys() -> Self {
        Self(Arc::from("_headcount.keys"))
    }

    /// Returns true if agents keep the topic for themselves.
    pub fn is_reserved(&self) -> bool {
        self.0.starts_with(Self::RESERVED)
    }

    /// Returns the topic as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The reason why a text is no topic. Topics are 1–63 bytes of `[A-Za-z0-9._-]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTopic {
    /// The text is empty.
    #[error("a topic has at least one character of [A-Za-z0-9._-]")]
    Empty,
    /// The text is longer than [`Topic::MAX_BYTES`].
    #[error("a topic has at most 63 bytes, this one has {bytes}")]
    TooLong {
        /// The length of the text, in bytes.
        bytes: usize,
    },
    /// The topic is one that agents keep for themselves.
    #[error("topics that begin with {} are the agents' own", Topic::RESERVED)]
    Reserved,
    /// The text has a character outside the alphabet.
    #[error("a topic is made of [A-Za-z0-9._-], this one contains {found:?}")]
    Character {
        /// The first such character.
        found: char,
    },
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl FromStr for Topic {
    type Err = InvalidTopic;
    fn from_str(topic: &str) -> Result<Self, InvalidTopic> {
        Self::new(topic)
    }
}

impl Borrow<str> for Topic {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Serialize for Topic {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Topic {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TopicVisitor;
        impl Visitor<'_> for TopicVisitor {
            type Value = Topic;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a topic")
            }
            fn visit_str<E: de::Error>(self, topic: &str) -> Result<Topic, E> {
                Topic::new(topic).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(TopicVisitor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn topics_end_at_their_bounds() {
        assert_eq!(Topic::new(""), Err(InvalidTopic::Empty));
        assert_eq!(Topic::new("a b"), Err(InvalidTopic::Character { found: ' ' }));
        assert_eq!(Topic::new("ä"), Err(InvalidTopic::Character { found: 'ä' }));
        assert!(Topic::new(&"t".repeat(Topic::MAX_BYTES)).is_ok());
        assert_eq!(Topic::new(&"t".repeat(64)), Err(InvalidTopic::TooLong { bytes: 64 }));
    }

    proptest! {
        #[test]
        fn a_text_is_a_topic_exactly_if_it_is_made_of_the_alphabet_and_short(text in "\\PC{0,70}") {
            let is_good = (1..=63).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
            let topic = Topic::new(&text);
            prop_assert_eq!(topic.is_ok(), is_good);
            if let Ok(topic) = topic {
                let bytes = postcard::to_allocvec(&topic).expect("encodes");
                prop_assert_eq!(postcard::from_bytes::<Topic>(&bytes).expect("decodes"), topic);
            }
        }

        #[test]
        fn bytes_that_are_no_topic_do_not_decode(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(topic) = postcard::from_bytes::<Topic>(&bytes) {
                prop_assert!(Topic::new(topic.as_str()).is_ok());
            }
        }
    }
}
