//! This node's own record: raising its incarnation, obeying a removal, changing its tags, draining, leaving. When it
//! refutes: `refutation`. Changing its address: `moving`.
//!
//! Invariants:
//! - Only this file (with `moving`, and `join`, which turns Joining into Up) rewrites this node's own record.
//! - No incarnation is used before a bound at or above it is stored. Bounds are stored [`INCARNATION_STEP`] ahead and
//!   refreshed at half, so that an ordinary refutation never waits for a disk.

use std::net::SocketAddr;

use super::confirm::Purpose;
use crate::Core;
use crate::context::Phase;
use crate::doors::{CommandError, Durable, Notice, Output, Receiver, Reply, StopReason, Ticket};
use crate::election::Ballot;
use crate::limits::{CONFIRM_TIMEOUT, INCARNATION_STEP, LEAVING_TIMEOUT};
use crate::member::{LeaveReason, Record, Run, Status, Tags};
use crate::view::View;
use crate::wire::{Message, Nonce};

/// The state of this node's own incarnation.
#[derive(Debug, Clone)]
pub(crate) struct Incarnation {
    /// The bound that is stored: no higher incarnation may be used yet.
    stored: u64,
    /// The bound that was last given out to be stored.
    asked: u64,
    /// The incarnation that waits for its bound to be stored.
    wanted: Option<u64>,
    /// The node that asked for our record meanwhile: the old one would be refused, and not be asked for again for a
    /// second.
    asked_by: Option<(Run, SocketAddr, Nonce)>,
}

impl Incarnation {
    pub(crate) fn new(stored: u64) -> Self {
        Self { stored, asked: stored, wanted: None, asked_by: None }
    }

    /// Returns true if a raise waits for the disk.
    pub(crate) fn is_waiting(&self) -> bool {
        self.wanted.is_some()
    }

    /// Returns true if a raise above this incarnation waits for the disk.
    pub(crate) fn covers(&self, incarnation: u64) -> bool {
        self.wanted.is_some_and(|wanted| wanted > incarnation)
    }
}

impl Core {
    /// Raises the incarnation, at once if its bound is stored, else as soon as it is.
    pub(crate) fn raise_incarnation(&mut self, to: u64) {
        let to = to.max(self.me().incarnation + 1).min(Record::INCARNATION_LIMIT - 2);
        if to > self.incarnation.stored {
            let wanted = self.incarnation.wanted.map_or(to, |wanted| wanted.max(to));
            self.incarnation.wanted = Some(wanted);
        } else {
            self.rewrite_myself(Record { incarnation: to, ..Record::clone(self.me()) });
        }
        self.secure_incarnations();
    }

    /// Returns true if an introduction to this proven address has to wait for the disk; it is sent afterwards.
    pub(crate) fn defer_introduction(&mut self, asker: Run, to: SocketAddr, nonce: Nonce) -> bool {
        let is_waiting = self.incarnation.is_waiting();
        if is_waiting {
            self.incarnation.asked_by = Some((asker, to, nonce));
        }
        is_waiting
    }

    /// Has a higher bound stored when half of the last one is used up.
    fn secure_incarnations(&mut self) {
        let used = self.incarnation.wanted.unwrap_or(0).max(self.me().incarnation);
        let bound = used.saturating_add(INCARNATION_STEP).min(Record::INCARNATION_LIMIT - 2);
        if used.saturating_add(INCARNATION_STEP / 2) > self.incarnation.asked && bound > self.incarnation.asked {
            self.incarnation.asked = bound;
            self.persist();
        }
    }

    /// Gives out the state that must survive the process.
    pub(crate) fn persist(&mut self) {
        self.persist_with(self.ballot().cloned());
    }

    /// Does the same with this ballot.
    pub(crate) fn persist_with(&mut self, ballot: Option<Ballot>) {
        let incarnation_bound = self.incarnation.asked;
        let addresses = self.reunion.remembered().to_vec();
        self.cx.output(Output::Persist(Durable { incarnation_bound, addresses, ballot }));
    }

    /// Notes that a bound is on disk.
    pub(crate) fn persisted(&mut self, bound: u64) {
        self.incarnation.stored = self.incarnation.stored.max(bound);
        if let Some(wanted) = self.incarnation.wanted.filter(|wanted| *wanted <= self.incarnation.stored) {
            self.incarnation.wanted = None;
            self.raise_incarnation(wanted);
            self.incarnation_raised();
            if let Some((asker, to, nonce)) = self.incarnation.asked_by.take() {
                let mut packet = self.out().packet(usize::MAX);
                packet.push(&Message::Reply);
                packet.push(&Message::IAm { nonce, record: Record::clone(self.me()) });
                self.out().transmit(to, Receiver::of(asker), packet);
            }
        }
    }

    /// Obeys a removal by an operator: announces it at this node's own incarnation, and stops.
    pub(super) fn obey(&mut self) {
        if !self.cx.phase.is_joining() {
            self.rewrite_myself(self.me().with_status(Status::Left(LeaveReason::Forced)));
            self.flood();
        }
        self.stop(StopReason::Removed);
    }

