//! The timing of a contender: the length of leases, the time between questions to the store, and how the figures must
//! relate.
//!
//! Must not know: who leads; what a round carries.

use std::fmt;
use std::time::Duration;

use headcount_core::election::{MAX_LEASE, MIN_LEASE, claim_of};

/// The shortest pause between two renewals.
pub(super) const MIN_RENEWAL: Duration = Duration::from_millis(50);
/// The shortest time that a store may be given to answer.
pub(super) const MIN_STATEMENT_TIMEOUT: Duration = Duration::from_millis(10);
/// The longest random delay of a try after a release that is announced, or at a time that others wait for as well: so
/// not everybody asks in the same moment.
pub(super) const NOTICE_JITTER: Duration = Duration::from_millis(20);
/// The shortest pause after a failure: a store that refuses at once is not asked in a tight loop.
pub(super) const MIN_PAUSE: Duration = Duration::from_millis(10);
/// The divisor of the time that a claim has left: after a failure, a held lease is tried for again within that part.
pub(super) const TRIES_IN_WHAT_IS_LEFT: u32 = 4;
/// The divisor of the lease: a leader tells all others again with the first renewal after that part of it, so that a
/// node that came later, or that asks another database, hears of it more than once while it waits for a lease.
pub(super) const TOLD_AGAIN: u32 = 4;
/// The divisor of the lease: a newcomer listens for that part of it before it begins to lead. Longer than the
/// longest pause between two words of a leader: a renewal interval, or a quarter of the lease and a renewal interval if
/// that is shorter than a quarter of the lease.
pub(super) const LISTENS: u32 = 2;
/// The largest number of leases that others are told of again at one time; the rest follows with later renewals.
/// Members take only so many words in a second, and successions are worth more.
pub(super) const MAX_TOLD_AGAIN: usize = 16;
/// The number of times in a renewal interval that a leader proves its claim since a member contradicts it whose word
/// does not count.
pub(super) const DOUBTS_IN_RENEWAL: u32 = 4;
/// The difference between a store's clock and this node's above which it is called stepped, beside the difference that
/// bad clocks make.
pub(super) const STEP_TOLERANCE: Duration = Duration::from_secs(1);

/// The length of leases, the time between questions to the store, and the limits of silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContenderTiming {
    /// The time after which a lease that is not renewed ends. 500 ms–10 min, the same on all agents of a cluster. Too
    /// short: leaders are deposed by pauses. Too long: nobody leads for so long after a crash.
    pub lease_duration: Duration,
    /// The time between questions to the store. Less than half of the lease. Too short: load. Too long: one lost answer
    /// costs the lease.
    pub renewal_interval: Duration,
    /// The age of its last round up to which a node is active. Between the renewal interval and the lease.
    pub liveness_window: Duration,
    /// The age above which rows of nodes are swept. At least the lease.
    pub row_ttl: Duration,
    /// The time that the store may take for a round before it counts as failed. At most the renewal interval.
    pub statement_timeout: Duration,
}

/// A pair of figures that do not fit together, or one out of bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {} does not do: it must be {allowed}; {hint}", human(.found))]
pub struct TimingError {
    /// The key, with its section, as in the configuration file.
    pub key: &'static str,
    /// The value found.
    pub found: Duration,
    /// The allowed values, in words and figures.
    pub allowed: String,
    /// One thing to try.
    pub hint: &'static str,
}

fn human(duration: &Duration) -> impl fmt::Display {
    humantime::format_duration(*duration)
}

impl ContenderTiming {
    /// Returns the figures for a lease of this length with everything else in its usual relation: a third of it between
    /// renewals, two thirds of it as liveness window, twice as long for rows.
    pub fn of_lease(lease_duration: Duration) -> Self {
        let renewal_interval = lease_duration / 3;
        Self {
            lease_duration,
            renewal_interval,
            liveness_window: renewal_interval * 2,
            row_ttl: lease_duration * 2,
            statement_timeout: (renewal_interval / 2).min(Duration::from_secs(2)),
        }
    }

    /// Checks how the figures relate; the error names the key, the value, what is allowed, and what to try.
    pub fn check(&self) -> Result<(), TimingError> {
        let Self { lease_duration, renewal_interval, liveness_window, row_ttl, statement_timeout } = *self;
        let refuse = |key, found, allowed, hint| Err(TimingError { key, found, allowed, hint });
        if !(MIN_LEASE..=MAX_LEASE).contains(&lease_duration) {
            let allowed = format!("{} to {}", human(&MIN_LEASE), human(&MAX_LEASE));
            return refuse("leadership.lease_duration", lease_duration, allowed, "15s suits most databases");
        }
        if renewal_interval < MIN_RENEWAL || renewal_interval >= lease_duration / 2 {
            let most = lease_duration / 2;
            let allowed = format!("{} to less than {} (half of lease_duration)", human(&MIN_RENEWAL), human(&most));
            return refuse("leadership.renewal_interval", renewal_interval, allowed, "try a third of lease_duration");
        }
        if liveness_window <= renewal_interval || liveness_window >= lease_duration {
            let (least, most) = (human(&renewal_interval), human(&lease_duration));
            let allowed = format!("more than {least} (renewal_interval) and less than {most} (lease_duration)");
            let hint = "try twice the renewal_interval";
            return refuse("leadership.lease.liveness_window", liveness_window, allowed, hint);
        }
        if row_ttl < lease_duration {
            let allowed = format!("{} (lease_duration) or more", human(&lease_duration));
            return refuse("leadership.lease.row_ttl", row_ttl, allowed, "try twice the lease_duration");
        }
        if statement_timeout < MIN_STATEMENT_TIMEOUT || statement_timeout > renewal_interval {
            let (least, most) = (human(&MIN_STATEMENT_TIMEOUT), human(&renewal_interval));
            let allowed = format!("{least} to {most} (renewal_interval)");
            let hint = "try half of the renewal_interval";
            return refuse("leadership.lease.statement_timeout", statement_timeout, allowed, hint);
        }
        Ok(())
    }

