//! Somebody between the cores and the world: what a core is born with, does and is told is handed on by it.
//!
//! Invariant: the world goes on as if the core itself had done what is handed on.
//!
//! Must not know: what it is changed for.

use std::fmt;

use headcount_core::{CoreInit, Durable, Output};

#[cfg(not(feature = "planted"))]
pub(crate) use headcount_contender::Sound as Rules;
/// The rules of a world's contenders: tests of other crates may leave one out.
#[cfg(feature = "planted")]
pub(crate) use headcount_contender::flaw::Planted as Rules;

/// A contender of a world.
pub type Contender = headcount_contender::Contender<Rules>;

/// Whoever stands between the cores and the world. The default of every method hands everything on as it is.
#[expect(unused_variables, reason = "the default of every method changes nothing")]
pub trait Intercept: fmt::Debug + Send {
    /// Returns the outputs that take the place of this one.
    fn output(&mut self, node: usize, output: Output) -> Vec<Output> {
        vec![output]
    }

    /// Changes the birth of a process.
    fn init(&mut self, node: usize, init: &mut CoreInit) {}

    /// Returns true if this write is to be acknowledged without ever reaching the disk.
    fn forgets(&mut self, node: usize, durable: &Durable) -> bool {
        false
    }

    /// Returns the outputs of a contender for leases that take the place of this one.
    fn contender(&mut self, node: usize, output: headcount_contender::Output) -> Vec<headcount_contender::Output> {
        vec![output]
    }

    /// Changes the contender of a process that starts.
    fn contender_starts(&mut self, node: usize, contender: &mut Contender) {}

    /// Returns true if a core that is due is not to be told that time has passed.
    fn sleeps(&mut self, node: usize) -> bool {
        false
    }
}

/// Hands everything on as it is.
#[derive(Debug)]
pub(crate) struct AsItIs;

impl Intercept for AsItIs {}
