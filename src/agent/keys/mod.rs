//! Keys: the ring of this node, and that of every member, changed while the cluster runs.
//!
//! ```text
//! headcount keys add ──HTTP──▶ agent ── request on a reserved topic, over a sealed link ──▶ every member's agent
//!                                │ keeper: key file, then ring                                  │ keeper
//! ```
//!
//! A rotation is `add` (all accept the new key), `use` (all seal with it), `remove` (nobody accepts the old one any more). Every
//! step leaves members that took it and members that did not in hearing of each other; `use` and `remove` first ask everybody,
//! who then take such changes from this node alone for a while, and are refused while somebody would be locked out.
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
//! | one node at a time changes keys | `turn` |
//!
//! Must not know: how packets are sealed, HTTP.

mod desk;
mod keeper;
#[cfg(test)]
mod tests;
mod turn;
mod word;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

pub(super) use desk::Desk;
pub(super) use keeper::Keeper;
use word::{KeyAnswer, KeyRequest};

use super::Agent;
use super::messages::MessageError;
use super::request::Say;
use crate::config::{ConfigError, SealConfig};
use crate::core::{LeaveReason, NodeId, Payload, Reply, Status, Topic};
use crate::member::Member;
use crate::seal::{Key, KeyId, RingError, SealMode};

