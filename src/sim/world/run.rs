//! Lets time pass: events happen in their order, until a time or a condition.
//!
//! Must not know: what happens at an event.

use std::time::Duration;

use super::World;
use crate::random::nanos;

impl World {
    /// Runs until this much time has passed since the start, or whoever watches has seen enough.
    pub fn run_until(&mut self, until: Duration) {
        let until = nanos(until);
        while !self.stands_still() {
            let Some((at, event)) = self.queue.pop_until(until) else { break };
            self.now = self.now.max(at);
            self.happen(event);
        }
        if !self.stands_still() {
            self.now = self.now.max(until);
        }
    }

    /// Runs for so long, or until whoever watches has seen enough.
    pub fn run_for(&mut self, duration: Duration) {
        self.run_until(self.now() + duration);
    }

    /// Runs until something is so, looking every so often. Returns true if it came true before the deadline.
    pub fn run_while(&mut self, deadline: Duration, step: Duration, mut goes_on: impl FnMut(&World) -> bool) -> bool {
        while goes_on(self) {
            if self.now() >= deadline || self.stands_still() {
                return false;
            }
            self.run_until((self.now() + step).min(deadline));
        }
        true
    }
}
