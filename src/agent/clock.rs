//! The agent's clocks: [`Clock`] for the core, the wall clock for what people read.
//!
//! Leases are promises about time, so the clock has to count the time in which the machine is suspended: a laptop that slept
//! for an hour must know that it heard nobody for an hour, and leads no more.
//!
//! | system | clock | counts suspend |
//! |---|---|---|
//! | Linux, Android | `CLOCK_BOOTTIME` | yes |
//! | macOS, iOS | `CLOCK_MONOTONIC_RAW`, which is `mach_continuous_time` | yes; [`Instant`] there does not |
//! | others | [`Instant`] | as the standard library has it: on Windows yes, elsewhere do not rely on it |
//!
//! No clock counts what its system does not see: a virtual machine that is paused, moved or restored from a snapshot may
//! find its clocks where they were. It then believes in a claim that is over, by as much as it was paused. A claim lasts for
//! 98 % of a lease and promises last for 100 %, which covers clocks whose rates are 1 % wrong and leaves nothing over: 40 ms
//! at a lease of 2 s, 300 ms at 15 s. What a leader writes elsewhere is guarded by its term alone.
//!
//! Invariants: the numbers never fall and start at [`Time::ORIGIN`].
//!
//! Must not know: what the time is used for.

use std::time::{Duration, Instant};

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
use nix::time::{ClockId, clock_gettime};

use crate::core::Time;

/// The system's clock that counts suspended time.
#[cfg(any(target_os = "linux", target_os = "android"))]
const COUNTING_SUSPEND: ClockId = ClockId::CLOCK_BOOTTIME;
#[cfg(target_vendor = "apple")]
const COUNTING_SUSPEND: ClockId = ClockId::from_raw(nix::libc::CLOCK_MONOTONIC_RAW);

/// A running clock. Copies show the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Clock {
    zero: Zero,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Zero {
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    CountingSuspend(Duration),
    Instant(Instant),
}

impl Clock {
    /// Starts at [`Time::ORIGIN`].
    pub(crate) fn start() -> Self {
        #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
        if let Some(now) = counting_suspend() {
            return Self { zero: Zero::CountingSuspend(now) };
        }
        Self { zero: Zero::Instant(Instant::now()) }
    }

    /// The time now.
    pub(crate) fn now(&self) -> Time {
        Time::ORIGIN + self.elapsed()
    }

    /// The time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        match self.zero {
            // A clock that could be read once can be read always.
            #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
            Zero::CountingSuspend(zero) => counting_suspend().map_or(Duration::ZERO, |now| now.saturating_sub(zero)),
            Zero::Instant(zero) => zero.elapsed(),
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn counting_suspend() -> Option<Duration> {
    clock_gettime(COUNTING_SUSPEND).ok().map(Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_starts_at_the_origin_and_never_falls() {
        let clock = Clock::start();
        let mut last = Time::ORIGIN;
        for _ in 0..1_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
        assert!(last.since(Time::ORIGIN) < Duration::from_secs(60));
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn it_counts_suspended_time_by_the_time_since_the_system_was_started() {
        assert!(matches!(Clock::start().zero, Zero::CountingSuspend(_)));
        assert_eq!(COUNTING_SUSPEND, ClockId::CLOCK_BOOTTIME);
    }

    #[cfg(target_vendor = "apple")]
    #[test]
    fn it_counts_suspended_time_by_the_continuous_time_of_the_machine() {
        assert!(matches!(Clock::start().zero, Zero::CountingSuspend(_)));
        // Time awake is part of it.
        let awake = clock_gettime(ClockId::from_raw(nix::libc::CLOCK_UPTIME_RAW)).map(Duration::from).expect("a clock");
        assert!(counting_suspend().expect("a clock") + Duration::from_millis(1) >= awake);
    }
}
