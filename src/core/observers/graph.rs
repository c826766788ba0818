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
//!   unresponsive ones are observed besides, not always by both; see `extra` and `walk`.)
//! - Adding a member costs O(rings); removing one that is no neighbour costs O(rings), and a neighbour O(members).
//! - The number of rings depends on the number of live members alone, by integers only: about `observers` / 2 in a
//!   large cluster, more in a small one, where rings overlap.
//!
//! Must not know: what observers see, and how anybody is observed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::extra::{Extra, Span, Why};
use super::rings::{Ends, FLOOD_RINGS, Rings, ring_count};
use super::walk::Walk;
use crate::context::Context;
use crate::limits::{MAX_RECENT_MEMBERS, MIN_CRASH_PROBE_GAP, RECENT_MEMBER_WATCH};
use crate::member::Run;
use crate::time::Time;
use crate::view::{Slot, View};

/// The members that are observed no more, and those that are from now on.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use]
pub(crate) struct Shift {
    pub(crate) stopped: Vec<Slot>,
    /// Each with the time at which others know that it lived, if it was taken over.
    pub(crate) started: Vec<(Slot, Option<Time>)>,
    /// The time at which the next step past unresponsive members is due, at the latest.
    pub(crate) walk_at: Option<Time>,
    /// The shortest time in which one of the members observed is surely heard, if those were gathered anew.
    pub(crate) quickest: Option<Duration>,
}

/// This node's place in the graph.
#[derive(Debug, Clone)]
pub(crate) struct Observers {
    /// The configured number of observers.
    wanted: usize,
    rings: Rings,
    /// The number of other members that [`ring_count`] was last asked for, and its answer.
    counted: (usize, usize),
    /// The neighbours by the graph since when, and who is observed besides for a while.
    pub(super) extra: Extra,
    /// The members that are observed beyond the neighbours, while some of those are unresponsive.
    pub(crate) walk: Walk,
    /// All members observed by this node: the nearest on the rings, and those that it walks past.
    neighbours: BTreeSet<Slot>,
    /// The shortest time in which one of the members observed is surely heard.
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

    /// Returns the shortest time in which one of the members that this node observes is surely heard.
    pub(crate) fn quickest(&self) -> Duration {
        self.quickest
    }

