//! Draining: a node that stays a member, and leads nothing.
//!
//! Invariant: a call that has begun is finished, also if nobody waits for it any more: a node drains for everything that
//! it may lead, or for nothing.
//!
//! Must not know: how voters elect, how leases are given up.

use std::sync::Arc;
use std::time::Duration;

use super::Agent;
use super::error::AgentError;
use super::request::Request;
use crate::core::Reply;

/// The longest pause after which a node that drains looks again who may lead.
const LONGEST_SECOND_LOOK: Duration = Duration::from_secs(1);

/// The outcome of [`Agent::drain`] and [`Agent::undrain`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// The number of voters that may lead: those that are there, have their disks and do not drain. `None` where no voters
    /// elect leaders. With 0 nobody leads until one of them is undrained. A drain looks twice, a gossip interval (at most a
    /// second) apart, so that it counts those that drained just before.
    pub may_lead: Option<usize>,
}

impl Agent {
    /// Says to everybody that this node is to get no new work, and has it lead nothing: what it leads is handed over,
    /// as when it leaves.
    ///
    /// It stays Up, observes and is observed, and votes. Members see it as [`draining`](crate::Member::draining), by a
    /// [`NodeUpdated`](crate::EventKind::NodeUpdated) event. It lasts until [`Agent::undrain`] or the end of the
    /// process: a node that was restarted does not drain. Where all voters drain, nobody leads.
    ///
    /// A call that has begun is finished also if the future is dropped meanwhile.
    pub async fn drain(&self) -> Result<Drained, AgentError> {
        self.set_draining(true).await
    }

    /// Takes [`Agent::drain`] back.
    pub async fn undrain(&self) -> Result<Drained, AgentError> {
        self.set_draining(false).await
    }

    async fn set_draining(&self, is_draining: bool) -> Result<Drained, AgentError> {
        // Of two calls the first one finishes first.
        let turn = Arc::clone(&self.inner.draining).lock_owned().await;
        let agent = self.clone();
        let carried_out = self.inner.runtime.spawn(async move {
            let _turn = turn;
            agent.carry_out_draining(is_draining).await
        });
        carried_out.await.unwrap_or(Err(AgentError::Stopped))
    }

    async fn carry_out_draining(&self, is_draining: bool) -> Result<Drained, AgentError> {
        let mut may_lead = self.ask_to_drain(is_draining).await?;
        #[cfg(any(feature = "sqlite", feature = "postgres"))]
        if let Some(leases) = self.leases() {
            leases.set_draining(is_draining).await;
        }
        if is_draining && may_lead.is_some_and(|voters| voters > 0) {
            // Voters may have drained just before, whose word is on its way. Asked again it says who may lead, and does no more.
            tokio::time::sleep(self.config().settings.gossip_interval.min(LONGEST_SECOND_LOOK)).await;
            may_lead = self.ask_to_drain(is_draining).await.unwrap_or(may_lead);
        }
        Ok(Drained { may_lead })
    }

    /// Has the core say that this node drains, or that it does not; returns the number of voters that may lead.
    async fn ask_to_drain(&self, is_draining: bool) -> Result<Option<usize>, AgentError> {
        match self.ask(|answer| Request::Drain { is_draining, answer }).await? {
            Reply::Draining { may_lead } => Ok(may_lead),
            Reply::Refused(error) => Err(error.into()),
            _ => Err(AgentError::Stopped),
        }
    }
}
