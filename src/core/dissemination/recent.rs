//! Recent updates: the members that changed lately, and the number of times that each change was sent.
//!
//! A change is remembered by its member's slot, since only the newest record of a member is worth sending. At most
//! [`MAX_RECENT_UPDATES`] are kept; the most-sent ones are dropped first, and of those the oldest. Updates that are no
//! longer kept travel by sync.
//!
//! Must not know: to whom updates are sent.

use std::cmp::Reverse;
use std::collections::VecDeque;

use crate::limits::MAX_RECENT_UPDATES;
use crate::map::Map;
use crate::view::Slot;

/// Updates by the number of times they were sent. Most changes are new ones, so the end at which those are added and
/// removed is the cheap one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recent {
    /// The updates in falling order: the one to be sent first is at the back.
    order: VecDeque<Carried>,
    by_slot: Map<Slot, Carried>,
    counter: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Carried {
    times: u32,
    newest_first: Reverse<u64>,
    slot: Slot,
}

impl Recent {
    /// Notes a change of a member: its update starts anew.
    pub(crate) fn note(&mut self, slot: Slot) {
        self.counter += 1;
        let carried = Carried { times: 0, newest_first: Reverse(self.counter), slot };
        match self.by_slot.insert(slot, carried) {
            Some(before) => self.unlist(before),
            None if self.order.len() == MAX_RECENT_UPDATES => {
                if let Some(most_sent) = self.order.pop_front() {
                    self.by_slot.remove(&most_sent.slot);
                }
            }
            None => {}
        }
        // A newest update that was never sent comes first.
        self.order.push_back(carried);
    }

    /// Notes that an update was put into a packet.
    pub(crate) fn sent(&mut self, slot: Slot) {
        if let Some(before) = self.by_slot.get(&slot).copied() {
            let after = Carried { times: before.times.saturating_add(1), ..before };
            self.by_slot.insert(slot, after);
            self.unlist(before);
            let at = self.order.partition_point(|other| *other > after);
            self.order.insert(at, after);
        }
    }

    /// Forgets a member that is no longer in the table.
    pub(crate) fn forget(&mut self, slot: Slot) {
        if let Some(carried) = self.by_slot.remove(&slot) {
            self.unlist(carried);
        }
    }

    /// Returns the members whose update was sent fewer than `limit` times, fewest first.
    pub(super) fn fewest_sent(&self, limit: u32) -> impl Iterator<Item = Slot> {
        self.order.iter().rev().take_while(move |carried| carried.times < limit).map(|carried| carried.slot)
    }

    fn unlist(&mut self, carried: Carried) {
        if let Ok(at) = self.order.binary_search_by(|other| carried.cmp(other)) {
            self.order.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_fewest_goes_first_and_stops_at_the_limit() {
        let mut recent = Recent::default();
        for slot in [1, 2, 3] {
            recent.note(slot);
        }
        recent.sent(3);
        recent.sent(3);
        recent.sent(1);
        assert_eq!(recent.fewest_sent(u32::MAX).collect::<Vec<_>>(), [2, 1, 3]);
        assert_eq!(recent.fewest_sent(2).collect::<Vec<_>>(), [2, 1]);
        recent.note(3);
        assert_eq!(recent.fewest_sent(u32::MAX).next(), Some(3), "news starts anew");
    }

    #[test]
    fn the_most_sent_gives_way_at_the_bound() {
        let mut recent = Recent::default();
        for slot in 0..MAX_RECENT_UPDATES as Slot {
            recent.note(slot);
        }
        recent.sent(7);
        recent.note(10_000);
        assert_eq!(recent.fewest_sent(u32::MAX).count(), MAX_RECENT_UPDATES);
        assert!(!recent.fewest_sent(u32::MAX).any(|slot| slot == 7));
    }
}
