//! Repair: a broadcast that spreading missed is found in what others tell that they hold, and fetched from them.
//!
//! For as long as a node keeps a broadcast, its gossip packets say so in a line per origin
//! ([`Message::HaveBroadcasts`]; Plumtree calls this lazy push: IHave and Graft), and a while after the last new one it says so in packets of their own, to
//! [`REPAIR_PEERS`]. Whoever has not seen a number of those asks for it ([`Message::WantBroadcasts`]), again after
//! [`WANT_TIMEOUT`], and gets it over the link between the two, or as datagrams. So a message that every copy missed by
//! chance arrives with the next packets, and an idle cluster pays nothing.
//!
//! Invariants: of one node's line no more than [`MESSAGE_WINDOW`] numbers are looked at; at most [`MAX_WANTED`]
//! messages are asked for at one time; of one question at most [`REPAIR_PACKETS`] packets are answered, and only to a
//! proven address.
//!
//! Must not know: why something was missed.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::seq::IndexedRandom;

use super::broadcast::Kept;
use super::spread::spans_of;
use crate::Core;
use crate::counters::DropReason;
use crate::envelope::MessageId;
use crate::limits::{
    BROADCAST_LIFE, MAX_CARRIED_SPANS, MAX_SPANS, MAX_WANTED, MAX_WANTS, MESSAGE_WINDOW, REPAIR_AFTER, REPAIR_PACKETS,
    REPAIR_PEERS, WANT_TIMEOUT,
};
use crate::member::Run;
use crate::packet::Way;
use crate::time::Time;
use crate::timers::Timer;
use crate::view::Slot;
use crate::window::Sight;
use crate::wire::{Message, PacketBuilder, Span};

/// The broadcasts being fetched, and the time at which others are told next what is held.
#[derive(Debug, Clone)]
pub(super) struct Repair {
    /// Broadcasts that were asked for and have not come; at most [`MAX_WANTED`].
    wanted: BTreeMap<MessageId, Wanted>,
    /// The time at which others are told, in packets of their own, what is held; `None` while nothing new is held.
    tell_at: Option<Time>,
    /// The origin that was told of last: with many origins, each gets its turn.
    turn: Run,
}

#[derive(Debug, Clone)]
struct Wanted {
    of: Run,
    asked_at: Time,
    times: u8,
}

impl Default for Repair {
    fn default() -> Self {
        Self { wanted: BTreeMap::new(), tell_at: None, turn: Run::NOBODY }
    }
}

impl Repair {
    pub(super) fn size(&self) -> usize {
        self.wanted.len()
    }

    /// Takes note that a broadcast came: it is not wanted any more.
    pub(super) fn came(&mut self, id: MessageId) {
        self.wanted.remove(&id);
    }

    fn next_question(&self) -> Option<Time> {
        self.wanted.values().map(|wanted| wanted.asked_at + WANT_TIMEOUT).min()
    }
}

impl Core {
    /// Plans to tell others of a new broadcast, once it has had the time to spread.
    pub(super) fn repair_later(&mut self) {
        // The first of a torrent sets the time: a torrent that goes on does not put it off.
        let at = self.cx.now + REPAIR_AFTER;
        self.messaging.repair.tell_at.get_or_insert(at);
        self.cx.timers.set_by(Timer::RepairMessages, at);
    }

    /// Does what is due about broadcasts: forgets old ones, tells peers what is held, and asks again for what did not
    /// come.
    pub(crate) fn repair_messages(&mut self) {
        let now = self.cx.now;
        self.messaging.broadcasts.expire(now);
        self.messaging.called.expire(now);
        if self.messaging.broadcasts.is_empty() && self.messaging.called.is_empty() {
            self.messaging.allowances.clear();
        }
        if self.messaging.repair.tell_at.is_some_and(|at| at <= now) {
            self.messaging.repair.tell_at = None;
            self.tell_peers();
            let is_newer = self.messaging.broadcasts.is_newer_than(now, REPAIR_AFTER);
            self.messaging.repair.tell_at = is_newer.then_some(now + REPAIR_AFTER);
        }
        self.ask_again();
        let repair = &self.messaging.repair;
        let called = self.messaging.called.next_end();
        let next = [repair.tell_at, repair.next_question(), self.messaging.broadcasts.next_end(), called];
        if let Some(next) = next.into_iter().flatten().min() {
            // Never at once: a deadline that has passed and stays would come up again and again.
            self.cx.timers.set(Timer::RepairMessages, next.max(now + Duration::from_millis(1)));
        }
    }

    fn tell_peers(&mut self) {
        let targets = self.flood_targets(false);
        let chosen: Vec<Slot> = targets.sample(&mut self.random.messages, REPAIR_PEERS).copied().collect();
        for target in chosen {
            let mut packet = self.out().packet_to(target);
            if self.push_held(&mut packet, MAX_SPANS) {
                self.out().send_to(target, packet);
            }
        }
    }

    /// Adds what is held of broadcasts, a line per origin, to a packet that is sent anyway.
    pub(crate) fn push_held_broadcasts(&mut self, packet: &mut PacketBuilder) {
        if self.messaging.broadcasts.is_any_kept() {
            self.push_held(packet, MAX_CARRIED_SPANS);
        }
    }

