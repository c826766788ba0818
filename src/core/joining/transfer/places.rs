//! The sponsor's side as a machine: its inputs are joiners that come and pull, its outputs are whether a page may be sent
//! now, and whose place is free.
//!
//! Invariants:
//! - At most [`PAGES_PER_INTERVAL`] pages are allowed in [`SERVING_INTERVAL`], whoever they are for; one member gets
//!   [`PAGES_PER_MEMBER`] of them, and all members [`MEMBERS_PAGES_PER_INTERVAL`].
//! - At most [`MAX_VIEWS_SERVED`] joiners have a place, one for each address.
//! - A place is kept only by making progress: one whose holder makes none for [`IDLE_PLACE`] is given to a joiner that
//!   has none.
//! - A joiner that did not use its place gets none of the last ones for [`UNUSED_PLACE_PENALTY`].
//!
//! Must not know: records, pages, packets, the core. Its caller says which joiner pulls from where.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::core::limits::{
    IDLE_PLACE, MAX_PLACE_TIME, MAX_UNUSED_PLACES, MAX_VIEWS_SERVED, SYNC_PACKETS, UNUSED_PLACE_PENALTY, VIEW_PATIENCE,
};
use crate::core::member::{NodeId, Run};
use crate::core::time::Time;

/// The number of pages served in one [`SERVING_INTERVAL`]: about 4 MB/s.
const PAGES_PER_INTERVAL: u32 = 300;
/// The number of those that go to members, which compare their views with this node's: the rest is left to joiners.
const MEMBERS_PAGES_PER_INTERVAL: u32 = 200;
/// The number of those that go to one member: twice an answer to a comparison.
const PAGES_PER_MEMBER: u32 = 2 * SYNC_PACKETS as u32;
/// The interval of [`PAGES_PER_INTERVAL`].
const SERVING_INTERVAL: Duration = Duration::from_millis(100);

/// The pages that were served lately, and the joiners that they are served to.
#[derive(Debug, Default)]
pub(in crate::core) struct ViewServer {
    began: Option<Time>,
    pages: u32,
    /// The number of those for members, in all and by run.
    pages_of_members: u32,
    pages_of: BTreeMap<Run, u32>,
    /// The joiners that are being served the view; at most [`MAX_VIEWS_SERVED`].
    places: BTreeMap<Run, ServingPlace>,
    /// The addresses that had a place and did not pull, and the time until which that is held against them; at most
    /// [`MAX_UNUSED_PLACES`].
    unused_places: BTreeMap<SocketAddr, Time>,
}

/// The place of a joiner that is being served the view.
#[derive(Debug)]
struct ServingPlace {
    address: SocketAddr,
    given: Time,
    /// Time at which its holder last made progress: took the place, or pulled pages that it had not pulled before.
    moved: Time,
    /// The farthest name that it pulled from; `None` before its first pull.
    #[expect(clippy::option_option, reason = "a first pull is from before the first name: from `None`")]
    after: Option<Option<NodeId>>,
}

impl ServingPlace {
    fn is_over(&self, now: Time) -> bool {
        now.since(self.moved) >= VIEW_PATIENCE
    }

    /// Returns true if it may be given to another joiner that needs one: its holder is served all the same if it pulls.
    fn is_spare(&self, now: Time) -> bool {
        now.since(self.moved) >= IDLE_PLACE || now.since(self.given) >= MAX_PLACE_TIME
    }
}

impl ViewServer {
    /// Returns true if one more page may be sent now to this run; counts it if so.
    pub(in crate::core) fn allow(&mut self, now: Time, run: Run, is_member: bool) -> bool {
        if self.began.is_none_or(|began| now.since(began) >= SERVING_INTERVAL) {
            (self.began, self.pages, self.pages_of_members) = (Some(now), 0, 0);
            self.pages_of.clear();
        }
        let of_run = self.pages_of.get(&run).copied().unwrap_or(0);
        let is_over = self.pages_of_members >= MEMBERS_PAGES_PER_INTERVAL || of_run >= PAGES_PER_MEMBER;
        if self.pages >= PAGES_PER_INTERVAL || (is_member && is_over) {
            return false;
        }
        self.pages += 1;
        if is_member {
            self.pages_of_members += 1;
            self.pages_of.insert(run, of_run + 1);
        }
        true
    }

