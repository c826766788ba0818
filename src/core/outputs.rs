//! The way out: changes, notices and replies, as rooms give them to the driver (packets and the rest they push themselves);
//! this node's own record; and the bytes that seals leave of a datagram.
//!
//! Invariant: outputs keep the order in which they came about.
//!
//! Must not know: who waits for them.

use std::sync::Arc;

use crate::Core;
use crate::doors::{Notice, Output, Reply, Ticket};
use crate::member::{Change, DetectionMethod, Record};
use crate::view::View;

impl Core {
    /// Returns this node's own record.
    pub fn me(&self) -> &Arc<Record> {
        self.view.record(View::ME)
    }

    /// Reports one transition as the changes that fold to it.
    pub(crate) fn report(&mut self, held: Option<&Arc<Record>>, new: &Arc<Record>, method: Option<DetectionMethod>) {
        for change in Change::between(held, new, method) {
            self.outputs.push_back(Output::Change(change));
        }
    }

    /// Gives a notice, at most one of its kind in a while.
    pub(crate) fn notice(&mut self, kind: &'static str, notice: Notice) {
        self.notice_if_allowed(kind, notice);
    }

    /// Gives a notice, at most one of its kind in a while; returns true if it was given.
    pub(crate) fn notice_if_allowed(&mut self, kind: &'static str, notice: Notice) -> bool {
        let is_allowed = self.notices.take(self.now, kind);
        if is_allowed {
            self.outputs.push_back(Output::Notice(notice));
        }
        is_allowed
    }

    /// Answers a command.
    pub(crate) fn reply(&mut self, ticket: Ticket, reply: Reply) {
        self.outputs.push_back(Output::Reply { ticket, reply });
    }

    /// Returns the size of a question to which an answer of this size is not larger, both of them sealed.
    pub(crate) fn question_bytes(&self, answer: usize) -> usize {
        answer + self.seal.slack
    }

    /// Returns the greatest size of a packet in a datagram.
    pub fn datagram_bytes(&self) -> usize {
        self.settings.mtu - self.seal.bytes
    }
}
