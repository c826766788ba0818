//! The view: the table of members. It does not know how a record was learnt.
//!
//! Invariants:
//! - At most one record per name, and per run.
//! - `live` holds exactly the live members other than this node.
//! - Every record is in the sums of `tally` exactly once.
//!
//! Members live in slots, so that the hot path finds a packet's sender by one look-up of a number. Machines that keep slots
//! are told that a member was removed before its index is used again (see `wiring::merging`). One that keeps it all the
//! same finds nobody by it, and the process ends if it asks for what must be there: another member must not be taken for it.

#[cfg(any(test, feature = "testing"))]
mod check;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use super::peer::Peer;
use super::tally::Tally;
use super::tombstones::Tombstones;
use super::{Slot, generation_of, index_of, next_use, slot_at};
use crate::map::Map;
use crate::member::{NodeId, Record, Run, Status};

/// One member: the shared record, and this observer's own state. In a large table each look-up of a member reads slow
/// memory, so an entry fits into one cache line.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub(crate) struct Entry {
    pub(crate) record: Arc<Record>,
    /// The hash of the record's whole encoding.
    pub(crate) hash: u64,
    pub(crate) peer: Peer,
    /// The hash of its name alone: it determines the places on the rings of observers.
    pub(crate) name_hash: u64,
    /// Position in `View::live`.
    live_at: LiveAt,
    /// The record's status, kept here so that an update that is held already is recognised without reading the record.
    pub(crate) status: Status,
    /// True if a deadline may be set for it; see [`View::set_timed`].
    is_timed: bool,
    /// How often its index was used before.
    generation: u8,
}

/// A position in `View::live`, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LiveAt(u32);

impl LiveAt {
    const NOWHERE: LiveAt = LiveAt(u32::MAX);
}

/// The table of members, this node included.
#[derive(Debug, Clone, Default)]
pub(crate) struct View {
    entries: Vec<Option<Entry>>,
    /// The one that is free for the longest is used next: its eight bits last the longest so.
    free: VecDeque<Slot>,
    /// The slots in the order of their names: four bytes for each, since the names are in the records.
    by_name: Vec<Slot>,
    by_run: Map<Run, Slot>,
    live: Vec<Slot>,
    tally: Tally,
    /// The names that were reaped.
    pub(crate) tombstones: Tombstones,
}

impl View {
    /// The slot of this node itself: the first that is taken, and never freed.
    pub(crate) const ME: Slot = 0;

    /// Returns an empty view, whose table of runs is keyed with `key`.
    pub(crate) fn new(key: u64) -> Self {
        Self { by_run: Map::new(key), ..Self::default() }
    }

