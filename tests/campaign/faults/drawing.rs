//! The next fault of a schedule, drawn by weight from a table: a fault is one row, and one function that draws its
//! figures.
//!
//! Invariant: rows keep their order and weights, or every seed is another run.
//!
//! Must not know: when a fault happens, and what it does.

use std::time::Duration;

use super::{DiskFate, Operation, Schedule};
use headcount_sim::Random;
use headcount_sim::Tcp;
use headcount_sim::network::{Burst, Conditions, Latency, NodeLoss};

/// The generator's assumptions about the nodes: used only to make schedules that are mostly sensible.
pub(super) struct AssumedState {
    pub(super) running: Vec<bool>,
}

/// Draws the figures of one fault; `None` if it makes no sense for the nodes as they are assumed to be.
type Draw = fn(&mut AssumedState, &mut Random) -> Option<Operation>;

/// The faults, each with its weight.
const FAULTS: [(u64, Draw); 20] = [
    (2, AssumedState::crash),
    (4, AssumedState::restart),
    (2, AssumedState::pause),
    (1, AssumedState::slow),
    (2, AssumedState::partition),
    (1, AssumedState::isolation),
    (1, AssumedState::one_way_cut),
    (2, AssumedState::weather),
    (1, AssumedState::leave),
    (1, AssumedState::remove),
    (1, AssumedState::set_tags),
    (1, AssumedState::join_or_contact),
    (1, AssumedState::lossy_node),
    (1, AssumedState::flip_flop),
    (1, AssumedState::mass_crash),
    (1, AssumedState::staggered_restart),
    (1, AssumedState::mass_restart),
    (1, AssumedState::power_off),
    (1, AssumedState::reset_links),
    (1, AssumedState::firewall),
];

/// Draws a row of a table, in which each row has its weight in front.
pub(super) fn weighted<T: Copy>(random: &mut Random, table: &[(u64, T)]) -> T {
    let mut at = random.below(table.iter().map(|(weight, _)| weight).sum());
    for (weight, row) in table {
        match at.checked_sub(*weight) {
            Some(rest) => at = rest,
            None => return *row,
        }
    }
    unreachable!("it is below the sum of all weights")
}

impl AssumedState {
    /// Draws the next fault.
    pub(super) fn next(&mut self, random: &mut Random) -> Operation {
        loop {
            if let Some(operation) = weighted(random, &FAULTS)(self, random) {
                return operation;
            }
        }
    }
}

/// The rows of the table.
#[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "all rows have one form")]
impl AssumedState {
    fn crash(&mut self, random: &mut Random) -> Option<Operation> {
        self.end_one(random).map(Operation::Crash)
    }

    fn power_off(&mut self, random: &mut Random) -> Option<Operation> {
        self.end_one(random).map(Operation::PowerOff)
    }

    fn leave(&mut self, random: &mut Random) -> Option<Operation> {
        self.end_one(random).map(Operation::Leave)
    }

    fn reset_links(&mut self, random: &mut Random) -> Option<Operation> {
        Some(Operation::ResetLinks(random.index(self.running.len())))
    }

    fn firewall(&mut self, random: &mut Random) -> Option<Operation> {
        let tcp = if random.chance(0.5) { Tcp::Dropped } else { Tcp::Rejected };
        Some(Operation::Firewall(tcp, milliseconds(random, 500, 12_000)))
    }

    fn restart(&mut self, random: &mut Random) -> Option<Operation> {
        let node = self.some(random, false)?;
        self.running[node] = true;
        Some(Operation::Restart(node, disk_fate(random)))
    }

    fn pause(&mut self, random: &mut Random) -> Option<Operation> {
        Some(Operation::Pause(self.some(random, true)?, pause(random)))
    }

    fn slow(&mut self, random: &mut Random) -> Option<Operation> {
        let by = milliseconds(random, 5, 150);
        Some(Operation::Slow(self.some(random, true)?, by, milliseconds(random, 500, 8_000)))
    }

    fn partition(&mut self, random: &mut Random) -> Option<Operation> {
        Some(Operation::Partition(self.side(random), milliseconds(random, 500, 12_000)))
    }

    /// Draws the partition of one node from all others.
    fn isolation(&mut self, random: &mut Random) -> Option<Operation> {
        Some(Operation::Partition(vec![random.index(self.running.len())], milliseconds(random, 500, 15_000)))
    }

    fn one_way_cut(&mut self, random: &mut Random) -> Option<Operation> {
        let from = self.side(random);
        let to = (0..self.running.len()).filter(|node| !from.contains(node)).collect();
        Some(Operation::OneWayCut(from, to, milliseconds(random, 500, 8_000)))
    }

    fn weather(&mut self, random: &mut Random) -> Option<Operation> {
        Some(Operation::SetConditions(weather(random), milliseconds(random, 500, 8_000)))
    }

    fn set_tags(&mut self, random: &mut Random) -> Option<Operation> {
        Some(Operation::SetTags(self.some(random, true)?, random.below(1_000)))
    }

    fn join_or_contact(&mut self, random: &mut Random) -> Option<Operation> {
        if self.running.len() < Schedule::MOST_NODES && random.chance(0.6) {
            self.running.push(true);
            return Some(Operation::Join);
        }
        Some(Operation::Contact(self.some(random, true)?, random.index(self.running.len())))
    }

