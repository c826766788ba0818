//! The agent: one task that owns the core, and the handle that everybody else holds.
//!
//! ```text
//!   Agent (handle, clones) ──requests──▶ driver (owns the core) ──changes──▶ bus ──▶ subscriptions
//!        └────────── reads directory, figures, end; never asks for them ◀────────┘
//! ```
//!
//! Invariants: reading never waits for the driver; no public type exposes a lock; an agent whose last handle is dropped
//! stops, without leaving; however an agent ends, [`Agent::stopped`] says how, a panic of its task included.
//!
//! Must not know: the protocol (that is the core's), command lines, HTTP.

mod bus;
mod clock;
mod directory;
mod driver;
mod error;
mod leadership;
mod shared;
mod start;
mod subscription;
mod translate;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use self::driver::Request;
use self::shared::Shared;
use crate::config::{Config, check_host_port};
use crate::core::election::{ChangeError, Electorate};
use crate::core::limits::{CONTACT_TIMEOUT, MAX_SEEDS};
use crate::core::{CommandError, Counters, NodeId, Profile, Reply, Run, Settings, Status, Tags};
use crate::member::Member;
use crate::transport::resolve::Resolver;

pub use self::bus::{KEPT_EVENTS, Snapshot};
pub use self::error::{AgentError, Failure, LeaderAddress, StartError, Stop};
pub use self::leadership::{Leadership, LeaseInstant};
pub use self::subscription::{Filter, Lagged, RecvError, Subscription, UnknownKind};
pub use crate::core::LeadershipState;
pub use crate::store::{BadState, StoreError};

/// How long [`Agent::leave`] waits for the core, which has bounds of its own, before it stops without a goodbye.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// A running node. Cheap to clone; dropping the last handle stops the agent without leaving.
///
/// To its peers a dropped agent looks like a crashed one. [`Agent::leave`] is the explicit goodbye.
///
/// ```no_run
/// use headcount::agent::RecvError;
/// use headcount::{Agent, Config, EventKind};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let mut config = Config::new("a")?;
/// config.seeds = vec!["10.0.0.1:7117".to_owned()];
/// let agent = Agent::start(config).await?;
/// agent.wait_until_up().await?;
///
/// let (snapshot, mut events) = agent.subscribe_from_snapshot();
/// println!("{} members", snapshot.members.len());
/// loop {
///     match events.recv().await {
///         Ok(event) => match event.kind {
///             EventKind::NodeJoined { member } => println!("{} is here at {}", member.id, member.address),
///             EventKind::NodeLeft { member, .. } | EventKind::NodeDetectedDown { member, .. } => {
///                 println!("{} is gone", member.id);
///             }
///             _ => {}
///         },
///         Err(RecvError::Lagged { .. }) => println!("{} members", events.resync().members.len()),
///         Err(_) => break,
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Agent {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    /// The only senders are handles: the driver ends when they are gone.
    requests: mpsc::Sender<Request>,
    cancel: CancellationToken,
    resolver: Resolver,
    run: Run,
    gossip_address: SocketAddr,
    config: Config,
    /// This node at its start, for the moments in which it is in nobody's view, its own included.
    born: Member,
}

