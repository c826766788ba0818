//! Keys: the ring of this node, and that of every member, changed while the cluster runs.
//!
//! ```text
//! headcount keys add ──HTTP──▶ agent ── request on a reserved topic, over a sealed link ──▶ every member's agent
//!                                │ keeper: key file, then ring                                  │ keeper
//! ```
//!
//! A rotation is `add` (all accept the new key), `use` (all seal with it), `remove` (nobody accepts the old one any more). Every
//! step leaves members that took it and members that did not in hearing of each other; `use` and `remove` first ask everybody,
//! and are refused while somebody would be locked out.
//!
//! Invariants:
//! - A ring is on the disk before it is in force: a restart finds it.
//! - Keys travel over sealed links alone: both sides refuse unless [`SealMode::Require`] is in force.
//! - Programs neither see these requests nor make them: the topic is none that they can name.
//!
//! | idea | file |
//! |---|---|
//! | this node's ring and its file | `keeper` |
//! | requests of other members, answered | `desk` |
//! | bytes of requests and answers | `word` |
//!
//! Must not know: how packets are sealed, HTTP.

mod desk;
mod keeper;
mod word;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

pub(super) use desk::Desk;
pub(super) use keeper::Keeper;
use word::{KeyAnswer, KeyRequest};

use super::driver::Say;
use super::{Agent, MessageError};
use crate::config::{ConfigError, SealConfig};
use crate::core::{NodeId, Payload, Reply, Status, Topic};
use crate::member::Member;
use crate::seal::{Key, KeyId, RingError, SealMode};

/// The time in which members answer; a change asks twice.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);
/// Members that are asked at one time.
const MAX_ASKED_AT_ONCE: usize = 64;

/// The keys that one node holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldKeys {
    /// The packets that it takes and sends.
    pub mode: SealMode,
    /// The ids of its keys; the first one seals.
    pub keys: Vec<KeyId>,
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

/// Error: the keys were not changed here. What other members did is in the holders of [`Agent::cluster_keys`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// Keys do not travel over clear links.
    #[error(
        "keys are changed only where everything is sealed (seal.mode = require), and the mode here is {mode}: put the key \
         into the key files by other means, and send SIGHUP"
    )]
    NotSealed {
        /// The mode in force.
        mode: SealMode,
    },
    /// The keys come from the configuration itself, and a change would be forgotten at the next start.
    #[error(
        "the keys come from seal.keys, where a change would be lost at the next start: name a file as seal.key_file"
    )]
    NotKept,
    /// The key file cannot be read or replaced.
    #[error("the key file {}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason in words.
        reason: String,
    },
    /// The configuration of keys makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The ring refuses the change.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// Members would be locked out.
    #[error("{}", locked_out(*id, members))]
    LockedOut {
        /// The key.
        id: KeyId,
        /// The members, each with the reason.
        members: Vec<(NodeId, String)>,
    },
    /// The agent has stopped.
    #[error("the agent has stopped")]
    Stopped,
}