    fn lossy_node(&mut self, random: &mut Random) -> Option<Operation> {
        let lossy = self.some(random, true)?;
        let share = random.between(30, 90) as f64 / 100.0;
        let loss = match random.below(3) {
            0 => NodeLoss { outgoing: share, incoming: 0.0 },
            1 => NodeLoss { outgoing: 0.0, incoming: share },
            _ => NodeLoss { outgoing: share, incoming: share },
        };
        Some(Operation::Lossy(lossy, loss, milliseconds(random, 500, 12_000)))
    }

    fn flip_flop(&mut self, random: &mut Random) -> Option<Operation> {
        let period = milliseconds(random, 500, 5_000);
        Some(Operation::FlipFlop(self.side(random), period, milliseconds(random, 2_000, 20_000)))
    }

    fn mass_crash(&mut self, random: &mut Random) -> Option<Operation> {
        let nodes = self.running_nodes(|| random.chance(0.5));
        if nodes.is_empty() || nodes.len() == self.count() {
            return None;
        }
        for node in &nodes {
            self.running[*node] = false;
        }
        Some(Operation::MassCrash(nodes))
    }

    fn staggered_restart(&mut self, random: &mut Random) -> Option<Operation> {
        let all = self.running_nodes(|| true);
        let within = milliseconds(random, 0, 2_000);
        Some(Operation::StaggeredRestart(all, DiskFate::Kept, within))
    }

    fn mass_restart(&mut self, random: &mut Random) -> Option<Operation> {
        let nodes = self.running_nodes(|| random.chance(0.7));
        (!nodes.is_empty()).then(|| Operation::MassRestart(nodes, disk_fate(random)))
    }

    /// Draws the removal of a node by another one.
    pub(super) fn remove(&mut self, random: &mut Random) -> Option<Operation> {
        let by = self.some(random, true)?;
        let force = random.chance(0.5);
        // Without force, only the removal of a dead member makes sense; now and then it is tried on a live one all the
        // same.
        let running = force || random.chance(0.1);
        let node = self.some(random, running).filter(|node| *node != by)?;
        if force && self.count() > 1 {
            self.running[node] = false;
        } else if force {
            return None;
        }
        Some(Operation::Remove { by, node, force })
    }
}

impl AssumedState {
    /// Returns the number of nodes that run.
    pub(super) fn count(&self) -> usize {
        self.running.iter().filter(|running| **running).count()
    }

    /// Draws a node that runs, or one that does not.
    pub(super) fn some(&self, random: &mut Random, running: bool) -> Option<usize> {
        let candidates: Vec<usize> = (0..self.running.len()).filter(|node| self.running[*node] == running).collect();
        random.pick(&candidates).copied()
    }

    /// Draws some nodes, at least one and not all.
    pub(super) fn side(&self, random: &mut Random) -> Vec<usize> {
        let mut nodes: Vec<usize> = (0..self.running.len()).collect();
        let size = random.between(1, nodes.len() as u64 - 1) as usize;
        while nodes.len() > size {
            nodes.remove(random.index(nodes.len()));
        }
        nodes
    }

    /// Draws a running node that is to end, but for the last one.
    fn end_one(&mut self, random: &mut Random) -> Option<usize> {
        let node = self.some(random, true).filter(|_| self.count() > 1)?;
        self.running[node] = false;
        Some(node)
    }

    /// Returns the running nodes that this picks, asked once for each.
    fn running_nodes(&self, mut is_picked: impl FnMut() -> bool) -> Vec<usize> {
        (0..self.running.len()).filter(|node| self.running[*node] && is_picked()).collect()
    }
}

/// Draws a time between two numbers of milliseconds.
fn milliseconds(random: &mut Random, least: u64, most: u64) -> Duration {
    random.duration(Duration::from_millis(least), Duration::from_millis(most))
}

fn pause(random: &mut Random) -> Duration {
    // Short pauses matter most: those around the timeouts of the profile, which are seconds.
    let most = if random.chance(0.7) { 5_000 } else { 30_000 };
    random.duration(Duration::from_millis(100), Duration::from_millis(most))
}

/// Draws the state of a disk at the next start of its node.
pub(super) fn disk_fate(random: &mut Random) -> DiskFate {
    match random.below(6) {
        0 => DiskFate::Lost,
        1 => DiskFate::LostAndClockBack(random.duration(Duration::from_secs(1), Duration::from_secs(7_200))),
        _ => DiskFate::Kept,
    }
}

/// Draws conditions that are worse than usual.
pub(super) fn weather(random: &mut Random) -> Conditions {
    let usual = Conditions::default();
    match random.below(5) {
        0 => Conditions { loss: random.between(5, 60) as f64 / 100.0, ..usual },
        1 => Conditions { burst: Some(Burst { begin: 0.03, end: 0.15, loss: 0.95 }), ..usual },
        2 => Conditions { corrupt: random.between(2, 30) as f64 / 100.0, ..usual },
        3 => Conditions { duplicate: random.between(10, 100) as f64 / 100.0, ..usual },
        _ => {
            let base = random.duration(Duration::from_millis(1), Duration::from_millis(60));
            Conditions { latency: Latency { base, jitter: base }, loss: 0.02, ..usual }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headcount_sim::Purpose;

    #[test]
    fn somebody_always_runs() {
        for seed in 0..100 {
            let mut random = Random::new(seed, Purpose::Faults);
            let mut assumed = AssumedState { running: vec![true; 3] };
            for _ in 0..200 {
                assumed.next(&mut random);
                assert!(assumed.count() >= 1);
            }
        }
    }
}
