//! The way out: changes, notices and replies, as rooms give them to the driver (packets and the rest they push themselves);
//! this node's own record; and the bytes that seals leave of a datagram.
//!
//! Invariant: outputs keep the order in which they came about.
//!
//! Must not know: who waits for them.

use std::sync::Arc;

use crate::core::Core;
use crate::core::doors::{Notice, Output, Reply, Ticket};
use crate::core::member::{Change, DetectionMethod, Record};
use crate::core::view::View;

impl Core {
    /// Returns this node's own record.
    pub fn me(&self) -> &Arc<Record> {
        self.view.record(View::ME)
    }

    /// Reports one transition as the changes that fold to it.
    pub(in crate::core) fn report(
        &mut self,
        held: Option<&Arc<Record>>,
        new: &Arc<Record>,
        method: Option<DetectionMethod>,
    ) {
        for change in Change::between(held, new, method) {
            self.outputs.push_back(Output::Change(change));
        }
    }

    /// Reports one transition from a record that is held no more.
    pub(in crate::core) fn report_replaced(
        &mut self,
        held: Arc<Record>,
        new: Arc<Record>,
        method: Option<DetectionMethod>,
    ) {
        match Change::direct(held, new, method) {
            Ok(change) => self.outputs.push_back(Output::Change(change)),
            Err((held, new)) => self.report(Some(&held), &new, method),
        }
    }

    /// Gives a notice, at most one of its kind in a while.
    pub(in crate::core) fn notice(&mut self, kind: &'static str, notice: Notice) {
        self.notice_if_allowed(kind, notice);
    }

    /// Gives a notice, at most one of its kind in a while; returns true if it was given.
    pub(in crate::core) fn notice_if_allowed(&mut self, kind: &'static str, notice: Notice) -> bool {
        let is_allowed = self.notices.take(self.now, kind);
        if is_allowed {
            self.outputs.push_back(Output::Notice(notice));
        }
        is_allowed
    }

    /// Answers a command.
    pub(in crate::core) fn reply(&mut self, ticket: Ticket, reply: Reply) {
        self.outputs.push_back(Output::Reply { ticket, reply });
    }

    /// Returns the size of a question to which an answer of this size is not larger, both of them sealed.
    pub(in crate::core) fn question_bytes(&self, answer: usize) -> usize {
        answer + self.seal.slack
    }

    /// Returns the greatest size of a packet in a datagram.
    pub(crate) fn datagram_bytes(&self) -> usize {
        self.settings.mtu - self.seal.bytes
    }
}
