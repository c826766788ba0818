//! Timers: all deadlines of the core, in one table.
//!
//! Timers are keyed by runs and tickets, never by table positions, so that one that outlives its cause finds nothing
//! and does nothing. Deadlines that packets keep pushing back (a member's silence) are not moved with every packet: the
//! timer fires at the old deadline, looks, and is set anew.
//!
//! Must not know: what a deadline is for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::io::Ticket;
use crate::map::Map;
use crate::member::Run;
use crate::time::Time;

/// Everything that can be due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Timer {
    /// Try to join again.
    JoinTry,
    /// Decide whether to be the first of the cluster.
    Found,
    /// Ask for the missing pages again.
    Transfer,
    /// Ask again whether members of the other address family reach this node.
    Reach,
    /// Compare the view with a random member's, newly Up.
    CatchUp,
    /// The next observer is to get its heartbeat.
    Heartbeat,
    /// Gossip to anybody, and what is to be done now and then.
    Gossip,
    /// Send new updates on.
    Flood,
    /// Send own news once more.
    FloodAgain,
    /// Look for lost members and seeds; remember addresses.
    Reunite,
    /// A member's silence or age may have reached its next threshold.
    Judge(Run),
    /// The link to a member is to be opened, closed, or given up.
    Link(Run),
    /// Connections that prove nothing yet are asked about again, or given up.
    UnprovenLinks,
    /// The next step in finding out whether a member's process is gone.
    Crash(Run),
    /// The kernel of a member's host is to be asked.
    Host(Run),
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
    /// Another run of this node's name is asked again, or judged.
    Rival,
    /// Members are asked again whether they reach this node where it has moved.
    Move,
    /// An election goes on, news of the leader is old, or contents of a view are missing.
    Leadership,
    /// Members behind unresponsive neighbours are looked at.
    Walk,
    /// Send new broadcasts on.
    Spread,
    /// Others are told what is held of broadcasts, or asked again; or something is too old.
    RepairMessages,
    /// A message to one node is sent again, or given up.
    DirectMessage(u64),
}

/// Most settings that no longer hold, beyond one for each timer that is set.
const MOST_STALE: usize = 32;

/// All timers of the core, each set at most once.
///
/// A setting that was replaced or cancelled stays in the heap until it comes up, or until there are too many of them;
/// what is at the top of the heap always holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timers {
    due: BinaryHeap<Reverse<(Time, Timer)>>,
    at: Map<Timer, Time>,
    /// The timer that came up last, while its place in the table is kept. Nearly always it is set anew at once: that is
    /// one look-up then, where taking it out and putting it back were three and moved others (an eighth of the
    /// instructions that a packet costs both its ends).
    fired: Option<Timer>,
}

impl Timers {
    /// Returns the number of timers that are set.
    pub(crate) fn size(&self) -> usize {
        self.at.len() - usize::from(self.fired.is_some())
    }

    pub(crate) fn new(key: u64) -> Self {
        Self { at: Map::new(key), ..Self::default() }
    }

    /// Sets a timer, replacing an earlier setting.
    pub(crate) fn set(&mut self, timer: Timer, at: Time) {
        let has_fired = self.fired.take_if(|fired| *fired == timer).is_some();
        let before = self.at.insert(timer, at).filter(|_| !has_fired);
        if before != Some(at) {
            self.due.push(Reverse((at, timer)));
        }
        if before.is_some_and(|before| before != at) {
            self.tidy();
        }
    }

    /// Sets a timer unless it is already set for an earlier time.
    pub(crate) fn set_by(&mut self, timer: Timer, at: Time) {
        if self.setting(timer).is_none_or(|before| at < before) {
            self.set(timer, at);
        }
    }

    /// Forgets a timer.
    pub(crate) fn cancel(&mut self, timer: Timer) {
        if self.fired != Some(timer) && self.at.remove(&timer).is_some() {
            self.tidy();
        }
    }

    /// Returns the deadline of a timer, if it is set.
    fn setting(&self, timer: Timer) -> Option<Time> {
        if self.fired == Some(timer) { None } else { self.at.get(&timer).copied() }
    }

    /// Returns the earliest deadline.
    pub(crate) fn next(&self) -> Option<Time> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes out the earliest timer that is due: a deadline is reached when `at <= now`.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<Timer> {
        if let Some(fired) = self.fired.take() {
            self.at.remove(&fired);
        }
        let Reverse((at, timer)) = *self.due.peek()?;
        if at > now {
            return None;
        }
        self.due.pop();
        self.fired = Some(timer);
        self.tidy();
        Some(timer)
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.due.clear();
        self.at.clear();
        self.fired = None;
    }

    /// Takes out settings that no longer hold: there are such if there are more of them than timers that are set.
    fn tidy(&mut self) {
        while self.due.len() > self.size()
            && let Some(Reverse((at, timer))) = self.due.peek()
            && self.setting(*timer) != Some(*at)
        {
            self.due.pop();
        }
        if self.due.len() > 2 * self.size() + MOST_STALE {
            let mut due = std::mem::take(&mut self.due);
            due.retain(|Reverse((at, timer))| self.setting(*timer) == Some(*at));
            self.due = due;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn timers_come_by_time_and_then_by_kind_whatever_was_set_before(
            steps in prop::collection::vec((0..40u64, 0..60u64, 0..8u8), 0..1_000),
        ) {
            let (mut timers, mut model) = (Timers::new(7), BTreeMap::new());
            for (run, at, step) in steps {
                let timer = if run % 2 == 0 { Timer::Judge(Run(run)) } else { Timer::Link(Run(run)) };
                match step {
                    0 => {
                        timers.cancel(timer);
                        model.remove(&timer);
                    }
                    1 => {
                        let next = model.iter().map(|(timer, at)| (*at, *timer)).min();
                        let due = next.filter(|(time, _)| *time <= at).map(|(_, timer)| timer);
                        prop_assert_eq!(timers.pop_due(Time::from_nanos(at)), due);
                        due.map(|timer| model.remove(&timer));
                        prop_assert!(due.is_none_or(|timer| timers.setting(timer).is_none()), "what came up is not set any more");
                    }
                    2 => {
                        timers.set_by(timer, Time::from_nanos(at));
                        model.entry(timer).and_modify(|set| *set = at.min(*set)).or_insert(at);
                    }
                    _ => {
                        timers.set(timer, Time::from_nanos(at));
                        model.insert(timer, at);
                    }
                }
                prop_assert_eq!(timers.next(), model.values().min().copied().map(Time::from_nanos));
                prop_assert_eq!(timers.setting(timer).is_some(), model.contains_key(&timer));
                prop_assert_eq!(timers.size(), model.len());
                prop_assert!(timers.due.len() <= 2 * model.len() + MOST_STALE + 1, "stale settings are bounded");
            }
        }
    }
}
