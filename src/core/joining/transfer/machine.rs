//! The joiner's side as a machine: its inputs are pages and deadlines, its outputs are what to ask for next, and the end.
//!
//! Each page tells the range of names that it covers, from `after` to its last record, so that lost and reordered pages
//! show as gaps. A page that does not come within twice the round trip (50 ms at least) is asked for again,
//! [`MAX_PULL_RETRIES`] times.
//!
//! Invariants:
//! - The transfer is complete only when the ranges that came cover all names without a gap. The sponsor's view changes
//!   meanwhile, so a page that is asked for again may have other bounds, and ranges may overlap.
//! - At most [`PAGES_IN_FLIGHT`] pages are asked for at one time, and as many remembered beyond a gap.
//! - There is a deadline as long as the transfer is under way: it ends, complete or given up.
//!
//! Must not know: records, packets, timers of the core. Its caller merges the records of a page, hands in the page's
//! range, and calls again at its deadline.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::limits::{MAX_PULL_RETRIES, PAGES_IN_FLIGHT};
use crate::member::{NodeId, Run};
use crate::time::Time;

/// The number of pages beyond a gap that show that the missing one is lost.
pub(super) const PAGES_BEFORE_HURRY: usize = 3;
/// The least time that is waited for a page.
pub(super) const MIN_PAGE_WAIT: Duration = Duration::from_millis(50);

/// A pull under way.
#[derive(Debug, Clone)]
pub(crate) struct Transfer {
    address: SocketAddr,
    run: Run,
    /// The name up to which everything has arrived.
    cursor: Option<NodeId>,
    /// Pages beyond a gap: the name after which each begins, and its `next`. At most [`PAGES_IN_FLIGHT`].
    beyond: BTreeMap<Option<NodeId>, Option<NodeId>>,
    /// The number of pages of the last `Pull` that are still to come.
    awaited: u8,
    /// True if the gap was asked for before its time.
    is_hurried: bool,
    retries: u8,
    asked: Time,
    /// The time at which the pages are asked for again.
    due: Time,
    /// The time that pages took so far, smoothed.
    rtt: Option<Duration>,
}

/// A question to the sponsor: so many pages, from the first name after this one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) after: Option<NodeId>,
    pub(super) pages: u8,
}

/// The next thing to do about a transfer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TransferStep {
    /// More pages are on their way.
    Wait,
    /// Ask the sponsor.
    Ask(Ask),
    /// The page cannot be one: it leads backwards.
    Malformed,
    /// The whole view has arrived.
    Complete,
    /// The sponsor does not answer.
    GiveUp,
}

impl Transfer {
    /// Begins to pull the view of the node at `address`.
    pub(super) fn begin(address: SocketAddr, run: Run, now: Time) -> (Self, Ask) {
        let mut transfer = Self {
            address,
            run,
            cursor: None,
            beyond: BTreeMap::new(),
            awaited: 0,
            is_hurried: false,
            retries: 0,
            asked: now,
            due: now,
            rtt: None,
        };
        let ask = transfer.ask_on(now);
        (transfer, ask)
    }

    /// Returns the address and the run of the node whose view is pulled.
    pub(super) fn sponsor(&self) -> (SocketAddr, Run) {
        (self.address, self.run)
    }

    /// Returns the time at which [`Transfer::overdue`] is to be called.
    pub(super) fn deadline(&self) -> Time {
        self.due
    }

    /// Returns true if pages were asked for more than once in vain: the sponsor may have restarted, or forgotten us.
    pub(crate) fn is_stalled(&self) -> bool {
        self.retries >= 2
    }

    /// Takes a page that came from the sponsor. `next` is its last name, if more follow.
    pub(super) fn page(&mut self, now: Time, after: Option<&NodeId>, next: Option<NodeId>) -> TransferStep {
        if next.is_some() && next.as_ref() <= after {
            return TransferStep::Malformed;
        }
        if self.retries == 0 {
            let sample = now.since(self.asked);
            self.rtt = Some(self.rtt.map_or(sample, |rtt| (rtt * 7 + sample) / 8));
        }
        self.awaited = self.awaited.saturating_sub(1);
        if after > self.cursor.as_ref() {
            self.keep(after.cloned(), next);
            return self.hurry();
        }
        if next.is_some() && next <= self.cursor {
            // A late copy of a page that has arrived.
            return TransferStep::Wait;
        }
        (self.retries, self.is_hurried) = (0, false);
        if self.advance(next) {
            TransferStep::Complete
        } else if self.awaited == 0 && self.beyond.is_empty() {
            TransferStep::Ask(self.ask_on(now))
        } else {
            TransferStep::Wait
        }
    }

    /// Handles pages that did not come in time.
    pub(super) fn overdue(&mut self, now: Time) -> TransferStep {
        self.retries += 1;
        if self.retries > MAX_PULL_RETRIES { TransferStep::GiveUp } else { TransferStep::Ask(self.ask_on(now)) }
    }

    /// Asks for all pages that may be in flight, and sets the deadline for them.
    fn ask_on(&mut self, now: Time) -> Ask {
        self.awaited = PAGES_IN_FLIGHT;
        self.asked = now;
        let wait = self.rtt.map_or(MIN_PAGE_WAIT * 4, |rtt| (rtt * 2).max(MIN_PAGE_WAIT));
        self.due = now + wait * (1 + u32::from(self.retries)).min(4);
        self.ask(PAGES_IN_FLIGHT)
    }

    /// Asks for pages from the first missing one on.
    fn ask(&self, pages: u8) -> Ask {
        Ask { after: self.cursor.clone(), pages }
    }

    /// Asks for the missing page alone if several came after it: it is lost rather than late (as in TCP's fast
    /// retransmit: RFC 5681, 3.2).
    fn hurry(&mut self) -> TransferStep {
        if self.beyond.len() < PAGES_BEFORE_HURRY || self.is_hurried {
            return TransferStep::Wait;
        }
        self.is_hurried = true;
        TransferStep::Ask(self.ask(1))
    }

    /// Keeps a page beyond a gap. At most [`PAGES_IN_FLIGHT`] are kept: no more were asked for.
    fn keep(&mut self, after: Option<NodeId>, next: Option<NodeId>) {
        if self.beyond.len() < usize::from(PAGES_IN_FLIGHT) {
            self.beyond.insert(after, next);
        }
    }

    /// Notes that everything up to `next` has arrived, or (`None`) to the end; returns true if nothing is missing any
    /// more.
    fn advance(&mut self, mut next: Option<NodeId>) -> bool {
        while next.is_some() {
            self.cursor = next;
            // All pages that begin up to here; those beyond a gap stay.
            let later = self.beyond.split_off(&self.cursor);
            let mut within = std::mem::replace(&mut self.beyond, later);
            within.extend(self.beyond.remove_entry(&self.cursor));
            if within.values().any(Option::is_none) {
                return true;
            }
            next = within.into_values().filter(|next| *next > self.cursor).max().flatten();
            if next.is_none() {
                return false;
            }
        }
        true
    }

    /// Returns the number of pages remembered beyond a gap.
    #[cfg(test)]
    pub(super) fn beyond(&self) -> usize {
        self.beyond.len()
    }
}
