//! Repair: a broadcast that spreading missed is found in what others tell that they hold, and fetched from them.
//!
//! For as long as a node keeps a broadcast, its gossip packets say so in a line per origin
//! ([`Message::HaveBroadcasts`]; Plumtree calls this lazy push: IHave and Graft), and a while after the last new one it
//! says so in packets of their own, to [`REPAIR_PEERS`]. Whoever has not seen a number of those asks for it
//! ([`Message::WantBroadcasts`]), again after [`WANT_TIMEOUT`], and gets it over the link between the two, or as
//! datagrams. So a message that every copy missed by chance arrives with the next packets, and an idle cluster pays
//! nothing.
//!
//! Invariants: of one node's line no more than [`MESSAGE_WINDOW`] numbers are looked at; at most [`MAX_WANTED`]
//! messages are asked for at one time; of one question at most [`REPAIR_PACKETS`] packets are answered, and only to a
//! proven address.
//!
//! Must not know: why something was missed.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::seq::IndexedRandom;

use super::Messages;
use super::broadcast::spans_of;
use super::cache::Kept;
use crate::context::Context;
use crate::counters::DropReason;
use crate::envelope::MessageId;
use crate::limits::{
    BROADCAST_LIFE, MAX_CARRIED_SPANS, MAX_FLOODED_PAYLOAD, MAX_SPANS, MAX_WANTED, MAX_WANTS, MESSAGE_WINDOW,
    REPAIR_AFTER, REPAIR_PACKETS, REPAIR_PEERS, WANT_TIMEOUT,
};
use crate::member::Run;
use crate::packet::{Outbox, Way};
use crate::time::Time;
use crate::timers::Timer;
use crate::view::Slot;
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

    /// Plans to tell others of a new broadcast, once it has had the time to spread.
    pub(super) fn plan(&mut self, cx: &mut Context) {
        // The first of a torrent sets the time: a torrent that goes on does not put it off.
        let at = cx.now + REPAIR_AFTER;
        self.tell_at.get_or_insert(at);
        cx.timers.set_by(Timer::RepairMessages, at);
    }

    /// Asks again for broadcasts that did not come; after a few times each waits for the next member that tells of it.
    fn ask_again(&mut self, out: &mut Outbox<'_>) {
        /// Most questions for one message to one member.
        const TIMES: u8 = 4;
        let now = out.cx.now;
        let mut again: BTreeMap<Run, Vec<MessageId>> = BTreeMap::new();
        self.wanted.retain(|id, wanted| {
            if now.since(wanted.asked_at) < WANT_TIMEOUT {
                return true;
            }
            wanted.times += 1;
            wanted.asked_at = now;
            again.entry(wanted.of).or_default().push(*id);
            wanted.times <= TIMES
        });
        for (run, mut ids) in again {
            let slot = out.view.slot_of_run(run).filter(|slot| out.view.record(*slot).status.is_live());
            ids.retain(|id| self.wanted.contains_key(id));
            match slot {
                Some(slot) => ask_for(out, slot, &ids),
                None => self.wanted.retain(|id, _| !ids.contains(id)),
            }
        }
    }
}

impl Messages {
    /// Returns true if it is time to tell peers what is held.
    pub(crate) fn is_telling_due(&self, now: Time) -> bool {
        self.repair.tell_at.is_some_and(|at| at <= now)
    }

    /// Does what is due about broadcasts: forgets old ones, tells some of these peers what is held if that is due, and asks
    /// again for what did not come.
    pub(crate) fn repair(&mut self, out: &mut Outbox<'_>, peers: &[Slot]) {
        let now = out.cx.now;
        self.cache.expire(now);
        if self.is_telling_due(now) {
            self.tell(out, peers);
            let is_newer = self.cache.is_newer_than(now, REPAIR_AFTER);
            self.repair.tell_at = is_newer.then_some(now + REPAIR_AFTER);
        }
        self.repair.ask_again(out);
        let repair = &self.repair;
        let next = [repair.tell_at, repair.next_question(), self.cache.next_end()];
        if let Some(next) = next.into_iter().flatten().min() {
            // Never at once: a deadline that has passed and stays would come up again and again.
            out.cx.timers.set(Timer::RepairMessages, next.max(now + Duration::from_millis(1)));
        }
    }

    /// Tells some of these peers what is held.
    fn tell(&mut self, out: &mut Outbox<'_>, peers: &[Slot]) {
        let chosen: Vec<Slot> = peers.sample(&mut self.random, REPAIR_PEERS).copied().collect();
        for peer in chosen {
            let mut packet = out.packet_to(peer);
            if self.push_spans(out.cx.now, &mut packet, MAX_SPANS) {
                out.send_to(peer, packet);
            }
        }
    }

    /// Adds what is held of broadcasts, a line per origin, to a packet that is sent anyway.
    pub(crate) fn push_held(&mut self, now: Time, packet: &mut PacketBuilder) {
        if self.cache.is_any_kept() {
            self.push_spans(now, packet, MAX_CARRIED_SPANS);
        }
    }

