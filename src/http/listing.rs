//! Listings: all members as JSON at one position of the event stream, built once and read by many.
//!
//! `GET /v1/members` and the snapshots of event streams are both cut from a [`Listing`]. One of a small view is made for
//! its reader alone. One of a large view is shared: [`Listings`] builds at most one at a time, on a thread that may
//! block, and rests nine times as long as it built. Meanwhile the last one is good enough: it is as old as ten times the
//! building took at most (some 0.3 s for 10,000 members with full tags), and [`MAX_AGE`] if nothing has changed.
//!
//! Invariants:
//! - Readers hold one page at a time, [`PAGE_BYTES`] and a member long, never the listing's bytes.
//! - At most [`MAX_LISTINGS`] exist, of [`MAX_LISTED_BYTES`] together unless a single one is larger. When room is needed
//!   the oldest is revoked, which ends the answers that are still read from it; until [`MIN_READ_TIME`] has passed it is
//!   not, and no new one is built.
//!
//! This module must not know requests or sockets.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use axum::body::Bytes;
use tokio::sync::watch;
use tokio::time::Instant;

use super::query::TagFilter;
use super::table::MIN_READ_TIME;
use crate::agent::{Agent, Snapshot};
use crate::core::{NodeId, Status, Tags};
use crate::json;

/// Members of a small view: its listings are made for each reader anew.
pub(super) const SMALL_VIEW: usize = 32;
/// The size of a page; the member that crosses it is still on it.
pub(super) const PAGE_BYTES: usize = 32 * 1024;
/// Members looked at for one page of a filtered answer.
const MEMBERS_PER_PAGE: usize = 4_096;
/// Shared listings that exist at one time, the one being built included.
pub const MAX_LISTINGS: usize = 4;
/// Their size together, unless a single one is larger.
pub const MAX_LISTED_BYTES: usize = 64 * 1024 * 1024;
/// A shared listing in which nothing has changed is used again for this long: its ages are that much too old then.
pub const MAX_AGE: Duration = Duration::from_millis(250);
/// Rest after building, in times of what it took.
const REST: u32 = 9;
/// A shared listing for which nobody asked for this long is forgotten.
const KEPT_UNUSED: Duration = Duration::from_secs(30);

/// Which members are asked for; empty lists ask for all.
#[derive(Debug, Default)]
pub(super) struct Selection {
    pub(super) statuses: Vec<&'static str>,
    pub(super) tags: Vec<TagFilter>,
    pub(super) nodes: Vec<NodeId>,
}

impl Selection {
    fn admits(&self, entry: &Entry) -> bool {
        let is_listed = match self.statuses.as_slice() {
            // Those that left are history: they are shown to whoever asks for them.
            [] => !matches!(entry.status, Status::Left(_)),
            asked => asked.contains(&entry.status.name()),
        };
        is_listed
            && (self.nodes.is_empty() || self.nodes.contains(&entry.id))
            && self.tags.iter().all(|tag| tag.admits(&entry.tags))
    }
}

/// All members at one position.
#[derive(Debug)]
pub(super) struct Listing {
    /// The last event that it contains.
    pub(super) sequence: u64,
    built_at: Instant,
    bytes: usize,
    /// `None` once it was revoked.
    content: RwLock<Option<Content>>,
}

#[derive(Debug)]
struct Content {
    /// The members' objects, one after the other.
    json: Vec<u8>,
    entries: Vec<Entry>,
}

/// What is asked about one member, and where its object ends.
#[derive(Debug)]
struct Entry {
    end: usize,
    id: NodeId,
    status: Status,
    tags: Tags,
}

/// A listing was taken away while it was read: too slowly, in a view that changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer was read too slowly, and its memory was needed")]
pub(super) struct Revoked;

