//! Tags: small facts that a node tells about itself.
//!
//! Invariants:
//! - At most [`Tags::MAX_KEYS`] keys and [`Tags::MAX_BYTES`] bytes; keys ascend strictly.
//! - They are kept as one text, `key=value` and a line feed each, which is unambiguous because no key has a `=` and
//!   neither has a control character. An empty set of tags takes no memory beside the record's own.

use std::collections::BTreeMap;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

/// Small facts that a node tells about itself: at most 32 keys, 512 bytes in all.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>")]
pub struct Tags(Box<str>);

impl Tags {
    /// The greatest number of keys.
    pub const MAX_KEYS: usize = 32;
    /// The greatest size of keys and values together, in bytes.
    pub const MAX_BYTES: usize = 512;

    /// Checks the bounds: keys are 1–63 bytes without control characters or `=`, values have no control characters.
    #[expect(clippy::needless_pass_by_value, reason = "whoever makes tags has no more use for the map")]
    pub fn new(tags: BTreeMap<String, String>) -> Result<Self, InvalidTags> {
        Self::from_sorted(tags.iter().map(|(key, value)| (key.as_str(), value.as_str())))
    }

    /// Checks the bounds, and that no key is one that a node sets by itself.
    pub fn from_operator(tags: BTreeMap<String, String>) -> Result<Self, InvalidTags> {
        match Self::MARKS.into_iter().find(|mark| tags.contains_key(*mark)) {
            Some(key) => Err(InvalidTags::Reserved { key }),
            None => Self::new(tags),
        }
    }

    /// Builds the tags from pairs in strictly ascending order, which the caller has checked.
    pub(crate) fn from_sorted<'a>(tags: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Result<Self, InvalidTags> {
        let (keys, bytes) =
            tags.clone().fold((0, 0), |(keys, bytes), (key, value)| (keys + 1, bytes + key.len() + value.len()));
        if keys > Self::MAX_KEYS {
            return Err(InvalidTags::TooMany { keys });
        }
        if bytes > Self::MAX_BYTES {
            return Err(InvalidTags::TooLong { bytes });
        }
        let mut text = String::with_capacity(bytes + 2 * keys);
        for (key, value) in tags {
            let key_is_good = (1..=63).contains(&key.len()) && !key.contains('=') && !key.contains(char::is_control);
            if !key_is_good || value.contains(char::is_control) {
                return Err(InvalidTags::Key { key: key.escape_debug().to_string() });
            }
            text.extend([key, "=", value, "\n"]);
        }
        Ok(Self(text.into_boxed_str()))
    }

    /// The key of the tag by which a node says that it drains. Reserved: no operator sets it by hand. A tag, so that nodes of earlier
    /// versions pass it on and show it.
    pub const DRAINING: &str = "headcount.draining";

    /// The key of the tag by which a node says that it does not vote, though a voter has its name: it has another identity, since
    /// its data directory is lost. Reserved likewise.
    pub(crate) const LOST_VOTE: &str = "headcount.lost-vote";

    /// The key of the tag by which a voter says that it stands aside, since its disk does not take its ballot. Reserved likewise.
    const DISK_REFUSED: &str = "headcount.disk-refused";

    /// The tags that a node sets by itself.
    const MARKS: [&str; 3] = [Self::DRAINING, Self::LOST_VOTE, Self::DISK_REFUSED];

    /// Returns true if the node that bears these tags drains: it is to get no new work.
    pub fn is_draining(&self) -> bool {
        self.get(Self::DRAINING) == Some("true")
    }

    /// Returns true if the node that bears these tags has lost the data directory of the voter that has its name.
    pub(crate) fn has_lost_vote(&self) -> bool {
        self.get(Self::LOST_VOTE) == Some("true")
    }

    /// Returns true if the node that bears these tags is a voter that stands aside: its disk does not take its ballot.
    pub(crate) fn is_aside(&self) -> bool {
        self.get(Self::DISK_REFUSED) == Some("true")
    }

    /// Returns the same tags with or without the mark of a node that drains. The error says that there is no room for it.
    pub fn with_draining(&self, is_draining: bool) -> Result<Self, InvalidTags> {
        self.marked(Self::DRAINING, is_draining)
    }

    /// Returns the same tags with or without the marks of a node whose vote is lost, and of one whose disk refuses, as far as there
    /// is room for them.
    pub(crate) fn with_vote(&self, is_lost: bool, is_aside: bool) -> Self {
        let tags = self.marked(Self::LOST_VOTE, is_lost).unwrap_or_else(|_| self.clone());
        tags.marked(Self::DISK_REFUSED, is_aside).unwrap_or(tags)
    }

    /// Returns these tags of the operator's with the marks that a node sets by itself; `None` if there is no room to drain. Without
    /// room for the marks of a vote the others do not know of that; the node knows itself.
    pub(crate) fn with_marks_of(&self, before: &Tags) -> Option<Self> {
        let tags = self.with_draining(before.is_draining()).ok()?;
        Some(tags.with_vote(before.has_lost_vote(), before.is_aside()))
    }

    fn marked(&self, mark: &str, is_marked: bool) -> Result<Self, InvalidTags> {
        let mut tags = self.to_map();
        tags.remove(mark);
        if is_marked {
            tags.insert(mark.to_owned(), "true".to_owned());
        }
        Self::new(tags)
    }

    /// Returns the tags that an operator has set: without the reserved ones.
    #[must_use]
    pub fn of_the_operator(&self) -> Self {
        if Self::MARKS.iter().all(|mark| self.get(mark).is_none()) {
            return self.clone();
        }
        let mut tags = self.to_map();
        tags.retain(|key, _| !Self::MARKS.contains(&key.as_str()));
        // Fewer tags break no bound.
        Self::new(tags).unwrap_or_default()
    }

    /// Returns the value of one key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(found, _)| *found == key).map(|(_, value)| value)
    }

    /// Returns keys and values in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.split_terminator('\n').filter_map(|line| line.split_once('='))
    }

    /// Returns true if there are no tags.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the tags as a map.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        self.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }
}

