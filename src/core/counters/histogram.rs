//! [`Histogram`]: durations, counted in buckets.
//!
//! Invariant: the bounds are the same for every histogram and at every node, so that histograms of many nodes can be
//! added.

use std::time::Duration;

/// Durations, counted in buckets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; Self::BOUNDS.len() + 1],
    /// The sum of all durations.
    pub sum: Duration,
    /// The greatest duration of all.
    pub max: Duration,
}

impl Histogram {
    /// Upper bounds of the buckets, inclusive; there is one more bucket for all durations above.
    pub const BOUNDS: [Duration; 18] = [
        Duration::from_micros(500),
        Duration::from_millis(1),
        Duration::from_micros(2_500),
        Duration::from_millis(5),
        Duration::from_millis(10),
        Duration::from_millis(25),
        Duration::from_millis(50),
        Duration::from_millis(100),
        Duration::from_millis(250),
        Duration::from_millis(500),
        Duration::from_secs(1),
        Duration::from_millis(2_500),
        Duration::from_secs(5),
        Duration::from_secs(10),
        Duration::from_secs(15),
        Duration::from_secs(20),
        Duration::from_secs(30),
        Duration::from_secs(60),
    ];

    pub(crate) fn observe(&mut self, duration: Duration) {
        let bucket = Self::BOUNDS.iter().position(|bound| duration <= *bound).unwrap_or(Self::BOUNDS.len());
        self.counts[bucket] += 1;
        self.sum = self.sum.saturating_add(duration);
        self.max = self.max.max(duration);
    }

    /// Returns the number of durations in each bucket, not cumulative; the last is for those above all bounds.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Returns the number of all durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_in_buckets_with_inclusive_bounds() {
        let mut histogram = Histogram::default();
        for ms in [0, 1, 2, 3, 100, 60_000, 60_001] {
            histogram.observe(Duration::from_millis(ms));
        }
        assert_eq!(histogram.counts(), [1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!((histogram.count(), histogram.sum.as_millis(), histogram.max.as_millis()), (7, 120_107, 60_001));
    }

    #[test]
    fn bounds_grow() {
        assert!(Histogram::BOUNDS.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
