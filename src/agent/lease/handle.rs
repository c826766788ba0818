//! [`Lease`]: one lease, as programs hold it.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rand::TryRng;
use rand::rngs::SysRng;
use tokio::sync::{broadcast, oneshot};

use crate::agent::Agent;
use crate::agent::error::{AgentError, ConfirmError, LeadError};
use crate::agent::leadership::{Confirmed, LeadershipPublisher, LeadershipWatch, LeaseInstant};
use crate::agent::lease_state::{Ask, Hold, LeaseNodes, LeaseNodesError, Leases, Unproven};
use crate::agent::request::Request;
use crate::agent::timers::timers;
use crate::core::wire::LeaseUpdate;
use crate::core::{InvalidName, NodeId};
use crate::lease::{LeaseName, TooManyLeases};

/// The time that a leader elsewhere may take to give a lease up that it is asked to.
const RESIGN_PATIENCE: Duration = Duration::from_secs(5);

/// The reason why there is no such lease here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// No database is asked.
    #[error(
        "leases are not led by here: set leadership.mode = \"lease\" and leadership.lease.url (Config::with_lease)"
    )]
    NotLeaseMode,
    /// A name outside of the alphabet.
    #[error("no valid name of a lease: {0}")]
    Name(InvalidName),
    /// More leases than one agent contends for.
    #[error(transparent)]
    TooMany(#[from] TooManyLeases),
}

/// One lease that this agent contends for. Cheap to clone.
///
/// A lease that the configuration names is contended for until the agent ends. Any other one is until its last handle is
/// dropped: then its led work ends, it is released for others to take at once, and nothing more is asked about it. Watches of
/// its leadership keep no lease, and end with it; [`Lease::while_leader`] keeps it.
///
/// ```no_run
/// # async fn run(agent: headcount::Agent) -> Result<(), Box<dyn std::error::Error>> {
/// # async fn send_bills(_fencing_token: u64) {}
/// let billing = agent.lease("billing")?;
/// billing.while_leader(|term| send_bills(term)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Lease {
    agent: Agent,
    name: LeaseName,
    publisher: Arc<LeadershipPublisher>,
    _hold: Arc<Hold>,
}

impl Lease {
    /// Returns its name.
    pub fn name(&self) -> &LeaseName {
        &self.name
    }

    /// Watches who leads by it, now and whenever that changes or is renewed: as [`Agent::leadership`] is for the cluster.
    pub fn leadership(&self) -> LeadershipWatch {
        self.publisher.watch()
    }

    /// Returns true if this node leads by it at this instant, by the lease's own clock.
    pub fn is_leader_now(&self) -> bool {
        self.leadership().get().is_leader_now()
    }

    /// Runs work only while this node leads by this lease: see [`Agent::while_leader`].
    pub async fn while_leader<F, Fut>(&self, work: F) -> Result<Fut::Output, LeadError>
    where
        F: FnMut(u64) -> Fut,
        Fut: Future,
    {
        self.agent.lead_by(&self.publisher, work).await
    }

    /// Proves that this node leads by it, now: by a renewal that begins after the call. See
    /// [`Agent::confirm_leadership`].
    pub async fn confirm_leadership(&self) -> Result<Confirmed, ConfirmError> {
        self.agent.confirm_lease(&self.name).await
    }

    /// Has its leader give it up, this node or another: then it is asked to. For a lease long that one leaves it to others.
    pub async fn resign(&self) -> Result<(), AgentError> {
        self.agent.resign_lease(&self.name).await
    }

    /// Returns the nodes that the table of the database knows, its holder first.
    pub async fn nodes(&self) -> Result<LeaseNodes, LeaseNodesError> {
        self.agent.lease_nodes(&self.name).await
    }

    #[cfg(feature = "agent")]
    pub(crate) fn publisher(&self) -> &Arc<LeadershipPublisher> {
        &self.publisher
    }
}

impl Agent {
    /// Returns a lease to contend for, beside those of the configuration, with a leader of its own, until its last handle is
    /// dropped. The lease `default` is the one by which the cluster is led.
    pub fn lease(&self, name: &str) -> Result<Lease, LeaseError> {
        let leases = self.leases().ok_or(LeaseError::NotLeaseMode)?;
        let name = LeaseName::new(name).map_err(LeaseError::Name)?;
        self.hold(leases, name).map_err(LeaseError::TooMany)
    }

    /// Returns the names of the leases that this node contends for; `None` where no lease leads.
    pub fn leases_contended_for(&self) -> Option<BTreeSet<LeaseName>> {
        self.leases().map(|leases| leases.wanted())
    }

    /// Returns a lease that is contended for here already. It counts as a handle like any other.
    pub fn contended_lease(&self, name: &LeaseName) -> Option<Lease> {
        let leases = self.leases().filter(|leases| leases.publisher(name).is_some())?;
        self.hold(leases, name.clone()).ok()
    }

