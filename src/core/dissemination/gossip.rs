//! Gossip: what travels with heartbeats, and whose turn it is to get one.
//!
//! The observers of this node are sent to in turn, one at each beat, so that somebody has always heard it lately: at random, the
//! freshest sign that any observer has would be as old as several beats. The order is random, and the same in every
//! round; each beat is a little early by chance, so that what comes at regular times (a burst of traffic, a job) does not
//! hit the packets of the same pairs for ever. Who comes to observe this node is last in the round. A round takes no longer
//! than `heartbeat_interval`, and no beat longer than the pace of gossip, `gossip_interval` / `gossip_fanout`, in which a small
//! cluster has shorter rounds. Where not all nodes observe each other, some packets more go to any live member, so that no
//! part of the graph is on its own for long.
//!
//! The packet carries the fingerprint, and recent updates for a peer whose own fingerprint, as last heard, differs (SWIM's
//! piggybacking, section 4.1): each update at most 3 × ⌈log2(n + 1)⌉ times (its λ log n). Answers to a peer whose
//! fingerprint differs carry them, too, however often (see `wiring::receiving`).
//!
//! A change is remembered by its member's slot, since only the newest record of a member is worth sending. At most
//! [`MAX_RECENT_UPDATES`] are kept; the most-sent ones are dropped first, and of those the oldest. Updates that are no
//! longer kept travel by sync.
//!
//! Invariants: whoever is told when the next heartbeat comes gets one by then, whoever comes to observe this node meanwhile.
//!
//! Must not know: what else is done at a tick (see `wiring::inputs`), and what else gossip packets carry (see `wiring::spreading`).

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use rand::RngExt;
use rand::seq::{IndexedRandom, SliceRandom};
use rand_chacha::ChaCha8Rng;

use super::flood::Flooding;
use super::sync::FingerprintMismatch;
use crate::context::Context;
use crate::limits::{ANYBODY_ONE_IN, MAX_RECENT_UPDATES};
use crate::map::Map;
use crate::member::Run;
use crate::packet::Outbox;
use crate::settings::Settings;
use crate::time::Time;
use crate::timers::Timer;
use crate::view::{Slot, View};
use crate::wire::{Message, PacketBuilder};

/// The greatest share of a pause that is left out by chance.
const MOST_EARLY: f64 = 0.05;

/// Everything by which updates spread: a machine. It is lent the outbox, and sends by itself; what else its packets carry is
/// the wiring's (see `wiring::spreading`).
#[derive(Debug, Clone)]
pub(crate) struct Gossip {
    pub(super) rng: ChaCha8Rng,
    /// Updates that may still be worth sending.
    pub(super) recent: Recent,
    /// The observers in turn, each with the time by which it was promised a heartbeat; the next is in front.
    turns: VecDeque<(Slot, Time)>,
    pub(super) flooding: Flooding,
    pub(super) sync: FingerprintMismatch,
}

/// A heartbeat that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeartbeatTurn {
    pub(crate) slot: Slot,
    /// The greatest time until the peer's next turn.
    pub(crate) next: Duration,
}

/// Updates by the number of times they were sent. Most changes are new ones, so the end at which those are added and
/// removed is the cheap one.
#[derive(Debug, Clone, Default)]
pub(super) struct Recent {
    /// The updates in falling order: the one to be sent first is at the back.
    order: VecDeque<Carried>,
    by_slot: Map<Slot, Carried>,
    counter: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Carried {
    times: u32,
    newest_first: Reverse<u64>,
    slot: Slot,
}

impl Recent {
    /// Notes a change of a member: its update starts anew.
    pub(crate) fn note(&mut self, slot: Slot) {
        self.counter += 1;
        let carried = Carried { times: 0, newest_first: Reverse(self.counter), slot };
        match self.by_slot.insert(slot, carried) {
            Some(before) => self.unlist(before),
            None if self.order.len() == MAX_RECENT_UPDATES => {
                if let Some(most_sent) = self.order.pop_front() {
                    self.by_slot.remove(&most_sent.slot);
                }
            }
            None => {}
        }
        // A newest update that was never sent comes first.
        self.order.push_back(carried);
    }

