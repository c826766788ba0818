//! Pages: how many packets of records this node sends, of its view to joiners and of differences to members.
//!
//! Invariants: at most [`PAGES_PER_INTERVAL`] packets in [`PAGES_INTERVAL`], whoever they are for; when a cut heals, and
//! everybody compares views, [`MEMBERS_PAGES_PER_INTERVAL`] of them go to members, and the rest is left to joiners. (How many
//! go to one member is limited with all answers to it: see `packet::outbox`.)
//!
//! Must not know: which records.

use std::time::Duration;

use crate::recent::PerInterval;
use crate::time::Time;

/// The number of packets of records in one [`PAGES_INTERVAL`]: about 4 MB/s.
const PAGES_PER_INTERVAL: u32 = 300;
/// The number of those that go to members, which compare their views with this node's.
const MEMBERS_PAGES_PER_INTERVAL: u32 = 200;
/// The interval of [`PAGES_PER_INTERVAL`].
const PAGES_INTERVAL: Duration = Duration::from_millis(100);

/// The packets of records that were sent lately.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pages {
    sent: PerInterval,
    to_members: PerInterval,
}

impl Pages {
    /// Returns true if one more page may be sent now; counts it if so.
    pub(crate) fn take(&mut self, now: Time, is_member: bool) -> bool {
        let may_be_sent = !is_member || self.to_members.take(now, PAGES_INTERVAL, MEMBERS_PAGES_PER_INTERVAL);
        may_be_sent && self.sent.take(now, PAGES_INTERVAL, PAGES_PER_INTERVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_pages_are_served_in_an_interval() {
        let mut pages = Pages::default();
        for page in 0..PAGES_PER_INTERVAL {
            assert!(pages.take(Time::ORIGIN, false), "{page}");
        }
        assert!(!pages.take(Time::ORIGIN, false));
        assert!(pages.take(Time::ORIGIN + PAGES_INTERVAL, false));
    }

    #[test]
    fn members_leave_a_share_of_them_to_joiners() {
        let mut pages = Pages::default();
        let mut taken = |is_member| (0..1_000).filter(|_| pages.take(Time::ORIGIN, is_member)).count() as u32;
        assert_eq!(taken(true), MEMBERS_PAGES_PER_INTERVAL);
        assert_eq!(taken(false), PAGES_PER_INTERVAL - MEMBERS_PAGES_PER_INTERVAL);
    }
}