/// Figures about this node and its view.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Info {
    /// This node.
    pub me: Member,
    /// The cluster's name.
    pub cluster: NodeId,
    /// Where the figures of `settings` come from.
    pub profile: Profile,
    /// Pace and sizes.
    pub settings: Settings,
    /// Local count of changes of the view.
    pub changes: u64,
    /// Order-independent hash of the view.
    pub fingerprint: u64,
    /// Members by status, in the order of `Status::NAMES`.
    pub members: [usize; 6],
    /// Time since the start.
    pub uptime: Duration,
    /// The number of the newest event.
    pub last_event: u64,
    /// What was counted in the core.
    pub counters: Counters,
    /// Evidence against this node's own observation, 0 for none to 7; one more is the factor by which it stretches the
    /// timeouts by which it accuses others.
    pub health_score: u32,
    /// Members that others hear and this node does not, although it observes them.
    pub degraded_links: usize,
    /// Members of a suspected partition that are missing; 0 if none is suspected.
    pub unreachable: usize,
    /// Datagrams that the kernel dropped because the receive buffer was full.
    pub receive_buffer_overflows: u64,
    /// Datagrams that were not sent because the send buffer was full.
    pub send_buffer_full: u64,
    /// Datagrams longer than anything we speak.
    pub oversized_datagrams: u64,
    /// Socket errors survived.
    pub socket_errors: u64,
    /// TCP links to other nodes that stand.
    pub open_links: usize,
    /// Frames not sent because their link was congested.
    pub congested_frames: u64,
    /// TCP connections closed because too many others had not said anything yet.
    pub links_turned_away: u64,
    /// Errors survived while accepting TCP connections.
    pub link_accept_errors: u64,
    /// Writes of the state file that failed.
    pub state_write_failures: u64,
    /// Leaders elected, as this node saw it.
    pub leaders_elected: u64,
    /// Whether this node neither votes nor leads because its data directory does not take its ballot.
    pub voter_aside: bool,
}

/// What the voters agreed on: nobody ever sees other members under this number.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgreedView {
    /// In which term it was put to the voters, last.
    pub term: u64,
    /// Counts up by one.
    pub number: u64,
    /// Sorted: those that were Up, Suspect or Leaving by the leader's view.
    pub members: Arc<[NodeId]>,
}

/// What became of one address of [`Agent::join`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinResult {
    /// As asked.
    pub address: String,
    /// Who answered, or why nobody did.
    pub outcome: Result<NodeId, String>,
}

/// What [`Agent::remove`] achieved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// Peers known to hold the record.
    pub held_by: usize,
    /// Whether that is enough: three, or all live peers.
    pub confirmed: bool,
}