impl TryFrom<BTreeMap<String, String>> for Tags {
    type Error = InvalidTags;
    fn try_from(tags: BTreeMap<String, String>) -> Result<Self, InvalidTags> {
        Self::new(tags)
    }
}

impl Serialize for Tags {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.iter().count()))?;
        for (key, value) in self.iter() {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// The reason why tags were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTags {
    /// There are more than [`Tags::MAX_KEYS`] keys.
    #[error("at most 32 tags are allowed, these are {keys}")]
    TooMany {
        /// The number of keys.
        keys: usize,
    },
    /// Keys and values are longer than [`Tags::MAX_BYTES`].
    #[error("tags have at most 512 bytes in all, these have {bytes}")]
    TooLong {
        /// The size, in bytes.
        bytes: usize,
    },
    /// A key or value that would break a log line.
    #[error(
        "tag {key:?} is malformed: a key has 1–63 bytes without '=', and neither key nor value has control characters"
    )]
    Key {
        /// The key, escaped.
        key: String,
    },
    /// A key that a node sets by itself.
    #[error("tag {key} is set by the node alone (draining: `headcount drain`, POST /v1/drain): leave it out")]
    Reserved {
        /// The key.
        key: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_keep_their_bounds() {
        let many: BTreeMap<_, _> = (0..33).map(|i| (format!("k{i}"), String::new())).collect();
        assert_eq!(Tags::new(many), Err(InvalidTags::TooMany { keys: 33 }));
        let long = BTreeMap::from([("k".to_owned(), "v".repeat(512))]);
        assert_eq!(Tags::new(long), Err(InvalidTags::TooLong { bytes: 513 }));
        assert!(Tags::new(BTreeMap::from([("k".to_owned(), "v".repeat(511))])).is_ok());
        assert!(Tags::new(BTreeMap::from([("a=b".to_owned(), String::new())])).is_err());
        assert!(Tags::new(BTreeMap::from([(String::new(), String::new())])).is_err());
    }

    #[test]
    fn the_marks_that_a_node_sets_by_itself_are_no_operators() {
        let drains = BTreeMap::from([(Tags::DRAINING.to_owned(), "false".to_owned())]);
        assert_eq!(Tags::from_operator(drains.clone()), Err(InvalidTags::Reserved { key: Tags::DRAINING }));
        assert!(Tags::new(drains).is_ok(), "nodes of other versions may say so");
        let lost = BTreeMap::from([(Tags::LOST_VOTE.to_owned(), "true".to_owned())]);
        assert_eq!(Tags::from_operator(lost.clone()), Err(InvalidTags::Reserved { key: Tags::LOST_VOTE }));
        let zone = Tags::new(BTreeMap::from([("zone".to_owned(), "eu".to_owned())])).expect("good tags");
        let marked = zone.with_draining(true).expect("there is room").with_vote(true, true);
        assert!(marked.is_draining() && marked.has_lost_vote() && marked.of_the_operator() == zone, "{marked:?}");
        assert_eq!(Ok(marked.with_vote(false, false)), zone.with_draining(true));
        // Of the marks of a vote those stay and come that have room.
        let most = Tags::MAX_BYTES - Tags::LOST_VOTE.len() - "true".len() - "k".len();
        let full = Tags::new(BTreeMap::from([("k".to_owned(), "x".repeat(most))])).expect("good tags");
        let lost = full.with_vote(true, true);
        assert_eq!((lost.has_lost_vote(), lost.is_aside()), (true, false));
        assert_eq!(lost.with_vote(false, true), full, "the other one is longer");
        let others = BTreeMap::from([("headcount".to_owned(), "x".to_owned())]);
        assert_eq!(Tags::from_operator(others.clone()), Tags::new(others));
    }

    #[test]
    fn tags_are_what_they_were_made_of() {
        let map =
            BTreeMap::from([("zone", "eu=1"), ("a", ""), ("role", "cache")].map(|(k, v)| (k.to_owned(), v.to_owned())));
        let tags = Tags::new(map.clone()).expect("good tags");
        assert_eq!(tags.to_map(), map);
        assert_eq!(tags.iter().map(|(key, _)| key).collect::<Vec<_>>(), ["a", "role", "zone"]);
        assert_eq!((tags.get("zone"), tags.get("a"), tags.get("b")), (Some("eu=1"), Some(""), None));
        assert!(Tags::default().is_empty() && Tags::default().iter().next().is_none());
    }
}
