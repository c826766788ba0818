//! Myself: this node's own record, and its own life: refuting, moving, changing its tags, draining, leaving, and beginning anew
//! after it was cut off for too long.
//!
//! Invariants:
//! - Nobody else rewrites this node's own record, but for `entering::become_up`, which turns Joining into Up.
//! - Each incarnation is refuted once (SWIM, section 4.2), and a removal is obeyed.
//! - A process that reads of itself what it never wrote was copied while it ran, or its memory was set back: it stops, since
//!   two that raise above each other would never end, and its sequence numbers would be used twice.
//!
//! Must not know: who accuses, or the reason of an operator.

use std::net::SocketAddr;
use std::time::Duration;

use crate::Core;
use crate::connectivity::links::Parting;
use crate::context::Phase;
use crate::counters::DropReason;
use crate::election::Ballot;
use crate::io::{CommandError, Durable, HealthEvidence, Notice, Output, Reply, StopReason, Ticket};
use crate::limits::{CONFIRM_TIMEOUT, LEAVING_TIMEOUT, REACH_RETRY};
use crate::member::{LeaveReason, NodeId, Record, Run, Status, Tags, is_reachable};
use crate::membership::moving::Asked;
use crate::membership::rivals::RivalStep;
use crate::membership::{Purpose, tell_removed};
use crate::timers::Timer;
use crate::view::{Slot, View};
use crate::wire::{Message, Note};

/// Incarnations.
impl Core {
    /// Raises the incarnation, at once if its bound is stored, else as soon as it is.
    pub(crate) fn raise_incarnation(&mut self, to: u64) {
        if let Some(incarnation) = self.me.incarnation.raise(self.me().incarnation, to) {
            self.rewrite_myself(Record { incarnation, ..Record::clone(self.me()) });
        }
        self.secure_incarnations();
    }

    /// Rewrites this node's record at the next incarnation; returns false if that must wait for the disk.
    pub(crate) fn restate_myself(&mut self, record: Record) -> bool {
        let next = self.me.incarnation.next(self.me().incarnation);
        if let Some(incarnation) = next {
            self.rewrite_myself(Record { incarnation, ..record });
        }
        self.secure_incarnations();
        next.is_some()
    }

    /// Has a higher bound stored when half of the last one is used up.
    fn secure_incarnations(&mut self) {
        if self.me.incarnation.take_bound(self.me().incarnation) {
            self.persist(None);
        }
    }

    /// Gives out the state that must survive the process, with this state of the election, or the present one.
    pub(crate) fn persist(&mut self, ballot: Option<Ballot>) {
        let ballot = ballot.or_else(|| self.lead.as_ref().map(|lead| lead.ballot().clone()));
        let incarnation_bound = self.me.incarnation.bound();
        let addresses = self.reunion.remembered().to_vec();
        self.cx.output(Output::Persist(Durable { incarnation_bound, addresses, ballot }));
    }

    /// Notes that a bound is on disk.
    pub(crate) fn persisted(&mut self, bound: u64) {
        let Some(wanted) = self.me.incarnation.stored(bound) else { return };
        self.raise_incarnation(wanted);
        self.joiner.incarnation_raised(&mut self.cx, self.me.incarnation.is_waiting());
        if let Some((asker, to, nonce)) = self.me.incarnation.introduction() {
            let record = Record::clone(self.me());
            self.out().reply_at(to, asker, &Message::IAm { nonce, record });
        }
    }
}

/// What others say of this node.
impl Core {
    /// Handles the report that others hold this node as `status`, and last heard it so long ago. Returns true if
    /// our own record is the right answer.
    pub(crate) fn on_held_status(&mut self, run: Run, (incarnation, status): (u64, Status), age: Duration) -> bool {
        if run != self.cx.run {
            // Meant for the process that had this address before.
            self.cx.counters.drop(DropReason::Unasked);
            return false;
        }
        if status == Status::Left(LeaveReason::Forced) {
            if !self.cx.phase.is_joining() {
                self.rewrite_myself(self.me().with_status(status));
                self.gossip.flood(&mut outbox!(self));
            }
            self.stop(StopReason::Removed);
            return false;
        }
        let mine = self.me();
        if (incarnation, status) <= (mine.incarnation, mine.status) {
            return true;
        }
        if self.is_of_a_copy(incarnation, status) {
            self.stop(StopReason::SetBack);
            return false;
        }
        match self.cx.phase {
            // An incarnation that is raised already, and only waits for the disk, is refuted once.
            Phase::Joining | Phase::Up if self.me.incarnation.covers(incarnation) => return false,
            Phase::Joining | Phase::Up => {
                // Silence that others observed is evidence, not the report of one that hears this node well.
                let is_accusation = status.is_accused();
                let is_unheard = age >= self.cx.settings.suspect_timeout;
                if is_accusation && is_unheard {
                    self.health.add_evidence(&mut self.cx, HealthEvidence::Refuted);
                }
                self.cx.counters.refutations += 1;
                self.raise_incarnation(incarnation + 1);
                self.cx.notice("refuted", Notice::Refuted { incarnation: incarnation + 1 });
            }
            Phase::Leaving => self.announce_left(incarnation),
            Phase::Stopped => return false,
        }
        true
    }