impl Listing {
    /// Writes the members down; `expected` is about how many bytes they take.
    pub(super) fn new(snapshot: Snapshot, expected: usize) -> Self {
        let mut json = Vec::with_capacity(expected);
        let mut entries = Vec::with_capacity(snapshot.members.len());
        for member in snapshot.members {
            // This shape has nothing that could fail to be written, see the tests of `json`.
            let _ = serde_json::to_writer(&mut json, &json::Member::from(&member));
            entries.push(Entry { end: json.len(), id: member.id, status: member.status, tags: member.tags });
        }
        json.shrink_to_fit();
        let bytes = json.len();
        let content = RwLock::new(Some(Content { json, entries }));
        Self { sequence: snapshot.sequence, built_at: Instant::now(), bytes, content }
    }

    /// The selected members as a JSON list between `head` and `tail`.
    pub(super) fn pages(self: &Arc<Self>, selection: Selection, head: &str, tail: &'static str) -> Pages {
        let open = format!("{head}[").into_bytes();
        Pages { listing: Arc::clone(self), selection, at: 0, open: Some(open), is_first: true, tail: Some(tail) }
    }

    fn revoke(&self) {
        let content = self.content.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(content);
    }
}

/// One reader's way through a listing. It ends after an error.
#[derive(Debug)]
pub(super) struct Pages {
    listing: Arc<Listing>,
    selection: Selection,
    /// The next member to look at.
    at: usize,
    open: Option<Vec<u8>>,
    is_first: bool,
    /// `None` at the end.
    tail: Option<&'static str>,
}

impl Pages {
    /// All at once, of a listing that nobody else knows, so that nobody takes it away.
    pub(super) fn whole(self) -> Vec<u8> {
        let mut whole = Vec::new();
        self.map_while(Result::ok).for_each(|page| whole.extend_from_slice(&page));
        whole
    }
}

impl Iterator for Pages {
    type Item = Result<Bytes, Revoked>;

    fn next(&mut self) -> Option<Self::Item> {
        self.tail?;
        let content = self.listing.content.read().unwrap_or_else(PoisonError::into_inner);
        let Some(Content { json, entries }) = &*content else {
            self.tail = None;
            return Some(Err(Revoked));
        };
        let begin = self.at.checked_sub(1).map_or(0, |before| entries[before].end);
        let mut page = self.open.take().unwrap_or_default();
        page.reserve((json.len() - begin).min(PAGE_BYTES + PAGE_BYTES / 16));
        loop {
            let looked_at = entries.len().min(self.at + MEMBERS_PER_PAGE);
            while self.at < looked_at && page.len() < PAGE_BYTES {
                let entry = &entries[self.at];
                if self.selection.admits(entry) {
                    let start = self.at.checked_sub(1).map_or(0, |before| entries[before].end);
                    if !std::mem::take(&mut self.is_first) {
                        page.push(b',');
                    }
                    page.extend_from_slice(&json[start..entry.end]);
                }
                self.at += 1;
            }
            if self.at == entries.len() {
                let tail = self.tail.take().unwrap_or_default();
                page.push(b']');
                page.extend_from_slice(tail.as_bytes());
            }
            if !page.is_empty() {
                page.shrink_to_fit();
                return Some(Ok(page.into()));
            }
        }
    }
}

/// Where members come from.
pub(super) trait Source: Send + Sync + 'static {
    /// The number of the newest event.
    fn position(&self) -> u64;
    /// All members at one position.
    fn snapshot(&self) -> Snapshot;
}

impl Source for Agent {
    fn position(&self) -> u64 {
        self.subscribe().position()
    }

    fn snapshot(&self) -> Snapshot {
        self.subscribe_from_snapshot().0
    }
}

/// The shared listings of a large view.
#[derive(Debug)]
pub(super) struct Listings<S = Agent> {
    source: S,
    state: Mutex<State>,
    /// Changes when a build has ended.
    built: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    current: Option<Arc<Listing>>,
    /// Those that are still read, oldest first.
    older: VecDeque<Weak<Listing>>,
    is_building: bool,
    may_build_at: Option<Instant>,
    asked_at: Option<Instant>,
    revoked: u64,
}

/// The answer to somebody who asks for a listing.
enum Advice {
    Take(Arc<Listing>),
    Build,
    Wait(Option<Instant>),
}

