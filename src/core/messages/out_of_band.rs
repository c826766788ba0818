//! Broadcasts out of band: those that their origin's agent brought by a call of its own, because its view lacks this
//! node.
//!
//! A call proves that its caller may command this agent, and nothing about who wrote the message. So it moves no
//! window: broadcasts that came out of band are remembered number by number, and an origin's broadcasts that come in
//! packets are judged by their own window alone. A caller in another's name can use up one number in advance and hide
//! that message; it cannot carry the window away, however large its numbers are.
//!
//! The copy that comes first is delivered, and the other one is a duplicate: one out of band is judged by the origin's
//! window, too, and one in a packet by what came out of band. A packet's copy is sent on all the same, since others may
//! lack it. The other one is not: the origin calls everybody that its table lists and its view lacks.
//!
//! Invariants:
//! - At most [`MAX_OUT_OF_BAND_BLOCKS`] blocks of 64 numbers, each forgotten when nothing new came of it for
//!   [`OUT_OF_BAND_MEMORY`]: all copies are older than [`BROADCAST_LIFE`] by then. A call that finds no room is
//!   refused, and nothing is delivered.
//! - All calls together have the allowance of one member.
//! - Every call is delivered, a duplicate, or dropped, as packets are: the counters add up.
//!
//! Must not know: who calls, by which protocol, and what proves that it may.

use std::collections::BTreeMap;

use super::{Messages, deliver, drop_copy};
use crate::context::Phase;
use crate::counters::DropReason;
use crate::envelope::MessageId;
use crate::io::{CommandError, Delivery, DeliveryKind, OutOfBandBroadcast, Reply, Ticket};
use crate::limits::{BROADCAST_LIFE, MAX_OUT_OF_BAND_BLOCKS, OUT_OF_BAND_MEMORY, OUT_OF_BAND_SWEEP};
use crate::member::{NodeId, Run};
use crate::packet::Outbox;
use crate::time::Time;
use crate::timers::Timer;
use crate::view::View;

/// Numbers in one block.
const BLOCK: u64 = u64::BITS as u64;

/// The numbers of broadcasts that came out of band.
#[derive(Debug, Clone, Default)]
pub(super) struct OutOfBand {
    blocks: BTreeMap<(Run, u64), Block>,
    /// The last time at which old blocks were looked for, because there was no room.
    swept_at: Option<Time>,
}

#[derive(Debug, Clone)]
struct Block {
    seen: u64,
    /// The time at which something new came last.
    fresh_at: Time,
}

impl OutOfBand {
    pub(super) fn size(&self) -> usize {
        self.blocks.len()
    }

    /// Returns true if nothing that came out of band is remembered.
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Returns true if a broadcast came out of band.
    pub(super) fn contains(&self, id: MessageId) -> bool {
        let (block, bit) = place(id);
        self.blocks.get(&(id.run, block)).is_some_and(|block| block.seen & bit != 0)
    }

    /// Remembers a broadcast that came out of band; returns false if there is no room.
    fn insert(&mut self, id: MessageId, now: Time) -> bool {
        let (block, bit) = place(id);
        let key = (id.run, block);
        if self.blocks.len() >= MAX_OUT_OF_BAND_BLOCKS && !self.blocks.contains_key(&key) {
            // Not at every call: a caller that fills the table would have it searched each time.
            if self.swept_at.is_none_or(|at| now.since(at) >= OUT_OF_BAND_SWEEP) {
                self.swept_at = Some(now);
                self.expire(now);
            }
            if self.blocks.len() >= MAX_OUT_OF_BAND_BLOCKS {
                return false;
            }
        }
        let block = self.blocks.entry(key).or_insert(Block { seen: 0, fresh_at: now });
        block.seen |= bit;
        block.fresh_at = now;
        true
    }

    /// Forgets the blocks in which nothing new came for [`OUT_OF_BAND_MEMORY`]: no copy of theirs is taken any more.
    pub(super) fn expire(&mut self, now: Time) {
        self.blocks.retain(|_, block| now.since(block.fresh_at) < OUT_OF_BAND_MEMORY);
    }

    /// Returns the next time at which [`OutOfBand::expire`] has something to do.
    pub(super) fn next_end(&self) -> Option<Time> {
        self.blocks.values().map(|block| block.fresh_at + OUT_OF_BAND_MEMORY).min()
    }
}

