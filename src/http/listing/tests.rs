//! Pages are the list, and the bounds of shared listings hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::PAGE_BYTES;
use super::pages::{Listing, Pages, Revoked, Selection};
use super::shared::{
    Advice, Ended, KEPT_UNUSED, Listings, MAX_AGE, MAX_LISTED_BYTES, MAX_LISTINGS, MIN_READ_TIME, REST, Source, State,
};
use crate::Member;
use crate::core::{LeaveReason, NodeId, Profile, Run, Status, Tags};
use crate::http::query::TagFilter;
use crate::json;

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
        heard_interval: None,
        last_sent: None,
        sent_interval: None,
        rtt: None,
        draining: false,
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

    fn list(&self) -> Listing {
        self.0.1.fetch_add(1, Ordering::Relaxed);
        Listing::new(self.position(), (0..self.0.2).map(|index| member(index, Status::Up)))
    }
}

fn text(pages: Pages) -> String {
    String::from_utf8(pages.whole()).expect("text")
}

fn listing(members: Vec<Member>) -> Arc<Listing> {
    Arc::new(Listing::new(7, members))
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
    assert_eq!(count(Selection { nodes: nodes.into(), ..Selection::default() }), 1);
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
    let first = Arc::new(Listing { sequence: 1, ..Listing::new(1, []) });
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
    let large = |bytes| Arc::new(Listing { bytes, ..Listing::new(1, []) });
    let mut state = State::default();
    let first = large(MAX_LISTED_BYTES);
    state.built(Some(Arc::clone(&first)), now, Duration::ZERO);
    assert!(state.make_room(now), "however large");
    state.built(Some(large(MAX_LISTED_BYTES)), now, Duration::ZERO);
    assert!(!state.make_room(now));
    drop(first);
    assert!(state.make_room(now));
}

#[test]
fn a_large_listing_that_nobody_reads_is_forgotten_when_the_next_one_is_built() {
    let now = Instant::now();
    let stays = |bytes, is_read| {
        let listing = Arc::new(Listing { bytes, ..Listing::new(1, []) });
        let reader = Arc::clone(&listing);
        let mut state = State::default();
        state.built(Some(listing), now, Duration::ZERO);
        let reader = Some(reader).filter(|_| is_read);
        assert!(matches!(state.advise(now, 2, 0), Advice::Build));
        drop(reader);
        state.current.is_some()
    };
    let large = MAX_LISTED_BYTES / 2 + 1;
    assert!(!stays(large, false));
    assert!(stays(large, true) && stays(large - 1, false));
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
    ended.with(Arc::new(view.list()), Duration::ZERO);
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
        fn list(&self) -> Listing {
            assert!(self.0.fetch_add(1, Ordering::Relaxed) > 0, "the first time");
            Listing::new(0, [])
        }
    }
    tokio::time::pause();
    let listings = Listings::new(Fragile(AtomicU64::new(0)));
    assert_eq!(listings.get(0).await.sequence, 0);
}
