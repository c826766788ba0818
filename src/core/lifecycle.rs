//! This node's own word about itself: raising its incarnation, refuting, obeying, changing its tags, leaving.
//!
//! Invariants:
//! - Only this file (and `join`, which turns Joining into Up) rewrites the own record.
//! - No incarnation is used before a bound at or above it is stored. Bounds are stored [`INCARNATION_STEP`] ahead and
//!   refreshed at half, so that an ordinary refutation never waits for a disk.

use std::net::SocketAddr;

use super::confirm::Purpose;
use super::limits::{CONFIRM_TIMEOUT, INCARNATION_STEP, LEAVING_TIMEOUT, MAX_INCARNATION_JUMP};
use super::view::View;
use super::wire::{Message, Nonce};
use super::{
    CommandError, Core, Drop, Durable, LeaveReason, Notice, Output, Phase, Record, Reply, Run, SelfDoubt, Status,
    StopReason, Tags, Ticket,
};

/// What is durable about the own incarnation.
#[derive(Debug)]
pub(super) struct Incarnation {
    /// Nothing above this may be used yet.
    stored: u64,
    /// The bound given out last.
    asked: u64,
    /// An incarnation that waits for its bound.
    wanted: Option<u64>,
    /// Who asked for our record meanwhile: the old one would be turned down, and not be asked for again for a second.
    asked_by: Option<(SocketAddr, Nonce)>,
}

impl Incarnation {
    pub(super) fn new(stored: u64) -> Self {
        Self { stored, asked: stored, wanted: None, asked_by: None }
    }

    /// Whether a raise waits for the disk.
    pub(super) fn is_waiting(&self) -> bool {
        self.wanted.is_some()
    }
}

impl Core {
    /// Whether the word of others may raise the own incarnation so far.
    pub(super) fn is_plausible(&self, incarnation: u64) -> bool {
        incarnation <= self.me().incarnation.saturating_add(MAX_INCARNATION_JUMP)
    }

    /// Raises the own incarnation, at once if its bound is stored, else as soon as it is.
    pub(super) fn raise_incarnation(&mut self, to: u64) {
        let to = to.max(self.me().incarnation + 1);
        if to > self.incarnation.stored {
            let wanted = self.incarnation.wanted.map_or(to, |wanted| wanted.max(to));
            self.incarnation.wanted = Some(wanted);
        } else {
            self.rewrite_myself(Record { incarnation: to, ..Record::clone(self.me()) });
        }
        self.secure_incarnations();
    }

    /// Whether an introduction to this proven address has to wait for the disk; it follows then.
    pub(super) fn defer_introduction(&mut self, to: SocketAddr, nonce: Nonce) -> bool {
        let is_waiting = self.incarnation.is_waiting();
        if is_waiting {
            self.incarnation.asked_by = Some((to, nonce));
        }
        is_waiting
    }

    /// Has a higher bound stored, when half of the last one is used up.
    fn secure_incarnations(&mut self) {
        let used = self.incarnation.wanted.unwrap_or(0).max(self.me().incarnation);
        let bound = used.saturating_add(INCARNATION_STEP).min(Record::INCARNATION_LIMIT - 2);
        if used.saturating_add(INCARNATION_STEP / 2) > self.incarnation.asked && bound > self.incarnation.asked {
            self.incarnation.asked = bound;
            self.persist();
        }
    }

    /// Gives out what must survive.
    pub(super) fn persist(&mut self) {
        let incarnation_bound = self.incarnation.asked;
        let addresses = self.reunion.remembered().to_vec();
        let ballot = self.ballot().cloned();
        self.outputs.push_back(Output::Persist(Durable { incarnation_bound, addresses, ballot }));
    }

    /// A bound is on disk.
    pub(super) fn persisted(&mut self, bound: u64) {
        self.incarnation.stored = self.incarnation.stored.max(bound);
        if let Some(wanted) = self.incarnation.wanted.filter(|wanted| *wanted <= self.incarnation.stored) {
            self.incarnation.wanted = None;
            self.raise_incarnation(wanted);
            self.incarnation_raised();
            if let Some((to, nonce)) = self.incarnation.asked_by.take() {
                let mut packet = self.packet(usize::MAX);
                packet.push(&Message::Reply);
                packet.push(&Message::IAm { nonce, record: Record::clone(self.me()) });
                self.transmit(to, packet);
            }
        }
    }

