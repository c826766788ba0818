//! Moving a view: one node pulls the records of another, page by page, in the order of names.
//!
//! `Pull{after, pages}` asks for up to [`PAGES_IN_FLIGHT`] packets; each `Page{after, more}` tells the range of names
//! that it covers (from `after` to its last record), so that lost and reordered pages show as gaps. A page that does
//! not come within twice the round trip (50 ms at least) is asked for again, [`MAX_PULL_RETRIES`] times. That is how a
//! joiner gets the whole view before it is Up.
//!
//! Invariants: at most one pull of this node is under way; pages are served only to addresses that have echoed a nonce
//! of ours, at most [`PAGES_PER_INTERVAL`] in [`SERVING_INTERVAL`], and to at most [`MAX_VIEWS_SERVED`] joiners at one
//! time. A place is kept only by making progress: one whose holder makes none for [`IDLE_PLACE`], or comes from a host
//! that has several, is given to a joiner that has none. There is one place for each address, and a joiner that did not
//! use its place gets none of the last ones.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::core::counters::DropReason;
use crate::core::doors::Receiver;
use crate::core::limits::{
    IDLE_PLACE, MAX_GHOSTS, MAX_PLACE_TIME, MAX_PULL_RETRIES, MAX_UNUSED_PLACES, MAX_VIEWS_SERVED, PAGES_IN_FLIGHT,
    UNUSED_PLACE_PENALTY, VIEW_PATIENCE,
};
use crate::core::member::{NodeId, Run};
use crate::core::packet::{Sender, SenderKind};
use crate::core::time::Time;
use crate::core::timers::Timer;
use crate::core::wire::Message;
use crate::core::{Core, Phase};

/// The number of pages served in one [`SERVING_INTERVAL`]: about 4 MB/s.
pub(super) const PAGES_PER_INTERVAL: u32 = 300;
/// The interval of [`PAGES_PER_INTERVAL`].
pub(super) const SERVING_INTERVAL: Duration = Duration::from_millis(100);
/// The size of a `Page` message with the longest name, in bytes: length, kind, name, and the flag for more.
const PAGE_MESSAGE_BYTES: usize = 1 + 1 + (1 + 1 + NodeId::MAX_BYTES) + 1;
/// The number of pages beyond a gap that show that the missing one is lost.
const PAGES_BEFORE_HURRY: usize = 3;
/// The least time that is waited for a page.
const MIN_PAGE_WAIT: Duration = Duration::from_millis(50);

/// A pull under way.
#[derive(Debug)]
pub(in crate::core) struct Transfer {
    address: SocketAddr,
    run: Run,
    /// The name up to which everything has arrived.
    cursor: Option<NodeId>,
    /// Pages beyond a gap: the name after which each begins, and its `next`. At most [`PAGES_IN_FLIGHT`]. A page that
    /// is asked for again may have other bounds, since the sponsor's view changes meanwhile: ranges of names may
    /// overlap.
    beyond: BTreeMap<Option<NodeId>, Option<NodeId>>,
    /// The number of pages of the last `Pull` that are still to come.
    awaited: u8,
    /// True if the gap was asked for before its time.
    is_hurried: bool,
    retries: u8,
    asked: Time,
    /// The time that pages took so far, smoothed.
    rtt: Option<Duration>,
}

impl Transfer {
    fn new(address: SocketAddr, run: Run, now: Time) -> Self {
        Self {
            address,
            run,
            cursor: None,
            beyond: BTreeMap::new(),
            awaited: 0,
            is_hurried: false,
            retries: 0,
            asked: now,
            rtt: None,
        }
    }

    /// Returns true if pages were asked for more than once in vain: the sponsor may have restarted, or forgotten us.
    pub(super) fn is_stalled(&self) -> bool {
        self.retries >= 2
    }

    /// Keeps a page beyond a gap. At most [`PAGES_IN_FLIGHT`] are kept: no more were asked for.
    fn keep(&mut self, after: Option<NodeId>, next: Option<NodeId>) {
        if self.beyond.len() < usize::from(PAGES_IN_FLIGHT) {
            self.beyond.insert(after, next);
        }
    }

    /// Notes that everything up to `next` has arrived, or (`None`) to the end; returns true if nothing is missing any
    /// more.
    fn advance(&mut self, mut next: Option<NodeId>) -> bool {
        while next.is_some() {
            self.cursor = next;
            // All pages that begin up to here; those beyond a gap stay.
            let later = self.beyond.split_off(&self.cursor);
            let mut within = std::mem::replace(&mut self.beyond, later);
            within.extend(self.beyond.remove_entry(&self.cursor));
            if within.values().any(Option::is_none) {
                return true;
            }
            next = within.into_values().filter(|next| *next > self.cursor).max().flatten();
            if next.is_none() {
                return false;
            }
        }
        true
    }
}

/// The pages that were served lately, and the joiners that they are served to.
#[derive(Debug, Default)]
pub(in crate::core) struct ViewServer {
    began: Option<Time>,
    pages: u32,
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
    pub(in crate::core) fn allow(&mut self, now: Time) -> bool {
        if self.began.is_none_or(|began| now.since(began) >= SERVING_INTERVAL) {
            (self.began, self.pages) = (Some(now), 0);
        }
        self.pages += 1;
        self.pages <= PAGES_PER_INTERVAL
    }

