//! Sealed worlds: every node seals what it sends and opens what it receives, with the code and the rules of the agent; and a
//! recorder plays again what it overhears.
//!
//! A node's key file outlives its processes, like its disk; operators change it node by node. The recorder hears all
//! datagrams and frames, and plays them again at any time, to the node that they were meant for or to another one, from an
//! address of its own or with the sender's. It may hold a key, with which it seals forgeries.
//!
//! Invariant: worlds that are not sealed are what they always were.
//!
//! | idea | file |
//! |---|---|
//! | keys and seals of each node; what is counted | here |
//! | datagrams, sealed and opened | `datagrams` |
//! | connections: greetings and frames | `links` |
//! | the recorder | `recorder` |
//!
//! Must not know: the meaning of packets.

mod datagrams;
mod links;
mod recorder;

use std::collections::{BTreeMap, BTreeSet};

use super::World;
use super::life::CLUSTER;
use headcount_core::{LinkId, Run};
use headcount_seal::{DatagramSealer, Key, KeyId, KeyRing, MAX_OVERHEAD, MIN_OVERHEAD, SealError, SealMode};
use links::Link;
use recorder::Recorder;
pub use recorder::{elsewhere, unsealed};

/// The numbers of packets that were sealed, played and refused in a world.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SealCounts {
    /// Datagrams sealed.
    pub sealed: u64,
    /// Frames sealed.
    pub frames: u64,
    /// Datagrams and frames that the recorder played.
    pub played: u64,
    /// Processes that started without the key by which another node seals.
    pub outdated: u64,
    /// Datagrams and frames refused, by reason.
    pub refused: [u64; SealError::COUNT],
}

/// All seals of a world.
#[derive(Debug)]
pub(super) struct Seals {
    nodes: Vec<Place>,
    /// The node whose keys were changed last.
    latest: Option<usize>,
    /// The mode of all nodes.
    mode: SealMode,
    pub(super) counts: SealCounts,
    recorder: Option<Recorder>,
    visit: u64,
}

/// A node's keys, and the seals of its process.
#[derive(Debug)]
struct Place {
    /// The key file.
    ring: KeyRing,
    removed: BTreeSet<KeyId>,
    /// True if another node seals with a key that this one lacks.
    lacks_key: bool,
    edge: Option<Edge>,
}

/// The seals of one process.
#[derive(Debug)]
struct Edge {
    process: u64,
    run: Run,
    sealer: DatagramSealer,
    links: BTreeMap<LinkId, Link>,
    connections: u64,
}

/// Returns the key of this number, the same in every world.
///
/// # Panics
/// Never: its bytes differ.
pub fn key_of(number: u8) -> Key {
    let bytes = std::array::from_fn(|place| number ^ (place as u8).wrapping_mul(7));
    Key::from_bytes(&bytes).expect("its bytes differ")
}

impl Seals {
    pub(super) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            latest: None,
            mode: SealMode::Require,
            counts: SealCounts::default(),
            recorder: None,
            visit: 0,
        }
    }

    fn edge(&mut self, node: usize, process: u64) -> Option<&mut Edge> {
        self.nodes.get_mut(node)?.edge.as_mut().filter(|edge| edge.process == process)
    }
}

impl World {
    /// Has all nodes take what is not sealed, too, as while a cluster is on its way to seals.
    pub fn prefer_seals(&mut self) {
        if let Some(seals) = &mut self.seals {
            seals.mode = SealMode::Prefer;
        }
    }

    /// Returns what was sealed, played and refused so far.
    pub fn seal_counts(&self) -> SealCounts {
        self.seals.as_ref().map(|seals| seals.counts).unwrap_or_default()
    }

    /// Returns the ids of a node's keys; the first one seals.
    pub fn keys(&self, node: usize) -> Vec<KeyId> {
        self.seals.as_ref().and_then(|seals| seals.nodes.get(node)).map(|place| place.ring.ids()).unwrap_or_default()
    }

    /// Returns true if a node's operator has removed a key.
    pub fn has_removed_key(&self, node: usize, key: KeyId) -> bool {
        let place = self.seals.as_ref().and_then(|seals| seals.nodes.get(node));
        place.is_some_and(|place| place.removed.contains(&key))
    }

    /// Has a node accept the key of this number, as its operator or another member says.
    pub fn add_key(&mut self, node: usize, number: u8) {
        self.change_ring(node, |place| {
            place.removed.remove(&key_of(number).id());
            place.ring.add(key_of(number)).is_ok()
        });
    }

