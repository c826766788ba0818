//! The keys of a cluster, and who holds them: ids alone, never a key.

use std::collections::BTreeMap;
use std::fmt;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent;
use crate::seal::KeyId;

/// The keys that the members of a cluster hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct Keys {
    /// The keys, by id.
    pub keys: Vec<KeyUse>,
    /// The members, by name.
    pub members: Vec<KeyHolder>,
}

/// One key, and who holds it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct KeyUse {
    /// The key's id, 8 hex digits.
    pub id: String,
    /// The members that seal with it.
    pub sealing: Vec<String>,
    /// The members that accept it, those that seal with it included.
    pub held_by: Vec<String>,
    /// The members that are known not to hold it.
    pub lacked_by: Vec<String>,
}

/// One member, and what it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct KeyHolder {
    /// The member's name.
    pub node: String,
    /// The member's status.
    pub status: String,
    /// `off`, `permit`, `prefer` or `require`; `null` if it is not known.
    pub mode: Option<String>,
    /// The ids of its keys, of which the first one seals; `null` if they are not known.
    pub keys: Option<Vec<String>>,
    /// The reason why they are not known, or why a change was not made there.
    pub error: Option<String>,
}

/// The body of `POST /v1/keys`.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct AddKey {
    /// The key in base64: a secret. Or the id of a key that the agent holds, which is offered to all once more.
    pub key: String,
}

/// Shows no secret.
impl fmt::Debug for AddKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AddKey(…)")
    }
}

impl Keys {
    /// Returns the listing of these members.
    pub fn new(holders: &[agent::KeyHolder]) -> Self {
        let mut keys: BTreeMap<KeyId, KeyUse> = BTreeMap::new();
        for holder in holders {
            let Ok(held) = &holder.held else { continue };
            for (place, id) in held.keys.iter().enumerate() {
                let of_key = keys.entry(*id).or_default();
                of_key.held_by.push(holder.node.to_string());
                if place == 0 && held.mode.seals() {
                    of_key.sealing.push(holder.node.to_string());
                }
            }
        }
        let lacked_by = |id: &KeyId| {
            let lacks = |holder: &&agent::KeyHolder| holder.held.as_ref().is_ok_and(|held| !held.keys.contains(id));
            holders.iter().filter(lacks).map(|holder| holder.node.to_string()).collect()
        };
        let keys = keys.into_iter().map(|(id, key)| KeyUse { id: id.to_string(), lacked_by: lacked_by(&id), ..key });
        Self { keys: keys.collect(), members: holders.iter().map(KeyHolder::from).collect() }
    }
}

impl From<&agent::KeyHolder> for KeyHolder {
    fn from(holder: &agent::KeyHolder) -> Self {
        let held = holder.held.as_ref();
        Self {
            node: holder.node.to_string(),
            status: holder.status.name().to_owned(),
            mode: held.ok().map(|held| held.mode.name().to_owned()),
            keys: held.ok().map(|held| held.keys.iter().map(ToString::to_string).collect()),
            error: held.err().cloned(),
        }
    }
}
