//! Inputs of the contender that lives in a node's process: what waits for it while the process is paused, and what the
//! world's queue brings it.
//!
//! Must not know: what a contender makes of them.

use headcount_contender::{Answer, LeaseName};
use headcount_core::wire::LeaseUpdate;

/// An input of the contender of a process.
#[derive(Debug)]
pub(crate) enum Happening {
    Wake {
        epoch: u64,
    },
    Answer {
        number: u64,
        answer: Answer,
    },
    Fail {
        number: u64,
        is_known: bool,
    },
    Heard {
        word: LeaseUpdate,
        is_believed: bool,
    },
    Stored {
        lease: LeaseName,
        term: u64,
    },
    WorkEnded {
        lease: LeaseName,
        term: u64,
    },
    Resign,
    Stop,
    /// Time is up for whoever leaves.
    Farewell,
}