    fn push_spans(&mut self, now: Time, packet: &mut PacketBuilder, most: usize) -> bool {
        // A broadcast that came a moment ago is under way to others, too; one that is too old is taken by nobody.
        let is_told = |kept: &Kept| now.since(kept.since) >= REPAIR_AFTER / 2 && kept.age(now) < BROADCAST_LIFE;
        let spans: Vec<Span> = self
            .cache
            .origins_after(self.repair.turn)
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
            self.repair.turn = turn;
        }
        is_told
    }

    /// Takes a member's list of the broadcasts that it holds, and asks it for those that this node lacks.
    pub(crate) fn on_have_broadcasts(&mut self, out: &mut Outbox<'_>, sender: Slot, spans: &[Span]) {
        let (run, now) = (out.view.record(sender).run, out.cx.now);
        let mut lacking = Vec::new();
        let mut looks = MESSAGE_WINDOW;
        for span in spans {
            if span.run == out.cx.run || out.view.slot_of_run(span.run).is_none() {
                continue;
            }
            // The newest first: the others may be behind the window by now.
            for number in (span.first..=span.last).rev().take(looks as usize) {
                looks -= 1;
                if !self.cache.is_new(span.run, number) || lacking.len() >= MAX_WANTS {
                    continue;
                }
                let id = MessageId::broadcast(span.run, number);
                let wanted = &mut self.repair.wanted;
                let is_asked = wanted.get(&id).is_some_and(|wanted| now.since(wanted.asked_at) < WANT_TIMEOUT);
                if !is_asked && (wanted.len() < MAX_WANTED || wanted.contains_key(&id)) {
                    wanted.insert(id, Wanted { of: run, asked_at: now, times: 1 });
                    lacking.push(id);
                }
            }
        }
        ask_for(out, sender, &lacking);
    }

    /// Returns true if a member that has no link asks for a broadcast that is too large for datagrams.
    pub(crate) fn is_link_needed(&self, out: &Outbox<'_>, sender: Slot, spans: &[Span]) -> bool {
        let mut wanted = self.wanted(spans).filter_map(|id| self.cache.kept(id));
        out.view.entry(sender).peer.is_proven() && out.best_way(sender) == Way::Datagrams && wanted.any(Kept::is_large)
    }

    /// Answers a member that lacks broadcasts with those that are kept: in so many packets, and in so many datagrams a second.
    pub(crate) fn on_want_broadcasts(&mut self, out: &mut Outbox<'_>, sender: Slot, spans: &[Span]) {
        if !out.view.entry(sender).peer.is_proven() {
            return out.cx.counters.drop(DropReason::Unproven);
        }
        let (now, way) = (out.cx.now, out.best_way(sender));
        let most = if way == Way::Datagrams { REPAIR_PACKETS.min(out.answers_left(sender)) } else { REPAIR_PACKETS };
        if most == 0 {
            return out.cx.counters.drop(DropReason::RateLimited);
        }
        let mut packets = Vec::new();
        for id in self.wanted(spans).collect::<Vec<_>>() {
            let Some(message) = self.cache.message(id, now) else { continue };
            if way == Way::Datagrams && message.payload.len() > MAX_FLOODED_PAYLOAD {
                // It can be had as soon as there is a link.
                continue;
            }
            let message = Message::Broadcast(Box::new(message));
            let mut is_told = packets.last_mut().is_some_and(|packet: &mut PacketBuilder| packet.push(&message));
            if !is_told && packets.len() < most {
                let mut packet = out.packet_by(way, sender);
                is_told = packet.push(&message);
                packets.extend(is_told.then_some(packet));
            }
            if !is_told {
                break;
            }
            out.cx.counters.messages.copies_sent += 1;
        }
        if way == Way::Datagrams {
            out.count_answers(sender, packets.len());
        }
        for packet in packets {
            out.send_by(way, sender, packet);
        }
    }

    /// Returns the kept broadcasts that one question asks for.
    fn wanted(&self, spans: &[Span]) -> impl Iterator<Item = MessageId> {
        spans.iter().flat_map(|span| self.cache.kept_in(*span)).take(MAX_WANTS)
    }
}

/// Asks a member for broadcasts.
fn ask_for(out: &mut Outbox<'_>, slot: Slot, ids: &[MessageId]) {
    let spans = spans_of(ids.iter().copied());
    if spans.is_empty() {
        return;
    }
    let way = out.best_way(slot);
    let mut packet = out.packet_by(way, slot);
    for spans in spans.chunks(MAX_SPANS) {
        if !packet.push(&Message::WantBroadcasts(spans.to_vec())) {
            break;
        }
    }
    out.send_by(way, slot, packet);
    out.cx.timers.set_by(Timer::RepairMessages, out.cx.now + WANT_TIMEOUT);
}
