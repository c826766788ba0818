//! The bytes of requests and answers about keys: postcard, variants are only ever appended.

use std::fmt;

use serde::{Deserialize, Serialize};
use zeroize::{Zeroize as _, Zeroizing};

use super::HeldKeys;
use crate::core::NodeId;
use crate::seal::{Key, KeyId, SealMode};

/// A request to a member's agent.
#[derive(Clone, Serialize, Deserialize)]
pub(super) enum KeyRequest {
    /// Asks for the ids of the keys that it holds.
    List,
    /// To accept one more key: the secret itself.
    Add([u8; Key::BYTES]),
    /// To seal with a key.
    Use([u8; KeyId::BYTES]),
    /// To accept a key no more.
    Remove([u8; KeyId::BYTES]),
    /// To take no change from others for a while (true), or to take them again (false). Answered like `List`.
    Turn(bool),
}

impl KeyRequest {
    pub(super) fn add(key: &Key) -> Self {
        let mut bytes = [0; Key::BYTES];
        bytes.copy_from_slice(key.bytes());
        KeyRequest::Add(bytes)
    }

    /// Returns true if the request changes something.
    pub(super) fn is_change(&self) -> bool {
        !matches!(self, KeyRequest::List | KeyRequest::Turn(_))
    }

    /// Returns what is asked for, in words for the log; a key by its id alone.
    pub(super) fn words(&self) -> String {
        match self {
            KeyRequest::List => "list the keys".to_owned(),
            KeyRequest::Add(secret) => match Key::from_bytes(secret) {
                Ok(key) => format!("add key {}", key.id()),
                Err(_) => "add a key".to_owned(),
            },
            KeyRequest::Use(id) => format!("seal with key {}", KeyId(*id)),
            KeyRequest::Remove(id) => format!("remove key {}", KeyId(*id)),
            KeyRequest::Turn(true) => "take no other changes".to_owned(),
            KeyRequest::Turn(false) => "take other changes again".to_owned(),
        }
    }

    /// Returns the line of the log about a change that a node asked for, by which these keys are held now.
    pub(super) fn told(&self, by: &NodeId, held: &HeldKeys) -> String {
        let keys: Vec<_> = held.keys.iter().map(ToString::to_string).collect();
        format!("keys were changed by {by} ({}): now {}", self.words(), keys.join(", "))
    }

    pub(super) fn encode(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(postcard::to_allocvec(self).expect("encoding into memory does not fail"))
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        postcard::take_from_bytes(bytes).ok().filter(|(_, rest): &(Self, &[u8])| rest.is_empty()).map(|(word, _)| word)
    }
}

impl Drop for KeyRequest {
    fn drop(&mut self) {
        if let KeyRequest::Add(secret) = self {
            secret.zeroize();
        }
    }
}

/// Shows no secret.
impl fmt::Debug for KeyRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyRequest::List => f.write_str("List"),
            KeyRequest::Add(_) => f.write_str("Add(…)"),
            KeyRequest::Use(id) => write!(f, "Use({})", KeyId(*id)),
            KeyRequest::Remove(id) => write!(f, "Remove({})", KeyId(*id)),
            KeyRequest::Turn(is_taken) => write!(f, "Turn({is_taken})"),
        }
    }
}

/// The answer of a member's agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum KeyAnswer {
    /// The keys that it holds now.
    Held {
        /// The mode, by its place among all.
        mode: u8,
        /// The ids of the keys; the first one seals.
        keys: Vec<[u8; KeyId::BYTES]>,
    },
    /// Nothing was changed, for this reason.
    Refused(String),
    /// Nothing was changed: it is the turn of the node of this name to change keys.
    Busy(String),
}

impl KeyAnswer {
    pub(super) fn held(held: &HeldKeys) -> Self {
        let mode = SealMode::ALL.iter().position(|mode| *mode == held.mode).unwrap_or_default() as u8;
        KeyAnswer::Held { mode, keys: held.keys.iter().map(|id| id.0).collect() }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("encoding into memory does not fail")
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        postcard::take_from_bytes(bytes).ok().filter(|(_, rest): &(Self, &[u8])| rest.is_empty()).map(|(word, _)| word)
    }
}

/// Returns the mode at a place among all; off for one that this build does not know.
pub(super) fn mode(place: u8) -> SealMode {
    SealMode::ALL.get(usize::from(place)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::key;

    #[test]
    fn words_have_these_bytes_for_ever() {
        let add = KeyRequest::add(&key(1)).encode();
        assert_eq!((add[0], &add[1..]), (1, key(1).bytes()));
        assert_eq!(*KeyRequest::List.encode(), [0]);
        assert_eq!(*KeyRequest::Use([1, 2, 3, 4]).encode(), [2, 1, 2, 3, 4]);
        assert_eq!(*KeyRequest::Remove([1, 2, 3, 4]).encode(), [3, 1, 2, 3, 4]);
        assert_eq!(*KeyRequest::Turn(true).encode(), [4, 1]);
        assert_eq!(*KeyRequest::Turn(false).encode(), [4, 0]);
        let held = HeldKeys { mode: SealMode::Require, keys: vec![KeyId([9, 8, 7, 6])] };
        assert_eq!(KeyAnswer::held(&held).encode(), [0, 3, 1, 9, 8, 7, 6]);
        assert_eq!(KeyAnswer::Refused("no".into()).encode(), [1, 2, b'n', b'o']);
        assert_eq!(KeyAnswer::Busy("me".into()).encode(), [2, 2, b'm', b'e']);
    }

    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(format!("{:?}", KeyRequest::add(&key(1))), "Add(…)");
        assert_eq!(KeyRequest::add(&key(1)).words(), format!("add key {}", key(1).id()));
    }

    #[test]
    fn what_is_no_request_is_none() {
        for bytes in [&[][..], &[4], &[5], &[4, 2], &[1, 2], &[0, 0], &[2, 1, 2, 3]] {
            assert!(KeyRequest::decode(bytes).is_none(), "{bytes:?}");
        }
        assert!(KeyAnswer::decode(&[0, 3, 255, 255, 255, 255, 15]).is_none(), "a length without bytes");
    }
}
