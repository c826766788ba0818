//! Newborns: a member that has just come is observed by its sponsor, too, while nobody can rely on the rings.
//!
//! Who observes a newcomer follows from the names of all members. While a crowd comes, or somebody who is a member
//! invents others by the thousand, the nearest names on the rings of a newcomer may be those of nobody, and what one node
//! takes for its observers another one does not. If the newcomer died then, hardly anybody could tell. But one member knows
//! that it is there: the sponsor, to which it brought back a cookie. So the two observe each other from the moment at which
//! the newcomer is Up, and the sponsor need not wait for the word of other observers, who may not exist.
//!
//! Invariants:
//! - There are such pairs only in a crowd (see `settled`), and if a neighbour of the sponsor's was doubted shortly before
//!   the newcomer came; in a full mesh they change nothing.
//! - A sponsor observes at most [`MAX_NEWBORNS`] so. For one more, the oldest of the host with the most gives way: who
//!   brings in many takes no place from those of others.
//! - It does so for [`NEWBORN_WATCH`], and while neighbours are doubted until the newborn is settled, but never for longer
//!   than [`MAX_NEWBORN_WATCH`].
//! - Nobody is taken over late: a silence that began before would be forgiven once more.
//!
//! Must not know: how a sponsor is found, and how silence is judged.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use crate::core::Core;
use crate::core::limits::{CROWD_MEMORY, MAX_NEWBORN_WATCH, MAX_NEWBORNS, NEWBORN_WATCH};
use crate::core::member::Run;
use crate::core::time::Time;
use crate::core::view::{Slot, View, is_due};

/// The newborns that this node brought in, and its own sponsor.
#[derive(Debug, Default)]
pub(super) struct Newborns {
    ours: BTreeMap<Run, Newborn>,
    /// The member that brought this node in.
    sponsor: Option<(Run, Newborn)>,
    /// True while there is a crowd.
    is_crowded: bool,
    /// The members that are observed for no other reason.
    beside: BTreeSet<Slot>,
}

/// One newborn, or what a newborn keeps of its sponsor.
#[derive(Debug, Clone, Copy)]
struct Newborn {
    host: u128,
    since: Time,
    /// True if the rings were doubtful already when it came.
    is_amid_doubts: bool,
}

/// Returns the host that an address stands for: an IPv4 address, or 64 bits of an IPv6 one.
fn host_of(address: SocketAddr) -> u128 {
    match address.ip().to_canonical() {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits() >> 64 << 64,
    }
}

impl Newborns {
    /// Adds a newborn; the oldest of the host with the most gives way if there are too many.
    fn add(&mut self, run: Run, newborn: Newborn) {
        if self.ours.len() >= MAX_NEWBORNS && !self.ours.contains_key(&run) {
            let of_host = |host: u128| self.ours.values().filter(|other| other.host == host).count();
            let crowded = self.ours.iter().max_by_key(|(_, other)| {
                let (count, age) = (of_host(other.host), std::cmp::Reverse(other.since));
                (count + usize::from(other.host == newborn.host), age)
            });
            if let Some(run) = crowded.map(|(run, _)| *run) {
                self.ours.remove(&run);
            }
        }
        self.ours.insert(run, newborn);
    }

    fn all(&self) -> impl Iterator<Item = (Run, Newborn)> {
        self.ours.iter().map(|(run, newborn)| (*run, *newborn)).chain(self.sponsor)
    }

    /// Returns true if there is anybody to observe.
    fn is_any(&self) -> bool {
        !self.ours.is_empty() || self.sponsor.is_some()
    }

