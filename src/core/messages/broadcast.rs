//! Broadcasts: each is taken once, delivered, and sent on at once, as news is.
//!
//! Messages carry their age, never a time: each node adds the time for which it kept a message. A message older than
//! [`BROADCAST_LIFE`] is neither taken nor given any more.
//!
//! New broadcasts are gathered for [`SPREAD_BATCH`] and sent to the neighbours on the first rings and to one random
//! peer, at most [`SPREAD_PACKETS`] packets to each in a batch; the rest goes with the next ones, so that a torrent is
//! paced. Every node sends each message on once, never back to the member that it came from. A large one is only
//! announced, over links.
//!
//! Must not know: what becomes of a copy; whom news is flooded to.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::cache::Kept;
use super::{Messages, deliver, drop_copy, may_speak};
use crate::context::Context;
use crate::counters::DropReason;
use crate::envelope::{MessageId, Payload, Topic};
use crate::io::{CommandError, Delivery, DeliveryKind, Reply, Ticket};
#[cfg(doc)]
use crate::limits::SPREAD_PACKETS;
use crate::limits::{
    BROADCAST_LIFE, MAX_FLOODED_PAYLOAD, MAX_HEADER_BYTES, MAX_MESSAGES_PER_SPREAD, MAX_SPANS, MAX_UNSPREAD,
    SPREAD_BATCH, SPREAD_BYTES, SPREAD_RESERVE,
};
use crate::member::{NodeId, Run};
use crate::packet::{Outbox, Way};
use crate::settings::MAX_MTU;
use crate::timers::Timer;
use crate::view::Slot;
use crate::wire::{Broadcast, Message, Span};

const _: () = assert!(MAX_MTU / SPREAD_BYTES < MAX_MESSAGES_PER_SPREAD, "no packet has room for so many");

/// The broadcasts still to be sent on; at most [`MAX_UNSPREAD`] of each size. More than that are left to repair.
#[derive(Debug, Clone, Default)]
pub(super) struct Spreading {
    small: VecDeque<MessageId>,
    large: Vec<MessageId>,
}

impl Spreading {
    pub(super) fn size(&self) -> usize {
        self.small.len() + self.large.len()
    }

    /// Plans to send a broadcast on.
    fn plan(&mut self, cx: &mut Context, id: MessageId, is_large: bool) {
        match is_large {
            true if self.large.len() < MAX_UNSPREAD => self.large.push(id),
            false if self.small.len() < MAX_UNSPREAD => self.small.push_back(id),
            _ => return,
        }
        cx.timers.set_by(Timer::Spread, cx.now + SPREAD_BATCH);
    }
}

/// Taking broadcasts.
impl Messages {
    /// Says something to all members, for a program of this node.
    pub(super) fn broadcast(
        &mut self,
        out: &mut Outbox<'_>,
        ticket: Ticket,
        topic: Topic,
        payload: Payload,
    ) -> Result<(), CommandError> {
        may_speak(out.cx)?;
        let others = out.view.live().len();
        if self.spreading.size() >= MAX_UNSPREAD {
            return Err(CommandError::Busy);
        }
        if others > 0 && self.cache.is_ahead(payload.len(), out.cx.now) {
            return Err(CommandError::TooFast);
        }
        if others > 0 && payload.len() > MAX_FLOODED_PAYLOAD && linked_neighbours(out).is_empty() {
            return Err(CommandError::NoLinks);
        }
        self.last += 1;
        let id = MessageId::broadcast(out.cx.run, self.last);
        out.cx.counters.messages.sent += 1;
        out.cx.reply(ticket, Reply::Broadcast { id, addressed: others + 1 });
        let (from, since) = (out.view.me().id.clone(), out.cx.now);
        self.take(out, id, from, Kept { topic, payload, since, age_here: Duration::ZERO, from: None });
        Ok(())
    }

    /// Takes a copy of a broadcast that came from a member.
    pub(crate) fn on_broadcast(&mut self, out: &mut Outbox<'_>, sender: Slot, message: &Broadcast) {
        out.cx.counters.messages.received += 1;
        let (from, now) = (out.view.record(sender).run, out.cx.now);
        let id = MessageId::broadcast(message.run, message.number);
        let age = Duration::from_millis(message.age_ms);
        if message.run == out.cx.run || age > BROADCAST_LIFE {
            return out.cx.counters.messages.duplicate += 1;
        }
        let Some(origin) = out.view.slot_of_run(message.run) else {
            // The origin may be known in a moment: the number is not marked, so that it is asked for when somebody
            // tells of it then.
            return drop_copy(out.cx, DropReason::UnknownRun);
        };
        if !self.cache.is_new(message.run, message.number) {
            return out.cx.counters.messages.duplicate += 1;
        }
        if !self.cache.make_room_for(message.run, now) {
            return drop_copy(out.cx, DropReason::TableFull);
        }
        if !self.cache.mark(message.run, message.number, now) {
            return out.cx.counters.messages.duplicate += 1;
        }
        self.repair.came(id);
        if self.up_since.is_none_or(|since| age > now.since(since)) {
            // It was said before this node was Up.
            return drop_copy(out.cx, DropReason::Outdated);
        }
        let (origin, topic, payload) =
            (out.view.record(origin).id.clone(), message.topic.clone(), message.payload.clone());
        self.take(out, id, origin, Kept { topic, payload, since: now, age_here: age, from: Some(from) });
    }

