//! Planted bugs: a hook between the cores and the world, through which a test breaks one promise on purpose and sees that
//! its check notices.
//!
//! Must not know: the checks. A tamper changes what comes out of a node, how it is born, what its disk does, or what an
//! observer sees of it; the world then goes on as if the core had done so.

use std::fmt;

use super::invariants::Observation;
use crate::core::{Birth, Durable, Leadership, Output, Sizes};
use crate::lease;

/// Changes what a core did. Every method does nothing unless it is written.
pub trait Tamper: fmt::Debug + Send {
    /// What comes out instead of this output.
    fn output(&mut self, node: usize, output: Output) -> Vec<Output> {
        let _ = node;
        vec![output]
    }

    /// How a process is born instead.
    fn birth(&mut self, node: usize, birth: &mut Birth) {
        let _ = (node, birth);
    }

    /// Whether a write is acknowledged without ever reaching the disk.
    fn forgets(&mut self, node: usize, durable: &Durable) -> bool {
        let _ = (node, durable);
        false
    }

    /// What is seen of a core instead.
    fn observation(&mut self, node: usize, observation: &mut Observation) {
        let _ = (node, observation);
    }

    /// Whether led work goes on although it is said to have ended.
    fn hurries(&mut self, node: usize) -> bool {
        let _ = node;
        false
    }

    /// What is seen of a core's leadership instead.
    fn leadership(&mut self, node: usize, told: &mut Leadership) {
        let _ = (node, told);
    }

    /// Changes an output of a contender for leases.
    fn contender(&mut self, node: usize, output: lease::Output) -> Vec<lease::Output> {
        let _ = node;
        vec![output]
    }

    /// What is seen of the sizes of a core's tables instead.
    fn sizes(&mut self, node: usize, sizes: &mut Sizes) {
        let _ = (node, sizes);
    }
}