    /// Has a node seal with a key that it holds.
    pub fn use_key(&mut self, node: usize, number: u8) {
        self.change_ring(node, |place| place.ring.use_key(key_of(number).id()).is_ok());
    }

    /// Has a node accept a key no more.
    pub fn remove_key(&mut self, node: usize, number: u8) {
        self.change_ring(node, |place| {
            place.removed.insert(key_of(number).id());
            place.ring.remove(key_of(number).id()).is_ok()
        });
    }

    /// Changes a node's keys to those of these numbers, step by step; the one that is named seals.
    pub fn hand_keys(&mut self, node: usize, numbers: &[u8], sealing: Option<u8>) {
        let before = self.keys(node);
        for number in numbers.iter().filter(|number| !before.contains(&key_of(**number).id())) {
            self.add_key(node, *number);
        }
        if let Some(number) = sealing.filter(|number| before.first() != Some(&key_of(*number).id())) {
            self.use_key(node, number);
        }
        for number in (0..=u8::MAX).filter(|number| before.contains(&key_of(*number).id()) && !numbers.contains(number))
        {
            self.remove_key(node, number);
        }
    }

    /// Gives all nodes the key file of the one whose keys were changed last.
    pub fn hand_latest_keys(&mut self) {
        let Some(seals) = &mut self.seals else { return };
        let Some(latest) = seals.latest.and_then(|node| seals.nodes.get(node)).map(|place| place.ring.clone()) else {
            return;
        };
        for place in &mut seals.nodes {
            place.ring = latest.clone();
        }
        self.look_at_keys();
    }

    /// Blames nodes that lack a key with which others seal: they hear them as little as through a cut.
    fn look_at_keys(&mut self) {
        let Some(seals) = &mut self.seals else { return };
        let sealing: BTreeSet<KeyId> =
            seals.nodes.iter().filter(|place| place.edge.is_some()).map(|place| place.ring.sealing().id()).collect();
        let (mut lacking, mut relieved) = (Vec::new(), Vec::new());
        for (node, place) in seals.nodes.iter_mut().enumerate() {
            let lacks_key = sealing.iter().any(|key| place.ring.find(*key).is_none());
            if std::mem::replace(&mut place.lacks_key, lacks_key) != lacks_key {
                if lacks_key { lacking.push(node) } else { relieved.push(node) }
            }
        }
        self.disturbs(Some(&lacking));
        self.relieve(&relieved);
    }

    fn change_ring(&mut self, node: usize, change: impl FnOnce(&mut Place) -> bool) {
        if let Some(place) = self.seals.as_mut().and_then(|seals| seals.nodes.get_mut(node)) {
            let is_done = change(place);
            debug_assert!(is_done, "a step that an operator would be refused");
        }
        if let Some(seals) = &mut self.seals {
            seals.latest = Some(node);
        }
        self.look_at_keys();
    }

    /// Begins the seals of a node's process: it has sealed and opened nothing, or knows of none of it any more.
    ///
    /// # Panics
    /// Never: the first ring has a key.
    pub fn begin_seals(&mut self, node: usize) {
        let Some((process, run)) = self.nodes[node].process.as_ref().map(|process| (process.number, process.run))
        else {
            return;
        };
        let Some(seals) = &mut self.seals else { return };
        while seals.nodes.len() <= node {
            let ring = KeyRing::new([key_of(1)]).expect("a key");
            // A newcomer's operator copies the key file of a member.
            let ring = seals.nodes.last().map_or(ring, |member| member.ring.clone());
            seals.nodes.push(Place { ring, removed: BTreeSet::new(), lacks_key: false, edge: None });
        }
        let seals_by = |place: &Place| place.ring.sealing().id();
        let ring = &seals.nodes[node].ring;
        seals.counts.outdated += u64::from(seals.nodes.iter().any(|other| ring.find(seals_by(other)).is_none()));
        let place = &mut seals.nodes[node];
        place.edge = Some(Edge {
            process,
            run,
            sealer: DatagramSealer::new(run, CLUSTER),
            links: BTreeMap::new(),
            connections: 0,
        });
        if let Some(process) = &mut self.nodes[node].process {
            process.core.leave_room(MAX_OVERHEAD, MAX_OVERHEAD - MIN_OVERHEAD);
        }
        self.look_at_keys();
    }
}
