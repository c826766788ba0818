//! Keys: the ring of this node, and that of every member, changed while the cluster runs.
//!
//! ```text
//! headcount keys add ──HTTP──▶ agent ── request on a reserved topic, over a sealed link ──▶ every member's agent
//!                                │ keeper: key file, then ring                                  │ keeper
//! ```
//!
//! A rotation is `add` (all accept the new key), `use` (all seal with it), `remove` (nobody accepts the old one any more). Every
//! step leaves members that took it and members that did not in hearing of each other; `use` and `remove` first ask everybody,
//! who then take such changes from this node alone for a while, and are refused while somebody would be locked out; who comes while
//! they are under way is asked as well, and whatever would lock it out is taken back.
//!
//! Invariants:
//! - A ring is on the disk before it is in force: a restart finds it.
//! - Keys travel over sealed links alone: both sides refuse unless [`SealMode::Require`] is in force.
//! - Programs neither see these requests nor make them: the topic is none that they can name.
//!
//! | idea | file |
//! |---|---|
//! | `use` and `remove`: looks, steps, and the way back | `rotation` |
//! | one request to all members | `asking` |
//! | reasons why keys stay as they are | `error` |
//! | this node's ring and its file | `keeper` |
//! | requests of other members, answered | `responder` |
//! | bytes of requests and answers | `word` |
//! | one node at a time changes keys | `turn` |
//!
//! Must not know: how packets are sealed, HTTP.

mod asking;
mod error;
mod keeper;
mod responder;
mod rotation;
#[cfg(test)]
mod tests;
mod turn;
mod word;

use std::sync::Arc;
use std::time::Duration;

pub use error::KeysError;
pub(super) use keeper::Keeper;
pub(super) use responder::KeyResponder;
use word::KeyRequest;

use super::Agent;
use crate::config::SealConfig;
use crate::core::{NodeId, Status};
use crate::seal::{Key, KeyId, RingError, SealMode};

/// The time in which members answer; a change asks twice.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);

/// The keys that one node holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldKeys {
    /// The packets that it takes and sends.
    pub mode: SealMode,
    /// The ids of its keys; the first one seals.
    pub keys: Vec<KeyId>,
}

/// The sealing of a node's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SealingInfo {
    /// The packets taken and sent: clear ones are taken in all modes but [`SealMode::Require`].
    pub mode: SealMode,
    /// The key that seals; `None` if the node has none, or seals nothing.
    pub key: Option<KeyId>,
    /// True if the configuration says that clear packets are taken from other machines; without that they are taken from this
    /// machine alone.
    pub consented: bool,
}

/// A member, and the keys that it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyHolder {
    /// The member's name.
    pub node: NodeId,
    /// The status that this node holds it as.
    pub status: Status,
    /// The keys that it holds, or the reason why that is unknown or a change was not made there, in words.
    pub held: Result<HeldKeys, String>,
}

impl Agent {
    /// Returns the keys that this node holds.
    pub fn keys(&self) -> HeldKeys {
        self.inner.keeper.held()
    }

    /// Asks every member which keys it holds; sorted by name, this node included, members that left not.
    pub async fn cluster_keys(&self) -> Vec<KeyHolder> {
        self.ask_all(&KeyRequest::List).await
    }

    /// Has every member accept one more key. Nobody seals with it yet.
    ///
    /// The key travels sealed with the present one: whoever has that one, and records packets, has the new one, too. After
    /// a key became known to others, bring the next one to the nodes by other means: see the crate's page on security.
    pub async fn add_key(&self, key: Key) -> Result<Vec<KeyHolder>, KeysError> {
        let request = KeyRequest::add(&key);
        self.change(&request).await?;
        let mut holders = self.ask_all(&request).await;
        // They were not there to be asked, and are expected back.
        let members = self.members();
        let gone = members.iter().filter_map(|member| Some((member.status, rotation::may_come_back(member)?)));
        holders.extend(gone.map(|(status, (node, why))| KeyHolder { node, status, held: Err(why) }));
        holders.sort_by(|one, other| one.node.cmp(&other.node));
        Ok(holders)
    }

    /// Has every member accept a key that this node holds, such as members that were away when it was added.
    pub async fn add_key_again(&self, id: KeyId) -> Result<Vec<KeyHolder>, KeysError> {
        let key = self.inner.keeper.key(id).ok_or(RingError::Unknown(id))?;
        self.add_key(key).await
    }

    /// Has every member seal with this key. Refused while a member does not hold it, or cannot be asked, unless forced.
    pub async fn use_key(&self, id: KeyId, force: bool) -> Result<Vec<KeyHolder>, KeysError> {
        if !self.keys().keys.contains(&id) {
            return Err(RingError::Unknown(id).into());
        }
        self.rotate(rotation::Step::Use(id), force).await
    }

    /// Has no member accept this key any more. Refused while a member seals with it, or cannot be asked, unless forced; the
    /// key that a member seals with is never removed there.
    pub async fn remove_key(&self, id: KeyId, force: bool) -> Result<Vec<KeyHolder>, KeysError> {
        if self.keys().keys.first() == Some(&id) {
            return Err(RingError::Sealing(id).into());
        }
        self.rotate(rotation::Step::Remove(id), force).await
    }

    /// Puts another configuration of keys in force, and reads the key file again. Returns the keys held before and after.
    pub async fn reload_keys(&self, config: SealConfig) -> Result<(HeldKeys, HeldKeys), KeysError> {
        if let Some(error) = config.problems(self.inner.config.settings.mtu).into_iter().next() {
            return Err(KeysError::Config(error));
        }
        let keeper = Arc::clone(&self.inner.keeper);
        let reload = self.inner.runtime.spawn_blocking(move || keeper.reload(config));
        reload.await.map_err(|_| KeysError::Stopped)?
    }
}
