//! The graph of observers: which members observe each other.
//!
//! Up to `observers` + 1 nodes all observe each other. Above that, each node is a neighbour of the next live node in
//! both directions on several rings; each ring is the live names in the order of a hash of their own. The union of the
//! rings is an undirected graph, well mixed (a union of random cycles is an expander: Friedman, "A proof of Alon's
//! second eigenvalue conjecture", 2008; Rapid, ATC 2018, section 4.1, observes by the same kind of graph), and every
//! node computes the same one from the same view. So the load of a node is constant in the size of the cluster.
//!
//! Members that joined a moment ago may have no links yet; `extra` says which others are observed meanwhile, and
//! who observes them themselves.
//!
//! Invariants:
//! - The rings are symmetric: an observer is observed by its subject. (Members that are observed for a while and members behind
//!   doubted ones are observed besides, not always by both; see `extra` and `walk`.)
//! - Adding a member costs O(rings); removing one that is no neighbour costs O(rings), and a neighbour O(members).
//! - The number of rings depends on the number of live members alone, by integers only: about `observers` / 2 in a
//!   large cluster, more in a small one, where rings overlap.
//!
//! Must not know: what observers see.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::extra::Extra;
use super::rings::{Ends, FLOOD_RINGS, Rings, ring_count};
use super::walk::Walk;
use crate::limits::{MIN_CRASH_PROBE_GAP, probe_after};
use crate::member::Status;
use crate::time::Time;
use crate::timers::Timer;
use crate::view::{Slot, View};
use crate::{Core, Phase};

/// This node's place in the graph.
#[derive(Debug)]
pub(crate) struct Observers {
    /// The configured number of observers.
    wanted: usize,
    rings: Rings,
    /// The number of other members that [`ring_count`] was last asked for, and its answer.
    counted: (usize, usize),
    /// The neighbours by the graph since when, and who is observed besides for a while.
    pub(super) extra: Extra,
    /// The members that are observed beyond the neighbours, while some of those are doubted.
    pub(crate) walk: Walk,
    /// All members observed by this node: the nearest on the rings, and those that it walks past.
    neighbours: BTreeSet<Slot>,
    /// The shortest suspect timeout of all members observed.
    quickest: Duration,
}

impl Observers {
    pub(crate) fn new(wanted: usize, me: u64) -> Self {
        Self {
            wanted,
            rings: Rings::new(me),
            counted: (0, 0),
            extra: Extra::default(),
            walk: Walk::default(),
            neighbours: BTreeSet::new(),
            quickest: Duration::MAX,
        }
    }

    /// Returns the shortest suspect timeout of all members that this node observes.
    pub(crate) fn quickest(&self) -> Duration {
        self.quickest
    }

    /// Returns the rings over all live members.
    pub(super) fn rings(&self) -> &Rings {
        &self.rings
    }

    fn ring_count(&mut self, others: usize) -> usize {
        if self.counted.0 != others {
            self.counted = (others, ring_count(others, self.wanted));
        }
        self.counted.1
    }

    /// Returns true if, among this many others, all observe each other.
    pub(crate) fn is_full_mesh(&self, others: usize) -> bool {
        others <= self.wanted
    }

    /// Returns the neighbours on the first rings, and the members that answer behind doubted ones.
    pub(crate) fn flood_targets(&self) -> BTreeSet<Slot> {
        let first = self.rings.ends.iter().take(FLOOD_RINGS).flat_map(Ends::slots);
        first.chain(self.walk.ends()).collect()
    }

    /// Returns the neighbours that others displaced a while ago.
    pub(crate) fn displaced(&self) -> impl Iterator<Item = Slot> {
        self.extra.displaced()
    }

    /// Returns the members that are observed because one of the two brought in the other.
    pub(crate) fn brought_in(&self) -> impl Iterator<Item = Slot> {
        self.extra.brought_in()
    }

    /// Returns the nearest members on all rings; none in a full mesh.
    pub(super) fn nearest(&self) -> impl Iterator<Item = Slot> {
        self.rings.nearest()
    }
}

impl Core {
    /// Finds this node's place in the graph again, since a member's liveness may have changed.
    pub(crate) fn reobserve(&mut self, slot: Slot) {
        if slot == View::ME {
            return;
        }
        self.observers.walk.forget(slot);
        self.observers.extra.forget(slot);
        let others = self.view.live().len();
        let view = &self.view;
        let live = view.live().iter().map(|slot| (*slot, view.entry(*slot).name_hash));
        if self.observers.is_full_mesh(others) {
            self.observers.rings.ends.clear();
        } else {
            let rings = self.observers.ring_count(others);
            let name = view.get(slot).filter(|entry| entry.status.is_live()).map(|entry| entry.name_hash);
            let has_changed = self.observers.rings.update(rings, slot, name, &live);
            // Most members of a large cluster are no neighbours of this node.
            if !has_changed && !self.observers.neighbours.contains(&slot) {
                return;
            }
        }
        if self.observers.walk.is_on() {
            self.timers.set_by(Timer::Walk, self.now + MIN_CRASH_PROBE_GAP);
        }
        self.renew_neighbours(&BTreeMap::new());
    }

