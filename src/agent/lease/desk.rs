//! What handles share with the task of leases: an office for each lease, the asks of handles, the words of other agents.
//!
//! Invariants: an office is made once for each lease, and stays; at most [`MAX_LEASES`]. Whoever asks waits on a channel of
//! its own; words beyond [`MAX_WORDS`] are lost, as they may be on the way.
//!
//! Must not know: the contender, the store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::figures::{Counted, LeaseFigures};
use super::nodes::{LeaseNodes, LeaseNodesError};
use crate::agent::clock::Clock;
use crate::agent::leadership::{Leadership, Office};
use crate::core::LeadershipState;
use crate::core::wire::LeaseWord;
use crate::lease::{LeaseName, MAX_LEASES, TooManyLeases};

/// Asks that wait for the task; further askers wait for room.
pub(super) const MAX_ASKS: usize = 64;
/// Words of other agents that wait for the task.
pub(super) const MAX_WORDS: usize = 256;

/// What handles want of the task.
#[derive(Debug)]
pub(in crate::agent) enum Ask {
    /// Contend for this lease, too.
    Contend(LeaseName),
    /// Give this lease up, and leave it to others for a while.
    Resign(LeaseName),
    /// Prove by a round that begins now that this node holds the lease; answered with the term and the end of the claim.
    Confirm(LeaseName, oneshot::Sender<Result<(u64, crate::core::Time), Unproven>>),
    /// List the nodes that the table knows, and who of them holds this lease.
    Nodes(LeaseName, oneshot::Sender<Result<LeaseNodes, LeaseNodesError>>),
    /// Give up all leases, and end; answered when nothing is held.
    Stop(oneshot::Sender<()>),
    /// All work of this lease that was led in this term has ended.
    WorkEnded(LeaseName, u64),
}

/// Why it is not proven that this node holds a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::agent) enum Unproven {
    NotHolder,
    Lost,
    TimedOut,
    Busy,
}

/// A word of another agent, and whether it is of one whose word counts.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) word: LeaseWord,
    pub(super) is_of_elder: bool,
}

/// The task's ends of the channels.
pub(super) struct Doors {
    pub(super) asks: mpsc::Receiver<Ask>,
    pub(super) words: mpsc::Receiver<Heard>,
}

/// What handles share with the task.
#[derive(Debug)]
pub(in crate::agent) struct Leases {
    offices: Mutex<BTreeMap<LeaseName, Arc<Office>>>,
    /// The highest terms that earlier runs left in the data directory: shown until there is news.
    terms: BTreeMap<LeaseName, u64>,
    clock: Clock,
    asks: mpsc::Sender<Ask>,
    words: mpsc::Sender<Heard>,
    pub(super) counted: Mutex<Counted>,
}

impl Leases {
    /// The leases of the configuration, and the terms that are known; `office` is that of the lease by which the cluster
    /// is led.
    pub(super) fn open(
        office: Arc<Office>,
        clock: Clock,
        leases: &[LeaseName],
        terms: BTreeMap<LeaseName, u64>,
    ) -> (Self, Doors) {
        let (asks, ask_door) = mpsc::channel(MAX_ASKS);
        let (words, word_door) = mpsc::channel(MAX_WORDS);
        // The cluster's is shown also where this node does not contend for it: as vacant.
        office.publish(vacant(&terms, &LeaseName::default()));
        let offices = BTreeMap::from([(LeaseName::default(), office)]);
        let opened = Self { offices: Mutex::new(offices), terms, clock, asks, words, counted: Mutex::default() };
        for lease in leases {
            opened.office_for(lease).expect("the configuration names few enough");
        }
        (opened, Doors { asks: ask_door, words: word_door })
    }

    pub(in crate::agent) fn clock(&self) -> Clock {
        self.clock
    }

    /// Where the leadership of a lease is published, if anybody here contends for it.
    pub(in crate::agent) fn office(&self, lease: &LeaseName) -> Option<Arc<Office>> {
        self.lock().get(lease).cloned()
    }

    /// The same, made if need be.
    pub(in crate::agent) fn office_for(&self, lease: &LeaseName) -> Result<Arc<Office>, TooManyLeases> {
        let mut offices = self.lock();
        if let Some(office) = offices.get(lease) {
            return Ok(Arc::clone(office));
        }
        if offices.len() >= MAX_LEASES {
            return Err(TooManyLeases);
        }
        let office = Office::new();
        office.publish(vacant(&self.terms, lease));
        offices.insert(lease.clone(), Arc::clone(&office));
        Ok(office)
    }

