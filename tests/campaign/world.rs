//! A world whose promises are checked.
//!
//! Must not know: how any promise is checked.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use headcount_contender::LeaseName;
use headcount_core::election::Election;
use headcount_core::{Core, MessageId};
use headcount_sim::{WorldOptions, nanos};

use crate::checks::Checks;
use crate::expect::Judged;
use crate::invariants::{ElectoratesReached, Invariant, LeaseReached, Violation};
use crate::plant::{Plant, Planted};

/// A simulated world whose promises are checked after every step, which costs time in proportion to the view at every change. It
/// stands still once a promise is broken.
#[derive(Debug)]
pub struct World(headcount_sim::World);

impl Deref for World {
    type Target = headcount_sim::World;
    fn deref(&self) -> &headcount_sim::World {
        &self.0
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut headcount_sim::World {
        &mut self.0
    }
}

impl World {
    /// Returns a world with all its nodes started.
    pub fn new(options: WorldOptions) -> Self {
        Self::planted(options, false, None)
    }

    /// Returns a world with a planted bug.
    pub fn with_bug(options: WorldOptions, plant: impl Plant + 'static) -> Self {
        Self::planted(options, false, Some(Box::new(plant)))
    }

    /// Returns a world, perhaps with a planted bug. If it is timely, the checks include how soon crashes, silences and cuts are
    /// known everywhere.
    pub fn planted(options: WorldOptions, is_timely: bool, plant: Option<Box<dyn Plant>>) -> Self {
        let planted = plant.map(Planted::new);
        let watch = Checks::new(is_timely, planted.clone());
        Self(match planted {
            None => headcount_sim::World::watched(options, watch),
            Some(planted) => headcount_sim::World::intercepted(options, Some(Box::new(watch)), Box::new(planted)),
        })
    }

    /// Returns a world whose nodes have all joined: they are Up and know each other, but have not heard each other yet.
    pub fn formed(options: WorldOptions) -> Self {
        Self(Self::new(options).0.form())
    }

    fn checks(&self) -> &Checks {
        self.0.watched_by().expect("the checks watch")
    }

    fn checks_mut(&mut self) -> &mut Checks {
        self.0.watched_by_mut().expect("the checks watch")
    }

    /// Returns the promises found broken so far.
    pub fn violations(&self) -> &[Violation] {
        self.checks().checker.violations()
    }

    /// Adds a broken promise that the caller found.
    pub fn report(&mut self, node: Option<usize>, invariant: Invariant, detail: String) {
        let (now, id) = (nanos(self.now()), node.map(|node| self.id(node).clone()));
        self.checks_mut().checker.report(now, id.as_ref(), invariant, detail);
    }

    /// Returns the messages that a node's process gave to its programs.
    pub fn heard(&self, node: usize) -> BTreeSet<MessageId> {
        self.checks().checker.heard(node).cloned().unwrap_or_default()
    }

    /// Returns the number of terms in which any node claimed to lead.
    pub fn terms_claimed(&self) -> usize {
        self.checks().checker.terms_claimed()
    }

    /// Returns the time at which the first packet came from one of two clusters to the other.
    pub fn met_at(&self) -> Option<Duration> {
        self.checks().first_across
    }

    /// Returns the figures of electorates that met.
    pub fn electorates_reached(&self) -> ElectoratesReached {
        self.checks().checker.electorates().reached()
    }

    /// Returns true if all name one leader, and a store outside takes the writes of that one.
    pub fn is_led_in_order(&self) -> bool {
        let term = self.leader().and_then(|leader| self.core(leader)).map(|core| core.leadership().term);
        self.leadership_divergence().is_none()
            && term.is_some_and(|term| self.checks().checker.electorates().takes(term))
    }

    /// From now on a store outside is to take every write of the leaders of the electorate that is led now, and no other.
    pub fn settle_store(&mut self) {
        let leads = self.leader().and_then(|leader| self.core(leader)).and_then(Core::election);
        if let Some(lineage) = leads.and_then(Election::lineage) {
            self.checks_mut().checker.store_belongs_to(lineage);
        }
    }

    /// Returns the numbers of judged expectations so far, in a timely world.
    pub fn judged(&self) -> Judged {
        self.checks().expectations.judged
    }

    /// Returns true if the checks include how soon things are known.
    pub fn is_timely(&self) -> bool {
        self.checks().is_timely
    }

    /// Returns a node that still keeps unfinished cases although all has been quiet for a while, with its sizes.
    pub fn left_over(&self) -> Option<(usize, String)> {
        self.checks().left_over(&self.0)
    }

    /// Returns the node that tells of the only valid claim to the first lease.
    pub fn told_lease_leader(&self) -> Option<usize> {
        let lease = self.options().leases.as_ref()?.leases.first()?;
        self.checks().checker.leases.leader(nanos(self.now()), lease)
    }

    /// Returns the nodes with a valid claim to a lease, and their terms.
    pub fn lease_leaders(&self, lease: &LeaseName) -> Vec<(usize, u64)> {
        self.checks().checker.leases.leaders(nanos(self.now()), lease)
    }

    /// Returns the figures of contenders so far.
    pub fn leases_reached(&self) -> LeaseReached {
        self.checks().checker.leases.reached
    }

    /// Returns the time of the first claim to a lease that began since then; `None` if none did.
    pub fn lease_led_since(&self, since: Duration, lease: &LeaseName) -> Option<Duration> {
        self.checks().checker.leases.first_claim_since(nanos(since), lease).map(Duration::from_nanos)
    }

    /// Returns the first difference between a contender and the database; `None` if all agree with it.
    pub fn lease_divergence(&self) -> Option<String> {
        let watch = &self.checks().checker.leases;
        let (options, database) = (self.options().leases.as_ref()?, self.database(0)?);
        for lease in &options.leases {
            let (term, token) = database.look(lease);
            let Some(holder) = database.holder(lease) else {
                return Some(format!("nobody holds {lease} in the database"));
            };
            for node in 0..options.contenders {
                let Some(shown) = watch.shown(node, lease).filter(|_| self.may_contend(node)) else { continue };
                let id = self.id(node);
                if shown.leader.as_ref() != Some(&holder) || shown.term != term {
                    return Some(format!(
                        "{id} shows {lease} {:?} {:?} {}, the database holds {holder} {term} {token:?}",
                        shown.state, shown.leader, shown.term
                    ));
                }
                let known = watch.highest_known(node, lease);
                if known > term {
                    return Some(format!("{id} has heard of term {known} of {lease}, the database holds {term}"));
                }
            }
        }
        None
    }
}
