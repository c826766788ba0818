//! The agent: one task that owns the core, on a thread of its own, and the handle that everybody else holds.
//!
//! ```text
//!   Agent (handle, clones) ──requests──▶ driver (owns the core) ──changes──▶ bus ──▶ subscriptions
//!        │                                        └──lines──▶ journal ──▶ the user's tracing subscriber
//!        └────────── reads directory, figures, end; never asks for them ◀────────┘
//! ```
//!
//! Invariants:
//! - Reading never waits for the driver; no public type exposes a lock.
//! - Nothing that the user's tasks, threads or log subscribers do delays the driver: it has a thread and a tokio runtime of
//!   its own, and so has each of its journals a thread.
//! - An agent whose last handle is dropped stops, without leaving; one whose runtime is shut down fails.
//! - However an agent ends, [`Agent::stopped`] says how, a panic of its task included, and waits for no disk, name server
//!   or peer that does not answer.
//!
//! This page holds the handle.
//!
//! | idea | file |
//! |---|---|
//! | running a node: its thread, its birth, the task that owns the core, its clocks | `host`, `start`, `driver/`, `clock` |
//! | what handles ask of the driver; what it publishes for them | `request`, `shared` |
//! | events, as programs see them: numbered, kept, read | `translate`, `bus/`, `subscription` |
//! | members; the node's figures; its peers'; whether all hold one view; how all of it is | `directory`, `info`, `telemetry`, `agreement`, `verdict/` |
//! | joining on demand; the address that it advertises | `join`, `address` |
//! | leaders and voters: what programs see, ask and command; led work of others; draining | `leadership`, `leader`, `work`, `drain` |
//! | leaders by a lease in a database | `lease/`, `lease_state/` |
//! | messages between programs | `messages/` |
//! | keys | `keys/` |
//! | errors and ends; a driver that stands still; timers for handles | `error`, `watchdog`, `timers` |
//! | an agent without a core, for tests of programs | `testing` |
//!
//! Must not know: the protocol (that is the core's), command lines, HTTP.

mod address;
mod agreement;
mod bus;
mod clock;
mod directory;
mod drain;
mod driver;
mod error;
mod host;
mod info;
mod join;
mod keys;
mod leader;
mod leadership;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod lease;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod lease_state;
mod messages;
mod request;
mod shared;
mod start;
mod subscription;
mod telemetry;
#[cfg(any(test, feature = "test-util"))]
pub mod testing;
mod timers;
mod translate;
#[cfg(feature = "metrics")]
#[cfg_attr(not(feature = "agent"), allow(dead_code, reason = "the interfaces of the agent show it"))]
mod verdict;
#[cfg(feature = "agent")]
mod watchdog;
#[cfg(feature = "agent")]
mod work;

use std::net::SocketAddr;
use std::sync::Arc;
#[cfg(feature = "metrics")]
use std::sync::Weak;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use self::keys::Keeper;
use self::request::Request;
use self::shared::Shared;
use self::timers::timers;
use crate::config::Config;
use crate::core::{NodeId, Reply, Run, Status, Tags};
use crate::member::Member;
use crate::transport::resolve::Resolver;

pub use self::agreement::{Agreement, SameView};
pub use self::bus::{KEPT_EVENTS, KEPT_LIST_BYTES, Reader, Readers, Snapshot};
#[cfg(feature = "agent")]
pub(crate) use self::clock::Clock;
pub use self::drain::Drained;
pub use self::error::{AgentError, ConfirmError, Failure, LeadError, LeaderAddress, StartError, Stop};
#[cfg(feature = "agent")]
pub(crate) use self::host::Unwaited;
pub use self::info::Info;
pub use self::join::{JoinFailure, JoinResult, JoinStatus};
pub use self::keys::{HeldKeys, KeyHolder, KeysError, SealingInfo};
pub use self::leader::AgreedView;
pub use self::leadership::{Confirmed, Leadership, LeadershipWatch, LeaseInstant};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use self::lease::{Lease, LeaseError};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use self::lease_state::{LeaseFigures, LeaseNode, LeaseNodes, LeaseNodesError};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use self::messages::DirectFigures;
pub use self::messages::{
    Broadcasted, Inbox, MAX_ALL_WAITING_BYTES, MAX_SERVED, MAX_WAITING_BYTES, MAX_WAITING_MESSAGES, Message,
    MessageError, Messages, ReceiveError, Received, Serving,
};
pub use self::subscription::{Filter, Lagged, RecvError, Subscription, UnknownKind};
pub use self::telemetry::{Peer, Telemetry};
#[cfg(feature = "metrics")]
pub(crate) use self::verdict::State as VerdictState;
#[cfg(feature = "agent")]
pub(crate) use self::verdict::{Reason, Verdict};
#[cfg(feature = "agent")]
pub(crate) use self::watchdog::Watchdog;
#[cfg(feature = "agent")]
pub(crate) use self::work::{LedWork, Permit};
pub use crate::core::LeadershipState;
pub use crate::store::{BadState, StoreError};

