//! Planted bugs: a hook between the cores and the world, by which a test breaks one promise on purpose and sees that
//! the check of that promise notices.
//!
//! Must not know: the checks. A tamper changes a node's outputs, birth, disk writes, or what an observer sees of it;
//! the world then goes on as if the core itself had done so.

use std::fmt;

use super::invariants::Observation;

use headcount_core::{CoreInit, Durable, Leadership, MessageCounters, Output, Sizes};

/// Changes a core's behaviour. The default of every method changes nothing.
pub trait Tamper: fmt::Debug + Send {
    /// Returns the outputs that take the place of this one.
    fn output(&mut self, node: usize, output: Output) -> Vec<Output> {
        let _ = node;
        vec![output]
    }

    /// Changes the birth of a process.
    fn init(&mut self, node: usize, init: &mut CoreInit) {
        let _ = (node, init);
    }

    /// Returns true if this write is to be acknowledged without ever reaching the disk.
    fn forgets(&mut self, node: usize, durable: &Durable) -> bool {
        let _ = (node, durable);
        false
    }

    /// Changes what the checker sees of a core.
    fn observation(&mut self, node: usize, observation: &mut Observation) {
        let _ = (node, observation);
    }

    /// Returns true if the checker is to believe that led work runs on although the core is told that it has ended.
    fn hurries(&mut self, node: usize) -> bool {
        let _ = node;
        false
    }

    /// Changes what the checker sees of a core's leadership.
    fn leadership(&mut self, node: usize, told: &mut Leadership) {
        let _ = (node, told);
    }

    /// Returns the outputs of a contender for leases that take the place of this one.
    fn contender(&mut self, node: usize, output: headcount_contender::Output) -> Vec<headcount_contender::Output> {
        let _ = node;
        vec![output]
    }

    /// Changes what the checker sees of a core's counters of messages.
    fn message_counts(&mut self, node: usize, counts: &mut MessageCounters) {
        let _ = (node, counts);
    }

    /// Returns true if a core that is due is not to be told that time has passed.
    fn sleeps(&mut self, node: usize) -> bool {
        let _ = node;
        false
    }

    /// Changes what the checker sees of the sizes of a core's tables.
    fn sizes(&mut self, node: usize, sizes: &mut Sizes) {
        let _ = (node, sizes);
    }
}