    /// Returns true if there is no place for this joiner now.
    pub(super) fn is_busy_for(&self, run: Run, address: SocketAddr, now: Time) -> bool {
        let others = self.places.iter().filter(|(other, place)| **other != run && !place.is_over(now)).count();
        let is_idler = self.unused_places.get(&address).is_some_and(|until| now < *until);
        if is_idler && others + 1 >= MAX_VIEWS_SERVED && !self.places.contains_key(&run) {
            return true;
        }
        others >= MAX_VIEWS_SERVED && self.spare(run, address, now).is_none()
    }

    /// Returns the run whose place this joiner gets if there is no free one: that of its own address, the longest idle
    /// one, or one of a host that has several, if its own host has none.
    fn spare(&self, run: Run, address: SocketAddr, now: Time) -> Option<Run> {
        let others = || self.places.iter().filter(|(other, _)| **other != run);
        if let Some((same, _)) = others().find(|(_, place)| place.address == address) {
            return Some(*same);
        }
        let idle = others().filter(|(_, place)| place.is_spare(now)).min_by_key(|(_, place)| place.moved);
        let of_host = |host| others().filter(|(_, place)| place.address.ip() == host).count();
        let has_none = of_host(address.ip()) == 0;
        let crowded = || others().filter(|(_, place)| has_none && of_host(place.address.ip()) > 1);
        idle.or_else(|| crowded().min_by_key(|(_, place)| place.given)).map(|(run, _)| *run)
    }

    /// Takes a place for this joiner; returns true if there is one. Asking again does not keep a place.
    pub(super) fn begin(&mut self, run: Run, address: SocketAddr, now: Time) -> bool {
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
    fn pulled(&mut self, run: Run, after: Option<&NodeId>, now: Time) {
        if let Some(place) = self.places.get_mut(&run) {
            self.unused_places.remove(&place.address);
            if place.after.as_ref().is_none_or(|farthest| farthest.as_ref() < after) {
                (place.after, place.moved) = (Some(after.cloned()), now);
            }
        }
    }

    /// Frees the place after the last page was sent.
    fn end(&mut self, run: Run) {
        self.places.remove(&run);
    }
}

impl Core {
    /// Begins to pull the view of the node at `address`.
    pub(super) fn pull_from(&mut self, address: SocketAddr, run: Run) {
        self.transfer = Some(Transfer::new(address, run, self.now));
        self.pull_next();
    }

    /// Returns true if updates of this sender belong to the pull under way.
    pub(in crate::core) fn is_pulling_from(&self, sender: Sender) -> bool {
        let is_it = |transfer: &Transfer| (transfer.run, transfer.address) == (sender.run, sender.from);
        self.transfer.as_ref().is_some_and(is_it)
    }

    /// Returns true if this sender brings this node in: it is Joining, and pulls that node's view.
    pub(in crate::core) fn is_joining_by(&self, sender: Sender) -> bool {
        matches!(self.phase, Phase::Joining(_)) && self.is_pulling_from(sender)
    }

    fn pull_next(&mut self) {
        let Some(transfer) = &mut self.transfer else { return };
        transfer.awaited = PAGES_IN_FLIGHT;
        transfer.asked = self.now;
        let wait = transfer.rtt.map_or(MIN_PAGE_WAIT * 4, |rtt| (rtt * 2).max(MIN_PAGE_WAIT));
        let wait = wait * (1 + u32::from(transfer.retries)).min(4);
        self.pull_pages(PAGES_IN_FLIGHT);
        self.timers.set(Timer::Transfer, self.now + wait);
    }

    /// Asks for pages from the first missing one on.
    fn pull_pages(&mut self, pages: u8) {
        let Some(transfer) = &self.transfer else { return };
        let (to, run, after) = (transfer.address, transfer.run, transfer.cursor.clone());
        let mut packet = self.packet(usize::MAX);
        packet.push(&Message::Pull { after, pages });
        self.transmit(to, Receiver::of(run), packet);
    }

    /// Handles pages that did not come in time.
    pub(in crate::core) fn pull_again(&mut self) {
        let Some(transfer) = &mut self.transfer else { return };
        transfer.retries += 1;
        if transfer.retries > MAX_PULL_RETRIES {
            let sponsor = transfer.run;
            self.transfer = None;
            if matches!(self.phase, Phase::Joining(_)) {
                self.sponsor_failed(sponsor);
            }
            return;
        }
        let is_stalled = transfer.is_stalled();
        self.pull_next();
        if is_stalled && matches!(self.phase, Phase::Joining(_)) {
            self.timers.set_by(Timer::JoinTry, self.now);
        }
    }