impl Agent {
    /// Binds, reads the durable state, starts the driver on the current tokio runtime.
    ///
    /// It returns as soon as the node listens and tries its seeds; [`Agent::wait_until_up`] waits for the cluster.
    ///
    /// ```
    /// use headcount::{Agent, Config, Profile};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut config = Config::new("a")?.with_profile(Profile::Local);
    /// config.bind = Some("127.0.0.1:0".parse()?);
    /// let agent = Agent::start(config).await?;
    /// println!("gossip on {}", agent.gossip_address());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn start(config: Config) -> Result<Agent, StartError> {
        let inner = start::start(config).await?;
        Ok(Agent { inner: Arc::new(inner) })
    }

    /// This node as others see it.
    pub fn me(&self) -> Member {
        let Inner { shared, born, .. } = &*self.inner;
        shared.directory().member(&born.id).unwrap_or_else(|| born.clone())
    }

    /// One member.
    pub fn member(&self, id: &NodeId) -> Option<Member> {
        self.inner.shared.directory().member(id)
    }

    /// All members, sorted by name, those that left included. Never asks the driver.
    pub fn members(&self) -> Vec<Member> {
        self.inner.shared.directory().members()
    }

    /// This process's run.
    pub fn run(&self) -> Run {
        self.inner.run
    }

    /// The address gossip is really received on.
    pub fn gossip_address(&self) -> SocketAddr {
        self.inner.gossip_address
    }

    /// What the agent was started with.
    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// Figures.
    pub fn info(&self) -> Info {
        let Inner { shared, config, .. } = &*self.inner;
        let figures = shared.figures();
        Info {
            me: self.me(),
            cluster: config.cluster.clone(),
            profile: config.profile,
            settings: config.settings.clone(),
            changes: figures.changes,
            fingerprint: figures.fingerprint,
            members: shared.directory().by_status(),
            uptime: shared.clock.elapsed(),
            last_event: shared.bus.last(),
            counters: figures.counters,
            health_score: figures.health_score,
            degraded_links: figures.degraded_links,
            unreachable: figures.unreachable,
            receive_buffer_overflows: shared.socket.overflows(),
            send_buffer_full: shared.socket.send_buffer_full(),
            oversized_datagrams: shared.socket.oversized(),
            socket_errors: shared.socket.errors(),
            open_links: figures.open_links,
            congested_frames: shared.links.dropped_frames(),
            links_turned_away: shared.links.turned_away(),
            link_accept_errors: shared.links.accept_errors(),
            state_write_failures: shared.write_failures(),
            leaders_elected: figures.leaders_elected,
            voter_aside: figures.voter_aside,
        }
    }

    /// Whether all tasks that should run do; the error names the first that died.
    pub fn health(&self) -> Result<(), Failure> {
        self.inner.shared.failure().map_or(Ok(()), Err)
    }

    /// Every event from now on.
    ///
    /// A subscriber that falls more than [`KEPT_EVENTS`] behind is told how many it missed; it never slows the agent.
    ///
    /// ```
    /// # use headcount::{Agent, Config, Profile};
    /// use headcount::agent::Filter;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let mut config = Config::new("a")?.with_profile(Profile::Local);
    /// # config.bind = Some("127.0.0.1:0".parse()?);
    /// # let agent = Agent::start(config).await?;
    /// let gone = Filter::all().kinds(["node_left", "node_detected_down"])?;
    /// let mut events = agent.subscribe().filtered(gone);
    /// assert_eq!(events.try_recv()?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn subscribe(&self) -> Subscription {
        self.inner.shared.bus.subscribe()
    }

    /// The members as they are, and every later event: no gap, no overlap.
    pub fn subscribe_from_snapshot(&self) -> (Snapshot, Subscription) {
        self.inner.shared.bus.subscribe_from_snapshot()
    }

    /// Every event after the one of this number, the last [`KEPT_EVENTS`] replayed if need be.
    pub fn subscribe_after(&self, sequence: u64) -> Result<Subscription, Lagged> {
        self.inner.shared.bus.subscribe_after(sequence)
    }

    /// Waits until this node is Up: it holds the whole view, and others list it. The error says why it never will be.
    pub async fn wait_until_up(&self) -> Result<(), Stop> {
        let mut status = self.inner.shared.status();
        tokio::select! {
            // What has stopped is Up no more, whatever its last words were. Both senders live as long as this handle.
            biased;
            stop = self.stopped() => Err(stop),
            _ = status.wait_for(|status| *status == Status::Up) => Ok(()),
        }
    }

    /// Contacts addresses (`host:port`, at most 64) once and merges with whoever answers; waits at most 5 s.
    pub async fn join(&self, addresses: Vec<String>) -> Result<Vec<JoinResult>, AgentError> {
        if addresses.len() > MAX_SEEDS {
            return Err(AgentError::TooManyAddresses { asked: addresses.len() });
        }
        // The core's own patience is as long; a moment more lets it say who did answer.
        let deadline = Instant::now() + CONTACT_TIMEOUT + Duration::from_millis(250);
        // One command for each, so that a slow name server does not use up the time of the others.
        let mut contacts = JoinSet::new();
        for (place, address) in addresses.iter().enumerate() {
            let (resolver, requests) = (self.inner.resolver.clone(), self.inner.requests.clone());
            let address = address.clone();
            contacts.spawn(async move {
                let contact = timeout_at(deadline, contact(&resolver, &requests, &address)).await;
                (place, contact.unwrap_or_else(|_| Ok(Err(nobody_answered()))))
            });
        }
        let mut results: Vec<_> = addresses
            .into_iter()
            .map(|address| JoinResult { address, outcome: Err("the attempt ended unexpectedly".to_owned()) })
            .collect();
        while let Some(contact) = contacts.join_next().await {
            if let Ok((place, outcome)) = contact {
                results[place].outcome = outcome?;
            }
        }
        Ok(results)
    }

    /// Says goodbye, waits until a few peers know, stops. Tells how the agent ended, also if that was something else.
    pub async fn leave(&self) -> Stop {
        // Without a driver there is nothing to ask for, and its end is known already.
        let _ = self.inner.requests.send(Request::Leave).await;
        if let Ok(stop) = timeout(LEAVE_TIMEOUT, self.stopped()).await {
            return stop;
        }
        self.shutdown();
        self.stopped().await
    }

    /// Takes a member out of the listing: one that is Down, or any with `force`.
    pub async fn remove(&self, id: &NodeId, force: bool) -> Result<Removed, AgentError> {
        match self.ask(|answer| Request::Remove { id: id.clone(), force, answer }).await? {
            Reply::Removed { held_by, confirmed } => Ok(Removed { held_by, confirmed }),
            Reply::Refused(error) => Err(error.into()),
            _ => Err(AgentError::Stopped),
        }
    }

    /// Replaces all tags of this node.
    pub async fn set_tags(&self, tags: Tags) -> Result<(), AgentError> {
        match self.ask(|answer| Request::SetTags { tags, answer }).await? {
            Reply::TagsSet => Ok(()),
            Reply::Refused(error) => Err(error.into()),
            _ => Err(AgentError::Stopped),
        }
    }

    /// Who leads, now and whenever it changes or is renewed.
    ///
    /// What it shows was true when it was published: see [`Leadership::now`], [`Leadership::is_leader_now`].
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.inner.shared.office.subscribe()
    }

    /// Whether this node leads at this instant, by the lease's own clock. The term, which guards what is written
    /// elsewhere against a pause right after this, is in [`Agent::leadership`].
    pub fn is_leader_now(&self) -> bool {
        self.leadership().borrow().is_leader_now()
    }

    /// Runs work only while this node leads: `work` is called with the term, anew in each term that this node leads.
    ///
    /// Its future is dropped, at an await, before the claim runs out, and when leadership is handed over; the hand-over
    /// waits until it is really gone. So it must not block its thread, and what it does elsewhere should carry the term,
    /// by which a late write of a former leader is told apart. What it spawned it has to take along: a
    /// [`JoinSet`] that it owns is aborted with it.
    ///
    /// Several may run at the same time. Returns what the future returned, if one ends by itself (that says nothing about
    /// who leads then); the error says how the agent stopped before that. Where leaders are not elected it waits for ever.
    ///
    /// ```no_run
    /// # async fn run(agent: headcount::Agent) -> Result<(), headcount::agent::Stop> {
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
    pub async fn while_leader<F, Fut>(&self, work: F) -> Result<Fut::Output, Stop>
    where
        F: FnMut(u64) -> Fut,
        Fut: Future,
    {
        tokio::select! {
            biased;
            value = self.inner.shared.office.while_leader(work) => Ok(value),
            stop = self.stopped() => Err(stop),
        }
    }

    /// The voters, as far as this node knows; `None` where there are none yet.
    pub fn electorate(&self) -> Option<Arc<Electorate>> {
        self.inner.shared.figures().electorate
    }

    /// The newest view that is known to be agreed.
    pub fn agreed_view(&self) -> Option<AgreedView> {
        let view = self.inner.shared.figures().agreed?;
        Some(AgreedView { term: view.term.0, number: view.number, members: view.members })
    }

    /// Adds a voter to the electorate. The leader does; any other node asks it to, and is refused if nobody leads.
    ///
    /// The new voter must be up, in quorum mode. Returns the electorate as it is then.
    pub async fn add_voter(&self, id: NodeId) -> Result<Electorate, AgentError> {
        self.ask_electorate(|answer| Request::AddVoter { id, answer }).await
    }

    /// Removes a voter from the electorate, the leader itself included. The leader does; any other node asks it to, and is
    /// refused if nobody leads.
    pub async fn remove_voter(&self, id: NodeId) -> Result<Electorate, AgentError> {
        self.ask_electorate(|answer| Request::RemoveVoter { id, answer }).await
    }

    /// Begins a new generation of the electorate with this node and these voters, because the majority of the old one is
    /// lost for good.
    ///
    /// It is refused while a majority of the old electorate answers. Voters of the old one that were only cut off, and
    /// come back later, count no more: be sure that they are gone, or stop them first.
    pub async fn recover(&self, voters: Vec<NodeId>) -> Result<Electorate, AgentError> {
        tracing::warn!(?voters, "an operator asks for a new generation of the electorate");
        self.ask_electorate(|answer| Request::Recover { voters, answer }).await
    }

    async fn ask_electorate(
        &self,
        request: impl FnOnce(oneshot::Sender<Reply>) -> Request,
    ) -> Result<Electorate, AgentError> {
        match self.ask(request).await? {
            Reply::Electorate(electorate) => Ok(electorate),
            Reply::Refused(CommandError::Electorate(ChangeError::NotLeader)) => {
                let leader = self.leadership().borrow().clone().now().leader;
                Err(AgentError::NotLeader { leader: leader.map(|id| self.address_of(id)) })
            }
            Reply::Refused(error) => Err(error.into()),
            _ => Err(AgentError::Stopped),
        }
    }

    fn address_of(&self, id: NodeId) -> LeaderAddress {
        let member = self.member(&id);
        let address = member.as_ref().map(|member| member.address);
        LeaderAddress { id, address, api_address: member.and_then(|member| member.api_address) }
    }

    /// Stops without leaving; peers will find out as if this process had crashed. [`Agent::stopped`] tells when it is
    /// done.
    pub fn shutdown(&self) {
        self.inner.cancel.cancel();
    }

    /// Waits for the end of the agent: its socket closed, its data directory free.
    pub async fn stopped(&self) -> Stop {
        let mut stop = self.inner.shared.stop();
        match stop.wait_for(Option::is_some).await {
            Ok(stop) => stop.clone().unwrap_or(Stop::Cancelled),
            // Not while this handle lives.
            Err(_) => Stop::Dropped,
        }
    }

    /// How the agent ended, if it has.
    pub fn stop(&self) -> Option<Stop> {
        self.inner.shared.stop().borrow().clone()
    }

    async fn ask(&self, request: impl FnOnce(oneshot::Sender<Reply>) -> Request) -> Result<Reply, AgentError> {
        ask(&self.inner.requests, request).await
    }
}