/// The time that [`Agent::leave`] waits for the core, which has bounds of its own, before it stops without a goodbye.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// The time that [`Agent::leave`] waits until all led work has ended and all leases are released, before it says goodbye. Leases of
/// work that does not end run out.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
const LEASE_GOODBYE: Duration = Duration::from_secs(5);

/// The time that [`Agent::leave`] then waits for a driver that was told to end. One that does not is given up.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// The time that [`Agent::leave`] waits for the log to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(250);

/// A running node. Cheap to clone; dropping the last handle stops the agent without leaving.
///
/// To its peers a dropped agent looks like a crashed one. [`Agent::leave`] is the explicit goodbye.
///
/// Only [`Agent::start`] needs a tokio runtime. Every other call may be made from any executor, and uses neither its timers nor
/// its time, which may be paused.
///
/// # Futures that are dropped
///
/// - What waits for news (`recv` of events and messages, `changed` of leadership, [`Agent::wait_until_up`], [`Agent::stopped`])
///   loses nothing: the next call goes on where it was.
/// - A command (messages, tags, removal, joining, voters, resigning, keys) may have been carried out, or still is: only its
///   answer is lost.
/// - [`Agent::leave`], [`Agent::drain`] and [`Agent::undrain`] go on by themselves. [`Agent::while_leader`] drops the work, too.
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
/// println!("members: {}", snapshot.members.len());
/// loop {
///     match events.recv().await {
///         Ok(event) => match event.kind {
///             EventKind::NodeJoined { member } => println!("{} is here at {}", member.id, member.address),
///             EventKind::NodeLeft { member, .. } | EventKind::NodeDetectedDown { member, .. } => {
///                 println!("{} is gone", member.id);
///             }
///             _ => {}
///         },
///         Err(RecvError::Lagged { .. }) => println!("members now: {}", events.resync().members.len()),
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

/// A handle that does not keep the agent running.
#[cfg(feature = "metrics")]
#[derive(Debug, Clone)]
pub(crate) struct WeakAgent(Weak<Inner>);

#[cfg(feature = "metrics")]
impl WeakAgent {
    /// Returns a handle, if the agent has one yet.
    pub(crate) fn upgrade(&self) -> Option<Agent> {
        self.0.upgrade().map(|inner| Agent { inner })
    }
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    /// The only senders are handles: the driver ends when they are gone.
    requests: mpsc::Sender<Request>,
    /// The agent's own, for what must not hold up the user's.
    runtime: Handle,
    /// The one that the agent was started on, for what is the user's and might hold up the agent.
    users: Handle,
    resolver: Resolver,
    run: Run,
    gossip_address: SocketAddr,
    /// Descriptors that links may take.
    #[cfg(feature = "agent")]
    link_budget: usize,
    keeper: Arc<Keeper>,
    config: Config,
    /// Held while this node begins or ends to drain: the last word counts, for everything that it concerns.
    draining: Arc<tokio::sync::Mutex<()>>,
    /// This node at its start, for the moments in which it is in nobody's view, its own included.
    born: Member,
}

/// The outcome of [`Agent::remove`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Removed {
    /// Peers known to hold the record.
    pub held_by: usize,
    /// True if that is enough: three, or all live peers.
    pub confirmed: bool,
}

