//! Planted bugs: a test breaks one promise on purpose, and sees that the check of that promise notices.
//!
//! What a core itself could do wrong is an [`Intercept`]: the world then goes on as if the core had done so. The rest is what
//! the checks see of it.
//!
//! Must not know: the checks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headcount_contender::Output as LeaseOutput;
use headcount_contender::flaw::Flaw;
use headcount_core::{CoreInit, Durable, Leadership, MessageCounters, Output, Sizes};
use headcount_sim::intercept::{Contender, Intercept};

use crate::invariants::Observation;

/// Changes a core's behaviour, or what the checks see of it. The default of every method changes nothing.
#[expect(unused_variables, reason = "the default of every method changes nothing")]
pub trait Plant: Intercept {
    /// Changes what the checks see of a core.
    fn observation(&mut self, node: usize, observation: &mut Observation) {}

    /// Returns true if the checks are to believe that led work runs on although the core is told that it has ended.
    fn hurries(&mut self, node: usize) -> bool {
        false
    }

    /// Changes what the checks see of a core's leadership.
    fn leadership(&mut self, node: usize, told: &mut Leadership) {}

    /// Changes what the checks see of a core's counters of messages.
    fn message_counts(&mut self, node: usize, counts: &mut MessageCounters) {}

    /// Changes what the checks see of the sizes of a core's tables.
    fn sizes(&mut self, node: usize, sizes: &mut Sizes) {}
}

/// A rule that all contenders for leases leave out.
#[derive(Debug)]
pub struct LeftOut(pub Flaw);

impl Intercept for LeftOut {
    fn contender_starts(&mut self, _: usize, contender: &mut Contender) {
        contender.plant(self.0);
    }
}

impl Plant for LeftOut {}

/// A planted bug, for the world and for its checks.
#[derive(Debug, Clone)]
pub(crate) struct Planted(Arc<Mutex<Box<dyn Plant>>>);

impl Planted {
    pub(crate) fn new(plant: Box<dyn Plant>) -> Self {
        Self(Arc::new(Mutex::new(plant)))
    }

    /// Returns the bug.
    pub(crate) fn bug(&self) -> MutexGuard<'_, Box<dyn Plant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Intercept for Planted {
    fn output(&mut self, node: usize, output: Output) -> Vec<Output> {
        self.bug().output(node, output)
    }

    fn init(&mut self, node: usize, init: &mut CoreInit) {
        self.bug().init(node, init);
    }

    fn forgets(&mut self, node: usize, durable: &Durable) -> bool {
        self.bug().forgets(node, durable)
    }

    fn contender(&mut self, node: usize, output: LeaseOutput) -> Vec<LeaseOutput> {
        self.bug().contender(node, output)
    }

    fn contender_starts(&mut self, node: usize, contender: &mut Contender) {
        self.bug().contender_starts(node, contender);
    }

    fn sleeps(&mut self, node: usize) -> bool {
        self.bug().sleeps(node)
    }
}
