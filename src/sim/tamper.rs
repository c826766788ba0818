//! Planted bugs: a hook between the cores and the world, by which a test breaks one promise on purpose and sees that
//! the check of that promise notices.
//!
//! Must not know: the checks. A tamper changes a node's outputs, birth, disk writes, or what an observer sees of it;
//! the world then goes on as if the core itself had done so.

use std::fmt;

use headcount_core::{CoreInit, Durable, Output};

#[cfg(not(feature = "planted"))]
pub(crate) use headcount_contender::Sound as Rules;
/// The rules of a world's contenders: tests may leave one out.
#[cfg(feature = "planted")]
pub(crate) use headcount_contender::flaw::Planted as Rules;

/// A contender of a world.
pub type Contender = headcount_contender::Contender<Rules>;

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

    /// Returns the outputs of a contender for leases that take the place of this one.
    fn contender(&mut self, node: usize, output: headcount_contender::Output) -> Vec<headcount_contender::Output> {
        let _ = node;
        vec![output]
    }

    /// Changes the contender of a process that starts.
    fn contender_starts(&mut self, node: usize, contender: &mut Contender) {
        let _ = (node, contender);
    }

    /// Returns true if a core that is due is not to be told that time has passed.
    fn sleeps(&mut self, node: usize) -> bool {
        let _ = node;
        false
    }
}
