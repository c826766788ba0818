//! Broadcasts out of band: those that their origin's agent brought by a call of its own, because its view lacks this
//! node.
//!
//! The copy that comes first is delivered, and any other is a duplicate, whichever way it comes: their numbers are marked in the
//! window of their origin. It is sent on as if a packet had brought it. Members take nothing of an origin that is not in their
//! views; but it is kept, and they are told of it, and they ask for it once they know the origin. A node that is not Up gives it
//! to its programs alone.
//!
//! Invariants:
//! - A call that finds no room for its origin's window is refused, and nothing is delivered.
//! - Every call is delivered, a duplicate, or dropped, as packets are: the counters add up.
//!
//! Must not know: who calls, by which protocol, and what proves that it may.

use super::cache::Kept;
use super::{Messages, deliver, drop_copy};
use crate::context::Phase;
use crate::counters::DropReason;
use crate::envelope::MessageId;
use crate::io::{CommandError, Delivery, DeliveryKind, OutOfBandBroadcast, Reply, Ticket};
use crate::limits::{BROADCAST_LIFE, ORIGIN_MEMORY};
use crate::packet::Outbox;
use crate::timers::Timer;
use crate::view::View;

impl Messages {
    /// Takes a broadcast that an agent brought out of band, and answers that agent.
    pub(super) fn on_out_of_band(&mut self, out: &mut Outbox<'_>, ticket: Ticket, broadcast: OutOfBandBroadcast) {
        let reply = match self.take_out_of_band(out, broadcast) {
            Ok(is_new) => Reply::Taken { is_new },
            Err(error) => Reply::Refused(error),
        };
        out.cx.reply(ticket, reply);
    }

    /// Delivers a broadcast that came out of band; returns false if it is not new.
    fn take_out_of_band(&mut self, out: &mut Outbox<'_>, broadcast: OutOfBandBroadcast) -> Result<bool, CommandError> {
        let OutOfBandBroadcast { id, from, age, topic, payload } = broadcast;
        out.cx.counters.messages.received += 1;
        let now = out.cx.now;
        if matches!(out.cx.phase, Phase::Leaving | Phase::Stopped) {
            drop_copy(out.cx, DropReason::WrongState);
            return Err(CommandError::Leaving);
        }
        if !id.is_broadcast() || !(1..=MessageId::MAX_NUMBER).contains(&id.number()) {
            drop_copy(out.cx, DropReason::Malformed);
            return Err(CommandError::NoBroadcast { id });
        }
        // The view knows best whose run it is, and an origin that is not in the view is called what the caller says.
        let known = out.view.slot_of_run(id.run);
        let is_right = match known {
            Some(slot) => out.view.record(slot).id == from,
            None => out.view.record(View::ME).id != from,
        };
        if !is_right {
            drop_copy(out.cx, DropReason::Claimed);
            return Err(CommandError::OtherOrigin { id, node: from });
        }
        if id.run == out.cx.run || age > BROADCAST_LIFE || !self.cache.is_new(id.run, id.number()) {
            out.cx.counters.messages.duplicate += 1;
            return Ok(false);
        }
        if age > now.since(self.born_at) {
            // It was said before this process began.
            drop_copy(out.cx, DropReason::Outdated);
            return Ok(false);
        }
        let is_known = |run| run == out.cx.run || out.view.slot_of_run(run).is_some();
        let has_room = match known {
            Some(_) => self.cache.make_room_for(id.run, now),
            None => self.cache.make_room_for_unknown(id.run, now, is_known),
        };
        if !has_room {
            drop_copy(out.cx, DropReason::TableFull);
            return Err(CommandError::Busy);
        }
        self.cache.mark(id.run, id.number(), now);
        self.repair.came(id);
        if out.cx.phase == Phase::Up {
            self.take(out, id, from, Kept { topic, payload, since: now, age_here: age, from: Some(id.run) });
        } else {
            out.cx.timers.set_by(Timer::RepairMessages, now + ORIGIN_MEMORY);
            deliver(out.cx, Delivery { id, from, topic, payload, kind: DeliveryKind::Broadcast });
        }
        Ok(true)
    }
}