fn place(id: MessageId) -> (u64, u64) {
    (id.number() / BLOCK, 1 << (id.number() % BLOCK))
}

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
        let from = origin_of(out.view, id, from).inspect_err(|_| drop_copy(out.cx, DropReason::Claimed))?;
        let was_seen = !self.cache.is_new(id.run, id.number()) || self.out_of_band.contains(id);
        if id.run == out.cx.run || age > BROADCAST_LIFE || was_seen {
            out.cx.counters.messages.duplicate += 1;
            return Ok(false);
        }
        if age > now.since(self.born_at) {
            // It was said before this process began.
            drop_copy(out.cx, DropReason::Outdated);
            return Ok(false);
        }
        if !self.allowances.spend(now, Run::NOBODY, payload.len()) {
            drop_copy(out.cx, DropReason::RateLimited);
            return Err(CommandError::Busy);
        }
        if !self.out_of_band.insert(id, now) {
            drop_copy(out.cx, DropReason::TableFull);
            return Err(CommandError::Busy);
        }
        out.cx.timers.set_by(Timer::RepairMessages, now + OUT_OF_BAND_MEMORY);
        deliver(out.cx, Delivery { id, from, topic, payload, kind: DeliveryKind::Broadcast });
        Ok(true)
    }
}

/// Returns the name of a message's origin. The view knows best; an origin that is not in the view is called what
/// the caller says, or by its run if the caller says nothing. Fails if the caller's name contradicts the view, or
/// is this node's own.
fn origin_of(view: &View, id: MessageId, said: Option<NodeId>) -> Result<NodeId, CommandError> {
    let known = view.slot_of_run(id.run).map(|slot| view.record(slot).id.clone());
    let is_wrong = |said: &NodeId| match &known {
        Some(known) => known != said,
        None => *said == view.record(View::ME).id,
    };
    if let Some(said) = said.as_ref().filter(|said| is_wrong(said)) {
        return Err(CommandError::OtherOrigin { id, node: said.clone() });
    }
    let unnamed = || NodeId::new(&id.run.to_string()).expect("hex digits are of the alphabet");
    Ok(known.or(said).unwrap_or_else(unnamed))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn id(run: u64, number: u64) -> MessageId {
        MessageId::broadcast(Run(run), number)
    }

    #[test]
    fn numbers_are_remembered_one_by_one_whatever_their_order() {
        let mut taken = OutOfBand::default();
        for number in [63, 1, 64, MessageId::MAX_NUMBER] {
            assert!(!taken.contains(id(1, number)) && taken.insert(id(1, number), Time::ORIGIN));
            assert!(taken.contains(id(1, number)) && !taken.contains(id(2, number)), "{number}");
        }
        assert!(!taken.contains(id(1, 2)) && !taken.contains(id(1, 65)) && !taken.contains(id(1, 127)));
        assert_eq!(taken.size(), 3);
    }

    #[test]
    fn so_many_blocks_are_remembered_and_the_next_waits_until_one_is_forgotten() {
        let (mut taken, mut now) = (OutOfBand::default(), Time::ORIGIN);
        for block in 0..MAX_OUT_OF_BAND_BLOCKS as u64 {
            assert!(taken.insert(id(1, block * BLOCK), now));
        }
        assert!(!taken.insert(id(2, 1), now));
        assert!(taken.insert(id(1, 1), now), "in a block that is there");
        now = now + OUT_OF_BAND_MEMORY - Duration::from_millis(1);
        assert!(!taken.insert(id(2, 1), now));
        assert_eq!(taken.next_end(), Some(Time::ORIGIN + OUT_OF_BAND_MEMORY));
        now = now + OUT_OF_BAND_SWEEP;
        assert!(taken.insert(id(2, 1), now));
        assert_eq!(taken.size(), 1);
    }

    #[test]
    fn a_full_table_is_not_searched_at_every_call() {
        let (mut taken, now) = (OutOfBand::default(), Time::ORIGIN);
        for block in 0..MAX_OUT_OF_BAND_BLOCKS as u64 {
            taken.insert(id(1, block * BLOCK), now);
        }
        let soon = now + OUT_OF_BAND_MEMORY - OUT_OF_BAND_SWEEP / 2;
        assert!(!taken.insert(id(2, 1), soon), "searched in vain");
        assert!(
            !taken.insert(id(2, 1), soon + OUT_OF_BAND_SWEEP - Duration::from_millis(1)),
            "not searched again so soon"
        );
        assert!(taken.insert(id(2, 1), soon + OUT_OF_BAND_SWEEP));
    }
}
