//! Workload: the time for which the driver's thread was at work, as opposed to waiting for a processor.
//!
//! A tick that comes late because the driver was busy says nothing against what this node observed: all that arrived
//! meanwhile is handed in before time is judged. A tick that comes late because the thread had no turn does. The
//! processor time of the thread tells the two apart; it is read once a turn of the loop, and for each input that comes
//! late.
//!
//! Invariants: no more work is told of than there was delay. Where the system does not count processor time by thread,
//! nothing is told, and every delay counts as starvation.
//!
//! Must not know: the consequences.

use std::time::Duration;

use super::arrivals::LATE;
use crate::core::Time;

/// The work since the last moment at which no deadline had passed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Workload {
    /// The processor time of the thread at that moment.
    began: Option<Duration>,
}

impl Workload {
    /// Begins to count, unless this deadline has passed already.
    pub(super) fn begin(&mut self, now: Time, deadline: Option<Time>) {
        if deadline.is_none_or(|deadline| deadline > now) {
            self.begin_anew();
        }
    }

    /// Begins to count.
    pub(super) fn begin_anew(&mut self) {
        self.began = processor_time();
    }

    /// Returns the work since this deadline, if it has passed by [`LATE`] or more.
    pub(super) fn of_delay(&self, now: Time, deadline: Option<Time>) -> Option<Duration> {
        let late = deadline.map(|deadline| now.since(deadline)).filter(|late| *late >= LATE)?;
        let worked = processor_time()?.saturating_sub(self.began?);
        Some(worked.min(late))
    }
}

/// Returns the processor time that this thread has used.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
pub(super) fn processor_time() -> Option<Duration> {
    use nix::time::{ClockId, clock_gettime};
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).ok().map(Duration::from)
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
pub(super) fn processor_time() -> Option<Duration> {
    None
}

#[cfg(all(test, any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ORIGIN + Duration::from_millis(ms)
    }

    /// Keeps a processor busy for so much of this thread's time.
    fn work(time: Duration) {
        let until = processor_time().expect("counted here") + time;
        while processor_time().expect("counted here") < until {}
    }

    #[test]
    fn work_counts_and_waiting_does_not() {
        let mut workload = Workload::default();
        workload.begin(at(0), Some(at(10)));
        work(Duration::from_millis(40));
        workload.begin(at(50), Some(at(10)));
        work(Duration::from_millis(20));
        let worked = workload.of_delay(at(1_010), Some(at(10))).expect("late");
        assert!(worked >= Duration::from_millis(60), "{worked:?}, of before the deadline was looked at again, too");
        workload.begin(at(2_000), Some(at(2_001)));
        std::thread::sleep(Duration::from_millis(100));
        let worked = workload.of_delay(at(2_101), Some(at(2_001))).expect("late");
        assert!(worked < Duration::from_millis(50), "{worked:?} of sleep");
    }

    #[test]
    fn no_more_work_is_told_of_than_there_was_delay_and_none_of_what_comes_in_time() {
        let mut workload = Workload::default();
        assert_eq!(workload.of_delay(at(1_000), Some(at(0))), None, "nothing was counted");
        workload.begin_anew();
        work(Duration::from_millis(40));
        assert_eq!(workload.of_delay(at(30), Some(at(10))), Some(Duration::from_millis(20)));
        assert_eq!(workload.of_delay(at(30), Some(at(20))), None);
        assert_eq!(workload.of_delay(at(30), None), None);
    }
}