/// Asks the driver and waits for its answer.
async fn ask(
    requests: &mpsc::Sender<Request>,
    request: impl FnOnce(oneshot::Sender<Reply>) -> Request,
) -> Result<Reply, AgentError> {
    let (answer, answered) = oneshot::channel();
    requests.send(request(answer)).await.map_err(|_| AgentError::Stopped)?;
    answered.await.map_err(|_| AgentError::Stopped)
}

/// Contacts everybody behind one `host:port`: the only error is that the agent has stopped, the outcome is the first who answered, or a sentence why nobody did.
async fn contact(
    resolver: &Resolver,
    requests: &mpsc::Sender<Request>,
    address: &str,
) -> Result<Result<NodeId, String>, AgentError> {
    if let Err(fault) = check_host_port(address) {
        return Ok(Err(fault.to_string()));
    }
    let addresses = match resolver.resolve(address).await {
        Ok(addresses) => addresses,
        Err(error) => return Ok(Err(error.to_string())),
    };
    match ask(requests, |answer| Request::Join { addresses, answer }).await? {
        Reply::Joined(answers) => Ok(answers.into_iter().find_map(|(_, who)| who).ok_or_else(nobody_answered)),
        Reply::Refused(error) => Ok(Err(error.to_string())),
        _ => Err(AgentError::Stopped),
    }
}

fn nobody_answered() -> String {
    format!("nobody answered within {} s: check address, firewall, cluster name", CONTACT_TIMEOUT.as_secs())
}