impl State {
    /// Whether one more may exist, once the oldest are revoked that had their time.
    fn make_room(&mut self, now: Instant) -> bool {
        self.older.retain(|listing| listing.strong_count() > 0);
        let expected = self.current.as_ref().map_or(0, |current| current.bytes);
        loop {
            let Some(oldest) = self.older.front() else { return true };
            let Some(oldest) = oldest.upgrade() else {
                self.older.pop_front();
                continue;
            };
            let older: usize = self.older.iter().filter_map(Weak::upgrade).map(|listing| listing.bytes).sum();
            let count = self.older.len() + usize::from(self.current.is_some()) + 1;
            if count <= MAX_LISTINGS && older + 2 * expected <= MAX_LISTED_BYTES {
                return true;
            }
            if now < oldest.built_at + MIN_READ_TIME {
                return false;
            }
            oldest.revoke();
            self.older.pop_front();
            self.revoked += 1;
        }
    }

    fn advise(&mut self, now: Instant, position: u64, at_least: u64) -> Advice {
        self.asked_at = Some(now);
        let current = self.current.clone().filter(|current| current.sequence >= at_least);
        let is_good = |current: &Arc<Listing>| current.sequence == position && now <= current.built_at + MAX_AGE;
        if let Some(current) = current.as_ref().filter(|current| is_good(current)) {
            return Advice::Take(Arc::clone(current));
        }
        if self.is_building {
            return Advice::Wait(None);
        }
        let rests_until = self.may_build_at.filter(|at| now < *at);
        if rests_until.is_none() && self.make_room(now) {
            self.is_building = true;
            return Advice::Build;
        }
        match current {
            Some(current) => Advice::Take(current),
            // Without a time it waits for room, which is there when the oldest had its time at the latest.
            None => Advice::Wait(rests_until.or(Some(now + MAX_AGE))),
        }
    }

    fn built(&mut self, listing: Option<Arc<Listing>>, now: Instant, took: Duration) {
        self.is_building = false;
        self.may_build_at = Some(now + took * REST);
        if let Some(listing) = listing {
            let before = self.current.replace(listing);
            self.older.extend(before.map(|before| Arc::downgrade(&before)));
        }
    }
}