    /// Handles the packet at hand, whose updates were one page and are merged already. `next` is the page's last name,
    /// if more follow.
    pub(in crate::core) fn page(&mut self, after: Option<&NodeId>, next: Option<NodeId>) {
        let Some(transfer) = &mut self.transfer else { return };
        if next.is_some() && next.as_ref() <= after {
            return self.counters.drop(DropReason::Malformed);
        }
        if transfer.retries == 0 {
            let sample = self.now.since(transfer.asked);
            transfer.rtt = Some(transfer.rtt.map_or(sample, |rtt| (rtt * 7 + sample) / 8));
        }
        transfer.awaited = transfer.awaited.saturating_sub(1);
        if after > transfer.cursor.as_ref() {
            transfer.keep(after.cloned(), next);
            // Several came after the missing one: it is lost rather than late (as in TCP's fast retransmit: RFC 5681,
            // 3.2).
            if transfer.beyond.len() >= PAGES_BEFORE_HURRY && !transfer.is_hurried {
                transfer.is_hurried = true;
                self.pull_pages(1);
            }
            return;
        }
        if next.is_some() && next <= transfer.cursor {
            // A late copy of a page that has arrived.
            return;
        }
        (transfer.retries, transfer.is_hurried) = (0, false);
        let is_complete = transfer.advance(next);
        if is_complete {
            let (address, run) = (transfer.address, transfer.run);
            self.transfer = None;
            self.timers.cancel(Timer::Transfer);
            self.pulled_everything(address, run);
        } else if transfer.awaited == 0 && transfer.beyond.is_empty() {
            self.pull_next();
        }
    }

    /// Serves a pull to a member or to a joiner of ours.
    pub(in crate::core) fn serve(&mut self, sender: Sender, after: Option<&NodeId>, pages: u8) {
        let to = match sender.kind {
            SenderKind::Member(slot) if self.view.entry(slot).peer.proven => self.view.record(slot).address,
            SenderKind::Member(slot) => {
                // This packet carries a probe: the next attempt will find the address proven.
                let packet = self.packet_to(slot);
                return self.send_to(slot, packet);
            }
            SenderKind::ClaimsMember(_) | SenderKind::Stranger => match self.joiners.home_of(sender.run, sender.from) {
                Some(home) => {
                    self.heard_joiner(sender.run);
                    home
                }
                None => return self.counters.drop(DropReason::UnknownRun),
            },
        };
        if matches!(self.phase, Phase::Joining(_)) {
            return self.counters.drop(DropReason::WrongState);
        }
        // An admitted joiner is served: a place lost to a slow network is not held against it.
        self.serving.begin(sender.run, to, self.now);
        self.serving.pulled(sender.run, after, self.now);
        if after.is_none() {
            self.teach_lease_terms(to, sender.run);
        }
        let mut after = after.cloned();
        for _ in 0..pages {
            if !self.serving.allow(self.now) {
                return self.counters.drop(DropReason::RateLimited);
            }
            let next = self.send_page(to, sender.run, after);
            if next.is_none() {
                self.serving.end(sender.run);
                break;
            }
            after = next;
        }
    }

    /// Sends the records after a name, as many as fit; returns the last one's name if more follow.
    fn send_page(&mut self, to: SocketAddr, run: Run, after: Option<NodeId>) -> Option<NodeId> {
        // A joiner must not wait for thousands of names that may be invented: it learns those like any member.
        let is_known_only = self.view.unsettled_names() > MAX_GHOSTS && self.view.slot_of_run(run).is_none();
        let records = self.view.after(after.as_ref()).filter(|(_, entry)| !(is_known_only && entry.is_hearsay()));
        let slots: Vec<_> = records.map(|(slot, _)| slot).take(PAGE_RECORDS).collect();
        let mut packet = self.packet(self.datagram_bytes() - PAGE_MESSAGE_BYTES);
        let fitted = slots.iter().take_while(|slot| self.push_update(&mut packet, **slot)).count();
        debug_assert!(fitted > 0 || slots.is_empty(), "the largest record fits into an empty page");
        let last = fitted.checked_sub(1).map(|last| self.view.record(slots[last]).id.clone());
        let more = fitted < slots.len() || slots.len() == PAGE_RECORDS;
        packet.raise_limit(self.datagram_bytes());
        let is_pushed = packet.push(&Message::Page { after, more });
        debug_assert!(is_pushed, "room was left for it");
        self.transmit(to, Receiver::of(run), packet);
        last.filter(|_| more)
    }
}

/// More records than fit into any page. (Only a node that is Up or leaving serves, so none of them is Joining.)
const PAGE_RECORDS: usize = 64;

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
            assert!(serving.allow(Time::ORIGIN), "{page}");
        }
        assert!(!serving.allow(Time::ORIGIN));
        assert!(serving.allow(Time::ORIGIN + SERVING_INTERVAL));
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

    #[test]
    fn so_many_pages_beyond_a_gap_are_remembered() {
        let mut transfer = Transfer::new(at(1), Run(1), Time::ORIGIN);
        for nth in 0..=PAGES_IN_FLIGHT {
            transfer.keep(NodeId::new(&format!("n{nth}")).ok(), None);
        }
        assert_eq!(transfer.beyond.len(), usize::from(PAGES_IN_FLIGHT));
    }
}