    /// Notes that an update was put into a packet.
    pub(crate) fn sent(&mut self, slot: Slot) {
        if let Some(before) = self.by_slot.get(&slot).copied() {
            let after = Carried { times: before.times.saturating_add(1), ..before };
            self.by_slot.insert(slot, after);
            self.unlist(before);
            let at = self.order.partition_point(|other| *other > after);
            self.order.insert(at, after);
        }
    }

    /// Forgets a member that is no longer in the table.
    pub(crate) fn forget(&mut self, slot: Slot) {
        if let Some(carried) = self.by_slot.remove(&slot) {
            self.unlist(carried);
        }
    }

    /// Returns the members whose update was sent fewer than `limit` times, fewest first.
    pub(super) fn fewest_sent(&self, limit: u32) -> impl Iterator<Item = Slot> {
        self.order.iter().rev().take_while(move |carried| carried.times < limit).map(|carried| carried.slot)
    }

    fn unlist(&mut self, carried: Carried) {
        if let Ok(at) = self.order.binary_search_by(|other| carried.cmp(other)) {
            self.order.remove(at);
        }
    }
}

impl Gossip {
    pub(crate) fn new(rng: ChaCha8Rng) -> Self {
        Self {
            rng,
            recent: Recent::default(),
            turns: VecDeque::new(),
            flooding: Flooding::default(),
            sync: FingerprintMismatch::default(),
        }
    }

    /// Notes that a member's record changed, as this run says. `is_own`: the change is this node's, which sends it to more peers,
    /// and once more.
    pub(crate) fn spread(&mut self, cx: &mut Context, slot: Slot, from: Option<Run>, is_own: bool) {
        self.recent.note(slot);
        self.flood_news(cx, slot, from);
        if is_own {
            self.flooding.originate(slot);
        }
    }

    /// Forgets a place in the view, before the table gives it to somebody else.
    pub(crate) fn forget(&mut self, slot: Slot) {
        self.recent.forget(slot);
        self.turns.retain(|(other, _)| *other != slot);
        self.flooding.forget(slot);
    }

    /// Forgets everything but its random numbers.
    pub(crate) fn forget_everybody(&mut self) {
        *self = Self::new(self.rng.clone());
    }

    /// Begins at a random point of the interval, so that nodes started together do not send together.
    pub(crate) fn start(&mut self, cx: &mut Context) {
        for timer in [Timer::Gossip, Timer::Heartbeat] {
            let phase = self.rng.random::<f64>();
            cx.timers.set(timer, cx.now + cx.settings.gossip_interval.mul_f64(phase));
        }
    }

    /// Returns a little less than this time, by chance.
    fn a_little_early(&mut self, time: Duration) -> Duration {
        time.mul_f64(1.0 - MOST_EARLY * self.rng.random::<f64>())
    }

    /// Returns whose turn it is, and sets the next beat.
    pub(crate) fn next_turn(&mut self, out: &mut Outbox<'_>) -> Option<HeartbeatTurn> {
        let now = out.cx.now;
        self.turns.retain(|(slot, _)| out.detector_facts().is_owed_heartbeats(*slot));
        if !out.cx.phase.is_joining() {
            let have_turns: BTreeSet<Slot> = self.turns.iter().map(|(slot, _)| *slot).collect();
            let is_new = |slot: &Slot| !have_turns.contains(slot) && out.detector_facts().is_owed_heartbeats(*slot);
            let mut new: Vec<Slot> = out.observers.neighbours().filter(is_new).collect();
            new.shuffle(&mut self.rng);
            let by = now + out.cx.settings.heartbeat_interval;
            self.turns.extend(new.into_iter().map(|slot| (slot, by)));
        }
        let beat = beat(&out.cx.settings, self.turns.len());
        let next = beat * self.turns.len() as u32;
        let turn = self.turns.pop_front().map(|(slot, _)| {
            self.turns.push_back((slot, now + next));
            HeartbeatTurn { slot, next }
        });
        // Fewer observers have longer beats, but not before those that wait have had what they were promised.
        let promised = self.turns.iter().zip(1..).map(|((_, by), nth)| by.since(now) / nth);
        let pause = promised.chain([beat]).min().unwrap_or(beat);
        out.cx.timers.set(Timer::Heartbeat, now + self.a_little_early(pause));
        turn
    }

