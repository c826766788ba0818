//! Leaders and voters, as programs ask the handle about them, and the commands to them.
//!
//! Must not know: how a leader is elected, and where leases are kept.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::oneshot;
use tracing::Level;

use super::Agent;
use super::error::{AgentError, ConfirmError, LeadError, LeaderAddress};
use super::leadership::{Confirmed, LeadershipPublisher, LeadershipWatch, LeaseInstant};
use super::request::Request;
use crate::config::LeadershipMode;
use crate::core::election::{ChangeError, Electorate, EndedElectorate, Lineage, Unconfirmed, VoterStandings};
use crate::core::{CommandError, NodeId, OtherElectorate, Reply, Time};

/// The members that the voters agreed on: nobody ever sees other members under this number.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgreedView {
    /// The term in which it was put to the voters, last.
    pub term: u64,
    /// Counts up by one.
    pub number: u64,
    /// Sorted: those that were Up, Suspect or Leaving by the leader's view.
    pub members: Arc<[NodeId]>,
}

impl Agent {
    /// Watches who leads, now and whenever it changes or is renewed.
    ///
    /// The answer was true when it was looked at: see [`Leadership::is_leader_now`](super::Leadership::is_leader_now).
    pub fn leadership(&self) -> LeadershipWatch {
        self.inner.shared.publisher.watch()
    }

    /// Returns true if this node leads at this instant, by the lease's own clock. The term, which guards what is written
    /// elsewhere against a pause right after this, is in [`Agent::leadership`].
    pub fn is_leader_now(&self) -> bool {
        self.leadership().get().is_leader_now()
    }

    /// Runs work only while this node leads: `work` is called with the term, anew in each term that this node leads.
    ///
    /// Its future is dropped, at an await, before the claim runs out, and when leadership is handed over; the hand-over
    /// waits until it is really gone. So it must not block its thread, and what it does elsewhere should carry the term,
    /// by which a late write of a former leader is told apart. What it spawned it has to take along: a
    /// [`JoinSet`](tokio::task::JoinSet) that it owns is aborted with it.
    ///
    /// Several may run at the same time. Returns what the future returned, if one ends by itself (that says nothing about
    /// who leads then); the error says how the agent stopped before that, or that leaders are not elected here.
    ///
    /// ```no_run
    /// # async fn run(agent: headcount::Agent) -> Result<(), headcount::agent::LeadError> {
    /// # async fn assign_shards(_fencing_token: u64) {}
    /// agent
    ///     .while_leader(|term| async move {
    ///         loop {
    ///             assign_shards(term).await;
    ///             tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    ///         }
    ///     })
    ///     .await
    /// # }
    /// ```
    pub async fn while_leader<F, Fut>(&self, work: F) -> Result<Fut::Output, LeadError>
    where
        F: FnMut(u64) -> Fut,
        Fut: Future,
    {
        if self.inner.config.leadership.mode == LeadershipMode::None {
            return Err(LeadError::Disabled);
        }
        self.lead_by(&self.inner.shared.publisher, work).await
    }

    /// Runs work only while this node leads by what this publisher says, until it ends or the agent stops.
    pub(crate) async fn lead_by<F, Fut>(
        &self,
        publisher: &Arc<LeadershipPublisher>,
        work: F,
    ) -> Result<Fut::Output, LeadError>
    where
        F: FnMut(u64) -> Fut,
        Fut: Future,
    {
        tokio::select! {
            biased;
            value = publisher.while_leader(&self.inner.runtime, work) => Ok(value),
            stop = self.stopped() => Err(stop.into()),
        }
    }

