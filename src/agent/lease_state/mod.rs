//! The state that handles share with the task of leases: a publisher for each lease, the asks of handles, the words of
//! other agents.
//!
//! Invariants: a publisher is made once for each lease, and stays for as long as the configuration names it, a handle
//! holds it, or something of it is still to be released; at most [`MAX_LEASES`]. Whoever asks waits on a channel of
//! its own; words beyond [`MAX_WORDS`] are lost, as they may be on the way.
//!
//! | idea | file |
//! |---|---|
//! | publishers, asks, words | here |
//! | what is counted | `figures` |
//! | nodes as the table lists them | `nodes` |
//!
//! Must not know: the contender, the store, the task.

mod figures;
mod nodes;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{broadcast, mpsc, oneshot};

use super::clock::Clock;
use super::leadership::{Leadership, LeadershipPublisher};
use crate::core::wire::LeaseUpdate;
use crate::core::{LeadershipState, NodeId};
use crate::lease::{LeaseName, MAX_LEASES, TooManyLeases};

pub(crate) use figures::Counted;
pub use figures::LeaseFigures;
pub use nodes::{LeaseNode, LeaseNodes, LeaseNodesError};

/// The advice to an operator of a cluster whose nodes lead in different ways.
pub(crate) const ONE_MODE: &str =
    "set the same mode on all nodes: stop all agents, then start them with it, with their data directories";
/// Such nodes are told of at most so often.
pub(crate) const OTHER_MODE_TOLD_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Asks that wait for the task; further askers wait for room.
pub(crate) const MAX_ASKS: usize = 64;
/// Words of other agents that wait for the task.
pub(crate) const MAX_WORDS: usize = 256;

/// Requests that leaders declined, and whose askers have not looked yet; older ones are lost.
const MAX_DECLINED: usize = 16;

/// A request of a handle to the task.
#[derive(Debug)]
pub(crate) enum Ask {
    /// Handles of this lease came or went: see whether it is to be contended for.
    Handles(LeaseName),
    /// Give this lease up, and leave it to others for a while.
    Resign(LeaseName),
    /// Prove by a round that begins now that this node holds the lease; answered with the term and the end of the claim.
    Confirm(LeaseName, oneshot::Sender<Result<(u64, crate::core::Time), Unproven>>),
    /// List the nodes that the table knows, and who of them holds this lease.
    Nodes(LeaseName, oneshot::Sender<Result<LeaseNodes, LeaseNodesError>>),
    /// Hold no lease from now on, or contend again.
    Drain(bool),
    /// Give up all leases, and end; answered when nothing is held.
    Stop(oneshot::Sender<()>),
    /// All work of this lease that was led in this term has ended.
    WorkEnded(LeaseName, u64),
}

/// Why it is not proven that this node holds a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unproven {
    NotHolder,
    Lost,
    TimedOut,
    Busy,
}

/// Something that other agents say.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A word about a lease, and whether it is of one whose word counts.
    Word { word: LeaseUpdate, is_believed: bool },
    /// A leader was elected by voters, which this node does not configure.
    Voters(VotersHeard),
}

/// The word of a trusted member that voters elect leaders in this cluster.
#[derive(Debug)]
pub(crate) struct VotersHeard {
    /// The member that says so; `None` for the sponsor of a joiner.
    pub(crate) by: Option<NodeId>,
    /// True if there is a leader now.
    pub(crate) is_led: bool,
    /// The leader and its term, if they are named.
    pub(crate) leader: Option<(NodeId, u64)>,
}

/// The task's ends of the channels.
pub(crate) struct Receivers {
    pub(crate) asks: mpsc::Receiver<Ask>,
    pub(crate) words: mpsc::Receiver<Heard>,
}

/// A lease's publisher, and how many hold it.
#[derive(Debug)]
struct LeaseEntry {
    publisher: Arc<LeadershipPublisher>,
    holds: usize,
}

/// Keeps a lease contended for; counts as one handle until it is dropped.
#[derive(Debug)]
pub(crate) struct Hold {
    leases: Arc<Leases>,
    runtime: Handle,
    lease: LeaseName,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.leases.let_go(&self.lease) {
            self.leases.tell_of_handles(&self.runtime, &self.lease);
        }
    }
}

