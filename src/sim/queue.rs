//! What is going to happen, in the order of time; at one instant, in the order in which it was planned.
//!
//! Large worlds plan tens of thousands of events, and most of the cost of a heap is moving what lies in it: so only times
//! and places are ordered, and the events stay where they are until they happen.
//!
//! Must not know: what an event is.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::network::Nanos;

/// A queue of events.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    order: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
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
    /// Plans something.
    pub(crate) fn push(&mut self, at: Nanos, event: T) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.events.push(None);
            (self.events.len() - 1) as u32
        });
        self.events[place as usize] = Some(event);
        self.planned += 1;
        self.order.push(Reverse((at, self.planned, place)));
    }

    /// Takes out what is next, if it is due by then.
    pub(crate) fn pop_until(&mut self, until: Nanos) -> Option<(Nanos, T)> {
        let Reverse((at, _, _)) = self.order.peek()?;
        if *at > until {
            return None;
        }
        let Reverse((at, _, place)) = self.order.pop()?;
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
        assert_eq!(queue.pop_until(8), Some((4, 'x')));
        assert_eq!(queue.pop_until(8), None);
        assert_eq!(queue.pop_until(9), Some((9, 'e')));
        assert!(queue.events.len() <= 5, "places are used again");
    }
}
