//! Rotation: the two steps that could lock members out, `use` and `remove`, made by all members or by none.
//!
//! A step is decided on what everybody answers (the first look), made by the other members, and by this node at last: until
//! then it hears, and is heard by, whoever comes meanwhile. Before its own step it looks once more, and after it again if
//! somebody has come since; a member that would be locked out then has everybody go back. So whoever is a member when this
//! node has made its step is not locked out by it. Who comes later comes to a cluster that has changed its keys.
//!
//! A member that has answered need not answer again: what it holds is on its disk, and nobody changes that in this node's turn.
//! One of its name that was started anew, perhaps with another file, is somebody else.
//!
//! Must not know: bytes, files.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use super::asking::{Asked, Unheld};
use super::word::KeyRequest;
use super::{ANSWER_TIMEOUT, HeldKeys, KeyHolder, KeysError};
use crate::agent::Agent;
use crate::core::{LeaveReason, NodeId, Run, Status};
use crate::member::Member;
use crate::seal::KeyId;

/// The time in which members answer when they are asked once more before and after the last step.
const LAST_ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// The time for which a member that left is expected back, as in a restart: its key file is not known.
pub(super) const EXPECTED_BACK: Duration = Duration::from_secs(600);

/// Members that have answered, and would not be locked out.
type Known = BTreeSet<(NodeId, Run)>;

/// A step of a rotation that could lock members out.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// To seal with a key.
    Use(KeyId),
    /// To accept a key no more.
    Remove(KeyId),
}

impl Step {
    fn request(self) -> KeyRequest {
        match self {
            Step::Use(id) => KeyRequest::Use(id.0),
            Step::Remove(id) => KeyRequest::Remove(id.0),
        }
    }

    /// Returns the refusal of the step, since it would lock these members out.
    fn refused(self, members: Vec<(NodeId, String)>) -> KeysError {
        match self {
            Step::Use(id) => KeysError::LockedOut { id, members },
            Step::Remove(id) => KeysError::StillUsed { id, members },
        }
    }

    /// Returns what speaks against the step where these keys are held.
    fn objection(self, held: &HeldKeys) -> Option<&'static str> {
        match self {
            Step::Use(id) => (!held.keys.contains(&id)).then_some("lacks it"),
            Step::Remove(id) => (held.keys.first() == Some(&id)).then_some("seals with it"),
        }
    }
}

impl Agent {
    /// Has everybody take a step, or nobody. What was begun is ended, also if nobody waits for it any more.
    pub(super) async fn rotate(&self, step: Step, force: bool) -> Result<Vec<KeyHolder>, KeysError> {
        let changing = self.begin_change()?;
        let agent = self.clone();
        let change = self.inner.runtime.spawn(async move {
            let _changing = changing;
            let changed = agent.rotate_in_turn(step, force).await;
            agent.end_turn(force).await;
            changed
        });
        change.await.map_err(|_| KeysError::Stopped)?
    }

    async fn rotate_in_turn(&self, step: Step, force: bool) -> Result<Vec<KeyHolder>, KeysError> {
        self.try_change(&step.request()).await?;
        let known = if force { Known::new() } else { self.look(step, &Known::new(), ANSWER_TIMEOUT).await? };
        let back = self.way_back(step);
        let holders = self.ask_all(&step.request()).await;
        match self.follow(step, force, &known).await {
            Ok(()) => {
                let me = self.me().id;
                Ok(holders.into_iter().map(|holder| self.or_mine(holder, &me)).collect())
            }
            Err(error) => Err(self.go_back(back, error).await),
        }
    }

    /// Takes the step here, after all others.
    async fn follow(&self, step: Step, force: bool, known: &Known) -> Result<(), KeysError> {
        if force {
            return self.change(&step.request()).await.map(|_| ());
        }
        let known = self.look(step, known, LAST_ANSWER_TIMEOUT).await?;
        self.change(&step.request()).await?;
        let is_new = |member: &Member| member.is_live() && !known.contains(&(member.id.clone(), member.run));
        if self.members().iter().any(is_new) {
            self.look(step, &known, LAST_ANSWER_TIMEOUT).await.map_err(|error| came_too_late(step, error))?;
        }
        Ok(())
    }