    /// Proves that this node leads, now: by a round with the voters that begins after the call, or by a renewal of the lease.
    ///
    /// [`Agent::is_leader_now`] costs nothing and says that nobody else leads yet; this one also says that a majority of the
    /// voters was reached after the question, so that no later leader can have decided anything before it (a read barrier).
    /// Whoever answers others from what it holds as the leader, asks this first. It takes one round trip to the voters (two,
    /// if another call waits already: all that come meanwhile share the next round), and five seconds at most.
    ///
    /// ```no_run
    /// # async fn read(agent: headcount::Agent) -> Result<(), headcount::agent::ConfirmError> {
    /// let confirmed = agent.confirm_leadership().await?;
    /// println!("leads in term {} for another {:?}", confirmed.term, confirmed.valid_until.remaining());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn confirm_leadership(&self) -> Result<Confirmed, ConfirmError> {
        #[cfg(any(feature = "sqlite", feature = "postgres"))]
        if self.leases().is_some() {
            return self.confirm_lease(&crate::lease::LeaseName::default()).await;
        }
        let asked = self.ask(|answer| Request::ConfirmLeadership { answer }).await;
        match asked.map_err(|_| ConfirmError::Stopped)? {
            Reply::Confirmed { term, until } => {
                let valid_until = LeaseInstant::new(self.inner.shared.clock, until);
                // The answer may have waited for whoever asked.
                if valid_until.is_past() {
                    Err(ConfirmError::Lost)
                } else {
                    Ok(Confirmed { term: term.0, valid_until })
                }
            }
            Reply::Refused(CommandError::Unconfirmed(why)) => Err(match why {
                Unconfirmed::Lost => ConfirmError::Lost,
                Unconfirmed::TimedOut => ConfirmError::TimedOut,
                Unconfirmed::Busy => ConfirmError::Busy,
                _ => {
                    let leader = self.leadership().get().leader;
                    ConfirmError::NotLeader { leader: leader.map(|id| self.address_of(id)) }
                }
            }),
            Reply::Refused(CommandError::NoQuorumMode) => Err(ConfirmError::Disabled),
            Reply::Refused(_) => Err(ConfirmError::Busy),
            _ => Err(ConfirmError::Stopped),
        }
    }

    /// Has the leader give leadership up and stay a member: this node or another one, which is asked to.
    ///
    /// With `to`, leadership goes to that voter; it must have acknowledged the leader lately and hold the newest view, else
    /// it is an error and nothing changes. Returns as soon as the leader's claim is over. Its led work is ended then, and the
    /// successor leads when that is gone, or when the lease has run out.
    ///
    /// In lease mode it takes no `to`: a lease goes to whoever takes it first, and for a lease long not to the one that gave
    /// it up, if others want it.
    pub async fn resign(&self, to: Option<NodeId>) -> Result<(), AgentError> {
        #[cfg(any(feature = "sqlite", feature = "postgres"))]
        if self.leases().is_some() {
            let lease = crate::lease::LeaseName::default();
            return if to.is_some() { Err(AgentError::NoSuccessor) } else { self.resign_lease(&lease).await };
        }
        match self.ask(|answer| Request::Resign { to, answer }).await? {
            Reply::Electorate(_) => Ok(()),
            Reply::Refused(CommandError::Electorate(ChangeError::NotLeader)) => Err(AgentError::NobodyLeads),
            Reply::Refused(error) => Err(error.into()),
            _ => Err(AgentError::Stopped),
        }
    }

    /// Returns the voters, as far as this node knows; `None` where there are none yet.
    pub fn electorate(&self) -> Option<Arc<Electorate>> {
        self.inner.shared.figures().electorate
    }

    /// Returns the standings of the voters, as far as this node knows (the leader hears from all of them), and the time by which that is
    /// judged; `None` where there are none yet.
    pub fn standings(&self) -> (Option<Arc<VoterStandings>>, Time) {
        (self.inner.shared.figures().standings, self.inner.shared.clock.now())
    }

    /// Returns the lineage of the electorate that this node is sure of: it may know of one before it knows its voters.
    #[cfg_attr(not(feature = "agent"), allow(dead_code, reason = "the interfaces of the agent show it"))]
    pub(crate) fn lineage(&self) -> Option<Lineage> {
        self.inner.shared.figures().lineage
    }

    /// Returns another electorate in this cluster that members have reported within ten seconds, if any have: two may lead
    /// until one of them ends.
    #[cfg_attr(not(feature = "agent"), allow(dead_code, reason = "the interfaces of the agent show it"))]
    pub(crate) fn other_electorate(&self) -> Option<Arc<OtherElectorate>> {
        self.inner.shared.figures().other_electorate
    }

    /// Returns the electorate in which this node voted until that ended for another one, as its data directory keeps it.
    #[cfg_attr(not(feature = "agent"), allow(dead_code, reason = "the interfaces of the agent show it"))]
    pub(crate) fn ended_electorate(&self) -> Option<Arc<EndedElectorate>> {
        self.inner.shared.figures().ended
    }

    /// Returns the newest view that is known to be agreed.
    pub fn agreed_view(&self) -> Option<AgreedView> {
        let view = self.inner.shared.figures().agreed?;
        Some(AgreedView { term: view.term.0, number: view.number, members: view.members })
    }

    /// Adds a voter to the electorate. The leader does; any other node asks it to. Where nobody leads, the next leader is
    /// waited for: for a third of a lease from when the last one's claim is over, and for nine seconds at most. Then, or
    /// at once if too few voters are there to elect one, it is refused.
    ///
    /// The new voter must be up, in quorum mode. Returns the electorate as it is then.
    pub async fn add_voter(&self, id: NodeId) -> Result<Electorate, AgentError> {
        self.ask_electorate(|answer| Request::AddVoter { id, answer }).await
    }

    /// Removes a voter from the electorate, the leader itself included. The leader does; any other node asks it to, and
    /// waits for one as [`Agent::add_voter`] does.
    pub async fn remove_voter(&self, id: NodeId) -> Result<Electorate, AgentError> {
        self.ask_electorate(|answer| Request::RemoveVoter { id, answer }).await
    }

    /// Puts a voter in the place of another: it is added once it has caught up, and then the other one is removed. The leader
    /// does; any other node asks it to. If that ends half-way, the error says so, and the same call does what is left.
    pub async fn replace_voter(&self, old: NodeId, new: NodeId) -> Result<Electorate, AgentError> {
        self.ask_electorate(|answer| Request::ReplaceVoter { old, new, answer }).await
    }

    /// Begins a new generation of the electorate with this node and these voters, because the majority of the old one is
    /// lost for good.
    ///
    /// It is refused while a majority of the old electorate answers. Voters of the old one that were only cut off, and
    /// come back later, count no more: be sure that they are gone, or stop them first.
    pub async fn recover(&self, voters: Vec<NodeId>) -> Result<Electorate, AgentError> {
        let electorate = self.ask_electorate(|answer| Request::Recover { voters, answer }).await?;
        self.say_generation(&electorate);
        Ok(electorate)
    }

    /// Does the same as [`Agent::recover`] where no voter is left that has its data: also on a node that has no vote, as long as
    /// it knows of the electorate that was. Its terms are above all that were led before.
    ///
    /// It is refused while any member hears a leader, if one of the voters that were is found to have its data, and where
    /// no electorate is known of: the first one forms by itself.
    pub async fn found_anew(&self, voters: Vec<NodeId>) -> Result<Electorate, AgentError> {
        let electorate = self.ask_electorate(|answer| Request::FoundAnew { voters, answer }).await?;
        self.say_generation(&electorate);
        Ok(electorate)
    }

    fn say_generation(&self, electorate: &Electorate) {
        let voters: Vec<&str> = electorate.voters.iter().map(|voter| voter.id.as_str()).collect();
        let text = format!("an operator began a new generation of the electorate: {}", voters.join(", "));
        self.inner.shared.journal.say(Level::WARN, text);
    }

    async fn ask_electorate(
        &self,
        request: impl FnOnce(oneshot::Sender<Reply>) -> Request,
    ) -> Result<Electorate, AgentError> {
        match self.ask(request).await? {
            Reply::Electorate(electorate) => Ok(electorate),
            Reply::Refused(CommandError::Electorate(ChangeError::NotLeader)) => {
                let leader = self.leadership().get().leader;
                Err(AgentError::NotLeader { leader: leader.map(|id| self.address_of(id)) })
            }
            Reply::Refused(error) => Err(error.into()),
            _ => Err(AgentError::Stopped),
        }
    }

    /// Returns a member's name and addresses, as far as this node knows them.
    pub(crate) fn address_of(&self, id: NodeId) -> LeaderAddress {
        let member = self.member(&id);
        let address = member.as_ref().map(|member| member.address);
        LeaderAddress { id, address, api_address: member.and_then(|member| member.api_address) }
    }
}
