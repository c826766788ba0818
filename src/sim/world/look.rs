//! Looks at all running nodes at once, for the checker.
//!
//! Must not know: what is promised.

use std::time::Duration;

use super::{Event, World};
use crate::invariants::Observation;
use crate::network::Nanos;
use crate::node::Node;

/// The time between two looks.
pub(super) const COMPARE_EVERY: Duration = Duration::from_millis(250);

impl World {
    /// Looks at all running nodes at once, and comes again.
    pub(super) fn compare(&mut self) {
        let Some(mut checker) = self.checker.take() else { return };
        let mut all = Vec::with_capacity(self.nodes.len());
        for node in 0..self.nodes.len() {
            if let Some(observation) = self.observe(node) {
                checker.look(self.now, node, &observation, None);
                if let Some(process) = self.nodes[node].running() {
                    let stretch = process.core.health_score() + 1;
                    let well_since = process.undisturbed_since;
                    checker.look_at_suspects(self.now, node, &observation, stretch, well_since);
                }
                all.push((node, observation));
            }
        }
        let calm_since = self
            .nodes
            .iter()
            .filter_map(Node::running)
            .try_fold(self.network_calm_since.unwrap_or(Nanos::MAX), |latest, process| {
                process.undisturbed_since.map(|since| latest.max(since))
            });
        let untroubled = self.nodes.iter().all(|node| node.troubles == 0);
        let untroubled_since = self.nodes.iter().map(|node| node.untroubled_since).max().unwrap_or_default();
        let calm_since = calm_since.map(|since| since.max(untroubled_since));
        checker.compare(self.now, &all, calm_since.filter(|_| untroubled && self.network_calm_since.is_some()));
        self.has_failed |= !checker.violations().is_empty();
        self.checker = Some(checker);
        self.look_at_sizes();
        self.forget_traffic();
        self.push_after(COMPARE_EVERY, Event::Compare);
    }

    pub(super) fn observe(&mut self, node: usize) -> Option<Observation> {
        let process = self.nodes[node].running()?;
        let mut observation = Observation::of(&process.core);
        if let Some(tamper) = &mut self.tamper {
            tamper.observation(node, &mut observation);
        }
        Some(observation)
    }
}