    /// Takes a broadcast that is new, of the origin of this name: sends it on, and delivers it.
    pub(super) fn take(&mut self, out: &mut Outbox<'_>, id: MessageId, from: NodeId, kept: Kept) {
        let (topic, payload) = (kept.topic.clone(), kept.payload.clone());
        self.spreading.plan(out.cx, id, kept.is_large());
        self.repair.plan(out.cx);
        out.cx.counters.messages.evicted += self.cache.keep(id, kept);
        deliver(out.cx, Delivery { id, from, topic, payload, kind: DeliveryKind::Broadcast });
    }
}

/// Sending broadcasts on.
impl Messages {
    /// Tells the neighbours that are reached by links of the large broadcasts that have gathered.
    pub(crate) fn announce_large(&mut self, out: &mut Outbox<'_>) {
        let large = std::mem::take(&mut self.spreading.large);
        if large.is_empty() {
            return;
        }
        for target in linked_neighbours(out) {
            for spans in spans_of(self.lacking(&large, out.view.record(target).run)).chunks(MAX_SPANS) {
                let way = out.best_way(target);
                let mut packet = out.packet_by(way, target);
                packet.push(&Message::HaveBroadcasts(spans.to_vec()));
                out.send_by(way, target, packet);
            }
        }
    }

    /// Takes out as many small broadcasts as surely fit into one packet.
    pub(crate) fn next_batch(&mut self, datagram_bytes: usize) -> Vec<MessageId> {
        let mut room = datagram_bytes - MAX_HEADER_BYTES - SPREAD_RESERVE;
        let mut batch = Vec::new();
        while let Some(id) = self.spreading.small.front().copied() {
            if let Some(kept) = self.cache.kept(id) {
                // Room for run, number, age and lengths, too.
                let bytes = kept.payload.len() + kept.topic.as_str().len() + SPREAD_BYTES;
                if bytes > room || batch.len() == MAX_MESSAGES_PER_SPREAD {
                    break;
                }
                room -= bytes;
                batch.push(id);
            }
            self.spreading.small.pop_front();
        }
        batch
    }

    /// Sends a batch to those that news is flooded to, each what it may lack.
    pub(crate) fn send_batch(&mut self, out: &mut Outbox<'_>, batch: &[MessageId], targets: Vec<Slot>) {
        let now = out.cx.now;
        for target in targets {
            let mut lacking = self.lacking(batch, out.view.record(target).run).peekable();
            if lacking.peek().is_none() {
                continue;
            }
            let mut packet = out.packet_to(target);
            for message in lacking.filter_map(|id| self.cache.message(id, now)) {
                if packet.push(&Message::Broadcast(Box::new(message))) {
                    out.cx.counters.messages.copies_sent += 1;
                }
            }
            out.send_to(target, packet);
        }
    }

    /// Sets the next deadline, if broadcasts are left for it.
    pub(crate) fn plan_next_batch(&self, cx: &mut Context) {
        if !self.spreading.small.is_empty() {
            cx.timers.set(Timer::Spread, cx.now + SPREAD_BATCH);
        }
    }

    /// Returns the broadcasts among these that a member may lack: neither are they its own, nor did it bring them.
    fn lacking(&self, ids: &[MessageId], run: Run) -> impl Iterator<Item = MessageId> {
        let may_lack = move |id: &MessageId| {
            let from = self.cache.kept(*id).and_then(|kept| kept.from);
            id.run != run && from != Some(run)
        };
        ids.iter().copied().filter(may_lack)
    }
}

/// Returns the neighbours that are reached by links.
fn linked_neighbours(out: &Outbox<'_>) -> Vec<Slot> {
    out.observers.neighbours().filter(|slot| out.best_way(*slot) != Way::Datagrams).collect()
}

/// Returns the shortest list of spans that holds these messages and no others.
pub(super) fn spans_of(ids: impl Iterator<Item = MessageId>) -> Vec<Span> {
    let mut of: BTreeMap<Run, Vec<u64>> = BTreeMap::new();
    for id in ids {
        of.entry(id.run).or_default().push(id.number());
    }
    let mut spans: Vec<Span> = Vec::new();
    for (run, mut numbers) in of {
        numbers.sort_unstable();
        for number in numbers {
            match spans.last_mut() {
                Some(span) if span.run == run && span.last + 1 >= number => span.last = number,
                _ => spans.push(Span { run, first: number, last: number }),
            }
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_hold_what_they_are_made_of() {
        let ids = [(1, 3), (2, 4), (1, 1), (1, 2), (1, 9)].map(|(run, number)| MessageId::broadcast(Run(run), number));
        let span = |run, first, last| Span { run: Run(run), first, last };
        assert_eq!(spans_of(ids.into_iter()), [span(1, 1, 3), span(1, 9, 9), span(2, 4, 4)]);
    }
}