    /// What was counted about each lease.
    pub(in crate::agent) fn figures(&self) -> BTreeMap<LeaseName, LeaseFigures> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).leases.clone()
    }

    /// The agent has ended, or the task: no claim is renewed any more.
    pub(in crate::agent) fn close(&self) {
        for office in self.lock().values() {
            office.close();
        }
    }

    /// Hands an ask to the task; gives it back if there is none any more.
    pub(in crate::agent) async fn ask(&self, ask: Ask) -> Result<(), Ask> {
        self.asks.send(ask).await.map_err(|unsent| unsent.0)
    }

    /// The sender of asks, for what tells the task of an end.
    pub(super) fn asker(&self) -> mpsc::Sender<Ask> {
        self.asks.clone()
    }

    /// Gives all leases up; returns when nothing is held, or after this time.
    pub(in crate::agent) async fn stop(&self, within: Duration) {
        let (answer, answered) = oneshot::channel();
        let stopped = async {
            if self.ask(Ask::Stop(answer)).await.is_ok() {
                let _ = answered.await;
            }
        };
        let _ = tokio::time::timeout(within, stopped).await;
    }

    /// A member told something.
    pub(in crate::agent) fn hear(&self, word: LeaseWord, is_of_elder: bool) {
        let _ = self.words.try_send(Heard { word, is_of_elder });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<LeaseName, Arc<Office>>> {
        // Nothing that runs under the lock leaves it half done.
        self.offices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn vacant(terms: &BTreeMap<LeaseName, u64>, lease: &LeaseName) -> Leadership {
    let term = terms.get(lease).copied().unwrap_or(0);
    Leadership { state: LeadershipState::Vacant, term, ..Leadership::disabled() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> LeaseName {
        LeaseName::new(text).expect("a name")
    }

    #[test]
    fn there_are_so_many_offices_and_each_lease_has_one() {
        let office = Office::new();
        let (leases, _doors) = Leases::open(Arc::clone(&office), Clock::start(), &[name("billing")], BTreeMap::new());
        assert!(Arc::ptr_eq(&leases.office(&LeaseName::default()).expect("always"), &office));
        let billing = leases.office(&name("billing")).expect("configured");
        assert!(Arc::ptr_eq(&leases.office_for(&name("billing")).expect("there"), &billing));
        assert_eq!(billing.watch().get().state, LeadershipState::Vacant);
        assert!(leases.office(&name("other")).is_none());
        for more in 2..MAX_LEASES {
            assert!(leases.office_for(&name(&format!("l{more}"))).is_ok());
        }
        assert_eq!(leases.office_for(&name("one-more")).err(), Some(TooManyLeases));
    }

    #[test]
    fn a_term_that_an_earlier_run_left_is_shown_from_the_beginning() {
        let terms = BTreeMap::from([(LeaseName::default(), 7), (name("billing"), 3), (name("later"), 5)]);
        let (leases, _doors) = Leases::open(Office::new(), Clock::start(), &[name("billing")], terms);
        let shown = |lease: &LeaseName| leases.office_for(lease).expect("few enough").watch().get().term;
        let names = [LeaseName::default(), name("billing"), name("later"), name("new")];
        assert_eq!(names.each_ref().map(shown), [7, 3, 5, 0]);
    }

    #[test]
    fn asks_beyond_the_bound_wait_at_the_door() {
        let (leases, _doors) = Leases::open(Office::new(), Clock::start(), &[], BTreeMap::new());
        let asker = leases.asker();
        for _ in 0..MAX_ASKS {
            asker.try_send(Ask::Resign(LeaseName::default())).expect("room");
        }
        assert!(asker.try_send(Ask::Resign(LeaseName::default())).is_err());
    }

    #[test]
    fn words_that_nobody_takes_are_lost_and_keep_nobody_waiting() {
        let (leases, mut doors) = Leases::open(Office::new(), Clock::start(), &[], BTreeMap::new());
        let lease = crate::NodeId::new("default").expect("a name");
        for term in 0..=MAX_WORDS as u64 {
            let (lease, node) = (lease.clone(), lease.clone());
            leases.hear(LeaseWord { lease, node, term, kind: LeaseWord::LED, nonce: 0 }, true);
        }
        let taken = std::iter::from_fn(|| doors.words.try_recv().ok()).count();
        assert_eq!(taken, MAX_WORDS);
    }
}
