//! The rotation of a sealed cluster's key, step by step, among the usual faults: its operator adds a key, uses it and
//! removes the former one, which somebody else has by then.
//!
//! Each step reaches every other node first and the rest a moment later. A node that is down misses the first two: it
//! starts with what its key file has, and understands nobody once the new key is used. The last step reaches the files of
//! all nodes: whoever still takes the former key, which leaks then, believes what anybody says.
//!
//! Must not know: what comes of it.

use std::time::Duration;

use super::rows::{Row, row};
use super::{Operation, Schedule};
use headcount_sim::World;
use headcount_sim::{Purpose, Random};

/// The key at the beginning, and the one that replaces it.
const FORMER: u8 = 1;
const NEW: u8 = 2;

/// The longest time between the nodes that take a step first and the others.
const MOST_APART: Duration = Duration::from_secs(2);

/// One step of a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyStep {
    /// The new key is accepted.
    Add,
    /// The new key seals.
    Use,
    /// The former key is accepted no more.
    Remove,
    /// Somebody who plays what was recorded has the former key.
    Leak,
}

impl KeyStep {
    /// Returns its row; it concerns every second node alone if it is the first half of a step.
    pub(super) fn row<'a>(self, is_first_half: bool) -> Row<'a> {
        let (kind, what) = match self {
            KeyStep::Add => ("key added", "add a key"),
            KeyStep::Use => ("key used", "use the new key"),
            KeyStep::Remove => ("key removed", "remove the former key"),
            KeyStep::Leak => ("key leaked", "somebody has the former key"),
        };
        let whose = match self {
            KeyStep::Leak => "",
            _ if is_first_half => " at every second node",
            _ => " at all nodes",
        };
        row(kind, format!("{what}{whose}"), move |world| self.apply(world, is_first_half))
    }

    fn apply(self, world: &mut World, is_first_half: bool) {
        if self == KeyStep::Leak {
            return world.start_recorder(Some(FORMER));
        }
        for node in 0..world.nodes() {
            let is_away = world.core(node).is_none();
            // Before a step an operator sees to it that the one before was taken everywhere; what is down is out of reach
            // until the last one, for which its file is changed as well.
            match self {
                KeyStep::Add | KeyStep::Use if is_away => continue,
                KeyStep::Add => {}
                KeyStep::Use => world.hand_keys(node, &[FORMER, NEW], None),
                _ => world.hand_keys(node, &[FORMER, NEW], Some(NEW)),
            }
            if is_first_half && node % 2 == 1 {
                continue;
            }
            match self {
                KeyStep::Add => world.hand_keys(node, &[FORMER, NEW], None),
                KeyStep::Use => world.hand_keys(node, &[FORMER, NEW], Some(NEW)),
                _ => world.hand_keys(node, &[NEW], Some(NEW)),
            }
        }
    }
}

impl Schedule {
    /// Seals everything, and has the key rotated while the schedule goes on.
    #[must_use]
    pub fn with_rotation(mut self, seed: u64) -> Self {
        let mut random = Random::new(seed, Purpose::Rotation);
        self.variation.sealed = true;
        let (begin, quarter) = (self.heal_at / 8, self.heal_at / 4);
        for (nth, step) in [KeyStep::Add, KeyStep::Use, KeyStep::Remove].into_iter().enumerate() {
            let at = begin + quarter * nth as u32 + random.duration(Duration::ZERO, quarter.saturating_sub(MOST_APART));
            let rest = (at + random.duration(Duration::ZERO, MOST_APART)).min(self.heal_at);
            self.operations.extend([(at, Operation::Keys(step, true)), (rest, Operation::Keys(step, false))]);
            if step == KeyStep::Remove {
                self.operations.push((rest, Operation::Keys(KeyStep::Leak, false)));
            }
        }
        self.operations.sort_by_key(|(at, _)| *at);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_come_in_their_order_before_the_healing() {
        for seed in 0..200 {
            let schedule = Schedule::of_seed(seed).with_rotation(seed);
            let steps: Vec<_> = schedule
                .operations
                .iter()
                .filter_map(|(at, operation)| match operation {
                    Operation::Keys(step, is_first_half) => Some((*at, *step, *is_first_half)),
                    _ => None,
                })
                .collect();
            let order: Vec<_> = steps.iter().map(|(_, step, is_first_half)| (*step, *is_first_half)).collect();
            let expected = [KeyStep::Add, KeyStep::Use, KeyStep::Remove].map(|step| [(step, true), (step, false)]);
            assert_eq!(order, [expected.as_flattened(), &[(KeyStep::Leak, false)]].concat(), "seed {seed}");
            assert!(steps.iter().all(|(at, ..)| *at <= schedule.heal_at));
            assert!(schedule.operations.windows(2).all(|pair| pair[0].0 <= pair[1].0), "in order of time");
        }
    }
}
