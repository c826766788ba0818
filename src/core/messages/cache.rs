//! The cache: broadcasts kept to be sent on, and the numbers by which copies of them are recognised, by origin.
//!
//! Invariants:
//! - An origin's window is forgotten only when nothing new came of it for [`ORIGIN_MEMORY`]: whatever it has seen is
//!   too old by then.
//! - At most [`MAX_ORIGINS`] windows, [`MAX_UNKNOWN_ORIGINS`] of them of origins that are no members; a further origin is not
//!   heard until one is forgotten.
//! - Kept broadcasts are bounded in number and bytes; the oldest give way, and are not repaired any more. A program
//!   that broadcasts faster than members can fetch is told to wait instead.
//!
//! Must not know: how messages reach others.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::Numbers;
use crate::envelope::{MessageId, Payload, Topic};
use crate::limits::{
    BROADCAST_LIFE, FETCH_TIME, MAX_FLOODED_PAYLOAD, MAX_KEPT_BYTES, MAX_KEPT_MESSAGES, MAX_KEPT_OWN_BYTES,
    MAX_NUMBERS_AHEAD, MAX_ORIGINS, MAX_UNKNOWN_ORIGINS, ORIGIN_MEMORY,
};
use crate::member::Run;
use crate::time::Time;
use crate::window::Window;
use crate::wire::{Broadcast, Span};

/// All origins of which a broadcast was heard lately, with their kept broadcasts.
#[derive(Debug, Clone, Default)]
pub(super) struct Cache {
    origins: BTreeMap<Run, Origin>,
    /// Kept broadcasts that began here: those of others do not displace them.
    own: Stock,
    /// Kept broadcasts of other origins.
    others: Stock,
}

/// Kept broadcasts in the order in which they came.
#[derive(Debug, Clone, Default)]
struct Stock {
    order: VecDeque<MessageId>,
    bytes: usize,
}

#[derive(Debug, Clone)]
pub(super) struct Origin {
    /// The numbers seen of this origin; `None` for this node itself, which knows what it sent.
    window: Option<Numbers>,
    /// The time at which a new number of this origin came last.
    fresh_at: Time,
    pub(super) kept: BTreeMap<u64, Kept>,
}

impl Origin {
    fn new(window: Option<Numbers>, now: Time) -> Self {
        Self { window, fresh_at: now, kept: BTreeMap::new() }
    }
}

/// A broadcast that others may want.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) topic: Topic,
    pub(super) payload: Payload,
    /// The time at which the broadcast arrived here, or began here.
    pub(super) since: Time,
    /// The age of the broadcast when it arrived here; zero if it began here.
    pub(super) age_here: Duration,
    /// The member that it came from; `None` if it began here.
    pub(super) from: Option<Run>,
}

impl Kept {
    /// Returns true if the payload is too large to be flooded in datagrams.
    pub(super) fn is_large(&self) -> bool {
        self.payload.len() > MAX_FLOODED_PAYLOAD
    }

    /// Returns the time since the origin sent the broadcast, without its time on the wire.
    pub(super) fn age(&self, now: Time) -> Duration {
        self.age_here + now.since(self.since)
    }
}

impl Cache {
    pub(super) fn size(&self) -> usize {
        self.origins.len() + self.own.order.len() + self.others.order.len()
    }

    /// Returns true if a broadcast is kept that others may lack.
    pub(super) fn is_any_kept(&self) -> bool {
        self.stocks().any(|stock| !stock.order.is_empty())
    }

    /// Returns true if a kept broadcast arrived less than `within` ago.
    pub(super) fn is_newer_than(&self, now: Time, within: Duration) -> bool {
        let mut newest = self.stocks().filter_map(|stock| self.kept(*stock.order.back()?));
        newest.any(|kept| now.since(kept.since) < within)
    }

    pub(super) fn kept(&self, id: MessageId) -> Option<&Kept> {
        self.origins.get(&id.run)?.kept.get(&id.number())
    }

    /// Returns the kept broadcasts of this span.
    pub(super) fn kept_in(&self, span: Span) -> impl Iterator<Item = MessageId> {
        let kept = self.origins.get(&span.run).map(|origin| origin.kept.range(span.first..=span.last));
        kept.into_iter().flatten().map(move |(number, _)| MessageId::broadcast(span.run, *number))
    }

    /// Returns the message that carries a kept broadcast to others, with its age by now in whole milliseconds: rounded
    /// up, it would seem said before a node that came Up a moment ago.
    pub(super) fn message(&self, id: MessageId, now: Time) -> Option<Broadcast> {
        let kept = self.kept(id)?;
        let age_ms = kept.age(now).as_millis() as u64;
        let (topic, payload) = (kept.topic.clone(), kept.payload.clone());
        Some(Broadcast { run: id.run, number: id.number(), age_ms, topic, payload })
    }

    /// Returns the origins with kept broadcasts in the order of runs, from the one behind `after` round to `after`
    /// itself.
    pub(super) fn origins_after(&self, after: Run) -> impl Iterator<Item = (Run, &Origin)> {
        let later = self.origins.range((std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded));
        let all = later.chain(self.origins.range(..=after));
        all.filter(|(_, origin)| !origin.kept.is_empty()).map(|(run, origin)| (*run, origin))
    }