/// The time in which members answer; a change asks twice.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);
/// The time in which members answer when they are asked once more before the last step.
const LAST_ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// The time for which a member that left is expected back, as in a restart: its key file is not known.
const EXPECTED_BACK: Duration = Duration::from_secs(600);
/// Members that are asked at one time: a pace, so that a thousand answers do not come at once. (Without a test: all are asked,
/// sooner or later, and nothing else tells the difference.)
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
    /// The key file holds other keys than those in force.
    #[error("the key file {} was changed and not read yet: send this agent SIGHUP first", path.display())]
    NotRead {
        /// The file.
        path: PathBuf,
    },
    /// The configuration would end the seals of a running node, which others would not hear any more.
    #[error(
        "nothing would be sealed any more, where the mode is {mode}: to end the seals of a cluster, set seal.mode to prefer, \
         then permit, then off, each at all members before the next; otherwise name the keys again"
    )]
    EndsSeals {
        /// The mode in force.
        mode: SealMode,
    },
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
    /// Another node changes keys at the moment.
    #[error("keys are being changed from {by}: try again in some seconds")]
    Busy {
        /// The node, perhaps this one, that was asked by somebody else.
        by: NodeId,
    },
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
        "key {id}: members would be locked out: {}{more}; add the key again once they are back (`headcount keys add {id}`), \
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
        let mut holders = self.ask_all(&request).await;
        // They were not there to be asked, and are expected back.
        let members = self.members();
        let gone = members.iter().filter_map(|member| Some((member.status, may_come_back(member)?)));
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
        let _changing = self.begin_change()?;
        let changed = self.use_in_turn(id, force).await;
        self.end_turn(force).await;
        changed
    }

    async fn use_in_turn(&self, id: KeyId, force: bool) -> Result<Vec<KeyHolder>, KeysError> {
        let objects = |held: &HeldKeys| (!held.keys.contains(&id)).then_some("lacks it");
        self.check(id, force, ANSWER_TIMEOUT, objects).await?;
        self.change(&KeyRequest::Use(id.0)).await?;
        Ok(self.ask_all(&KeyRequest::Use(id.0)).await)
    }

    /// Has no member accept this key any more. Refused while a member seals with it, or cannot be asked, unless forced; the
    /// key that a member seals with is never removed there.
    pub async fn remove_key(&self, id: KeyId, force: bool) -> Result<Vec<KeyHolder>, KeysError> {
        if self.keys().keys.first() == Some(&id) {
            return Err(RingError::Sealing(id).into());
        }
        let _changing = self.begin_change()?;
        let changed = self.remove_in_turn(id, force).await;
        self.end_turn(force).await;
        changed
    }

    async fn remove_in_turn(&self, id: KeyId, force: bool) -> Result<Vec<KeyHolder>, KeysError> {
        let objects = |held: &HeldKeys| (held.keys.first() == Some(&id)).then_some("seals with it");
        self.check(id, force, ANSWER_TIMEOUT, objects).await?;
        // Others first: as long as this node accepts it, it hears those that have not answered yet.
        let holders = self.ask_all(&KeyRequest::Remove(id.0)).await;
        if holders.iter().all(|holder| holder.held.is_ok()) {
            // Somebody may have come meanwhile.
            self.check(id, force, LAST_ANSWER_TIMEOUT, objects).await?;
        }
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

    /// Makes this the only change that is under way at this node, until the guard is dropped.
    fn begin_change(&self) -> Result<OwnedSemaphorePermit, KeysError> {
        let busy = || KeysError::Busy { by: self.me().id };
        Arc::clone(self.inner.keeper.changing()).try_acquire_owned().map_err(|_| busy())
    }

    /// Gives the turn back everywhere, if it was taken. Where that is not heard, it ends by itself.
    async fn end_turn(&self, force: bool) {
        if !force {
            let _ = self.change(&KeyRequest::Turn(false)).await;
            self.ask_members(&KeyRequest::Turn(false), LAST_ANSWER_TIMEOUT).await;
        }
    }

    /// Takes the turn, and refuses if a change would lock somebody out: a member that `objects`, that cannot be asked, or
    /// that may come back.
    async fn check(
        &self,
        id: KeyId,
        force: bool,
        timeout: Duration,
        objects: impl Fn(&HeldKeys) -> Option<&'static str>,
    ) -> Result<(), KeysError> {
        if force {
            return Ok(());
        }
        self.change(&KeyRequest::Turn(true)).await?;
        let mut members: Vec<_> = self.members().iter().filter_map(may_come_back).collect();
        for Asked { node, held, .. } in self.ask_members(&KeyRequest::Turn(true), timeout).await {
            match held {
                Ok(held) => members.extend(objects(&held).map(|why| (node, why.to_owned()))),
                Err(Unheld::Busy(by)) => return Err(KeysError::Busy { by }),
                Err(Unheld::Why(why)) => members.push((node, why)),
            }
        }
        if members.is_empty() { Ok(()) } else { Err(KeysError::LockedOut { id, members }) }
    }

    /// Makes a change here.
    async fn change(&self, request: &KeyRequest) -> Result<HeldKeys, KeysError> {
        let (keeper, request, me) = (Arc::clone(&self.inner.keeper), request.clone(), self.me().id);
        let change = self.inner.runtime.spawn_blocking(move || keeper.answer(&request, &me));
        change.await.map_err(|_| KeysError::Stopped)?
    }

    /// Makes a request to every other member, and adds this node.
    async fn ask_all(&self, request: &KeyRequest) -> Vec<KeyHolder> {
        let asked = self.ask_members(request, ANSWER_TIMEOUT).await.into_iter();
        let holder =
            |Asked { node, status, held }| KeyHolder { node, status, held: held.map_err(|why| why.to_string()) };
        asked.map(holder).collect()
    }

    /// Makes a request to every other member, and adds this node; sorted by name.
    async fn ask_members(&self, request: &KeyRequest, timeout: Duration) -> Vec<Asked> {
        let me = self.me().id;
        let deadline = Instant::now() + timeout;
        let places = Arc::new(Semaphore::new(MAX_ASKED_AT_ONCE));
        let mut asked = JoinSet::new();
        let mut holders: Vec<Asked> = Vec::new();
        for Member { id, status, .. } in self.members() {
            let unknown = match status {
                Status::Left(_) => continue,
                Status::Down => Some("is down, and may come back without it"),
                Status::Joining => Some("is joining, and cannot be asked yet"),
                _ => None,
            };
            let why = || Unheld::Why(unknown.unwrap_or("did not answer in time").to_owned());
            let held = if id == me { Ok(self.keys()) } else { Err(why()) };
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
            holders.push(Asked { node: id, status, held });
        }
        while let Some(answer) = asked.join_next().await {
            if let Ok((place, Ok(held))) = answer {
                holders[place].held = held;
            }
        }
        holders.sort_by(|one, other| one.node.cmp(&other.node));
        holders
    }

    async fn ask_holder(&self, to: NodeId, request: &KeyRequest, timeout: Duration) -> Result<HeldKeys, Unheld> {
        let mode = self.keys().mode;
        if request.is_change() && mode != SealMode::Require {
            return Err(Unheld::Why(KeysError::NotSealed { mode }.to_string()));
        }
        let payload = Payload::new(&request.encode()).map_err(|error| Unheld::Why(error.to_string()))?;
        let why = match self.say(Say::Request { to, topic: Topic::keys(), payload, timeout }).await {
            Ok(Reply::Answered { payload, .. }) => match KeyAnswer::decode(&payload) {
                Some(KeyAnswer::Held { mode, keys }) => {
                    return Ok(HeldKeys { mode: word::mode(mode), keys: ids(&keys) });
                }
                Some(KeyAnswer::Refused(why)) => format!("refused: {}", crate::text::visible(&why, 200)),
                Some(KeyAnswer::Busy(by)) => match NodeId::new(&by) {
                    Ok(by) => return Err(Unheld::Busy(by)),
                    Err(_) => "refused: keys are being changed".to_owned(),
                },
                None => "gave an answer that this version does not understand".to_owned(),
            },
            Ok(_) => "gave no answer".to_owned(),
            Err(MessageError::NoAnswer { .. }) => "did not answer in time".to_owned(),
            Err(error) => format!("was not asked: {error}"),
        };
        Err(Unheld::Why(why))
    }
}

/// A member that was asked, and its answer.
struct Asked {
    node: NodeId,
    status: Status,
    held: Result<HeldKeys, Unheld>,
}

/// The reason why the keys of a member are not known, or were not changed there.
#[derive(Debug, thiserror::Error)]
enum Unheld {
    #[error("refused: keys are being changed from {0}: try again in some seconds")]
    Busy(NodeId),
    #[error("{0}")]
    Why(String),
}

/// Returns a member that left a short while ago, and the reason why that speaks against a change of keys.
fn may_come_back(member: &Member) -> Option<(NodeId, String)> {
    let gone = member.since.elapsed().unwrap_or_default();
    let is_expected = member.status == Status::Left(LeaveReason::Graceful) && gone < EXPECTED_BACK;
    is_expected.then(|| {
        let minutes = EXPECTED_BACK.as_secs() / 60;
        (member.id.clone(), format!("left less than {minutes} minutes ago, and may come back with the keys it had"))
    })
}

fn ids(raw: &[[u8; KeyId::BYTES]]) -> Vec<KeyId> {
    raw.iter().map(|id| KeyId(*id)).collect()
}
