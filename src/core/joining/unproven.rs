//! Joiners that have proven nothing: how many of them are answered, whatever they ask.
//!
//! Whoever brings no cookie that was sent to where it is may be made up, and so may its address. A packet costs its maker
//! less than its answer costs this node; so these questions are answered in turn, so many of each host and so many in all,
//! and what is one too many is looked at, not decoded. An honest joiner asks again, and needs one such answer: from then on
//! it brings the cookie, which is checked first, and waits for nobody's turn.
//!
//! Invariants:
//! - Who brings a good cookie is never dropped because of those who bring none.
//! - Addresses that this node contacted itself have turns of their own, beside those of all.
//!
//! Must not know: what is answered.

use std::net::SocketAddr;

use crate::core::Core;
use crate::core::limits::{
    MAX_CONTACTED_JOINS, MAX_CONTACTED_JOINS_PER_HOST, MAX_STRANGER_MESSAGES, MAX_UNPROVEN_JOINS,
    MAX_UNPROVEN_JOINS_PER_HOST,
};
use crate::core::member::Run;
use crate::core::packet::{Sender, SenderKind, Turns};
use crate::core::wire::{Messages, Nonce};

/// The turns of joiners that have proven nothing.
#[derive(Debug)]
pub(in crate::core) struct UnprovenJoins {
    of_all: Turns,
    /// Further turns, of addresses that this node contacted itself.
    of_contacted: Turns,
}

impl Default for UnprovenJoins {
    fn default() -> Self {
        Self {
            of_all: Turns::new(MAX_UNPROVEN_JOINS_PER_HOST, MAX_UNPROVEN_JOINS),
            of_contacted: Turns::new(MAX_CONTACTED_JOINS_PER_HOST, MAX_CONTACTED_JOINS),
        }
    }
}

impl UnprovenJoins {
    /// Returns the number of hosts that are remembered.
    pub(in crate::core) fn size(&self) -> usize {
        self.of_all.size() + self.of_contacted.size()
    }
}

impl Core {
    /// Returns true if the packet of somebody who is not a member asks to join without a good cookie, and so many did
    /// that it is to be dropped; else it has taken its turn.
    pub(in crate::core) fn is_one_join_too_many(&mut self, sender: &Sender, messages: &Messages<'_>) -> bool {
        if matches!(sender.kind, SenderKind::Member(_)) {
            return false;
        }
        let Some(join) = messages.first_join(MAX_STRANGER_MESSAGES) else { return false };
        let is_proven = join.cookie().is_some_and(|cookie| {
            let is_of = |address| self.is_cookie_of(cookie, address, sender.run);
            is_of(sender.from) || join.advertised().is_some_and(is_of)
        });
        !is_proven && !self.may_answer_unproven(sender.from)
    }

    /// Returns true if a run brings back the cookie that was sent to it at an address.
    pub(super) fn is_cookie_of(&self, cookie: Nonce, address: SocketAddr, run: Run) -> bool {
        self.prover.is_cookie(cookie, address, run, self.now)
    }

    /// Returns true if a joiner at an address is to be answered although it has proven nothing; counts it if so.
    pub(super) fn may_answer_unproven(&mut self, from: SocketAddr) -> bool {
        let turns = &mut self.joiners.unproven;
        turns.of_all.allow(self.now, from)
            || self.expected.contains(self.now, from) && turns.of_contacted.allow(self.now, from)
    }
}
