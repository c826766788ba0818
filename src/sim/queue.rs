//! A queue of future events in the order of time; at one instant, in the order in which they were planned.
//!
//! Large worlds plan tens of thousands of events, and most of the cost of a heap is moving its elements: so only times
//! and slots are ordered, and the events stay where they are until they happen. The next few are taken out of the heap
//! at once, so that callers can look ahead.
//!
//! Invariant: everything in `next` is before everything in the heap. Must not know: the meaning of an event.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::network::Nanos;

/// Number of events that can be looked at ahead.
const AHEAD: usize = 16;

/// The plan of an event: its time, its number in the order of planning, and its slot in `events`.
type Plan = (Nanos, u64, u32);

/// A queue of events.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    next: VecDeque<Plan>,
    order: BinaryHeap<Reverse<Plan>>,
    events: Vec<Option<T>>,
    free: Vec<u32>,
    planned: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        let (next, order) = (VecDeque::with_capacity(2 * AHEAD), BinaryHeap::new());
        Self { next, order, events: Vec::new(), free: Vec::new(), planned: 0 }
    }
}

impl<T> Queue<T> {
    /// Plans an event.
    pub(crate) fn push(&mut self, at: Nanos, event: T) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.events.push(None);
            (self.events.len() - 1) as u32
        });
        self.events[place as usize] = Some(event);
        self.planned += 1;
        let plan = (at, self.planned, place);
        if self.next.back().is_some_and(|last| plan < *last) {
            let before = self.next.partition_point(|other| *other < plan);
            self.next.insert(before, plan);
        } else {
            self.order.push(Reverse(plan));
        }
    }

    /// Returns true if no event can be looked at: time for [`Queue::look_ahead`].
    pub(crate) fn is_at_its_end(&self) -> bool {
        self.next.is_empty()
    }

    /// Returns the next few events, in order. More may be planned between them.
    pub(crate) fn look_ahead(&mut self) -> impl Iterator<Item = &T> {
        while self.next.len() < AHEAD
            && let Some(Reverse(plan)) = self.order.pop()
        {
            self.next.push_back(plan);
        }
        self.next.iter().filter_map(|(_, _, place)| self.events[*place as usize].as_ref())
    }

    /// Takes out the next event, if it is due by `until`.
    pub(crate) fn pop_until(&mut self, until: Nanos) -> Option<(Nanos, T)> {
        if self.next.is_empty() {
            self.next.extend(self.order.pop().map(|Reverse(plan)| plan));
        }
        let (at, _, place) = *self.next.front().filter(|(at, _, _)| *at <= until)?;
        self.next.pop_front();
        self.free.push(place);
        Some((at, self.events[place as usize].take()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_time_and_then_of_planning() {
        let mut queue = Queue::default();
        for (at, event) in [(5, 'c'), (3, 'a'), (5, 'd'), (3, 'b'), (9, 'e')] {
            queue.push(at, event);
        }
        let due: String = std::iter::from_fn(|| queue.pop_until(5)).map(|(_, event)| event).collect();
        assert_eq!(due, "abcd");
        queue.push(4, 'x');
        assert_eq!(queue.look_ahead().collect::<String>(), "xe");
        queue.push(5, 'y');
        assert_eq!(queue.look_ahead().collect::<String>(), "xye", "what comes between is seen, too");
        assert_eq!(queue.pop_until(8), Some((4, 'x')));
        assert_eq!(queue.pop_until(8), Some((5, 'y')));
        assert_eq!(queue.pop_until(8), None);
        assert_eq!(queue.pop_until(9), Some((9, 'e')));
        assert!(queue.events.len() <= 5, "places are used again");
    }
}
