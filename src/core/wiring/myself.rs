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
use crate::context::Phase;
use crate::counters::DropReason;
use crate::election::Ballot;
use crate::io::{CommandError, Durable, Notice, Output, Receiver, Reply, SelfDoubt, StopReason, Ticket};
use crate::leadership::Lead;
use crate::limits::{CONFIRM_TIMEOUT, LEAVING_TIMEOUT, REACH_RETRY};
use crate::member::{DetectionMethod, LeaveReason, NodeId, Record, Run, Status, Tags, is_reachable};
use crate::membership::Purpose;
use crate::membership::moving::Asked;
use crate::membership::rivals::RivalStep;
use crate::packet::{Sender, SenderKind};
use crate::timers::Timer;
use crate::view::{Slot, View};
use crate::wire::{Message, Nonce, Note};

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
    fn restate_myself(&mut self, record: Record) -> bool {
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
            self.persist();
        }
    }

    /// Gives out the state that must survive the process.
    pub(crate) fn persist(&mut self) {
        self.persist_with(self.ballot().cloned());
    }

    /// Does the same with this ballot.
    pub(crate) fn persist_with(&mut self, ballot: Option<Ballot>) {
        let incarnation_bound = self.me.incarnation.bound();
        let addresses = self.reunion.remembered().to_vec();
        self.cx.output(Output::Persist(Durable { incarnation_bound, addresses, ballot }));
    }

    /// Notes that a bound is on disk.
    pub(crate) fn persisted(&mut self, bound: u64) {
        let Some(wanted) = self.me.incarnation.stored(bound) else { return };
        self.raise_incarnation(wanted);
        self.incarnation_raised();
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
            self.obey();
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
                let is_accusation = matches!(status, Status::Suspect | Status::Down);
                let is_unheard = age >= self.cx.settings.suspect_timeout;
                if is_accusation && is_unheard {
                    self.doubt_myself(SelfDoubt::Refuted);
                }
                self.refute(incarnation);
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

    /// Raises the incarnation above one at which others hold this node as something else.
    fn refute(&mut self, incarnation: u64) {
        self.cx.counters.refutations += 1;
        self.raise_incarnation(incarnation + 1);
        self.cx.notice("refuted", Notice::Refuted { incarnation: incarnation + 1 });
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
        let is_live = matches!(record.status, Status::Up | Status::Suspect | Status::Leaving);
        let is_elsewhere = record.address != mine.address;
        if is_live && is_elsewhere && !self.cx.phase.is_joining() {
            // The name may have lived on both sides of a cut.
            let is_raising = self.me.incarnation.covers(record.incarnation);
            let step = self.me.rivals.heard_of(&mut self.cx, self.view.me(), record, is_raising);
            return self.take_step_about_rival(step);
        }
        // A report that an earlier run of ours is dead, or that run's last record from this very address.
        self.raise_incarnation(record.incarnation + 1);
    }

    /// Goes on with the dispute about this node's name.
    pub(crate) fn dispute(&mut self) {
        let step = self.me.rivals.dispute(&mut self.cx, self.view.me());
        self.take_step_about_rival(step);
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

    /// Obeys a removal by an operator: announces it at this node's own incarnation, and stops.
    fn obey(&mut self) {
        if !self.cx.phase.is_joining() {
            self.rewrite_myself(self.me().with_status(Status::Left(LeaveReason::Forced)));
            self.gossip.flood(&mut outbox!(self));
        }
        self.stop(StopReason::Removed);
    }
}

/// Commands about this node.
impl Core {
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
        let voters = self.lead.as_ref().and_then(|lead| lead.voters_there(&self.view));
        let may_lead = voters.map(|(_, may_lead)| may_lead);
        self.cx.reply(ticket, Reply::Draining { may_lead });
    }

    /// Tells everybody, by a mark in its record, that this node does not vote though a voter has its name, or that it does
    /// again. Where it must wait for the disk, or there is no room, nothing is told.
    pub(crate) fn mark_lost_vote(&mut self, is_lost: bool) {
        let is_new = self.me().has_lost_vote() != is_lost && self.cx.phase.is_up();
        let Some(tags) = is_new.then(|| self.me().tags.with_lost_vote(is_lost).ok()).flatten() else { return };
        self.restate_myself(Record { tags, ..Record::clone(self.me()) });
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

    /// Takes the answer of a member that it reached this node at its new address; returns false if none was asked. A member
    /// that is not where its record says is told the address by a packet of its own: what goes to all does not reach it.
    pub(crate) fn reached_at_new_address(&mut self, sender: &Sender, nonce: Nonce) -> bool {
        let is_asked = self.me.moving.is_reached_by(nonce);
        if is_asked {
            self.take_address();
            let is_elsewhere =
                matches!(sender.kind, SenderKind::Member(slot) if self.view.record(slot).address != sender.from);
            if is_elsewhere && !self.me.moving.is_open() {
                let mut packet = self.out().packet(usize::MAX);
                self.out().push_update(&mut packet, View::ME);
                self.out().transmit(sender.from, Receiver::Run(sender.run), packet);
            }
        }
        is_asked
    }

    /// Writes the new address into this node's record, as soon as the disk allows it.
    fn take_address(&mut self) {
        let Some(address) = self.me.moving.reached() else { return };
        if !self.restate_myself(Record { address, ..Record::clone(self.me()) }) {
            return self.cx.timers.set(Timer::Move, self.cx.now + REACH_RETRY);
        }
        let ticket = self.me.moving.end(&mut self.cx);
        self.reunion.forget_own_addresses();
        self.gossip.flood(&mut outbox!(self));
        self.link_all_anew();
        if let Some(ticket) = ticket {
            self.cx.reply(ticket, Reply::AddressSet);
        }
    }
}

/// Leaving.
impl Core {
    /// Carries out the command to leave. A leader hands over first.
    pub(crate) fn leave(&mut self) {
        if !self.with_lead(Lead::hand_over).unwrap_or(false) {
            self.begin_leaving();
        }
    }

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

    /// Asks the peers that have not confirmed yet.
    pub(crate) fn ask_for_confirmation_again(&mut self, ticket: Ticket) {
        let over = self.confirmations.ask_again(&mut outbox!(self), ticket);
        self.confirmation_over(over);
    }

    /// Notes that a peer holds a record.
    pub(crate) fn on_confirmed(&mut self, peer: Slot, hash: u64) {
        let over = self.confirmations.confirmed(&mut self.cx, &self.view, peer, hash);
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
        self.begin_joining();
        // In one step: at one incarnation, a node that was Up is never Joining again.
        let (mine, incarnation) = (self.me().with_status(Status::Joining), self.me().incarnation + 1);
        if let Some(incarnation) = self.me.incarnation.next(self.me().incarnation) {
            self.rewrite_myself(Record { incarnation, ..mine });
            self.secure_incarnations();
        } else {
            self.rewrite_myself(mine);
            self.raise_incarnation(incarnation);
        }
        self.seek_cluster();
    }
}

/// Removing others: an operator removes a member from the listing. A Down member is removed as it is; one that may be live only
/// by force. The record then has status Left (forced), which outranks every other status of its incarnation and obliges its
/// owner to stop as soon as it learns of it. One that has left by itself is removed, too: it is not expected back any more.
impl Core {
    /// Carries out the command to remove a member.
    pub(crate) fn remove(&mut self, ticket: Ticket, id: &NodeId, force: bool) {
        match self.removable(id, force) {
            // One that has left does not count as another removal.
            Ok(slot)
                if !matches!(self.view.record(slot).status, Status::Left(_))
                    && !self.confirmations.take_removal(self.cx.now) =>
            {
                self.cx.reply(ticket, Reply::Refused(CommandError::TooManyRemovals));
            }
            Ok(slot) => {
                let forced = Status::Left(LeaveReason::Forced);
                if self.view.record(slot).status != forced {
                    self.record_verdict(slot, forced, DetectionMethod::HeartbeatTimeout);
                    self.tell_evicted(slot);
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

    fn removable(&self, id: &NodeId, force: bool) -> Result<Slot, CommandError> {
        if *id == self.me().id {
            return Err(CommandError::Oneself);
        }
        match self.cx.phase {
            Phase::Joining => return Err(CommandError::Joining),
            Phase::Up => {}
            Phase::Leaving | Phase::Stopped => return Err(CommandError::Leaving),
        }
        if !self.confirmations.has_room() {
            return Err(CommandError::Busy);
        }
        let slot = self.view.slot_of(id.as_str()).ok_or_else(|| CommandError::NoSuchMember { id: id.clone() })?;
        match self.view.record(slot).status {
            Status::Down | Status::Left(_) => Ok(slot),
            _ if force => Ok(slot),
            status => Err(CommandError::NotDown { id: id.clone(), status }),
        }
    }

    /// Tells the removed member, whenever it was told last that it is suspect or gone; it is told again whenever it is heard.
    pub(crate) fn tell_evicted(&mut self, slot: Slot) {
        self.view.peer_mut(slot).rare_mut().last_told = None;
        let mut packet = self.out().packet_to(slot);
        packet.push(&Message::Reply);
        self.out().send_to(slot, packet);
    }
}