    /// Returns true if there is no place for this joiner now.
    pub(in crate::core::joining) fn is_busy_for(&self, run: Run, address: SocketAddr, now: Time) -> bool {
        let others = self.places.iter().filter(|(other, place)| **other != run && !place.is_over(now)).count();
        let is_idler = self.unused_places.get(&address).is_some_and(|until| now < *until);
        if is_idler && others + 1 >= MAX_VIEWS_SERVED && !self.places.contains_key(&run) {
            return true;
        }
        others >= MAX_VIEWS_SERVED && self.spare(run, address, now).is_none()
    }

    /// Returns the run whose place this joiner gets if there is no free one: that of its own address, or the longest
    /// idle one.
    fn spare(&self, run: Run, address: SocketAddr, now: Time) -> Option<Run> {
        let others = || self.places.iter().filter(|(other, _)| **other != run);
        if let Some((same, _)) = others().find(|(_, place)| place.address == address) {
            return Some(*same);
        }
        let idle = others().filter(|(_, place)| place.is_spare(now)).min_by_key(|(_, place)| place.moved);
        idle.map(|(run, _)| *run)
    }

    /// Takes a place for this joiner; returns true if there is one. Asking again does not keep a place.
    pub(in crate::core::joining) fn begin(&mut self, run: Run, address: SocketAddr, now: Time) -> bool {
        if self.is_busy_for(run, address, now) {
            return false;
        }
        if self.places.get(&run).is_some_and(|place| !place.is_over(now)) {
            return true;
        }
        let over: Vec<Run> = self.places.iter().filter(|(_, place)| place.is_over(now)).map(|(run, _)| *run).collect();
        for run in over {
            self.vacate(run, now);
        }
        let same = self.places.iter().find(|(_, place)| place.address == address).map(|(run, _)| *run);
        let spare = if self.places.len() >= MAX_VIEWS_SERVED { self.spare(run, address, now) } else { same };
        if let Some(spare) = spare {
            self.vacate(spare, now);
        }
        self.places.insert(run, ServingPlace { address, given: now, moved: now, after: None });
        true
    }

    /// Takes a place away before its holder had the whole view.
    fn vacate(&mut self, run: Run, now: Time) {
        if let Some(place) = self.places.remove(&run).filter(|place| place.after.is_none()) {
            self.unused_places.retain(|_, until| now < *until);
            if self.unused_places.len() < MAX_UNUSED_PLACES {
                self.unused_places.insert(place.address, now + UNUSED_PLACE_PENALTY);
            }
        }
    }

    /// Notes a pull of a place's holder: it is progress if it did not pull from there before.
    pub(super) fn pulled(&mut self, run: Run, after: Option<&NodeId>, now: Time) {
        if let Some(place) = self.places.get_mut(&run) {
            self.unused_places.remove(&place.address);
            if place.after.as_ref().is_none_or(|farthest| farthest.as_ref() < after) {
                (place.after, place.moved) = (Some(after.cloned()), now);
            }
        }
    }