impl Agent {
    /// Binds, reads the durable state, starts the driver on a thread of its own.
    ///
    /// It returns as soon as the node listens and tries its seeds; [`Agent::wait_until_up`] waits for the cluster. Dropping
    /// the future gives the start up. The agent lives no longer than the tokio runtime that this is called in: when that
    /// is shut down, the agent stops without leaving, and [`Agent::stopped`] says so.
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
        let inner = host::start(config).await?;
        Ok(Agent { inner: Arc::new(inner) })
    }

    /// Returns this node as others see it.
    pub fn me(&self) -> Member {
        let Inner { shared, born, .. } = &*self.inner;
        shared.directory().member(&born.id).unwrap_or_else(|| born.clone())
    }

    /// Returns one member.
    pub fn member(&self, id: &NodeId) -> Option<Member> {
        self.inner.shared.directory().member(id)
    }

    /// Returns the members that are here, Up or Suspect, sorted by name, this node included. Never asks the driver.
    ///
    /// A Suspect is silent and may be gone; it is still a member, and most suspects refute. Joining members do not hold the
    /// whole view yet, Leaving ones are about to go. Those that drain are here, and are to get no new work: whoever gives some away
    /// looks at [`Member::may_work`].
    pub fn live_members(&self) -> Vec<Member> {
        let mut members = self.members();
        members.retain(Member::is_here);
        members
    }

    /// Returns all members, sorted by name, those that are Down or have left included: see [`Agent::live_members`] for those that
    /// are here. Never asks the driver.
    pub fn members(&self) -> Vec<Member> {
        self.inner.shared.bus.snapshot().members
    }

    /// Returns a handle that does not keep the agent running.
    #[cfg(feature = "metrics")]
    pub(crate) fn downgrade(&self) -> WeakAgent {
        WeakAgent(Arc::downgrade(&self.inner))
    }

    /// Returns this process's run.
    pub fn run(&self) -> Run {
        self.inner.run
    }

    /// Returns the address gossip is really received on.
    pub fn gossip_address(&self) -> SocketAddr {
        self.inner.gossip_address
    }

    /// Returns the configuration that the agent was started with.
    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// Returns `Ok` if all tasks that should run do; the error names the first that died, or the driver if it stands still.
    pub fn health(&self) -> Result<(), Failure> {
        self.inner.shared.failure().map_or(Ok(()), Err)
    }

    /// Reports a task as dead, as its watcher would.
    #[cfg(all(test, feature = "agent"))]
    pub(crate) fn report_dead(&self, task: &'static str) {
        self.inner.shared.report(Failure::new(task, "by the test"));
    }

    /// Subscribes to every event from now on.
    ///
    /// A subscriber that falls more than [`KEPT_EVENTS`] behind, or [`KEPT_LIST_BYTES`], is told how many it missed; it never slows the agent.
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

    /// Returns the members as they are, and every later event: no gap, no overlap.
    pub fn subscribe_from_snapshot(&self) -> (Snapshot, Subscription) {
        self.inner.shared.bus.subscribe_from_snapshot()
    }

    /// Returns the members as they are, to be copied one after the other.
    #[cfg(feature = "agent")]
    pub(crate) fn listed(&self) -> bus::Listed {
        self.inner.shared.bus.listed()
    }

    /// Subscribes to every event after the one of this number, the last [`KEPT_EVENTS`] replayed if need be.
    pub fn subscribe_after(&self, sequence: u64) -> Result<Subscription, Lagged> {
        self.inner.shared.bus.subscribe_after(sequence)
    }

    /// Waits until this node is Up: it holds the whole view, and others list it. The error says why it never will be; with a
    /// wrong key, or dead seeds, it still may be: [`Agent::joining`] says what is missing, and shows how to wait no longer
    /// than so long.
    pub async fn wait_until_up(&self) -> Result<(), Stop> {
        let mut status = self.inner.shared.status();
        tokio::select! {
            // A node that has stopped is Up no more, whatever its last words were. Both senders live as long as this handle.
            biased;
            stop = self.stopped() => Err(stop),
            _ = status.wait_for(|status| *status == Status::Up) => Ok(()),
        }
    }

    /// Says goodbye, waits until a few peers know, stops. Tells how the agent ended, also if that was something else.
    ///
    /// Ends within some seconds, whatever hangs; [`Stop::LeaveTimedOut`] says that the goodbye was not finished. A goodbye that
    /// has begun goes on by itself, also if the future is dropped meanwhile: [`Agent::stopped`] tells its end.
    pub async fn leave(&self) -> Stop {
        let agent = self.clone();
        let goodbye = timers(&self.inner.runtime).spawn(async move { agent.say_goodbye().await });
        match goodbye.await {
            Ok(stop) => stop,
            // The agent's own runtime had to do, and has ended.
            Err(_) => self.stopped().await,
        }
    }

    async fn say_goodbye(&self) -> Stop {
        // Leases first: whoever is next takes them while this node is still a member, and tells.
        #[cfg(any(feature = "sqlite", feature = "postgres"))]
        if let Some(leases) = self.leases() {
            leases.stop(LEASE_GOODBYE).await;
        }
        let goodbye = async {
            // Without a driver there is nothing to ask for, and its end is known already.
            let _ = self.inner.requests.send(Request::Leave).await;
            self.stopped().await
        };
        let shared = &self.inner.shared;
        let stop = if let Ok(stop) = timeout(LEAVE_TIMEOUT, goodbye).await {
            stop
        } else {
            shared.end(Stop::LeaveTimedOut);
            if timeout(END_TIMEOUT, self.stopped()).await.is_err() {
                shared.finish(Stop::Failed(Failure::new("driver", "it does not end")));
            }
            self.stopped().await
        };
        shared.journal.flush(FLUSH_TIMEOUT).await;
        stop
    }

    /// Takes a member out of the listing: one that is Down, or any with `force`.
    pub async fn remove(&self, id: &NodeId, force: bool) -> Result<Removed, AgentError> {
        match self.ask(|answer| Request::Remove { id: id.clone(), force, answer }).await? {
            Reply::Removed { held_by, confirmed } => Ok(Removed { held_by, confirmed }),
            Reply::Refused(error) => Err(error.into()),
            _ => Err(AgentError::Stopped),
        }
    }

    /// Tells the detector that a member gave no answer: it is asked for a sign of life now, and where no connection to it stands,
    /// its process is tried to be reached, which finds a dead one at once. That is no evidence against it: a healthy member is
    /// suspected by nobody. Once a second at most, however often it is said.
    pub async fn doubt(&self, id: &NodeId) -> Result<(), AgentError> {
        match self.ask(|answer| Request::Doubt { id: id.clone(), answer }).await? {
            Reply::Doubted => Ok(()),
            Reply::Refused(error) => Err(error.into()),
            _ => Err(AgentError::Stopped),
        }
    }

    /// Replaces all tags of this node. [`Tags::DRAINING`] is none of them: it stays as it is, see [`Agent::drain`].
    pub async fn set_tags(&self, tags: Tags) -> Result<(), AgentError> {
        match self.ask(|answer| Request::SetTags { tags, answer }).await? {
            Reply::TagsSet => Ok(()),
            Reply::Refused(error) => Err(error.into()),
            _ => Err(AgentError::Stopped),
        }
    }

    /// Waits a moment until the log subscriber has seen what the agent had to say.
    #[cfg(feature = "agent")]
    pub(crate) async fn flush_journal(&self) {
        self.inner.shared.journal.flush(FLUSH_TIMEOUT).await;
    }

    /// Returns the number of descriptors that its links may take.
    #[cfg(feature = "agent")]
    pub(crate) fn link_budget(&self) -> usize {
        self.inner.link_budget
    }

    /// Returns the number of log lines lost on the way to the tracing subscriber.
    #[cfg(feature = "agent")]
    pub(crate) fn log_lines_lost(&self) -> u64 {
        self.inner.shared.journal.lost()
    }

    /// Has the driver feed a watchdog from now on; only the first one counts.
    #[cfg(feature = "agent")]
    pub(crate) fn feed(&self, watchdog: Watchdog) {
        self.inner.shared.feed(watchdog);
    }

    /// Makes the end of a task known that serves the agent from outside, such as an interface: health says so from now on.
    #[cfg(feature = "agent")]
    pub(crate) fn report(&self, failure: Failure) {
        self.inner.shared.report(failure);
    }

    /// Stops without leaving; peers will find out as if this process had crashed. [`Agent::stopped`] tells when it is
    /// done.
    pub fn shutdown(&self) {
        self.inner.shared.end(Stop::Cancelled);
    }

    /// Waits for the end of the agent: its socket closed, its data directory free. (A disk that does not answer keeps the
    /// directory, and is not waited for.)
    pub async fn stopped(&self) -> Stop {
        let mut stop = self.inner.shared.stop();
        match stop.wait_for(Option::is_some).await {
            Ok(stop) => stop.clone().unwrap_or(Stop::Cancelled),
            // Not while this handle lives.
            Err(_) => Stop::Dropped,
        }
    }

    /// Returns the end of the agent, if it has ended.
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