    /// Returns true if this was written of this node's run by itself, in another process: others write that a member is silent
    /// or gone, and it alone that it is Up.
    fn is_of_a_copy(&self, incarnation: u64, status: Status) -> bool {
        status == Status::Up && incarnation > self.me().incarnation && self.cx.phase.is_up()
    }

    /// Handles a record of this node's own name.
    pub(crate) fn hear_of_myself(&mut self, record: &Record, note: Option<Note>) {
        let mine = self.me();
        if record.run == mine.run {
            if self.is_of_a_copy(record.incarnation, record.status) && record.address != mine.address {
                return self.stop(StopReason::Copied { address: record.address });
            }
            let is_forced = record.status == Status::Left(LeaveReason::Forced);
            if is_forced || record.supersedes(mine) {
                let age = note.map_or(Duration::ZERO, Note::age);
                self.on_held_status(record.run, (record.incarnation, record.status), age);
            }
            return;
        }
        if !record.supersedes(mine) {
            return;
        }
        let is_elsewhere = record.address != mine.address;
        if record.status.is_member() && is_elsewhere && !self.cx.phase.is_joining() {
            // The name may have lived on both sides of a cut.
            let is_raising = self.me.incarnation.covers(record.incarnation);
            let step = self.me.rivals.heard_of(&mut self.cx, self.view.me(), record, is_raising);
            return self.take_step_about_rival(step);
        }
        // A report that an earlier run of ours is dead, or that run's last record from this very address.
        self.raise_incarnation(record.incarnation + 1);
    }

    pub(crate) fn take_step_about_rival(&mut self, step: Option<RivalStep>) {
        match step {
            None => {}
            Some(RivalStep::Ask(address)) => self.out().ask_who(address),
            Some(RivalStep::RaiseAbove(incarnation)) => self.raise_incarnation(incarnation + 1),
            Some(RivalStep::GiveWay(holder)) => {
                // So the name is free at once among those that knew this node.
                let id = self.me().id.clone();
                self.rewrite_myself(self.me().with_status(Status::Left(LeaveReason::Graceful)));
                self.gossip.flood(&mut outbox!(self));
                self.stop(StopReason::NameInUse { id, holder });
            }
        }
    }
}

/// Commands about this node.
impl Core {
    /// Replaces this node's tags for the operator, if there is room for them.
    pub(crate) fn retag(&mut self, tags: Option<Tags>) -> Result<(), CommandError> {
        if self.cx.phase.is_leaving() {
            return Err(CommandError::Leaving);
        }
        let tags = tags.ok_or(CommandError::NoRoomToDrain)?;
        if tags != self.me().tags && !self.restate_myself(Record { tags, ..Record::clone(self.me()) }) {
            return Err(CommandError::Busy);
        }
        Ok(())
    }

    /// Carries out the command to change this node's address, as soon as a member has reached it there. Who is Joining is
    /// in no record yet: its address is proven when it is let in.
    pub(crate) fn set_address(&mut self, ticket: Ticket, address: SocketAddr) {
        if self.cx.phase.is_leaving() {
            return self.cx.reply(ticket, Reply::Refused(CommandError::Leaving));
        }
        if !is_reachable(address) {
            return self.cx.reply(ticket, Reply::Refused(CommandError::Unreachable { address }));
        }
        self.me.moving.give_up(&mut self.cx);
        if address == self.me().address {
            return self.cx.reply(ticket, Reply::AddressSet);
        }
        // Bootstrap links that stand lead from the address that this node had.
        self.paths.close_bootstraps(&mut self.cx);
        self.me.moving.begin(ticket, address);
        self.ask_at_new_address();
    }

    /// Asks members whether they reach this node at its new address.
    pub(crate) fn ask_at_new_address(&mut self) {
        if self.me.moving.ask(&mut outbox!(self)) == Asked::Take {
            self.take_address();
        }
    }

