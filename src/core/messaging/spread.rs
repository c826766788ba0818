//! Spreading: a broadcast is sent on at once, as news is (see `flood`).
//!
//! New broadcasts are gathered for [`SPREAD_BATCH`] and sent to the neighbours on the first rings and to one random
//! peer, at most [`SPREAD_PACKETS`] packets to each in a batch; the rest goes with the next ones, so that a torrent is
//! paced. Every node sends each message on once, never back to the member that it came from. A large one is only
//! announced, over links.
//!
//! Must not know: what becomes of a copy.

use std::collections::{BTreeMap, VecDeque};

use crate::Core;
use crate::envelope::MessageId;
use crate::limits::{
    MAX_HEADER_BYTES, MAX_MESSAGES_PER_SPREAD, MAX_SPANS, MAX_UNSPREAD, SPREAD_BATCH, SPREAD_BYTES, SPREAD_PACKETS,
    SPREAD_RESERVE,
};
use crate::member::Run;
use crate::packet::Way;
use crate::settings::MAX_MTU;
use crate::timers::Timer;
use crate::view::Slot;
use crate::wire::{Message, Span};

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
}

impl Core {
    /// Plans to send a broadcast on.
    pub(super) fn spread_soon(&mut self, id: MessageId, is_large: bool) {
        let spreading = &mut self.messaging.spreading;
        match is_large {
            true if spreading.large.len() < MAX_UNSPREAD => spreading.large.push(id),
            false if spreading.small.len() < MAX_UNSPREAD => spreading.small.push_back(id),
            _ => return,
        }
        self.cx.timers.set_by(Timer::Spread, self.cx.now + SPREAD_BATCH);
    }

    /// Sends on the broadcasts that have gathered.
    pub(crate) fn spread(&mut self) {
        self.tell_of_large_ones();
        for _ in 0..SPREAD_PACKETS {
            let batch = self.next_batch();
            if batch.is_empty() {
                return;
            }
            self.spread_batch(&batch);
        }
        if !self.messaging.spreading.small.is_empty() {
            self.cx.timers.set(Timer::Spread, self.cx.now + SPREAD_BATCH);
        }
    }

    /// Takes out as many messages as surely fit into one packet.
    fn next_batch(&mut self) -> Vec<MessageId> {
        let mut room = self.datagram_bytes() - MAX_HEADER_BYTES - SPREAD_RESERVE;
        let mut batch = Vec::new();
        while let Some(id) = self.messaging.spreading.small.front().copied() {
            if let Some(kept) = self.messaging.broadcasts.kept(id) {
                // Room for run, number, age and lengths, too.
                let bytes = kept.payload.len() + kept.topic.as_str().len() + SPREAD_BYTES;
                if bytes > room || batch.len() == MAX_MESSAGES_PER_SPREAD {
                    break;
                }
                room -= bytes;
                batch.push(id);
            }
            self.messaging.spreading.small.pop_front();
        }
        batch
    }

    fn spread_batch(&mut self, batch: &[MessageId]) {
        let source = |core: &Core, id: MessageId| core.messaging.broadcasts.kept(id).and_then(|kept| kept.from);
        let is_own = batch.iter().any(|id| id.run == self.cx.run);
        for target in self.flood_targets(is_own) {
            let run = self.view.record(target).run;
            let lacking: Vec<MessageId> =
                batch.iter().copied().filter(|id| id.run != run && source(self, *id) != Some(run)).collect();
            if lacking.is_empty() {
                continue;
            }
            let mut packet = self.out().packet_to(target);
            for id in lacking {
                let Some(message) = self.messaging.broadcasts.message(id, self.cx.now) else { continue };
                if packet.push(&Message::Broadcast(Box::new(message))) {
                    self.cx.counters.messages.copies_sent += 1;
                }
            }
            self.out().send_to(target, packet);
        }
    }

    /// Returns the neighbours that are reached by links.
    pub(super) fn linked_neighbours(&self) -> Vec<Slot> {
        self.observers.neighbours().filter(|slot| self.is_linked(self.view.record(*slot).run)).collect()
    }

    fn tell_of_large_ones(&mut self) {
        let large = std::mem::take(&mut self.messaging.spreading.large);
        if large.is_empty() {
            return;
        }
        for target in self.linked_neighbours() {
            let run = self.view.record(target).run;
            let lacking = large.iter().filter(|id| {
                let from = self.messaging.broadcasts.kept(**id).and_then(|kept| kept.from);
                id.run != run && from != Some(run)
            });
            let spans = spans_of(lacking.copied());
            let way = self.out().best_way(target);
            if let (Way::Link(_), false) = (way, spans.is_empty()) {
                let mut packet = self.out().packet_by(way, target);
                for spans in spans.chunks(MAX_SPANS) {
                    packet.push(&Message::HaveBroadcasts(spans.to_vec()));
                }
                self.out().send_by(way, target, packet);
            }
        }
    }
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
