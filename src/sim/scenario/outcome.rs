//! The outcome of a scenario's event: what failed, and what was disturbed.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::World;
use headcount_core::Run;

/// The outcome of a scenario's event.
#[derive(Default)]
pub(super) struct Outcome {
    /// Failures whose detection is measured.
    pub(super) failures: Vec<Failure>,
    /// Nodes that were disturbed: alarms about them are not false.
    pub(super) disturbed: BTreeSet<usize>,
    /// True if the network, or nodes that go on running, were disturbed: alarms about all other nodes count although
    /// the world is not calm.
    pub(super) goes_on: bool,
}

/// A failure whose detection is measured.
pub(super) struct Failure {
    pub(super) at: Duration,
    pub(super) subject: usize,
    pub(super) run: Option<Run>,
    /// Number of nodes that can notice it.
    pub(super) observers: usize,
}

impl Failure {
    /// Returns the failure of a running node, at this moment.
    pub(super) fn now(world: &World, subject: usize, observers: usize) -> Self {
        let run = world.core(subject).map(|core| core.me().run);
        Self { at: world.now(), subject, run, observers }
    }
}