fn locked_out(id: KeyId, members: &[(NodeId, String)]) -> String {
    const MOST: usize = 8;
    let named: Vec<String> = members.iter().take(MOST).map(|(node, why)| format!("{node} {why}")).collect();
    let more = members.len().saturating_sub(MOST);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!(
        "key {id}: members would be locked out: {}{more}; add the key again once they are back (`headcount keys add`), \
         remove members that are gone for good (`headcount remove`), or use --force",
        named.join(", ")
    )
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
        Ok(self.ask_all(&request).await)
    }

    /// Has every member seal with this key. Refused while a member does not hold it, or cannot be asked, unless forced.
    pub async fn use_key(&self, id: KeyId, force: bool) -> Result<Vec<KeyHolder>, KeysError> {
        if !self.keys().keys.contains(&id) {
            return Err(RingError::Unknown(id).into());
        }
        self.check(id, force, |held| (!held.keys.contains(&id)).then_some("lacks it")).await?;
        self.change(&KeyRequest::Use(id.0)).await?;
        Ok(self.ask_all(&KeyRequest::Use(id.0)).await)
    }

    /// Has no member accept this key any more. Refused while a member seals with it, or cannot be asked, unless forced; the
    /// key that a member seals with is never removed there.
    pub async fn remove_key(&self, id: KeyId, force: bool) -> Result<Vec<KeyHolder>, KeysError> {
        if self.keys().keys.first() == Some(&id) {
            return Err(RingError::Sealing(id).into());
        }
        self.check(id, force, |held| (held.keys.first() == Some(&id)).then_some("seals with it")).await?;
        // Others first: as long as this node accepts it, it hears those that have not answered yet.
        let holders = self.ask_all(&KeyRequest::Remove(id.0)).await;
        self.change(&KeyRequest::Remove(id.0)).await?;
        let me = self.me().id;
        Ok(holders.into_iter().map(|holder| self.or_mine(holder, &me)).collect())
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

    fn or_mine(&self, holder: KeyHolder, me: &NodeId) -> KeyHolder {
        if holder.node == *me { KeyHolder { held: Ok(self.keys()), ..holder } } else { holder }
    }

    /// Refuses if a change would lock somebody out: a member that `objects`, or that cannot be asked.
    async fn check(
        &self,
        id: KeyId,
        force: bool,
        objects: impl Fn(&HeldKeys) -> Option<&'static str>,
    ) -> Result<(), KeysError> {
        if force {
            return Ok(());
        }
        let holders = self.cluster_keys().await;
        let objection = |holder: KeyHolder| match &holder.held {
            Ok(held) => objects(held).map(|why| (holder.node, why.to_owned())),
            Err(why) => Some((holder.node, why.clone())),
        };
        let members: Vec<_> = holders.into_iter().filter_map(objection).collect();
        if members.is_empty() { Ok(()) } else { Err(KeysError::LockedOut { id, members }) }
    }

    /// Makes a change here.
    async fn change(&self, request: &KeyRequest) -> Result<HeldKeys, KeysError> {
        let (keeper, request) = (Arc::clone(&self.inner.keeper), request.clone());
        let change = self.inner.runtime.spawn_blocking(move || keeper.change(&request));
        change.await.map_err(|_| KeysError::Stopped)?
    }

    /// Makes a request to every other member, and adds this node.
    async fn ask_all(&self, request: &KeyRequest) -> Vec<KeyHolder> {
        let me = self.me().id;
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        let places = Arc::new(Semaphore::new(MAX_ASKED_AT_ONCE));
        let mut asked = JoinSet::new();
        let mut holders: Vec<KeyHolder> = Vec::new();
        for Member { id, status, .. } in self.members() {
            let unknown = match status {
                Status::Left(_) => continue,
                Status::Down => Some("is down, and may come back without it"),
                Status::Joining => Some("is joining, and cannot be asked yet"),
                _ => None,
            };
            let held =
                if id == me { Ok(self.keys()) } else { Err(unknown.unwrap_or("did not answer in time").to_owned()) };
            if id != me && unknown.is_none() {
                let (agent, places, request, place) =
                    (self.clone(), Arc::clone(&places), request.clone(), holders.len());
                let to = id.clone();
                let ask = async move {
                    let asked = async {
                        let _place = places.acquire().await;
                        agent.ask_holder(to, &request, deadline.saturating_duration_since(Instant::now())).await
                    };
                    (place, timeout_at(deadline, asked).await)
                };
                asked.spawn_on(ask, &self.inner.runtime);
            }
            holders.push(KeyHolder { node: id, status, held });
        }
        while let Some(answer) = asked.join_next().await {
            if let Ok((place, Ok(held))) = answer {
                holders[place].held = held;
            }
        }
        holders.sort_by(|one, other| one.node.cmp(&other.node));
        holders
    }

    async fn ask_holder(&self, to: NodeId, request: &KeyRequest, timeout: Duration) -> Result<HeldKeys, String> {
        let mode = self.keys().mode;
        if request.is_change() && mode != SealMode::Require {
            return Err(KeysError::NotSealed { mode }.to_string());
        }
        let payload = Payload::new(&request.encode()).map_err(|error| error.to_string())?;
        match self.say(Say::Request { to, topic: Topic::keys(), payload, timeout }).await {
            Ok(Reply::Answered { payload, .. }) => match KeyAnswer::decode(&payload) {
                Some(KeyAnswer::Held { mode, keys }) => Ok(HeldKeys { mode: word::mode(mode), keys: ids(&keys) }),
                Some(KeyAnswer::Refused(why)) => Err(format!("refused: {}", crate::text::visible(&why, 200))),
                None => Err("gave an answer that this version does not understand".to_owned()),
            },
            Ok(_) => Err("gave no answer".to_owned()),
            Err(MessageError::NoAnswer { .. }) => Err("did not answer in time".to_owned()),
            Err(error) => Err(format!("was not asked: {error}")),
        }
    }
}

fn ids(raw: &[[u8; KeyId::BYTES]]) -> Vec<KeyId> {
    raw.iter().map(|id| KeyId(*id)).collect()
}
