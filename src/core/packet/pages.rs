//! Pages: how many packets of records this node sends, of its view to joiners and of differences to members.
//!
//! Invariants: at most [`PAGES_PER_INTERVAL`] packets in [`PAGES_INTERVAL`], whoever they are for; one member gets
//! [`PAGES_PER_MEMBER`] of them, and all members [`MEMBERS_PAGES_PER_INTERVAL`].
//!
//! Must not know: which records.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::limits::SYNC_PACKETS;
use crate::member::Run;
use crate::recent::PerInterval;
use crate::time::Time;

/// The number of packets of records in one [`PAGES_INTERVAL`]: about 4 MB/s.
const PAGES_PER_INTERVAL: u32 = 300;
/// The number of those that go to members, which compare their views with this node's: the rest is left to joiners.
const MEMBERS_PAGES_PER_INTERVAL: u32 = 200;
/// The number of those that go to one member: twice an answer to a comparison.
const PAGES_PER_MEMBER: u32 = 2 * SYNC_PACKETS as u32;
/// The interval of [`PAGES_PER_INTERVAL`].
const PAGES_INTERVAL: Duration = Duration::from_millis(100);

/// The packets of records that were sent lately.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pages {
    sent: PerInterval,
    /// The number of those for members, in all and by run.
    to_members: u32,
    to: BTreeMap<Run, u32>,
}

impl Pages {
    /// Returns true if one more page may be sent now to this run; counts it if so.
    pub(crate) fn take(&mut self, now: Time, run: Run, is_member: bool) -> bool {
        if self.sent.begins_anew(now, PAGES_INTERVAL) {
            self.to_members = 0;
            self.to.clear();
        }
        let of_run = self.to.get(&run).copied().unwrap_or(0);
        let is_over = is_member && (self.to_members >= MEMBERS_PAGES_PER_INTERVAL || of_run >= PAGES_PER_MEMBER);
        if is_over || !self.sent.take(now, PAGES_INTERVAL, PAGES_PER_INTERVAL) {
            return false;
        }
        if is_member {
            self.to_members += 1;
            self.to.insert(run, of_run + 1);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_pages_are_served_in_an_interval() {
        let mut pages = Pages::default();
        for page in 0..PAGES_PER_INTERVAL {
            assert!(pages.take(Time::ORIGIN, Run(1), false), "{page}");
        }
        assert!(!pages.take(Time::ORIGIN, Run(1), false));
        assert!(pages.take(Time::ORIGIN + PAGES_INTERVAL, Run(1), false));
    }

    #[test]
    fn one_member_has_a_share_of_them_and_all_members_leave_one_to_joiners() {
        let mut pages = Pages::default();
        let mut taken =
            |run: u64, is_member| (0..1_000).filter(|_| pages.take(Time::ORIGIN, Run(run), is_member)).count() as u32;
        assert_eq!(taken(1, true), PAGES_PER_MEMBER);
        let others: u32 = (2..10).map(|run| taken(run, true)).sum();
        assert_eq!(others, MEMBERS_PAGES_PER_INTERVAL - PAGES_PER_MEMBER);
        assert_eq!(taken(20, false), PAGES_PER_INTERVAL - MEMBERS_PAGES_PER_INTERVAL);
    }
}
