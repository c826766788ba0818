//! One enum, one table: every deadline of the core.
//!
//! Timers are keyed by runs and tickets, never by table positions, so that one that outlives its cause finds nothing and
//! does nothing. Deadlines that packets keep pushing back (a member's silence) are not moved with every packet: the
//! timer fires at the old deadline, looks, and is set anew.

use std::collections::{BTreeMap, BTreeSet};

use super::doors::Ticket;
use super::id::Run;
use super::time::Time;

/// Everything that can be due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// Try to join again.
    JoinTry,
    /// Decide whether to be the first of the cluster.
    Found,
    /// Ask for the missing pages again.
    Transfer,
    /// Compare the view with a random member's, newly Up.
    CatchUp,
    /// Gossip to the next peers.
    Gossip,
    /// Send new updates on.
    Flood,
    /// Send own news once more.
    FloodAgain,
    /// Look for lost members and seeds; remember addresses.
    Reunite,
    /// A member's silence or age may have reached its next threshold.
    Judge(Run),
    /// A member may be due a sign of life from us.
    Heartbeat(Run),
    /// The link to a member is to be opened, closed, or given up.
    Link(Run),
    /// The next step in finding out whether a member's process is gone.
    Crash(Run),
    /// A joiner held beside the view may have gone silent.
    Joiner(Run),
    /// The present owner of a name is asked again, or judged silent.
    NameProbe(Run),
    /// A departure or removal is sent again, or ends unconfirmed.
    Confirm(Ticket),
    /// The answers to a `join` command are collected.
    Contact(Ticket),
    /// Members that fell silent together are reported.
    Partition,
    /// A partition may be over.
    PartitionOver,
}

/// The table. Each timer is set at most once.
#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeSet<(Time, Timer)>,
    at: BTreeMap<Timer, Time>,
}

impl Timers {
    /// Sets a timer, replacing an earlier setting.
    pub(super) fn set(&mut self, timer: Timer, at: Time) {
        if let Some(before) = self.at.insert(timer, at) {
            self.due.remove(&(before, timer));
        }
        self.due.insert((at, timer));
    }

    /// Sets a timer unless it is already set for an earlier time.
    pub(super) fn set_by(&mut self, timer: Timer, at: Time) {
        if self.at.get(&timer).is_none_or(|before| at < *before) {
            self.set(timer, at);
        }
    }

    /// Forgets a timer.
    pub(super) fn cancel(&mut self, timer: Timer) {
        if let Some(at) = self.at.remove(&timer) {
            self.due.remove(&(at, timer));
        }
    }

    /// Whether a timer is set.
    pub(super) fn is_set(&self, timer: Timer) -> bool {
        self.at.contains_key(&timer)
    }

    /// The earliest deadline.
    pub(super) fn next(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Takes out the earliest timer that is due: a deadline is reached when `at <= now`.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<Timer> {
        let (at, timer) = *self.due.first()?;
        if at > now {
            return None;
        }
        self.due.pop_first();
        self.at.remove(&timer);
        Some(timer)
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.due.clear();
        self.at.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_inclusive_and_come_in_order() {
        let mut timers = Timers::default();
        timers.set(Timer::Gossip, Time::from_nanos(20));
        timers.set(Timer::Flood, Time::from_nanos(10));
        assert_eq!(timers.pop_due(Time::from_nanos(9)), None);
        assert_eq!(timers.pop_due(Time::from_nanos(20)), Some(Timer::Flood));
        assert_eq!(timers.pop_due(Time::from_nanos(20)), Some(Timer::Gossip));
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn setting_again_replaces_and_cancelling_forgets() {
        let mut timers = Timers::default();
        timers.set(Timer::Gossip, Time::from_nanos(10));
        timers.set(Timer::Gossip, Time::from_nanos(30));
        timers.set_by(Timer::Gossip, Time::from_nanos(40));
        assert_eq!(timers.next(), Some(Time::from_nanos(30)));
        timers.cancel(Timer::Gossip);
        assert_eq!(timers.pop_due(Time::from_nanos(99)), None);
        assert!(!timers.is_set(Timer::Gossip));
    }
}