    /// Frees the place after the last page was sent.
    pub(super) fn end(&mut self, run: Run) {
        self.places.remove(&run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port))
    }

    /// Takes a place and loses it without having pulled.
    fn idle(serving: &mut ViewServer, port: u16, now: Time) {
        let run = Run(u64::from(port));
        assert!(serving.begin(run, at(port), now));
        serving.vacate(run, now);
    }

    #[test]
    fn so_many_idlers_are_remembered_and_a_place_frees_when_one_has_waited() {
        let mut serving = ViewServer::default();
        let most = MAX_UNUSED_PLACES as u16;
        for port in 1..=most {
            idle(&mut serving, port, Time::ORIGIN);
        }
        idle(&mut serving, most + 1, Time::ORIGIN);
        assert_eq!(serving.unused_places.len(), MAX_UNUSED_PLACES);
        let is_remembered = |serving: &ViewServer, port| serving.unused_places.contains_key(&at(port));
        assert!(is_remembered(&serving, 1) && is_remembered(&serving, most), "to the last place");
        assert!(!is_remembered(&serving, most + 1), "and not one more");
        idle(&mut serving, most + 1, Time::ORIGIN + UNUSED_PLACE_PENALTY);
        assert!(
            is_remembered(&serving, most + 1) && serving.unused_places.len() == 1,
            "those that waited are forgotten"
        );
    }

    #[test]
    fn so_many_pages_are_served_in_an_interval() {
        let mut serving = ViewServer::default();
        for page in 0..PAGES_PER_INTERVAL {
            assert!(serving.allow(Time::ORIGIN, Run(1), false), "{page}");
        }
        assert!(!serving.allow(Time::ORIGIN, Run(1), false));
        assert!(serving.allow(Time::ORIGIN + SERVING_INTERVAL, Run(1), false));
    }

    #[test]
    fn one_member_has_a_share_of_them_and_all_members_leave_one_to_joiners() {
        let mut serving = ViewServer::default();
        let mut pages = |run: u64, is_member| {
            (0..1_000).filter(|_| serving.allow(Time::ORIGIN, Run(run), is_member)).count() as u32
        };
        assert_eq!(pages(1, true), PAGES_PER_MEMBER);
        let others: u32 = (2..10).map(|run| pages(run, true)).sum();
        assert_eq!(others, MEMBERS_PAGES_PER_INTERVAL - PAGES_PER_MEMBER);
        assert_eq!(pages(20, false), PAGES_PER_INTERVAL - MEMBERS_PAGES_PER_INTERVAL);
    }

    #[test]
    fn so_many_joiners_have_a_place_and_an_idler_gets_none_of_the_last() {
        let mut serving = ViewServer::default();
        let host = |i: u8| SocketAddr::from(([10, 0, i, 1], 7_117));
        idle(&mut serving, 1, Time::ORIGIN);
        for i in 1..MAX_VIEWS_SERVED as u8 {
            assert!(serving.begin(Run(u64::from(i) << 32), host(i), Time::ORIGIN));
        }
        assert!(serving.is_busy_for(Run(1), at(1), Time::ORIGIN), "the last place is not an idler's");
        assert!(!serving.is_busy_for(Run(2), at(2), Time::ORIGIN));
        assert!(!serving.is_busy_for(Run(1), at(1), Time::ORIGIN + UNUSED_PLACE_PENALTY));
        assert!(serving.begin(Run(9 << 32), host(9), Time::ORIGIN));
        assert!(!serving.begin(Run(10 << 32), host(10), Time::ORIGIN), "one more is sent elsewhere");
        assert_eq!(serving.places.len(), MAX_VIEWS_SERVED);
        assert!(serving.begin(Run(10 << 32), host(10), Time::ORIGIN + IDLE_PLACE), "unless somebody idles");
        assert_eq!(serving.places.len(), MAX_VIEWS_SERVED);
    }

    #[test]
    fn a_place_is_kept_by_going_on_and_not_by_pulling_the_same_again_nor_for_longer_than_anybody_may() {
        let (run, ms) = (Run(1), Duration::from_millis(1));
        let name = |nth: u32| NodeId::new(&format!("n{nth:04}")).expect("a good name");
        let mut serving = ViewServer::default();
        assert!(serving.begin(run, at(1), Time::ORIGIN));
        serving.pulled(run, Some(&name(5)), Time::ORIGIN);
        let is_spare = |serving: &ViewServer, now| serving.places[&run].is_spare(now);
        let later = Time::ORIGIN + IDLE_PLACE;
        for before in [None, Some(name(4)), Some(name(5))] {
            serving.pulled(run, before.as_ref(), later - ms);
            assert!(!is_spare(&serving, later - ms) && is_spare(&serving, later), "{before:?}");
        }
        serving.pulled(run, Some(&name(6)), later);
        assert!(!is_spare(&serving, later), "it goes on");
        let mut now = later;
        for nth in 7.. {
            now = now + IDLE_PLACE / 2;
            serving.pulled(run, Some(&name(nth)), now);
            assert_eq!(is_spare(&serving, now), now.since(Time::ORIGIN) >= MAX_PLACE_TIME, "{now:?}");
            if is_spare(&serving, now) {
                break;
            }
        }
    }
}
