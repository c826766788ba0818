//! Recent times of keys: who had a turn lately, and how many turns there were, bounded in memory by construction.
//!
//! Must not know: whose turn it is, or for what.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::time::Time;

/// The last time of each key, in two generations: so many keys are remembered for an interval at least, and as many before
/// them. If there are more, the first ones are forgotten: nobody waits because of others.
#[derive(Debug, Clone)]
pub(crate) struct Recent<K> {
    interval: Duration,
    most: usize,
    began: Option<Time>,
    lately: BTreeMap<K, Time>,
    before: BTreeMap<K, Time>,
}

impl<K: Ord> Recent<K> {
    pub(crate) fn new(interval: Duration, most: usize) -> Self {
        Self { interval, most, began: None, lately: BTreeMap::new(), before: BTreeMap::new() }
    }

    /// Returns the time that a key was set to.
    pub(crate) fn get(&self, key: &K) -> Option<Time> {
        self.lately.get(key).or_else(|| self.before.get(key)).copied()
    }

    pub(crate) fn set(&mut self, now: Time, key: K, at: Time) {
        let is_full = self.lately.len() >= self.most && !self.lately.contains_key(&key);
        if !self.begin_if_over(now) && is_full {
            self.begin(now);
        }
        self.lately.insert(key, at);
    }

    /// Returns true if a key was set to a time within the interval.
    pub(crate) fn contains(&self, now: Time, key: &K) -> bool {
        self.get(key).is_some_and(|at| now.since(at) < self.interval)
    }

    /// Sets a key to now, unless that was done within the interval; returns true if it does.
    pub(crate) fn take(&mut self, now: Time, key: K) -> bool {
        let is_its_turn = !self.contains(now, &key);
        if is_its_turn {
            self.set(now, key, now);
        }
        is_its_turn
    }

    /// Returns the number of entries.
    pub(crate) fn size(&self) -> usize {
        self.lately.len() + self.before.len()
    }

    /// Returns the number of keys that were set in this interval.
    pub(crate) fn lately(&self) -> usize {
        self.lately.len()
    }

    /// Begins the next interval if this one is over; returns true if it was.
    pub(crate) fn begin_if_over(&mut self, now: Time) -> bool {
        let is_over = self.began.is_none_or(|began| now.since(began) >= self.interval);
        if is_over {
            self.begin(now);
        }
        is_over
    }

    fn begin(&mut self, now: Time) {
        self.before = std::mem::take(&mut self.lately);
        self.began = Some(now);
    }
}

/// A number that is counted anew in each interval: the next one begins with the first look after the last one is over.
#[derive(Debug, Clone, Default)]
pub(crate) struct PerInterval {
    began: Option<Time>,
    count: u32,
}

impl PerInterval {
    /// Returns true if no interval is under way.
    pub(crate) fn is_over(&self, now: Time, interval: Duration) -> bool {
        self.began.is_none_or(|began| now.since(began) >= interval)
    }

    /// Begins the next interval if this one is over; returns true if it was.
    pub(crate) fn begin_if_over(&mut self, now: Time, interval: Duration) -> bool {
        let is_over = self.is_over(now, interval);
        if is_over {
            (self.began, self.count) = (Some(now), 0);
        }
        is_over
    }

    /// Counts one more, unless there were `most` in this interval; returns true if it does.
    pub(crate) fn take(&mut self, now: Time, interval: Duration, most: u32) -> bool {
        self.begin_if_over(now, interval);
        let is_left = self.count < most;
        self.count += u32::from(is_left);
        is_left
    }

    /// Returns the time of the next one, which is now or when the next interval begins; counts it if it is now.
    pub(crate) fn next(&mut self, now: Time, interval: Duration, most: u32) -> Time {
        if self.take(now, interval, most) { now } else { self.began.unwrap_or(now) + interval }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_its_turn_once_in_an_interval_however_many_there_are() {
        let interval = Duration::from_secs(1);
        let mut recent = Recent::new(interval, 100);
        let mut now = Time::ORIGIN;
        for _ in 0..2 {
            assert!((0..200).all(|port| recent.take(now, port)));
            assert!((0..200).all(|port| !recent.take(now, port)));
            assert!((0..500).all(|port| recent.take(now, 10_000 + port)), "the first ones are forgotten");
            assert!(recent.size() <= 200);
            now = now + interval;
        }
    }

    #[test]
    fn so_many_are_counted_in_an_interval_and_the_next_one_is_at_its_end() {
        let (interval, mut counted) = (Duration::from_secs(1), PerInterval::default());
        let (first, next) = (Time::ORIGIN, Time::ORIGIN + interval);
        for start in [first, next] {
            let late = start + Duration::from_millis(999);
            assert!(counted.take(start, interval, 3) && counted.take(late, interval, 3));
            assert_eq!(counted.next(late, interval, 3), late);
            assert_eq!(counted.next(late, interval, 3), start + interval);
            assert!(!counted.take(late, interval, 3) && !counted.is_over(late, interval));
        }
        assert!(counted.is_over(next + interval, interval));
    }
}
