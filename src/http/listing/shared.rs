//! The shared listings of a large view: built at most one at a time, and forgotten when nobody asks.
//!
//! Invariants:
//! - At most [`MAX_LISTINGS`] exist, of [`MAX_LISTED_BYTES`] together unless a single one is larger, or the last one is read
//!   while the next is built.
//! - The lock is never held across an await, nor while a listing is built.
//!
//! Must not know: selections and pages.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::pages::Listing;
use crate::Agent;

/// Shared listings that exist at one time, the one being built included.
pub const MAX_LISTINGS: usize = 4;
/// Their size together, unless a single one is larger.
pub const MAX_LISTED_BYTES: usize = 16 * 1024 * 1024;
/// A shared listing in which nothing has changed is used again for this long: its ages are that much too old then.
pub const MAX_AGE: Duration = Duration::from_millis(250);
/// A reader of a listing has this long before it is taken away for another one.
pub(super) const MIN_READ_TIME: Duration = Duration::from_secs(10);
/// Rest after building, in times of what it took.
pub(super) const REST: u32 = 9;
/// A shared listing for which nobody asked for this long is forgotten.
pub(super) const KEPT_UNUSED: Duration = Duration::from_secs(30);

/// A view whose members are listed.
pub(crate) trait Source: Send + Sync + 'static {
    /// Returns the number of the newest event.
    fn position(&self) -> u64;
    /// Writes all members at one position down.
    fn list(&self) -> Listing;
}

impl Source for Agent {
    fn position(&self) -> u64 {
        self.subscribe().position()
    }

    fn list(&self) -> Listing {
        let listed = self.listed();
        Listing::new(listed.sequence, listed.into_members())
    }
}

/// The shared listings of a large view.
#[derive(Debug)]
pub(crate) struct Listings<S = Agent> {
    source: S,
    state: Mutex<State>,
    /// Changes when a build has ended.
    built: watch::Sender<()>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) current: Option<Arc<Listing>>,
    /// Former listings that are still read, oldest first.
    older: VecDeque<Weak<Listing>>,
    is_building: bool,
    may_build_at: Option<Instant>,
    asked_at: Option<Instant>,
    pub(super) revoked: u64,
}

/// The answer to somebody who asks for a listing.
pub(super) enum Advice {
    Take(Arc<Listing>),
    Build,
    Wait(Option<Instant>),
}

impl State {
    /// Revokes the oldest that had their time; returns true if one more may exist then.
    pub(super) fn make_room(&mut self, now: Instant) -> bool {
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

    pub(super) fn advise(&mut self, now: Instant, position: u64, at_least: u64) -> Advice {
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
            // Two of this size have no room together: it stays only while somebody reads it.
            drop(current);
            self.current.take_if(|last| 2 * last.bytes > MAX_LISTED_BYTES && Arc::strong_count(last) == 1);
            return Advice::Build;
        }
        match current {
            Some(current) => Advice::Take(current),
            // Without a time it waits for room, which is there when the oldest had its time at the latest.
            None => Advice::Wait(rests_until.or(Some(now + MAX_AGE))),
        }
    }

    pub(super) fn built(&mut self, listing: Option<Arc<Listing>>, now: Instant, took: Duration) {
        self.is_building = false;
        self.may_build_at = Some(now + took * REST);
        if let Some(listing) = listing {
            let before = self.current.replace(listing);
            self.older.extend(before.map(|before| Arc::downgrade(&before)));
        }
    }
}

impl<S: Source> Listings<S> {
    pub(crate) fn new(source: S) -> Arc<Self> {
        Arc::new(Self { source, state: Mutex::default(), built: watch::Sender::new(()) })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that runs under the lock leaves it half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of listings taken away from readers that were too slow.
    pub(crate) fn revoked(&self) -> u64 {
        self.state().revoked
    }

    /// Returns a listing that contains at least the events up to `at_least`.
    pub(crate) async fn get(self: &Arc<Self>, at_least: u64) -> Arc<Listing> {
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
            let listing = Arc::new(listings.source.list());
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
pub(super) struct Ended<S: Source> {
    pub(super) listings: Arc<Listings<S>>,
    /// The listing is there. From then on another build may be under way, which is not this one's to end.
    pub(super) is_done: bool,
}

impl<S: Source> Ended<S> {
    pub(super) fn with(&mut self, listing: Arc<Listing>, took: Duration) {
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
