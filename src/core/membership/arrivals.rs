//! When members came: how long this node has been here, who came after it a short while ago, and who is believed about leases.
//!
//! **Leases.** A node that was given another database than the others tells of terms that this one has never seen. It
//! deposes nobody: the news of whoever came less than [`SETTLE`] ago are handed over as such. They count in a cluster
//! of three, to the founders of a cluster that is younger than that, and from a member that is back: a new run of a
//! member whose news counted, at the same address.
//!
//! Must not know: what a member says.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::limits::{MAX_GONE, SETTLE};
use crate::member::{LeaveReason, Status};
use crate::time::Time;
use crate::view::{Slot, View, index_of};

/// The number of other members up to which all of them are believed about leases.
const FEW: usize = 2;

/// The times at which members came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arrivals {
    up_since: Option<Time>,
    /// True if this node was there before its cluster, or found it at the same moment as others.
    is_founder: bool,
    /// True if nobody else was there when this node became Up.
    was_alone: bool,
    /// The largest number of live members that this node has seen.
    largest: usize,
    /// The times at which members came, by their slots, if that was less than [`SETTLE`] ago and after this node was
    /// Up. Empty if there are none.
    young: Vec<Option<Moment>>,
    /// The addresses of the earlier runs of those of them that were believed about leases.
    back: BTreeMap<Slot, SocketAddr>,
}

/// Milliseconds after this node was Up, modulo 2^32: unambiguous as long as they are forgotten within weeks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Moment(NonZeroU32);

impl Moment {
    fn at(time: Time, up_since: Time) -> Self {
        Self(NonZeroU32::new(time.since(up_since).as_millis() as u32).unwrap_or(NonZeroU32::MIN))
    }

    fn ago(self, now: Time, up_since: Time) -> Duration {
        let now = now.since(up_since).as_millis() as u32;
        // The first millisecond counts as the second.
        Duration::from_millis(u64::from(now.max(1).wrapping_sub(self.0.get())))
    }
}

impl Arrivals {
    /// Notes that this node is Up: the members that are there now came before it.
    pub(crate) fn start(&mut self, now: Time, is_founder: bool, was_alone: bool) {
        *self = Self { up_since: Some(now), is_founder, was_alone, ..Self::default() };
    }

    /// Returns those that are gone the longest, to be forgotten before their time, if there are more than [`MAX_GONE`] and than
    /// four for each member of the largest cluster that this node has seen: a process that crashes again and again under fresh
    /// names fills nobody's memory, and the far side of a cut is not forgotten. Nor is a removal, which its subject may not
    /// know yet.
    pub(crate) fn longest_gone(&mut self, view: &View) -> Vec<Slot> {
        let live = view.live().len() + 1;
        self.largest = self.largest.max(live);
        let most = MAX_GONE.max(4 * self.largest);
        if view.len() - live <= most {
            return Vec::new();
        }
        let is_spare = |status: Status| !status.is_live() && status != Status::Left(LeaveReason::Forced);
        let gone = view.iter().filter(|(slot, entry)| *slot != View::ME && is_spare(entry.status));
        let mut gone: Vec<(Time, Slot)> = gone.map(|(slot, entry)| (entry.peer.last_sign(), slot)).collect();
        let spare = gone.len().saturating_sub(most);
        if spare < gone.len() {
            gone.select_nth_unstable(spare);
        }
        gone.into_iter().take(spare).map(|(_, slot)| slot).collect()
    }

    /// Notes the time at which a new run came.
    pub(crate) fn note_arrival(&mut self, now: Time, slot: Slot) {
        if let Some(up_since) = self.up_since {
            let place = index_of(slot);
            if self.young.len() <= place {
                self.young.reserve_exact((place + 1 - self.young.len()).max(place / 8));
                self.young.resize(place + 1, None);
            }
            self.young[place] = Some(Moment::at(now, up_since));
        }
    }

    pub(crate) fn forget(&mut self, slot: Slot) {
        self.back.remove(&slot);
        if let Some(came) = self.young.get_mut(index_of(slot)) {
            *came = None;
        }
    }

    /// Forgets the times of members that have settled.
    pub(crate) fn tidy(&mut self, now: Time) {
        let Some(up_since) = self.up_since else { return };
        let is_young = |came: &Moment| came.ago(now, up_since) < SETTLE;
        for came in &mut self.young {
            *came = came.filter(is_young);
        }
        let young = &self.young;
        self.back.retain(|slot, _| young.get(index_of(*slot)).is_some_and(Option::is_some));
        if young.iter().all(Option::is_none) {
            self.young = Vec::new();
        }
    }

    /// Returns true if there were no other members when this node became Up: nobody knew more than it.
    pub(crate) fn was_alone(&self) -> bool {
        self.was_alone
    }

    /// Returns true if a member is believed about leases. `is_contact`: it is at an address where this node was told to look
    /// for members, and has proven that address.
    pub(crate) fn counts_about_leases(&self, now: Time, view: &View, slot: Slot, is_contact: bool) -> bool {
        let entry = view.entry(slot);
        let is_back = entry.peer.is_proven() && self.back.get(&slot) == Some(&entry.record.address);
        let are_few = view.live().len() <= FEW;
        let is_known_for_long = !self.is_young(now, slot);
        // No member is known for longer.
        let is_new_here = self.up_since.is_none_or(|since| now.since(since) < SETTLE);
        is_back || are_few || is_contact || is_known_for_long || (self.is_founder && is_new_here)
    }

    /// Notes that a member is about to be another run, which came at this moment. If the run that is held is
    /// believed, the new one is believed about leases once it has proven the same address, whoever bore the name
    /// between.
    pub(crate) fn meet_new_run(&mut self, now: Time, view: &View, slot: Slot, is_contact: bool) {
        if self.up_since.is_some() && self.counts_about_leases(now, view, slot, is_contact) {
            self.back.insert(slot, view.record(slot).address);
        }
        self.note_arrival(now, slot);
    }

    /// Returns true if a member came after this node and a short while ago.
    fn is_young(&self, now: Time, slot: Slot) -> bool {
        let came = self.young.get(index_of(slot)).copied().flatten().zip(self.up_since);
        came.is_some_and(|(came, up_since)| came.ago(now, up_since) < SETTLE)
    }
}
