//! The timing of leases: the length of a lease, the interval between renewals, and the durations derived from them.
//!
//! Must not know: the leader.

use std::time::Duration;

use super::OutOfRange;

/// The longest lease.
pub const MAX_LEASE: Duration = Duration::from_secs(600);
/// The shortest lease: renewals, clocks and schedulers need room.
pub const MIN_LEASE: Duration = Duration::from_millis(500);
/// The share of its lease by which a claim ends early, in percent: safe while every clock's rate is within 1 %, since
/// then a leader's 98 % of a lease take at most 98.99 % of its true length, and a voter's 100 % at least 99.01 %.
const MARGIN_PERCENT: u32 = 2;

/// Returns the time for which a holder may count on a lease of this length, from before it asked for it.
pub fn claim_of(lease: Duration) -> Duration {
    lease * (100 - MARGIN_PERCENT) / 100
}

/// The length of leases, and the interval between renewals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseTiming {
    /// The time for which an acknowledged renewal entitles its leader, and keeps the voters that acknowledged it from
    /// voting. 500 ms–10 min. Too short: leaders are deposed by pauses. Too long: for that time there is no leader
    /// after a crash.
    pub lease_duration: Duration,
    /// The interval between a leader's renewals. Less than half of the lease.
    pub renewal_interval: Duration,
}

impl LeaseTiming {
    /// Checks both durations; the error names the key, the value and the values allowed.
    pub fn check(&self) -> Result<(), OutOfRange> {
        let Self { lease_duration, renewal_interval } = *self;
        if !(MIN_LEASE..=MAX_LEASE).contains(&lease_duration) {
            return Err(OutOfRange::new("leadership.lease_duration", lease_duration, "500ms to 10m".to_owned()));
        }
        let most = lease_duration / 2;
        if renewal_interval < Duration::from_millis(50) || renewal_interval >= most {
            let allowed = format!("50ms to less than {} (half of lease_duration)", humantime::format_duration(most));
            return Err(OutOfRange::new("leadership.renewal_interval", renewal_interval, allowed));
        }
        Ok(())
    }

    /// Returns the time for which a claim lasts after its renewal was sent.
    pub(crate) fn claim(self) -> Duration {
        claim_of(self.lease_duration)
    }

    /// Returns the time over which voters spread their first attempts, so that they seldom stand at once.
    pub fn spread(self) -> Duration {
        (self.lease_duration / 40).clamp(Duration::from_millis(50), Duration::from_millis(500))
    }

    /// Returns the time for which an answer is awaited before the question is sent again.
    pub(crate) fn retry(self) -> Duration {
        self.spread() / 2
    }

    /// Returns the time that an attempt may take.
    pub(crate) fn patience(self) -> Duration {
        self.spread() * 4
    }
}

/// A voter's preferences as a leader, beside the timing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct LeaderPolicy {
    /// The priority: a leader hands over to a voter of a higher one that has kept up for
    /// [`PREFERENCE_LEASES`](crate::limits::PREFERENCE_LEASES).
    pub priority: u8,
    /// The way in which it gives leadership up.
    pub on_resign: OnResign,
}

/// The way in which a leader gives leadership up, once its led work has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnResign {
    /// The leader releases the voters: its successor may lead within milliseconds, before the announced end of its
    /// claim.
    #[default]
    Release,
    /// The leader lets the claim run out first: no answer that a client kept outlives it, but nobody leads meanwhile.
    Expire,
}

impl OnResign {
    /// All variants.
    pub const ALL: [OnResign; 2] = [OnResign::Release, OnResign::Expire];

    /// Returns the name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            OnResign::Release => "release",
            OnResign::Expire => "expire",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_ends_before_any_promise_while_clocks_are_within_one_percent() {
        let timing = LeaseTiming { lease_duration: Duration::from_secs(15), renewal_interval: Duration::from_secs(5) };
        let slowest_claim = timing.claim().as_secs_f64() / 0.99;
        let fastest_promise = timing.lease_duration.as_secs_f64() / 1.01;
        assert!(slowest_claim < fastest_promise);
    }

    #[test]
    fn figures_out_of_range_are_named() {
        let timing = |lease, renewal| LeaseTiming {
            lease_duration: Duration::from_millis(lease),
            renewal_interval: Duration::from_millis(renewal),
        };
        assert!(timing(2_000, 500).check().is_ok());
        for (wrong, key) in [
            (timing(499, 100), "leadership.lease_duration"),
            (timing(600_001, 100), "leadership.lease_duration"),
            (timing(2_000, 1_000), "leadership.renewal_interval"),
            (timing(2_000, 49), "leadership.renewal_interval"),
        ] {
            assert!(wrong.check().expect_err("refused").to_string().contains(key));
        }
    }
}