    /// Returns the configured number of observers.
    pub(crate) fn wanted(&self) -> usize {
        self.wanted
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

    /// Returns the neighbours on the first rings, and the members that answer behind unresponsive ones.
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

    /// Finds this node's place in the graph again, since a member became live or ceased to be, or is another run.
    pub(crate) fn place_anew(&mut self, cx: &Context, view: &View, slot: Slot) -> Shift {
        self.walk.forget(slot);
        self.extra.forget(slot);
        let others = view.live().len();
        let live = view.live().iter().map(|slot| (*slot, view.entry(*slot).name_hash));
        if self.is_full_mesh(others) {
            self.rings.ends.clear();
        } else {
            let rings = self.ring_count(others);
            let name = view.get(slot).filter(|entry| entry.status.is_live()).map(|entry| entry.name_hash);
            let has_changed = self.rings.update(rings, slot, name, &live);
            // Most members of a large cluster are no neighbours of this node.
            if !has_changed && !self.neighbours.contains(&slot) {
                return Shift::default();
            }
        }
        let walk_at = self.walk.is_on().then_some(cx.now + MIN_CRASH_PROBE_GAP);
        Shift { walk_at, ..self.renew(cx, view, &BTreeMap::new()) }
    }

    /// Observes the current neighbours. Some that are taken over `lived` at a time that other members know of. (A joiner meets one
    /// member after the other, and knows few of many at first: it keeps no displaced ones.)
    pub(super) fn renew(&mut self, cx: &Context, view: &View, lived: &BTreeMap<Slot, Time>) -> Shift {
        let is_mesh = self.is_full_mesh(view.live().len());
        let mut after: BTreeSet<Slot> =
            if is_mesh { view.live().iter().copied().collect() } else { self.nearest().collect() };
        let most = if cx.phase.is_up() { self.wanted } else { 0 };
        self.extra.update(cx.now, &after, most, |slot| is_live(view, slot));
        if !is_mesh {
            after.extend(self.walk.passed().chain(self.displaced()));
        }
        after.extend(self.brought_in());
        let timeouts = after.iter().map(|slot| view.record(*slot).timing.longest_quiet());
        self.quickest = timeouts.min().unwrap_or(Duration::MAX);
        let before = std::mem::replace(&mut self.neighbours, after);
        let started = self.neighbours.difference(&before).map(|slot| (*slot, lived.get(slot).copied()));
        Shift {
            stopped: before.difference(&self.neighbours).copied().collect(),
            started: started.collect(),
            walk_at: None,
            quickest: Some(self.quickest),
        }
    }

    /// Begins to observe a member because one of the two has just brought in the other.
    pub(crate) fn observe_besides(&mut self, cx: &Context, view: &View, slot: Slot) -> Shift {
        let span = Span { since: cx.now, until: cx.now + RECENT_MEMBER_WATCH };
        self.extra.add(Why::BroughtIn, slot, span, MAX_RECENT_MEMBERS);
        if self.observes(slot) { Shift::default() } else { self.renew(cx, view, &BTreeMap::new()) }
    }

    /// Returns true if it is time to look whether the members in the places of displaced neighbours have links.
    pub(crate) fn is_review_due(&self, now: Time) -> bool {
        self.extra.is_review_due(now)
    }

    /// Lets go the neighbours that others displaced, if the members in their places are linked.
    pub(crate) fn review(&mut self, cx: &Context, view: &View, is_linked: impl Fn(Run) -> bool) -> Shift {
        let are_linked = self.nearest().all(|slot| is_linked(view.record(slot).run));
        self.extra.review(cx.now, are_linked);
        self.renew(cx, view, &BTreeMap::new())
    }

    /// Lets go the members that were observed besides for long enough.
    pub(crate) fn release(&mut self, cx: &Context, view: &View) -> Shift {
        let are_any = self.extra.release(cx.now, |slot| is_live(view, slot));
        if are_any { self.renew(cx, view, &BTreeMap::new()) } else { Shift::default() }
    }

    /// Returns all members observed by this node.
    pub(crate) fn neighbours(&self) -> impl Iterator<Item = Slot> {
        self.neighbours.iter().copied()
    }

    /// Returns true if this node observes a member (and is observed by it).
    pub(crate) fn observes(&self, slot: Slot) -> bool {
        self.neighbours.contains(&slot)
    }

    /// Returns true if one of the two brought in the other a moment ago.
    pub(crate) fn is_brought_in(&self, slot: Slot) -> bool {
        self.extra.holds(Why::BroughtIn, slot)
    }

    /// Returns true if a member would have been heard for so long, if it lived: it is a neighbour on the rings, which both
    /// compute from the same names. One that is observed for another reason (others displaced it, or unresponsive ones
    /// led to it) need not observe this node in turn, and then sends it nothing unasked.
    pub(crate) fn would_have_heard(&self, now: Time, slot: Slot, patience: Duration) -> bool {
        let since = self.extra.neighbour_since(slot);
        self.observes(slot) && since.is_some_and(|since| now.since(since) > patience)
    }

    /// Returns a member's other observers, by this node's view: those that might have heard it. Above the full mesh
    /// they are the nearest that respond to this node, since those walk past the others, too.
    pub(crate) fn observers_of(&self, view: &View, subject: Slot) -> BTreeSet<Slot> {
        let others = view.live().len();
        let live = view.live().iter().copied().filter(|slot| *slot != subject);
        if self.is_full_mesh(others) {
            return live.collect();
        }
        let unresponsive = self.walk.unresponsive();
        let live: Vec<Slot> = live.filter(|slot| unresponsive.is_empty() || !unresponsive.contains(slot)).collect();
        let name_of = |slot: Slot| view.entry(slot).name_hash;
        let with_me = live.iter().copied().chain([View::ME]).map(|slot| (slot, name_of(slot)));
        let mut rings = Rings::new(name_of(subject));
        rings.rebuild(ring_count(others, self.wanted), &with_me);
        let mut observers: BTreeSet<Slot> = rings.nearest().collect();
        // They knew the same members before others came.
        observers.extend(self.displaced().filter(|slot| !unresponsive.contains(slot)));
        observers.remove(&subject);
        observers.remove(&View::ME);
        observers
    }
}

fn is_live(view: &View, slot: Slot) -> bool {
    view.get(slot).is_some_and(|entry| entry.status.is_live())
}
