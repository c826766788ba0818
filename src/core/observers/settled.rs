//! Settled members: those that have been live for their down timeout and [`SETTLE`] more. Newcomers cannot displace them from
//! the graph of observers.
//!
//! Anybody who reaches a port may invent members, by the hundred; they take the places of neighbours on the rings,
//! observe nobody, and pass no news on. Until they are found out, a dead member between two of them would have no
//! observer. So while some members are new, the members that have been there for long keep a graph of themselves alone
//! besides the graph of all: they observe each other, gossip and flood along it as if the newcomers were not there.
//!
//! **A member is settled** when it has been live in this view for its down timeout and [`SETTLE`] more. Within its down
//! timeout it would have been judged if it never answered, and walking past doubted members finds out whole crowds of
//! such. It stays settled for as long as its run is held: a cut that heals makes no member new.
//!
//! **All nodes see nearly the same.** Joining is known everywhere within a moment, so members settle everywhere within
//! a moment, too, give or take [`SETTLE_TOGETHER`]. A node that is new itself counts nobody as settled until it is; the
//! members that it found in its first view were live before it, elsewhere, too, and so settle with it at the latest.
//! Where views differ for these few seconds, some member has one observer more or less; the graph of all is there all
//! along.
//!
//! **Crowds.** If more than [`CROWD`] members are new and a neighbour is doubted, or was a short while ago, many of them
//! may be invented, too many for all to be found out before they would settle. Then those of them that never echoed to
//! this node are asked for an echo, a few at a time, and settle only once they gave it.
//!
//! Invariants:
//! - There is one graph, and nothing here costs anything, if all members are settled, or if this node is not.
//! - A settled member costs a byte, a new one no more.
//!
//! Must not know: how members are observed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::seq::IndexedRandom;

use super::rings::{Ends, FLOOD_RINGS, Rings, ring_count};
use crate::core::limits::{CROWD, CROWD_MEMORY, MAX_AUDITS, SETTLE, SETTLE_TOGETHER};
use crate::core::member::Status;
use crate::core::time::Time;
use crate::core::timers::Timer;
use crate::core::view::{Entry, Slot, View, is_due};
use crate::core::{Core, Phase};

/// The graph of settled members, as this node sees it.
#[derive(Debug)]
pub(in crate::core) struct Settled {
    /// The time since when this node is settled itself.
    since: Option<Time>,
    /// The time at which a neighbour was last doubted.
    doubted_at: Option<Time>,
    /// The rings of settled members; empty unless some members are settled and others are not, and the settled ones are
    /// too many for a full mesh.
    rings: Rings,
    /// All other settled members, if there are new members and the settled ones are so few that all observe each other.
    mesh: BTreeSet<Slot>,
}

impl Settled {
    pub(in crate::core) fn new(me: u64) -> Self {
        Self { since: None, doubted_at: None, rings: Rings::new(me), mesh: BTreeSet::new() }
    }

    /// Notes that a neighbour is doubted.
    pub(super) fn note_doubts(&mut self, now: Time) {
        self.doubted_at = Some(now);
    }

    /// Returns the time at which a neighbour was last doubted.
    pub(super) fn doubted_at(&self) -> Option<Time> {
        self.doubted_at
    }

    pub(super) fn rings(&self) -> &Rings {
        &self.rings
    }

    /// Returns all members of a small graph, or the neighbours on the first rings of a large one.
    pub(in crate::core) fn flood_targets(&self) -> impl Iterator<Item = Slot> {
        self.rings.ends.iter().take(FLOOD_RINGS).flat_map(Ends::slots).chain(self.mesh())
    }

    /// Returns all other settled members, if they are few.
    pub(super) fn mesh(&self) -> impl Iterator<Item = Slot> {
        self.mesh.iter().copied()
    }
}

/// Returns the whole seconds since the beginning of time.
fn seconds(time: Time) -> u32 {
    (time.as_nanos() / 1_000_000_000) as u32
}

impl Core {
    /// Begins the time in which this node, which has become Up, is new.
    pub(in crate::core) fn begin_to_settle_myself(&mut self) {
        self.observers.settled.since = None;
        self.timers.set(Timer::Settle, self.now + SETTLE + self.settings.down_timeout);
    }

    /// Begins the time in which a member is new that came to live; also called for one that ceased to live, or is
    /// another process.
    pub(super) fn begin_to_settle(&mut self, slot: Slot) {
        let Some(entry) = self.view.get(slot).filter(|entry| entry.status.is_live() && !entry.peer.is_settled()) else {
            return;
        };
        let settles_after = SETTLE + entry.record.timing.down_timeout();
        let now = self.now;
        self.view.peer_mut(slot).live_since = seconds(now);
        if self.observers.settled.since.is_some() {
            self.timers.set_by(Timer::Settle, now + settles_after);
        }
    }

    /// Returns true if so many members are new that they may be invented.
    pub(in crate::core) fn is_crowded(&self) -> bool {
        self.view.live().len() - self.view.settled() > CROWD
    }

    /// Returns true if there are two graphs.
    fn has_settled_graph(&self) -> bool {
        let settled = self.view.settled();
        self.observers.settled.since.is_some() && settled > 0 && settled < self.view.live().len()
    }

