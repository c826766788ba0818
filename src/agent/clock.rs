//! The agent's clocks: [`Clock`] for the core, the wall clock for what people read.
//!
//! Invariants: the numbers never fall and start at [`Time::ORIGIN`]. Where the system has it the clock counts suspended
//! time (CLOCK_BOOTTIME), so that a laptop that slept for an hour knows that it heard nobody for an hour.
//!
//! Must not know: what the time is used for.

use std::time::{Duration, Instant};

use crate::core::Time;

/// A running clock. Copies show the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Clock {
    zero: Zero,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Zero {
    #[cfg(target_os = "linux")]
    Boot(Duration),
    Instant(Instant),
}

impl Clock {
    /// Starts at [`Time::ORIGIN`].
    pub(crate) fn start() -> Self {
        #[cfg(target_os = "linux")]
        if let Some(since_boot) = since_boot() {
            return Self { zero: Zero::Boot(since_boot) };
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
            #[cfg(target_os = "linux")]
            Zero::Boot(zero) => since_boot().map_or(Duration::ZERO, |now| now.saturating_sub(zero)),
            Zero::Instant(zero) => zero.elapsed(),
        }
    }
}

#[cfg(target_os = "linux")]
fn since_boot() -> Option<Duration> {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).ok().map(Duration::from)
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
}