    /// Returns this node's own record.
    pub(crate) fn me(&self) -> &Arc<Record> {
        self.record(Self::ME)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(crate) fn fingerprint(&self) -> u64 {
        self.tally.fingerprint()
    }

    pub(crate) fn changes(&self) -> u64 {
        self.tally.changes()
    }

    pub(crate) fn counts(&self) -> [usize; Status::NAMES.len()] {
        self.tally.counts()
    }

    /// Returns the live members other than this node, in no particular (but reproducible) order.
    pub(crate) fn live(&self) -> &[Slot] {
        &self.live
    }

    pub(crate) fn slot_of(&self, id: &str) -> Option<Slot> {
        self.place_of(id).ok().map(|place| self.by_name[place])
    }

    /// Returns the slot of the member that this record is about; its run was in the slot `hint` a moment ago. Looking
    /// up the run first saves comparing names.
    pub(crate) fn slot_of_member(&self, hint: Option<Slot>, record: &Record) -> Option<Slot> {
        let by_run = self.slot_of_run_near(hint, record.run).filter(|slot| self.record(*slot).id == record.id);
        by_run.or_else(|| self.slot_of(record.id.as_str()))
    }

    /// Returns the slot of a run, which was in the slot `hint` a moment ago.
    pub(crate) fn slot_of_run_near(&self, hint: Option<Slot>, run: Run) -> Option<Slot> {
        let is_there = |slot: &Slot| self.get(*slot).is_some_and(|entry| entry.record.run == run);
        hint.filter(is_there).or_else(|| self.slot_of_run(run))
    }

    pub(crate) fn slot_of_run(&self, run: Run) -> Option<Slot> {
        self.by_run.get(&run).copied()
    }

    /// # Panics
    /// If the slot is empty, or another member's by now: a slot that is in use holds a member.
    #[inline]
    pub(crate) fn entry(&self, slot: Slot) -> &Entry {
        let entry = self.entries[index_of(slot)].as_ref().expect("a slot in use holds a member");
        assert!(entry.generation == generation_of(slot), "a slot that was kept for too long");
        entry
    }

    #[inline]
    fn entry_mut(&mut self, slot: Slot) -> &mut Entry {
        let entry = self.entries[index_of(slot)].as_mut().expect("a slot in use holds a member");
        assert!(entry.generation == generation_of(slot), "a slot that was kept for too long");
        entry
    }

    #[inline]
    pub(crate) fn peer_mut(&mut self, slot: Slot) -> &mut Peer {
        &mut self.entry_mut(slot).peer
    }

    /// Sets whether a deadline may be set for a member; returns the value before.
    pub(crate) fn set_timed(&mut self, slot: Slot, is_timed: bool) -> bool {
        std::mem::replace(&mut self.entry_mut(slot).is_timed, is_timed)
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&Entry> {
        self.entries.get(index_of(slot))?.as_ref().filter(|entry| entry.generation == generation_of(slot))
    }

    #[inline]
    pub(crate) fn record(&self, slot: Slot) -> &Arc<Record> {
        &self.entry(slot).record
    }

    /// Returns all members in the order of their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &Entry)> {
        self.by_name.iter().map(|slot| (*slot, self.entry(*slot)))
    }

    /// Returns the members after a name, in order.
    pub(crate) fn after<'a>(&'a self, id: Option<&NodeId>) -> impl Iterator<Item = (Slot, &'a Entry)> + use<'a> {
        let first = id.map_or(0, |id| self.place_of(id.as_str()).map_or_else(|place| place, |place| place + 1));
        self.by_name[first..].iter().map(|slot| (*slot, self.entry(*slot)))
    }

    /// Adds a member whose name and run are not in the table. `hash` is the record's hash.
    pub(crate) fn insert(&mut self, record: Arc<Record>, hash: u64, peer: Peer) -> Slot {
        debug_assert_eq!(hash, record.hash());
        debug_assert!(self.slot_of(record.id.as_str()).is_none() && self.slot_of_run(record.run).is_none());
        let Err(place) = self.place_of(record.id.as_str()) else { unreachable!("a name is added once") };
        let slot = self.free.pop_front().unwrap_or_else(|| {
            push(&mut self.entries, None);
            slot_at(self.entries.len() - 1)
        });
        make_room(&mut self.by_name);
        self.by_name.insert(place, slot);
        self.by_run.insert(record.run, slot);
        let name_hash = xxhash_rust::xxh3::xxh3_64(record.id.as_str().as_bytes());
        self.tally.add(record.status, hash, name_hash);
        let status = record.status;
        let (live_at, generation) = (LiveAt::NOWHERE, generation_of(slot));
        self.entries[index_of(slot)] =
            Some(Entry { record, hash, peer, name_hash, live_at, status, is_timed: false, generation });
        self.list_live(slot);
        slot
    }

    /// Replaces a member's record by another one of the same name. A new run needs new state, so
    /// the caller passes its [`Peer`].
    pub(crate) fn replace(&mut self, slot: Slot, record: Arc<Record>, hash: u64, new_peer: Option<Peer>) {
        debug_assert_eq!(hash, record.hash());
        let (run, status) = (record.run, record.status);
        let entry = self.entry_mut(slot);
        debug_assert!(entry.record.id == record.id);
        let is_new_run = entry.record.run != run;
        debug_assert!(!is_new_run || new_peer.is_some(), "a new run needs new state");
        debug_assert!(is_new_run || record.incarnation >= entry.record.incarnation, "a run's incarnation never falls");
        let old_hash = std::mem::replace(&mut entry.hash, hash);
        let old = std::mem::replace(&mut entry.record, record);
        entry.status = status;
        if let Some(peer) = new_peer {
            entry.peer = peer;
        }
        let name_hash = entry.name_hash;
        self.tally.take(old.status, old_hash, name_hash);
        self.tally.add(status, hash, name_hash);
        if is_new_run {
            self.by_run.remove(&old.run);
            self.by_run.insert(run, slot);
        }
        self.list_live(slot);
    }

    /// Removes a member.
    pub(crate) fn remove(&mut self, slot: Slot) -> Arc<Record> {
        debug_assert!(slot != Self::ME, "a node never forgets itself");
        self.unlist_live(slot);
        if let Ok(place) = self.place_of(self.record(slot).id.as_str()) {
            self.by_name.remove(place);
        }
        let entry = self.entries[index_of(slot)].take().expect("a slot in use holds a member");
        self.by_run.remove(&entry.record.run);
        self.free.push_back(next_use(slot));
        self.tally.take(entry.status, entry.hash, entry.name_hash);
        entry.record
    }

    /// Returns the digest that two views compare before they exchange records: 32 bits for each bucket.
    pub(crate) fn digest(&self) -> Vec<u8> {
        self.tally.digest()
    }

    /// Returns the place of a name in the order of names: where it is, or else where it belongs.
    fn place_of(&self, name: &str) -> Result<usize, usize> {
        self.by_name.binary_search_by(|slot| self.record(*slot).id.as_str().cmp(name))
    }

    fn list_live(&mut self, slot: Slot) {
        let entry = self.entry(slot);
        let (listed, live) = (entry.live_at != LiveAt::NOWHERE, entry.status.is_live() && slot != Self::ME);
        if live && !listed {
            let at = self.live.len() as u32;
            push(&mut self.live, slot);
            self.entry_mut(slot).live_at = LiveAt(at);
        } else if listed && !live {
            self.unlist_live(slot);
        }
    }

    fn unlist_live(&mut self, slot: Slot) {
        let entry = self.entry_mut(slot);
        let LiveAt(at) = std::mem::replace(&mut entry.live_at, LiveAt::NOWHERE);
        if LiveAt(at) != LiveAt::NOWHERE {
            self.live.swap_remove(at as usize);
            if let Some(moved) = self.live.get(at as usize).copied() {
                self.entry_mut(moved).live_at = LiveAt(at);
            }
        }
    }
}

/// Adds to a large table.
fn push<T>(table: &mut Vec<T>, item: T) {
    make_room(table);
    table.push(item);
}

/// Makes room for one more in a large table, which grows by an eighth: doubling would leave up to half of it unused.
fn make_room<T>(table: &mut Vec<T>) {
    if table.len() == table.capacity() {
        table.reserve_exact((table.len() / 8).max(16));
    }
}