    /// Settles the members that have been live for long enough.
    pub(in crate::core) fn settle_members(&mut self) {
        if !matches!(self.phase, Phase::Up) {
            return;
        }
        self.observers.settled.since.get_or_insert(self.now);
        let now = seconds(self.now);
        let mut next: Option<Duration> = None;
        let (mut ripe, mut unknown) = (Vec::new(), Vec::new());
        let is_trusted = !self.is_crowded() || is_due(self.now, self.observers.settled.doubted_at, CROWD_MEMORY);
        for slot in self.view.live() {
            let entry = self.view.entry(*slot);
            if entry.peer.is_settled() {
                continue;
            }
            let age = Duration::from_secs(now.wrapping_sub(entry.peer.live_since).into());
            let left = (SETTLE + entry.record.timing.down_timeout()).saturating_sub(age);
            let is_ripe = left <= SETTLE_TOGETHER && entry.status == Status::Up;
            if is_ripe && (is_trusted || entry.peer.is_proven()) {
                ripe.push(*slot);
            } else {
                if is_ripe {
                    unknown.push(*slot);
                }
                next = Some(next.map_or(left, |next| next.min(left)).max(SETTLE_TOGETHER));
            }
        }
        for slot in &ripe {
            self.view.settle(*slot);
        }
        let audited: Vec<Slot> = unknown.sample(&mut self.rng, MAX_AUDITS).copied().collect();
        for slot in audited {
            let packet = self.packet_to(slot);
            self.send_to(slot, packet);
        }
        if let Some(next) = next {
            self.timers.set(Timer::Settle, self.now + next);
        }
        self.rebuild_settled();
        self.renew_neighbours(&BTreeMap::new());
    }

    /// Rebuilds the graph of settled members.
    fn rebuild_settled(&mut self) {
        let (settled, wanted) = (self.view.settled(), self.observers.wanted());
        let (view, has_graph) = (&self.view, self.has_settled_graph());
        let of_settled = view.live().iter().copied().filter(|slot| view.entry(*slot).peer.is_settled());
        let graph = &mut self.observers.settled;
        graph.mesh.clear();
        graph.rings.ends.clear();
        if has_graph && settled <= wanted {
            graph.mesh.extend(of_settled);
        } else if has_graph {
            let named = of_settled.map(|slot| (slot, view.entry(slot).name_hash));
            graph.rings.rebuild(ring_count(settled, wanted), &named);
        }
    }

    /// Finds this node's place in the graph of settled members again, since a member's liveness may have changed;
    /// returns true if that place is another one now. To be called before the graph of all is brought up to date.
    pub(super) fn reobserve_settled(&mut self, slot: Slot) -> bool {
        let (settled, wanted) = (self.view.settled(), self.observers.wanted());
        let is_settled = |entry: &&Entry| entry.status.is_live() && entry.peer.is_settled();
        let graph = &self.observers.settled;
        let has_rings = !graph.rings.ends.is_empty();
        if !self.has_settled_graph() || settled <= wanted {
            let has_graph = self.has_settled_graph();
            let is_on_it = self.view.get(slot).as_ref().is_some_and(is_settled);
            let is_about_mesh = graph.mesh.is_empty() || graph.mesh.contains(&slot) || is_on_it;
            let has_changed = has_rings || has_graph == graph.mesh.is_empty() || has_graph && is_about_mesh;
            if has_changed {
                self.rebuild_settled();
            }
            return has_changed;
        }
        self.observers.settled.mesh.clear();
        let rings = ring_count(settled, wanted);
        let is_first = !has_rings && self.observers.rings().count() == rings && settled + 1 == self.view.live().len();
        let name = self.view.get(slot).filter(is_settled).map(|entry| entry.name_hash);
        if is_first && name.is_none() {
            // This is the first new member: the graph of all was that of the settled members until now.
            let ends = self.observers.rings().ends.clone();
            self.observers.settled.rings.ends = ends;
        }
        let view = &self.view;
        let of_settled = view.live().iter().copied().filter(|slot| view.entry(*slot).peer.is_settled());
        let named = of_settled.map(|slot| (slot, view.entry(slot).name_hash));
        self.observers.settled.rings.update(rings, slot, name, &named) || !has_rings
    }

    /// Returns the settled observers of a settled member among these live members and this node.
    pub(super) fn settled_observers_of(&self, subject: Slot, live: &[Slot]) -> Vec<Slot> {
        if !self.has_settled_graph() || !self.view.entry(subject).peer.is_settled() {
            return Vec::new();
        }
        let settled = live.iter().copied().filter(|slot| self.view.entry(*slot).peer.is_settled());
        let (count, wanted) = (self.view.settled(), self.observers.wanted());
        if count <= wanted {
            return settled.collect();
        }
        let name_of = |slot: Slot| self.view.entry(slot).name_hash;
        let with_me = settled.chain([View::ME]).map(|slot| (slot, name_of(slot)));
        let mut rings = Rings::new(name_of(subject));
        rings.rebuild(ring_count(count, wanted), &with_me);
        rings.nearest().collect()
    }
}