    /// Writes the new address into this node's record, as soon as the disk allows it.
    pub(crate) fn take_address(&mut self) {
        let Some(address) = self.me.moving.reached() else { return };
        if !self.restate_myself(Record { address, ..Record::clone(self.me()) }) {
            return self.cx.timers.set(Timer::Move, self.cx.now + REACH_RETRY);
        }
        let ticket = self.me.moving.end(&mut self.cx);
        self.reunion.forget_own_addresses();
        self.gossip.flood(&mut outbox!(self));
        // All connections that stand lead from the old one. The others hear of the new address by them, if anything still passes.
        self.paths.dismiss_all_unproven(&mut self.cx);
        for run in self.paths.links.members() {
            if let Some(slot) = self.view.slot_of_run(run) {
                self.link_anew(slot, Parting::WeMoved);
            }
        }
        if let Some(ticket) = ticket {
            self.cx.reply(ticket, Reply::AddressSet);
        }
    }
}

/// Leaving.
impl Core {
    /// Leaves: Leaving, then Left, each confirmed by a few peers, each with an end.
    pub(crate) fn begin_leaving(&mut self) {
        match self.cx.phase {
            Phase::Joining => self.stop(StopReason::Left),
            Phase::Up => {
                self.cx.phase = Phase::Leaving;
                self.rewrite_myself(self.me().with_status(Status::Leaving));
                // Links stay as long as the departure is being announced: if datagrams do not pass, it goes that way.
                self.ask_for_confirmation(Purpose::Leaving, View::ME, LEAVING_TIMEOUT);
            }
            Phase::Leaving | Phase::Stopped => {}
        }
    }

    /// Becomes Left from Leaving, at this incarnation at least, and tells the others.
    fn announce_left(&mut self, incarnation: u64) {
        if self.me().status != Status::Leaving {
            return;
        }
        self.confirmations.cancel(Purpose::Leaving);
        let incarnation = incarnation.max(self.me().incarnation);
        let left = self.me().with_status(Status::Left(LeaveReason::Graceful));
        self.rewrite_myself(Record { incarnation, ..left });
        self.ask_for_confirmation(Purpose::Left, View::ME, CONFIRM_TIMEOUT);
    }

    /// Spreads the present record of a member, and asks for its confirmation.
    fn ask_for_confirmation(&mut self, purpose: Purpose, slot: Slot, wait: Duration) {
        let over = self.confirmations.ask(&mut outbox!(self), purpose, slot, wait);
        self.confirmation_over(over);
    }

    pub(crate) fn confirmation_over(&mut self, purposes: impl IntoIterator<Item = Purpose>) {
        for purpose in purposes {
            match purpose {
                Purpose::Leaving => self.announce_left(0),
                Purpose::Left => self.stop(StopReason::Left),
                Purpose::Removal(_) => {}
            }
        }
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
        self.cx.phase = Phase::Joining;
        self.joiner.begin();
        // In one step: at one incarnation, a node that was Up is never Joining again.
        let (mine, incarnation) = (self.me().with_status(Status::Joining), self.me().incarnation + 1);
        if let Some(incarnation) = self.me.incarnation.next(self.me().incarnation) {
            self.rewrite_myself(Record { incarnation, ..mine });
            self.secure_incarnations();
        } else {
            self.rewrite_myself(mine);
            self.raise_incarnation(incarnation);
        }
        let step = self.joiner.seek_cluster(&mut outbox!(self), &self.reunion);
        self.take_joiner_step(step);
    }
}

/// Removing others (see `membership::confirm`).
impl Core {
    /// Carries out the command to remove a member.
    pub(crate) fn remove(&mut self, ticket: Ticket, id: &NodeId, force: bool) {
        match self.confirmations.take_removal(&self.cx, &self.view, id, force) {
            Ok(slot) => {
                let forced = Status::Left(LeaveReason::Forced);
                if self.view.record(slot).status != forced {
                    self.record_verdict(slot, forced, None);
                    tell_removed(&mut self.out(), slot);
                }
                self.ask_for_confirmation(Purpose::Removal(ticket), slot, CONFIRM_TIMEOUT);
            }
            Err(CommandError::NoSuchMember { .. }) if self.sponsor.drop_joiner_named(&mut outbox!(self), id) => {
                // No other member knows of it.
                self.cx.reply(ticket, Reply::Removed { held_by: 0, confirmed: true });
            }
            Err(error) => self.cx.reply(ticket, Reply::Refused(error)),
        }
    }
}
