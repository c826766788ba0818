//! Direct deliveries: broadcasts that their origin's agent brought by a call of its own, because its view lacks this
//! node.
//!
//! A call proves that its caller may command this agent, and nothing about who wrote the message. So it moves no
//! window: broadcasts that came by calls are remembered number by number, and an origin's broadcasts that come in
//! packets are judged by their own window alone. A caller in another's name can use up one number in advance and hide
//! that message; it cannot carry the window away, however large its numbers are.
//!
//! The copy that comes first is delivered, by a call or in a packet, and the other one is a duplicate: a call is judged
//! by the origin's window, too, and a packet by what came by calls. A packet's copy is sent on all the same, since
//! others may lack it. A call's copy is not: the origin calls everybody that its table lists and its view lacks.
//!
//! Invariants:
//! - At most [`MAX_DIRECT_BLOCKS`] blocks of 64 numbers, each forgotten when nothing new came of it for
//!   [`DIRECT_MEMORY`]: all copies are older than [`BROADCAST_LIFE`] by then. A call that finds no room is refused, and
//!   nothing is delivered.
//! - All calls together have the allowance of one member.
//! - Every call is delivered, a duplicate, or dropped, as packets are: the counters add up.
//!
//! Must not know: who calls, by which protocol, and what proves that it may.

use std::collections::BTreeMap;

use crate::Core;
use crate::context::Phase;
use crate::counters::DropReason;
use crate::doors::{CommandError, Delivery, DeliveryKind, Direct, Reply, Ticket};
use crate::envelope::MessageId;
use crate::limits::{BROADCAST_LIFE, DIRECT_MEMORY, DIRECT_SWEEP, MAX_DIRECT_BLOCKS};
use crate::member::{NodeId, Run};
use crate::time::Time;
use crate::timers::Timer;
use crate::view::View;
use crate::window::Sight;

/// Numbers in one block.
const BLOCK: u64 = u64::BITS as u64;

/// The numbers of broadcasts that came by calls.
#[derive(Debug, Clone, Default)]
pub(super) struct Called {
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

impl Called {
    pub(super) fn size(&self) -> usize {
        self.blocks.len()
    }

    /// Returns true if nothing that came by calls is remembered.
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Returns true if a broadcast came by a call.
    pub(super) fn contains(&self, id: MessageId) -> bool {
        let (block, bit) = place(id);
        self.blocks.get(&(id.run, block)).is_some_and(|block| block.seen & bit != 0)
    }

    /// Remembers a broadcast that came by a call; returns false if there is no room.
    fn insert(&mut self, id: MessageId, now: Time) -> bool {
        let (block, bit) = place(id);
        let key = (id.run, block);
        if self.blocks.len() >= MAX_DIRECT_BLOCKS && !self.blocks.contains_key(&key) {
            // Not at every call: a caller that fills the table would have it searched each time.
            if self.swept_at.is_none_or(|at| now.since(at) >= DIRECT_SWEEP) {
                self.swept_at = Some(now);
                self.expire(now);
            }
            if self.blocks.len() >= MAX_DIRECT_BLOCKS {
                return false;
            }
        }
        let block = self.blocks.entry(key).or_insert(Block { seen: 0, fresh_at: now });
        block.seen |= bit;
        block.fresh_at = now;
        true
    }

    /// Forgets the blocks in which nothing new came for [`DIRECT_MEMORY`]: no copy of theirs is taken any more.
    pub(super) fn expire(&mut self, now: Time) {
        self.blocks.retain(|_, block| now.since(block.fresh_at) < DIRECT_MEMORY);
    }

    /// Returns the next time at which [`Called::expire`] has something to do.
    pub(super) fn next_end(&self) -> Option<Time> {
        self.blocks.values().map(|block| block.fresh_at + DIRECT_MEMORY).min()
    }
}

fn place(id: MessageId) -> (u64, u64) {
    (id.number() / BLOCK, 1 << (id.number() % BLOCK))
}

impl Core {
    /// Takes a broadcast that an agent brought by a call.
    pub(super) fn take_direct(&mut self, ticket: Ticket, direct: Direct) {
        let reply = match self.judge_direct(direct) {
            Ok(is_new) => Reply::Taken { is_new },
            Err(error) => Reply::Refused(error),
        };
        self.cx.reply(ticket, reply);
    }