    fn hold(&self, leases: &Arc<Leases>, name: LeaseName) -> Result<Lease, TooManyLeases> {
        let (hold, publisher) = leases.hold(&self.inner.runtime, &name)?;
        Ok(Lease { agent: self.clone(), name, publisher, _hold: Arc::new(hold) })
    }

    pub(crate) fn leases(&self) -> Option<&Arc<Leases>> {
        self.inner.shared.leases()
    }

    /// Returns the nodes that the table of the database knows, the holder of this lease first; also nodes that gossip does not reach.
    pub async fn lease_nodes(&self, lease: &LeaseName) -> Result<LeaseNodes, LeaseNodesError> {
        self.leases().ok_or(LeaseNodesError::NotLeaseMode)?.nodes(lease.clone()).await
    }

    pub(crate) async fn confirm_lease(&self, lease: &LeaseName) -> Result<Confirmed, ConfirmError> {
        let leases = self.leases().ok_or(ConfirmError::Disabled)?;
        let (answer, answered) = oneshot::channel();
        leases.ask(Ask::Confirm(lease.clone(), answer)).await.map_err(|_| ConfirmError::Stopped)?;
        match answered.await.map_err(|_| ConfirmError::Stopped)? {
            Ok((term, until)) => {
                let valid_until = LeaseInstant::new(leases.clock(), until);
                // The answer may have waited for whoever asked.
                if valid_until.is_past() { Err(ConfirmError::Lost) } else { Ok(Confirmed { term, valid_until }) }
            }
            Err(Unproven::NotHolder) => {
                let leader = leases.publisher(lease).and_then(|publisher| publisher.watch().get().leader);
                Err(ConfirmError::NotLeader { leader: leader.map(|id| self.address_of(id)) })
            }
            Err(Unproven::Lost) => Err(ConfirmError::Lost),
            Err(Unproven::TimedOut) => Err(ConfirmError::TimedOut),
            Err(Unproven::Busy) => Err(ConfirmError::Busy),
        }
    }

    pub(crate) async fn resign_lease(&self, lease: &LeaseName) -> Result<(), AgentError> {
        let leases = self.leases().ok_or(AgentError::NobodyLeads)?;
        let publisher = leases.publisher(lease).ok_or(AgentError::NobodyLeads)?;
        let mut watch = publisher.watch();
        let now = watch.get();
        let Some(leader) = now.leader.clone() else { return Err(AgentError::NobodyLeads) };
        let (mut declined, nonce) = (leases.declined(), SysRng.try_next_u64().unwrap_or_default());
        if now.is_me {
            leases.ask(Ask::Resign(lease.clone())).await.map_err(|_| AgentError::Stopped)?;
        } else {
            let lease = NodeId::new(lease.as_str()).expect("a lease has a name of the same alphabet");
            let node = self.inner.config.name.clone();
            let word = LeaseUpdate { lease, node, term: now.term, kind: LeaseUpdate::RESIGN, nonce };
            self.inner.requests.send(Request::TellLease(word)).await.map_err(|_| AgentError::Stopped)?;
        }
        let (term, is_declined) = (now.term, async move {
            loop {
                match declined.recv().await {
                    Ok(number) if number == nonce => return,
                    Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
                    _ => {}
                }
            }
        });
        let given_up = timers(&self.inner.runtime).spawn(async move {
            let given_up = watch.wait_for(|seen| seen.term > term || seen.leader.is_none());
            tokio::select! {
                given_up = tokio::time::timeout(RESIGN_PATIENCE, given_up) => Some(given_up),
                () = is_declined => None,
            }
        });
        let given_up = given_up.await.map_err(|_| AgentError::Stopped)?;
        let Some(given_up) = given_up else { return Err(AgentError::NotBelieved { leader }) };
        match given_up {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(AgentError::Stopped),
            Err(_) => {
                let leader = now.leader.unwrap_or_else(|| self.inner.config.name.clone());
                let within = self.inner.config.leadership.timing.lease_duration;
                Err(AgentError::NotGivenUp { leader, within })
            }
        }
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use super::*;
    use crate::{Config, Profile};

    #[tokio::test]
    async fn who_has_a_lease_given_up_is_answered_when_it_is() {
        let directory = tempfile::tempdir().expect("a directory");
        let config = Config::new("a").expect("a name").with_profile(Profile::Local);
        let mut config = config.with_lease(&format!("sqlite://{}", directory.path().join("a.db").display()));
        // Nobody loses it because the machine is busy.
        config.leadership.timing.lease_duration = Duration::from_secs(60);
        config.leadership.timing.renewal_interval = Duration::from_secs(4);
        let agent = Agent::start(config.with_bind(([127, 0, 0, 1], 0).into())).await.expect("it starts");
        let lease = agent.lease("billing").expect("a lease");
        assert_eq!(lease.resign().await, Err(AgentError::NobodyLeads));
        let mut watch = lease.leadership();
        let led = watch.wait_for(|seen| seen.is_me);
        tokio::time::timeout(Duration::from_secs(30), led).await.expect("in time").expect("it lives");
        assert_eq!(lease.resign().await, Ok(()));
        assert!(!lease.leadership().get().is_me);
    }
}
