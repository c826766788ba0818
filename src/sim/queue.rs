//! A queue of future events in the order of time; at one instant, in the order in which they were planned.
//!
//! Large worlds plan tens of thousands of events, and most of the cost of a heap is moving its elements: so only times
//! and slots are ordered, and the events stay where they are until they happen.
//!
//! Must not know: the meaning of an event.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::network::Nanos;

/// The plan of an event: its time, its number in the order of planning, and its slot in `events`.
type Plan = (Nanos, u64, u32);

/// A queue of events.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    order: BinaryHeap<Reverse<Plan>>,
    events: Vec<Option<T>>,
    free: Vec<u32>,
    planned: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { order: BinaryHeap::new(), events: Vec::new(), free: Vec::new(), planned: 0 }
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
        self.order.push(Reverse((at, self.planned, place)));
    }

    /// Takes out the next event, if it is due by `until`.
    pub(crate) fn pop_until(&mut self, until: Nanos) -> Option<(Nanos, T)> {
        let (at, _, place) = self.order.peek().map(|Reverse(plan)| *plan).filter(|(at, _, _)| *at <= until)?;
        self.order.pop();
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
        queue.push(5, 'y');
        assert_eq!(queue.pop_until(8), Some((4, 'x')));
        assert_eq!(queue.pop_until(8), Some((5, 'y')));
        assert_eq!(queue.pop_until(8), None);
        assert_eq!(queue.pop_until(9), Some((9, 'e')));
        assert!(queue.events.len() <= 5, "places are used again");
    }
}