    fn judge_direct(&mut self, direct: Direct) -> Result<bool, CommandError> {
        let Direct { id, from, age, topic, payload } = direct;
        self.cx.counters.messages.received += 1;
        let now = self.cx.now;
        if matches!(self.cx.phase, Phase::Leaving | Phase::Stopped) {
            self.drop_message(DropReason::WrongState);
            return Err(CommandError::Leaving);
        }
        if !id.is_broadcast() || !(1..=MessageId::MAX_NUMBER).contains(&id.number()) {
            self.drop_message(DropReason::Malformed);
            return Err(CommandError::NoBroadcast { id });
        }
        let from = self.origin_of(id, from).inspect_err(|_| self.drop_message(DropReason::Claimed))?;
        let sight = self.messaging.broadcasts.judge(id.run, id.number());
        let was_seen = matches!(sight, Sight::Seen | Sight::Behind) || self.messaging.called.contains(id);
        if id.run == self.cx.run || age > BROADCAST_LIFE || was_seen {
            self.cx.counters.messages.duplicate += 1;
            return Ok(false);
        }
        if age > now.since(self.messaging.born_at) {
            // It was said before this process began.
            self.drop_message(DropReason::Outdated);
            return Ok(false);
        }
        if !self.messaging.allowances.spend(now, Run::NOBODY, payload.len()) {
            self.drop_message(DropReason::RateLimited);
            return Err(CommandError::Busy);
        }
        if !self.messaging.called.insert(id, now) {
            self.drop_message(DropReason::TableFull);
            return Err(CommandError::Busy);
        }
        self.cx.timers.set_by(Timer::RepairMessages, now + DIRECT_MEMORY);
        self.deliver(Delivery { id, from, topic, payload, kind: DeliveryKind::Broadcast });
        Ok(true)
    }

    /// Returns the name of a message's origin. The view knows best; an origin that is not in the view is called what
    /// the caller says, or by its run if the caller says nothing. Fails if the caller's name contradicts the view, or
    /// is this node's own.
    fn origin_of(&self, id: MessageId, said: Option<NodeId>) -> Result<NodeId, CommandError> {
        let known = self.view.slot_of_run(id.run).map(|slot| self.view.record(slot).id.clone());
        let is_wrong = |said: &NodeId| match &known {
            Some(known) => known != said,
            None => *said == self.view.record(View::ME).id,
        };
        if let Some(said) = said.as_ref().filter(|said| is_wrong(said)) {
            return Err(CommandError::OtherOrigin { id, node: said.clone() });
        }
        let unnamed = || NodeId::new(&id.run.to_string()).expect("hex digits are of the alphabet");
        Ok(known.or(said).unwrap_or_else(unnamed))
    }
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
        let mut called = Called::default();
        for number in [63, 1, 64, MessageId::MAX_NUMBER] {
            assert!(!called.contains(id(1, number)) && called.insert(id(1, number), Time::ORIGIN));
            assert!(called.contains(id(1, number)) && !called.contains(id(2, number)), "{number}");
        }
        assert!(!called.contains(id(1, 2)) && !called.contains(id(1, 65)) && !called.contains(id(1, 127)));
        assert_eq!(called.size(), 3);
    }

    #[test]
    fn so_many_blocks_are_remembered_and_the_next_waits_until_one_is_forgotten() {
        let (mut called, mut now) = (Called::default(), Time::ORIGIN);
        for block in 0..MAX_DIRECT_BLOCKS as u64 {
            assert!(called.insert(id(1, block * BLOCK), now));
        }
        assert!(!called.insert(id(2, 1), now));
        assert!(called.insert(id(1, 1), now), "in a block that is there");
        now = now + DIRECT_MEMORY - Duration::from_millis(1);
        assert!(!called.insert(id(2, 1), now));
        assert_eq!(called.next_end(), Some(Time::ORIGIN + DIRECT_MEMORY));
        now = now + DIRECT_SWEEP;
        assert!(called.insert(id(2, 1), now));
        assert_eq!(called.size(), 1);
    }

    #[test]
    fn a_full_table_is_not_searched_at_every_call() {
        let (mut called, now) = (Called::default(), Time::ORIGIN);
        for block in 0..MAX_DIRECT_BLOCKS as u64 {
            called.insert(id(1, block * BLOCK), now);
        }
        let soon = now + DIRECT_MEMORY - DIRECT_SWEEP / 2;
        assert!(!called.insert(id(2, 1), soon), "searched in vain");
        assert!(!called.insert(id(2, 1), soon + DIRECT_SWEEP - Duration::from_millis(1)), "not searched again so soon");
        assert!(called.insert(id(2, 1), soon + DIRECT_SWEEP));
    }
}
