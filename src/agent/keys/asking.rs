//! Asking: one request about keys to this node, to a member, or to all of them at one time.
//!
//! Must not know: which change is safe.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tracing::Level;

use super::word::{self, KeyAnswer, KeyRequest};
use super::{ANSWER_TIMEOUT, HeldKeys, KeyHolder, KeysError};
use crate::agent::Agent;
use crate::agent::messages::MessageError;
use crate::agent::request::Say;
use crate::core::{NodeId, Payload, Reply, Run, Status, Topic};
use crate::member::Member;
use crate::seal::{KeyId, SealMode};

/// Members that are asked at one time: a pace, so that a thousand answers do not come at once. (Without a test: all are asked,
/// sooner or later, and nothing else tells the difference.)
const MAX_ASKED_AT_ONCE: usize = 64;

impl Agent {
    /// Returns an error if a change would fail here.
    pub(super) async fn try_change(&self, request: &KeyRequest) -> Result<(), KeysError> {
        let (keeper, request) = (Arc::clone(&self.inner.keeper), request.clone());
        let trial = self.inner.runtime.spawn_blocking(move || keeper.try_change(&request));
        trial.await.map_err(|_| KeysError::Stopped)?
    }

    /// Makes a change here.
    pub(super) async fn change(&self, request: &KeyRequest) -> Result<HeldKeys, KeysError> {
        let (keeper, me) = (Arc::clone(&self.inner.keeper), self.me().id);
        let (asked, before) = (request.clone(), self.keys());
        let change = self.inner.runtime.spawn_blocking(move || keeper.answer(&asked, &me, None));
        let held = change.await.map_err(|_| KeysError::Stopped)??;
        if request.is_change() && held != before {
            self.inner.shared.journal.say(Level::INFO, request.told(&self.me().id, &held));
        }
        Ok(held)
    }

    /// Makes a request to every other member, and adds this node.
    pub(super) async fn ask_all(&self, request: &KeyRequest) -> Vec<KeyHolder> {
        let asked = self.ask_members(request, ANSWER_TIMEOUT).await.into_iter();
        let holder =
            |Asked { node, status, held, .. }| KeyHolder { node, status, held: held.map_err(|why| why.to_string()) };
        asked.map(holder).collect()
    }

    /// Makes a request to every other member, and adds this node; sorted by name.
    pub(super) async fn ask_members(&self, request: &KeyRequest, timeout: Duration) -> Vec<Asked> {
        let me = self.me().id;
        let places = Arc::new(Semaphore::new(MAX_ASKED_AT_ONCE));
        let mut asked = JoinSet::new();
        let mut holders: Vec<Asked> = Vec::new();
        for Member { id, run, status, .. } in self.members() {
            let unknown = match status {
                Status::Left(_) => continue,
                Status::Down => Some("is down, and the keys that it will come back with are not known"),
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
                    // Told here, by the agent's own clock: that of the caller may be paused.
                    let deadline = Instant::now() + timeout;
                    let asked = async {
                        let _place = places.acquire().await;
                        agent.ask_holder(to, &request, deadline.saturating_duration_since(Instant::now())).await
                    };
                    (place, timeout_at(deadline, asked).await)
                };
                asked.spawn_on(ask, &self.inner.runtime);
            }
            holders.push(Asked { node: id, run, status, held });
        }
        while let Some(answer) = asked.join_next().await {
            if let Ok((place, Ok(held))) = answer {
                holders[place].held = held;
            }
        }
        holders.sort_by(|one, other| one.node.cmp(&other.node));
        holders
    }

    pub(super) async fn ask_holder(
        &self,
        to: NodeId,
        request: &KeyRequest,
        timeout: Duration,
    ) -> Result<HeldKeys, Unheld> {
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
pub(super) struct Asked {
    pub(super) node: NodeId,
    pub(super) run: Run,
    pub(super) status: Status,
    pub(super) held: Result<HeldKeys, Unheld>,
}

/// The reason why the keys of a member are not known, or were not changed there.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unheld {
    #[error("refused: keys are being changed from {0}: try again in some seconds")]
    Busy(NodeId),
    #[error("{0}")]
    Why(String),
}

fn ids(raw: &[[u8; KeyId::BYTES]]) -> Vec<KeyId> {
    raw.iter().map(|id| KeyId(*id)).collect()
}