/// The state that handles share with the task.
#[derive(Debug)]
pub(crate) struct Leases {
    publishers: Mutex<BTreeMap<LeaseName, LeaseEntry>>,
    /// Leases that are contended for whether or not anybody holds a handle.
    configured: BTreeSet<LeaseName>,
    /// The highest terms that earlier runs left in the data directory, by leases or by voters: shown until there is news.
    terms: BTreeMap<LeaseName, u64>,
    clock: Clock,
    asks: mpsc::Sender<Ask>,
    words: mpsc::Sender<Heard>,
    /// Numbers of requests to resign that a leader declined.
    declined: broadcast::Sender<u64>,
    pub(crate) counted: Mutex<Counted>,
}

impl Leases {
    /// The leases of the configuration, and the terms that are known; `publisher` is that of the lease by which the
    /// cluster is led.
    pub(crate) fn open(
        publisher: Arc<LeadershipPublisher>,
        clock: Clock,
        leases: &[LeaseName],
        terms: BTreeMap<LeaseName, u64>,
    ) -> (Self, Receivers) {
        let (asks, ask_receiver) = mpsc::channel(MAX_ASKS);
        let (words, word_receiver) = mpsc::channel(MAX_WORDS);
        // The cluster's is shown also where this node does not contend for it: as vacant.
        publisher.publish(vacant(&terms, &LeaseName::default()));
        let mut publishers = BTreeMap::from([(LeaseName::default(), LeaseEntry { publisher, holds: 0 })]);
        for lease in leases {
            publishers.entry(lease.clone()).or_insert_with(|| LeaseEntry::vacant(&terms, lease));
        }
        let configured = leases.iter().cloned().collect();
        let publishers = Mutex::new(publishers);
        let declined = broadcast::Sender::new(MAX_DECLINED);
        let opened = Self { publishers, configured, terms, clock, asks, words, declined, counted: Mutex::default() };
        (opened, Receivers { asks: ask_receiver, words: word_receiver })
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// The publisher of the leadership of a lease, if anybody here contends for it.
    pub(crate) fn publisher(&self, lease: &LeaseName) -> Option<Arc<LeadershipPublisher>> {
        self.lock().get(lease).map(|entry| Arc::clone(&entry.publisher))
    }

    /// A hold on a lease, and where its leadership is published. The task hears of it if it may have to do something.
    pub(crate) fn hold(
        self: &Arc<Self>,
        runtime: &Handle,
        lease: &LeaseName,
    ) -> Result<(Hold, Arc<LeadershipPublisher>), TooManyLeases> {
        let mut publishers = self.lock();
        if !publishers.contains_key(lease) && publishers.len() >= MAX_LEASES {
            return Err(TooManyLeases);
        }
        let entry = publishers.entry(lease.clone()).or_insert_with(|| LeaseEntry::vacant(&self.terms, lease));
        entry.holds += 1;
        let (is_first, publisher) = (entry.holds == 1, Arc::clone(&entry.publisher));
        drop(publishers);
        if is_first && !self.configured.contains(lease) {
            self.tell_of_handles(runtime, lease);
        }
        Ok((Hold { leases: Arc::clone(self), runtime: runtime.clone(), lease: lease.clone() }, publisher))
    }

    /// One hold less; says whether that was the last reason to contend.
    fn let_go(&self, lease: &LeaseName) -> bool {
        let mut publishers = self.lock();
        let Some(entry) = publishers.get_mut(lease) else { return false };
        entry.holds -= 1;
        entry.holds == 0 && !self.configured.contains(lease)
    }

    /// The order in which such words come does not matter: the task looks at what is so then.
    fn tell_of_handles(&self, runtime: &Handle, lease: &LeaseName) {
        if let Err(mpsc::error::TrySendError::Full(ask)) = self.asks.try_send(Ask::Handles(lease.clone())) {
            let asks = self.asks.clone();
            runtime.spawn(async move { asks.send(ask).await.is_ok() });
        }
    }

    /// Returns the leases that are contended for, sorted.
    pub(crate) fn wanted(&self) -> BTreeSet<LeaseName> {
        let publishers = self.lock();
        let held = publishers.iter().filter(|(_, entry)| entry.holds > 0).map(|(lease, _)| lease);
        held.chain(&self.configured).cloned().collect()
    }

    /// Returns those of them that nobody holds, sorted.
    #[cfg(feature = "metrics")]
    pub(crate) fn vacant(&self) -> Vec<LeaseName> {
        let is_vacant = |lease: &LeaseName| self.publisher(lease).is_some_and(|it| it.watch().get().leader.is_none());
        self.wanted().into_iter().filter(is_vacant).collect()
    }

    /// Returns true if a lease is to be contended for.
    pub(crate) fn is_wanted(&self, lease: &LeaseName) -> bool {
        self.configured.contains(lease) || self.lock().get(lease).is_some_and(|entry| entry.holds > 0)
    }

    /// Returns the term to show at least where nobody leads.
    pub(crate) fn least_term(&self, lease: &LeaseName) -> u64 {
        self.terms.get(lease).copied().unwrap_or(0)
    }

    /// Nothing of a lease is held any more: its publisher is closed, unless somebody wants it again. That of the
    /// cluster stays.
    pub(crate) fn forget(&self, lease: &LeaseName) -> bool {
        if self.is_wanted(lease) {
            return false;
        }
        let mut publishers = self.lock();
        match publishers.get(lease) {
            Some(entry) if entry.holds > 0 => return false,
            Some(entry) if *lease == LeaseName::default() => entry.publisher.publish(vacant(&self.terms, lease)),
            _ => {
                if let Some(entry) = publishers.remove(lease) {
                    entry.publisher.close();
                }
            }
        }
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).leases.remove(lease);
        true
    }

