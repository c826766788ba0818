//! Removing others: an operator removes a member from the listing.
//!
//! A Down member is removed as it is; one that may be live only by force. The record then has status Left (forced),
//! which outranks every other status of its incarnation and obliges its owner to stop as soon as it learns of it. One
//! that has left by itself is removed, too: it is not expected back any more.
//!
//! Invariants: a command is answered once; a removal is reported as done when peers hold it (see `confirm`).
//!
//! Must not know: the reason of the operator.

use super::confirm::Purpose;
use crate::Core;
use crate::context::Phase;
use crate::doors::{CommandError, Reply, Ticket};
use crate::limits::CONFIRM_TIMEOUT;
use crate::member::{DetectionMethod, LeaveReason, NodeId, Status};
use crate::view::Slot;
use crate::wire::Message;

impl Core {
    /// Carries out the command to remove a member.
    pub(crate) fn remove(&mut self, ticket: Ticket, id: &NodeId, force: bool) {
        match self.removable(id, force) {
            Ok(slot) if !self.take_removal(slot) => {
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
            Err(CommandError::NoSuchMember { .. }) if self.drop_joiner_named(id) => {
                // No other member knows of it.
                self.cx.reply(ticket, Reply::Removed { held_by: 0, confirmed: true });
            }
            Err(error) => self.cx.reply(ticket, Reply::Refused(error)),
        }
    }

    /// Counts this removal, unless its subject has left; returns true if it may be made now.
    fn take_removal(&mut self, slot: Slot) -> bool {
        matches!(self.view.record(slot).status, Status::Left(_)) || self.confirmations.take_removal(self.cx.now)
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

    /// Tells the removed member; it is told again whenever it is heard.
    pub(super) fn tell_evicted(&mut self, slot: Slot) {
        let mut packet = self.out().packet_to(slot);
        packet.push(&Message::Reply);
        self.out().send_to(slot, packet);
    }
}