    /// Returns the request that undoes a step; `None` if it would change nothing here.
    fn way_back(&self, step: Step) -> Option<KeyRequest> {
        match step {
            Step::Use(id) => {
                self.keys().keys.first().filter(|former| **former != id).map(|former| KeyRequest::Use(former.0))
            }
            Step::Remove(id) => self.inner.keeper.key(id).map(|key| KeyRequest::add(&key)),
        }
    }

    /// Has everybody undo a step that cannot be completed. Returns the reason, with those of whom it is not known that they did.
    async fn go_back(&self, back: Option<KeyRequest>, mut error: KeysError) -> KeysError {
        let Some(back) = back else { return error };
        // An error of this node's own is that of its next change, too; and the step was most likely not made here.
        let _ = self.change(&back).await;
        let holders = self.ask_all(&back).await;
        if let KeysError::LockedOut { members, .. } | KeysError::StillUsed { members, .. } = &mut error {
            for KeyHolder { node, held, .. } in holders {
                if let Err(why) = held
                    && members.iter().all(|(named, _)| *named != node)
                {
                    members.push((node, format!("was to go back to the keys of before, and {why}")));
                }
            }
        }
        error
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
    pub(super) async fn end_turn(&self, force: bool) {
        if !force {
            let _ = self.change(&KeyRequest::Turn(false)).await;
            self.ask_members(&KeyRequest::Turn(false), LAST_ANSWER_TIMEOUT).await;
        }
    }

    /// Takes the turn, and refuses if a step would lock somebody out: a member that objects, that cannot be asked, or
    /// that may come back, unless it is known. Returns who is known now.
    pub(super) async fn look(&self, step: Step, known: &Known, timeout: Duration) -> Result<Known, KeysError> {
        self.change(&KeyRequest::Turn(true)).await?;
        let gone = |member: &Member| !known.contains(&(member.id.clone(), member.run));
        let mut members: Vec<_> =
            self.members().iter().filter(|member| gone(member)).filter_map(may_come_back).collect();
        let mut known = known.clone();
        for Asked { node, run, held, .. } in self.ask_members(&KeyRequest::Turn(true), timeout).await {
            match held.map(|held| step.objection(&held)) {
                Ok(None) => _ = known.insert((node, run)),
                Ok(Some(why)) => members.push((node, why.to_owned())),
                Err(Unheld::Busy(by)) => return Err(KeysError::Busy { by }),
                Err(Unheld::Why(_)) if known.contains(&(node.clone(), run)) => {}
                Err(Unheld::Why(why)) => members.push((node, why)),
            }
        }
        if members.is_empty() { Ok(known) } else { Err(step.refused(members)) }
    }
}

/// Returns an error with other reasons: of those that come while this node takes its step it is merely unknown what they hold,
/// since they may not hear this node any more.
fn came_too_late(step: Step, error: KeysError) -> KeysError {
    let (KeysError::LockedOut { members, .. } | KeysError::StillUsed { members, .. }) = error else { return error };
    let why = match step {
        Step::Use(_) => "came meanwhile, and perhaps lacks it",
        Step::Remove(_) => "came meanwhile, and perhaps seals with it",
    };
    step.refused(members.into_iter().map(|(node, _)| (node, why.to_owned())).collect())
}

/// Returns a member that left a short while ago, and the reason why that speaks against a change of keys.
pub(super) fn may_come_back(member: &Member) -> Option<(NodeId, String)> {
    let gone = member.since.elapsed().unwrap_or_default();
    let is_expected = member.status == Status::Left(LeaveReason::Graceful) && gone < EXPECTED_BACK;
    is_expected.then(|| {
        let minutes = EXPECTED_BACK.as_secs() / 60;
        (member.id.clone(), format!("left less than {minutes} minutes ago, and may come back with the keys it had"))
    })
}