    /// Returns the longest time from one renewal to the next: such that, if its answer is lost and that is noticed as
    /// late as possible, another one has as long again. If the figures do not allow it, it is as short as is
    /// reasonable.
    pub(super) fn pace(&self) -> Duration {
        let spare = claim_of(self.lease_duration).saturating_sub(self.statement_timeout * 2);
        spare.clamp(self.renewal_interval / 4, self.renewal_interval)
    }

    /// Returns the pause after this many failures in a row: doubled each time, never longer than the renewal interval.
    pub(super) fn backoff(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(3);
        (self.renewal_interval / 8 * (1 << doublings)).clamp(MIN_PAUSE, self.renewal_interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    const USUAL: ContenderTiming = ContenderTiming {
        lease_duration: ms(15_000),
        renewal_interval: ms(5_000),
        liveness_window: ms(10_000),
        row_ttl: ms(30_000),
        statement_timeout: ms(2_000),
    };

    #[test]
    fn the_usual_figures_fit_and_each_relation_is_checked_at_its_edge() {
        assert_eq!(USUAL.check(), Ok(()));
        assert_eq!(ContenderTiming::of_lease(ms(15_000)), USUAL);
        for (key, wrong, right) in [
            ("leadership.lease_duration", ContenderTiming { lease_duration: ms(499), ..USUAL }, USUAL),
            ("leadership.lease_duration", ContenderTiming { lease_duration: ms(600_001), ..USUAL }, USUAL),
            (
                "leadership.renewal_interval",
                ContenderTiming { renewal_interval: ms(7_500), ..USUAL },
                ContenderTiming { renewal_interval: ms(7_499), ..USUAL },
            ),
            ("leadership.renewal_interval", ContenderTiming { renewal_interval: ms(49), ..USUAL }, USUAL),
            (
                "leadership.lease.liveness_window",
                ContenderTiming { liveness_window: ms(5_000), ..USUAL },
                ContenderTiming { liveness_window: ms(5_001), ..USUAL },
            ),
            (
                "leadership.lease.liveness_window",
                ContenderTiming { liveness_window: ms(15_000), ..USUAL },
                ContenderTiming { liveness_window: ms(14_999), ..USUAL },
            ),
            (
                "leadership.lease.row_ttl",
                ContenderTiming { row_ttl: ms(14_999), ..USUAL },
                ContenderTiming { row_ttl: ms(15_000), ..USUAL },
            ),
            (
                "leadership.lease.statement_timeout",
                ContenderTiming { statement_timeout: ms(5_001), ..USUAL },
                ContenderTiming { statement_timeout: ms(5_000), ..USUAL },
            ),
            (
                "leadership.lease.statement_timeout",
                ContenderTiming { statement_timeout: ms(9), ..USUAL },
                ContenderTiming { statement_timeout: ms(10), ..USUAL },
            ),
        ] {
            let error = wrong.check().expect_err("refused");
            assert_eq!(error.key, key);
            let text = error.to_string();
            assert!(text.contains("must be") && text.contains("try") || text.contains("suits"), "{text}");
            assert_eq!(right.check(), Ok(()), "{key}");
        }
    }

    #[test]
    fn a_renewal_whose_answer_is_lost_leaves_time_for_another() {
        for statement_timeout in [ms(100), ms(2_000), ms(5_000)] {
            let timing = ContenderTiming { statement_timeout, ..USUAL };
            assert!(timing.pace() + statement_timeout * 2 <= claim_of(timing.lease_duration), "{timing:?}");
        }
        // The tightest figures that are allowed: there is time for another try, if not for a slow one.
        let tight = ContenderTiming { lease_duration: ms(10_002), statement_timeout: ms(5_000), ..USUAL };
        assert_eq!(tight.check(), Ok(()));
        assert!(tight.pace() + tight.statement_timeout + ms(3_000) < claim_of(tight.lease_duration));
    }

    #[test]
    fn pauses_after_failures_grow_up_to_the_renewal_interval() {
        let pauses: Vec<_> = (1..=6).map(|failures| USUAL.backoff(failures)).collect();
        assert_eq!(pauses, [625, 1_250, 2_500, 5_000, 5_000, 5_000].map(ms));
    }
}