    /// Observes the current neighbours. Some that are taken over `lived` at a time that other members know of.
    pub(super) fn renew_neighbours(&mut self, lived: &BTreeMap<Slot, Time>) {
        let mut after: BTreeSet<Slot> = if self.observers.is_full_mesh(self.view.live().len()) {
            self.view.live().iter().copied().collect()
        } else {
            self.observers.nearest().collect()
        };
        let view = &self.view;
        let is_live = |slot: Slot| view.get(slot).is_some_and(|entry| entry.status.is_live());
        // A joiner meets one member after the other, and knows few of many at first.
        let most = if matches!(self.phase, Phase::Up) { self.observers.wanted } else { 0 };
        self.observers.extra.update(self.now, &after, most, is_live);
        if !self.observers.is_full_mesh(self.view.live().len()) {
            after.extend(self.observers.walk.passed().chain(self.observers.displaced()));
        }
        after.extend(self.observers.brought_in());
        let before = std::mem::take(&mut self.observers.neighbours);
        let stopped: Vec<Slot> = before.difference(&after).copied().collect();
        let started: Vec<Slot> = after.difference(&before).copied().collect();
        let timeouts = after.iter().map(|slot| self.view.record(*slot).timing.suspect_timeout());
        self.observers.quickest = timeouts.min().unwrap_or(Duration::MAX);
        self.local_health.expect_contact(self.observers.quickest);
        self.observers.neighbours = after;
        for slot in stopped {
            self.stop_observing(slot);
        }
        for slot in started {
            self.start_observing(slot, lived.get(&slot).copied());
        }
    }

    /// Lets go the neighbours that others displaced, if the members in their places have links.
    pub(crate) fn review_kept(&mut self) {
        if self.observers.extra.is_review_due(self.now) {
            let are_linked = self.observers.nearest().all(|slot| self.is_linked(self.view.record(slot).run));
            self.observers.extra.review(self.now, are_linked);
            self.renew_neighbours(&BTreeMap::new());
        }
    }

    /// Lets go the members that were observed besides for long enough.
    pub(crate) fn release_kept(&mut self) {
        let view = &self.view;
        let is_live = |slot: Slot| view.get(slot).is_some_and(|entry| entry.status.is_live());
        if self.observers.extra.release(self.now, is_live) {
            self.renew_neighbours(&BTreeMap::new());
        }
    }

    /// Starts observing a member. A new observer probes its subject at once: what it has not heard itself must not
    /// count as heard, and an orphan of a mass failure must not be forgiven a whole timeout once more. A member that
    /// `lived` at a certain time, because nobody accused it until then, is not forgiven more than that.
    fn start_observing(&mut self, slot: Slot, lived: Option<Time>) {
        let entry = self.view.entry(slot);
        let is_new = entry.peer.session.is_none() && entry.peer.last_sign() == self.now;
        if !is_new && entry.record.status == Status::Up {
            let demanded = self.demanded_silence(slot);
            // A time long ago says nothing of this silence.
            let lived = lived.filter(|lived| self.now.since(*lived) <= demanded * 5 / 4);
            let probed_at_once = lived.unwrap_or(self.now - probe_after(demanded));
            self.view.peer_mut(slot).lived_at(probed_at_once);
        }
        self.watch(slot);
        self.plan_link(slot);
    }

    fn stop_observing(&mut self, slot: Slot) {
        if self.view.get(slot).is_some() {
            let run = self.view.record(slot).run;
            self.timers.cancel(Timer::Heartbeat(run));
            self.inquiries.forget(run);
            self.watch(slot);
            self.plan_link(slot);
        }
    }

    /// Returns true if all members observe each other.
    pub(crate) fn is_full_mesh(&self) -> bool {
        self.observers.is_full_mesh(self.view.live().len())
    }

    /// Returns all members observed by this node.
    pub(crate) fn neighbours(&self) -> impl Iterator<Item = Slot> {
        self.observers.neighbours.iter().copied()
    }

    /// Returns true if this node observes a member (and is observed by it).
    pub(crate) fn observes(&self, slot: Slot) -> bool {
        self.observers.neighbours.contains(&slot)
    }

    /// Returns true if a member would have been heard for so long, if it lived: it is a neighbour on the rings, which both
    /// compute from the same names. One that is observed for another reason (others displaced it, or doubts about others
    /// led to it) need not observe this node in turn, and then sends it nothing unasked.
    pub(crate) fn would_have_heard(&self, slot: Slot, patience: Duration) -> bool {
        let since = self.observers.extra.neighbour_since(slot);
        self.observes(slot) && since.is_some_and(|since| self.now.since(since) > patience)
    }

    /// Returns a member's other observers, by this node's view: those that might have heard it. Above the full mesh
    /// they are the nearest that this node does not doubt, since those walk past the others, too.
    pub(crate) fn observers_of(&self, subject: Slot) -> BTreeSet<Slot> {
        let others = self.view.live().len();
        let live = self.view.live().iter().copied().filter(|slot| *slot != subject);
        if self.observers.is_full_mesh(others) {
            return live.collect();
        }
        let doubted = self.observers.walk.doubted();
        let live: Vec<Slot> = live.filter(|slot| doubted.is_empty() || !doubted.contains(slot)).collect();
        let name_of = |slot: Slot| self.view.entry(slot).name_hash;
        let with_me = live.iter().copied().chain([View::ME]).map(|slot| (slot, name_of(slot)));
        let mut rings = Rings::new(name_of(subject));
        rings.rebuild(ring_count(others, self.observers.wanted), &with_me);
        let mut observers: BTreeSet<Slot> = rings.nearest().collect();
        // They knew the same members before others came.
        observers.extend(self.observers.displaced().filter(|slot| !doubted.contains(slot)));
        observers.remove(&subject);
        observers.remove(&View::ME);
        observers
    }

    /// Returns the members that gossip goes to by rounds: the neighbours, but for those that are observed besides for a while,
    /// which would make the rounds longer. (A joiner has none.)
    pub(crate) fn gossip_peers(&self) -> Vec<Slot> {
        if matches!(self.phase, Phase::Joining(_)) {
            return Vec::new();
        }
        let is_by_graph = |slot: Slot| self.observers.extra.neighbour_since(slot).is_some();
        self.neighbours().filter(|slot| is_by_graph(*slot) || self.observers.walk.passes(*slot)).collect()
    }
}