    /// Returns the members, of all live ones, that are sent to besides at this tick, and sets the next tick.
    pub(crate) fn next_anybody(&mut self, out: &mut Outbox<'_>) -> BTreeSet<Slot> {
        let pause = self.a_little_early(out.cx.settings.gossip_interval);
        out.cx.timers.set(Timer::Gossip, out.cx.now + pause);
        let (fanout, live) = (out.cx.settings.gossip_fanout, out.view.live());
        if out.observers.is_full_mesh(live.len()) {
            return BTreeSet::new();
        }
        let are_sent = (0..fanout).filter(|_| self.rng.random_ratio(1, ANYBODY_ONE_IN)).count();
        (0..are_sent).filter_map(|_| live.choose(&mut self.rng).copied()).collect()
    }

    /// Sends the fingerprint alone: a member whose own differs begins a sync. What this node knows of the views of members
    /// that it does not observe is old, and a question, of which most are due in a large cluster, would be answered.
    pub(crate) fn show_fingerprint(out: &mut Outbox<'_>, slot: Slot) {
        let mut packet = out.packet(usize::MAX);
        packet.push(&Message::Heartbeat(out.view.entry(slot).peer.stamp(out.cx.now)));
        out.push_told(&mut packet, slot);
        out.send_to(slot, packet);
    }

    /// Adds recent updates for a peer whose fingerprint differed when it was last heard. Of peers that were never heard, only
    /// neighbours count as lacking updates: any other peer sees by our fingerprint that it lacks some, and shows it.
    pub(crate) fn push_news_if_lacking(&mut self, out: &mut Outbox<'_>, packet: &mut PacketBuilder, slot: Slot) {
        let session = out.view.entry(slot).peer.session.as_ref();
        let may_lack_news = match session {
            Some(session) => session.fingerprint != out.view.fingerprint(),
            None => out.observers.observes(slot),
        };
        if may_lack_news {
            self.push_recent_updates(out, packet, carry_limit(out.view));
        }
    }

    /// Adds recent updates that were sent fewer than `limit` times, as many as fit.
    pub(crate) fn push_recent_updates(&mut self, out: &mut Outbox<'_>, packet: &mut PacketBuilder, limit: u32) {
        let slots: Vec<Slot> = self.recent.fewest_sent(limit).collect();
        for slot in slots {
            if !out.push_news(packet, slot) {
                break;
            }
            self.recent.sent(slot);
        }
    }
}

/// Returns the time from one beat to the next, if so many members observe this node.
fn beat(settings: &Settings, observers: usize) -> Duration {
    let pace = settings.gossip_interval / settings.gossip_fanout.min(observers).max(1) as u32;
    pace.min(settings.heartbeat_interval / observers.max(1) as u32)
}

/// Returns the number of times that one update is carried: 3 × ⌈log2(n + 1)⌉.
fn carry_limit(view: &View) -> u32 {
    let members = view.live().len() + 1;
    3 * (usize::BITS - members.leading_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_fewest_goes_first_and_stops_at_the_limit() {
        let mut recent = Recent::default();
        for slot in [1, 2, 3] {
            recent.note(slot);
        }
        recent.sent(3);
        recent.sent(3);
        recent.sent(1);
        assert_eq!(recent.fewest_sent(u32::MAX).collect::<Vec<_>>(), [2, 1, 3]);
        assert_eq!(recent.fewest_sent(2).collect::<Vec<_>>(), [2, 1]);
        recent.note(3);
        assert_eq!(recent.fewest_sent(u32::MAX).next(), Some(3), "news starts anew");
    }

    #[test]
    fn the_most_sent_gives_way_at_the_bound() {
        let mut recent = Recent::default();
        for slot in 0..MAX_RECENT_UPDATES as Slot {
            recent.note(slot);
        }
        recent.sent(7);
        recent.note(10_000);
        assert_eq!(recent.fewest_sent(u32::MAX).count(), MAX_RECENT_UPDATES);
        assert!(!recent.fewest_sent(u32::MAX).any(|slot| slot == 7));
    }
}
