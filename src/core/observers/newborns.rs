//! Newborns: a member that has just come is observed by its sponsor, too, until its observers are there.
//!
//! Who observes a newcomer follows from the names of all members. While many come at one time, what one node takes for its
//! observers another one does not, and they have no links to it yet: if it died then, it would be found out by its silence
//! alone. But one member knows that it is there: the sponsor, to which it brought back a cookie. So the two observe each
//! other from the moment at which the newcomer is Up, for [`NEWBORN_WATCH`]; in a full mesh they do so anyway.
//!
//! Invariants:
//! - A sponsor observes at most [`MAX_NEWBORNS`] so; the oldest gives way to one more.
//! - Nobody is taken over late: a silence that began before would be forgiven once more.
//!
//! Must not know: how a sponsor is found, and how silence is judged.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::Core;
use crate::core::limits::{MAX_NEWBORNS, NEWBORN_WATCH};
use crate::core::member::Run;
use crate::core::time::Time;
use crate::core::view::{Slot, View};

/// The newborns that this node brought in, and its own sponsor, each with the time since which it is observed.
#[derive(Debug, Default)]
pub(super) struct Newborns {
    ours: BTreeMap<Run, Time>,
    /// The member that brought this node in.
    sponsor: Option<(Run, Time)>,
    /// The members that are observed for no other reason.
    beside: BTreeSet<Slot>,
}

impl Newborns {
    /// Adds a newborn; the oldest gives way if there are too many.
    fn add(&mut self, run: Run, now: Time) {
        if self.ours.len() >= MAX_NEWBORNS && !self.ours.contains_key(&run) {
            let oldest = self.ours.iter().min_by_key(|(_, since)| **since).map(|(run, _)| *run);
            oldest.and_then(|oldest| self.ours.remove(&oldest));
        }
        self.ours.insert(run, now);
    }

    fn all(&self) -> impl Iterator<Item = Run> {
        self.ours.keys().copied().chain(self.sponsor.map(|(run, _)| run))
    }

    /// Lets go those that were observed for long enough; returns true if there were any.
    fn release(&mut self, now: Time) -> bool {
        let before = self.all().count();
        let is_over = |since: Time| now.since(since) >= NEWBORN_WATCH;
        self.ours.retain(|_, since| !is_over(*since));
        self.sponsor = self.sponsor.filter(|(_, since)| !is_over(*since));
        self.all().count() < before
    }

    /// Returns true for a member that is observed for no other reason.
    pub(super) fn holds(&self, slot: Slot) -> bool {
        self.beside.contains(&slot)
    }

    /// Notes which of the members to observe are observed for no other reason.
    pub(super) fn note_beside(&mut self, beside: BTreeSet<Slot>) {
        self.beside = beside;
    }
}

impl Core {
    /// Begins to observe a member that this node brought in, and that is Up now.
    pub(in crate::core) fn observe_newborn(&mut self, slot: Slot) {
        let run = self.view.record(slot).run;
        self.observers.newborns.add(run, self.now);
        self.observe_with_newborns();
    }

    /// Begins to observe the member that brought this node in.
    pub(in crate::core) fn observe_sponsor(&mut self, sponsor: Run) {
        self.observers.newborns.sponsor = Some((sponsor, self.now));
        self.observe_with_newborns();
    }

    fn observe_with_newborns(&mut self) {
        if self.newborns().any(|slot| !self.observes(slot)) {
            self.renew_neighbours(&BTreeMap::new());
        }
    }

    /// Returns the members that are observed because one of the two brought in the other.
    pub(in crate::core) fn newborns(&self) -> impl Iterator<Item = Slot> {
        let slots = self.observers.newborns.all().filter_map(|run| self.view.slot_of_run(run));
        slots.filter(|slot| *slot != View::ME && self.view.entry(*slot).status.is_live())
    }

    /// Returns true if this node brought in a member a moment ago.
    pub(in crate::core) fn is_newborn_of_mine(&self, slot: Slot) -> bool {
        self.observers.newborns.ours.contains_key(&self.view.record(slot).run)
    }

    /// Lets go the newborns that were observed for long enough; returns true if there were any.
    pub(super) fn release_newborns(&mut self) -> bool {
        self.observers.newborns.release(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_newborns_are_observed_for_a_while_and_the_oldest_gives_way() {
        let mut newborns = Newborns::default();
        let at = |ms: u64| Time::ORIGIN + std::time::Duration::from_millis(ms);
        let most = MAX_NEWBORNS as u64;
        (0..=most).for_each(|nth| newborns.add(Run(nth), at(nth)));
        newborns.add(Run(most), at(most + 1));
        newborns.sponsor = Some((Run(1_000), at(most)));
        assert_eq!(newborns.all().map(|run| run.0).collect::<Vec<_>>(), (1..=most).chain([1_000]).collect::<Vec<_>>());
        assert!(!newborns.release(at(0) + NEWBORN_WATCH) && newborns.release(at(most) + NEWBORN_WATCH));
        assert_eq!(newborns.all().map(|run| run.0).collect::<Vec<_>>(), [most], "it came once more");
    }
}