    /// Somebody holds this node as `status`. Says whether our own record is the right answer.
    pub(super) fn told(&mut self, run: Run, incarnation: u64, status: Status) -> bool {
        if run != self.run {
            // Meant for who had this address before us.
            self.counters.drop(Drop::Unasked);
            return false;
        }
        if status == Status::Left(LeaveReason::Forced) {
            self.obey();
            return false;
        }
        let mine = self.me();
        if (incarnation, status) <= (mine.incarnation, mine.status) {
            return true;
        }
        if !self.is_plausible(incarnation) {
            self.counters.drop(Drop::Malformed);
            return false;
        }
        match self.phase {
            Phase::Joining(_) | Phase::Up => {
                self.counters.refutations += 1;
                self.doubt_myself(SelfDoubt::Refuted);
                self.raise_incarnation(incarnation + 1);
                let incarnation = self.me().incarnation;
                self.notice("refuted", Notice::Refuted { incarnation });
            }
            Phase::Leaving => self.say_left(incarnation),
            Phase::Stopped => return false,
        }
        true
    }

    /// A record of this node's own name came in.
    pub(super) fn hear_of_myself(&mut self, record: &Record) {
        let mine = self.me();
        if record.run == mine.run {
            let is_forced = record.status == Status::Left(LeaveReason::Forced);
            if is_forced || record.supersedes(mine) {
                self.told(record.run, record.incarnation, record.status);
            }
            return;
        }
        if !record.supersedes(mine) {
            return;
        }
        let is_live = matches!(record.status, Status::Up | Status::Suspect | Status::Leaving);
        let is_elsewhere = record.address != mine.address;
        if is_live && is_elsewhere && !matches!(self.phase, Phase::Joining(_)) {
            // The name lived on both sides of a cut: the lower incarnation gives way.
            let (id, holder) = (record.id.clone(), record.address);
            return self.stop(StopReason::NameInUse { id, holder });
        }
        // An obituary of an earlier run of ours, or its last word from this very address.
        if self.is_plausible(record.incarnation) {
            self.raise_incarnation(record.incarnation + 1);
        } else {
            self.counters.drop(Drop::Malformed);
        }
    }

    /// An operator removed this node: it says so at its own incarnation, and stops.
    fn obey(&mut self) {
        if !matches!(self.phase, Phase::Joining(_)) {
            self.rewrite_myself(self.me().with_status(Status::Left(LeaveReason::Forced)));
            self.flood();
        }
        self.stop(StopReason::Removed);
    }

    /// The command to replace all tags.
    pub(super) fn set_tags(&mut self, ticket: Ticket, tags: Tags) {
        if matches!(self.phase, Phase::Leaving) {
            return self.reply(ticket, Reply::Refused(CommandError::Leaving));
        }
        if tags != self.me().tags {
            let incarnation = self.me().incarnation + 1;
            if incarnation > self.incarnation.stored {
                self.secure_incarnations();
                return self.reply(ticket, Reply::Refused(CommandError::Busy));
            }
            self.rewrite_myself(Record { incarnation, tags, ..Record::clone(self.me()) });
            self.secure_incarnations();
        }
        self.reply(ticket, Reply::TagsSet);
    }

    /// The command to leave. A leader hands over first.
    pub(super) fn leave(&mut self) {
        if !self.hand_over() {
            self.say_goodbye();
        }
    }

    /// Leaving, then Left, each confirmed by a few peers, each with an end.
    pub(super) fn say_goodbye(&mut self) {
        match self.phase {
            Phase::Joining(_) => self.stop(StopReason::Left),
            Phase::Up => {
                self.phase = Phase::Leaving;
                self.transfer = None;
                self.rewrite_myself(self.me().with_status(Status::Leaving));
                self.drop_links();
                self.ask_for_confirmation(Purpose::Leaving, View::ME, LEAVING_TIMEOUT);
            }
            Phase::Leaving | Phase::Stopped => {}
        }
    }

    /// Leaving → Left, at this incarnation at least.
    pub(super) fn say_left(&mut self, incarnation: u64) {
        if self.me().status != Status::Leaving {
            return;
        }
        self.confirmations.cancel(Purpose::Leaving);
        let incarnation = incarnation.max(self.me().incarnation);
        let left = self.me().with_status(Status::Left(LeaveReason::Graceful));
        self.rewrite_myself(Record { incarnation, ..left });
        self.ask_for_confirmation(Purpose::Left, View::ME, CONFIRM_TIMEOUT);
    }

    /// Drops the view and joins anew: whoever slept longer than `reap_after` could raise the dead.
    pub(super) fn rejoin(&mut self) {
        self.outputs.push_back(Output::Notice(Notice::RejoiningAfterIsolation));
        self.drop_links();
        let addresses: Vec<SocketAddr> = self.view.iter().map(|(_, entry)| entry.record.address).collect();
        let mine = self.me().address;
        self.reunion.remember(addresses.into_iter().filter(|address| *address != mine));
        self.forget_everybody();
        self.begin_joining();
        // In one step: at one incarnation, nobody who was Up is Joining again.
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