    /// Carries out the command to replace all tags.
    pub(crate) fn set_tags(&mut self, ticket: Ticket, tags: &Tags) {
        if self.cx.phase.is_leaving() {
            return self.cx.reply(ticket, Reply::Refused(CommandError::Leaving));
        }
        // The marks that a node sets by itself are no tags of the operator's.
        let Ok(tags) = tags.with_draining(self.me().is_draining()) else {
            return self.cx.reply(ticket, Reply::Refused(CommandError::NoRoomToDrain));
        };
        // Without room for it others do not know that this node's vote is lost; it knows itself.
        let tags = tags.with_lost_vote(self.me().has_lost_vote()).unwrap_or(tags);
        if tags != self.me().tags && !self.restate_myself(Record { tags, ..Record::clone(self.me()) }) {
            return self.cx.reply(ticket, Reply::Refused(CommandError::Busy));
        }
        self.cx.reply(ticket, Reply::TagsSet);
    }

    /// Carries out the command to drain, or to take that back. The election is told of the change like of every other one.
    pub(crate) fn drain(&mut self, ticket: Ticket, is_draining: bool) {
        if self.cx.phase.is_leaving() {
            return self.cx.reply(ticket, Reply::Refused(CommandError::Leaving));
        }
        let Ok(tags) = self.me().tags.with_draining(is_draining) else {
            return self.cx.reply(ticket, Reply::Refused(CommandError::NoRoomToDrain));
        };
        if tags != self.me().tags && !self.restate_myself(Record { tags, ..Record::clone(self.me()) }) {
            return self.cx.reply(ticket, Reply::Refused(CommandError::Busy));
        }
        let may_lead = self.voters_that_may_lead();
        self.cx.reply(ticket, Reply::Draining { may_lead });
    }

    /// Tells everybody, by a mark in its record, that this node does not vote though a voter has its name, or that it does
    /// again. Where it must wait for the disk, or there is no room, nothing is told.
    pub(crate) fn mark_lost_vote(&mut self, is_lost: bool) {
        let is_new = self.me().has_lost_vote() != is_lost && self.cx.phase.is_up();
        let Some(tags) = is_new.then(|| self.me().tags.with_lost_vote(is_lost).ok()).flatten() else { return };
        self.restate_myself(Record { tags, ..Record::clone(self.me()) });
    }

    /// Rewrites this node's record at the next incarnation; returns false if that must wait for the disk.
    pub(super) fn restate_myself(&mut self, record: Record) -> bool {
        let incarnation = self.me().incarnation + 1;
        let is_stored = incarnation <= self.incarnation.stored;
        if is_stored {
            self.rewrite_myself(Record { incarnation, ..record });
        }
        self.secure_incarnations();
        is_stored
    }

    /// Carries out the command to leave. A leader hands over first.
    pub(crate) fn leave(&mut self) {
        if !self.hand_over() {
            self.begin_leaving();
        }
    }

    /// Leaves: Leaving, then Left, each confirmed by a few peers, each with an end.
    pub(crate) fn begin_leaving(&mut self) {
        match self.cx.phase {
            Phase::Joining => self.stop(StopReason::Left),
            Phase::Up => {
                self.cx.phase = Phase::Leaving;
                self.transfer = None;
                self.rewrite_myself(self.me().with_status(Status::Leaving));
                // Links stay as long as the departure is being announced: if datagrams do not pass, it goes that way.
                self.ask_for_confirmation(Purpose::Leaving, View::ME, LEAVING_TIMEOUT);
            }
            Phase::Leaving | Phase::Stopped => {}
        }
    }

    /// Becomes Left from Leaving, at this incarnation at least, and tells the others.
    pub(super) fn announce_left(&mut self, incarnation: u64) {
        if self.me().status != Status::Leaving {
            return;
        }
        self.confirmations.cancel(Purpose::Leaving);
        let incarnation = incarnation.max(self.me().incarnation);
        let left = self.me().with_status(Status::Left(LeaveReason::Graceful));
        self.rewrite_myself(Record { incarnation, ..left });
        self.ask_for_confirmation(Purpose::Left, View::ME, CONFIRM_TIMEOUT);
    }

    /// Drops the view and joins anew: a node that slept longer than `reap_after` could raise the dead. It accuses nobody
    /// by that: its own user alone is told that the members are gone, and that they are back.
    pub(crate) fn rejoin(&mut self) {
        self.cx.output(Output::Notice(Notice::RejoiningAfterIsolation));
        self.drop_links();
        // The dead come last: not all addresses may find room.
        let (up, others): (Vec<_>, Vec<_>) =
            self.view.iter().map(|(_, entry)| &entry.record).partition(|record| record.status == Status::Up);
        let addresses: Vec<SocketAddr> = up.into_iter().chain(others).map(|record| record.address).collect();
        let mine = self.me().address;
        self.reunion.remember(addresses.into_iter().filter(|address| *address != mine));
        self.forget_everybody();
        self.begin_joining();
        // In one step: at one incarnation, a node that was Up is never Joining again.
        let (mine, incarnation) = (self.me().with_status(Status::Joining), self.me().incarnation + 1);
        if incarnation <= self.incarnation.stored {
            self.rewrite_myself(Record { incarnation, ..mine });
            self.secure_incarnations();
        } else {
            self.rewrite_myself(mine);
            self.raise_incarnation(incarnation);
        }
        self.seek_cluster();
    }
}
