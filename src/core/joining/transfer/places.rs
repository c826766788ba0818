//! The sponsor's side as a machine: its inputs are joiners that come and pull, its output is whose place is free. (How many
//! pages are sent is limited with all other records: see `packet::rates`.)
//!
//! Invariants:
//! - At most [`MAX_VIEWS_SERVED`] joiners have a place, one for each address.
//! - A place is kept only by pulling: one whose holder does not for [`IDLE_PLACE`] is given to a joiner that has none. (Who
//!   pulls the same again lost pages, and waited as long for them.)
//!
//! Must not know: records, pages, packets, the core. Its caller says which joiner pulls from where.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::limits::{IDLE_PLACE, MAX_VIEWS_SERVED};
use crate::member::Run;
use crate::time::Time;

/// The joiners that pages are served to.
#[derive(Debug, Clone, Default)]
pub(crate) struct ViewServer {
    /// The joiners that are being served the view; at most [`MAX_VIEWS_SERVED`].
    places: BTreeMap<Run, ServingPlace>,
}

/// The place of a joiner that is being served the view.
#[derive(Debug, Clone)]
struct ServingPlace {
    address: SocketAddr,
    /// Time at which its holder took the place, or last pulled.
    pulled: Time,
}

impl ServingPlace {
    /// Returns true if it may be given to another joiner that needs one: its holder is served all the same if it pulls.
    fn is_spare(&self, now: Time) -> bool {
        now.since(self.pulled) >= IDLE_PLACE
    }
}

impl ViewServer {
    /// Returns true if there is no place for this joiner now.
    pub(crate) fn is_busy_for(&self, run: Run, address: SocketAddr, now: Time) -> bool {
        let others = self.places.iter().filter(|(other, _)| **other != run).count();
        others >= MAX_VIEWS_SERVED && self.spare(run, address, now).is_none()
    }

    /// Returns the run whose place this joiner gets if there is no free one: that of its own address, or the longest
    /// idle one.
    fn spare(&self, run: Run, address: SocketAddr, now: Time) -> Option<Run> {
        let others = || self.places.iter().filter(|(other, _)| **other != run);
        if let Some((same, _)) = others().find(|(_, place)| place.address == address) {
            return Some(*same);
        }
        let idle = others().filter(|(_, place)| place.is_spare(now)).min_by_key(|(_, place)| place.pulled);
        idle.map(|(run, _)| *run)
    }

    /// Takes a place for this joiner; returns true if there is one. Asking again does not keep a place.
    pub(crate) fn begin(&mut self, run: Run, address: SocketAddr, now: Time) -> bool {
        if self.is_busy_for(run, address, now) {
            return false;
        }
        if self.places.contains_key(&run) {
            return true;
        }
        let same = self.places.iter().find(|(_, place)| place.address == address).map(|(run, _)| *run);
        let spare = if self.places.len() >= MAX_VIEWS_SERVED { self.spare(run, address, now) } else { same };
        spare.and_then(|spare| self.places.remove(&spare));
        self.places.insert(run, ServingPlace { address, pulled: now });
        true
    }

    /// Notes a pull of a place's holder.
    pub(crate) fn pulled(&mut self, run: Run, now: Time) {
        if let Some(place) = self.places.get_mut(&run) {
            place.pulled = now;
        }
    }

    /// Frees the place after the last page was sent.
    pub(crate) fn end(&mut self, run: Run) {
        self.places.remove(&run);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port))
    }

    #[test]
    fn so_many_joiners_have_a_place_and_the_next_one_takes_that_of_one_who_idles() {
        let mut serving = ViewServer::default();
        let host = |i: u8| SocketAddr::from(([10, 0, i, 1], 7_117));
        for i in 1..=MAX_VIEWS_SERVED as u8 {
            assert!(!serving.is_busy_for(Run(u64::from(i)), host(i), Time::ORIGIN));
            assert!(serving.begin(Run(u64::from(i)), host(i), Time::ORIGIN));
        }
        assert!(!serving.begin(Run(99), host(99), Time::ORIGIN), "one more is sent elsewhere");
        assert_eq!(serving.places.len(), MAX_VIEWS_SERVED);
        assert!(serving.begin(Run(99), host(99), Time::ORIGIN + IDLE_PLACE), "unless somebody idles");
        assert_eq!(serving.places.len(), MAX_VIEWS_SERVED);
    }

    #[test]
    fn a_place_is_kept_by_pulling() {
        let (run, ms) = (Run(1), Duration::from_millis(1));
        let mut serving = ViewServer::default();
        assert!(serving.begin(run, at(1), Time::ORIGIN));
        let later = Time::ORIGIN + IDLE_PLACE;
        assert!(serving.begin(run, at(1), later - ms), "asking again keeps none");
        let is_spare = |serving: &ViewServer, now| serving.places[&run].is_spare(now);
        assert!(!is_spare(&serving, later - ms) && is_spare(&serving, later));
        serving.pulled(run, later);
        assert!(!is_spare(&serving, later + IDLE_PLACE - ms) && is_spare(&serving, later + IDLE_PLACE));
    }
}
