//! Lets time pass: events happen in their order, until a time, a condition or a broken promise.
//!
//! Must not know: what happens at an event.

use std::time::Duration;

use super::{Event, World};
use crate::core::ahead::Ahead;
use crate::sim::random::nanos;

impl World {
    /// Runs until this much time has passed since the start, or a promise is broken.
    pub fn run_until(&mut self, until: Duration) {
        let until = nanos(until);
        while !self.has_failed {
            if self.nodes.len() >= Self::LARGE && self.queue.is_at_its_end() {
                self.look_ahead();
            }
            let Some((at, event)) = self.queue.pop_until(until) else { break };
            self.now = self.now.max(at);
            self.happen(event);
        }
        if !self.has_failed {
            self.now = self.now.max(until);
        }
    }

    /// Reads what the next events are going to need, all at once: waiting for memory is most of what a large world
    /// does.
    fn look_ahead(&mut self) {
        let foreseen = self.queue.look_ahead().filter_map(|event| match event {
            Event::Packet { to, bytes, .. } => Some((*to, Ahead::packet(bytes))),
            Event::Wake { node, .. } => Some((*node, Ahead::tick())),
            _ => None,
        });
        let mut foreseen: Vec<(usize, Ahead)> = foreseen.collect();
        for step in 0..Ahead::STEPS {
            let mut read = 0;
            for (node, ahead) in &mut foreseen {
                if let Some(process) = self.nodes.get(*node).and_then(|node| node.process.as_ref()) {
                    read ^= ahead.step(step, &process.core);
                }
            }
            std::hint::black_box(read);
        }
    }

    /// Runs for so long, or until a promise is broken.
    pub fn run_for(&mut self, duration: Duration) {
        self.run_until(self.now() + duration);
    }

    /// Runs until something is so, looking every so often. Returns true if it came true before the deadline.
    pub fn run_while(&mut self, deadline: Duration, step: Duration, mut goes_on: impl FnMut(&World) -> bool) -> bool {
        while goes_on(self) {
            if self.now() >= deadline || self.has_failed {
                return false;
            }
            self.run_until((self.now() + step).min(deadline));
        }
        true
    }
}
