//! Time as the core knows it: a number that the driver hands in.
//!
//! The core never reads a clock. A driver maps whatever clock it has (CLOCK_BOOTTIME, a virtual clock) onto [`Time`],
//! and the only promise it makes is that the numbers never fall. Wall-clock time does not exist here.

use std::fmt;
use std::num::NonZeroU64;
use std::ops::{Add, Sub};
use std::time::Duration;

/// An instant on the driver's monotonic clock, in nanoseconds.
///
/// Drivers start counting at [`Time::ORIGIN`] rather than at zero, so that "ten hours before now" exists even in the
/// first second of a process: ages learnt from others may be older than this process is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(
    /// One more than the nanoseconds, so that an absent time takes no more room than a time.
    NonZeroU64,
);

impl Time {
    /// The time at which drivers start counting: far enough from zero that no age can underflow it, far enough from the
    /// end that no deadline can overflow.
    pub const ORIGIN: Time = Time::from_nanos(1 << 61);

    /// Returns the instant `nanos` nanoseconds after the zero of this clock.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(nanos))
    }

    /// Returns the nanoseconds since the zero of this clock.
    pub const fn as_nanos(self) -> u64 {
        self.0.get() - 1
    }

    /// Returns the time from `earlier` to `self`; zero if `earlier` is not before.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }

    /// Returns the time from `earlier` to `self` as an age is sent: nothing may look fresher at any hop.
    pub(crate) const fn age_ms(self, earlier: Time) -> u64 {
        whole_ms(self.since(earlier))
    }
}

/// Returns a duration in milliseconds, rounded up: no promise may become shorter on its way through a packet, or a disk.
pub(crate) const fn whole_ms(duration: Duration) -> u64 {
    duration.as_nanos().div_ceil(1_000_000) as u64
}

impl Default for Time {
    fn default() -> Self {
        Self::from_nanos(0)
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, duration: Duration) -> Time {
        Time(self.0.saturating_add(nanos(duration)))
    }
}

impl Sub<Duration> for Time {
    type Output = Time;
    fn sub(self, duration: Duration) -> Time {
        Time::from_nanos(self.as_nanos().saturating_sub(nanos(duration)))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self >= Time::ORIGIN {
            write!(f, "+{:?}", self.since(Time::ORIGIN))
        } else {
            write!(f, "-{:?}", Time::ORIGIN.since(*self))
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_older_than_the_process_does_not_underflow() {
        let month = Duration::from_secs(30 * 24 * 3600);
        assert_eq!(Time::ORIGIN.since(Time::ORIGIN - month), month);
    }

    #[test]
    fn an_instant_in_the_future_has_age_zero() {
        assert_eq!(Time::ORIGIN.since(Time::ORIGIN + Duration::from_secs(1)), Duration::ZERO);
    }
}