    /// Returns true if the database did not carry out the last two rounds: one may be lost on the way.
    #[cfg(feature = "metrics")]
    pub(crate) fn is_database_away(&self) -> bool {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).failing > 1
    }

    /// Returns the figures of each lease.
    pub(crate) fn figures(&self) -> BTreeMap<LeaseName, LeaseFigures> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).leases.clone()
    }

    /// The agent has ended, or the task: no claim is renewed any more.
    pub(crate) fn close(&self) {
        for entry in self.lock().values() {
            entry.publisher.close();
        }
    }

    /// Hands an ask to the task; gives it back if there is none any more.
    pub(crate) async fn ask(&self, ask: Ask) -> Result<(), Ask> {
        self.asks.send(ask).await.map_err(|unsent| unsent.0)
    }

    /// The sender of asks, for what tells the task of an end.
    /// Lists the nodes that the table knows, and who of them holds this lease.
    pub(crate) async fn nodes(&self, lease: LeaseName) -> Result<LeaseNodes, LeaseNodesError> {
        let (answer, answered) = oneshot::channel();
        self.ask(Ask::Nodes(lease, answer)).await.map_err(|_| LeaseNodesError::Stopped)?;
        answered.await.map_err(|_| LeaseNodesError::Stopped)?
    }

    pub(crate) fn asker(&self) -> mpsc::Sender<Ask> {
        self.asks.clone()
    }

    /// Holds no lease from now on, or contends again. Led work ends first.
    pub(crate) async fn set_draining(&self, is_draining: bool) {
        // A task that has ended holds nothing.
        let _ = self.ask(Ask::Drain(is_draining)).await;
    }

    /// Gives all leases up; returns when nothing is held, or after this time.
    pub(crate) async fn stop(&self, within: Duration) {
        let (answer, answered) = oneshot::channel();
        let stopped = async {
            if self.ask(Ask::Stop(answer)).await.is_ok() {
                let _ = answered.await;
            }
        };
        let _ = tokio::time::timeout(within, stopped).await;
    }

    /// A member told something.
    pub(crate) fn hear(&self, word: LeaseUpdate, is_believed: bool) {
        let _ = self.words.try_send(Heard::Word { word, is_believed });
    }

    /// A member told of a leader by voters.
    pub(crate) fn hear_voters(&self, heard: VotersHeard) {
        let _ = self.words.try_send(Heard::Voters(heard));
    }

    /// A leader does not take this request to resign of this node.
    pub(crate) fn decline(&self, nonce: u64) {
        // Nobody may wait any more.
        let _ = self.declined.send(nonce);
    }

    /// The numbers of requests that are declined from now on.
    pub(crate) fn declined(&self) -> broadcast::Receiver<u64> {
        self.declined.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<LeaseName, LeaseEntry>> {
        // Nothing that runs under the lock leaves it half done.
        self.publishers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LeaseEntry {
    fn vacant(terms: &BTreeMap<LeaseName, u64>, lease: &LeaseName) -> Self {
        let publisher = LeadershipPublisher::new();
        publisher.publish(vacant(terms, lease));
        Self { publisher, holds: 0 }
    }
}

fn vacant(terms: &BTreeMap<LeaseName, u64>, lease: &LeaseName) -> Leadership {
    let term = terms.get(lease).copied().unwrap_or(0);
    Leadership { state: LeadershipState::Vacant, term, ..Leadership::disabled() }
}
