//! Questions to kernels: a connection is opened, and closed as soon as its host's kernel accepts or refuses it, which it does
//! without the process.
//!
//! Invariants: one question to a member at a time, and [`MAX_HOST_QUESTIONS`] in all.
//!
//! Must not know: why a kernel is asked, or what its silence means (see `detection::host`).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::Paths;
use crate::context::Context;
use crate::io::{LinkId, Output};
use crate::limits::MAX_HOST_QUESTIONS;
use crate::member::Run;

/// The questions that wait for an answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kernels {
    asked: BTreeMap<Run, LinkId>,
}

impl Kernels {
    /// Returns the number of questions that wait.
    pub(crate) fn size(&self) -> usize {
        self.asked.len()
    }

    /// Returns the member whose host's kernel is asked by this connection.
    pub(crate) fn run_of(&self, link: LinkId) -> Option<Run> {
        self.asked.iter().find(|(_, asked)| **asked == link).map(|(run, _)| *run)
    }
}

impl Paths {
    /// Asks the kernel at a member's address, in place of the question before, which it has not answered; returns false if too many
    /// are asked.
    pub(crate) fn ask_kernel(&mut self, cx: &mut Context, run: Run, to: SocketAddr) -> bool {
        self.end_kernel_question(cx, run);
        let has_room = self.kernels.asked.len() < MAX_HOST_QUESTIONS;
        if has_room {
            let link = self.links.next_number();
            self.kernels.asked.insert(run, link);
            cx.output(Output::OpenLink { link, to });
        }
        has_room
    }

    /// Ends the question to the kernel of a member's host, if there is one.
    pub(crate) fn end_kernel_question(&mut self, cx: &mut Context, run: Run) {
        if let Some(link) = self.kernels.asked.remove(&run) {
            cx.output(Output::CloseLink { link });
        }
    }
}