impl<S: Source> Listings<S> {
    pub(super) fn new(source: S) -> Arc<Self> {
        Arc::new(Self { source, state: Mutex::default(), built: watch::Sender::new(()) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that runs under the lock leaves it half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Listings taken away from readers that were too slow.
    pub(super) fn revoked(&self) -> u64 {
        self.state().revoked
    }

    /// A listing that contains at least the events up to `at_least`.
    pub(super) async fn get(self: &Arc<Self>, at_least: u64) -> Arc<Listing> {
        let mut built = self.built.subscribe();
        loop {
            built.mark_unchanged();
            let advice = self.state().advise(Instant::now(), self.source.position(), at_least);
            match advice {
                Advice::Take(listing) => return listing,
                // A task of its own: whoever asked may hang up.
                Advice::Build => drop(tokio::spawn(Arc::clone(self).build())),
                Advice::Wait(Some(until)) => {
                    tokio::time::sleep_until(until).await;
                    continue;
                }
                Advice::Wait(None) => {}
            }
            // The sender lives as long as `self`.
            let _ = built.changed().await;
        }
    }

    async fn build(self: Arc<Self>) {
        let mut ended = Ended { listings: Arc::clone(&self), is_done: false };
        let building = tokio::task::spawn_blocking(move || {
            let begun = std::time::Instant::now();
            let listings = &ended.listings;
            let expected = listings.state().current.as_ref().map_or(0, |current| current.bytes + PAGE_BYTES);
            let listing = Arc::new(Listing::new(listings.source.snapshot(), expected));
            ended.with(Arc::clone(&listing), begun.elapsed());
            listing
        });
        let Ok(listing) = building.await else { return };
        // A strong one would count as a reader for as long as this task waits.
        let listing = {
            let strong = listing;
            Arc::downgrade(&strong)
        };
        loop {
            tokio::time::sleep(KEPT_UNUSED).await;
            let mut state = self.state();
            let is_current = state.current.as_ref().is_some_and(|current| Arc::as_ptr(current) == listing.as_ptr());
            if !is_current {
                return;
            }
            if state.asked_at.is_none_or(|asked| asked.elapsed() >= KEPT_UNUSED) {
                let current = state.current.take();
                state.older.extend(current.map(|current| Arc::downgrade(&current)));
                return;
            }
        }
    }
}

/// Says that a build has ended, however it did.
struct Ended<S: Source> {
    listings: Arc<Listings<S>>,
    /// The listing is there. From then on another build may be under way, which is not this one's to end.
    is_done: bool,
}

impl<S: Source> Ended<S> {
    fn with(&mut self, listing: Arc<Listing>, took: Duration) {
        self.listings.state().built(Some(listing), Instant::now(), took);
        self.is_done = true;
    }
}

impl<S: Source> Drop for Ended<S> {
    fn drop(&mut self) {
        if !self.is_done {
            // It failed, which is a bug of ours: not again at once.
            self.listings.state().built(None, Instant::now(), MAX_AGE);
        }
        self.listings.built.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::Member;
    use crate::core::{LeaveReason, Profile, Run};

    fn member(index: usize, status: Status) -> Member {
        Member {
            id: NodeId::new(&format!("n{index:05}")).expect("a name"),
            run: Run(1),
            incarnation: 1,
            status,
            address: "10.0.0.1:7117".parse().expect("an address"),
            api_address: None,
            tags: Tags::new([("zone".to_owned(), format!("z{}", index % 3))].into()).expect("tags"),
            timing: Profile::Default.settings().timing().expect("valid"),
            version: "0.1.0".to_owned(),
            since: std::time::SystemTime::UNIX_EPOCH,
            last_heard: None,
            rtt: None,
            is_me: false,
            method: None,
        }
    }

    /// A view of some members that can be changed, and counts how often it was copied.
    #[derive(Clone)]
    struct View(Arc<(AtomicU64, AtomicU64, usize)>);

    impl View {
        fn of(members: usize) -> Self {
            Self(Arc::new((AtomicU64::new(0), AtomicU64::new(0), members)))
        }

        fn change(&self) {
            self.0.0.fetch_add(1, Ordering::Relaxed);
        }

        fn copies(&self) -> u64 {
            self.0.1.load(Ordering::Relaxed)
        }
    }

    impl Source for View {
        fn position(&self) -> u64 {
            self.0.0.load(Ordering::Relaxed)
        }

        fn snapshot(&self) -> Snapshot {
            self.0.1.fetch_add(1, Ordering::Relaxed);
            let members = (0..self.0.2).map(|index| member(index, Status::Up)).collect();
            Snapshot { sequence: self.position(), members }
        }
    }

    fn text(pages: Pages) -> String {
        String::from_utf8(pages.whole()).expect("text")
    }

    fn listing(members: Vec<Member>) -> Arc<Listing> {
        Arc::new(Listing::new(Snapshot { sequence: 7, members }, 0))
    }

    #[test]
    fn its_pages_are_the_list_of_its_members() {
        for count in [0, 1, 2, 1_000, 10_000] {
            let members: Vec<_> = (0..count).map(|index| member(index, Status::Up)).collect();
            let expected = members.iter().map(json::Member::from).collect::<Vec<_>>();
            let expected = serde_json::to_string(&expected).expect("JSON");
            let listing = listing(members);
            assert_eq!(text(listing.pages(Selection::default(), "", "")), expected);
            assert_eq!(text(listing.pages(Selection::default(), "x", "}\n")), format!("x{expected}}}\n"));
            let longest = listing.pages(Selection::default(), "", "").map(|page| page.expect("there").len()).max();
            assert!(longest.is_some_and(|bytes| bytes < PAGE_BYTES + 1_000), "{longest:?}");
        }
    }

    #[test]
    fn what_was_not_asked_for_is_left_out() {
        let left = Status::Left(LeaveReason::Graceful);
        let statuses = [Status::Up, left, Status::Down];
        let listing = listing((0..9_000).map(|index| member(index, statuses[index / 3_000])).collect());
        let count = |selection: Selection| {
            let list = text(listing.pages(selection, "", ""));
            let list: Vec<json::Member> = serde_json::from_str(&list).expect("a list");
            assert!(list.is_sorted_by(|a, b| a.id < b.id));
            list.len()
        };
        let tag = || vec![TagFilter::exact("zone", "z1")];
        assert_eq!(count(Selection::default()), 6_000, "without those that left");
        assert_eq!(count(Selection { statuses: vec!["left", "down"], ..Selection::default() }), 6_000);
        assert_eq!(count(Selection { tags: tag(), ..Selection::default() }), 2_000);
        assert_eq!(count(Selection { statuses: vec!["left"], tags: tag(), ..Selection::default() }), 1_000);
        let nodes = ["n08999", "n04000", "nobody"].map(|name| NodeId::new(name).expect("a name")).to_vec();
        assert_eq!(count(Selection { nodes, ..Selection::default() }), 1);
        assert_eq!(count(Selection { statuses: vec!["joining"], ..Selection::default() }), 0);
    }

    #[test]
    fn a_revoked_listing_ends_its_readers_with_an_error_and_frees_its_memory() {
        let listing = listing((0..1_000).map(|index| member(index, Status::Up)).collect());
        let mut reader = listing.pages(Selection::default(), "", "");
        assert!(reader.next().is_some_and(|page| page.is_ok()));
        listing.revoke();
        assert_eq!(reader.next(), Some(Err(Revoked)));
        assert_eq!(reader.next(), None);
        assert!(listing.content.read().expect("not poisoned").is_none());
    }

    #[tokio::test]
    async fn many_readers_share_one_build() {
        let view = View::of(10_000);
        let listings = Listings::new(view.clone());
        let readers: Vec<_> = (0..200)
            .map(|_| {
                let listings = Arc::clone(&listings);
                tokio::spawn(async move { listings.get(0).await })
            })
            .collect();
        let mut seen = Vec::new();
        for reader in readers {
            seen.push(reader.await.expect("no panic"));
        }
        assert!(seen.iter().all(|listing| Arc::ptr_eq(listing, &seen[0])));
        assert_eq!(view.copies(), 1);
        // Whoever hangs up in the middle leaves the build to the others.
        view.change();
        drop(tokio::time::timeout(Duration::ZERO, listings.get(1)).await);
        assert_eq!(listings.get(1).await.sequence, 1);
        assert_eq!(view.copies(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn listings_that_nobody_reads_any_more_keep_no_newer_one_from_being_built() {
        let view = View::of(1);
        let listings = Listings::new(view.clone());
        for change in 1..=3 * MAX_LISTINGS as u64 {
            view.change();
            tokio::time::sleep(MAX_AGE * 2).await;
            assert_eq!(listings.get(0).await.sequence, change);
        }
        assert_eq!(listings.revoked(), 0);
    }

    #[test]
    fn after_a_build_comes_a_rest_nine_times_as_long() {
        let took = Duration::from_millis(100);
        let begun = Instant::now();
        let mut state = State::default();
        assert!(matches!(state.advise(begun, 1, 0), Advice::Build));
        assert!(matches!(state.advise(begun, 1, 0), Advice::Wait(None)), "one at a time");
        let first = Arc::new(Listing { sequence: 1, ..Listing::new(Snapshot { sequence: 1, members: Vec::new() }, 0) });
        state.built(Some(first), begun, took);
        let mut at = |after: Duration, position, at_least| state.advise(begun + after, position, at_least);
        assert!(matches!(at(took, 1, 0), Advice::Take(_)), "nothing has changed");
        assert!(matches!(at(took, 2, 0), Advice::Take(_)), "something has, and it is good enough");
        assert!(matches!(at(took, 2, 2), Advice::Wait(Some(_))), "unless more was asked for");
        assert!(matches!(at(took * (REST - 1), 2, 0), Advice::Take(_)));
        assert!(matches!(at(took * REST, 2, 0), Advice::Build));
    }

    #[test]
    fn ages_get_no_older_than_the_bound_although_nothing_changes() {
        let now = Instant::now();
        let mut state = State::default();
        state.built(Some(listing(Vec::new())), now, Duration::ZERO);
        assert!(matches!(state.advise(now + MAX_AGE, 7, 0), Advice::Take(_)));
        assert!(matches!(state.advise(now + MAX_AGE + Duration::from_millis(1), 7, 0), Advice::Build));
    }

    #[test]
    fn no_more_listings_exist_than_the_bound_and_the_oldest_goes_when_it_had_its_time() {
        let now = Instant::now();
        let mut state = State::default();
        let mut held = Vec::new();
        for _ in 1..MAX_LISTINGS {
            assert!(state.make_room(now));
            let listing = listing((0..3).map(|index| member(index, Status::Up)).collect());
            held.push(Arc::clone(&listing));
            state.built(Some(listing), now, Duration::ZERO);
        }
        assert!(state.make_room(now), "the last one");
        let last = listing(Vec::new());
        held.push(Arc::clone(&last));
        state.built(Some(last), now, Duration::ZERO);
        assert!(!state.make_room(now), "all are being read");
        assert!(matches!(state.advise(now, 9, 0), Advice::Take(_)), "what there is must do");
        let late = now + MIN_READ_TIME + MAX_AGE;
        assert!(state.make_room(late));
        assert_eq!(state.revoked, 1);
        assert_eq!(held[0].pages(Selection::default(), "", "").next(), Some(Err(Revoked)));
        assert!(held[1].pages(Selection::default(), "", "").next().is_some_and(|page| page.is_ok()));
        held.clear();
        assert!(state.make_room(now), "nobody reads them any more");
        assert_eq!(state.revoked, 1);
    }

    #[test]
    fn large_listings_are_bounded_by_their_bytes_and_one_is_always_possible() {
        let now = Instant::now();
        let large =
            |bytes| Arc::new(Listing { bytes, ..Listing::new(Snapshot { sequence: 1, members: Vec::new() }, 0) });
        let mut state = State::default();
        let first = large(MAX_LISTED_BYTES);
        state.built(Some(Arc::clone(&first)), now, Duration::ZERO);
        assert!(state.make_room(now), "however large");
        state.built(Some(large(MAX_LISTED_BYTES)), now, Duration::ZERO);
        assert!(!state.make_room(now));
        drop(first);
        assert!(state.make_room(now));
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_asks_for_is_forgotten() {
        let listings = Listings::new(View::of(100));
        let held = Arc::downgrade(&listings.get(0).await);
        tokio::time::sleep(KEPT_UNUSED / 2).await;
        assert!(held.strong_count() > 0);
        tokio::time::sleep(KEPT_UNUSED * 2).await;
        assert_eq!(held.strong_count(), 0);
        assert!(listings.state().current.is_none());
    }

    #[test]
    fn a_build_that_has_ended_does_not_end_the_next_one() {
        let view = View::of(3);
        let listings = Listings::new(view.clone());
        let advise = || listings.state().advise(Instant::now(), view.position(), view.position());
        assert!(matches!(advise(), Advice::Build));
        let mut ended = Ended { listings: Arc::clone(&listings), is_done: false };
        ended.with(Arc::new(Listing::new(view.snapshot(), 0)), Duration::ZERO);
        view.change();
        assert!(matches!(advise(), Advice::Build), "the next one");
        drop(ended);
        assert!(matches!(advise(), Advice::Wait(None)), "one at a time");
    }

    #[tokio::test]
    async fn a_build_that_fails_is_tried_again() {
        struct Fragile(AtomicU64);
        impl Source for Fragile {
            fn position(&self) -> u64 {
                0
            }
            fn snapshot(&self) -> Snapshot {
                assert!(self.0.fetch_add(1, Ordering::Relaxed) > 0, "the first time");
                Snapshot { sequence: 0, members: Vec::new() }
            }
        }
        tokio::time::pause();
        let listings = Listings::new(Fragile(AtomicU64::new(0)));
        assert_eq!(listings.get(0).await.sequence, 0);
    }
}