    fn push_held(&mut self, packet: &mut PacketBuilder, most: usize) -> bool {
        let (now, turn) = (self.cx.now, self.messaging.repair.turn);
        // A broadcast that came a moment ago is under way to others, too; one that is too old is taken by nobody.
        let is_told = |kept: &Kept| now.since(kept.since) >= REPAIR_AFTER / 2 && kept.age(now) < BROADCAST_LIFE;
        let spans: Vec<Span> = self
            .messaging
            .broadcasts
            .origins_after(turn)
            .filter_map(|(run, origin)| {
                let first = origin.kept.iter().find(|(_, kept)| is_told(kept)).map(|(number, _)| *number)?;
                let last = origin.kept.iter().rev().find(|(_, kept)| is_told(kept)).map(|(number, _)| *number)?;
                Some(Span { run, first, last })
            })
            .take(most)
            .collect();
        let Some(last) = spans.last() else { return false };
        let turn = last.run;
        let is_told = packet.push(&Message::HaveBroadcasts(spans));
        if is_told {
            // A packet without room costs no origin its turn.
            self.messaging.repair.turn = turn;
        }
        is_told
    }

    /// Takes a member's word on the broadcasts that it holds, and asks it for those that this node lacks.
    pub(crate) fn on_have_broadcasts(&mut self, slot: Slot, spans: &[Span]) {
        let (run, now) = (self.view.record(slot).run, self.cx.now);
        let mut lacking = Vec::new();
        let mut looks = MESSAGE_WINDOW;
        for span in spans {
            if span.run == self.cx.run || self.view.slot_of_run(span.run).is_none() {
                continue;
            }
            // The newest first: the others may be behind the window by now.
            for number in (span.first..=span.last).rev().take(looks as usize) {
                looks -= 1;
                if self.messaging.broadcasts.judge(span.run, number) != Sight::New || lacking.len() >= MAX_WANTS {
                    continue;
                }
                let id = MessageId::broadcast(span.run, number);
                let wanted = &mut self.messaging.repair.wanted;
                let is_asked = wanted.get(&id).is_some_and(|wanted| now.since(wanted.asked_at) < WANT_TIMEOUT);
                if !is_asked && (wanted.len() < MAX_WANTED || wanted.contains_key(&id)) {
                    wanted.insert(id, Wanted { of: run, asked_at: now, times: 1 });
                    lacking.push(id);
                }
            }
        }
        self.want(slot, &lacking);
    }

    fn want(&mut self, slot: Slot, lacking: &[MessageId]) {
        let spans = spans_of(lacking.iter().copied());
        if spans.is_empty() {
            return;
        }
        let way = self.out().best_way(slot);
        let mut packet = self.out().packet_by(way, slot);
        for spans in spans.chunks(MAX_SPANS) {
            if !packet.push(&Message::WantBroadcasts(spans.to_vec())) {
                break;
            }
        }
        self.out().send_by(way, slot, packet);
        self.cx.timers.set_by(Timer::RepairMessages, self.cx.now + WANT_TIMEOUT);
    }

    /// Asks again for broadcasts that did not come; after a few times each waits for the next member that tells of it.
    fn ask_again(&mut self) {
        /// Most questions for one message to one member.
        const TIMES: u8 = 4;
        let now = self.cx.now;
        let mut again: BTreeMap<Run, Vec<MessageId>> = BTreeMap::new();
        self.messaging.repair.wanted.retain(|id, wanted| {
            if now.since(wanted.asked_at) < WANT_TIMEOUT {
                return true;
            }
            wanted.times += 1;
            wanted.asked_at = now;
            again.entry(wanted.of).or_default().push(*id);
            wanted.times <= TIMES
        });
        for (run, mut ids) in again {
            let slot = self.view.slot_of_run(run).filter(|slot| self.view.record(*slot).status.is_live());
            ids.retain(|id| self.messaging.repair.wanted.contains_key(id));
            match slot {
                Some(slot) => self.want(slot, &ids),
                None => self.messaging.repair.wanted.retain(|id, _| !ids.contains(id)),
            }
        }
    }

    /// Answers a member that lacks broadcasts with those that are kept, within its allowance.
    pub(crate) fn asked_for_broadcasts(&mut self, slot: Slot, spans: &[Span]) {
        if !self.view.entry(slot).peer.is_proven() {
            return self.cx.counters.drop(DropReason::Unproven);
        }
        let wanted: Vec<MessageId> =
            spans.iter().flat_map(|span| self.messaging.broadcasts.kept_in(*span)).take(MAX_WANTS).collect();
        let run = self.view.record(slot).run;
        let way = self.out().best_way(slot);
        let mut packet = None;
        let mut packets = 0;
        for id in wanted {
            let Some(message) = self.messaging.broadcasts.message(id, self.cx.now) else { continue };
            let is_large = self.messaging.broadcasts.kept(id).is_some_and(Kept::is_large);
            if is_large && way == Way::Datagrams {
                // A large broadcast can be had as soon as there is a link.
                self.ensure_link(slot);
                continue;
            }
            let (allowances, bytes) = (&mut self.messaging.allowances, message.payload.len());
            let is_allowed = match way {
                Way::Datagrams | Way::Unbound => allowances.fetch(self.cx.now, run, bytes),
                Way::Link(_) => allowances.spend(self.cx.now, run, bytes),
            };
            if !is_allowed {
                self.cx.counters.drop(DropReason::RateLimited);
                break;
            }
            let message = Message::Broadcast(Box::new(message));
            let mut open = packet.take().unwrap_or_else(|| self.out().packet_by(way, slot));
            if !open.push(&message) {
                packets += 1;
                self.out().send_by(way, slot, open);
                if packets >= REPAIR_PACKETS {
                    return;
                }
                open = self.out().packet_by(way, slot);
                if !open.push(&message) {
                    continue;
                }
            }
            self.cx.counters.messages.copies_sent += 1;
            packet = Some(open);
        }
        if let Some(packet) = packet {
            self.out().send_by(way, slot, packet);
        }
    }
}