    /// Lets go those that `is_over` says.
    fn release(&mut self, is_over: impl Fn(Run, &Newborn) -> bool) {
        self.ours.retain(|run, newborn| !is_over(*run, newborn));
        self.sponsor = self.sponsor.take().filter(|(run, newborn)| !is_over(*run, newborn));
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
    /// Returns true if the rings may be those of members that do not exist, since neighbours are doubted.
    fn are_rings_doubted(&self) -> bool {
        !is_due(self.now, self.observers.settled.doubted_at(), CROWD_MEMORY)
    }

    fn newborn_at(&self, address: SocketAddr) -> Newborn {
        Newborn { host: host_of(address), since: self.now, is_amid_doubts: self.are_rings_doubted() }
    }

    /// Begins to observe a member that this node brought in, and that is Up now.
    pub(in crate::core) fn observe_newborn(&mut self, slot: Slot) {
        let record = self.view.record(slot);
        let (run, newborn) = (record.run, self.newborn_at(record.address));
        self.observers.newborns.add(run, newborn);
        self.observe_with_newborns();
    }

    /// Begins to observe the member that brought this node in.
    pub(in crate::core) fn observe_sponsor(&mut self, sponsor: Run) {
        let Some(slot) = self.view.slot_of_run(sponsor) else { return };
        let newborn = self.newborn_at(self.view.record(slot).address);
        self.observers.newborns.sponsor = Some((sponsor, newborn));
        self.observe_with_newborns();
    }

    fn observe_with_newborns(&mut self) {
        self.observers.newborns.is_crowded = self.is_crowded();
        if self.newborns().any(|slot| !self.observes(slot)) {
            self.renew_neighbours(&BTreeMap::new());
        }
    }

    /// Returns the members that are observed because one of the two brought in the other.
    pub(in crate::core) fn newborns(&self) -> impl Iterator<Item = Slot> {
        let newborns = &self.observers.newborns;
        let observed = newborns.all().filter(|(_, newborn)| newborns.is_crowded || newborn.is_amid_doubts);
        let slots = observed.filter_map(|(run, _)| self.view.slot_of_run(run));
        slots.filter(|slot| *slot != View::ME && self.view.entry(*slot).status.is_live())
    }

    /// Notes whether there is a crowd; returns true if other members are to be observed because of that.
    pub(super) fn newborns_changed(&mut self) -> bool {
        let newborns = &self.observers.newborns;
        if !newborns.is_any() || newborns.is_crowded == self.is_crowded() {
            return false;
        }
        self.observers.newborns.is_crowded = self.is_crowded();
        true
    }

    /// Returns true if this member came through this node a moment ago, and its other observers may not exist.
    pub(in crate::core) fn is_newborn_of_mine(&self, slot: Slot) -> bool {
        let (run, newborns) = (self.view.record(slot).run, &self.observers.newborns);
        let newborn = newborns.ours.get(&run).filter(|_| !self.is_full_mesh());
        newborn.is_some_and(|newborn| newborns.is_crowded || newborn.is_amid_doubts)
    }

    /// Lets go the newborns that were observed for long enough; returns true if there were any.
    pub(super) fn release_newborns(&mut self) -> bool {
        if !self.observers.newborns.is_any() {
            return false;
        }
        let (now, are_doubted, view) = (self.now, self.are_rings_doubted(), &self.view);
        let is_settled = |run: Run| view.slot_of_run(run).is_none_or(|slot| view.entry(slot).peer.is_settled());
        let is_over = |run: Run, newborn: &Newborn| {
            let age = now.since(newborn.since);
            age >= MAX_NEWBORN_WATCH || age >= NEWBORN_WATCH && (!are_doubted || is_settled(run))
        };
        let before = self.observers.newborns.all().count();
        self.observers.newborns.release(is_over);
        self.observers.newborns.all().count() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn newborn(host: u8, second: u64) -> Newborn {
        let since = Time::ORIGIN + std::time::Duration::from_secs(second);
        Newborn { host: host_of(SocketAddr::from(([10, 0, 0, host], 7117))), since, is_amid_doubts: false }
    }

    fn runs(newborns: &Newborns) -> Vec<u64> {
        newborns.ours.keys().map(|run| run.0).collect()
    }

    #[test]
    fn so_many_newborns_are_observed_and_the_oldest_of_the_host_with_the_most_give_way() {
        let mut newborns = Newborns::default();
        // Each of these is on a host of its own.
        (0..4).for_each(|nth| newborns.add(Run(nth), newborn(nth as u8, nth)));
        (100..100 + 10 * MAX_NEWBORNS as u64).for_each(|nth| newborns.add(Run(nth), newborn(200, nth)));
        assert_eq!(newborns.ours.len(), MAX_NEWBORNS);
        let last = 100 + 10 * MAX_NEWBORNS as u64;
        let latest = last - (MAX_NEWBORNS as u64 - 4)..last;
        assert_eq!(runs(&newborns), (0..4).chain(latest).collect::<Vec<_>>());
        newborns.add(Run(9), newborn(9, 9_999));
        assert_eq!(runs(&newborns)[..5], [0, 1, 2, 3, 9], "one of a host of its own finds room");
        assert_eq!(newborns.ours.len(), MAX_NEWBORNS);
        newborns.add(Run(9), newborn(9, 10_000));
        assert_eq!(newborns.ours.len(), MAX_NEWBORNS, "it came again, and takes nobody's place");
    }

    #[test]
    fn if_all_are_of_one_host_the_last_ones_are_observed() {
        let mut newborns = Newborns::default();
        (0..100).for_each(|nth| newborns.add(Run(nth), newborn(1, nth)));
        assert_eq!(runs(&newborns), (100 - MAX_NEWBORNS as u64..100).collect::<Vec<_>>());
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_host() {
        let host = |text: &str| host_of(text.parse().expect("an address"));
        assert_eq!(host("[2001:db8::1]:1"), host("[2001:db8::2:1]:2"));
        assert_ne!(host("[2001:db8::1]:1"), host("[2001:db8:0:1::1]:1"));
        assert_eq!(host("10.0.0.1:1"), host("[::ffff:10.0.0.1]:2"));
    }
}