    /// Returns true if a number is new to its origin's window, and not farther ahead of it than an origin says anything; a
    /// number of an origin without a window is new.
    pub(super) fn is_new(&self, run: Run, number: u64) -> bool {
        let window = self.origins.get(&run).and_then(|origin| origin.window.as_ref());
        let is_near = |window: &Numbers| number.saturating_sub(window.highest()) <= MAX_NUMBERS_AHEAD;
        window.is_none_or(|window| window.judge(number).is_new() && is_near(window))
    }

    /// Marks a number as seen; returns false if it was seen before. The table must have room for its origin.
    pub(super) fn mark(&mut self, run: Run, number: u64, now: Time) -> bool {
        let origin =
            self.origins.entry(run).or_insert_with(|| Origin::new(Some(Box::new(Window::around(number))), now));
        origin.fresh_at = now;
        origin.window.as_mut().is_none_or(|window| window.accept(number))
    }

    /// Returns true if this origin has a place in the table, or can get one.
    pub(super) fn make_room_for(&mut self, run: Run, now: Time) -> bool {
        if self.origins.contains_key(&run) {
            return true;
        }
        if self.origins.len() >= MAX_ORIGINS {
            self.forget_origins(now);
        }
        self.origins.len() < MAX_ORIGINS
    }

    /// Returns true if this origin, which is no member, has a place in the table, or can get one.
    pub(super) fn make_room_for_unknown(&mut self, run: Run, now: Time, is_known: impl Fn(Run) -> bool) -> bool {
        let is_full = |cache: &Self| cache.origins.keys().filter(|run| !is_known(**run)).count() >= MAX_UNKNOWN_ORIGINS;
        if !self.origins.contains_key(&run) && is_full(self) {
            self.forget_origins(now);
            if is_full(self) {
                return false;
            }
        }
        self.make_room_for(run, now)
    }

    fn stocks(&self) -> impl Iterator<Item = &Stock> {
        [&self.own, &self.others].into_iter()
    }

    /// Returns true if `bytes` more of this node's own broadcasts can only be kept by dropping one that members may
    /// still be fetching.
    pub(super) fn is_ahead(&self, bytes: usize, now: Time) -> bool {
        let oldest = self.oldest(&self.own);
        self.own.bytes + bytes > MAX_KEPT_OWN_BYTES && oldest.is_some_and(|since| now.since(since) < FETCH_TIME)
    }

    /// Returns the time at which the oldest broadcast of a stock came.
    fn oldest(&self, stock: &Stock) -> Option<Time> {
        stock.order.front().and_then(|id| self.kept(*id)).map(|kept| kept.since)
    }

    /// Keeps a broadcast; returns the number of older ones that give way, which some members may lack.
    pub(super) fn keep(&mut self, id: MessageId, kept: Kept) -> u64 {
        let is_own = kept.from.is_none();
        let stock = if is_own { &mut self.own } else { &mut self.others };
        stock.bytes += kept.payload.len();
        stock.order.push_back(id);
        let since = kept.since;
        let origin = self.origins.entry(id.run).or_insert_with(|| Origin::new(None, since));
        origin.fresh_at = since;
        origin.kept.insert(id.number(), kept);
        let mut dropped = 0;
        while self.own.bytes > MAX_KEPT_OWN_BYTES {
            self.drop_oldest(true);
            dropped += 1;
        }
        while self.others.bytes > MAX_KEPT_BYTES {
            self.drop_oldest(false);
            dropped += 1;
        }
        while self.own.order.len() + self.others.order.len() > MAX_KEPT_MESSAGES {
            let is_own = match (self.oldest(&self.own), self.oldest(&self.others)) {
                (Some(own), Some(others)) => own <= others,
                (own, _) => own.is_some(),
            };
            self.drop_oldest(is_own);
            dropped += 1;
        }
        dropped
    }

    fn drop_oldest(&mut self, is_own: bool) {
        let stock = if is_own { &mut self.own } else { &mut self.others };
        let Some(id) = stock.order.pop_front() else { return };
        if let Some(kept) = self.origins.get_mut(&id.run).and_then(|origin| origin.kept.remove(&id.number())) {
            stock.bytes -= kept.payload.len();
        }
    }

    /// Drops the broadcasts kept for [`BROADCAST_LIFE`], and forgets the origins of which nothing new came for
    /// [`ORIGIN_MEMORY`].
    pub(super) fn expire(&mut self, now: Time) {
        for is_own in [true, false] {
            let oldest = |cache: &Self| cache.oldest(if is_own { &cache.own } else { &cache.others });
            while oldest(self).is_some_and(|since| now.since(since) >= BROADCAST_LIFE) {
                self.drop_oldest(is_own);
            }
        }
        self.forget_origins(now);
    }

    fn forget_origins(&mut self, now: Time) {
        self.origins.retain(|_, origin| !origin.kept.is_empty() || now.since(origin.fresh_at) < ORIGIN_MEMORY);
    }

    /// Returns the next time at which [`Cache::expire`] has something to do.
    pub(super) fn next_end(&self) -> Option<Time> {
        let oldest = self.stocks().filter_map(|stock| self.oldest(stock)).min();
        let kept = oldest.map(|since| since + BROADCAST_LIFE);
        let forgotten = || self.origins.values().map(|origin| origin.fresh_at + ORIGIN_MEMORY).min();
        kept.or_else(forgotten)
    }
}
